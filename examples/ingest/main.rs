//! Asynchronous input: tokio reads messages from sockets directly into regions that tasks have lent out, and ordinary
//! tasks reduce the messages as they arrive. While all senders are silent, no core is busy.

#[path = "../common/mod.rs"]
mod common;

use clap::Parser;
use common::{Machine, Outcome, integer};
use std::process::ExitCode;
use std::time::Instant;
use thalweg::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Reads messages from sockets and sums up what each sender sent.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    machine: Machine,
    /// Samples in a message
    #[arg(long, value_name = "N", default_value = "4096", value_parser = integer(1..=1 << 20))]
    size: usize,
    /// Senders, each with its own connection
    #[arg(long, value_name = "N", default_value = "8", value_parser = integer(1..=256))]
    senders: usize,
    /// Messages per sender
    #[arg(long, value_name = "N", default_value = "16", value_parser = integer(1..=10_000))]
    messages: usize,
    /// Run a plain loop: receive, then compute, one message after the other
    #[arg(long, conflicts_with_all = ["units", "scheduler", "simulate"])]
    serial: bool,
}

/// Returns the `i`-th sample that a sender sends.
fn sample(sender: usize, i: usize) -> f64 {
    ((sender + 1) * (i % 1000)) as f64 / 1000.0
}

/// The computation for each message.
fn energy(samples: &[f64]) -> f64 {
    samples.iter().map(|x| (x * x + 1.0).sqrt()).sum()
}

async fn send(sender: usize, to: std::net::SocketAddr, size: usize, messages: usize) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(to).await?;
    for message in 0..messages {
        let samples: Vec<u8> = (0..size).flat_map(|i| sample(sender, message * size + i).to_le_bytes()).collect();
        stream.write_all(&samples).await?;
    }
    stream.shutdown().await
}

/// Fills `samples` with the next message.
async fn receive(stream: &mut TcpStream, samples: &mut [f64]) -> std::io::Result<()> {
    for x in samples {
        *x = stream.read_f64_le().await?;
    }
    Ok(())
}

fn run(flags: &Flags, rt: &Runtime) -> common::Result<Outcome> {
    let Flags { size, senders, messages, serial, .. } = *flags;
    let network = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let streams = network.block_on(async {
        let mut streams = Vec::new();
        for sender in 0..senders {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            tokio::spawn(send(sender, listener.local_addr()?, size, messages));
            streams.push(listener.accept().await?.0);
        }
        Ok::<_, std::io::Error>(streams)
    })?;
    let start = Instant::now();
    let sums: Vec<f64> = if serial {
        let mut sums = vec![0.0; senders];
        let mut samples = vec![0.0; size];
        for (sum, mut stream) in sums.iter_mut().zip(streams) {
            for _ in 0..messages {
                network.block_on(receive(&mut stream, &mut samples))?;
                *sum += energy(&samples);
            }
        }
        sums
    } else {
        let sums = rt.zeros::<f64, _>(senders);
        // Each sender has two buffers, so that one is filled while the other is processed.
        let buffers: Vec<_> = (0..senders).map(|_| [(); 2].map(|()| rt.zeros::<f64, _>(size))).collect();
        let streams: Vec<_> = streams.into_iter().map(|s| std::sync::Arc::new(tokio::sync::Mutex::new(s))).collect();
        let order: Vec<_> = (0..senders).map(|_| rt.scalar(0u8)).collect(); // orders the messages of a sender
        for (message, sender) in (0..messages).flat_map(|message| (0..senders).map(move |sender| (message, sender))) {
            let buffer = &buffers[sender][message % 2];
            let (stream, handle) = (streams[sender].clone(), network.handle().clone());
            rt.task("receive", (order[sender].inout(), buffer.output()))
                .host_async(move |_, (_turn, mut samples)| async move {
                    // Sockets need tokio's reactor, so a tokio task fills the buffer and wakes this future.
                    handle.spawn(async move { receive(&mut *stream.lock().await, &mut samples).await }).await?
                })
                .submit()?;
            rt.task("energy", (buffer.input(), sums.slice(sender).inout()))
                .cpu(move |_, (samples, sum)| sum[0] += energy(samples))
                .submit()?;
        }
        rt.wait()?;
        rt.take(sums)?
    };
    let elapsed = start.elapsed();
    let expected = |sender: usize| {
        let message = |m: usize| energy(&(0..size).map(|i| sample(sender, m * size + i)).collect::<Vec<_>>());
        (0..messages).map(message).fold(0.0, |sum, x| sum + x)
    };
    println!("total {:.6}", sums.iter().sum::<f64>());
    let verified = rt.machine().is_simulated() || (0..senders).all(|sender| sums[sender] == expected(sender));
    Ok(Outcome { elapsed, verified: Some(verified) })
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    flags.machine.run(|rt| run(&flags, rt))
}

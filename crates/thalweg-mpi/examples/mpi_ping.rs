//! The time of a dependent pair of tasks on two ranks, of the same MPI's bare messages, and of a task that is left out.
//!
//! `mpirun -np 2 target/release/examples/mpi_ping bare|tasks|pruned [ROUNDS] [DOUBLES]`

use mpi::traits::*;
use std::error::Error;
use std::time::Instant;
use thalweg::Runtime;
use thalweg_mpi::{Cluster, ClusterData};

/// Microseconds from one rank to the other.
fn bare(rounds: usize, len: usize) -> Result<f64, Box<dyn Error>> {
    let universe = mpi::initialize().ok_or("MPI cannot be initialized")?;
    let world = universe.world();
    let (other, mut data) = (world.process_at_rank(1 - world.rank()), vec![0.0f64; len]);
    let begin = Instant::now();
    for _ in 0..rounds {
        if world.rank() == 0 {
            other.send(&data[..]);
            other.receive_into(&mut data[..]);
        } else {
            other.receive_into(&mut data[..]);
            data[0] += 1.0;
            other.send(&data[..]);
        }
    }
    Ok(begin.elapsed().as_secs_f64() * 1e6 / (2 * rounds) as f64)
}

/// Microseconds from a task on one rank to the next on the other.
fn tasks(rounds: usize, len: usize) -> Result<f64, Box<dyn Error>> {
    let cluster = Cluster::init(Runtime::builder().compute_units("1:CPU:1").pin_threads(false))?;
    let (x, y) = (cluster.data(0, vec![0.0f64; len]), cluster.data(cluster.ranks() - 1, vec![0.0f64; len]));
    cluster.wait()?;
    let begin = Instant::now();
    for _ in 0..rounds {
        cluster.task("to", (x.input(), y.output())).cpu(|_, (x, y)| y[0] = x[0] + 1.0).submit()?;
        cluster.task("fro", (y.input(), x.output())).cpu(|_, (y, x)| x[0] = y[0] + 1.0).submit()?;
    }
    cluster.wait()?;
    let time = begin.elapsed().as_secs_f64() * 1e6 / (2 * rounds) as f64;
    assert_eq!(cluster.read(&x)?[0], 2.0 * rounds as f64);
    Ok(time)
}

/// Microseconds for a task that does not concern this rank.
fn pruned(rounds: usize) -> Result<f64, Box<dyn Error>> {
    let cluster = Cluster::init(Runtime::builder().compute_units("1:CPU:1").pin_threads(false))?;
    let other = (cluster.rank() + 1) % cluster.ranks();
    let x: ClusterData<f64> = cluster.distributed(1000, 1, |_| other); // each rank pretends to own nothing
    let begin = Instant::now();
    let mut local = 0;
    for round in 0..rounds {
        let (from, to) = (x.nth(round % 1000), x.nth((round + 1) % 1000));
        local += usize::from(cluster.is_local(&(from.input(), to.inout())));
    }
    let time = begin.elapsed().as_secs_f64() * 1e6 / rounds as f64;
    assert!(local == 0 || cluster.ranks() == 1);
    Ok(time)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize, default| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (rounds, len) = (number(2, 10_000)?, number(3, 1)?);
    let time = match arguments.get(1).map(String::as_str) {
        Some("bare") => bare(rounds, len)?,
        Some("tasks") => tasks(rounds, len)?,
        Some("pruned") => pruned(rounds)?,
        _ => return Err("cannot run: the first argument is not `bare`, `tasks` or `pruned`; try one of them".into()),
    };
    println!("{time:.2} us a hop");
    Ok(())
}

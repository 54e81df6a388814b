//! The five tasks on A, B, C and D from MACC's slides: data stay on the device from task to task, and nothing is
//! copied to the host before the last task, which runs on a core.
//!
//! No task says which data move where: that follows from the directions, which are the types of the functions'
//! parameters.

#[path = "../common/mod.rs"]
mod common;

use clap::Parser;
use common::{Machine, Outcome, integer};
use std::process::ExitCode;
use thalweg::loops::{Out, target};
use thalweg::prelude::*;

/// Runs five tasks on four vectors
#[derive(Parser)]
struct Options {
    /// Elements of a vector
    #[arg(long, value_name = "N", default_value = "100000", value_parser = integer(1..=1_000_000_000))]
    size: usize,
    #[command(flatten)]
    machine: Machine,
}

/// Task 1: `inout(C) out(D)`.
#[target]
fn first(c: &mut [f64], d: Out<'_, [f64]>) {
    for i in 0..c.len() {
        c[i] = 0.5 * c[i] + 1.0;
        d[i] = c[i] * c[i];
    }
}

/// Task 2: `in(A) out(B)`.
#[target]
fn second(a: &[f64], b: Out<'_, [f64]>) {
    for i in 0..a.len() {
        b[i] = 2.0 * a[i] + 1.0;
    }
}

/// Task 3: `inout(A, B)`.
#[target]
fn third(a: &mut [f64], b: &mut [f64]) {
    for i in 0..a.len() {
        a[i] += 0.25 * b[i];
        b[i] -= a[i];
    }
}

/// Task 4: `inout(C, B) in(D)`.
#[target]
fn fourth(c: &mut [f64], b: &mut [f64], d: &[f64]) {
    for i in 0..c.len() {
        b[i] += d[i];
        c[i] += b[i];
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    options.machine.run(|rt| {
        if rt.machine().is_simulated() {
            return Err("cannot simulate these tasks: they have no cost; try `jacobi`".into());
        }
        let begin = |factor: f64| (0..options.size).map(|i| factor * (i % 1000) as f64).collect::<Vec<_>>();
        let [mut a, mut b, mut c, mut d] = [1.0, 0.0, -0.5, 0.0].map(begin);
        let data = [&a, &b, &c, &d].map(|x| rt.data(x.clone()));
        let [da, db, dc, dd] = &data;
        let start = rt.now();
        for _ in 0..2 {
            first::task(rt, dc, dd).submit()?;
            second::task(rt, da, db).submit()?;
            third::task(rt, da, db).submit()?;
            // The functions themselves, one after the other: the reference for the tasks.
            first(&mut c, &mut d);
            second(&a, &mut b);
            third(&mut a, &mut b);
        }
        fourth::task(rt, dc, db, dd).submit()?;
        fourth(&mut c, &mut b, &d);
        rt.wait()?;
        let links = rt.statistics().links;
        let home: u64 = links.iter().filter(|link| link.to == SpaceId::HOST).map(|link| link.copies).sum();
        // Task 5, on a core: `in(A, C)`.
        let right = rt.scalar(0u32);
        rt.task("fifth", (da.input(), dc.input(), right.output()))
            .host(move |_, (found_a, found_c, right)| right[0] = (found_a == a && found_c == c).into())
            .submit()?;
        let right = rt.read(&right)?[0] == 1;
        let elapsed = rt.now() - start;
        // A CPU unit may run a task in between, and then needs its inputs on the host.
        let has_cores = rt.machine().configuration().contains("CPU");
        println!("{home} copies to the host before the last task");
        Ok(Outcome { elapsed, verified: Some(right && (has_cores || home == 0)) })
    })
}

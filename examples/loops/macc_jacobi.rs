//! Laplace's equation by Jacobi's method as in MACC's slides: two loops, one of them with a reduction, until the
//! change is small. The data stay where they are used; only the change is copied to the host in each sweep. With a
//! device, the program compares the bytes that were copied with those that the clauses of the slides' two OpenACC
//! versions copy.

#[path = "../common/mod.rs"]
mod common;

use clap::Parser;
use common::{Machine, Outcome, integer};
use ndarray::{Array2, ArrayRef2};
use std::process::ExitCode;
use thalweg::loops::{Out, target};

/// Laplace's equation on a square, by annotated loops
#[derive(Parser)]
struct Options {
    /// Points along each side of the square, boundary included
    #[arg(long, value_name = "N", default_value = "130", value_parser = integer(3..=20_000))]
    size: usize,
    /// Maximum number of sweeps
    #[arg(long, value_name = "N", default_value = "200", value_parser = integer(1..=1_000_000_000))]
    sweeps: usize,
    #[command(flatten)]
    machine: Machine,
}

/// Saves the values of the last sweep.
#[target]
fn keep(u: &ArrayRef2<f64>, old: Out<'_, ArrayRef2<f64>>) {
    #[distribute]
    for i in 0..u.nrows() {
        #[parallel_for]
        for j in 0..u.ncols() {
            old[[i, j]] = u[[i, j]];
        }
    }
}

/// Sets each point to the mean of its neighbours, and adds up the changes.
#[target]
fn relax(old: &ArrayRef2<f64>, u: &mut ArrayRef2<f64>, change: &mut f64) {
    #[distribute]
    for i in 1..u.nrows() - 1 {
        #[parallel_for(reduction(+: change))]
        for j in 1..u.ncols() - 1 {
            let mean = 0.25 * ((old[[i - 1, j]] + old[[i + 1, j]]) + (old[[i, j - 1]] + old[[i, j + 1]]));
            *change += (mean - old[[i, j]]).abs();
            u[[i, j]] = mean;
        }
    }
}

/// Returns the bytes that the slides' OpenACC versions copy. The baseline's loops have `copyin(u) copyout(uold)` and
/// `copyin(uold) copyout(u) copy(err)`. The optimised version has `copy(u) copyout(err) create(uold)` around all
/// sweeps, and its host needs `err` after each.
fn openacc_bytes(n: usize, sweeps: usize) -> [usize; 2] {
    let (array, number) = (n * n * size_of::<f64>(), size_of::<f64>());
    [sweeps * (4 * array + 2 * number), 2 * array + sweeps * number]
}

fn main() -> ExitCode {
    let options = Options::parse();
    options.machine.run(|rt| {
        if rt.machine().is_simulated() {
            return Err("cannot simulate this: the number of sweeps depends on values; try `jacobi`".into());
        }
        let n = options.size;
        // Harmonic on the boundary, 0 inside.
        let exact = |(i, j): (usize, usize)| {
            let (x, y) = (i as f64 / (n - 1) as f64, j as f64 / (n - 1) as f64);
            x * x - y * y
        };
        let is_inner = |k: usize| 0 < k && k < n - 1;
        let begin =
            Array2::from_shape_fn((n, n), |(i, j)| if is_inner(i) && is_inner(j) { 0.0 } else { exact((i, j)) });
        let (u, old) = (rt.array(begin.clone()), rt.zeros([n, n]));
        let (mut plain, mut plain_old) = (begin.clone(), begin);
        let (start, mut sweeps, mut changes) = (rt.now(), 0, Vec::new());
        while sweeps < options.sweeps && changes.last().is_none_or(|change| *change > 1e-9) {
            let change = rt.scalar(0.0);
            keep::task(rt, &u, &old).submit()?;
            relax::task(rt, &old, &u, &change).submit()?;
            changes.push(rt.read(&change)?[0]);
            sweeps += 1;
        }
        let elapsed = rt.now() - start;
        for _ in 0..sweeps {
            keep(&plain, &mut plain_old);
            relax(&plain_old, &mut plain, &mut 0.0);
        }
        let is_falling = changes.windows(2).all(|pair| pair[1] <= pair[0]);
        println!("{n} x {n} points, {sweeps} sweeps");
        println!("change {:.10e}", changes.last().copied().unwrap_or(0.0));
        let found = rt.take(u)?;
        if rt.machine().num_devices() > 0 {
            let copied = common::copied_bytes(rt);
            let [baseline, optimised] = openacc_bytes(n, sweeps);
            println!("copied {copied} bytes; OpenACC copies {baseline} in the baseline, {optimised} optimised");
        }
        Ok(Outcome { elapsed, verified: Some(found == plain && is_falling) })
    })
}

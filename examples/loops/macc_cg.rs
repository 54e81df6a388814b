//! Conjugate gradients by annotated loops: a sparse matrix in compressed rows, with dot products as reductions. The
//! scalars of the method stay on the device, and no thread waits before the end.

#[path = "../common/mod.rs"]
mod common;

use clap::Parser;
use common::{Machine, Outcome, integer};
use std::process::ExitCode;
use thalweg::loops::{Out, target};

/// Conjugate gradients for Laplace's equation on a square, by annotated loops
#[derive(Parser)]
struct Options {
    /// Unknowns along each side of the square
    #[arg(long, value_name = "N", default_value = "40", value_parser = integer(2..=2_000))]
    size: usize,
    #[command(flatten)]
    machine: Machine,
}

/// q <- A p
#[target]
fn product(offsets: &[u32], columns: &[u32], values: &[f64], p: &[f64], q: Out<'_, [f64]>) {
    for row in 0..q.len() {
        let mut sum = 0.0;
        for entry in offsets[row] as usize..offsets[row + 1] as usize {
            sum += values[entry] * p[columns[entry] as usize];
        }
        q[row] = sum;
    }
}

/// sum <- sum + x y
#[target]
fn dot(x: &[f64], y: &[f64], sum: &mut f64) {
    for i in 0..x.len() {
        *sum += x[i] * y[i];
    }
}

/// x <- x + (rho / pq) p, r <- r - (rho / pq) q
#[target]
fn step(rho: &f64, pq: &f64, p: &[f64], q: &[f64], x: &mut [f64], r: &mut [f64]) {
    for i in 0..x.len() {
        x[i] += *rho / *pq * p[i];
        r[i] -= *rho / *pq * q[i];
    }
}

/// p <- r + (rho / before) p
#[target]
fn direction(rho: &f64, before: &f64, r: &[f64], p: &mut [f64]) {
    for i in 0..p.len() {
        p[i] = r[i] + *rho / *before * p[i];
    }
}

/// Returns the five-point matrix: offsets, columns, values.
fn matrix(side: usize) -> (Vec<u32>, Vec<u32>, Vec<f64>) {
    let (mut offsets, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
    for row in 0..side * side {
        let (i, j) = (row / side, row % side);
        let mut entry = |is_there: bool, column: usize, value: f64| {
            if is_there {
                columns.push(column as u32);
                values.push(value);
            }
        };
        entry(i > 0, row.wrapping_sub(side), -1.0);
        entry(j > 0, row.wrapping_sub(1), -1.0);
        entry(true, row, 4.0);
        entry(j + 1 < side, row + 1, -1.0);
        entry(i + 1 < side, row + side, -1.0);
        offsets.push(columns.len() as u32);
    }
    (offsets, columns, values)
}

fn main() -> ExitCode {
    let options = Options::parse();
    options.machine.run(|rt| {
        if rt.machine().is_simulated() {
            return Err("cannot simulate these tasks: they have no cost; try `cg`".into());
        }
        let (side, n) = (options.size, options.size * options.size);
        let (offsets, columns, values) = matrix(side);
        let b: Vec<f64> = (0..n).map(|i| 1.0 + (i % 7) as f64).collect();
        let (dn, dc, dv) = (rt.data(offsets.clone()), rt.data(columns.clone()), rt.data(values.clone()));
        let (x, r, p, q) = (rt.zeros(n), rt.data(b.clone()), rt.data(b.clone()), rt.zeros(n));
        let start = rt.now();
        let mut rho = rt.scalar(0.0);
        dot::task(rt, &r, &r, &rho).submit()?;
        for _ in 0..3 * side {
            let (pq, next) = (rt.scalar(0.0), rt.scalar(0.0));
            product::task(rt, &dn, &dc, &dv, &p, &q).submit()?;
            dot::task(rt, &p, &q, &pq).submit()?;
            step::task(rt, &rho, &pq, &p, &q, &x, &r).submit()?;
            dot::task(rt, &r, &r, &next).submit()?;
            direction::task(rt, &next, &rho, &r, &p).submit()?;
            rho = next;
        }
        let x = rt.take(x)?;
        let elapsed = rt.now() - start;
        // The residual, by the function itself.
        let mut ax = vec![0.0; n];
        product(&offsets, &columns, &values, &x, &mut ax);
        let left = ax.iter().zip(&b).map(|(ax, b)| (ax - b).abs()).fold(0.0, f64::max);
        println!("{n} unknowns, {} steps", 3 * side);
        println!("residual {:.10e}", rt.read(&rho)?[0].sqrt());
        Ok(Outcome { elapsed, verified: Some(left < 1e-6) })
    })
}

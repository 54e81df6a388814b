//! Conjugate gradients for a band matrix: vectors in blocks, and sums whose bits do not depend on the number of ranks.
//!
//! `mpirun -np 4 target/release/examples/mpi_cg [SIZE] [BLOCK] [STEPS]`

use std::error::Error;
use thalweg::Runtime;
use thalweg::memory::Sum;
use thalweg_mpi::{Cluster, ClusterData, ClusterError, owners};

/// Half the bandwidth of the matrix.
const BAND: usize = 3;

/// Element `i` of the matrix's product with a vector, whose elements `x` returns.
fn row(i: usize, size: usize, x: impl Fn(usize) -> f64) -> f64 {
    let near = i.saturating_sub(BAND)..(i + BAND + 1).min(size);
    near.map(|j| if i == j { (2 * BAND + 1) as f64 } else { -1.0 / (1 + i.abs_diff(j)) as f64 } * x(j)).sum()
}

fn dot(
    cluster: &Cluster,
    x: &ClusterData<f64>,
    y: &ClusterData<f64>,
    to: &ClusterData<f64>,
) -> Result<(), ClusterError> {
    cluster.task("zero", to.output()).cpu(|_, to| to[0] = 0.0).submit()?;
    for (at, x) in x.tiles().enumerate() {
        let task = cluster.task("dot", (x.input(), y.nth(at).input(), to.reduction(Sum)));
        task.cpu(|_, (x, y, to)| to[0] += x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>()).submit()?;
    }
    Ok(())
}

/// Solves `A x = b` and returns the squared residual after each step.
fn solve(cluster: &Cluster, size: usize, block: usize, steps: usize) -> Result<(Vec<f64>, Vec<f64>), ClusterError> {
    let make = || -> ClusterData<f64> { cluster.distributed(size, block, owners::block) };
    let scalar = || cluster.data(0, vec![0.0f64]);
    let (x, r, p, q) = (make(), make(), make(), make());
    let (rho, old, pq) = (scalar(), scalar(), scalar());
    for at in 0..x.num_tiles() {
        let first = at * block;
        let task = cluster.task("begin", (r.nth(at).output(), p.nth(at).output()));
        task.cpu(move |_, (r, p)| {
            r.iter_mut().enumerate().for_each(|(i, r)| *r = ((first + i) as f64 * 0.37).sin());
            p.copy_from_slice(r);
        })
        .submit()?;
    }
    dot(cluster, &r, &r, &rho)?;
    let mut residuals = Vec::new();
    for _ in 0..steps {
        for at in 0..x.num_tiles() {
            let first = at * block;
            let left = at.checked_sub(1).map(|left| p.nth(left));
            let right = (at + 1 < x.num_tiles()).then(|| p.nth(at + 1));
            let near = left.map(|left| left.block(left.len().saturating_sub(BAND)..left.len()).input()).into_iter();
            let near: Vec<_> = near.chain(right.map(|right| right.block(..BAND.min(right.len())).input())).collect();
            let has_left = left.is_some();
            let task = cluster.task("multiply", (p.nth(at).input(), near, q.nth(at).output()));
            task.cpu(move |_, (p, near, q)| {
                let (left, right) = match (has_left, &near[..]) {
                    (true, [left, rest @ ..]) => (*left, rest.first().copied().unwrap_or(&[])),
                    (_, rest) => (&[][..], rest.first().copied().unwrap_or(&[])),
                };
                let value = |j: usize| match j.checked_sub(first) {
                    None => left[left.len() + j - first],
                    Some(at) if at < p.len() => p[at],
                    Some(at) => right[at - p.len()],
                };
                q.iter_mut().enumerate().for_each(|(i, q)| *q = row(first + i, size, value));
            })
            .submit()?;
        }
        dot(cluster, &p, &q, &pq)?;
        for at in 0..x.num_tiles() {
            let vectors = (p.nth(at).input(), q.nth(at).input(), x.nth(at).inout(), r.nth(at).inout());
            let task = cluster.task("advance", (rho.input(), pq.input(), vectors));
            task.cpu(|_, (rho, pq, (p, q, x, r))| {
                let alpha = rho[0] / pq[0];
                x.iter_mut().zip(p).for_each(|(x, p)| *x += alpha * p);
                r.iter_mut().zip(q).for_each(|(r, q)| *r -= alpha * q);
            })
            .submit()?;
        }
        cluster.task("keep", (rho.input(), old.output())).cpu(|_, (rho, old)| old[0] = rho[0]).submit()?;
        dot(cluster, &r, &r, &rho)?;
        for at in 0..x.num_tiles() {
            let task = cluster.task("turn", (rho.input(), old.input(), r.nth(at).input(), p.nth(at).inout()));
            task.cpu(|_, (rho, old, r, p)| {
                let beta = rho[0] / old[0];
                p.iter_mut().zip(r).for_each(|(p, r)| *p = r + beta * *p);
            })
            .submit()?;
        }
        residuals.push(cluster.read(&rho)?[0]);
    }
    Ok((cluster.gather(&x)?.to_vec(), residuals))
}

fn main() -> Result<(), Box<dyn Error>> {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let number = |at: usize, default| numbers.get(at).copied().unwrap_or(default);
    let (size, block, steps) = (number(0, 1000).max(1), number(1, 100).max(BAND), number(2, 25));
    let cluster = Cluster::init(Runtime::builder().compute_units("1:CPU:1").pin_threads(false))?;
    let (x, residuals) = solve(&cluster, size, block, steps)?;
    cluster.wait()?;
    let traffic = cluster.traffic();
    println!("rank {} of {}: {} messages, {} bytes", cluster.rank(), cluster.ranks(), traffic.messages, traffic.bytes);
    let error = |i: usize| (row(i, size, |j| x[j]) - (i as f64 * 0.37).sin()).abs();
    let worst = (0..size).map(error).fold(0.0, f64::max);
    let last = residuals.last().copied().unwrap_or(f64::INFINITY);
    // The bits of the residual are the same on any number of ranks: compare this line of several runs.
    println!("residual {:016x}, largest error {worst:.1e}", last.to_bits());
    println!("{}", if worst < 1e-6 { "VERIFIED" } else { "FAILED" });
    assert!(worst < 1e-6, "the solution does not solve the system");
    Ok(())
}

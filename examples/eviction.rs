//! Bytes that a device with too little memory moves, by the choice of data to evict.
//!
//! A tiled matrix product and a Cholesky factorization run on a device whose memory holds a quarter of their data:
//! simulated, where nothing is computed, and emulated, where the results are compared with those of a device with
//! enough memory. A table compares evictions by last use and by next use with a lower bound, which holds for every
//! order of the multiplications and every choice of evictions. The order of the tasks is the scheduler's.
//!
//! Lower bounds, for n × n matrices and a memory of M numbers:
//! - Matrix product: 2 n³ / √M − 2 M numbers (T. M. Smith, B. Lowery, J. Langou, R. A. van de Geijn, "A Tight I/O Lower
//!   Bound for Matrix Multiplication", arXiv:1702.02017; the order is by Hong and Kung 1981).
//! - Cholesky: n³ / (3 √2 √M) numbers (O. Beaumont, L. Eyraud-Dubois, M. Vérité, J. Langou, "I/O-Optimal Algorithms for
//!   Symmetric Linear Algebra Kernels", SPAA 2022).
//! - Both: each operand is copied to the device at least once, and each result back.

#[path = "cholesky/factor.rs"]
mod factor;
#[path = "cholesky/kernels.rs"]
mod kernels;

use std::error::Error;

use clap::Parser;
use factor::{element, factor};
use ndarray::Array2;
use ndarray::linalg::general_mat_mul;
use thalweg::Eviction;
use thalweg::prelude::*;

/// Rows and columns of a tile. The ratios of the bytes do not depend on it.
const TILE: usize = 16;
const TILE_BYTES: u64 = 8 * (TILE * TILE) as u64;

/// Bytes that a device with too little memory moves
#[derive(Parser)]
struct Options {
    /// Tiles along each side of a matrix
    #[arg(long, value_name = "N", default_value = "20")]
    tiles: usize,
    /// Scheduler that orders the tasks
    #[arg(long, value_name = "NAME", default_value = "stealing")]
    scheduler: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Problem {
    Product,
    Cholesky,
}

/// A problem with matrices of `tiles` × `tiles` tiles.
#[derive(Clone, Copy)]
struct Case {
    problem: Problem,
    tiles: usize,
    simulated: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Options { tiles, scheduler } = Options::parse();
    println!(
        "| problem, {tiles} × {tiles} tiles | device | least recent, MB | furthest use, MB | fewer by | lower bound, MB |"
    );
    println!("| --- | --- | ---: | ---: | ---: | ---: |");
    for (problem, name) in [(Problem::Product, "matrix product"), (Problem::Cholesky, "Cholesky")] {
        for (simulated, device) in [(true, "simulated"), (false, "emulated")] {
            let case = Case { problem, tiles, simulated };
            let [recent, furthest] = case.compare(&scheduler)?;
            let (fewer, least) = (100.0 - 100.0 * furthest / recent, case.lower_bound() / 1e6);
            let [recent, furthest] = [recent, furthest].map(|bytes| bytes / 1e6);
            println!("| {name} | {device} | {recent:.2} | {furthest:.2} | {fewer:.0} % | {least:.2} |");
        }
    }
    Ok(())
}

impl Case {
    /// Returns the number of tiles of all data.
    fn data_tiles(&self) -> usize {
        match self.problem {
            Problem::Product => 3 * self.tiles.pow(2),
            Problem::Cholesky => self.tiles * (self.tiles + 1) / 2,
        }
    }

    /// Returns the size of a quarter of the data in bytes.
    fn memory_bytes(&self) -> u64 {
        (self.data_tiles() as u64 / 4).max(9) * TILE_BYTES
    }

    /// Returns the least number of bytes that move, in any order.
    fn lower_bound(&self) -> f64 {
        let (n, memory) = ((self.tiles * TILE) as f64, self.memory_bytes() as f64 / 8.0);
        let (bound, once) = match self.problem {
            Problem::Product => (2.0 * n.powi(3) / memory.sqrt() - 2.0 * memory, 4.0 * n * n),
            Problem::Cholesky => {
                (n.powi(3) / (3.0 * (2.0 * memory).sqrt()), 2.0 * (self.data_tiles() * TILE * TILE) as f64)
            }
        };
        8.0 * bound.max(once)
    }

    /// Returns the bytes moved with evictions by last use and by next use.
    fn compare(&self, scheduler: &str) -> Result<[f64; 2], Box<dyn Error>> {
        let runs = [Eviction::LeastRecent, Eviction::FurthestUse].map(|eviction| self.run(scheduler, eviction, false));
        let [(recent, one), (furthest, other)] = runs.map(|run| run.expect("the machine can be built"));
        if !self.simulated {
            let (_, expected) = self.run(scheduler, Eviction::LeastRecent, true)?;
            assert!(one == expected && other == expected, "an eviction has changed a result");
        }
        Ok([recent, furthest])
    }

    /// Runs the problem. Returns the bytes moved, and the result unless it was simulated.
    fn run(
        &self,
        scheduler: &str,
        eviction: Eviction,
        has_room: bool,
    ) -> Result<(f64, Option<Array2<f64>>), Box<dyn Error>> {
        let memory_bytes = if has_room { u64::MAX } else { self.memory_bytes() };
        // All tasks are submitted before the first of them runs, so that all of them are known.
        let builder = Runtime::builder().scheduler(scheduler).eviction(eviction).max_pending_tasks(usize::MAX);
        let rt = match self.simulated {
            true => builder.compute_units("1:GPU:1").simulate(machine(memory_bytes).parse()?).build()?,
            false => builder.compute_units("1:EMU:1").device_memory_bytes(memory_bytes).build()?,
        };
        let n = self.tiles * TILE;
        let matrix = |f: fn(usize, usize, usize) -> f64| match self.simulated {
            true => rt.zeros([n, n]),
            false => rt.array(Array2::from_shape_fn((n, n), |(i, j)| f(n, i, j))),
        };
        let result = match self.problem {
            Problem::Product => {
                let (a, b) = (matrix(|_, i, j| ((i + 2 * j) % 7) as f64), matrix(|_, i, j| ((3 * i + j) % 5) as f64));
                let c = matrix(|_, _, _| 0.0);
                product(&rt, [&a, &b, &c])?;
                c
            }
            Problem::Cholesky => {
                let a = matrix(element);
                let tiles = a.tiles([TILE, TILE]);
                factor(&rt, self.tiles, |i, j| tiles.part([i, j]))?;
                a
            }
        };
        let result = match self.simulated {
            true => rt.wait().map(|()| None)?,
            false => Some(rt.take(result)?),
        };
        Ok((rt.statistics().links.iter().map(|link| link.bytes as f64).sum(), result))
    }
}

/// Returns the description of a machine with a device of this much memory.
fn machine(memory_bytes: u64) -> String {
    let task = |name| format!("[[tasks]]\nname = \"{name}\"\n[tasks.time_ns]\nGPU = {{ 1 = 10_000 }}\n");
    let tasks: String = ["multiply", "potrf", "trsm", "gemm", "syrk"].map(task).concat();
    format!(
        "name = \"one device\"\n[units.CPU]\ncount = 1\nbytes_per_s = 1e10\n[units.GPU]\ncount = 1\n\
         memory_bytes = {}\nbytes_per_s = 1e12\n[[links]]\nbetween = [\"host\", \"GPU\"]\nlatency_ns = 1000\n\
         bytes_per_s = 2e10\nshared = false\n{tasks}",
        memory_bytes.min(1 << 40)
    )
}

/// Submits c += a b.
fn product(rt: &Runtime, matrices: [&Data<f64, Ix2>; 3]) -> Result<(), SubmitError> {
    let [a, b, c] = matrices.map(|matrix| matrix.tiles([TILE, TILE]));
    let tiles = c.shape()[0];
    for i in 0..tiles {
        for j in 0..tiles {
            for k in 0..tiles {
                let accesses = (a.part([i, k]).input(), b.part([k, j]).input(), c.part([i, j]).inout());
                rt.task("multiply", accesses)
                    .cpu(|_, (a, b, mut c)| general_mat_mul(1.0, &a, &b, 1.0, &mut c))
                    .submit()?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_ahead_moves_fewer_bytes_and_no_fewer_than_the_lower_bound() {
        for problem in [Problem::Product, Problem::Cholesky] {
            for simulated in [true, false] {
                let case = Case { problem, tiles: 16, simulated };
                let [recent, furthest] = case.compare("priority").unwrap();
                // The order of tasks on an emulated device depends on the threads' speed.
                let most = if simulated { 0.75 * recent } else { recent };
                assert!(furthest < most, "{furthest} of {recent} bytes");
                assert!(case.lower_bound() <= furthest, "{furthest} bytes, at least {}", case.lower_bound());
            }
        }
    }
}

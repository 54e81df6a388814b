//! A dense matrix product C = A B divided between the CPU and devices. The rows of A and C are divided; all units share
//! B.
//!
//! Farrelly et al. 2024, figures 1 and 5 to 7. Each block of rows is a task at an index of an iteration space, so
//! the scheduler decides which unit gets which rows, and learns from step to step: `--scheduler fpm` lets the last
//! unit end as early as possible, `fpm:objective=energy` uses the least energy. `--compare` compares both with the
//! CPU alone and the devices alone.
//!
//! ```text
//! cargo run --release --example matmul -- --size 2048 --units 1:CPU:1,1:EMU:1 --scheduler fpm
//! cargo run --release --example matmul -- --size 1024 --compare --splits --units 1:CPU:1,1:OPENCL:1
//! cargo run --release --example matmul -- --size 4096 --units 1:CPU:2 --alone
//! cargo run --release --example matmul -- --size 20480 --compare --units 1:CPU:62,2:GPU:1 --simulate machines/icelake-2xa40.toml
//! ```

#[path = "../common/mod.rs"]
mod common;
mod comparison;

use std::process::ExitCode;

use clap::Parser;
use common::{Result, integer};
use comparison::{Done, Hybrid, each_step, each_step_alone};
use gemm::Parallelism;
use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2};
use thalweg::kernel::{DeviceView, DeviceViewMut, Kernel, Launcher, Program, Read, Write};
use thalweg::prelude::*;

/// A dense matrix product divided between CPU and devices
#[derive(Parser)]
struct Options {
    /// Rows and columns of the matrices
    #[arg(long, value_name = "N", default_value = "512", value_parser = integer(1..=1_000_000))]
    size: usize,
    #[command(flatten)]
    hybrid: Hybrid,
}

fn main() -> ExitCode {
    let Options { size, hybrid } = Options::parse();
    let tasks = |rt: &Runtime, n| multiply(rt, n, hybrid.blocks, hybrid.steps);
    hybrid.run("matmul", size, &tasks, &|n, cores, steps| multiply_alone(n, cores, steps))
}

/// Returns an element of A and B. All elements are integers, so sums are exact in any order.
fn element(i: usize, j: usize) -> f64 {
    ((i * 31 + j * 17) % 19) as f64 - 9.0
}

fn multiply(rt: &Runtime, n: usize, blocks: usize, steps: usize) -> Result<Done> {
    let matrix = || {
        if rt.machine().is_simulated() {
            rt.zeros([n, n])
        } else {
            rt.array(Array2::from_shape_fn((n, n), |(i, j)| element(i, j)))
        }
    };
    let (a, b) = (matrix().named("A"), matrix().named("B"));
    let c: Data<f64, Ix2> = rt.zeros([n, n]).named("C");
    let rows = n.div_ceil(blocks);
    let (parts, products) = (a.rows(rows), c.rows(rows));
    let sizes: Vec<usize> = (0..n.div_ceil(rows)).map(|block| rows.min(n - block * rows)).collect();
    let space = IterationSpace::new("rows", sizes.iter().map(|rows| *rows as f64).collect());
    let mut done = each_step(rt, steps, |_| {
        space.begin();
        for (block, rows) in sizes.iter().enumerate() {
            // The cost in billions of operations, the unit that the machine file uses.
            let cost = 2e-9 * *rows as f64 * (n * n) as f64;
            rt.task("multiply rows", (parts.part(block).input(), b.input(), products.part(block).output()))
                .cost(cost)
                .cpu(|context, (a, b, mut c)| product(&a, &b, &mut c, Parallelism::Rayon(context.inner_cores())))
                .gpu(|k, (a, b, mut c)| launch_multiply_rows(k, &a, &b, &mut c))
                .at(&space, block)
                .submit()?;
        }
        Ok(())
    })?;
    if !rt.machine().is_simulated() {
        let [a, b, c] = [rt.take(a)?, rt.take(b)?, rt.take(c)?];
        done.verified = Some(is_product(&a, &b, &c));
    }
    Ok(done)
}

/// Reference version that uses only gemm, which divides the work among its threads.
fn multiply_alone(n: usize, cores: usize, steps: usize) -> Result<Done> {
    let a = Array2::from_shape_fn((n, n), |(i, j)| element(i, j));
    let (b, mut c) = (a.clone(), Array2::zeros((n, n)));
    let mut done =
        each_step_alone(steps, |_| product(&a.view(), &b.view(), &mut c.view_mut(), Parallelism::Rayon(cores)));
    done.verified = Some(is_product(&a, &b, &c));
    Ok(done)
}

/// Computes C <- A B with gemm, on the given number of cores of the current rayon pool.
#[allow(unsafe_code)]
fn product(a: &ArrayView2<'_, f64>, b: &ArrayView2<'_, f64>, c: &mut ArrayViewMut2<'_, f64>, threads: Parallelism) {
    let ((m, k), n) = (a.dim(), b.ncols());
    assert!(b.nrows() == k && c.dim() == (m, n), "the extents fit");
    let [a_strides, b_strides, c_strides] =
        [a.strides(), b.strides(), c.strides()].map(|strides| (strides[1], strides[0]));
    let (c_at, a_at, b_at) = (c.as_mut_ptr(), a.as_ptr(), b.as_ptr());
    // SAFETY: the pointers, extents and strides are those of whole views, so all accesses are in bounds, and C is
    // borrowed exclusively.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c_at,
            c_strides.0,
            c_strides.1,
            false,
            a_at,
            a_strides.0,
            a_strides.1,
            b_at,
            b_strides.0,
            b_strides.1,
            0.0,
            1.0,
            false,
            false,
            false,
            threads,
        );
    }
}

#[allow(unsafe_code)]
// SAFETY: each thread of the kernel writes only its own element and reads only elements that the signature declares, so
// threads neither race nor leave the regions.
const MATMUL: Program = unsafe { Program::new("matmul.cl", include_str!("../../kernels/matmul.cl")) };
/// Arguments: A, B, C; rows of A and C, columns of A, columns of B and C.
static MULTIPLY_ROWS: Kernel<(Read<f64>, Read<f64>, Write<f64>, i32, i32, i32)> = Kernel::new(&MATMUL, "multiply_rows");

/// Runs [`multiply_rows`] on an accelerator.
fn launch_multiply_rows(
    k: &mut Launcher<'_>,
    a: &DeviceView<'_, f64>,
    b: &DeviceView<'_, f64>,
    c: &mut DeviceViewMut<'_, f64>,
) -> std::result::Result<(), DeviceError> {
    let ([rows, columns, ..], inner) = (c.extents(), a.extents()[1]);
    k.launch(&MULTIPLY_ROWS, [columns, rows], (a, b, c, rows as i32, inner as i32, columns as i32))
}

/// Checks that C is A B: some rows element by element, and all rows by their product with a vector.
fn is_product(a: &Array2<f64>, b: &Array2<f64>, c: &Array2<f64>) -> bool {
    let n = a.nrows();
    let x = Array1::from_shape_fn(n, |i| (i * 7 % 23) as f64 - 11.0);
    let some = (0..n).step_by(n.div_ceil(8));
    c.dot(&x) == a.dot(&b.dot(&x)) && some.into_iter().all(|row| c.row(row) == a.row(row).dot(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_wrong_element_is_detected() {
        let a = Array2::from_shape_fn((9, 9), |(i, j)| element(i, j));
        let mut c = a.dot(&a);
        assert!(is_product(&a, &a, &c));
        c[[5, 3]] += 1.0;
        assert!(!is_product(&a, &a, &c));
    }
}

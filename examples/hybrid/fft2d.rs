//! A two-dimensional Fourier transform divided between the CPU and devices. It transforms all rows, transposes,
//! transforms all rows again, and transposes back.
//!
//! Farrelly et al. 2024, figures 8 to 10. The row transforms are tasks at the indices of an iteration space, so the
//! scheduler decides which unit gets which rows. Transposes run on the CPU if there is a CPU unit. The transform is
//! scaled so that it preserves the sum of squares. Four transforms are therefore the identity, and a single transform
//! can be compared with the definition.
//!
//! ```text
//! cargo run --release --example fft2d -- --size 1024 --units 1:CPU:1,1:EMU:1 --scheduler fpm
//! ```

#[path = "../common/mod.rs"]
mod common;
mod comparison;

use std::f64::consts::TAU;
use std::mem::swap;
use std::process::ExitCode;
use std::sync::Arc;

use bytemuck::{cast_slice, cast_slice_mut};
use clap::Parser;
use common::Result;
use comparison::{Done, Hybrid, each_step, each_step_alone};
use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis};
use rayon::prelude::*;
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftPlanner};
use thalweg::kernel::{DeviceViewMut, Kernel, Launcher, Program, Write};
use thalweg::prelude::*;

/// Largest difference accepted as rounding, relative to the largest number.
const TOLERANCE: f64 = 1e-10;

/// A two-dimensional Fourier transform divided between CPU and devices
#[derive(Parser)]
struct Options {
    /// Rows and columns of the signal: a power of two
    #[arg(long, value_name = "N", default_value = "256", value_parser = power_of_two)]
    size: usize,
    #[command(flatten)]
    hybrid: Hybrid,
}

fn power_of_two(text: &str) -> std::result::Result<usize, String> {
    match text.parse::<usize>() {
        Ok(n) if n.is_power_of_two() && (2..=1 << 15).contains(&n) => Ok(n),
        _ => Err("must be a power of two from 2 to 32768".to_owned()),
    }
}

fn main() -> ExitCode {
    let Options { size, hybrid } = Options::parse();
    let tasks = |rt: &Runtime, n| transform(rt, n, hybrid.blocks, hybrid.steps);
    hybrid.run("fft2d", size, &tasks, &|n, cores, steps| transform_alone(n, cores, steps))
}

/// The signal: real parts at even columns, imaginary ones at odd columns.
fn signal(n: usize) -> Array2<f64> {
    Array2::from_shape_fn((n, 2 * n), |(i, j)| ((i * 31 + j * 17 + i * j) % 19) as f64 - 9.0)
}

fn transform(rt: &Runtime, n: usize, blocks: usize, steps: usize) -> Result<Done> {
    if !n.is_power_of_two() {
        return Err(format!("{n} is not a power of two").into());
    }
    let x: Data<f64, Ix2> =
        if rt.machine().is_simulated() { rt.zeros([n, 2 * n]) } else { rt.array(signal(n)) }.named("signal");
    let y: Data<f64, Ix2> = rt.zeros([n, 2 * n]).named("transposed");
    let rows = n.div_ceil(blocks);
    let sizes: Vec<usize> = (0..n.div_ceil(rows)).map(|block| rows.min(n - block * rows)).collect();
    let space = IterationSpace::new("rows", sizes.iter().map(|rows| *rows as f64).collect());
    let fft = FftPlanner::new().plan_fft_forward(n);
    let mut first = None;
    let mut done = each_step(rt, steps, |step| {
        space.begin();
        for (from, to) in [(&x, &y), (&y, &x)] {
            let (own, transposed) = (from.rows(rows), to.rows(rows));
            for (block, rows) in sizes.iter().enumerate() {
                let fft = fft.clone();
                // The cost in billions of operations, with 5 n log n operations per row.
                let cost = 5e-9 * (*rows * n) as f64 * f64::from(n.ilog2());
                rt.task("fft rows", own.part(block).inout())
                    .cost(cost)
                    .cpu(move |context, mut x| fft_rows(context, &fft, &mut x))
                    .gpu(|k, mut x| launch_fft_rows(k, &mut x))
                    .at(&space, block)
                    .submit()?;
            }
            for (block, rows) in sizes.iter().enumerate() {
                let first = block * sizes[0];
                let columns = from.block((.., 2 * first..2 * (first + rows)));
                let task = rt.task("transpose", (columns.input(), transposed.part(block).output()));
                match rt.machine().num_cpu_units() {
                    0 => task.cpu(|context, (x, mut y)| transpose_on(context.inner_cores(), &x, &mut y)).submit()?,
                    _ => task.host(|context, (x, mut y)| transpose_on(context.inner_cores(), &x, &mut y)).submit()?,
                };
            }
        }
        if step == 0 && !rt.machine().is_simulated() {
            first = Some(rt.read(&x)?);
        }
        Ok(())
    })?;
    if let Some(first) = first {
        let last = rt.take(x)?;
        // After 4, 8, ... transforms, the result is the original signal.
        let whole = !steps.is_multiple_of(4) || is_near(last.iter().zip(&signal(n)).map(|(a, b)| a - b), n);
        done.verified = Some(is_transform(&first) && whole);
    }
    Ok(done)
}

/// Reference version that uses only RustFFT and plain loops, with the rows divided among the given number of cores.
fn transform_alone(n: usize, cores: usize, steps: usize) -> Result<Done> {
    let (mut x, mut y) = (signal(n), Array2::zeros((n, 2 * n)));
    let fft = FftPlanner::new().plan_fft_forward(n);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(cores).build()?;
    let mut first = None;
    let mut done = pool.install(|| {
        each_step_alone(steps, |step| {
            for _ in 0..2 {
                fft_rows_on(cores, &fft, &mut x.view_mut());
                transpose_on(cores, &x.view(), &mut y.view_mut());
                swap(&mut x, &mut y);
            }
            if step == 0 {
                first = Some(x.clone());
            }
        })
    });
    done.verified = first.map(|first| is_transform(&first));
    Ok(done)
}

/// Transforms rows with RustFFT, divided among the unit's cores.
fn fft_rows(context: &Context, fft: &Arc<dyn Fft<f64>>, x: &mut ArrayViewMut2<'_, f64>) {
    fft_rows_on(context.inner_cores(), fft, x);
}

fn fft_rows_on(cores: usize, fft: &Arc<dyn Fft<f64>>, x: &mut ArrayViewMut2<'_, f64>) {
    let rows = x.nrows().div_ceil(cores);
    x.axis_chunks_iter_mut(Axis(0), rows).into_par_iter().for_each(|mut part| {
        let numbers: &mut [Complex<f64>] = cast_slice_mut(part.as_slice_mut().expect("whole rows have no gaps"));
        fft.process(numbers);
    });
}

/// Runs [`transpose`] on several cores, with the columns divided among them.
fn transpose_on(cores: usize, x: &ArrayView2<'_, f64>, y: &mut ArrayViewMut2<'_, f64>) {
    let columns = y.nrows().div_ceil(cores);
    let parts = x.axis_chunks_iter(Axis(1), 2 * columns).into_par_iter();
    parts.zip(y.axis_chunks_iter_mut(Axis(0), columns)).for_each(|(x, mut y)| transpose(&x, &mut y));
}

/// Stores the transpose of x in y, divided by the square root of the number of rows.
fn transpose(x: &ArrayView2<'_, f64>, y: &mut ArrayViewMut2<'_, f64>) {
    const TILE: usize = 16;
    let scale = 1.0 / (x.nrows() as f64).sqrt();
    let (rows, columns) = (y.nrows(), y.ncols() / 2);
    for (i0, j0) in (0..rows).step_by(TILE).flat_map(|i| (0..columns).step_by(TILE).map(move |j| (i, j))) {
        for i in i0..rows.min(i0 + TILE) {
            for j in j0..columns.min(j0 + TILE) {
                y[[i, 2 * j]] = scale * x[[j, 2 * i]];
                y[[i, 2 * j + 1]] = scale * x[[j, 2 * i + 1]];
            }
        }
    }
}

#[allow(unsafe_code)]
// SAFETY: the threads of a group write only the group's row, so groups do not conflict. Between two barriers, each
// thread writes only its own numbers, so threads do not race.
const FFT: Program = unsafe { Program::new("fft.cl", include_str!("../../kernels/fft.cl")) };
/// Arguments: the rows, the number of rows, the number of complex numbers per row, and its base-2 logarithm.
static FFT_ROWS: Kernel<(Write<f64>, i32, i32, i32)> = Kernel::new(&FFT, "fft_rows");

/// Runs [`fft_rows`] on an accelerator.
fn launch_fft_rows(k: &mut Launcher<'_>, x: &mut DeviceViewMut<'_, f64>) -> std::result::Result<(), DeviceError> {
    let [rows, columns, ..] = x.extents();
    let n = columns / 2;
    k.launch(&FFT_ROWS, 256 * rows, (x, rows as i32, n as i32, n.ilog2() as i32))
}

/// Checks some numbers against the definition, and the sum of squares against that of the signal.
fn is_transform(found: &Array2<f64>) -> bool {
    let n = found.nrows();
    let signal = signal(n);
    let [before, after]: [&[Complex<f64>]; 2] =
        [&signal, found].map(|numbers| cast_slice(numbers.as_slice().expect("an owned array has no gaps")));
    let [squares, squares_after] = [before, after].map(|all| all.iter().map(Complex::norm_sqr).sum::<f64>());
    let by_definition = |(k, l): (usize, usize)| -> Complex<f64> {
        let term = |(at, x): (usize, &Complex<f64>)| {
            x * Complex::cis(-TAU * ((at / n * k + at % n * l) % n) as f64 / n as f64)
        };
        before.iter().enumerate().map(term).sum::<Complex<f64>>() / n as f64
    };
    let some = [(0, 0), (0, 1), (1, 0), (n / 2, n / 3), (n - 1, 1), (n / 5, n - 1), (n / 2, n / 2)];
    let differences = some.into_iter().map(|(k, l)| (by_definition((k, l)) - after[k * n + l]).norm());
    (squares - squares_after).abs() <= TOLERANCE * squares && is_near(differences, n)
}

fn is_near(mut differences: impl Iterator<Item = f64>, n: usize) -> bool {
    differences.all(|difference| difference.abs() <= TOLERANCE * 10.0 * n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_transform_is_detected() {
        let rt = Runtime::builder().compute_units("1:CPU:2,1:EMU:1").scheduler("static").build().unwrap();
        assert_eq!(transform(&rt, 16, 3, 4).unwrap().verified, Some(true));
        assert!(!is_transform(&signal(16)));
    }
}

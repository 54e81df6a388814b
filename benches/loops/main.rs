//! Cost of code generated from annotated loops, relative to hand-written code: kernels are compared with those in
//! `kernels/`, and bodies for cores with the same loop under rayon. The bench also measures the time that code
//! generation takes. The example `optimizations` measures the effect of each optimization.
//!
//! Contenders are interleaved, and the median of their ratios counts: `cargo bench --bench loops -- [--rounds N]`.

#[path = "../../examples/optimizations/gradient.rs"]
#[allow(dead_code)] // only the example uses the variants with an optimization disabled
mod gradient;
#[path = "../harness/statistics.rs"]
#[allow(dead_code)]
mod statistics;

use gradient::{BY_HAND, NX, POINTS, advance};
use rayon::prelude::*;
use statistics::median;
use std::time::Instant;
use thalweg::kernel::{Kernel, Program, Read, Write};
use thalweg::loops::{Out, target};
use thalweg::ndarray::ArrayRef2;
use thalweg::prelude::*;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Number of tasks that are timed together.
const TASKS: usize = 10;

#[allow(unsafe_code)]
// SAFETY: each thread touches only the elements at its own index, and compares this index with `n` first, so no access
// is out of bounds.
const BLAS: Program = unsafe { Program::new("blas.cl", include_str!("../../kernels/blas.cl")) }
    .header("reduce.h", include_str!("../../kernels/reduce.h"));
#[allow(unsafe_code)]
// SAFETY: a thread does nothing unless `rows` and `columns` say that it has a point. It then writes only this point and
// reads only the points around it, so all accesses are in bounds.
const JACOBI: Program = unsafe { Program::new("jacobi.cl", include_str!("../../kernels/jacobi.cl")) }
    .header("reduce.h", include_str!("../../kernels/reduce.h"));
static AXPY: Kernel<(f64, Read<f64>, Write<f64>, i32)> = Kernel::new(&BLAS, "axpy");
static DOT: Kernel<(Read<f64>, Read<f64>, Write<f64>, i32)> = Kernel::new(&BLAS, "dot_product");
static RELAX: Kernel<(Read<f64>, Write<f64>, i32, i32, i64, i64)> = Kernel::new(&JACOBI, "relax");

#[target]
fn axpy(a: f64, x: &[f64], y: &mut [f64]) {
    for i in 0..y.len() {
        y[i] += a * x[i];
    }
}

#[target]
fn dot(x: &[f64], y: &[f64], sum: &mut f64) {
    for i in 0..x.len() {
        *sum += x[i] * y[i];
    }
}

#[target]
fn running(x: &[f64], y: Out<'_, [f64]>) {
    let mut sum = 0.0;
    for i in 0..x.len() {
        sum += x[i];
        y[i] = sum;
    }
}

#[target]
fn relax(old: &ArrayRef2<f64>, new: &mut ArrayRef2<f64>) {
    #[distribute]
    for i in 1..new.nrows() - 1 {
        #[parallel_for]
        for j in 1..new.ncols() - 1 {
            new[[i, j]] = 0.25 * ((old[[i - 1, j]] + old[[i + 1, j]]) + (old[[i, j - 1]] + old[[i, j + 1]]));
        }
    }
}

/// A function that submits a task.
type Submit<'a> = Box<dyn Fn(&Runtime) -> std::result::Result<TaskId, SubmitError> + 'a>;

/// Returns the time per task in seconds.
fn time(rt: &Runtime, submit: &Submit<'_>) -> Result<f64> {
    let start = Instant::now();
    for _ in 0..TASKS {
        submit(rt)?;
    }
    rt.wait()?;
    Ok(start.elapsed().as_secs_f64() / TASKS as f64)
}

/// Runs the contenders interleaved, and prints their times and the ratios to the first one.
fn compare(rt: &Runtime, rounds: usize, what: &str, contenders: &[(&str, Submit<'_>)]) -> Result<()> {
    for (_, submit) in contenders {
        time(rt, submit)?; // compiles the kernels
    }
    let mut times = vec![Vec::new(); contenders.len()];
    for _ in 0..rounds {
        for ((_, submit), times) in contenders.iter().zip(&mut times) {
            times.push(time(rt, submit)?);
        }
    }
    for ((name, _), of) in contenders.iter().zip(&times) {
        let ratios: Vec<f64> = of.iter().zip(&times[0]).map(|(time, first)| time / first).collect();
        let [time, ratio] = [of, &ratios].map(|values| median(values).unwrap_or(f64::NAN));
        println!("{what:<10} {name:<28} {:>10.1} µs {ratio:>8.3}", time * 1e6);
    }
    Ok(())
}

fn on_accelerator(rt: &Runtime, rounds: usize, n: usize) -> Result<()> {
    let (x, y, sum) = (rt.data(vec![1.0; n]), rt.data(vec![0.5; n]), rt.scalar(0.0));
    let by_hand: Submit<'_> = Box::new(|rt| {
        let task = rt.task("axpy", (x.input(), y.inout()));
        task.gpu(|k, (x, mut y)| k.launch(&AXPY, x.len(), (0.5, &x, &mut y, x.len() as i32))).submit()
    });
    compare(
        rt,
        rounds,
        "axpy",
        &[("by hand", by_hand), ("of a loop", Box::new(|rt| axpy::task(rt, 0.5, &x, &y).submit()))],
    )?;
    let by_hand: Submit<'_> = Box::new(|rt| {
        let task = rt.task("dot", (x.input(), y.input(), sum.inout()));
        task.gpu(|k, (x, y, mut sum)| k.launch(&DOT, x.len().min(1 << 18), (&x, &y, &mut sum, x.len() as i32))).submit()
    });
    compare(
        rt,
        rounds,
        "dot",
        &[("by hand", by_hand), ("of a loop", Box::new(|rt| dot::task(rt, &x, &y, &sum).submit()))],
    )?;

    let side = n.isqrt();
    let (old, new): (Data<f64, Ix2>, Data<f64, Ix2>) = (rt.zeros([side; 2]), rt.zeros([side; 2]));
    let inner = 1..side - 1;
    let by_hand: Submit<'_> = Box::new(|rt| {
        let task = rt.task("relax", (old.input(), new.block((inner.clone(), inner.clone())).inout()));
        task.gpu(|k, (old, mut new)| {
            let ([rows, columns, ..], strides) = (new.extents(), [old.strides()[0], new.strides()[0]]);
            let [old_stride, new_stride] = strides.map(|stride| stride as i64);
            k.launch(&RELAX, [columns, rows], (&old, &mut new, rows as i32, columns as i32, old_stride, new_stride))
        })
        .submit()
    });
    compare(
        rt,
        rounds,
        "jacobi",
        &[("by hand", by_hand), ("of a loop", Box::new(|rt| relax::task(rt, &old, &new).submit()))],
    )?;

    let elements = n / POINTS / 4;
    let constants = [POINTS, POINTS, NX].map(|n| rt.data((0..n).map(|i| (i % 5) as f64 * 0.1).collect::<Vec<_>>()));
    let [der, delta, weights] = &constants;
    let (fx, fy) = (rt.data(vec![1.0; elements * POINTS]), rt.data(vec![0.5; elements * POINTS]));
    let by_hand: Submit<'_> = Box::new(|rt| {
        let task = rt.task("advance", (der.input(), delta.input(), weights.input(), fx.inout(), fy.inout()));
        task.gpu(|k, (der, delta, weights, mut x, mut y)| {
            let elements = x.len() / POINTS;
            k.launch(&BY_HAND, elements * POINTS, (&der, &delta, &weights, 1e-9, &mut x, &mut y, elements as i32))
        })
        .submit()
    });
    let made: Submit<'_> = Box::new(|rt| advance::task(rt, der, delta, weights, 1e-9, &fx, &fy).submit());
    compare(rt, rounds, "dg", &[("by hand", by_hand), ("of a loop", made)])
}

/// Computes running sums as a programmer would by hand: first the sum of each block, then the running sums within each
/// block.
fn running_sums(x: &[f64], y: &mut [f64]) {
    let block = x.len().div_ceil(rayon::current_num_threads() * 4).max(1);
    let mut sums: Vec<f64> = x.par_chunks(block).map(|x| x.iter().sum()).collect();
    let mut before = 0.0;
    for sum in &mut sums {
        before += std::mem::replace(sum, before);
    }
    x.par_chunks(block).zip(y.par_chunks_mut(block)).zip(&sums).for_each(|((x, y), before)| {
        let mut sum = *before;
        for (x, y) in x.iter().zip(y) {
            sum += x;
            *y = sum;
        }
    });
}

fn on_cores(rt: &Runtime, rounds: usize, n: usize) -> Result<()> {
    let (x, y, sum) = (rt.data(vec![1.0; n]), rt.data(vec![0.5; n]), rt.scalar(0.0));
    let as_written: Submit<'_> = Box::new(|rt| {
        let task = rt.task("axpy", (x.input(), y.inout()));
        task.cpu(|_, (x, y)| y.par_iter_mut().enumerate().for_each(|(i, y)| *y += 0.5 * x[i])).submit()
    });
    let made: Submit<'_> = Box::new(|rt| axpy::task(rt, 0.5, &x, &y).submit());
    compare(rt, rounds, "axpy", &[("the loop under rayon", as_written), ("of a loop", made)])?;
    let as_written: Submit<'_> = Box::new(|rt| {
        let task = rt.task("dot", (x.input(), y.input(), sum.inout()));
        task.cpu(|_, (x, y, sum)| sum[0] += (0..x.len()).into_par_iter().map(|i| x[i] * y[i]).sum::<f64>()).submit()
    });
    let made: Submit<'_> = Box::new(|rt| dot::task(rt, &x, &y, &sum).submit());
    compare(rt, rounds, "dot", &[("the loop under rayon", as_written), ("of a loop", made)])?;
    let as_written: Submit<'_> = Box::new(|rt| {
        let task = rt.task("running", (x.input(), y.output()));
        task.cpu(|_, (x, y)| running_sums(x, y)).submit()
    });
    let made: Submit<'_> = Box::new(|rt| running::task(rt, &x, &y).submit());
    compare(rt, rounds, "running", &[("two passes under rayon", as_written), ("of a loop", made)])?;
    let side = n.isqrt();
    let (old, new): (Data<f64, Ix2>, Data<f64, Ix2>) = (rt.zeros([side; 2]), rt.zeros([side; 2]));
    let as_written: Submit<'_> = Box::new(|rt| {
        let task = rt.task("relax", (old.input(), new.inout()));
        task.cpu(|_, (old, mut new)| {
            let (rows, columns) = new.dim();
            let mut lines: Vec<_> = new.rows_mut().into_iter().collect();
            lines.par_iter_mut().enumerate().for_each(|(i, new)| {
                if i == 0 || i + 1 == rows {
                    return;
                }
                for j in 1..columns - 1 {
                    new[j] = 0.25 * ((old[[i - 1, j]] + old[[i + 1, j]]) + (old[[i, j - 1]] + old[[i, j + 1]]));
                }
            });
        })
        .submit()
    });
    let made: Submit<'_> = Box::new(|rt| relax::task(rt, &old, &new).submit());
    compare(rt, rounds, "jacobi", &[("the loop under rayon", as_written), ("of a loop", made)])
}

/// Measures and prints the time to generate the code for a function.
fn expansion(rounds: usize) {
    const OPTIONS: &str = "teams(thread_limit = 64, firstprivate(der: POINTS, delta: POINTS, weights: NX))";
    let file = include_str!("../../examples/loops/dg.rs");
    let function = &file[file.find("fn advance").expect("it is there")..file.find("fn main").expect("it follows")];
    let times: Vec<f64> = (0..rounds)
        .map(|_| {
            let [options, function] = [OPTIONS, function].map(|text| text.parse().expect("it is Rust"));
            let start = Instant::now();
            std::hint::black_box(thalweg_loops::target(options, function));
            start.elapsed().as_secs_f64()
        })
        .collect();
    println!("expansion  dg's function               {:>10.1} µs", median(&times).unwrap_or(f64::NAN) * 1e6);
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--rounds").skip(1);
    let is_test = !std::env::args().any(|argument| argument == "--bench");
    let rounds = arguments.next().map_or(Ok(if is_test { 1 } else { 21 }), |rounds| rounds.parse())?;
    let n = if is_test { 1 << 12 } else { 1 << 20 };
    println!("{:<10} {:<28} {:>13} {:>8}", "", "contender", "median", "ratio");
    match Runtime::builder().compute_units("1:OPENCL:1").build() {
        Ok(rt) => on_accelerator(&rt, rounds, n)?,
        Err(error) => println!("skipped: {error}"),
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    on_cores(&Runtime::builder().compute_units(format!("1:CPU:{cores}")).build()?, rounds, n)?;
    expansion(rounds);
    Ok(())
}

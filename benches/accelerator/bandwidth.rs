//! Bandwidth of kernels, relative to that of a copy kernel.
//!
//! The byte counts are the minimum traffic, with every array read or written exactly once.

use super::report::Table;
use super::statistics::median;
use super::{Result, Row, Setting};
use std::time::Instant;
use thalweg::kernel::{Kernel, Launcher, Program, Read, Scratch, Write};
use thalweg::prelude::*;

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
#[allow(unsafe_code)]
// SAFETY: the kernels touch only the points of a field with extents `nx`, `ny` and `nz`. Memory holds at most 2³¹
// points, so the indices cannot overflow.
const OPERATOR: Program = unsafe { Program::new("operator.cl", include_str!("../../crates/npb/kernels/operator.cl")) }
    .header("npb_common.h", include_str!("../../crates/npb/kernels/npb_common.h"));

static COPY: Kernel<(Read<f64>, Write<f64>, i32)> = Kernel::new(&BLAS, "copy");
static FILL: Kernel<(Write<f64>, f64, i32)> = Kernel::new(&BLAS, "fill");
static AXPY: Kernel<(f64, Read<f64>, Write<f64>, i32)> = Kernel::new(&BLAS, "axpy");
static DOT: Kernel<(Read<f64>, Read<f64>, Write<f64>, i32)> = Kernel::new(&BLAS, "dot_product");
static RELAX: Kernel<(Read<f64>, Write<f64>, i32, i32, i64, i64)> = Kernel::new(&JACOBI, "relax");
/// Arguments: u, forcing, r; scale; three coefficients; the extents.
type Residual = (Read<f64>, Read<f64>, Write<f64>, f64, f64, f64, f64, i32, i32, i32);
static RESIDUAL: Kernel<Residual> = Kernel::new(&OPERATOR, "residual");

/// Number of kernel launches that are timed together.
const LAUNCHES: usize = 10;
/// Number of components per point in a field of the multi-zone benchmarks.
const COMPONENTS: usize = 5;

type Enqueue = fn(&mut Launcher<'_>, &mut [Scratch<'_, f64>; 3], usize) -> std::result::Result<(), DeviceError>;

/// The kernels, each with the number of n-element arrays it moves.
const CASES: [(&str, usize, Enqueue); 5] = [
    ("copy", 2, |k, [x, y, _], n| k.launch(&COPY, n, (&*x, y, n as i32))),
    ("axpy", 3, |k, [x, y, _], n| k.launch(&AXPY, n, (0.5, &*x, y, n as i32))),
    ("dot", 2, |k, [x, y, z], n| k.launch(&DOT, n.min(256 * 1024), (&*x, &*y, z, n as i32))),
    ("stencil (relax)", 2, |k, [x, y, _], n| {
        let side = n.isqrt();
        let inner = (side - 2) as i32;
        k.launch(&RELAX, [side - 2, side - 2], (&*x, y, inner, inner, side as i64, (side - 2) as i64))
    }),
    ("rhs (residual)", 3, |k, [u, forcing, r], n| {
        let side = side(n);
        let s = side as i32;
        let threads = [side - 2, side - 2, side - 2];
        k.launch(&RESIDUAL, threads, (&*u, &*forcing, r, 1.0, 0.1, 0.1, 0.1, s, s, s))
    }),
];

/// Returns the side of the largest cube of points whose field has at most n numbers.
fn side(n: usize) -> usize {
    ((n / COMPONENTS) as f64).cbrt() as usize
}

/// Returns how many elements of an n-element array a case touches.
fn touched(case: &str, n: usize) -> usize {
    if case.starts_with("rhs") { COMPONENTS * side(n).pow(3) } else { n }
}

/// Returns the time per launch in seconds.
fn time(rt: &Runtime, enqueue: Enqueue, n: usize, launches: usize) -> Result<f64> {
    let order = rt.scalar(0.0); // orders the tasks
    let task = |launches: usize| {
        rt.task("kernels", (order.inout(),)).gpu(move |k, _| {
            let mut arrays = [k.scratch::<f64>(n)?, k.scratch(n)?, k.scratch(n)?];
            if launches == 0 {
                // The densities must be positive so that the kernels compute ordinary numbers.
                arrays.iter_mut().try_for_each(|array| k.launch(&FILL, n, (array, 1.5, n as i32)))?;
            }
            (0..launches.max(1)).try_for_each(|_| enqueue(k, &mut arrays, n))
        })
    };
    task(0).submit()?; // compiles the kernels and fills the arrays
    rt.wait()?;
    let start = Instant::now();
    task(launches).submit()?;
    rt.wait()?;
    Ok(start.elapsed().as_secs_f64() / launches as f64)
}

pub(crate) fn measure(setting: &Setting) -> Result<Vec<Row>> {
    let rt = setting.runtime()?;
    let n = setting.bytes / 8;
    let mut rates = CASES.map(|_| Vec::new());
    for _ in 0..setting.repetitions {
        for ((case, arrays, enqueue), rates) in CASES.iter().zip(&mut rates) {
            let bytes = (arrays * 8 * touched(case, n)) as f64;
            rates.push(bytes / time(&rt, *enqueue, n, LAUNCHES)? / 1e9);
        }
    }
    let rates = rates.map(|rates| median(&rates).unwrap_or(f64::NAN));
    let mut table = Table::new("kernel", &["GB/s", "of the copy kernel"]);
    for ((case, ..), rate) in CASES.iter().zip(rates) {
        table.row(case, [Some(format!("{rate:.1}")), Some(format!("{:.0} %", rate / rates[0] * 100.0))]);
    }
    table.print(&format!("Bandwidth, arrays of {} MiB, {}", setting.bytes >> 20, setting.units));
    let row = |(case, value): (&str, f64)| Row {
        question: "bandwidth",
        case: case.to_owned(),
        contender: "thalweg",
        value,
        unit: "GB/s",
    };
    Ok(CASES.iter().map(|(case, ..)| *case).zip(rates).map(row).collect())
}

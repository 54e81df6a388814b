//! Kernels that do not belong to an example: vectors, sparse products and boxes. Each kernel is compared with plain
//! Rust, on regions that do not begin at the start of their arrays and with sizes that are not multiples of the group
//! size.
//!
//! Without an accelerator, the tests are skipped with a message unless the list `THALWEG_REQUIRE` names one.

#![allow(unsafe_code)] // each `Program::new` is a promise that the kernels respect their bounds

mod common;

use ndarray::{Array4, ArrayViewMut4, s};
use std::ops::Range;
use thalweg::kernel::{Kernel, Program, Read, Write};
use thalweg::prelude::*;

const LANES: usize = 16;
const REDUCE: &str = include_str!("../kernels/reduce.h");
// SAFETY: the kernels touch only elements at their own index, which they compare with `n`, so they stay in bounds.
const BLAS: Program = unsafe { Program::new("blas.cl", include_str!("../kernels/blas.cl")) }.header("reduce.h", REDUCE);
// SAFETY: the kernels compare rows with `rows`, and indices read from offsets and columns with `entries` and `width`,
// so they stay in bounds whatever the arrays contain.
const SPARSE: Program = unsafe { Program::new("sparse.cl", include_str!("../kernels/sparse.cl")) }
    .header("csr.h", include_str!("../kernels/csr.h"))
    .header("reduce.h", REDUCE)
    .define("LANES", LANES as i64);
// SAFETY: the kernels touch only elements of a box and compare the indices with its extents, so they stay in bounds.
const PACK: Program = unsafe { Program::new("pack.cl", include_str!("../kernels/pack.cl")) };

type Rd = Read<f64>;
type Wr = Write<f64>;

/// Arguments: offsets, columns, values, x, y; the numbers of rows, entries and columns.
type Product = (Read<u32>, Read<u32>, Rd, Rd, Wr, i32, i32, i32);

static AXPY: Kernel<(f64, Rd, Wr, i32)> = Kernel::new(&BLAS, "axpy");
static XPBY: Kernel<(Rd, f64, Wr, i32)> = Kernel::new(&BLAS, "xpby");
static DOT: Kernel<(Rd, Rd, Wr, i32)> = Kernel::new(&BLAS, "dot_product");
static COPY: Kernel<(Rd, Wr, i32)> = Kernel::new(&BLAS, "copy");
static FILL: Kernel<(Wr, f64, i32)> = Kernel::new(&BLAS, "fill");
static PRODUCT: Kernel<Product> = Kernel::new(&SPARSE, "csr_product");
type CopyBox<T> = (Read<T>, Write<T>, i32, i32, i32, i32, i64, i64, i64, i64, i64, i64, i64, i64);
static COPY_BOX4: Kernel<CopyBox<f32>> = Kernel::new(&PACK, "copy_box4");
static COPY_BOX8: Kernel<CopyBox<f64>> = Kernel::new(&PACK, "copy_box8");

fn runtime() -> Option<Runtime> {
    Some(common::accelerated("1:OPENCL:1")?.build().unwrap())
}

/// Registers an array and copies all of it to the accelerator, so that regions begin inside the device's allocation.
fn placed<T: Element>(rt: &Runtime, array: &[T]) -> Data<T> {
    let data = rt.data(array.to_vec());
    rt.task("place", (data.inout(),)).gpu(|_, _| ()).submit().unwrap();
    data
}

fn numbers(length: usize, salt: usize) -> Vec<f64> {
    (0..length).map(|i| ((i * i + salt) as f64).sin()).collect()
}

fn assert_close(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len());
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= 1e-12 * (1.0 + expected.abs()), "{what}[{at}]: {found}, not {expected}");
    }
}

/// Runs a kernel on a part of two vectors, and compares the second with the result of `expected`.
fn on_vectors(
    rt: &Runtime,
    what: &str,
    (length, part): (usize, Range<usize>),
    body: impl FnOnce(
        &mut thalweg::kernel::Launcher<'_>,
        thalweg::kernel::DeviceView<'_, f64>,
        thalweg::kernel::DeviceViewMut<'_, f64>,
        usize,
    ) -> Result<(), DeviceError>
    + Send
    + 'static,
    expected: impl Fn(f64, f64) -> f64,
) {
    let (x, mut y) = (numbers(length, 1), numbers(length, 2));
    let (dx, dy) = (placed(rt, &x), placed(rt, &y));
    rt.task(what.to_owned(), (dx.slice(part.clone()).input(), dy.slice(part.clone()).inout()))
        .gpu(|k, (x, y)| {
            let n = x.len();
            body(k, x, y, n)
        })
        .submit()
        .unwrap();
    y[part.clone()].iter_mut().zip(&x[part]).for_each(|(y, x)| *y = expected(*x, *y));
    assert_close(&rt.take(dy).unwrap(), &y, what);
}

#[test]
fn vector_kernels_match_host() {
    let Some(rt) = runtime() else { return };
    for parts in [(1000, 3..998), (300, 7..263), (9, 8..9)] {
        on_vectors(
            &rt,
            "axpy",
            parts.clone(),
            |k, x, mut y, n| k.launch(&AXPY, n, (0.3, &x, &mut y, n as i32)),
            |x, y| y + 0.3 * x,
        );
        on_vectors(
            &rt,
            "xpby",
            parts.clone(),
            |k, x, mut y, n| k.launch(&XPBY, n, (&x, 0.7, &mut y, n as i32)),
            |x, y| x + 0.7 * y,
        );
        on_vectors(&rt, "copy", parts.clone(), |k, x, mut y, n| k.launch(&COPY, n, (&x, &mut y, n as i32)), |x, _| x);
        on_vectors(&rt, "fill", parts, |k, _, mut y, n| k.launch(&FILL, n, (&mut y, 2.5, n as i32)), |_, _| 2.5);
    }
}

#[test]
fn dot_product_with_fewer_threads_than_elements_matches_host() {
    let Some(rt) = runtime() else { return };
    let (x, y, part) = (numbers(5000, 3), numbers(5000, 4), 11..4990);
    let (dx, dy) = (placed(&rt, &x), placed(&rt, &y));
    let dot: f64 = part.clone().map(|i| x[i] * y[i]).sum();
    for threads in [1, 512, 4979] {
        let sum = rt.scalar(0.5);
        rt.task("dot", (dx.slice(part.clone()).input(), dy.slice(part.clone()).input(), sum.reduction(Sum)))
            .gpu(move |k, (x, y, mut sum)| k.launch(&DOT, threads, (&x, &y, &mut sum, x.len() as i32)))
            .submit()
            .unwrap();
        assert_close(&[rt.read(&sum).unwrap()[0]], &[0.5 + dot], "dot");
    }
}

#[test]
fn sparse_product_kernel_matches_host() {
    let Some(rt) = runtime() else { return };
    let lengths: Vec<usize> = (0..77).map(|row| row * 13 % 40).collect();
    let offsets: Vec<u32> = std::iter::once(0)
        .chain(lengths.iter().scan(0, |end, length| {
            *end += *length as u32;
            Some(*end)
        }))
        .collect();
    let (entries, columns) = (offsets[77] as usize, 50);
    let of_entry: Vec<u32> = (0..entries).map(|entry| (entry * 7 % columns) as u32).collect();
    let (values, x) = (numbers(entries, 5), numbers(columns, 6));
    let rows = 20..73; // some of these rows have no entries
    let product = |row: usize| -> f64 {
        (offsets[row] as usize..offsets[row + 1] as usize).map(|e| values[e] * x[of_entry[e] as usize]).sum()
    };
    let mut expected = numbers(77, 7);
    let y = placed(&rt, &expected);
    rows.clone().for_each(|row| expected[row] = product(row));

    let part = offsets[rows.start] as usize..offsets[rows.end] as usize;
    let [dv, dx] = [&values, &x].map(|vector| placed(&rt, vector));
    let [dn, dc] = [&offsets, &of_entry].map(|vector| placed(&rt, vector));
    let block = (dn.slice(rows.start..rows.end + 1).input(), dc.slice(part.clone()).input(), dv.slice(part).input());
    rt.task("product", (block.0, block.1, block.2, dx.input(), y.slice(rows).output()))
        .gpu(|k, (offsets, columns, values, x, mut y)| {
            let [rows, entries, width] = [y.len(), values.len(), x.len()].map(|n| n as i32);
            let arguments = (&offsets, &columns, &values, &x, &mut y, rows, entries, width);
            k.launch(&PRODUCT, LANES * rows as usize, arguments)
        })
        .submit()
        .unwrap();
    assert_close(&rt.take(y).unwrap(), &expected, "y");
}

/// Copies a box of `from` to the same position in `to`, and compares `to` with a copy made by ndarray.
fn box_is_copied<T: Element + thalweg::kernel::Scalar + PartialEq>(
    rt: &Runtime,
    kernel: &'static Kernel<CopyBox<T>>,
    value: impl Fn(usize) -> T,
    (threads_y, threads_z): (usize, usize),
    [a, b, c, d]: [Range<usize>; 4],
) {
    let from = Array4::from_shape_fn((4, 5, 9, 40), |(a, b, c, d)| value(((a * 5 + b) * 9 + c) * 40 + d));
    let mut to = Array4::from_elem((5, 5, 10, 43), value(0));
    let (df, dt) = (rt.array(from.clone()), rt.array(to.clone()));
    rt.task("place", (df.inout(), dt.inout())).gpu(|_, _| ()).submit().unwrap();
    let ranges = || (a.clone(), b.clone(), c.clone(), d.clone());
    rt.task("box", (df.block(ranges()).input(), dt.block(ranges()).output()))
        .gpu(move |k, (from, mut to)| {
            let [_, _, n2, n3] = from.extents();
            let ([f0, f1, f2, f3], [t0, t1, t2, t3]) =
                (from.strides().map(|s| s as i64), to.strides().map(|s| s as i64));
            let [m0, m1, m2, m3] = from.extents().map(|n| n as i32);
            let threads = [n2 * n3, threads_y, threads_z];
            k.launch(kernel, threads, (&from, &mut to, m0, m1, m2, m3, f0, f1, f2, f3, t0, t1, t2, t3))
        })
        .submit()
        .unwrap();
    let mut target: ArrayViewMut4<'_, T> = to.slice_mut(s![a.clone(), b.clone(), c.clone(), d.clone()]);
    target.assign(&from.slice(s![a, b, c, d]));
    assert!(rt.take(dt).unwrap() == to);
}

#[test]
fn box_kernels_match_host() {
    let Some(rt) = runtime() else { return };
    for threads in [(5, 4), (1, 1), (2, 3)] {
        for ranges in [[1..4, 1..5, 2..9, 3..40], [0..4, 1..2, 0..9, 39..40], [3..4, 0..5, 8..9, 1..39]] {
            box_is_copied::<f32>(&rt, &COPY_BOX4, |n| n as f32, threads, ranges.clone());
            box_is_copied::<f64>(&rt, &COPY_BOX8, |n| n as f64, threads, ranges);
        }
    }
}

const NAMES: &str = "
    KERNEL(16, 1, 1) step(OUT(double, y, n), int n) { REGION(y); int i = GLOBAL_ID(0); if (i < n) y[i] = 1; }
    /* KERNEL(16, 1, 1) fmax(int n) */
    KERNEL(16, 1, 1) dot(INOUT(double, y, n), int n)
    {
        REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) y[i] = fmax(y[i] + 1, 0.0);
    }
    KERNEL(16, 1, 1) y(INOUT(double, y, n), int n) { REGION(y); int i = GLOBAL_ID(0); if (i < n) y[i] *= 3; }
";
// SAFETY: each kernel compares its index with the size that its signature declares, so it stays in bounds.
const NAMED: Program = unsafe { Program::new("names.cl", NAMES) };

/// Kernels named like built-in functions of OpenCL C, and a kernel named like its own parameter.
#[test]
fn kernels_may_have_names_of_opencl_functions() {
    let Some(rt) = runtime() else { return };
    static NAMED_SO: [Kernel<(Wr, i32)>; 3] =
        [Kernel::new(&NAMED, "step"), Kernel::new(&NAMED, "dot"), Kernel::new(&NAMED, "y")];
    let x = rt.data(vec![0.0; 100]);
    for kernel in &NAMED_SO {
        rt.task("named", (x.inout(),)).gpu(|k, (mut y,)| k.launch(kernel, 100, (&mut y, 100))).submit().unwrap();
    }
    assert_eq!(rt.take(x).unwrap(), [6.0; 100]);
}

//! Programs for a stand-in, which tests run in processes of their own: alone they would find no device.

use thalweg::kernel::{Kernel, Program, Read, Write};
use thalweg::prelude::*;

const TEXT: &str = "
    KERNEL(64, 1, 1) next(INOUT(UINT64, y, n), UINT64 salt, int n)
    {
        REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) y[i] = y[i] * 31 + salt;
    }
    KERNEL(64, 1, 1) sum(IN(double, x, n), INOUT(double, total, 1), int n)
    {
        REGION(x); REGION(total);
        int i = GLOBAL_ID(0);
        if (i < n) ATOMIC_ADD(total, x[i]);
    }
";
// SAFETY: indices are compared with the numbers that the heads name.
const PROGRAM: Program = unsafe { Program::new("standin.cl", TEXT) };
static NEXT: Kernel<(Write<u64>, u64, i32)> = Kernel::new(&PROGRAM, "next");
static SUM: Kernel<(Read<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "sum");

/// One device of the interface that the parent process has named.
fn runtime() -> Runtime {
    let kind = std::env::var("STANDIN_UNITS").expect("a test runs this in a process of its own");
    Runtime::builder().compute_units(format!("1:{kind}:1")).scheduler("dynamic").build().unwrap()
}

/// `y ← 31 y + salt` on the device.
fn next(rt: &Runtime, y: &Data<u64>, salt: u64) {
    rt.task("next", (y.inout(),))
        .gpu(move |k, (mut y,)| {
            let n = y.len();
            k.launch(&NEXT, n, (&mut y, salt, n as i32))
        })
        .submit()
        .unwrap();
}

fn nexts(mut y: u64, salts: std::ops::Range<u64>) -> u64 {
    salts.for_each(|salt| y = y.wrapping_mul(31).wrapping_add(salt));
    y
}

pub const CHAIN: u64 = 2000;

/// A chain of tasks.
#[test]
#[ignore = "run on a stand-in by another test"]
fn chain() {
    let rt = runtime();
    let y = rt.data(vec![1; 10]);
    (0..CHAIN).for_each(|salt| next(&rt, &y, salt));
    assert_eq!(rt.take(y).unwrap(), [nexts(1, 0..CHAIN); 10]);
}

pub const CHAINS: u64 = 32;

/// Chains that know nothing of each other, except that all begin with one task.
#[test]
#[ignore = "run on a stand-in by another test"]
fn chains() {
    let rt = runtime();
    let y: Vec<_> = (0..CHAINS).map(|n| rt.data(vec![n; 10])).collect();
    let first = rt.data(vec![0u64; 10]);
    next(&rt, &first, 1);
    for y in &y {
        rt.task("begin", (first.input(), y.inout()))
            .gpu(move |k, (_, mut y)| {
                let n = y.len();
                k.launch(&NEXT, n, (&mut y, 0, n as i32))
            })
            .submit()
            .unwrap();
    }
    for salt in 1..20 {
        y.iter().for_each(|y| next(&rt, y, salt));
    }
    for (n, y) in (0..).zip(y) {
        assert_eq!(rt.take(y).unwrap(), [nexts(n, 0..20); 10]);
    }
}

pub const REDUCTIONS: u64 = 200;

/// Reductions to a few numbers.
#[test]
#[ignore = "run on a stand-in by another test"]
fn reductions() {
    let rt = runtime();
    let x = rt.data((0..100).map(f64::from).collect::<Vec<_>>());
    let totals: Vec<_> = (0..10).map(|_| rt.scalar(0.0)).collect();
    for n in 0..REDUCTIONS {
        rt.task("sum", (x.input(), totals[n as usize % 10].reduction(Sum)))
            .gpu(|k, (x, mut total)| k.launch(&SUM, x.len(), (&x, &mut total, x.len() as i32)))
            .submit()
            .unwrap();
    }
    for total in &totals {
        assert_eq!(rt.read_scalar(total).unwrap(), 4950.0 * 20.0);
    }
}

//! Programs that run on a stand-in. Other tests run them in separate processes; on their own, they would find no
//! device.

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
// SAFETY: each kernel compares its indices with the sizes that its signature declares, so it stays in bounds.
const PROGRAM: Program = unsafe { Program::new("standin.cl", TEXT) };
pub static NEXT: Kernel<(Write<u64>, u64, i32)> = Kernel::new(&PROGRAM, "next");
pub static SUM: Kernel<(Read<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "sum");

/// Returns a runtime with one device of the interface that the parent process has named.
pub fn runtime() -> Runtime {
    with_units(&format!("1:{}:1", kind()))
}

/// Returns the kind of unit that the parent process has named.
pub fn kind() -> String {
    std::env::var("STANDIN_UNITS").expect("a test runs this in a separate process")
}

pub fn with_units(units: &str) -> Runtime {
    Runtime::builder().compute_units(units).scheduler("dynamic").build().unwrap()
}

/// Submits `y ← 31 y + salt`, for the device only.
pub fn next(rt: &Runtime, y: &Data<u64>, salt: u64) {
    rt.task("next", (y.inout(),))
        .gpu(move |k, (mut y,)| {
            let n = y.len();
            k.launch(&NEXT, n, (&mut y, salt, n as i32))
        })
        .submit()
        .unwrap();
}

pub fn nexts(mut y: u64, salts: std::ops::Range<u64>) -> u64 {
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

/// Chains that are independent except for a common first task.
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
pub const TOTALS: usize = 10;

/// Reductions to a few numbers.
#[test]
#[ignore = "run on a stand-in by another test"]
fn reductions() {
    let rt = runtime();
    let x = rt.data((0..100).map(f64::from).collect::<Vec<_>>());
    let totals: Vec<_> = (0..TOTALS).map(|_| rt.scalar(0.0)).collect();
    for n in 0..REDUCTIONS {
        rt.task("sum", (x.input(), totals[n as usize % TOTALS].reduction(Sum)))
            .gpu(|k, (x, mut total)| k.launch(&SUM, x.len(), (&x, &mut total, x.len() as i32)))
            .submit()
            .unwrap();
    }
    for total in &totals {
        assert_eq!(rt.read(total).unwrap()[0], 4950.0 * 20.0);
    }
}

/// Bodies that leave the thread bound to a different context, as library calls may do.
#[test]
#[ignore = "run on a stand-in by another test"]
fn thread_left_unbound() {
    let rt = runtime();
    let y = rt.data(vec![1; 10]);
    for salt in 0..100 {
        rt.task("stranger", (y.inout(),))
            .gpu(move |k, (mut y,)| {
                unbind();
                let n = y.len();
                k.launch(&NEXT, n, (&mut y, salt, n as i32))?;
                unbind();
                Ok::<(), DeviceError>(())
            })
            .submit()
            .unwrap();
    }
    assert_eq!(rt.take(y).unwrap(), [nexts(1, 0..100); 10]);
}

/// Removes the thread's CUDA context, or binds the thread to HIP's second device.
fn unbind() {
    let (library, name) = match std::env::var("STANDIN_UNITS").as_deref() {
        Ok("CUDA") => (c"libcuda.so.1", c"cuCtxSetCurrent"),
        _ => (c"libamdhip64.so.8", c"hipSetDevice"),
    };
    // SAFETY: the library is already loaded. Both functions take a single number or address, and null and 1 are valid
    // arguments.
    unsafe {
        let bind = libc::dlsym(libc::dlopen(library.as_ptr(), libc::RTLD_NOW), name.as_ptr());
        assert!(!bind.is_null());
        let bind: extern "C" fn(usize) -> i32 = std::mem::transmute(bind);
        assert_eq!(bind(usize::from(name == c"hipSetDevice")), 0);
    }
}

/// Allocates more scratch memory in total than the device has, in sizes that cannot be reused for one another.
#[test]
#[ignore = "run on a stand-in by another test"]
fn scratch() {
    let rt = runtime();
    let y: Vec<_> = (0..8).map(|n| rt.data(vec![n; 10])).collect();
    for megabytes in 1..6usize {
        for y in &y {
            rt.task("scratch", (y.inout(),))
                .gpu(move |k, (mut y,)| {
                    k.scratch::<f64>(megabytes << 17)?;
                    let n = y.len();
                    k.launch(&NEXT, n, (&mut y, megabytes as u64 - 1, n as i32))
                })
                .submit()
                .unwrap();
        }
    }
    for (n, y) in (0..).zip(y) {
        assert_eq!(rt.take(y).unwrap(), [nexts(n, 0..5); 10]);
    }
}

/// Arrays, private replicas and scratch memory together exceed the device's memory, although its capacity should
/// suffice.
#[test]
#[ignore = "run on a stand-in by another test"]
fn shortage() {
    const ELEMENTS: usize = 1 << 15; // a quarter of a MiB
    let rt = runtime();
    let y: Vec<_> = (0..24).map(|n| rt.data(vec![n; ELEMENTS])).collect();
    let ones = rt.data(vec![1.0; ELEMENTS]);
    let totals: Vec<_> = (0..8).map(|_| rt.data(vec![0.0; ELEMENTS])).collect();
    for salt in 0..6 {
        for (n, y) in y.iter().enumerate() {
            rt.task("scratch", (y.inout(),))
                .gpu(move |k, (mut y,)| {
                    k.scratch::<u64>((1 + n % 3) * ELEMENTS)?;
                    let n = y.len();
                    k.launch(&NEXT, n, (&mut y, salt, n as i32))
                })
                .submit()
                .unwrap();
            rt.task("sum", (ones.input(), totals[n % 8].reduction(Sum)))
                .gpu(|k, (x, mut total)| k.launch(&SUM, x.len(), (&x, &mut total, x.len() as i32)))
                .submit()
                .unwrap();
        }
    }
    rt.wait().unwrap();
    for (n, y) in (0..).zip(y) {
        assert_eq!(rt.take(y).unwrap(), [nexts(n, 0..6); ELEMENTS]);
    }
    totals.into_iter().for_each(|total| assert_eq!(rt.take(total).unwrap()[0], (18 * ELEMENTS) as f64));
}

/// A single task that needs more memory than the device has.
#[test]
#[ignore = "run on a stand-in by another test"]
fn working_set_too_large() {
    let rt = runtime();
    let (x, y) = (rt.data(vec![1u64; 1 << 18]), rt.data(vec![1u64; 10]));
    next(&rt, &y, 1);
    next(&rt, &x, 1);
    rt.task("scratch", (y.inout(),)).gpu(|k, _| k.scratch::<u64>(1 << 18).map(drop)).submit().unwrap();
    let error = rt.wait().unwrap_err().to_string();
    assert!(error.contains("cannot allocate 2097152 bytes on") && error.contains("bytes are in use there"), "{error}");
    let z = rt.data(vec![1u64; 10]);
    next(&rt, &z, 5);
    assert_eq!(rt.take(z).unwrap(), [nexts(1, 5..6); 10]);
}

/// Large arrays: one that no device touches, one that is copied once, and one that is copied back each time.
#[test]
#[ignore = "run on a stand-in by another test"]
fn large_arrays() {
    let rt = runtime();
    let [never, once, often] = [0, 1, 2].map(|n| rt.data(vec![n; 1 << 18]));
    for _ in 0..3 {
        rt.task("cores", (never.inout(),)).cpu(|_, (y,)| y[0] += 1).submit().unwrap();
    }
    next(&rt, &once, 0);
    for salt in 0..4 {
        next(&rt, &often, salt);
        rt.task("cores", (often.inout(),)).cpu(|_, (y,)| y[0] += 1).submit().unwrap();
    }
    let often = rt.take(often).unwrap();
    assert_eq!((often.len(), often[1]), (1 << 18, nexts(2, 0..4)));
    rt.wait().unwrap();
}

/// Boxes of several MiB with gaps between their rows on the host. They are copied in pieces that do not divide them
/// evenly.
#[test]
#[ignore = "run on a stand-in by another test"]
fn large_boxes() {
    let rt = with_units(&format!("1:CPU:1,1:{}:1", kind()));
    let whole = ndarray::Array3::from_shape_fn((3, 701, 503), |(i, j, k)| (i * 1_000_000 + j * 1000 + k) as u64);
    let (x, y) = (rt.array(whole.clone()), rt.data(vec![7u64; 1_000_003]));
    let mut expected = whole;
    for salt in 0..3 {
        next(&rt, &y, salt);
        for (j, k) in [(100..701, 3..500), (0..1, 0..503), (99..600, 0..503)] {
            rt.task("rows", (x.block((.., j.clone(), k.clone())).inout(),))
                .gpu(move |launcher, (mut x,)| {
                    // The task changes only the first row of the box; the other rows are just copied in both
                    // directions.
                    let n = x.extents()[2];
                    launcher.launch(&NEXT, n, (&mut x, salt, n as i32))
                })
                .submit()
                .unwrap();
            expected.slice_mut(ndarray::s![0, j.start, k]).map_inplace(|x| *x = nexts(*x, salt..salt + 1));
        }
        rt.task("cores", (x.inout(),)).host(|_, (mut x,)| x += 1).submit().unwrap();
        rt.task("cores", (y.inout(),)).host(|_, (y,)| y.iter_mut().for_each(|y| *y += 1)).submit().unwrap();
        expected += 1;
    }
    assert_eq!(rt.take(x).unwrap(), expected);
    let y = rt.take(y).unwrap();
    let last = (0..3).fold(7, |y, salt| nexts(y, salt..salt + 1) + 1);
    assert_eq!((y.len(), y.iter().all(|y| *y == last)), (1_000_003, true));
}

/// A single task.
#[test]
#[ignore = "run on a stand-in by another test"]
fn single_task() {
    let rt = runtime();
    let y = rt.data(vec![1; 10]);
    next(&rt, &y, 5);
    assert_eq!(rt.take(y).unwrap(), [nexts(1, 5..6); 10]);
}

/// A single task whose kernel cannot be compiled. The error must contain the text in `STANDIN_EXPECTED`.
#[test]
#[ignore = "run on a stand-in by another test"]
fn without_a_compiler() {
    let rt = runtime();
    let y = rt.data(vec![1; 10]);
    next(&rt, &y, 5);
    let error = rt.wait().unwrap_err().to_string();
    assert!(error.contains(&std::env::var("STANDIN_EXPECTED").unwrap()), "{error}");
}

/// A machine loses a device: data that can be read is correct, all other data is reported as lost, and the program
/// continues.
#[test]
#[ignore = "run on a stand-in by another test"]
fn loss() {
    let rt = with_units(&std::env::var("STANDIN_MACHINE").unwrap());
    let y: Vec<_> = (0..16u64).map(|n| rt.data(vec![n; 10])).collect();
    let x = rt.data((0..100).map(f64::from).collect::<Vec<_>>());
    let totals: Vec<_> = (0..4).map(|_| rt.scalar(0.0)).collect();
    let step = |y: &Data<u64>, salt: u64| {
        rt.task("step", (y.inout(),))
            .cpu(move |_, (y,)| y.iter_mut().for_each(|y| *y = nexts(*y, salt..salt + 1)))
            .gpu(move |k, (mut y,)| {
                let n = y.len();
                k.launch(&NEXT, n, (&mut y, salt, n as i32))
            })
            .submit()
            .unwrap();
    };
    for salt in 0..40 {
        y.iter().for_each(|y| step(y, salt));
        rt.task("sum", (x.input(), totals[salt as usize % 4].reduction(Sum)))
            .cpu(|_, (x, total)| total[0] += x.iter().sum::<f64>())
            .gpu(|k, (x, mut total)| k.launch(&SUM, x.len(), (&x, &mut total, x.len() as i32)))
            .submit()
            .unwrap();
        if salt % 10 == 9 {
            y.iter().for_each(|y| _ = rt.read(y)); // these reads also copy data to the host
        }
    }
    let ended = rt.wait();
    let mut lost = 0;
    let mut is_lost = |error: String| {
        assert!(error.contains("lost") || error.contains("cannot"), "{error}");
        lost += 1;
    };
    for (n, y) in (0..).zip(&y) {
        match rt.read(y) {
            Ok(found) => assert_eq!(found, [nexts(n, 0..40); 10]),
            Err(error) => is_lost(error.to_string()),
        }
    }
    for total in &totals {
        match rt.read(total) {
            Ok(found) => assert_eq!(found, [49500.0]),
            Err(error) => is_lost(error.to_string()),
        }
    }
    println!("{lost} lost, {}", ended.map_or_else(|error| error.to_string(), |()| "nothing failed".to_owned()));
    // Lost data is recomputed on the remaining units. A second attempt is needed if the loss is noticed only now.
    let anew = || {
        for y in &y {
            rt.task("begin", (y.output(),)).cpu(|_, (y,)| y.fill(5)).submit().unwrap();
            step(y, 1);
        }
        rt.wait()?;
        y.iter().try_for_each(|y| rt.read(y).map(drop))
    };
    if let Err(error) = anew() {
        let is_first = lost == 0 && (error.to_string().contains("lost") || error.to_string().contains("cannot"));
        assert!(is_first, "{lost} lost before, {error}");
        _ = rt.wait(); // may report a failure again that a read has already returned
        anew().unwrap();
    }
    y.into_iter().for_each(|y| assert_eq!(rt.take(y).unwrap(), [nexts(5, 1..2); 10]));
}

/// An array that is page-locked on request, before its first copy.
#[test]
#[ignore = "run on a stand-in by another test"]
fn pin_memory() {
    let rt = runtime();
    let y = rt.data(vec![1u64; 1000]);
    assert!(y.pin_memory() && y.pin_memory());
    next(&rt, &y, 5);
    assert_eq!(rt.read(&y).unwrap(), [nexts(1, 5..6); 1000]);
    let kept = y.clone();
    assert_eq!(rt.take(y).unwrap().len(), 1000);
    assert!(!kept.pin_memory());
}

/// Number of tasks with temporary memory.
pub const WITH_SCRATCH: u64 = 30;

/// A chain of tasks of which each needs temporary memory.
#[test]
#[ignore = "run on a stand-in by another test"]
fn scratch_in_a_chain() {
    let rt = runtime();
    let y = rt.data(vec![1u64; 10]);
    for salt in 0..WITH_SCRATCH {
        rt.task("next", (y.inout(),))
            .gpu(move |k, (mut y,)| {
                let mut between = k.scratch::<u64>(10)?;
                k.launch(&NEXT, 10, (&mut between, salt, 10))?;
                k.launch(&NEXT, 10, (&mut y, salt, 10))
            })
            .submit()
            .unwrap();
    }
    assert_eq!(rt.take(y).unwrap(), [nexts(1, 0..WITH_SCRATCH); 10]);
}

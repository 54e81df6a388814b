//! Calls of the driver that take long or wait for the device: the work that continues meanwhile, and programs that make
//! none.

use super::drivers::{Report, Settings};
use super::programs::{self, next, nexts, runtime, with_units};
use super::{on_both, report};
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg::prelude::*;

/// Elements of an array that is copied in more than 64 pieces.
const LARGE: usize = (9 << 20) + 3;

/// Returns settings for copies that wait for launches. The access sanitizer copies regions on the thread that launches,
/// so no program under it could end such a copy.
fn copies_wait(settings: &Settings) -> Settings {
    settings.clone().with("STANDIN_COPY_LAUNCHES", 8).with("THALWEG_SANITIZE", 0)
}

/// The device executes no piece of a large copy before more kernels have been launched, so the copy never ends if it
/// stops launches.
#[test]
fn large_copies_do_not_stop_launches() {
    on_both(|settings| {
        let Some(report) = report(&copies_wait(settings), "copies::large_copies_beside_launches") else { return };
        assert_eq!((report.of("blocking copies"), report.of("locks of existing memory")), (0, 0), "{report:?}");
        assert!(report.of("copies in") > 72 && report.of("copies out") > 72, "{report:?}");
        assert!(report.of("staging bytes") <= 16 << 20, "{report:?}");
    });
}

/// Without page-locked memory, a copy blocks its thread, which is not one that launches.
#[test]
fn blocking_copies_do_not_stop_launches() {
    on_both(|settings| {
        let settings = copies_wait(settings).with("STANDIN_HOST_HOLDS", 0);
        let Some(report) = report(&settings, "copies::large_copies_beside_launches") else { return };
        assert!(report.of("blocking copies") > 144 && report.of("staging bytes") == 0, "{report:?}");
    });
}

/// The driver does not return from page-locking an array before more kernels have been launched.
#[test]
fn page_locking_does_not_stop_launches() {
    on_both(|settings| {
        let settings = settings.clone().with("STANDIN_LOCK_LAUNCHES", 100);
        let Some(report) = report(&settings, "copies::page_locking_beside_launches") else { return };
        assert_eq!((report.of("locks of existing memory"), report.of("blocking copies")), (1, 0), "{report:?}");
    });
}

/// After its first rounds, a program that repeats itself allocates nothing, although the sizes of its arrays change a
/// little from round to round.
#[test]
fn nothing_is_allocated_in_steady_state() {
    let calls = ["MemAlloc_v2", "MemFree_v2", "MemHostAlloc", "MemFreeHost", "MemHostRegister_v2", "MemHostUnregister"];
    let of_hip = ["Malloc", "Free", "HostMalloc", "HostFree", "HostRegister", "HostUnregister"];
    on_both(|settings| {
        let Some(report) = report(settings, "copies::steady_state") else { return };
        for call in calls.map(|call| format!("cu{call}")).into_iter().chain(of_hip.map(|call| format!("hip{call}"))) {
            assert_eq!(report.of(&format!("steady: {call}")), 0, "{call}: {report:?}");
        }
        assert!(report.sum("steady: launches on stream") >= (ARRAYS * ROUNDS) as i64, "{report:?}");
        assert!(report.of("steady: copies in") > 0 && report.of("steady: copies out") > 0, "{report:?}");
    });
}

/// Runs programs on memory from the driver's pool, which is neither kept nor freed by other calls.
#[test]
fn memory_may_come_from_the_drivers_pool() {
    on_both(|settings| {
        let pool = settings.clone().with("THALWEG_DEVICE_MEMORY", "pool");
        let calls = |report: &Report, name: &[&str]| name.iter().map(|name| report.of(name)).sum::<i64>();
        for (settings, is_used) in [(pool.clone(), true), (pool.with("STANDIN_POOLS", 0), false)] {
            let Some(report) = report(&settings, "copies::steady_state") else { return };
            let (pooled, freed) = (&["cuMemAllocAsync", "hipMallocAsync"], &["cuMemFreeAsync", "hipFreeAsync"]);
            assert_eq!(calls(&report, pooled), calls(&report, freed), "{report:?}");
            assert_eq!(calls(&report, pooled) > (ARRAYS * ROUNDS) as i64, is_used, "{report:?}");
            assert_eq!(calls(&report, &["cuMemAlloc_v2", "hipMalloc"]) == 0, is_used, "{report:?}");
        }
        // Devices that cannot reach each other's pools use none.
        let two = settings.clone().with("THALWEG_DEVICE_MEMORY", "pool").with("STANDIN_DEVICES", 2);
        for (settings, is_used) in [(two.clone(), true), (two.with("STANDIN_PEERS", 0), false)] {
            let report = report(&settings, "across::peers").expect("the stand-in is built");
            assert_eq!(calls(&report, &["cuMemAllocAsync", "hipMallocAsync"]) > 0, is_used, "{report:?}");
        }
    });
}

/// Returns how often the stand-in has counted something.
pub fn counted(what: &str) -> i64 {
    let what = CString::new(what).unwrap();
    // SAFETY: the stand-in's function takes a text that ends with a zero, and returns a number.
    let count: extern "C" fn(*const std::ffi::c_char) -> i64 =
        unsafe { std::mem::transmute(super::raw::function("standin_count")) };
    count(what.as_ptr())
}

/// Launches kernels one after the other until `work` has returned.
fn beside_launches<R>(rt: &Runtime, work: impl FnOnce() -> R) -> R {
    let (y, ended) = (rt.data(vec![1u64; 10]), AtomicBool::new(false));
    next(rt, &y, 0);
    rt.wait().unwrap(); // the launches below need no copies
    std::thread::scope(|scope| {
        let launched = scope.spawn(|| {
            let mut salts = 1..;
            while !ended.load(Ordering::Relaxed) {
                let salt = salts.next().unwrap();
                let task = rt.task("beside", (y.inout(),));
                let task = task.gpu(move |k, (mut y,)| k.launch(&programs::NEXT, 10, (&mut y, salt, 10)));
                task.submit_handle().unwrap().wait().unwrap();
            }
            salts.start
        });
        let result = work();
        ended.store(true, Ordering::Relaxed);
        let launches = launched.join().unwrap();
        assert_eq!(rt.read(&y).unwrap(), [nexts(1, 0..launches); 10]);
        result
    })
}

/// Changes the first elements of an array, all of which is copied.
fn first_elements(rt: &Runtime, x: &Data<u64>, salt: u64) {
    rt.task("first", (x.inout(),))
        .gpu(move |k, (mut x,)| k.launch(&programs::NEXT, 10, (&mut x, salt, 10)))
        .submit()
        .unwrap();
}

#[test]
#[ignore = "run on a stand-in by another test"]
fn large_copies_beside_launches() {
    let rt = runtime();
    // An array of this kind is page-locked on request only.
    let x = rt.zeros_in::<u64, _>(MemoryKind::DeviceOnly, [LARGE]);
    rt.task("count", (x.output(),)).host(|_, (x,)| x.iter_mut().zip(0..).for_each(|(x, n)| *x = n)).submit().unwrap();
    rt.wait().unwrap();
    let copied = beside_launches(&rt, || {
        first_elements(&rt, &x, 5);
        rt.read(&x).unwrap()
    });
    assert!(copied[..10].iter().zip(0..).all(|(x, n)| *x == nexts(n, 5..6)));
    assert!(copied[10..].iter().zip(10..).all(|(x, n)| *x == n));
}

#[test]
#[ignore = "run on a stand-in by another test"]
fn page_locking_beside_launches() {
    let rt = runtime();
    let x = rt.data(vec![3u64; 1 << 20]);
    beside_launches(&rt, || {
        // The request of the second copy is served by another thread, so several copies may come before it is done.
        let mut salt = 0;
        while counted("locks of existing memory") == 0 || salt < 3 {
            first_elements(&rt, &x, salt);
            rt.task("cores", (x.inout(),)).host(|_, (x,)| x[0] += 1).submit().unwrap();
            rt.wait().unwrap();
            salt += 1;
        }
        let expected = (0..salt).fold(3, |x, salt| nexts(x, salt..salt + 1) + 1);
        assert_eq!(rt.read(x.slice(..1)).unwrap(), [expected]);
    });
}

const ARRAYS: usize = 24;
const ROUNDS: usize = 10;

/// Tells the stand-in that a phase of the program begins.
fn phase(name: &std::ffi::CStr) {
    // SAFETY: the stand-in's function takes a text that ends with a zero, and returns nothing.
    let phase: extern "C" fn(*const std::ffi::c_char) =
        unsafe { std::mem::transmute(super::raw::function("standin_phase")) };
    phase(name.as_ptr());
}

/// Arrays of several sizes that live for one round, with scratch memory and a reduction.
#[test]
#[ignore = "run on a stand-in by another test"]
fn steady_state() {
    let rt = with_units(&format!("1:CPU:1,1:{}:1", programs::kind()));
    let (ones, total) = (rt.data(vec![1.0; 100]), rt.scalar(0.0));
    for round in 0..2 * ROUNDS {
        if round == ROUNDS {
            rt.wait().unwrap();
            phase(c"steady");
        }
        let len = |n: usize| (128 << (n % 8)) - 1 - (2 * ROUNDS - round) * (n % 8); // they grow
        let arrays: Vec<_> = (0..ARRAYS).map(|n| rt.data(vec![n as u64; len(n)])).collect();
        for (n, y) in arrays.iter().enumerate() {
            rt.task("next", (y.inout(),))
                .gpu(move |k, (mut y,)| {
                    let mut between = k.scratch::<u64>(100 * (1 + n % 8))?;
                    k.launch(&programs::NEXT, 100, (&mut between, 1, 100))?;
                    let n = y.len();
                    k.launch(&programs::NEXT, n, (&mut y, round as u64, n as i32))
                })
                .submit()
                .unwrap();
        }
        rt.task("sum", (ones.input(), total.reduction(Sum)))
            .gpu(|k, (x, mut total)| k.launch(&programs::SUM, 100, (&x, &mut total, 100)))
            .submit()
            .unwrap();
        for (n, y) in arrays.into_iter().enumerate() {
            let expected = nexts(n as u64, round as u64..round as u64 + 1);
            assert!(rt.take(y).unwrap().iter().all(|y| *y == expected));
        }
    }
    assert_eq!(rt.read(&total).unwrap(), [100.0 * (2 * ROUNDS) as f64]);
    phase(c"end");
}

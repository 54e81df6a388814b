//! Random programs on small emulated devices that fail, against a sequential oracle.
//!
//! Devices have too little memory, of different size; now and then a copy fails, a device is lost, a body fails or panics,
//! a handle is dropped. Every other program has tasks whose bodies, on cores or devices, submit others as children. Regions
//! overlap partly, or are empty. Whatever happens:
//!
//! - what can be read is what the tasks would have written one after the other;
//! - what a failed body should have written can not be read, and neither can what was computed from it;
//! - what no reported failure can have reached can be read;
//! - nothing hangs.
//!
//! `THALWEG_CASES` sets the number of programs (3000), `THALWEG_SEED` the first one's seed. A program that fails says its
//! seed; with `THALWEG_CASES=1` it is run alone.

#[path = "../common/mod.rs"]
mod common;
mod oracle;
mod program;
#[path = "../common/random.rs"]
mod random;
mod run;
#[path = "../common/steps.rs"]
mod steps;

use common::watched;
use ndarray::{Ix2, Ix3};
use program::Program;
use random::variable;
use run::run;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thalweg::prelude::*;

/// The seed of the program that runs; ends the process if that does not change for a long time.
static SEED: AtomicU64 = AtomicU64::new(0);

fn watch() {
    std::thread::spawn(|| {
        let (mut last, mut looks) = (u64::MAX, 0);
        loop {
            std::thread::sleep(Duration::from_secs(10));
            let seed = SEED.load(Ordering::Relaxed);
            (last, looks) = (seed, if seed == last { looks + 1 } else { 0 });
            if looks == 6 {
                // Past the capture of tests' output, which ends with the process.
                let _ = writeln!(std::io::stderr(), "THALWEG_SEED={seed} hangs: {:#?}", Program::new(seed));
                std::process::abort();
            }
        }
    });
}

#[test]
fn what_failures_leave_is_right_or_poisoned() {
    let (cases, first) = (variable("THALWEG_CASES", 3000), variable("THALWEG_SEED", 1));
    watch();
    (first..first + cases).for_each(check);
}

/// A device that another's replicas relied on when they left is lost. It takes a certain timing, so it is tried often.
#[test]
fn who_leaves_may_have_relied_on_a_device_that_is_lost() {
    (0..20).for_each(|_| check(515));
}

/// Runs the program of this seed.
fn check(seed: u64) {
    SEED.store(seed, Ordering::Relaxed);
    let program = Program::new(seed);
    let ran = catch_unwind(AssertUnwindSafe(|| match program.dims {
        1 => run::<Ix1>(&program),
        2 => run::<Ix2>(&program),
        _ => run::<Ix3>(&program),
    }));
    if let Err(panic) = ran {
        eprintln!("THALWEG_SEED={seed}: {program:#?}");
        resume_unwind(panic);
    }
}

#[test]
fn a_task_goes_to_the_device_of_its_unit_that_it_fits() {
    watched("unequal devices", || {
        let devices = |n: usize| EmulatedDevice::new().capacity_bytes([8000, 800][n]);
        let rt = Runtime::builder().compute_units("1:EMU:2").emulated_devices(devices).build().unwrap();
        let data: Vec<_> = (0..8).map(|_| rt.data(vec![1u64; 500])).collect();
        for x in &data {
            let add = rt.task("add", (x.inout(),)).emulated(|_, (x,)| x.iter_mut().for_each(|x| *x += 1));
            add.submit().unwrap();
        }
        rt.wait().unwrap();
        data.into_iter().for_each(|x| assert_eq!(rt.take(x).unwrap(), [2; 500]));
    });
}

#[test]
fn what_no_device_can_hold_is_run_by_the_thread_that_hosts_one() {
    watched("too large", || {
        let rt = Runtime::builder()
            .compute_units("1:EMU:1")
            .emulated_devices(|_| EmulatedDevice::new().capacity_bytes(80))
            .build()
            .unwrap();
        let x = rt.data(vec![1u64; 500]);
        rt.task("add", (x.inout(),)).cpu(|at, (x,)| x.fill(1 + u64::from(at.is_cpu()))).submit().unwrap();
        let refused = rt.task("add", (x.inout(),)).emulated(|_, _| ()).submit();
        assert!(matches!(refused, Err(SubmitError::WorkingSet { needed_bytes: 4000, capacity_bytes: 80, .. })));
        assert_eq!(rt.take(x).unwrap(), [2; 500]);
    });
}

#[test]
fn a_hosting_thread_runs_what_cores_can_when_its_last_device_is_lost() {
    watched("last device", || {
        let device = |_| EmulatedDevice::new().lost_after_tasks(0);
        let rt = Runtime::builder().compute_units("1:EMU:1").emulated_devices(device).build().unwrap();
        let (x, y) = (rt.data(vec![1u64; 4]), rt.data(vec![1u64; 4]));
        let data: Vec<_> = (0..20).map(|_| rt.scalar(0u64)).collect();
        rt.task("finds the loss", (x.inout(),)).emulated(|_, _| ()).submit().unwrap();
        for x in &data {
            rt.task("queued", (x.inout(),)).emulated(|_, _| ()).submit().unwrap(); // no unit is left for these
        }
        assert_eq!(common::failed(rt.wait()), ["finds the loss"]);
        rt.task("host", (y.inout(),)).host(|_, (y,)| y[0] = 2).submit().unwrap();
        rt.task("cpu", (y.inout(),)).cpu(|_, (y,)| y[1] = 3).submit().unwrap();
        rt.wait().unwrap();
        assert_eq!(rt.take(y).unwrap(), [2, 3, 1, 1]);
    });
}

#[test]
fn a_data_goes_while_another_wants_the_room_of_its_replica() {
    watched("release and eviction", || {
        const N: usize = 512;
        for round in 0..40 {
            let device = |_| EmulatedDevice::new().capacity_bytes(8 * N as u64 + 64);
            let rt = Runtime::builder().compute_units("1:EMU:1").emulated_devices(device).build().unwrap();
            let (x, y, z) = (rt.data(vec![1u64; N]), rt.data(vec![2u64; N]), rt.scalar(0u64));
            let (open, wait) = common::gate();
            let first = rt.task("first", (x.inout(), z.inout()));
            first
                .emulated(move |_, (x, _)| {
                    wait();
                    x.fill(7)
                })
                .submit()
                .unwrap();
            // Both wait for the first, and get their turns in one step: in either order.
            let other = || rt.task("other", (y.inout(), z.input())).emulated(|_, (y, _)| y[0] += 1).submit().unwrap();
            if round % 2 == 0 {
                other();
                drop(x);
            } else {
                drop(x);
                other();
            }
            drop(open);
            rt.wait().unwrap();
            assert_eq!(rt.read(&y.slice(..2)).unwrap(), [3, 2]);
        }
    });
}

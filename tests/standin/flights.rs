//! Independent tasks, many of which must be in flight at once.

use super::drivers::Report;
use super::programs::{self, CHAIN, NEXT, SUM, nexts, runtime};
use super::{on_both, report};
use thalweg::prelude::*;

/// The number of narrow tasks for each wide task.
pub const NARROW: u64 = 24;
pub const TASKS: u64 = 300;
/// The number of elements of a wide task. It takes all threads of the stand-in's device.
const WIDE: usize = 8192;

/// The device executes nothing until enough kernels are in flight at once, so they cannot end before.
#[test]
fn narrow_kernels_are_in_flight_at_once() {
    on_both(|settings| {
        for program in ["wide_among_narrow", "handles", "reductions", "commutative"] {
            let settings = settings.clone().with("STANDIN_GATHER", NARROW);
            let Some(report) = report(&settings, &format!("flights::{program}")) else { return };
            let most = report.of("most kernels in flight");
            println!("{} {program}: {most} in flight", settings.units);
            assert!(most >= NARROW as i64, "{program}: only {most} in flight");
        }
    });
}

/// Returns the number of driver calls besides launches.
fn others(report: &Report) -> i64 {
    report.calls() - report.launches()
}

/// Calls that belong together bind their context only once, and most tasks of a chain need neither an event nor a
/// query.
#[test]
fn chain_needs_few_calls_and_no_waits_between_streams() {
    on_both(|settings| {
        for delay in [0, 50] {
            let Some(report) = report(&settings.clone().with("STANDIN_DELAY_US", delay), "chain") else { return };
            let calls = others(&report) as f64 / CHAIN as f64;
            println!("{}: {calls:.2} calls per task, delays up to {delay} us", settings.units);
            assert_eq!(report.launches(), CHAIN as i64);
            let waits = report.of("cuStreamWaitEvent") + report.of("hipStreamWaitEvent");
            assert!(waits == 0 && report.of("blocking copies") == 0, "{report:?}");
            assert!(calls <= 1.3, "{calls:.2} calls per task {report:?}");
            // Without a trace, no times are noted.
            assert_eq!(report.of("timed events") + report.sum("cuEventElapsed") + report.sum("hipEventElapsed"), 0);
        }
    });
}

#[test]
fn independent_tasks_and_reductions_need_few_calls() {
    on_both(|settings| {
        let programs = [("rotation", ARRAYS * ROUNDS), ("many_reductions", REDUCTIONS)];
        for (program, tasks) in programs {
            // The device is slow, so that it always has work.
            let settings = settings.clone().with("STANDIN_DELAY_US", 8000);
            let Some(report) = report(&settings, &format!("flights::{program}")) else { return };
            let calls = others(&report) as f64 / tasks as f64;
            println!("{} {program}: {calls:.2} calls per task", settings.units);
            assert!(calls <= 1.5, "{program}: {calls:.2} calls per task {report:?}");
        }
    });
}

/// There are at most as many streams as hardware queues, because streams that share a queue wait for each other. How
/// many streams have work depends on how fast kernels are issued and how fast they end. The device executes nothing
/// until many kernels are in flight, so independent chains begin on all streams.
#[test]
fn streams_are_as_many_as_hardware_queues() {
    on_both(|settings| {
        let variable = if settings.units == "CUDA" { "CUDA_DEVICE_MAX_CONNECTIONS" } else { "GPU_MAX_HW_QUEUES" };
        let settings = settings.clone().with("STANDIN_GATHER", 32);
        let usual = if settings.units == "CUDA" { 8 } else { 7 };
        let many = settings.clone().with(variable, 20);
        for (settings, streams) in [(settings, usual), (many.clone(), 20), (many.with(variable, 1000), 32)] {
            let Some(report) = report(&settings, "chains") else { return };
            let made = report.of("cuStreamCreate") + report.of("hipStreamCreateWithFlags");
            let launches: Vec<_> = report.starting("launches on stream").map(|(_, launches)| launches).collect();
            println!("{}: {made} streams, launches {launches:?}", settings.units);
            assert_eq!(made, streams);
            assert!((4..=streams - 3).contains(&(launches.len() as i64)), "three streams have only copies");
            assert_eq!(report.launches(), (programs::CHAINS * 20 + 1) as i64);
        }
    });
}

fn arrays(rt: &Runtime) -> Vec<Data<u64>> {
    (0..TASKS).map(|n| rt.data(vec![n; if n % (NARROW + 1) == 7 { WIDE } else { 10 }])).collect()
}

fn check(rt: &Runtime, arrays: Vec<Data<u64>>) {
    for (n, y) in (0..).zip(arrays) {
        assert!(rt.take(y).unwrap().iter().all(|y| *y == nexts(n, 3..4)));
    }
}

/// Independent tasks with a wide launch among narrow ones.
#[test]
#[ignore = "run on a stand-in by another test"]
fn wide_among_narrow() {
    let rt = runtime();
    let arrays = arrays(&rt);
    arrays.iter().for_each(|y| programs::next(&rt, y, 3));
    check(&rt, arrays);
}

/// The same tasks, each awaited through a handle.
#[test]
#[ignore = "run on a stand-in by another test"]
fn handles() {
    let rt = runtime();
    let arrays = arrays(&rt);
    let handles: Vec<_> = arrays
        .iter()
        .map(|y| {
            let task = rt.task("next", (y.inout(),)).gpu(|k, (mut y,)| {
                let n = y.len();
                k.launch(&NEXT, n, (&mut y, 3, n as i32))
            });
            task.submit_handle().unwrap()
        })
        .collect();
    handles.iter().for_each(|handle| handle.wait().unwrap());
    check(&rt, arrays);
}

/// Reductions to different numbers.
#[test]
#[ignore = "run on a stand-in by another test"]
fn reductions() {
    let rt = runtime();
    let x = rt.data((0..100).map(f64::from).collect::<Vec<_>>());
    let totals: Vec<_> = (0..TASKS).map(|_| rt.scalar(0.0)).collect();
    totals.iter().for_each(|total| sum(&rt, &x, total));
    totals.iter().for_each(|total| assert_eq!(rt.read(total).unwrap()[0], 4950.0));
}

/// Commutative tasks on different arrays.
#[test]
#[ignore = "run on a stand-in by another test"]
fn commutative() {
    let rt = runtime();
    let arrays = arrays(&rt);
    for y in &arrays {
        rt.task("next", (y.commutative(),))
            .gpu(|k, (mut y,)| {
                let n = y.len();
                k.launch(&NEXT, n, (&mut y, 3, n as i32))
            })
            .submit()
            .unwrap();
    }
    check(&rt, arrays);
}

pub const ARRAYS: u64 = 100;
pub const ROUNDS: u64 = 40;

/// Independent short tasks on a few arrays, each of which is used by every hundredth task.
#[test]
#[ignore = "run on a stand-in by another test"]
fn rotation() {
    let rt = runtime();
    let arrays: Vec<_> = (0..ARRAYS).map(|n| rt.data(vec![n; 10])).collect();
    for salt in 0..ROUNDS {
        arrays.iter().for_each(|y| programs::next(&rt, y, salt));
    }
    for (n, y) in (0..).zip(arrays) {
        assert_eq!(rt.take(y).unwrap(), [nexts(n, 0..ROUNDS); 10]);
    }
}

pub const REDUCTIONS: u64 = 5000;

/// Reductions to a few numbers.
#[test]
#[ignore = "run on a stand-in by another test"]
fn many_reductions() {
    let rt = runtime();
    let x = rt.data((0..100).map(f64::from).collect::<Vec<_>>());
    let totals: Vec<_> = (0..10).map(|_| rt.scalar(0.0)).collect();
    (0..REDUCTIONS).for_each(|n| sum(&rt, &x, &totals[n as usize % 10]));
    for total in &totals {
        assert_eq!(rt.read(total).unwrap()[0], 4950.0 * (REDUCTIONS / 10) as f64);
    }
}

fn sum(rt: &Runtime, x: &Data<f64>, total: &Data<f64>) {
    rt.task("sum", (x.input(), total.reduction(Sum)))
        .gpu(|k, (x, mut total)| k.launch(&SUM, x.len(), (&x, &mut total, x.len() as i32)))
        .submit()
        .unwrap();
}

//! Independent tasks, many of which must be in flight at once.

use super::programs::{NEXT, SUM, nexts, runtime};
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
    arrays.iter().for_each(|y| super::programs::next(&rt, y, 3));
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
    handles.iter().for_each(|handle| rt.wait_for(handle).unwrap());
    check(&rt, arrays);
}

/// Reductions to different numbers.
#[test]
#[ignore = "run on a stand-in by another test"]
fn reductions() {
    let rt = runtime();
    let x = rt.data((0..100).map(f64::from).collect::<Vec<_>>());
    let totals: Vec<_> = (0..TASKS).map(|_| rt.scalar(0.0)).collect();
    for total in &totals {
        rt.task("sum", (x.input(), total.reduction(Sum)))
            .gpu(|k, (x, mut total)| k.launch(&SUM, x.len(), (&x, &mut total, x.len() as i32)))
            .submit()
            .unwrap();
    }
    totals.iter().for_each(|total| assert_eq!(rt.read_scalar(total).unwrap(), 4950.0));
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

//! Tasks that share a region without an order among them: commutative tasks and reductions.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use thalweg::prelude::*;

fn runtime(units: &str) -> Runtime {
    Runtime::builder().compute_units(units).submitter_hosts_unit(false).detect_conflicts(true).build().unwrap()
}

/// What a body waits for until the sender is dropped.
fn gate() -> (Sender<()>, impl FnOnce() + Send + 'static) {
    let (open, opened) = channel::<()>();
    (open, move || _ = opened.recv())
}

#[test]
fn commutative_tasks_run_in_the_order_in_which_they_became_ready() {
    let rt = runtime("3:CPU:1");
    let x = rt.scalar(0usize);
    let order = Arc::new(Mutex::new(Vec::new()));
    let (open, wait) = gate();
    rt.task("holder", (x.commutative(),)).cpu(move |_, _| wait()).submit().unwrap();
    let n = 2000;
    for i in 0..n {
        let order = order.clone();
        rt.task("turn", (x.commutative(),)).cpu(move |_, _| order.lock().unwrap().push(i)).submit().unwrap();
    }
    drop(open);
    rt.wait().unwrap();
    assert_eq!(*order.lock().unwrap(), (0..n).collect::<Vec<_>>());
}

#[test]
fn no_commutative_task_is_lost_and_none_meets_another_on_its_regions() {
    for units in ["3:CPU:1", "1:CPU:1,1:EMU:2"] {
        let rt = runtime(units);
        let (n, len) = (3000, 24);
        let (x, y) = (rt.data(vec![0usize; len]), rt.array(ndarray::Array2::<usize>::zeros((6, 6))));
        let busy: Arc<Vec<AtomicBool>> = Arc::new((0..len).map(|_| AtomicBool::new(false)).collect());
        let (mut in_x, mut in_y) = (0, 0);
        for i in 0..n {
            let start = i * 7 % len;
            let range = start..(start + 1 + i * 5 % 6).min(len);
            let (row, column) = (i % 5, i * 3 % 5);
            in_x += range.len();
            in_y += 4;
            let busy = busy.clone();
            let tile = y.block((row..row + 2, column..column + 2));
            rt.task("turn", (x.slice(range.clone()).commutative(), tile.commutative()))
                .cpu(move |_, (x, mut y)| {
                    range.clone().for_each(|e| assert!(!busy[e].swap(true, Ordering::AcqRel), "two on element {e}"));
                    x.iter_mut().for_each(|x| *x += 1);
                    y.iter_mut().for_each(|y| *y += 1);
                    range.clone().for_each(|e| busy[e].store(false, Ordering::Release));
                })
                .submit()
                .unwrap();
            if i % 1000 == 999 {
                rt.task("all", (x.commutative(), y.commutative())).cpu(|_, _| ()).submit().unwrap();
            }
        }
        rt.wait().unwrap();
        assert_eq!(rt.conflicts(), Vec::<String>::new());
        assert_eq!(rt.read(&x.all()).unwrap().iter().sum::<usize>(), in_x);
        assert_eq!(rt.read(&y.all()).unwrap().iter().sum::<usize>(), in_y);
    }
}

#[test]
fn commutative_tasks_on_pieces_run_side_by_side_after_one_on_the_whole() {
    let rt = runtime("2:CPU:1");
    let x = rt.data(vec![0; 8]);
    rt.task("whole", (x.commutative(),)).cpu(|_, _| ()).submit().unwrap();
    let meet = Arc::new(Barrier::new(2));
    for piece in [0..4, 4..8] {
        let meet = meet.clone();
        rt.task("piece", (x.slice(piece).commutative(),)).cpu(move |_, _| drop(meet.wait())).submit().unwrap();
    }
    rt.wait().unwrap();
}

#[test]
fn a_commutative_task_that_fails_or_is_skipped_passes_its_turn_on() {
    let rt = runtime("2:CPU:1");
    let (x, lost) = (rt.scalar(0), rt.scalar(0));
    let (open, wait) = gate();
    rt.task("no value", (lost.output(),)).cpu(|_, _| Err::<(), _>("it is lost")).submit().unwrap();
    rt.task("holder", (x.commutative(),)).cpu(move |_, _| wait()).submit().unwrap();
    for i in 0..30 {
        match i % 3 {
            0 => {
                rt.task("panics", (x.commutative(),)).cpu(|_, (x,)| assert_eq!(x[0], usize::MAX, "on purpose")).submit()
            }
            1 => rt.task("skipped", (x.commutative(), lost.input())).cpu(|_, (x, _)| x[0] += 1000).submit(),
            _ => rt.task("turn", (x.commutative(),)).cpu(|_, (x,)| x[0] += 1).submit(),
        }
        .unwrap();
    }
    let (seen, last) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(2)));
    let (s, l) = (seen.clone(), last.clone());
    rt.task("last", (x.commutative(),))
        .cpu(move |_, (x,)| {
            s.store(x[0], Ordering::Release);
            l.wait();
        })
        .submit()
        .unwrap();
    drop(open);
    last.wait();
    assert_eq!(seen.load(Ordering::Acquire), 10);
    assert!(rt.wait().is_err());
}

//! Tasks that share a region in no particular order: commutative tasks and reductions.

use crate::common::{builder, gate, watched};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use thalweg::memory::{AnyOrder, Reducer, Reduction};
use thalweg::prelude::*;

fn runtime(units: &str) -> Runtime {
    builder(units, false).detect_conflicts(true).build().unwrap()
}

#[test]
fn commutative_tasks_run_in_the_order_they_became_ready() {
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
fn commutative_tasks_exclude_each_other_and_none_is_lost() {
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
                    range
                        .clone()
                        .for_each(|e| assert!(!busy[e].swap(true, Ordering::AcqRel), "two tasks on element {e}"));
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
        assert_eq!(rt.statistics().conflicts, Vec::<String>::new());
        assert_eq!(rt.read(&x.all()).unwrap().iter().sum::<usize>(), in_x);
        assert_eq!(rt.read(&y.all()).unwrap().iter().sum::<usize>(), in_y);
    }
}

#[test]
fn commutative_tasks_on_disjoint_parts_run_concurrently() {
    let rt = runtime("2:CPU:1");
    let x = rt.data(vec![0; 8]);
    rt.task("whole", (x.commutative(),)).cpu(|_, _| ()).submit().unwrap();
    let meet = Arc::new(Barrier::new(2));
    for piece in [0..4, 4..8] {
        let meet = meet.clone();
        rt.task("piece", (x.slice(piece).commutative(),)).cpu(move |_, _| _ = meet.wait()).submit().unwrap();
    }
    rt.wait().unwrap();
}

#[test]
fn failed_or_skipped_commutative_task_passes_its_turn_on() {
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

/// Returns an operation that waits at a gate when it is given `at` for the first time.
fn gated(at: u64) -> (Reduction<u64>, Sender<()>, std::sync::mpsc::Receiver<()>) {
    let (open, wait) = gate();
    let (there, arrived) = channel();
    let held = Mutex::new(Some((wait, there)));
    let add = Reduction::new("gated", 0, move |a: &mut u64, b| {
        if b == at
            && let Some((wait, there)) = held.lock().unwrap().take()
        {
            there.send(()).unwrap();
            wait();
        }
        *a += b;
    });
    (add, open, arrived)
}

/// Checks that submissions, bodies and other combinations continue while an operation takes a long time.
fn nobody_waits_for<R: Reducer<u64>>(wrap: impl Fn(Reduction<u64>) -> R) {
    let rt = runtime("2:CPU:1");
    let x = rt.scalar(0u64);
    let (add, open, arrived) = gated(1);
    let add = wrap(add);
    rt.task("first", (x.reduction(add.clone()),)).cpu(|_, (x,)| x[0] = 1).submit().unwrap();
    arrived.recv().unwrap();
    // One of the two threads is now inside the operation and stays there.
    let ran = Arc::new(Barrier::new(2));
    for i in 0..100 {
        let ran = ran.clone();
        rt.task("joins", (x.reduction(add.clone()),))
            .cpu(move |_, (x,)| {
                x[0] = 2;
                if i == 99 {
                    ran.wait();
                }
            })
            .submit()
            .unwrap();
    }
    ran.wait();
    drop(open);
    rt.wait().unwrap();
    assert_eq!(rt.read(&x).unwrap()[0], 201);
}

#[test]
fn slow_operation_does_not_block_other_tasks() {
    nobody_waits_for(|add| add);
    nobody_waits_for(AnyOrder);
}

#[test]
fn operation_may_submit_tasks_on_other_data_but_not_wait() {
    for any_order in [false, true] {
        let rt = Arc::new(runtime("2:CPU:1"));
        let (x, y) = (Arc::new(rt.scalar(0u64)), Arc::new(rt.scalar(0u64)));
        let refused = Arc::new(AtomicBool::new(false));
        let (r, d, saw) = (Arc::downgrade(&rt), y.clone(), refused.clone());
        let plain = Reduction::new("plain", 0, |a: &mut u64, b| *a += b);
        let more = plain.clone();
        let add = Reduction::new("submits", 0, move |a: &mut u64, b| {
            *a += b;
            if let Some(rt) = r.upgrade().filter(|_| b == 1) {
                saw.store(rt.wait().is_err(), Ordering::Relaxed);
                rt.task("more", (d.reduction(more.clone()),)).cpu(|_, (x,)| x[0] = 10).submit().unwrap();
            }
        });
        for _ in 0..50 {
            match any_order {
                true => rt.task("add", (x.reduction(AnyOrder(add.clone())),)).cpu(|_, (x,)| x[0] = 1).submit(),
                false => rt.task("add", (x.reduction(add.clone()),)).cpu(|_, (x,)| x[0] = 1).submit(),
            }
            .unwrap();
        }
        rt.wait().unwrap();
        assert!(refused.load(Ordering::Relaxed), "a wait in an operation would wait for its own task");
        assert_eq!(rt.read(x.all()).unwrap()[0], 50);
        let sum = rt.read(y.all()).unwrap()[0];
        assert!(sum.is_multiple_of(10) && sum > 0, "{sum}");
        drop(plain);
    }
}

#[test]
fn panicking_operation_fails_its_task_and_the_group_continues() {
    for any_order in [false, true] {
        let rt = runtime("2:CPU:1");
        let (x, other) = (rt.scalar(0u64), rt.scalar(0u64));
        let add = Reduction::new("panics at 1000", 0, |a: &mut u64, b| {
            assert!(*a < 1000 && b < 1000, "on purpose"); // the order is arbitrary, so it may be on either side
            *a += b;
        });
        for i in 0..40 {
            let value = if i == 20 { 1000 } else { 1 };
            match any_order {
                true => rt
                    .task("add", (x.reduction(AnyOrder(add.clone())), other.reduction(Sum)))
                    .cpu(move |_, (x, y)| (x[0], y[0]) = (value, 1))
                    .submit(),
                false => rt
                    .task("add", (x.reduction(add.clone()), other.reduction(Sum)))
                    .cpu(move |_, (x, y)| (x[0], y[0]) = (value, 1))
                    .submit(),
            }
            .unwrap();
        }
        assert!(rt.wait().is_err());
        assert!(rt.read(&x).is_err(), "a sum with a missing term must be poisoned");
        rt.task("anew", (x.output(), other.output())).cpu(|_, (x, y)| (x[0], y[0]) = (5, 5)).submit().unwrap();
        rt.wait().unwrap();
        assert_eq!(rt.read(&x).unwrap()[0], 5);
    }
}

#[test]
fn floating_point_sums_equal_the_sequential_sum_whatever_ends_first() {
    let values: Vec<f64> = (0..200).map(|i| 1.0 / (f64::from(i) + 0.1) * if i % 3 == 0 { 1e9 } else { -1.0 }).collect();
    let rt = runtime("3:CPU:1");
    let x = rt.data(vec![0.5; 3000]); // large enough for the replicas' memory to be reused
    let (open, wait) = gate();
    let mut wait = Some(wait);
    for (i, value) in values.iter().copied().enumerate() {
        let wait = wait.take_if(|_| i == 0);
        rt.task("add", (x.reduction(Sum),))
            .cpu(move |_, (x,)| {
                assert!(x.iter().all(|x| *x == 0.0), "the view must start at the identity");
                if let Some(wait) = wait {
                    wait(); // all other members arrive earlier
                }
                x.fill(value);
            })
            .submit()
            .unwrap();
    }
    drop(open);
    rt.wait().unwrap();
    let expected = values.iter().fold(0.5, |sum, value| sum + value);
    assert_eq!(rt.read(&x.all()).unwrap(), vec![expected; 3000]);
}

/// Value with which a body marks its replica for the operation.
const MARK: u8 = 1;

#[test]
fn ordered_reduction_has_no_more_large_replicas_than_running_tasks() {
    const BYTES: usize = 1 << 20;
    for units in [1, 3] {
        let rt = runtime(&format!("{units}:CPU:1"));
        let (x, gate) = (rt.data(vec![0u8; BYTES]), rt.scalar(0u8));
        let (replicas, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let ended = replicas.clone();
        let add = Reduction::new("add", 0u8, move |a: &mut u8, b| {
            ended.fetch_sub(usize::from(b == MARK), Ordering::Relaxed);
            *a += b;
        });
        let (open, wait) = self::gate();
        rt.task("gate", (gate.output(),)).cpu(move |_, _| wait()).submit().unwrap();
        let n = 24;
        for _ in 0..n {
            let (replicas, most) = (replicas.clone(), most.clone());
            let body = move |_: &Context, (x, _): (&mut [u8], &[u8])| {
                most.fetch_max(replicas.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                x[0] = MARK;
            };
            rt.task("add", (x.reduction(add.clone()), gate.input())).cpu(body).submit().unwrap();
        }
        drop(open); // all tasks become ready at once
        rt.wait().unwrap();
        assert_eq!(rt.take(x).unwrap()[0], n);
        let most = most.load(Ordering::Relaxed);
        assert!(most <= units, "{most} replicas on {units} units");
    }
}

#[test]
fn early_reductions_proceed_part_by_part_despite_failures() {
    const PART: usize = 1 << 20;
    let rt = runtime("2:CPU:1");
    let (x, gate) = (rt.data(vec![0u8; 2 * PART]), rt.scalar(0u8));
    let (open, wait) = self::gate();
    rt.task("gate", (gate.output(),)).cpu(move |_, _| wait()).submit().unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let add = Reduction::new("add", 0u8, |a: &mut u8, b| *a += b);
    for i in 0..30 {
        let region = [x.slice(..PART), x.slice(PART..), x.all()][i % 3];
        let ran = ran.clone();
        let accesses = (region.reduction(add.clone()), gate.input());
        let body = move |_: &Context, (x, _): (&mut [u8], &[u8])| {
            ran.fetch_add(1, Ordering::Relaxed);
            x[0] = 1;
            if i == 3 { Err("no") } else { Ok(()) }
        };
        rt.task("add", accesses).cpu(body).submit().unwrap();
    }
    drop(open);
    assert!(rt.wait().is_err());
    assert_eq!(ran.load(Ordering::Relaxed), 30);
    rt.accept(x.all()).unwrap();
    let x = rt.take(x).unwrap();
    assert_eq!((x[0], x[PART]), (9 + 10, 10), "all contributions but the failed one");
}

#[test]
fn reductions_are_combined_in_order_of_submission_even_if_the_last_runs_first() {
    const LAST: u64 = 20;
    for units in ["1:CPU:1", "1:EMU:1"] {
        let builder = Runtime::builder().compute_units(units).scheduler("priority").use_current_thread(false);
        let rt = builder.build().unwrap();
        let (x, g, ran) = (rt.scalar(0u64), rt.scalar(0u64), Arc::new(Mutex::new(Vec::new())));
        let (open, wait) = gate();
        rt.task("gate", (g.output(),)).cpu(move |_, _| wait()).submit().unwrap();
        // The later of two contributions wins.
        let latest = Reduction::new("latest", 0, |a: &mut u64, b| *a = if b == 0 { *a } else { b });
        for i in 1..=LAST {
            let ran = ran.clone();
            let body = move |_: &thalweg::Context, (x, _): (&mut [u64], &[u64])| {
                ran.lock().unwrap().push(i);
                x[0] = i;
            };
            let task = rt.task("set", (x.reduction(latest.clone()), g.input()));
            task.priority(i as i32).cpu(body).submit().unwrap();
        }
        drop(open);
        assert_eq!(rt.read(&x).unwrap()[0], LAST);
        assert_eq!(ran.lock().unwrap()[0], LAST, "the last task must run first");
    }
}

#[test]
fn task_takes_one_turn_in_each_part_of_a_split_group() {
    watched("several turns", || {
        let rt = runtime("2:CPU:1");
        let x = rt.data(vec![0.0f64; 8]);
        let parts = [0..8, 2..4, 0..8, 4..7, 1..8, 0..8];
        let mut expected = [0.0f64; 8];
        for (n, part) in (1..).zip(parts) {
            let value = 1.0 / f64::from(n);
            expected[part.clone()].iter_mut().for_each(|sum| *sum += value);
            rt.task("add", (x.slice(part).reduction(Sum),)).cpu(move |_, (x,)| x.fill(value)).submit().unwrap();
        }
        assert_eq!(rt.take(x).unwrap(), expected);
    });
}

/// Sums into an array with reads of several parts in between, both submitted and replayed.
#[test]
fn sums_with_reads_in_between_end_for_any_size() {
    const ROUNDS: usize = 3;
    for units in ["1:CPU:1", "2:CPU:1", "1:CPU:1,1:EMU:1"] {
        // The sizes are around 2²⁰, up to which contributions may always wait for their turn.
        for (len, reads) in [(30_000, 60), (1 << 20, 2), ((1 << 20) + 1, 2), (2 << 20, 3)] {
            watched(&format!("{len} elements on {units}"), move || {
                let rt = runtime(units);
                let x = rt.data(vec![0.0f64; len]);
                let all = x.clone();
                let record = move |r: &thalweg::Recorder<'_>| {
                    r.task("open", all.inout()).cpu(|_, _| ()).submit()?;
                    r.task("sum", all.reduction(Sum)).cpu(|_, x| x.fill(1.0)).submit()?;
                    for at in (0..reads).map(|n| 100 * n + 10) {
                        r.task("read", all.slice(at..at + 10).input()).cpu(|_, _| ()).submit()?;
                    }
                    (0..2).try_for_each(|_| r.task("sum", all.reduction(Sum)).cpu(|_, x| x.fill(1.0)).submit())
                };
                let mut step = rt.record(record).unwrap();
                (0..ROUNDS).for_each(|_| step.replay().unwrap());
                drop(step);
                for _ in 0..ROUNDS {
                    rt.task("sum", x.reduction(Sum)).cpu(|_, x| x.fill(1.0)).submit().unwrap();
                    for at in (0..reads).map(|n| 100 * n + 20) {
                        rt.task("read", x.slice(at..at + 10).input()).cpu(|_, _| ()).submit().unwrap();
                    }
                }
                let sum = 4.0 * ROUNDS as f64;
                assert!(rt.take(x).unwrap().iter().all(|x| *x == sum));
            });
        }
    }
}

#[test]
fn any_order_reduction_does_not_wait_for_earlier_submissions() {
    let rt = runtime("2:CPU:1");
    let (x, y) = (rt.data(vec![0u64; 4]), rt.scalar(0u64));
    let (open, wait) = gate();
    rt.task("first", (x.reduction(Sum),))
        .cpu(move |_, (x,)| {
            wait();
            x.fill(1);
        })
        .submit()
        .unwrap();
    rt.task("second", (x.reduction(Sum), y.output())).cpu(|_, (x, y)| (x[1], y[0]) = (2, 7)).submit().unwrap();
    // The first task is still at its gate, but a task that depends only on the second task continues.
    assert_eq!(rt.read(&y).unwrap()[0], 7);
    drop(open);
    assert_eq!(rt.read(&x.all()).unwrap(), [1, 3, 1, 1]);
}

#[test]
fn any_order_extremes_of_floats_are_bitwise_deterministic() {
    let extremes = |values: &[f64]| {
        let fold = |init: f64, f: &dyn Fn(&mut f64, f64)| {
            let mut acc = init;
            values.iter().for_each(|v| f(&mut acc, *v));
            acc.to_bits()
        };
        (fold(f64::INFINITY, &|a, v| Min.combine(a, v)), fold(f64::NEG_INFINITY, &|a, v| Max.combine(a, v)))
    };
    let numbers = ([0.0, -0.0, 0.0, 0.0, -0.0, -0.0], (-0.0f64, 0.0f64));
    let with_nan = ([0.0, -0.0, f64::NAN, 0.0, -0.0, -f64::NAN], (-f64::NAN, f64::NAN));
    for (values, (least, greatest)) in [numbers, with_nan] {
        for turn in 0..values.len() {
            let mut turned = values;
            turned.rotate_left(turn);
            assert_eq!(extremes(&turned), (least.to_bits(), greatest.to_bits()));
            turned.reverse();
            assert_eq!(extremes(&turned), (least.to_bits(), greatest.to_bits()));
        }
    }
}

#[test]
fn overlapping_blocks_are_combined_element_by_element() {
    let rt = runtime("3:CPU:1");
    let shape = (9, 7, 5);
    let x = rt.array(ndarray::Array3::<u64>::zeros(shape));
    let mut expected = ndarray::Array3::<u64>::zeros(shape);
    for i in 0..120 {
        let (a, b, c) = (i % 6, i * 3 % 5, i * 7 % 4);
        let ranges = (a..(a + 1 + i % 4).min(9), b..(b + 1 + i % 3).min(7), c..(c + 1 + i % 2).min(5));
        let slice = ndarray::s![ranges.0.clone(), ranges.1.clone(), ranges.2.clone()];
        expected.slice_mut(slice).iter_mut().zip(1u64..).for_each(|(x, n)| *x += n * i as u64);
        let body = move |view: ndarray::ArrayViewMut3<'_, u64>| {
            view.into_iter().zip(1u64..).for_each(|(x, n)| *x = n * i as u64);
        };
        rt.task("add", (x.block(ranges).reduction(Sum),)).cpu(move |_, (x,)| body(x)).submit().unwrap();
    }
    rt.wait().unwrap();
    assert_eq!(rt.take(x).unwrap(), expected);
}

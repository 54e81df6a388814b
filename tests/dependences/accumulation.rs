//! Accumulating tasks: several tasks add to the same replica, and each replica is combined once.

use crate::common::builder;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::memory::Reduction;
use thalweg::prelude::*;

fn runtime(units: &str) -> Runtime {
    builder(units, false).detect_conflicts(true).build().unwrap()
}

/// Returns an addition that counts its calls, and the count.
fn counted() -> (Reduction<u64>, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let add = Reduction::new("counted", 0u64, move |a: &mut u64, b| {
        count.fetch_add(1, Ordering::Relaxed);
        *a += b;
    });
    (add, calls)
}

#[test]
fn accumulation_is_combined_once_per_replica() {
    const LEN: usize = 3000;
    for (units, most) in [("1:CPU:1", 1), ("3:CPU:1", 3), ("1:CPU:1,1:EMU:1", 5)] {
        let rt = runtime(units);
        let (x, (add, calls)) = (rt.data(vec![7u64; LEN]), counted());
        for round in 1..=3 {
            calls.store(0, Ordering::Relaxed);
            let (gate, tasks) = (rt.scalar(0u8), 200);
            let (open, wait) = crate::common::gate();
            rt.task("gate", (gate.output(),)).cpu(move |_, _| wait()).submit().unwrap();
            for _ in 0..tasks {
                let body = |_: &Context, (x, _): (&mut [u64], &[u8])| x.iter_mut().for_each(|x| *x += 1);
                rt.task("add", (x.accumulate(add.clone()), gate.input())).cpu(body).submit().unwrap();
            }
            drop(open);
            rt.wait().unwrap();
            assert_eq!(calls.load(Ordering::Relaxed), 0, "combined before the value was requested");
            assert_eq!(rt.read(&x.all()).unwrap(), [7 + round * tasks; LEN]);
            let replicas = calls.load(Ordering::Relaxed) / LEN;
            assert!((1..=most).contains(&replicas), "{replicas} replicas on {units}");
        }
    }
}

#[test]
fn task_reading_another_output_of_a_member_does_not_wait_for_the_group() {
    let rt = runtime("1:CPU:1");
    let [x, y, z] = [(); 3].map(|()| rt.scalar(0u64));
    let add = |_: &Context, (x, y): (&mut [u64], &mut [u64])| (x[0] += 1, y[0] += 1);
    rt.task("first", (x.accumulate(Sum), y.inout())).cpu(move |c, v| _ = add(c, v)).submit().unwrap();
    rt.task("between", (y.input(), z.output())).cpu(|_, (y, z)| z[0] = y[0]).submit().unwrap();
    rt.task("second", (x.accumulate(Sum), z.inout())).cpu(move |c, v| _ = add(c, v)).submit().unwrap();
    assert_eq!(rt.read(&x).unwrap()[0], 2);
    assert_eq!(rt.read(&z).unwrap()[0], 2);
}

#[test]
fn failing_member_discards_the_contributions_of_its_group() {
    for units in ["1:CPU:1", "3:CPU:1", "1:CPU:1,1:EMU:1"] {
        for end in [0, 1, 2] {
            let rt = runtime(units);
            let (x, y) = (rt.data(vec![10u64; 60]), rt.scalar(0u64));
            let cancel = rt.data(vec![0u64]);
            if end == 2 {
                rt.task("fails before", (cancel.output(),)).cpu(|_, _| Err("no")).submit().unwrap();
            }
            for i in 0..50 {
                let body = move |_: &Context, (x, _): (&mut [u64], &mut [u64])| {
                    x[0] += 1;
                    match end {
                        0 if i == 20 => return Err("half of it"),
                        1 if i == 20 => panic!("half of it"),
                        _ => {}
                    }
                    x[1..].iter_mut().for_each(|x| *x += 1);
                    Ok(())
                };
                match end == 2 && i == 20 {
                    // This member is poisoned before it can begin.
                    true => rt.task("add", (x.slice(..30).accumulate(Sum), cancel.inout())).cpu(body).submit().unwrap(),
                    false => rt.task("add", (x.slice(..30).accumulate(Sum), y.inout())).cpu(body).submit().unwrap(),
                };
                rt.task("add", (x.slice(30..).accumulate(Sum),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
            }
            let reader = |_: &Context, (x,): (&[u64],)| assert!(x.is_empty(), "poisoned");
            rt.task("reader", (x.slice(5..6).input(),)).cpu(reader).submit().unwrap();
            assert!(rt.wait().is_err());
            assert!(rt.read(&x.slice(..1)).is_err() && rt.read(&x.slice(29..30)).is_err());
            assert_eq!(
                rt.read(&x.slice(30..32)).unwrap(),
                [60, 10],
                "the other part has a group of its own, which is unaffected"
            );
            rt.accept(x.all()).unwrap();
            let x = rt.take(x).unwrap();
            assert_eq!(x[..30], [10; 30], "accepting the region must restore the value from before the group");
        }
    }
}

#[test]
fn panic_while_combining_fails_the_reader() {
    let rt = runtime("2:CPU:1");
    let x = rt.scalar(1u64);
    let add = Reduction::new("panics", 0u64, |_: &mut u64, _| panic!("on purpose"));
    for _ in 0..10 {
        rt.task("add", (x.accumulate(add.clone()),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
    }
    rt.wait().unwrap();
    let error = rt.read(&x).unwrap_err().to_string();
    assert!(error.contains("add") && error.contains("on purpose"), "{error}");
    assert!(rt.wait().is_err());
    rt.task("anew", (x.output(),)).cpu(|_, (x,)| x[0] = 5).submit().unwrap();
    assert_eq!(rt.read(&x).unwrap()[0], 5);
}

/// When dropped, submits a task that reads the data object, so the data object must not be locked at that time.
struct ReadsWhenDropped(std::sync::Weak<Runtime>, Data<u64>);

impl Drop for ReadsWhenDropped {
    fn drop(&mut self) {
        if let Some(rt) = self.0.upgrade() {
            let _ = rt.task("late", (self.1.input(),)).cpu(|_, _| ()).submit();
        }
    }
}

#[test]
fn operations_are_called_and_dropped_without_locks() {
    for overwrite in [false, true] {
        let rt = Arc::new(runtime("2:CPU:1"));
        let x = rt.scalar(0u64);
        let late = ReadsWhenDropped(Arc::downgrade(&rt), x.clone());
        let (weak, other) = (Arc::downgrade(&rt), rt.scalar(0u64));
        let more = other.clone();
        let add = Reduction::new("submits", 0u64, move |a: &mut u64, b| {
            let rt = weak.upgrade().unwrap();
            rt.task("more", (more.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
            let _ = &late;
            *a += b;
        });
        for _ in 0..10 {
            rt.task("add", (x.accumulate(add.clone()),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
        }
        rt.wait().unwrap();
        drop(add); // the group now holds the last clone
        let expected = match overwrite {
            true => rt.task("over", (x.output(),)).cpu(|_, (x,)| x[0] = 3).submit().map(|_| 3),
            false => rt.task("after", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().map(|_| 11),
        };
        assert_eq!(rt.read(&x).unwrap()[0], expected.unwrap());
        rt.wait().unwrap();
        assert_eq!(rt.read(&other).unwrap()[0] > 0, !overwrite);
    }
}

#[test]
fn overlapping_groups_match_sequential_execution() {
    for (units, record) in [("1:CPU:1", false), ("3:CPU:1", false), ("2:CPU:1", true), ("1:CPU:1,2:EMU:1", false)] {
        let rt = Runtime::builder().compute_units(units).record_graph(record).detect_conflicts(true).build().unwrap();
        let shape = (12, 9);
        let x = rt.array(ndarray::Array2::<u64>::zeros(shape));
        let mut expected = ndarray::Array2::<u64>::zeros(shape);
        for i in 0..600usize {
            let (a, b) = (i * 5 % 12, i * 7 % 9);
            let ranges = match i % 40 {
                0 => (0..12, 0..9),
                _ => (a..(a + 1 + i % 5).min(12), b..(b + 1 + i % 3).min(9)),
            };
            let slice = ndarray::s![ranges.0.clone(), ranges.1.clone()];
            let region = x.block(ranges);
            let update = move |x: &mut u64| *x = x.wrapping_mul(3).wrapping_add(i as u64);
            match i % 20 {
                7 => {
                    expected.slice_mut(slice).iter_mut().for_each(update);
                    rt.task("update", (region.inout(),)).cpu(move |_, (mut x,)| x.iter_mut().for_each(update)).submit()
                }
                13 => {
                    let found = expected.slice(slice).to_owned();
                    rt.task("look", (region.input(),)).cpu(move |_, (x,)| assert_eq!(x, found)).submit()
                }
                17 => {
                    expected.slice_mut(slice).iter_mut().for_each(|x| *x += 1);
                    rt.task("add", (region.reduction(Sum),)).cpu(|_, (mut x,)| x.fill(1)).submit()
                }
                _ => {
                    expected.slice_mut(slice).iter_mut().for_each(|x| *x += i as u64);
                    rt.task("add", (region.accumulate(Sum),)).cpu(move |_, (mut x,)| x += i as u64).submit()
                }
            }
            .unwrap();
            if i % 150 == 100 {
                assert_eq!(rt.read(&x.all()).unwrap(), expected);
            }
        }
        rt.wait().unwrap();
        assert_eq!(rt.take(x).unwrap(), expected);
    }
}

#[test]
fn empty_accumulation_and_dropped_accumulator_do_no_harm() {
    let rt = runtime("2:CPU:1");
    let x = rt.data(vec![1u64; 4]);
    for _ in 0..5 {
        rt.task("nothing", (x.slice(2..2).accumulate(Sum),)).cpu(|_, (x,)| assert!(x.is_empty())).submit().unwrap();
        let gone = rt.data(vec![0u64; 5000]);
        rt.task("gone", (gone.accumulate(Sum), x.slice(..1).accumulate(Max)))
            .cpu(|_, (gone, x)| (gone.fill(1), x[0] = x[0].max(9)).0)
            .submit()
            .unwrap();
    }
    assert_eq!(rt.take(x).unwrap(), [9, 1, 1, 1]);
    rt.wait().unwrap();
}

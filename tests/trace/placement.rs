//! Placements in traces: policies with their estimates, dropped replicas, and the bytes in use in devices' memories.

use super::{traced, two_cores};
use std::collections::BTreeSet;
use thalweg::prelude::*;
use thalweg_trace::{DropReason, Trace};

/// Returns the trace of a chain of tasks at one index of a space, of which each takes 1 µs on a simulated core.
fn chain(scheduler: &str) -> Trace {
    traced(two_cores().scheduler(scheduler), |rt| {
        let (x, space) = (rt.zeros::<f64, _>(10), IterationSpace::new("one", vec![1.0]));
        for _ in 0..6 {
            space.begin();
            rt.task("work", (x.inout(),)).cpu(|_, _| ()).at(&space, 0).submit().unwrap();
        }
        rt.wait().unwrap();
    })
}

#[test]
fn tasks_name_the_policy_that_placed_them_and_its_estimate() {
    // Policies that keep a model also know when the task should end: it is alone on the machine.
    let cases = [
        ("eft", "eft", Some(1000), Some(1000)),
        ("bottom-level", "bottom-level", Some(1000), Some(1000)),
        ("auto", "eft", Some(1000), Some(1000)),
        ("static", "static", Some(1000), None),
        ("fpm", "fpm", Some(1000), None),
        ("priority", "priority", None, None),
    ];
    for (scheduler, policy, expected, expected_end) in cases {
        let trace = chain(scheduler);
        assert_eq!(trace.policies, [policy], "{scheduler}");
        assert!(trace.tasks.iter().all(|task| task.policy == Some(0)), "{scheduler}: {:?}", trace.tasks);
        let of_last = trace.tasks.last().map(|task| (task.expected, task.expected_end));
        assert_eq!(of_last, Some((expected, expected_end)), "{scheduler}");
        assert_eq!(trace.tasks[0].expected, None, "{scheduler}: nothing was measured before");
    }
}

#[test]
fn tasks_on_the_fast_path_have_no_policy() {
    let trace = traced(Runtime::builder().compute_units("1:CPU:1"), |rt| {
        rt.task("work", ()).cpu(|_, ()| ()).submit().unwrap();
        rt.wait().unwrap();
    });
    assert!(trace.policies.is_empty());
    assert_eq!((trace.tasks[0].policy, trace.tasks[0].expected), (None, None));
}

#[test]
fn estimates_of_replayed_tasks_belong_to_their_replays() {
    let trace = traced(Runtime::builder().compute_units("1:CPU:1,1:EMU:1").scheduler("eft"), |rt| {
        let x = rt.data(vec![1u64; 64]);
        let mut step = rt
            .record(|r| {
                r.task("add", (x.inout(),)).emulated(|_, (x,)| x[0] += 1).submit()?;
                r.task("add", (x.inout(),)).emulated(|_, (x,)| x[1] += 1).submit()
            })
            .unwrap();
        (0..5).for_each(|_| step.replay().unwrap());
        rt.wait().unwrap();
        drop(step);
    });
    let tasks: Vec<_> = trace.tasks.iter().filter(|task| task.start.is_some()).collect();
    assert!(tasks.len() >= 10 && tasks.iter().all(|task| task.policy == Some(0) && task.placed.is_some()), "{tasks:?}");
    assert!(tasks.iter().skip(4).all(|task| task.expected.is_some()), "{tasks:?}");
}

/// Returns the sum of all increases of the bytes in use in device memory, and the last value.
fn bytes_in_use(trace: &Trace) -> (u64, u64) {
    let (mut risen, mut last) = (0, 0);
    for change in trace.memory.iter().filter(|change| change.space == 1) {
        assert_ne!(change.bytes, last, "a record without a change");
        risen += change.bytes.saturating_sub(last);
        last = change.bytes;
    }
    (risen, last)
}

#[test]
fn dropped_replicas_explain_the_bytes_in_device_memory() {
    const BYTES: u64 = 8 * 512;
    let builder = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").device_memory_bytes(3 * BYTES);
    let trace = traced(builder, |rt| {
        let data: Vec<_> = (0..6).map(|n| rt.data(vec![n as f64; 512])).collect();
        for round in 0..2 {
            for x in &data {
                match round {
                    0 => rt.task("read", (x.input(),)).emulated(|_, _| ()).submit().unwrap(),
                    _ => rt.task("write", (x.inout(),)).emulated(|_, (x,)| x[0] += 1.0).submit().unwrap(),
                };
            }
            rt.wait().unwrap();
        }
        data.into_iter().for_each(|x| drop(rt.take(x).unwrap()));
        rt.wait().unwrap();
    });
    let (risen, last) = bytes_in_use(&trace);
    let dropped: u64 = trace.drops.iter().inspect(|drop| assert_eq!(drop.space, 1)).map(|drop| drop.bytes).sum();
    assert_eq!((risen, last), (dropped, 0), "{:?} {:?}", trace.memory, trace.drops);
    let reasons: BTreeSet<_> = trace.drops.iter().map(|drop| drop.why as u8).collect();
    let expected = [DropReason::Evicted, DropReason::WrittenBack, DropReason::Released].map(|why| why as u8);
    assert_eq!(reasons, expected.into(), "{:?}", trace.drops);
    let written_back = trace.drops.iter().filter(|drop| drop.why == DropReason::WrittenBack);
    let evicting = trace.copies.iter().filter(|copy| copy.evicts);
    assert_eq!(written_back.map(|drop| drop.bytes).sum::<u64>(), evicting.map(|copy| copy.bytes).sum::<u64>());
}

#[test]
fn private_memory_of_reductions_is_free_again_after_them() {
    let trace = traced(Runtime::builder().compute_units("1:CPU:1,1:EMU:1"), |rt| {
        let (x, sum) = (rt.data(vec![1.0f64; 512]), rt.scalar(0.0f64));
        for _ in 0..3 {
            let task = rt.task("sum", (x.input(), sum.reduction(Sum)));
            task.emulated(|_, (x, sum)| sum[0] += x.iter().sum::<f64>()).submit().unwrap();
        }
        rt.wait().unwrap();
        drop((rt.take(x).unwrap(), rt.take(sum).unwrap()));
        rt.wait().unwrap();
    });
    let (risen, last) = bytes_in_use(&trace);
    assert!(risen >= 8 * 512 + 8, "{:?}", trace.memory);
    assert_eq!(last, 0, "{:?}", trace.memory);
}

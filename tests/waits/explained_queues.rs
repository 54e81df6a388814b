//! Explanations of tasks that are not blocked by an edge but wait for a turn, a reduction, a unit, memory, or copies;
//! and of all pending tasks.

use crate::common::{builder, watched};
use crate::explained::{assert_chain, held};
use std::sync::mpsc::channel;
use std::time::Duration;
use thalweg::prelude::*;

#[test]
fn commutative_task_is_explained_by_the_one_that_has_the_turn() {
    for scheduler in ["stealing", "dynamic"] {
        watched(scheduler, move || {
            let rt = builder("2:CPU:1", false).scheduler(scheduler).build().unwrap();
            let x = rt.data(vec![0.0; 10]).named("x");
            let (open, begun, body) = held();
            rt.task("first", x.slice(0..6).commutative()).cpu(move |_, _| body()).submit().unwrap();
            begun.recv().unwrap();
            let second = rt.task("second", x.slice(2..10).commutative()).cpu(|_, _| ()).submit_handle().unwrap();
            let reader = rt.task("reader", x.slice(8..9).input()).cpu(|_, _| ()).submit_handle().unwrap();
            let turn = ("second", "waits for its turn at [2..6] of data `x`, which task 0 `first` has");
            let first = ("first", "runs on unit ");
            assert_chain(&second.explain(), &[turn, first]);
            let by = "comes after task 1 `second` by its access to [8..9] (in) of data `x`";
            assert_chain(&reader.explain(), &[("reader", by), turn, first]);
            drop(open);
            rt.wait().unwrap();
        });
    }
}

#[test]
fn queued_holder_of_a_turn_is_explained_too() {
    watched("holder", || {
        let rt = builder("1:CPU:1", false).build().unwrap();
        let x = rt.scalar(0.0);
        let (open, begun, body) = held();
        rt.task("busy", ()).cpu(move |_, ()| body()).submit().unwrap();
        begun.recv().unwrap();
        let [_, second] =
            ["first", "second"].map(|name| rt.task(name, x.commutative()).cpu(|_, _| ()).submit_handle().unwrap());
        let ready = "is ready and waits for a unit: unit 0 (CPU) runs task 0 `busy`";
        assert_chain(&second.explain(), &[("second", "which task 1 `first` has"), ("first", ready)]);
        drop(open);
        rt.wait().unwrap();
    });
}

#[test]
fn early_and_late_parts_of_a_reduction_are_explained() {
    watched("reduction", || {
        let rt = builder("2:CPU:1", false).build().unwrap();
        let (wide, narrow) = (rt.data(vec![0.0f64; 1 << 20]).named("wide"), rt.scalar(0.0f64).named("narrow"));
        let sums = (wide.reduction(Sum), narrow.reduction(Sum));
        let (open, begun, body) = held();
        rt.task("first", sums).cpu(move |_, _| body()).submit().unwrap();
        begun.recv().unwrap();
        let (run, ran) = channel();
        let late =
            rt.task("late", narrow.reduction(Sum)).cpu(move |_, _| run.send(()).unwrap()).submit_handle().unwrap();
        let wides: Vec<_> =
            (0..4).map(|_| rt.task("wide", wide.reduction(Sum)).cpu(|_, _| ()).submit_handle().unwrap()).collect();
        ran.recv().unwrap();
        let words = "has run its body; its part of the reduction of [0..1] of data `narrow` will be combined after that of 1 task";
        while !late.explain().to_string().contains("has run its body") {
            std::thread::yield_now();
        }
        assert_chain(&late.explain(), &[("late", words)]);
        let early =
            "waits to begin its reduction of [0..1048576] of data `wide`, so that few private copies exist at once: ";
        let reason = wides[3].explain();
        assert!(reason.steps[0].because.contains(early), "{reason}");
        assert!(reason.to_string().contains("3 tasks of the reduction must be combined first"), "{reason}");
        drop(open);
        rt.wait().unwrap();
    });
}

#[test]
fn placed_task_is_explained_by_the_policy_and_then_by_its_unit() {
    watched("policy", || {
        let rt = builder("1:CPU:1", false).scheduler("dynamic").build().unwrap();
        let (open, begun, body) = held();
        rt.task("busy", ()).cpu(move |_, ()| body()).submit().unwrap();
        begun.recv().unwrap();
        let waits = rt.task("waits", ()).cpu(|_, ()| ()).submit_handle().unwrap();
        let words = "is ready, and the policy `dynamic` has not given it to a unit: unit 0 (CPU) has 1 task";
        assert_chain(&waits.explain(), &[("waits", words)]);
        drop(open);
        rt.wait().unwrap();

        // A device is given tasks in advance.
        let rt = builder("1:EMU:1", false).build().unwrap();
        let (open, begun, body) = held();
        rt.task("busy", ()).emulated(move |_, ()| body()).submit().unwrap();
        begun.recv().unwrap();
        let next = rt.task("next", ()).emulated(|_, ()| ()).submit_handle().unwrap();
        let words = "is in the queue of unit 0 (EMU), which runs task 0 `busy`";
        assert_chain(&next.explain(), &[("next", words)]);
        drop(open);
        rt.wait().unwrap();
    });
}

#[test]
fn task_without_memory_is_explained_by_the_holders() {
    watched("memory", || {
        let rt = builder("1:EMU:1", false)
            .emulated_devices(|_| EmulatedDevice::new().capacity_bytes(10_000))
            .build()
            .unwrap();
        let [x, y, z] = [(); 3].map(|()| rt.data(vec![0.0f64; 1000]));
        let (open, begun, body) = held();
        rt.task("holds", x.inout()).emulated(move |_, _| body()).submit().unwrap();
        begun.recv().unwrap();
        let [needs, behind] =
            [y, z].map(|data| rt.task("needs", data.inout()).emulated(|_, _| ()).submit_handle().unwrap());
        let words = "waits for unit 0 (EMU) for memory in space 1: it needs 8.0 kB more, and 2.0 kB of 10.0 kB are free; \
                     task 0 `holds` holds 8.0 kB";
        assert_chain(&needs.explain(), &[("needs", words)]);
        assert_chain(&behind.explain(), &[("needs", "task 0 `holds` holds 8.0 kB; a task is before it")]);
        drop(open);
        rt.wait().unwrap();
    });
}

#[cfg(feature = "sim")]
#[test]
fn simulated_tasks_are_explained_at_their_moment_of_virtual_time() {
    let machine = "name = \"m\"\n\
                   [units.CPU]\ncount = 1\nbytes_per_s = 1e9\n\
                   [units.GPU]\ncount = 1\nmemory_bytes = 1_000_000\nbytes_per_s = 1e9\n\
                   [[links]]\nbetween = [\"host\", \"GPU\"]\nlatency_ns = 1000\nbytes_per_s = 1e9\n\
                   [[tasks]]\nname = \"short\"\ntime_ns = { GPU = { 1 = 1_000_000 } }\n\
                   [[tasks]]\nname = \"step\"\ntime_ns = { GPU = { 1 = 5_000_000 } }\n";
    let machine: SimulatedMachine = machine.parse().unwrap();
    let rt = Runtime::builder().simulate(machine).compute_units("1:GPU:1").build().unwrap();
    let x = rt.zeros::<f64, _>(1000).named("x");
    rt.task("short", ()).cpu(|_, ()| ()).emulated(|_, ()| ()).submit().unwrap();
    let [first, second] =
        [(); 2].map(|()| rt.task("step", x.inout()).cpu(|_, _| ()).emulated(|_, _| ()).submit_handle().unwrap());
    let copy = "waits for unit 0 (GPU) until its data are in space 1: a copy of [0..1000] of data `x` from host to space 1 (8.0 kB)";
    let after = ("step", "comes after task 1 `step` by its access to [0..1000] (inout) of data `x`");
    assert_chain(&second.explain(), &[after, ("step", copy)]);
    // The clock advances to the end of the next task.
    assert!(!rt.wait_timeout(Duration::from_micros(1)).unwrap());
    let runs = "runs on unit 0 (GPU), for 0.000 ms of simulated time";
    assert_chain(&first.explain(), &[("step", runs)]);
    assert_chain(&second.explain(), &[after, ("step", runs)]);
    rt.wait().unwrap();
    assert_chain(&second.explain(), &[("step", "has ended")]);
}

#[test]
fn task_that_waits_for_a_resource_is_explained_by_the_amounts() {
    for scheduler in ["stealing", "dynamic"] {
        watched(scheduler, move || {
            let rt = builder("2:CPU:1", false).scheduler(scheduler).build().unwrap();
            let license = rt.resource("license", 3);
            let (open, begun, body) = held();
            rt.task("first", ()).cpu(move |_, ()| body()).uses(&license, 2).submit().unwrap();
            begun.recv().unwrap();
            let task = |amount| rt.task("next", ()).cpu(|_, ()| ()).uses(&license, amount).submit_handle().unwrap();
            let (second, third) = (task(2.5), task(1.0));
            let needs = "waits for resource `license`: it needs 2.5, and 1 of 3 are free; task 0 `first` has some";
            let first = ("first", "runs on unit ");
            assert_chain(&second.explain(), &[("next", needs), first]);
            let needs = "it needs 1, and 1 of 3 are free; task 0 `first` has some; a task is before it";
            assert_chain(&third.explain(), &[("next", needs), first]);
            assert!(rt.explain().to_string().contains("waits for resource `license`"), "{}", rt.explain());
            drop(open);
            rt.wait().unwrap();
        });
    }
}

//! Bodies of two runtimes that wait for each other's tasks. Each runtime has fewer units than waiting bodies.

use crate::common::{SCHEDULERS, builder, gate, watched};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::Context;
use thalweg::prelude::*;
use thalweg::sched::{Policy, ReadyTask, Sample, View};

/// Runs `test` on two runtimes with different machines, with and without a unit of the first hosted by the submitter.
fn on_each_two(test: impl FnOnce([Arc<Runtime>; 2]) + Clone + Send + 'static) {
    for units in [["1:CPU:1"; 2], ["2:CPU:1", "1:CPU:1"], ["1:CPU:1,1:EMU:1", "1:CPU:1"]] {
        for scheduler in SCHEDULERS {
            for hosts in [false, true] {
                let test = test.clone();
                watched(&format!("{units:?} {scheduler} hosts={hosts}"), move || {
                    let [first, second] = units;
                    let build = |units, hosts| Arc::new(builder(units, hosts).scheduler(scheduler).build().unwrap());
                    test([build(first, hosts), build(second, false)]);
                });
            }
        }
    }
}

/// Returns the number of tasks in the chain from this task on. Each task waits for the next one, which is in the other
/// runtime.
fn count([own, other]: [Arc<Runtime>; 2], more: usize) -> Result<usize, RunError> {
    if more == 0 {
        return Ok(0);
    }
    let next = [other.clone(), own];
    let rest = other.task("count", ()).try_returns(move |_, ()| count(next, more - 1)).submit()?;
    Ok(1 + rest.get()?)
}

#[test]
fn bodies_of_two_runtimes_may_wait_in_alternation() {
    on_each_two(|both| {
        let [first, _] = both.clone();
        let begun = first.task("count", ()).try_returns(move |_, ()| count(both, 200)).submit().unwrap();
        assert_eq!(begun.get().unwrap(), 200);
    });
}

#[test]
fn unit_continues_while_its_body_waits_for_another_runtime() {
    on_each_two(|[own, other]| {
        let ways: [fn(&Runtime, Data<u64>, TaskHandle); 7] = [
            |_, _, task| task.wait().unwrap(),
            |rt, x, _| rt.fetch(&x, SpaceId::HOST).unwrap(),
            |rt, x, _| assert_eq!(rt.read(&x).unwrap(), [7]),
            |rt, x, _| assert_eq!(rt.take(x).unwrap(), [7]),
            |rt, _, _| rt.wait().unwrap(),
            |rt, x, _| {
                let group = rt.group();
                group.task("behind", (x.after(),)).host(|_, _| ()).submit().unwrap();
                group.wait().unwrap();
            },
            |rt, x, _| rt.scope(|s| _ = s.task("behind", (x.after(),)).host(|_, _| ()).submit().unwrap()).unwrap(),
        ];
        for way in ways {
            // The body waits for a task that depends on a task of the body's runtime, whose only unit runs the body.
            let x = other.data(vec![0u64]);
            let (open, wait) = gate();
            let held = x.clone();
            let set = move |_: &Context, (x,): (&mut [u64],)| {
                wait();
                x[0] = 7;
            };
            let task = other.task("set", (held.inout(),)).host(set).submit_handle().unwrap();
            let there = other.clone();
            let opens = own.clone();
            let body = move |_: &Context, ()| {
                opens.task("open", ()).host(move |_, ()| drop(open)).submit().unwrap();
                way(&there, x, task);
            };
            own.task("waits", ()).host(body).submit().unwrap();
            own.wait().unwrap();
        }
    });
}

#[test]
fn runtime_dropped_in_a_body_of_another_does_not_block_it() {
    on_each_two(|[own, other]| {
        let (ended, seen) = (Arc::new(AtomicUsize::new(0)), own.clone());
        let counted = ended.clone();
        let body = move |_: &Context, ()| {
            for _ in 0..20 {
                let counted = counted.clone();
                other
                    .task("counts", ())
                    .host(move |_, ()| _ = counted.fetch_add(1, Ordering::Relaxed))
                    .submit()
                    .unwrap();
            }
            drop(other);
            seen.task("child", ()).host(|_, ()| ()).submit().unwrap();
        };
        own.task("ends", ()).host(body).submit().unwrap();
        own.wait().unwrap();
        assert_eq!(ended.load(Ordering::Relaxed), 20);
    });
}

/// A policy that panics when its first task has run.
struct Breaks(Vec<ReadyTask>);

impl Policy for Breaks {
    fn name(&self) -> &'static str {
        "breaks"
    }
    fn ready(&mut self, task: ReadyTask, _: &View<'_>) {
        self.0.push(task);
    }
    fn next(&mut self, _: UnitId, _: &View<'_>) -> Option<TaskId> {
        self.0.pop().map(|task| task.id)
    }
    fn finished(&mut self, _: &Sample) {
        panic!("no idea");
    }
}

#[test]
fn body_waiting_for_a_broken_runtime_gets_an_error() {
    for units in ["1:CPU:1", "2:CPU:1"] {
        watched(units, move || {
            let own = Arc::new(builder(units, false).build().unwrap());
            let other = Runtime::builder().compute_units("1:CPU:1").policy(Breaks(vec![])).build().unwrap();
            let (open, wait) = gate();
            let opens = own.clone();
            let body = move |_: &Context, ()| {
                other.task("breaks it", ()).host(move |_, ()| wait()).submit().unwrap();
                opens.task("open", ()).host(move |_, ()| drop(open)).submit().unwrap();
                other.wait().unwrap_err().to_string()
            };
            let told = own.task("waits", ()).returns(body).submit().unwrap().get().unwrap();
            assert!(told.contains("no idea"), "{told}");
            own.wait().unwrap();
        });
    }
}

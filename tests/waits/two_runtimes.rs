//! Bodies of two runtimes that wait for each other's tasks, where each runtime has fewer units than bodies that wait.

use crate::common::{SCHEDULERS, builder, failed, gate, watched};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use thalweg::Context;
use thalweg::prelude::*;
use thalweg::sched::{Policy, ReadyTask, Sample, View};

/// Runs `test` on two runtimes with all sorts of machines, of which the submitter hosts a unit of the first or of none.
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

/// How many tasks there are from this one on, each of which waits for the next in the other runtime.
fn count([own, other]: [Arc<Runtime>; 2], more: usize) -> Result<usize, RunError> {
    if more == 0 {
        return Ok(0);
    }
    let next = [other.clone(), own];
    let rest = other.task("count", ()).try_returns(move |_, ()| count(next, more - 1)).submit()?;
    Ok(1 + rest.get()?)
}

#[test]
fn bodies_wait_for_each_other_in_turns() {
    on_each_two(|both| {
        let [first, _] = both.clone();
        let begun = first.task("count", ()).try_returns(move |_, ()| count(both, 200)).submit().unwrap();
        assert_eq!(begun.get().unwrap(), 200);
    });
}

#[test]
fn whatever_a_body_waits_for_its_unit_goes_on() {
    on_each_two(|[own, other]| {
        let ways: [fn(&Runtime, Data<u64>, TaskHandle); 7] = [
            |rt, _, task| rt.wait_for(&task).unwrap(),
            |rt, x, _| rt.wait_on(&x).unwrap(),
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
            // What the body waits for comes behind a task of its own runtime that has no unit but the body's.
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

/// The refusal of a wait in a body on a device.
fn is_unsuspended(result: Result<Vec<u64>, RunError>) -> bool {
    matches!(result, Err(RunError::Refused(SubmitError::Unsuspended { call: "read" })))
}

#[test]
fn body_on_a_device_cannot_wait_for_another_runtime() {
    for units in ["1:EMU:1", "1:CPU:1,1:EMU:1"] {
        for hosts in [false, true] {
            watched(&format!("{units} hosts={hosts}"), move || {
                let own = Arc::new(builder(units, hosts).build().unwrap());
                let other = Arc::new(builder("1:CPU:1", false).build().unwrap());
                let (x, y) = (own.data(vec![0u64]), other.data(vec![0u64]));
                // What the body would wait for waits for a task that has no unit but the body's.
                let (there, needed) = (own.clone(), x.clone());
                let (open, wait) = gate();
                let waits = move |_: &Context, (y,): (&mut [u64],)| {
                    wait();
                    y[0] = there.read(&needed).unwrap()[0];
                };
                other.task("there", (y.inout(),)).host(waits).submit().unwrap();
                let (there, needed) = (other.clone(), y.clone());
                let (begin, begun) = gate();
                let body = move |_: &Context, ()| {
                    begun();
                    drop(open);
                    assert!(is_unsuspended(there.read(&needed)));
                };
                own.task("waits", ()).emulated(body).submit().unwrap();
                own.task("needed", (x.inout(),)).emulated(|_, (x,)| x[0] = 7).submit().unwrap();
                drop(begin);
                own.wait().unwrap();
                assert_eq!(other.read(&y).unwrap(), [7]);
            });
        }
    }
}

#[cfg(feature = "sim")]
#[test]
fn body_on_a_device_may_simulate() {
    watched("a simulation", || {
        let rt = builder("1:EMU:1", false).build().unwrap();
        let body = |_: &Context, ()| {
            let machine: SimulatedMachine = "name = 'one core'\n[units.CPU]\ncount = 1\nbytes_per_s = 1e9\n[[tasks]]\n\
                                             name = 't'\ntime_ns = { CPU = { 1 = 5 } }"
                .parse()
                .unwrap();
            let simulated = Runtime::builder().simulate(machine).build().unwrap();
            simulated.task("t", ()).cpu(|_, ()| ()).submit().unwrap();
            simulated.wait().unwrap();
        };
        rt.task("simulates", ()).emulated(body).submit().unwrap();
        rt.wait().unwrap();
    });
}

/// Says when it is dropped whether it was refused to read data of a runtime.
struct ReadsAtLast(Arc<Runtime>, Data<u64>, Sender<bool>);

impl Drop for ReadsAtLast {
    fn drop(&mut self) {
        self.2.send(is_unsuspended(self.0.read(&self.1))).unwrap();
    }
}

#[test]
fn destructor_cannot_wait_for_another_runtime() {
    watched("a destructor", || {
        let [own, other] = ["1:CPU:1"; 2].map(|units| Arc::new(builder(units, false).build().unwrap()));
        let (x, y) = (own.data(vec![0u64]), other.data(vec![0u64]));
        let (send, refused) = channel();
        let ((open, wait), captured) = (gate(), ReadsAtLast(other.clone(), y.clone(), send));
        let z = own.data(vec![0u64]);
        let fails = move |_: &Context, _: (&mut [u64],)| {
            wait();
            Err("no")
        };
        own.task("fails", (z.output(),)).host(fails).submit().unwrap();
        own.task("skipped", (z.input(),)).host(move |_, _| drop(captured)).submit().unwrap();
        own.task("needed", (x.inout(),)).host(|_, (x,)| x[0] = 7).submit().unwrap();
        let (there, needed) = (own.clone(), x.clone());
        let waits = move |_: &Context, (y,): (&mut [u64],)| y[0] = there.read(&needed).unwrap()[0];
        other.task("waits", (y.inout(),)).host(waits).submit().unwrap();
        drop(open);
        assert!(refused.recv().unwrap(), "the body of a task that is skipped is dropped in no body");
        assert_eq!(failed(own.wait()), ["fails"]);
        assert_eq!(other.read(&y).unwrap(), [7]);
    });
}

#[test]
fn a_runtime_that_ends_in_a_body_of_another_lets_that_go_on() {
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

/// Panics when its first task has run.
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
fn a_runtime_that_breaks_lets_go_of_bodies_of_others() {
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

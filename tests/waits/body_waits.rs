//! Bodies that wait: for values, for tasks, and for other threads, nested as deeply as memory allows.

use crate::common::{MIXES, SCHEDULERS, builder, gate, watched};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use thalweg::Context;
use thalweg::prelude::*;

/// Runs `test` on machines with CPU units, under all schedulers, with and without a unit hosted by the submitter.
fn on_each(test: impl FnOnce(Arc<Runtime>) + Clone + Send + 'static) {
    for units in ["1:CPU:1", "2:CPU:1", "1:CPU:1,2:EMU:1"] {
        for scheduler in SCHEDULERS {
            for hosts in [false, true] {
                let test = test.clone();
                watched(&format!("{units} {scheduler} hosts={hosts}"), move || {
                    test(Arc::new(builder(units, hosts).scheduler(scheduler).build().unwrap()));
                });
            }
        }
    }
}

#[test]
fn body_may_read_data_written_by_tasks_it_submitted() {
    on_each(|rt| {
        let (x, y) = (rt.data(vec![1u64; 10]), rt.data(vec![0u64; 10]));
        let (inner, held) = (rt.clone(), y.clone());
        let body = move |_: &Context, (x,): (&mut [u64],)| {
            for n in 1..=10 {
                let add = move |_: &Context, (y,): (&mut [u64],)| y.iter_mut().for_each(|y| *y += n);
                inner.task("add", (held.inout(),)).host(add).submit()?;
            }
            x[0] = inner.read(&held)?.iter().sum();
            Ok::<_, RunError>(())
        };
        rt.task("reads", (x.inout(),)).host(body).submit().unwrap();
        assert_eq!(rt.read(x.slice(0)).unwrap(), [550]);
        rt.wait().unwrap();
    });
}

#[test]
fn body_may_wait_for_a_task_that_itself_waits() {
    // Each task waits for the next one. All are submitted outside of bodies, so none is a child of another.
    on_each(|rt| {
        const N: usize = 20;
        let handles: Arc<Mutex<Vec<Option<TaskHandle>>>> = Arc::new(Mutex::new(vec![None; N + 1]));
        let (open, wait) = gate();
        let order = rt.data(vec![0u64; 1]);
        rt.task("gate", (order.output(),)).host(move |_, _| wait()).submit().unwrap();
        for n in 0..=N {
            let others = handles.clone();
            let body = move |_: &Context, ((),)| {
                let next = others.lock().unwrap().get(n + 1).cloned().flatten();
                next.map_or(Ok(()), |next| next.wait())
            };
            let handle = rt.task("waits", (order.after(),)).host(body).submit_handle().unwrap();
            handles.lock().unwrap()[n] = Some(handle);
        }
        drop(open);
        rt.wait().unwrap();
        assert!(handles.lock().unwrap().iter().flatten().all(TaskHandle::is_finished));
    });
}

fn descend(rt: &Arc<Runtime>, levels: u32) -> Result<TaskHandle, SubmitError> {
    let inner = rt.clone();
    let body = move |_: &Context, ()| match levels {
        0 => Ok(()),
        levels => descend(&inner, levels - 1)?.wait(),
    };
    rt.task("level", ()).host(body).submit_handle()
}

#[test]
fn thousand_nested_waits_end_on_one_unit() {
    for (units, scheduler) in [("1:CPU:1", "stealing"), ("1:CPU:1", "dynamic"), ("1:CPU:1,1:EMU:1", "eft")] {
        for hosts in [false, true] {
            watched(&format!("{units} {scheduler} {hosts}"), move || {
                let rt = Arc::new(builder(units, hosts).scheduler(scheduler).build().unwrap());
                let first = descend(&rt, 1000).unwrap();
                first.wait().unwrap();
                rt.wait().unwrap();
            });
        }
    }
}

#[test]
fn failure_reaches_the_waiting_body() {
    on_each(|rt| {
        let (x, inner) = (rt.data(vec![0u64; 1]), rt.clone());
        let body = move |_: &Context, ()| {
            inner.task("fails", (x.inout(),)).host(|_, _| Err("no")).submit()?;
            let error = inner.read(&x).unwrap_err().to_string();
            assert!(error.contains("`fails`") && error.contains("no"), "{error}");
            Ok::<_, SubmitError>(())
        };
        let waits = rt.task("waits", ()).host(body).submit_handle().unwrap();
        waits.wait().unwrap();
        assert_eq!(crate::common::failed(rt.wait()), ["fails"]);
    });
}

#[test]
fn waiting_body_leaves_its_unit_to_other_tasks() {
    // One unit: the body waits for a task, and the main thread waits for another task to run in the meantime.
    watched("one unit", || {
        let rt = Arc::new(builder("1:CPU:1", false).build().unwrap());
        let ((open, wait), (did, done)) = (gate(), channel());
        let inner = rt.clone();
        let body = move |_: &Context, ()| {
            let last = inner.task("last", ()).host(|_, ()| ()).submit_handle()?;
            last.wait()
        };
        rt.task("waits", ()).host(body).submit().unwrap();
        rt.task("others", ()).host(move |_, ()| did.send(()).unwrap()).submit().unwrap();
        done.recv().unwrap();
        drop(open);
        wait();
        rt.wait().unwrap();
    });
}

#[test]
fn bodies_of_two_runtimes_may_wait_for_each_other() {
    watched("two", || {
        let [one, other] = ["1:CPU:1"; 2].map(|units| Arc::new(builder(units, true).build().unwrap()));
        let (inner, innermost) = (other.clone(), one.clone());
        let body = move |_: &Context, ()| {
            let there = inner.data(vec![1u64; 4]);
            let again = inner.clone();
            let (x, y) = (there.clone(), inner.data(vec![0u64; 1]));
            let z = y.clone();
            let nested = move |_: &Context, ()| {
                again.task("sum", (x.input(), y.output())).host(|_, (x, y)| y[0] = x.iter().sum()).submit()?;
                assert!(
                    innermost.read(&innermost.scalar(0u8)).is_err(),
                    "the wait is inside a body of that runtime, too"
                );
                assert_eq!(again.read(&y)?, [4]);
                Ok::<_, RunError>(())
            };
            inner.task("nested", ()).host(nested).submit()?;
            inner.wait()?;
            assert_eq!(inner.read(&z)?, [4]);
            Ok::<_, RunError>(())
        };
        one.task("outer", ()).host(body).submit().unwrap();
        one.wait().unwrap();
        other.wait().unwrap();
    });
}

#[test]
fn wait_in_a_device_body_is_refused() {
    for units in MIXES.into_iter().filter(|units| units.contains("EMU")) {
        watched(units, move || {
            let rt = Arc::new(builder(units, false).build().unwrap());
            let (x, inner) = (rt.data(vec![0u64; 1]), rt.clone());
            let body = move |at: &Context, ()| {
                assert!(!at.is_cpu());
                let refused = inner.read(&x).unwrap_err();
                assert!(matches!(refused, RunError::Refused(SubmitError::Unsuspended { call: "read" })), "{refused}");
                assert!(refused.to_string().contains("`host`"), "the refusal must name the alternative: {refused}");
                let refused = at.wait().unwrap_err();
                assert!(matches!(refused, RunError::Refused(SubmitError::Unsuspended { call: "Context::wait" })));
            };
            rt.task("on device", ()).emulated(body).submit().unwrap();
            rt.wait().unwrap();
        });
    }
}

/// The number of bodies that have begun but not ended, and the maximum of this number so far.
#[derive(Default)]
struct Begun {
    now: usize,
    most: usize,
}

/// Leaves one part of a recursion to a child, does the other part itself, and waits for the child. Returns the number
/// of leaves.
fn split(at: &Context, depth: u32, begun: &Arc<Mutex<Begun>>) -> Result<u64, RunError> {
    if depth < 2 {
        return Ok(1);
    }
    let inner = begun.clone();
    let child = at.task("split", ()).try_returns(move |at, ()| {
        let mut state = inner.lock().unwrap();
        state.now += 1;
        state.most = state.most.max(state.now);
        drop(state);
        let found = split(at, depth - 1, &inner);
        inner.lock().unwrap().now -= 1;
        found
    });
    let child = child.submit()?;
    let rest = split(at, depth - 2, begun)?;
    Ok(child.get()? + rest)
}

/// If a waiting body's thread continued with an arbitrary other task, more and more bodies would begin, each with its
/// own stack, before any of them ended.
#[test]
fn body_that_waits_for_its_child_runs_it_first() {
    const DEPTH: u32 = 10;
    for hosts in [false, true] {
        watched(&format!("hosts={hosts}"), move || {
            let rt = builder("1:CPU:1", hosts).build().unwrap();
            let begun = Arc::new(Mutex::new(Begun::default()));
            let inner = begun.clone();
            let all = rt.task("all", ()).try_returns(move |at, ()| split(at, DEPTH, &inner)).submit().unwrap();
            assert_eq!(all.get().unwrap(), 89);
            let most = begun.lock().unwrap().most;
            assert!(most < DEPTH as usize, "{most} bodies had begun at once");
        });
    }
}

//! Bounded waits: a hosting thread returns from its wait even if bodies that it has begun are still waiting for
//! something else.

use crate::common::{SCHEDULERS, builder, gate, watched};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use thalweg::Context;
use thalweg::prelude::*;

const HOSTED: [&str; 2] = ["1:CPU:1", "1:CPU:1,1:EMU:1"];

/// Runs `test` on machines whose only CPU unit is hosted by the submitter.
fn on_each_host(test: impl FnOnce(Arc<Runtime>) + Clone + Send + 'static) {
    for units in HOSTED {
        for scheduler in SCHEDULERS {
            let test = test.clone();
            watched(&format!("{units} {scheduler}"), move || {
                test(Arc::new(builder(units, true).scheduler(scheduler).build().unwrap()));
            });
        }
    }
}

/// Submits a task that lends out `x`, and a body that waits for this task. Returns the guard, whose return ends the
/// task, and the handle of the waiting task.
fn waiting_body(rt: &Arc<Runtime>) -> (Lent<[u64]>, TaskHandle) {
    let x = rt.data(vec![0u64; 1]);
    let (lend, lent) = channel();
    let detached =
        rt.task("lends", (x.inout(),)).host_detached_until_event(move |_, (x,): (Lent<[u64]>,)| lend.send(x).unwrap());
    let lends = detached.submit_handle().unwrap();
    let awaited = lends.clone();
    let body = move |_: &Context, ()| awaited.wait().unwrap();
    let waits = rt.task("waits", ()).host(body).submit_handle().unwrap();
    let guard = loop {
        match lent.try_recv() {
            Ok(guard) => break guard,
            Err(_) => assert!(!rt.wait_timeout(Duration::from_millis(1)).unwrap()),
        }
    };
    (guard, waits)
}

#[test]
fn wait_with_timeout_returns_while_a_body_on_the_thread_waits() {
    on_each_host(|rt| {
        let (guard, waits) = waiting_body(&rt);
        for _ in 0..5 {
            assert!(!rt.wait_timeout(Duration::from_millis(1)).unwrap());
        }
        assert!(!waits.is_finished());
        guard.finish();
        assert!(rt.wait_timeout(Duration::MAX).unwrap() && waits.is_finished());
    });
}

#[test]
fn wait_for_a_finished_task_returns_while_a_body_on_the_thread_waits() {
    on_each_host(|rt| {
        let (guard, waits) = waiting_body(&rt);
        let y = rt.scalar(0u64);
        let other = rt.task("other", (y.inout(),)).host(|_, (y,)| y[0] = 1).submit_handle().unwrap();
        other.wait().unwrap();
        assert_eq!(rt.read(&y).unwrap()[0], 1);
        let result = rt.task("result", ()).returns(|_, ()| 7).submit().unwrap();
        assert_eq!(result.get().unwrap(), 7);
        let group = rt.group();
        group.task("member", (y.inout(),)).host(|_, (y,)| y[0] += 1).submit().unwrap();
        group.wait().unwrap();
        assert!(!waits.is_finished());
        guard.finish();
        rt.wait().unwrap();
    });
}

#[test]
fn waiting_bodies_can_be_resumed_in_any_order() {
    on_each_host(|rt| {
        let all: Vec<_> = (0..20).map(|_| waiting_body(&rt)).collect();
        let (mut odd, mut even) = (vec![], vec![]);
        all.into_iter().enumerate().for_each(|(n, pair)| if n % 2 == 1 { odd.push(pair) } else { even.push(pair) });
        for (guard, waits) in odd.into_iter().chain(even) {
            guard.finish();
            waits.wait().unwrap();
        }
        rt.wait().unwrap();
    });
}

#[test]
fn host_takes_its_seat_back_from_a_guest_to_resume_a_body() {
    watched("seat", || {
        let rt = Arc::new(builder("1:CPU:1", true).build().unwrap());
        let (guard, waits) = waiting_body(&rt);
        let (open, opened) = gate();
        let (begins, begun) = channel();
        let (inner, awaited) = (rt.clone(), waits.clone());
        let guest = std::thread::spawn(move || {
            let begins = move |_: &Context, ()| begins.send(()).unwrap();
            inner.task("by the guest", ()).host(begins).submit().unwrap();
            opened();
            // The guest thread waits for a body that only the other thread can resume.
            awaited.wait().unwrap();
        });
        drop(open);
        begun.recv().unwrap();
        guard.finish();
        rt.wait().unwrap();
        guest.join().unwrap();
    });
}

#[test]
fn shutdown_ends_suspended_bodies() {
    on_each_host(|rt| {
        let (guard, waits) = waiting_body(&rt);
        let helper = std::thread::spawn(move || guard.finish());
        rt.shutdown().unwrap();
        helper.join().unwrap();
        assert!(waits.is_finished());
    });
}

/// Waits in a thread-local destructor, after the runtime's own thread-local state has been destroyed.
struct WaitsAtTheEnd(Option<Box<dyn FnOnce()>>);

impl Drop for WaitsAtTheEnd {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|wait| wait());
    }
}

#[test]
fn wait_in_a_thread_local_destructor_is_woken() {
    thread_local! {
        static LATE: RefCell<WaitsAtTheEnd> = const { RefCell::new(WaitsAtTheEnd(None)) };
    }
    for (units, hosts) in [("2:CPU:1", false), ("1:CPU:1", false), ("1:CPU:1", true), ("1:CPU:1,1:EMU:1", true)] {
        watched(&format!("{units} hosts={hosts}"), move || {
            let rt = Arc::new(builder(units, hosts).report_stalls_after(None).build().unwrap());
            let inner = rt.clone();
            let late = std::thread::spawn(move || {
                let here = inner.clone();
                let at_the_end = move || {
                    let x = inner.data(vec![1u64; 4]);
                    inner.task("add", (x.inout(),)).host(|_, (x,)| x[0] += 1).submit().unwrap();
                    assert_eq!(inner.read(&x).unwrap(), [2, 1, 1, 1]);
                    let two = inner.task("two", ()).returns(|_, ()| 2).submit().unwrap();
                    assert_eq!(two.get().unwrap(), 2);
                    let mut lent = [0u64; 4];
                    inner
                        .scope(|s| {
                            let lent = s.borrow_mut(&mut lent);
                            s.task("fill", (lent.output(),)).host(|_, (x,)| x.fill(3)).submit().unwrap();
                        })
                        .unwrap();
                    assert_eq!(lent, [3; 4]);
                };
                // This wait registers the runtime's thread-local state after `LATE`, so that it is destroyed before
                // `LATE`.
                LATE.with_borrow_mut(|late| late.0 = Some(Box::new(at_the_end)));
                here.fetch(&here.scalar(0u64), SpaceId::HOST).unwrap();
            });
            late.join().unwrap();
            rt.wait().unwrap();
        });
    }
}

#[test]
fn ending_thread_ends_the_bodies_it_has_suspended() {
    watched("ends", || {
        let (send, sent) = channel();
        let owner = std::thread::spawn(move || {
            let rt = Arc::new(builder("1:CPU:1", true).build().unwrap());
            let (guard, waits) = waiting_body(&rt);
            send.send((rt, guard, waits)).unwrap();
        });
        let (rt, guard, waits) = sent.recv().unwrap();
        guard.finish();
        owner.join().unwrap();
        assert!(waits.is_finished());
        rt.wait().unwrap();
    });
}

#[test]
fn host_without_memory_for_stacks_executes_tasks_on_its_own_stack() {
    for scheduler in SCHEDULERS {
        watched(scheduler, move || {
            let no_address_space_has_such_a_stack = 1 << 47;
            let builder = builder("1:CPU:1", true).scheduler(scheduler).stack_bytes(no_address_space_has_such_a_stack);
            let rt = builder.build().unwrap();
            let x = rt.data(vec![0u64; 8]);
            for _ in 0..100 {
                rt.task("add", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x += 1)).submit().unwrap();
            }
            assert_eq!(rt.read(&x).unwrap(), [100; 8]);
        });
    }
}

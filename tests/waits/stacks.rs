//! Bodies that wait while the system has memory for only a few of their stacks. Each test runs itself in a child
//! process with a memory limit.

use crate::common::{again, again_within, builder, watched};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use thalweg::Context;
use thalweg::prelude::*;

const PROGRAM: &str = "THALWEG_TEST_STACKS";

/// Runs `program` in a child process that may map at most `kib` KiB (unlimited if `None`). The child has to end by
/// itself.
fn limited(test: &str, kib: Option<u64>, program: impl FnOnce() + Send + 'static) {
    if std::env::var(PROGRAM).is_ok_and(|name| name == test) {
        return watched(test, program);
    }
    let (test, variables) = (&format!("stacks::{test}"), &[(PROGRAM, test)]);
    match kib {
        Some(kib) => again_within(kib, test, variables),
        None => again(test, variables),
    };
}

/// Makes `count` bodies wait for a task that ends last, while other tasks are ready. All tasks have to end.
fn many_wait(count: usize, hosts: bool, stack_bytes: usize) {
    let rt =
        Arc::new(builder("2:CPU:1", hosts).stack_bytes(stack_bytes).max_pending_tasks(10 * count).build().unwrap());
    let lent = rt.scalar(0u64);
    let (lend, guards) = channel();
    let lends =
        rt.task("lends", lent.inout()).host_detached_until_event(move |_, x: Lent<[u64]>| lend.send(x).unwrap());
    let lends = lends.submit_handle().unwrap();
    let (ended, others) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..count {
        let (awaited, ended, others) = (lends.clone(), ended.clone(), others.clone());
        let body = move |_: &Context, ()| {
            awaited.wait().unwrap();
            ended.fetch_add(1, Ordering::Relaxed);
        };
        rt.task("waits", ()).host(body).submit().unwrap();
        rt.task("other", ()).host(move |_, ()| _ = others.fetch_add(1, Ordering::Relaxed)).submit().unwrap();
    }
    // The guard is returned only after the other tasks have run, so waiting bodies must not prevent them from running.
    let seen = others.clone();
    let helper = std::thread::spawn(move || {
        let guard = guards.recv().unwrap();
        while seen.load(Ordering::Relaxed) < count {
            std::thread::yield_now();
        }
        guard.finish();
    });
    rt.wait().unwrap();
    helper.join().unwrap();
    assert_eq!((ended.load(Ordering::Relaxed), others.load(Ordering::Relaxed)), (count, count));
}

#[test]
fn thousand_waiting_bodies_do_not_block_ready_tasks_under_a_limit() {
    limited("thousand_waiting_bodies_do_not_block_ready_tasks_under_a_limit", Some(2 << 20), || {
        for hosts in [false, true] {
            many_wait(1_000, hosts, 8 << 20);
        }
    });
}

#[test]
fn small_stacks_leave_memory_for_other_allocations() {
    limited("small_stacks_leave_memory_for_other_allocations", Some(1 << 20), || many_wait(3_000, false, 256 << 10));
}

#[test]
fn ten_thousand_waiting_bodies_share_few_stacks() {
    limited("ten_thousand_waiting_bodies_share_few_stacks", Some(2 << 20), || many_wait(10_000, false, 8 << 20));
}

#[test]
fn forty_thousand_waiting_bodies_stay_within_the_mapping_limit() {
    limited("forty_thousand_waiting_bodies_stay_within_the_mapping_limit", None, || many_wait(40_000, false, 64 << 10));
}

#[test]
fn wait_without_room_for_another_stack_is_refused() {
    limited("wait_without_room_for_another_stack_is_refused", Some(512 << 10), || {
        // Each body submits the next one and waits for it, until there is neither another stack nor room on an existing
        // stack.
        fn descend(rt: &Arc<Runtime>, refused: &Arc<AtomicUsize>) -> Result<TaskHandle, SubmitError> {
            let (inner, count) = (rt.clone(), refused.clone());
            let body = move |_: &Context, ()| match descend(&inner, &count).map_err(RunError::from) {
                Ok(next) => match next.wait() {
                    Err(RunError::Refused(error @ SubmitError::NoStack { .. })) => {
                        assert!(error.to_string().contains("stack_bytes"), "{error}");
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    waited => waited.unwrap(),
                },
                Err(error) => panic!("{error}"),
            };
            if refused.load(Ordering::Relaxed) > 0 {
                return rt.task("last", ()).host(|_, ()| ()).submit_handle();
            }
            rt.task("level", ()).host(body).submit_handle()
        }
        let rt = Arc::new(builder("1:CPU:1", false).build().unwrap());
        let refused = Arc::new(AtomicUsize::new(0));
        descend(&rt, &refused).unwrap();
        rt.wait().unwrap();
        assert!(refused.load(Ordering::Relaxed) > 0);
    });
}

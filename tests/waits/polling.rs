//! Idle threads advance what tasks wait for outside of the runtime.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg::memory::Lent;
use thalweg::prelude::*;

/// Regions that wait for messages.
type Expected = Arc<Mutex<Vec<Lent<[u64]>>>>;

/// Returns a function that fills one region per call, and whether it has more.
fn fills(expected: &Expected) -> impl Fn() -> bool + Send + Sync + 'static {
    let expected = expected.clone();
    move || {
        let Some(mut region) = expected.lock().unwrap().pop() else { return false };
        region[0] += 1;
        region.finish();
        !expected.lock().unwrap().is_empty()
    }
}

#[test]
fn idle_threads_end_tasks_that_wait_for_messages() {
    for units in ["1:CPU:1", "3:CPU:1", "2:CPU:1,1:EMU:1"] {
        for hosts in [false, true] {
            let expected = Expected::default();
            let builder = Runtime::builder().compute_units(units).use_current_thread(hosts);
            let rt = builder.while_idle(fills(&expected)).build().unwrap();
            let x = rt.data(vec![0u64]);
            for step in 0..200 {
                let expected = expected.clone();
                rt.task("receive", (x.inout(),))
                    .host_detached_until_event(move |_, (x,): (Lent<[u64]>,)| expected.lock().unwrap().push(x))
                    .submit()
                    .unwrap();
                rt.task("check", (x.input(),)).cpu(move |_, (x,)| assert_eq!(x[0], step + 1)).submit().unwrap();
            }
            rt.wait().unwrap();
            assert_eq!(rt.take(x).unwrap(), [200]);
        }
    }
}

#[test]
fn idle_threads_sleep_although_something_is_on_its_way() {
    let (calls, arrived) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, done) = (calls.clone(), arrived.clone());
    let poll = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        !done.load(Ordering::Relaxed)
    };
    let rt = Runtime::builder().compute_units("2:CPU:1").while_idle(poll).build().unwrap();
    rt.task("first", ()).cpu(|_, ()| ()).submit().unwrap();
    rt.wait().unwrap();
    // The threads search for a millisecond and then sleep, which is over when the number of calls stays the same.
    let mut last = calls.load(Ordering::Relaxed);
    assert!((0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        let before = std::mem::replace(&mut last, calls.load(Ordering::Relaxed));
        before == last
    }));
    // A new task wakes them.
    rt.task("second", ()).cpu(|_, ()| ()).submit().unwrap();
    rt.wait().unwrap();
    assert!(last > 0);
    arrived.store(true, Ordering::Relaxed);
}

#[test]
fn all_functions_are_called() {
    let (one, two) = (Expected::default(), Expected::default());
    let builder = Runtime::builder().compute_units("1:CPU:1");
    let rt = builder.while_idle(fills(&one)).while_idle(fills(&two)).build().unwrap();
    let x = rt.data(vec![0u64]);
    for expected in [&one, &two, &one] {
        let expected = expected.clone();
        rt.task("receive", (x.inout(),))
            .host_detached_until_event(move |_, (x,): (Lent<[u64]>,)| expected.lock().unwrap().push(x))
            .submit()
            .unwrap();
    }
    assert_eq!(rt.take(x).unwrap(), [3]);
}

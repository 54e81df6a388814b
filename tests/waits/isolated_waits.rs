//! Waits in bodies that hold a lock: during such a wait, the thread runs nothing that may need the lock.

use crate::common::{SCHEDULERS, builder, watched};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use thalweg::Context;
use thalweg::prelude::*;

/// Number of leaves per parent. A parent has three children, each of these has two, and each of these has two more;
/// every child submits two leaves.
const LEAVES: u64 = 2 * 3 * (1 + 2 + 4);
const UNITS: [&str; 4] = ["1:CPU:1", "2:CPU:1", "1:CPU:1,1:EMU:1", "2:EMU:1"];

/// Runs `test` on machines with and without placement, under all schedulers, with and without a unit hosted by the
/// submitter.
fn on_each(test: impl FnOnce(Arc<Runtime>) + Clone + Send + 'static) {
    for units in UNITS {
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

/// Submits `children` independent children that each count. If `deep` is not 0, each child also submits and waits for
/// further children.
fn children(cx: &Context, count: &Arc<AtomicU64>, children: usize, deep: usize) -> Result<(), SubmitError> {
    for _ in 0..children {
        let inner = count.clone();
        let body = move |cx: &Context, ()| -> Result<(), RunError> {
            if deep > 0 {
                self::children(cx, &inner, 2, deep - 1)?;
                cx.wait_isolated()?; // nor may another thread that runs this child begin a task that needs the lock
            }
            let (x, count) = (cx.token(), inner.clone());
            let leaf = move |_: &Context, ()| _ = count.fetch_add(1, Ordering::Relaxed);
            cx.task("first", x.inout()).host(leaf.clone()).submit()?;
            cx.task("second", x.inout()).host(leaf).submit()?; // becomes ready on the thread that runs the first
            Ok(())
        };
        cx.task("child", ()).host(body).submit()?;
    }
    Ok(())
}

#[test]
fn lock_is_held_over_a_wait_for_children_while_others_want_it() {
    on_each(|rt| {
        let (lock, count) = (Arc::new(Mutex::new(0)), Arc::new(AtomicU64::new(0)));
        for parents in 1..=8 {
            let (inner, own) = (count.clone(), lock.clone());
            let body = move |cx: &Context, ()| -> Result<(), RunError> {
                let mut entered = own.lock().unwrap();
                let before = inner.load(Ordering::Relaxed);
                children(cx, &inner, 3, 2)?;
                cx.wait_isolated()?;
                assert_eq!(inner.load(Ordering::Relaxed), before + LEAVES);
                *entered += 1;
                Ok(())
            };
            rt.task("parent", ()).host(body).submit().unwrap();
            // Other tasks that need the lock are submitted before and after, so that threads steal them together with
            // children and find them in their own queues.
            for _ in 0..4 {
                let lock = lock.clone();
                rt.task("other", ()).host(move |_, ()| *lock.lock().unwrap() += 1).submit().unwrap();
            }
            if parents % 4 == 0 {
                rt.wait().unwrap();
                assert_eq!(*lock.lock().unwrap(), parents * 5);
            }
        }
        assert_eq!(count.load(Ordering::Relaxed), 8 * LEAVES);
    });
}

#[test]
fn isolated_wait_returns_failures_of_children() {
    on_each(|rt| {
        let body = |cx: &Context, ()| {
            cx.task("fails", ()).host(|_, ()| Err("no")).submit()?;
            assert!(cx.wait_isolated().unwrap_err().to_string().contains("`fails`"));
            Ok::<_, SubmitError>(())
        };
        let parent = rt.task("parent", ()).host(body).submit_handle().unwrap();
        parent.wait().unwrap();
        assert_eq!(crate::common::failed(rt.wait()), ["fails"]);
    });
}

#[test]
fn circular_wait_through_an_isolated_wait_is_refused() {
    on_each(|rt| {
        let handle = Arc::new(std::sync::OnceLock::<TaskHandle>::new());
        let own = handle.clone();
        let body = move |cx: &Context, ()| {
            let own = own.clone();
            let waits = move |_: &Context, ()| own.wait().wait();
            cx.task("waits for its parent", ()).host(waits).submit()?;
            cx.wait_isolated()
        };
        let parent = rt.task("parent", ()).host(body).submit_handle().unwrap();
        handle.set(parent.clone()).unwrap();
        let error = parent.wait().unwrap_err();
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            text += &error.to_string();
            source = error.source();
        }
        assert!(text.contains("wait forever"), "{text}");
        let _told = rt.wait();
    });
}

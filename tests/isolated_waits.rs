//! Waits in bodies that hold a lock: the thread runs nothing meanwhile that may want it.

mod common;

use common::{SCHEDULERS, builder, watched};
use std::sync::{Arc, Mutex};
use thalweg::Context;
use thalweg::prelude::*;

const UNITS: [&str; 4] = ["1:CPU:1", "2:CPU:1", "1:CPU:1,1:EMU:1", "2:EMU:1"];

/// Runs `test` on machines with and without placement, under all schedulers, whoever hosts.
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

/// Submits `children` that count, each of which waits for children of its own if it is to be `deep`.
fn children(cx: &Context, count: &Data<u64>, children: usize, deep: usize) -> Result<(), SubmitError> {
    for _ in 0..children {
        let inner = count.clone();
        let body = move |cx: &Context, ()| -> Result<(), RunError> {
            if deep > 0 {
                self::children(cx, &inner, 2, deep - 1)?;
                cx.wait_isolated()?; // another thread that runs it may not begin what wants the lock, either
            }
            cx.task("leaf", inner.inout()).host(|_, count| count[0] += 1).submit()?;
            Ok(())
        };
        cx.task("child", count.weak_inout()).host(body).submit()?;
    }
    Ok(())
}

#[test]
fn lock_is_held_over_a_wait_for_children_while_others_want_it() {
    on_each(|rt| {
        let lock = Arc::new(Mutex::new(0));
        let counts: Vec<_> = (0..8).map(|_| rt.scalar(0u64)).collect();
        for count in &counts {
            let (inner, own) = (count.clone(), lock.clone());
            let body = move |cx: &Context, ()| -> Result<(), RunError> {
                let mut entered = own.lock().unwrap();
                children(cx, &inner, 3, 2)?;
                cx.wait_isolated()?;
                *entered += 1;
                Ok(())
            };
            rt.task("parent", count.weak_inout()).host(body).submit().unwrap();
            // Others that want the lock, before and after: they are stolen with children, and found in their way.
            for _ in 0..4 {
                let lock = lock.clone();
                rt.task("other", ()).host(move |_, ()| *lock.lock().unwrap() += 1).submit().unwrap();
            }
        }
        rt.wait().unwrap();
        assert_eq!(*lock.lock().unwrap(), 8 * 5);
        for count in counts {
            assert_eq!(rt.read(&count).unwrap(), [3 + 3 * (2 + 4)]);
        }
    });
}

#[test]
fn failures_of_children_come_from_an_isolated_wait() {
    on_each(|rt| {
        let body = |cx: &Context, ()| {
            cx.task("fails", ()).host(|_, ()| Err("no")).submit()?;
            assert!(cx.wait_isolated().unwrap_err().to_string().contains("`fails`"));
            Ok::<_, SubmitError>(())
        };
        let parent = rt.task("parent", ()).host(body).submit_handle().unwrap();
        rt.wait_for(&parent).unwrap();
        assert_eq!(common::failed(rt.wait()), ["fails"]);
    });
}

#[test]
fn isolated_wait_that_waits_for_its_own_body_is_refused() {
    on_each(|rt| {
        let (handle, inner) = (Arc::new(std::sync::OnceLock::<TaskHandle>::new()), rt.clone());
        let own = handle.clone();
        let body = move |cx: &Context, ()| {
            let (rt, own) = (inner.clone(), own.clone());
            let waits = move |_: &Context, ()| rt.wait_for(own.wait());
            cx.task("waits for its parent", ()).host(waits).submit()?;
            cx.wait_isolated()
        };
        let parent = rt.task("parent", ()).host(body).submit_handle().unwrap();
        handle.set(parent.clone()).unwrap();
        let error = rt.wait_for(&parent).unwrap_err();
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            text += &error.to_string();
            source = error.source();
        }
        assert!(text.contains("for ever"), "{text}");
        let _told = rt.wait();
    });
}

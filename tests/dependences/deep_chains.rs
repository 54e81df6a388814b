//! Chains of any length: failures that are passed on, nested tasks, nested groups. Neither dropping nor formatting such
//! a chain may recurse along the chain.

use crate::common::{failed, runtime};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use thalweg::prelude::*;

/// Runs `test` under the watchdog, on a stack that is too small for recursion along a chain.
fn watched(what: &str, test: impl FnOnce() + Send + 'static) {
    crate::common::watched(what, || {
        let thread = std::thread::Builder::new().stack_size(256 << 10);
        thread.spawn(test).unwrap().join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

const STAGES: usize = 50_000;

/// Runs a pipeline in which every stage returns the error of the stage before it, wrapped by `wrap`.
fn failures_passed_on<E>(wrap: impl Fn(RunError) -> E + Send + Copy + 'static)
where
    E: Into<Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
{
    let rt = runtime("2:CPU:1");
    let mut last = rt.task("first", ()).try_returns(|_, ()| Err::<u32, _>("no")).submit().unwrap();
    for _ in 0..STAGES {
        let before = last;
        // The predecessor has already ended, so the wait does not suspend the body.
        before.task().wait().unwrap_err();
        last = rt.task("stage", ()).try_returns(move |_, ()| before.get().map_err(wrap)).submit().unwrap();
    }
    let error = last.get().unwrap_err();
    assert!(error.to_string().len() < 10_000, "{error}");
    assert!(format!("{error:?}").len() < 10_000, "{error:?}");
    drop(rt);
    drop(error); // the last owner of the last failure
}

#[test]
fn failure_passed_on_by_many_stages_is_dropped() {
    watched("passed on", || failures_passed_on(|error| error));
}

#[test]
fn failure_wrapped_by_many_stages_is_dropped() {
    #[derive(Debug)]
    struct Wrapped(RunError);
    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "wrapped: {}", self.0)
        }
    }
    impl Error for Wrapped {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }
    watched("wrapped", || failures_passed_on(Wrapped));
}

#[test]
fn failure_wrapped_without_source_by_many_stages_is_dropped() {
    #[derive(Debug)]
    struct Hidden(RunError);
    impl fmt::Display for Hidden {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "hidden: {}", self.0)
        }
    }
    impl Error for Hidden {}
    watched("hidden", || failures_passed_on(Hidden));
}

/// Submits a child that does the same in turn, down to a leaf that fails.
fn nest(cx: &Context, x: &Arc<Data<u64>>, levels: usize) -> Result<(), SubmitError> {
    let below = x.clone();
    let child = cx.task("level", (x.weak_inout(),));
    child
        .host(move |cx, _| {
            if levels == 0 {
                Err("no".into())
            } else {
                Ok::<_, Box<dyn Error + Send + Sync>>(nest(cx, &below, levels - 1)?)
            }
        })
        .submit()?;
    Ok(())
}

#[test]
fn failing_leaf_of_many_levels_is_dropped() {
    watched("nested", || {
        let rt = runtime("2:CPU:1");
        let x = Arc::new(rt.scalar(0u64));
        let below = x.clone();
        rt.task("root", (x.weak_inout(),)).host(move |cx, _| nest(cx, &below, 2 * STAGES)).submit().unwrap();
        assert_eq!(failed(rt.wait()), ["level"]);
        drop((x, rt));
    });
}

#[test]
fn deeply_nested_groups_are_cancelled_counted_and_dropped() {
    watched("groups", || {
        let rt = runtime("1:CPU:1");
        let outermost = rt.group();
        let mut innermost = outermost.group();
        for _ in 0..20 * STAGES {
            innermost = innermost.group();
        }
        innermost.task("t", ()).cpu(|_, ()| ()).submit().unwrap();
        outermost.wait().unwrap();
        outermost.cancel();
        assert!(innermost.is_cancelled());
        assert_eq!(innermost.pending(), 0);
        drop(innermost);
    });
}

/// The readers of an array are combined into joins, each of which waits for the previous join. The first reader ends
/// last.
#[test]
fn joins_of_many_readers_end_when_the_first_ends() {
    watched("readers", || {
        let rt = Runtime::builder().compute_units("2:CPU:1").max_pending_tasks(usize::MAX).build().unwrap();
        let x = rt.scalar(0u64);
        let (open, opened) = crate::common::gate();
        rt.task("first", (x.input(),)).host(move |_, _| opened()).submit().unwrap();
        let group = rt.group();
        for _ in 0..20 * STAGES {
            group.task("reader", (x.input(),)).cpu(|_, _| ()).submit().unwrap();
        }
        rt.task("writer", (x.output(),)).cpu(|_, _| ()).submit().unwrap();
        group.wait().unwrap();
        drop(open);
        rt.wait().unwrap();
    });
}

/// A failed child stays in its parent's history as long as the data object refers to the parent, and no longer.
#[test]
fn domains_with_failed_children_are_freed_with_their_data() {
    watched("freed", || {
        let rt = runtime("2:CPU:1");
        let alive = Arc::new(());
        for _ in 0..100 {
            let (x, alive) = (Arc::new(rt.scalar(0u64)), alive.clone());
            let below = x.clone();
            let body = move |cx: &Context, _| {
                let (own, inner) = (alive.clone(), below.clone());
                let child = cx.task("child", (below.weak_inout(),));
                let body = move |cx: &Context, _| {
                    let own = own.clone();
                    let leaf = cx.task("leaf", (inner.inout(),));
                    leaf.host(move |_, _| Err::<(), _>(Owns(own))).submit().map(drop)
                };
                child.host(body).submit().map(drop)
            };
            rt.task("parent", x.weak_inout()).host(body).submit().unwrap();
        }
        assert_eq!(failed(rt.wait()), ["leaf"; 100]);
        // These calls wait until the arrays are released. After the second call, nothing else owns the failures.
        (0..4).for_each(|_| rt.wait().unwrap());
        assert_eq!(Arc::strong_count(&alive), 1);
    });

    #[derive(Debug)]
    struct Owns(#[allow(dead_code, reason = "is counted")] Arc<()>);
    impl fmt::Display for Owns {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("no")
        }
    }
    impl Error for Owns {}
}

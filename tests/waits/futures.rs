//! Waits as futures, under executors that are independent of the runtime.

use crate::common::{failed, gate, poison, runtime, watched};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use thalweg::prelude::*;

/// Wakes a parked thread.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A minimal executor.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn read_async_returns_the_value_at_the_time_of_the_call() {
    for units in crate::common::MIXES {
        for scheduler in crate::common::SCHEDULERS {
            watched(&format!("{units} {scheduler}"), move || {
                let rt = Runtime::builder().compute_units(units).scheduler(scheduler).build().unwrap();
                let x = rt.data(vec![1u64; 6]);
                let add =
                    |n| rt.task("add", (x.inout(),)).cpu(move |_, (x,)| x.iter_mut().for_each(|x| *x += n)).submit();
                add(10).unwrap();
                let first = rt.read_async(x.slice(4..));
                add(100).unwrap();
                let second = rt.read_async(&x);
                assert_eq!(block_on(second).unwrap(), [111; 6]);
                assert_eq!(block_on(first).unwrap(), [11; 2]);
                block_on(rt.wait_async()).unwrap();
            });
        }
    }
}

#[test]
fn wait_async_covers_tasks_submitted_by_bodies() {
    for units in ["1:CPU:1", "2:CPU:1", "1:CPU:1,1:EMU:1"] {
        watched(units, move || {
            let rt = Arc::new(runtime(units));
            let count = Arc::new(AtomicUsize::new(0));
            let (open, opened) = gate();
            let (inner, counted) = (rt.clone(), count.clone());
            rt.task("parent", ())
                .cpu(move |_, ()| {
                    opened();
                    for _ in 0..50 {
                        let counted = counted.clone();
                        inner
                            .task("child", ())
                            .cpu(move |_, ()| _ = counted.fetch_add(1, Ordering::SeqCst))
                            .submit()?;
                    }
                    Ok::<(), SubmitError>(())
                })
                .submit()
                .unwrap();
            let waits = rt.wait_async();
            open.send(()).unwrap();
            block_on(waits).unwrap();
            assert_eq!(count.load(Ordering::SeqCst), 50);
            block_on(rt.wait_async()).unwrap();
        });
    }
}

#[test]
fn wait_async_does_not_cover_tasks_submitted_later() {
    watched("later", || {
        let rt = runtime("2:CPU:1");
        rt.task("before", ()).cpu(|_, ()| ()).submit().unwrap();
        let waits = rt.wait_async();
        let (open, opened) = gate();
        rt.task("after", ()).cpu(move |_, ()| opened()).submit().unwrap();
        block_on(waits).unwrap();
        open.send(()).unwrap();
    });
}

#[test]
fn futures_report_failures_like_blocking_waits() {
    for units in crate::common::MIXES {
        watched(units, move || {
            let rt = runtime(units);
            let x = rt.scalar(1u64);
            rt.task("fails", (x.inout(),)).cpu(|_, _| Err("no")).submit().unwrap();
            assert_eq!(poison(block_on(rt.read_async(&x))), ("fails".to_owned(), "failed: no".to_owned()));
            rt.wait().unwrap_err();
        });
    }
    watched("failures", || {
        let rt = runtime("2:CPU:1");
        rt.task("fails", ()).cpu(|_, ()| Err("no")).submit().unwrap();
        let (told, given_up) = (rt.wait_async(), rt.wait_async());
        drop(given_up);
        assert_eq!(failed(block_on(told)), ["fails"]);
        block_on(rt.wait_async()).unwrap();
        let other = runtime("1:CPU:1");
        let refused = block_on(rt.read_async(&other.scalar(1u64)));
        assert!(matches!(refused, Err(RunError::Refused(SubmitError::ForeignData { .. }))), "{refused:?}");
    });
}

#[test]
fn future_moved_to_another_executor_wakes_the_last_one() {
    watched("moves", || {
        let rt = runtime("1:CPU:1");
        let (open, opened) = gate();
        let x = rt.scalar(0u64);
        rt.task("waits", (x.inout(),))
            .cpu(move |_, (x,)| {
                opened();
                x[0] = 7;
            })
            .submit()
            .unwrap();
        let (mut value, mut all) = (Box::pin(rt.read_async(&x)), Box::pin(rt.wait_async()));
        let mut nobody = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            assert!(value.as_mut().poll(&mut nobody).is_pending());
            assert!(all.as_mut().poll(&mut nobody).is_pending());
        }
        let other = thread::spawn(move || block_on(async { (value.await, all.await) }));
        drop(rt.read_async(&x)); // a future that is never polled
        open.send(()).unwrap();
        let (value, all) = other.join().unwrap();
        assert_eq!(value.unwrap(), [7]);
        all.unwrap();
    });
}

#[test]
fn future_that_waits_for_its_own_task_is_refused() {
    watched("inside", || {
        for units in ["1:CPU:1", "1:CPU:1,1:EMU:1"] {
            let rt = Arc::new(runtime(units));
            let (x, y, z) = (rt.scalar(1u64), rt.scalar(2u64), rt.scalar(0u64));
            let (inner, held, other) = (rt.clone(), x.clone(), y.clone());
            let outside = rt.wait_async();
            rt.task("reads", (x.inout(), z.output()))
                .host_async(move |_, (x, mut z)| async move {
                    let refused = inner.read_async(&held).await;
                    assert!(matches!(refused, Err(RunError::Refused(SubmitError::Nested { .. }))), "{refused:?}");
                    let refused = inner.wait_async().await;
                    assert!(matches!(refused, Err(RunError::Refused(SubmitError::InsideTask { .. }))), "{refused:?}");
                    assert!(matches!(outside.await, Err(RunError::Refused(SubmitError::InsideTask { .. }))));
                    z[0] = inner.read_async(&other).await.unwrap()[0] + x[0];
                })
                .submit()
                .unwrap();
            assert_eq!(rt.read(&z).unwrap()[0], 3);
            rt.wait().unwrap();
        }
    });
}

#[test]
fn panicking_waker_is_contained() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker of the user's");
        }
    }
    watched("panics", || {
        let rt = runtime("1:CPU:1");
        let (open, opened) = gate();
        rt.task("waits", ()).cpu(move |_, ()| opened()).submit().unwrap();
        let x = rt.scalar(1u64);
        rt.task("after", (x.inout(),)).cpu(|_, _| ()).submit().unwrap();
        let (mut all, mut value) = (Box::pin(rt.wait_async()), Box::pin(rt.read_async(&x)));
        let waker = Waker::from(Arc::new(Panics));
        assert!(all.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let _ = value.as_mut().poll(&mut Context::from_waker(&waker));
        open.send(()).unwrap();
        rt.wait().unwrap();
        block_on(poll_fn(|cx| all.as_mut().poll(cx))).unwrap();
    });
}

#[test]
fn future_outlives_its_runtime() {
    watched("outlive", || {
        let rt = runtime("1:CPU:1");
        let x = rt.scalar(5u64);
        let (value, all) = (rt.read_async(&x), rt.wait_async());
        drop(rt);
        assert_eq!(block_on(value).unwrap(), [5]);
        block_on(all).unwrap();
    });
}

#[test]
fn futures_and_tokio_timers_work_together() {
    watched("tokio", || {
        let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
        executor.block_on(async {
            let rt = Arc::new(runtime("2:CPU:1"));
            let data: Vec<_> = (0..20u64).map(|n| rt.scalar(n)).collect();
            let mut waits = Vec::new();
            for x in &data {
                rt.task("square", (x.inout(),)).cpu(|_, (x,)| x[0] *= x[0]).submit().unwrap();
                waits.push(tokio::spawn(rt.read_async(x)));
            }
            for (n, value) in waits.into_iter().enumerate() {
                assert_eq!(value.await.unwrap().unwrap(), [(n * n) as u64]);
            }
            // A body uses tokio's own timers.
            let handle = tokio::runtime::Handle::current();
            rt.task("sleeps", (data[3].inout(),))
                .host_async(move |_, (mut x,)| async move {
                    let slept = handle.spawn(async { tokio::time::sleep(std::time::Duration::from_millis(1)).await });
                    slept.await.unwrap();
                    x[0] += 1;
                })
                .submit()
                .unwrap();
            rt.wait_async().await.unwrap();
            assert_eq!(rt.read_async(&data[3]).await.unwrap(), [10]);
            let rt = Arc::into_inner(rt).unwrap();
            tokio::task::spawn_blocking(move || drop(rt)).await.unwrap();
        });
    });
}

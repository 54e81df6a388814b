//! Runtimes embedded in programs: inside other pools and executors, in a `static`, and several at once.

use crate::common::{runtime, watched};
use rayon::prelude::*;
use std::fmt::Debug;
use std::sync::{Arc, LazyLock};
use thalweg::error::{Failures, RunError, TakeError, TaskFailure};
use thalweg::prelude::*;
use thalweg::{Builder, Reading, Stall, Statistics};

fn is_shared<T: Send + Sync + Debug>() {}
fn is_sent<T: Send + Debug>() {}

#[test]
fn public_handles_are_send_sync_and_debug() {
    is_shared::<Runtime>();
    is_shared::<Data<f64>>();
    is_shared::<Data<f64, Ix3>>();
    is_shared::<Region<'_, f64, Ix2>>();
    is_shared::<IterationSpace>();
    is_shared::<TaskHandle>();
    is_shared::<thalweg::Context>();
    is_shared::<Lent<[f64]>>();
    is_shared::<Lent<thalweg::ndarray::ArrayRef<f64, Ix2>, thalweg::memory::ReadOnly>>();
    is_shared::<Completion>();
    is_shared::<Statistics>();
    is_shared::<Stall>();
    is_shared::<Failures>();
    is_shared::<TaskFailure>();
    is_shared::<TakeError<Data<f64, Ix2>>>();
    is_shared::<(BuildError, SubmitError, RunError, DeviceError)>();
    is_sent::<Reading<f64, Ix2>>();
    fn is_debug<T: Debug>(_: fn() -> T) {}
    is_debug::<Builder>(Runtime::builder);
}

fn submit_squares(rt: &Runtime, n: u64) -> Vec<Data<u64>> {
    let data: Vec<_> = (0..n).map(|n| rt.scalar(n)).collect();
    for x in &data {
        rt.task("square", (x.inout(),)).cpu(|_, (x,)| x[0] *= x[0]).submit().unwrap();
    }
    data
}

fn check_squares(rt: &Runtime, data: &[Data<u64>]) {
    data.iter().zip(0..).for_each(|(x, n)| assert_eq!(rt.read(x).unwrap()[0], n * n));
}

#[test]
fn runtime_can_be_used_from_all_threads_of_a_rayon_pool() {
    watched("rayon", || {
        for (units, hosts) in crate::common::MIXES.into_iter().flat_map(|units| [(units, false), (units, true)]) {
            let runtime = |units| crate::common::builder(units, hosts).build().unwrap();
            let rt = runtime(units);
            let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
            pool.install(|| {
                (0..12).into_par_iter().for_each(|n| {
                    let data = submit_squares(&rt, 10 + n);
                    rt.wait().unwrap();
                    check_squares(&rt, &data);
                });
            });
            // The runtime is built inside the pool and used outside of it.
            let (rt, data) = pool.install(|| {
                let rt = runtime(units);
                let data = submit_squares(&rt, 20);
                (rt, data)
            });
            check_squares(&rt, &data);
        }
    });
}

#[test]
fn runtime_can_be_used_from_the_threads_of_tokio() {
    watched("tokio", || {
        let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let rt = Arc::new(runtime("2:CPU:1"));
        executor.block_on(async {
            let tasks: Vec<_> = (0..10)
                .map(|n| {
                    let rt = rt.clone();
                    tokio::spawn(async move {
                        let data = submit_squares(&rt, 10 + n);
                        rt.wait_async().await.unwrap();
                        for (x, n) in data.iter().zip(0..) {
                            assert_eq!(rt.read_async(x).await.unwrap(), [n * n]);
                        }
                        // Threads for blocking work are allowed to block.
                        tokio::task::spawn_blocking(move || check_squares(&rt, &data)).await.unwrap();
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
}

static SHARED: LazyLock<Runtime> = LazyLock::new(|| runtime("2:CPU:1"));

#[test]
fn runtime_in_a_static_serves_all_threads_until_shutdown() {
    watched("static", || {
        std::thread::scope(|scope| {
            for n in 0..4 {
                scope.spawn(move || {
                    let data = submit_squares(&SHARED, 20 + n);
                    check_squares(&SHARED, &data);
                });
            }
        });
        SHARED.shutdown().unwrap();
        let refused = SHARED.task("late", ()).cpu(|_, ()| ()).submit();
        assert_eq!(refused.unwrap_err(), SubmitError::ShutDown);
    });
}

#[test]
fn several_runtimes_may_be_used_together() {
    watched("several", || {
        let runtimes: Vec<_> =
            ["1:CPU:1", "2:CPU:1", "1:CPU:1,1:EMU:1"].map(runtime).into_iter().map(Arc::new).collect();
        let data: Vec<_> = runtimes.iter().map(|rt| submit_squares(rt, 30)).collect();
        // A body of the first runtime submits a task to the next runtime, and this task ends the detached task of the
        // first.
        let x = runtimes[0].scalar(0u64);
        let next = runtimes[1].clone();
        runtimes[0]
            .task("ends elsewhere", (x.output(),))
            .host_detached_until_event(move |_, (mut x,): (Lent<[u64]>,)| {
                let body = move |_: &thalweg::Context, ()| {
                    x[0] = 9;
                    x.finish();
                };
                next.task("elsewhere", ()).cpu(body).submit().map(drop)
            })
            .submit()
            .unwrap();
        assert_eq!(runtimes[0].read(&x).unwrap()[0], 9);
        runtimes.iter().zip(&data).for_each(|(rt, data)| check_squares(rt, data));
        let foreign = runtimes[1].task("foreign", (x.input(),)).cpu(|_, _| ()).submit();
        assert!(matches!(foreign, Err(SubmitError::ForeignData { .. })));
    });
}

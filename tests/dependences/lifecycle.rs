//! Creation and destruction: runtimes, data objects and tasks in any order, number and size, including none.

use crate::common::{for_each_mix, gate, runtime, watched};
use ndarray::{Array2, Array4};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use thalweg::prelude::*;

#[test]
fn dropping_the_runtime_runs_pending_tasks() {
    for units in crate::common::MIXES {
        for hosts in [false, true] {
            watched(units, move || {
                let ran = Arc::new(AtomicUsize::new(0));
                let (open, wait) = gate();
                let rt = Runtime::builder().compute_units(units).use_current_thread(hosts).build().unwrap();
                let x = rt.data(vec![0u64; 100]);
                rt.task("gate", (x.inout(),)).cpu(move |_, _| wait()).submit().unwrap();
                for _ in 0..500 {
                    let ran = ran.clone();
                    let body = move |_: &thalweg::Context, _: (&mut [u64],)| _ = ran.fetch_add(1, Ordering::Relaxed);
                    rt.task("count", (x.inout(),)).cpu(body).submit().unwrap();
                }
                drop(open);
                drop(rt);
                assert_eq!(ran.load(Ordering::Relaxed), 500);
                assert_eq!(x.len(), 100, "a handle must outlive its runtime");
            });
        }
    }
}

#[test]
fn dropping_the_runtime_during_unwinding_ends() {
    for units in crate::common::MIXES {
        for hosts in [false, true] {
            watched(units, move || {
                let ran = Arc::new(AtomicUsize::new(0));
                let counter = ran.clone();
                let (open, wait) = gate();
                let (begun, begins) = channel();
                let unwound = catch_unwind(AssertUnwindSafe(move || {
                    let rt = Runtime::builder().compute_units(units).use_current_thread(hosts).build().unwrap();
                    let x = rt.data(vec![0u64; 100]);
                    let body = move |_: &thalweg::Context, _: (&mut [u64],)| {
                        begun.send(()).unwrap();
                        wait();
                    };
                    rt.task("gate", (x.inout(),)).cpu(body).submit().unwrap();
                    for _ in 0..100 {
                        let counter = counter.clone();
                        let body = move |_: &thalweg::Context, _: (&mut [u64],)| {
                            counter.fetch_add(1, Ordering::Relaxed);
                        };
                        rt.task("count", (x.inout(),)).cpu(body).submit().unwrap();
                    }
                    if !hosts {
                        begins.recv().unwrap(); // a hosting thread may be the only one that can begin the task
                    }
                    let _open = open; // dropped before the runtime is
                    panic!("the program gives up");
                }));
                assert!(unwound.is_err());
                // Some tasks may have begun before the runtime noticed the panic, but every task has either run or been
                // dropped.
                assert_eq!(Arc::strong_count(&ran), 1);
            });
        }
    }
}

#[test]
fn task_never_begins_after_unwinding_starts() {
    watched("cancelled", || {
        let dropped = Arc::new(());
        let held = dropped.clone();
        let ran = Arc::new(AtomicUsize::new(0));
        let counter = ran.clone();
        // On a unit hosted by the submitter, no task begins before the submitter waits.
        let unwound = catch_unwind(AssertUnwindSafe(move || {
            let rt = Runtime::builder().compute_units("1:CPU:1").use_current_thread(true).build().unwrap();
            let x = rt.scalar(0);
            for _ in 0..100 {
                let (held, counter) = (held.clone(), counter.clone());
                let body = move |_: &thalweg::Context, _: (&mut [i32],)| {
                    counter.fetch_add(Arc::strong_count(&held), Ordering::Relaxed);
                };
                rt.task("never", (x.inout(),)).cpu(body).submit().unwrap();
            }
            panic!("the program gives up");
        }));
        assert!(unwound.is_err());
        assert_eq!(ran.load(Ordering::Relaxed), 0, "no task may begin");
        assert_eq!(Arc::strong_count(&dropped), 1, "captures must be dropped");
    });
}

#[test]
fn handle_may_be_dropped_while_tasks_use_the_data() {
    for_each_mix(|rt| {
        let sum = rt.scalar(0u64);
        for round in 0..50 {
            let x = rt.data(vec![1u64; 1000]);
            for part in blocks(1000, 100) {
                let body = move |_: &thalweg::Context, (x,): (&mut [u64],)| x.iter_mut().for_each(|x| *x += round);
                rt.task("add", (x.slice(part).inout(),)).cpu(body).submit().unwrap();
                let region = x.slice(0..1000);
                rt.task("look", (region.input(),)).cpu(|_, (x,)| assert_eq!(x.len(), 1000)).submit().unwrap();
            }
            let body = |_: &thalweg::Context, (x, s): (&[u64], &mut [u64])| s[0] += x.iter().sum::<u64>();
            rt.task("sum", (x.input(), sum.reduction(Sum))).cpu(body).submit().unwrap();
        }
        assert_eq!(rt.read(&sum).unwrap()[0], 1_275_000);
        rt.wait().unwrap();
    });
}

#[test]
fn data_without_elements_is_accepted_in_every_mode() {
    for_each_mix(|rt| {
        let (none, flat) = (rt.data(Vec::<f64>::new()), rt.array(Array2::<u32>::zeros((0, 5))));
        let thin = rt.array(Array4::<u8>::zeros((3, 0, 2, 1)));
        assert!(none.is_empty() && flat.is_empty() && thin.is_empty() && flat.shape() == [0, 5]);
        let count = Arc::new(AtomicUsize::new(0));
        for _ in 0..10 {
            let count = count.clone();
            rt.task("look", (none.inout(), flat.input(), thin.output(), flat.block((0..0, 1..3)).inout()))
                .cpu(move |_, (none, flat, thin, part)| {
                    assert!(none.is_empty() && thin.is_empty());
                    assert_eq!((flat.shape(), part.shape()), (&[0, 5][..], &[0, 2][..]));
                    count.fetch_add(1, Ordering::Relaxed);
                })
                .submit()
                .unwrap();
            rt.task("add", (none.reduction(Sum),)).cpu(|_, (x,)| assert!(x.is_empty())).submit().unwrap();
            rt.task("turn", (flat.commutative(),)).cpu(|_, (x,)| assert!(x.is_empty())).submit().unwrap();
        }
        if rt.machine().num_cpu_units() > 0 {
            rt.task("both", (none.concurrent(),)).cpu(|_, (x,)| assert!(x.is_empty())).submit().unwrap();
        }
        rt.wait().unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 10);
        assert!(rt.read(&none.all()).unwrap().is_empty());
        assert!(matches!(rt.read(none.slice(0)), Err(RunError::Refused(SubmitError::OutOfBounds { .. }))));
        for space in rt.machine().spaces() {
            rt.fetch(&none.all(), space).unwrap();
            rt.fetch(&flat.all(), space).unwrap();
        }
        assert_eq!(rt.take(flat).unwrap(), Array2::<u32>::zeros((0, 5)));
        assert_eq!(rt.take(none).unwrap(), Vec::<f64>::new());
        assert_eq!(rt.take(thin).unwrap().shape(), [3, 0, 2, 1]);
        // Zero-sized elements.
        let units = rt.data(vec![(); 5]);
        let body = |_: &thalweg::Context, (x,): (&mut [()],)| assert_eq!(x.len(), 4);
        rt.task("units", (units.slice(1..).inout(),)).cpu(body).submit().unwrap();
        assert_eq!(rt.take(units).unwrap().len(), 5);
    });
}

#[test]
fn empty_regions_order_nothing() {
    watched("empty regions", || {
        let rt = Runtime::builder().compute_units("2:CPU:1").record_graph(true).build().unwrap();
        let (x, a) = (rt.data(vec![1.0; 10]), rt.array(Array2::<f64>::ones((10, 10))));
        let (open, wait) = gate();
        rt.task("holder", (x.inout(), a.inout())).cpu(move |_, _| wait()).submit().unwrap();
        let (done, ended) = channel();
        for at in [0, 3, 10] {
            let done = done.clone();
            rt.task(
                "empty",
                (x.slice(at..at).inout(), a.block((at..at, 2..5)).output(), a.block((1..9, at..at)).input()),
            )
            .cpu(move |_, (x, a, b)| {
                assert_eq!((x.len(), a.shape(), b.shape()), (0, &[0, 3][..], &[8, 0][..]));
                done.send(()).unwrap();
            })
            .submit()
            .unwrap();
        }
        // The tasks end while the holder is still running.
        (0..3).for_each(|_| ended.recv().unwrap());
        drop(open);
        rt.wait().unwrap();
        assert_eq!(rt.graph().unwrap().petgraph().edge_count(), 0);
        assert_eq!(rt.read(&x.slice(4..4)).unwrap(), Vec::<f64>::new());
    });
}

const MILLION: u64 = 1_000_000;

#[test]
fn chain_of_a_million_tasks_ends() {
    watched("chain", || {
        let rt = Runtime::builder().compute_units("2:CPU:1").use_current_thread(true).build().unwrap();
        let x = rt.scalar(0u64);
        for _ in 0..MILLION {
            rt.task("next", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
        }
        assert_eq!(rt.read(&x).unwrap()[0], MILLION);
        assert_eq!(rt.statistics().tasks.iter().map(|(_, n)| n).sum::<u64>(), MILLION);
    });
}

#[test]
fn million_readers_of_a_blocked_task_end() {
    watched("gate", || {
        let rt = runtime("2:CPU:1");
        let (x, count) = (rt.scalar(0u64), Arc::new(AtomicUsize::new(0)));
        let (open, wait) = gate();
        rt.task("gate", (x.output(),)).cpu(move |_, _| wait()).submit().unwrap();
        for _ in 0..MILLION {
            let count = count.clone();
            let body = move |_: &thalweg::Context, _: (&[u64],)| _ = count.fetch_add(1, Ordering::Relaxed);
            rt.task("reader", (x.input(),)).cpu(body).submit().unwrap();
        }
        assert_eq!(count.load(Ordering::Relaxed), 0);
        drop(open);
        rt.task("last", (x.inout(),)).cpu(|_, (x,)| x[0] = 1).submit().unwrap();
        assert_eq!(rt.read(&x).unwrap()[0], 1);
        assert_eq!(count.load(Ordering::Relaxed), MILLION as usize, "the writer ran before some readers");
    });
}

#[test]
fn one_thread_hosts_several_runtimes() {
    watched("several", || {
        let build = |units: &str| Runtime::builder().compute_units(units).use_current_thread(true).build().unwrap();
        let runtimes = [build("1:CPU:1"), build("2:CPU:1"), build("1:CPU:1,1:EMU:1"), runtime("1:CPU:1")];
        let data = runtimes.each_ref().map(|rt| rt.data(vec![0u64; 10]));
        for i in 0..400 {
            let (rt, x) = (&runtimes[i % 4], &data[i % 4]);
            rt.task("add", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x += 1)).submit().unwrap();
        }
        for (rt, x) in runtimes.iter().zip(data).rev() {
            assert_eq!(rt.take(x).unwrap(), [100; 10]);
        }
        // A body of one runtime may use another and wait for it.
        let [a, b, c, _] = runtimes;
        let (b, y) = (Arc::new(b), a.scalar(0u64));
        let inner = b.clone();
        let body = move |_: &thalweg::Context, (y,): (&mut [u64],)| {
            let z = inner.scalar(20u64);
            inner.task("inner", (z.inout(),)).cpu(|_, (z,)| z[0] += 1).submit().unwrap();
            y[0] = inner.take(z).unwrap()[0] * 2;
        };
        a.task("outer", (y.inout(),)).cpu(body).submit().unwrap();
        assert_eq!(a.read(&y).unwrap()[0], 42);
        drop((c, a, b));
    });
}

#[test]
fn ready_tasks_run_in_order_of_priority() {
    for scheduler in crate::common::SCHEDULERS {
        watched(scheduler, move || {
            let rt = Runtime::builder().compute_units("1:CPU:1").scheduler(scheduler).build().unwrap();
            let (open, wait) = gate();
            let (begun, begins) = channel();
            rt.task("gate", ())
                .cpu(move |_, ()| {
                    begun.send(()).unwrap();
                    wait();
                })
                .submit()
                .unwrap();
            begins.recv().unwrap();
            let (ran, order) = channel();
            for priority in [-1, 3, i32::MIN, 0, 3, 7, -1, i32::MAX] {
                let ran = ran.clone();
                let body = move |_: &thalweg::Context, ()| ran.send(priority).unwrap();
                rt.task("ranked", ()).priority(priority).cpu(body).submit().unwrap();
            }
            drop((open, ran));
            assert_eq!(order.iter().collect::<Vec<_>>(), [i32::MAX, 7, 3, 3, 0, -1, -1, i32::MIN]);
            rt.wait().unwrap();
        });
    }
}

#[test]
fn more_units_than_cores_run_with_a_warning() {
    let cores = thalweg::machine::Topology::detect().parallelism();
    for units in
        [format!("{}:CPU:1", cores + 7), format!("1:CPU:{},5:EMU:2", cores.max(3)), "3:CPU:3,5:EMU:2".to_owned()]
    {
        watched(&units.clone(), move || {
            let rt = runtime(&units);
            let needed: usize = rt.machine().units().iter().map(|unit| unit.cores.len()).sum();
            assert!(needed <= cores || !rt.machine().warnings().is_empty(), "no warning about units sharing cores");
            let x = rt.data(vec![0u64; 400]);
            for _ in 0..20 {
                for part in blocks(400, 10) {
                    let body = |_: &thalweg::Context, (x,): (&mut [u64],)| x.iter_mut().for_each(|x| *x += 1);
                    rt.task("add", (x.slice(part).inout(),)).cpu(body).submit().unwrap();
                }
            }
            assert_eq!(rt.take(x).unwrap(), [20; 400]);
        });
    }
}

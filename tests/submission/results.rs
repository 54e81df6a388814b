//! Results of tasks. Later tasks use them, threads and futures wait for them, and each is dropped exactly once.

use crate::common::{MIXES, builder, for_each_mix, gate, runtime, watched, words};
use std::error::Error;
use std::future::IntoFuture;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context as Polled, Poll, Wake, Waker};
use thalweg::prelude::*;

/// A number that counts its drops.
#[derive(Debug)]
pub(crate) struct Counted(pub(crate) u64, pub(crate) Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) fn counter() -> (Arc<AtomicUsize>, impl Fn() -> usize) {
    let drops = Arc::new(AtomicUsize::new(0));
    (drops.clone(), move || drops.load(Ordering::SeqCst))
}

/// A waker that sends a message through a channel.
struct Bell(Mutex<Sender<()>>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let _ = self.0.lock().unwrap().send(());
    }
}

pub(crate) fn bell() -> (Waker, Receiver<()>) {
    let (ring, rung) = channel();
    (Arc::new(Bell(Mutex::new(ring))).into(), rung)
}

pub(crate) fn block_on<F: IntoFuture>(future: F) -> F::Output {
    let ((waker, rung), mut future) = (bell(), pin!(future.into_future()));
    loop {
        match future.as_mut().poll(&mut Polled::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => rung.recv().unwrap(),
        }
    }
}

#[test]
fn results_can_be_accessed_like_data() {
    for_each_mix(|rt| {
        let x = rt.data((0..100u64).collect());
        let sums: Vec<_> = blocks(100, 10)
            .map(|part| rt.task("sum", x.slice(part).input()).returns(|_, x| x.iter().sum::<u64>()).submit().unwrap())
            .collect();
        let inputs: Vec<_> = sums.iter().map(Pending::input).collect();
        let total = rt.task("total", inputs).returns(|_, sums| sums.into_iter().sum::<u64>()).submit().unwrap();
        rt.task("scale", (total.input(), (x.inout(), sums[0].input())))
            .cpu(|_, (total, (x, first))| x.iter_mut().for_each(|x| *x += total + first))
            .submit()
            .unwrap();
        assert_eq!(total.get().unwrap(), 4950);
        assert_eq!(rt.take(x).unwrap(), (0..100).map(|n| n + 4950 + 45).collect::<Vec<_>>());
        assert_eq!(sums.into_iter().map(|sum| sum.get().unwrap()).sum::<u64>(), 4950);
    });
}

#[test]
fn chain_of_results_may_be_long() {
    for_each_mix(|rt| {
        let mut last = rt.task("one", ()).returns(|_, ()| vec![1u64]).submit().unwrap();
        for n in 0..300 {
            let next = rt.task("next", last.input()).returns(move |_, last| vec![last[0] + n]).submit().unwrap();
            last = next;
        }
        assert_eq!(last.get().unwrap(), [1 + 299 * 300 / 2]);
    });
}

#[test]
fn get_waits_for_the_readers_of_a_result() {
    for hosts in [false, true] {
        watched("get", move || {
            let rt = builder("2:CPU:1", hosts).build().unwrap();
            let (drops, dropped) = counter();
            let (open, closed) = gate();
            let ended = Arc::new(AtomicUsize::new(0));
            let number = rt.task("number", ()).returns(move |_, ()| Counted(7, drops)).submit().unwrap();
            for _ in 0..8 {
                let ended = ended.clone();
                rt.task("read", number.input())
                    .cpu(move |_, number| {
                        assert_eq!(number.0, 7);
                        std::thread::yield_now();
                        ended.fetch_add(1, Ordering::SeqCst);
                    })
                    .submit()
                    .unwrap();
            }
            let late = ended.clone();
            rt.task("read", number.input())
                .cpu(move |_, number| {
                    closed();
                    assert_eq!(number.0, 7);
                    late.fetch_add(1, Ordering::SeqCst);
                })
                .submit()
                .unwrap();
            let opener = std::thread::spawn(move || drop(open));
            let number = number.get().unwrap();
            assert_eq!((ended.load(Ordering::SeqCst), dropped(), number.0), (9, 0, 7));
            drop(number);
            assert_eq!(dropped(), 1);
            opener.join().unwrap();
        });
    }
}

#[test]
fn unread_result_is_dropped_once() {
    for_each_mix(|rt| {
        let (drops, dropped) = counter();
        // The `Pending` is dropped before, during or after its task, with and without readers.
        for n in 0..30u64 {
            let drops = drops.clone();
            let (open, closed) = gate();
            let body = move |_: &Context, ()| {
                closed();
                Counted(n, drops)
            };
            let number = rt.task("number", ()).returns(body).submit().unwrap();
            if n % 2 == 0 {
                rt.task("read", number.input()).cpu(move |_, number| assert_eq!(number.0, n)).submit().unwrap();
            }
            match n % 3 {
                0 => drop(number),
                1 => drop(open),
                _ => {
                    drop(open);
                    number.wait().unwrap();
                    assert!(number.is_finished());
                }
            }
        }
        rt.wait().unwrap();
        assert_eq!(dropped(), 30);
    });
}

#[test]
fn returned_error_fails_the_task_and_skips_users_of_its_result() {
    for_each_mix(|rt| {
        let ran = rt.value(0);
        let parse = |text: &'static str| rt.task("parse", ()).try_returns(move |_, ()| text.parse::<u8>()).submit();
        let (bad, good) = (parse("many").unwrap(), parse("42").unwrap());
        rt.task("use", (bad.input(), ran.inout())).cpu(|_, (_, ran)| *ran += 1).submit().unwrap();
        let sum = rt.task("sum", (good.input(), bad.input())).returns(|_, (a, b)| a + b).submit().unwrap();
        let error = sum.get().unwrap_err();
        let RunError::NoResult { task, failure } = &error else { panic!("{error}") };
        assert_eq!((task.as_str(), failure.name()), ("sum", "parse"));
        // The chain of sources ends at the body's own error.
        let mut root: &dyn Error = &error;
        while let Some(source) = root.source() {
            root = source;
        }
        assert!(root.is::<std::num::ParseIntError>(), "{root}");
        let error = bad.get().unwrap_err();
        assert!(error.to_string().contains("`parse`") && error.to_string().contains("invalid digit"), "{error}");
        assert_eq!(good.get().unwrap(), 42);
        assert!(rt.take(ran).is_err());
        rt.wait().unwrap(); // reported above
    });
}

#[test]
fn result_may_itself_be_a_result_type() {
    let rt = runtime("1:CPU:1");
    let text = rt.task("parse", ()).returns(|_, ()| "many".parse::<u8>()).submit().unwrap();
    let is_bad = rt.task("look", text.input()).returns(|_, text| text.is_err()).submit().unwrap();
    assert!(is_bad.get().unwrap() && text.get().unwrap().is_err());
    rt.wait().unwrap();
}

#[test]
fn panicking_body_fails_and_panicking_result_destructor_is_contained() {
    struct Panics(Arc<AtomicUsize>);
    impl Drop for Panics {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            resume_unwind(Box::new("as the program says"));
        }
    }
    for_each_mix(|rt| {
        let number = rt.task("panics", ()).returns(|_, ()| -> u8 { resume_unwind(Box::new("no")) }).submit().unwrap();
        assert!(number.get().unwrap_err().to_string().contains("panicked: no"));
        rt.wait().unwrap(); // reported above
        let (drops, dropped) = counter();
        for read in [false, true] {
            let (open, closed) = gate();
            let drops = drops.clone();
            let body = move |_: &Context, ()| {
                closed();
                Panics(drops)
            };
            let result = rt.task("returns", ()).returns(body).submit().unwrap();
            if read {
                rt.task("reads", result.input()).cpu(|_, _| ()).submit().unwrap();
            }
            drop(result);
            drop(open);
        }
        rt.wait().unwrap();
        assert_eq!(dropped(), 2);
    });
}

#[test]
fn task_may_access_values_and_results_together() {
    for_each_mix(|rt| {
        let list = rt.value(vec![]);
        for n in 0..20u64 {
            let square = rt.task("square", ()).returns(move |_, ()| n * n).submit().unwrap();
            rt.task("push", (list.inout(), square.input()))
                .cpu(|_, (list, square)| list.push(*square))
                .submit()
                .unwrap();
        }
        let sum = rt.task("sum", list.input()).returns(|_, list| list.iter().sum::<u64>()).submit().unwrap();
        assert_eq!(sum.get().unwrap(), (0..20).map(|n| n * n).sum());
    });
}

#[test]
fn device_body_may_read_results() {
    for units in ["1:CPU:1,2:EMU:1", "2:EMU:1"] {
        let rt = runtime(units);
        let x = rt.data(vec![1u64; 10]);
        let three = rt.task("three", ()).returns(|_, ()| Box::new(3)).submit().unwrap();
        rt.task("scale", (x.inout(), three.input()))
            .emulated(|at, (x, three)| {
                assert!(!at.is_cpu());
                x.iter_mut().for_each(|x| *x *= **three);
            })
            .submit()
            .unwrap();
        assert_eq!(rt.take(x).unwrap(), [3; 10], "{units}");
    }
}

#[test]
fn cancelled_tasks_have_no_results_and_leak_none() {
    for units in MIXES {
        watched(units, move || {
            let (drops, dropped) = counter();
            let made = Arc::new(AtomicUsize::new(0));
            let mut kept = vec![];
            let unwound = catch_unwind(AssertUnwindSafe(|| {
                let rt = runtime(units);
                let (open, closed) = gate();
                let order = rt.token();
                rt.task("hold", order.inout()).cpu(move |_, ()| closed()).submit().unwrap();
                for n in 0..20 {
                    let (drops, made) = (drops.clone(), made.clone());
                    let body = move |_: &Context, ()| {
                        made.fetch_add(1, Ordering::SeqCst);
                        Counted(n, drops)
                    };
                    let number = rt.task("number", order.inout()).returns(body).submit().unwrap();
                    rt.task("read", number.input()).cpu(|_, _| ()).submit().unwrap();
                    kept.push(number);
                }
                let _opener = open; // dropped before the runtime, which waits
                resume_unwind(Box::new("unwinds"));
            }));
            assert!(unwound.is_err());
            let mut results = 0;
            for number in kept {
                match number.get() {
                    Ok(_) => results += 1,
                    Err(error) => assert!(error.to_string().contains("cancelled"), "{error}"),
                }
            }
            assert_eq!((results, dropped()), (made.load(Ordering::SeqCst), results));
        });
    }
}

#[test]
fn result_outlives_its_runtime() {
    for units in MIXES {
        let rt = runtime(units);
        let number = rt.task("number", ()).returns(|_, ()| 7).submit().unwrap();
        let other = rt.task("number", ()).returns(|_, ()| 8).submit().unwrap();
        drop(rt);
        assert_eq!((number.get().unwrap(), block_on(other).unwrap()), (7, 8));
    }
}

#[test]
fn misuse_of_a_result_is_refused_with_a_reason() {
    let (rt, other) = (Arc::new(runtime("1:CPU:1,1:EMU:1")), runtime("1:CPU:1"));
    let seven = rt.task("seven", ()).returns(|_, ()| 7).submit().unwrap();
    let foreign = other.task("t", seven.input()).cpu(|_, _| ()).submit().unwrap_err();
    assert_eq!(
        words(&foreign),
        "cannot submit task `t`: it uses the result of task `seven`, which was submitted to another runtime; try submitting \
         both to the same, or waiting for the result with `get`"
    );
    // A refused task does not count as a reader, so the result can be taken.
    assert_eq!(seven.get().unwrap(), 7);

    let x = rt.data(vec![1]);
    let both = rt.task("t", x.inout()).emulated(|_, _| ()).returns(|_, x| x[0]).submit().unwrap_err();
    assert!(matches!(both, SubmitError::ResultOnDevice { .. }));
    let out = rt.task("t", x.slice(3..9).input()).returns(|_, x| x[0]).submit().unwrap_err();
    assert!(matches!(out, SubmitError::OutOfBounds { .. }));

    rt.shutdown().unwrap();
    let late = rt.task("late", ()).returns(|_, ()| 1).submit().unwrap_err();
    assert_eq!(late, SubmitError::ShutDown);
}

#[test]
fn body_may_submit_tasks_with_results() {
    watched("nested", || {
        let rt = Arc::new(runtime("2:CPU:1"));
        let (tell, told) = channel();
        let inner = rt.clone();
        rt.task("parent", ())
            .cpu(move |_, ()| {
                let one = inner.task("one", ()).returns(|_, ()| 1).submit()?;
                let two = inner.task("two", one.input()).returns(|_, one| one + 1).submit()?;
                tell.send((one, two)).unwrap();
                Ok::<(), SubmitError>(())
            })
            .submit()
            .unwrap();
        let (one, two) = told.recv().unwrap();
        assert_eq!((two.get().unwrap(), one.get().unwrap()), (2, 1));
    });
}

#[test]
fn body_may_wait_for_results_and_values() {
    for units in ["1:CPU:1", "2:CPU:1", "1:CPU:1,2:EMU:1"] {
        for hosts in [false, true] {
            watched(units, move || {
                let rt = Arc::new(builder(units, hosts).build().unwrap());
                let list = rt.value(vec![1u64]);
                let (inner, value) = (rt.clone(), list.clone());
                let body = move |_: &Context, ()| {
                    let parts: Vec<_> = (0..10u64)
                        .map(|n| inner.task("part", ()).returns(move |_, ()| n).submit())
                        .collect::<Result<_, _>>()?;
                    for part in parts {
                        inner.task("read", part.input()).cpu(|_, _| ()).submit()?;
                        let part = part.get()?;
                        inner.task("push", value.inout()).cpu(move |_, list| list.push(part)).submit()?;
                    }
                    let len = inner.read_value(&value, Vec::len)?;
                    assert_eq!(len, 11);
                    Ok::<_, RunError>(inner.take(value)?.into_iter().sum::<u64>())
                };
                let sum = rt.task("parent", ()).try_returns(body).submit().unwrap();
                drop(list);
                assert_eq!(sum.get().unwrap(), 46);

                let own = rt.value(1);
                let (inner, held) = (rt.clone(), own.clone());
                let body = move |_: &Context, _: &mut i32| {
                    let refused = inner.read_value(&held, |n| *n).unwrap_err();
                    assert!(matches!(refused, RunError::Refused(SubmitError::Nested { .. })), "{refused}");
                    let refused = inner.take(held).map_err(RunError::from).unwrap_err();
                    assert!(matches!(refused, RunError::Refused(SubmitError::Nested { .. })), "{refused}");
                };
                rt.task("holds", own.inout()).cpu(body).submit().unwrap();
                rt.wait().unwrap();
            });
        }
    }
}

#[test]
fn recorded_graph_has_the_edges_of_results() {
    let rt = Runtime::builder().compute_units("1:CPU:1").record_graph(true).build().unwrap();
    let one = rt.task("one", ()).returns(|_, ()| 1).submit().unwrap();
    rt.wait().unwrap(); // edges from finished tasks must be recorded as well
    let two = rt.task("two", (one.input(), one.input())).returns(|_, (a, b)| a + b).submit().unwrap();
    rt.task("three", (one.input(), two.input())).cpu(|_, _| ()).submit().unwrap();
    rt.wait().unwrap();
    let graph = rt.graph().unwrap();
    let edges: Vec<_> = graph.petgraph().raw_edges().iter().map(|e| (e.source().index(), e.target().index())).collect();
    assert_eq!(edges.len(), 3, "{edges:?}");
    assert!(edges.contains(&(0, 1)) && edges.contains(&(0, 2)) && edges.contains(&(1, 2)));
    assert!(graph.petgraph().edge_weights().all(|edge| edge.carries_value));
}

#[test]
fn result_in_a_simulation_is_not_computed() {
    let rt = Runtime::builder().simulate(SimulatedMachine::from_file("machines/laptop.toml").unwrap()).build().unwrap();
    let x = rt.zeros(1000);
    let sum = rt.task("sum", x.input()).returns(|_, x: &[f64]| x.iter().sum::<f64>()).submit().unwrap();
    rt.task("scale", (x.inout(), sum.input())).cpu(|_, (x, sum)| x[0] *= sum).submit().unwrap();
    let other = rt.task("other", ()).returns(|_, ()| 1).submit().unwrap();
    sum.wait().unwrap();
    assert!(matches!(sum.get(), Err(RunError::NotComputed { task }) if task == "sum"));
    assert!(matches!(block_on(other), Err(RunError::NotComputed { .. })));
    rt.wait().unwrap();
}

#[test]
fn results_can_be_shared_between_threads() {
    fn is_shared<T: Send + Sync + 'static>() {}
    is_shared::<Pending<Vec<String>>>();
    is_shared::<thalweg::ResultFuture<u8>>();
    watched("from many threads", || {
        let rt = runtime("2:CPU:1");
        let number = Arc::new(rt.task("number", ()).returns(|_, ()| 7u64).submit().unwrap());
        let total = rt.value(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let add = rt.task("add", (number.input(), total.commutative()));
                        add.cpu(|_, (number, total)| *total += number).submit().unwrap();
                        number.wait().unwrap();
                    }
                });
            }
        });
        assert_eq!(Arc::into_inner(number).unwrap().get().unwrap(), 7);
        assert_eq!(rt.take(total).unwrap(), 4 * 50 * 7);
    });
}

//! The cases of this test program; see `main.rs`.

use super::{fork, in_child, leave};
use std::future::{Future, IntoFuture};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Waker};
use thalweg::SimulatedMachine;
use thalweg::prelude::*;

type Case = (&'static str, fn());

pub(crate) const ALL: &[Case] = &[
    ("child_returns_from_main_while_tasks_run", child_returns_from_main),
    ("child_of_a_simulation_returns_from_main", child_of_simulation),
    ("child_is_refused_by_every_call", every_way_in),
    ("child_is_refused_by_every_call_under_placement", every_way_in_placed),
    ("child_of_a_simulation_is_refused_by_every_call", every_way_in_simulated),
    ("child_can_build_a_runtime_and_fork_again", child_builds_and_forks),
    ("fork_among_busy_threads_leaves_a_usable_child", fork_amid_busy_threads),
    ("fork_while_threads_start_and_end_leaves_a_usable_child", fork_amid_starts),
    ("fork_in_a_body_leaves_a_child_that_may_exit", fork_in_body),
    ("child_that_returns_from_a_body_is_aborted", child_returns_from_body),
    ("child_that_awaits_a_stolen_call_is_aborted", child_awaits_stolen_call),
    ("fork_on_a_foreign_thread_leaves_a_child_that_ends", fork_on_foreign_thread),
    ("scope_returns_an_error_in_a_child", scope_in_child),
    ("futures_of_the_parent_are_refused_in_a_child", futures_of_parent),
    ("replays_and_tensors_of_the_parent_can_be_dropped_in_a_child", replays_and_tensors),
];

const MIXES: [&str; 4] = ["1:CPU:1", "2:CPU:1", "1:CPU:2", "1:CPU:1,1:EMU:1"];

fn gate() -> (Sender<()>, Mutex<Receiver<()>>) {
    let (open, opened) = channel();
    (open, Mutex::new(opened))
}

fn build(units: &str, hosts: bool) -> Runtime {
    Runtime::builder().compute_units(units).use_current_thread(hosts).build().unwrap()
}

#[track_caller]
fn refused<T>(result: Result<T, impl Into<RunError>>) {
    let error = result.map(drop).map_err(Into::into).unwrap_err();
    assert!(matches!(error, RunError::Refused(SubmitError::Forked)), "{error}");
    assert!(error.to_string().contains("`fork`"), "{error}");
}

fn poll<F: IntoFuture>(future: F) -> Poll<F::Output> {
    std::pin::pin!(future.into_future()).as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// The fork happens while some tasks run and others wait. The child drops the data objects when it returns.
fn child_returns_from_main() {
    for units in MIXES {
        for hosts in [false, true] {
            let rt = build(units, hosts);
            let (open, opened) = gate();
            let (x, y) = (rt.data(vec![0u64; 1000]), rt.data(vec![0u64; 10]));
            rt.task("gate", (x.inout(),)).cpu(move |_, _| _ = opened.lock().unwrap().recv()).submit().unwrap();
            for _ in 0..100 {
                rt.task("add", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
                rt.task("other", (y.inout(),)).cpu(|_, (y,)| y[0] += 1).submit().unwrap();
            }
            let handle = rt.task("last", (x.inout(),)).cpu(|_, _| ()).submit_handle().unwrap();
            let side = fork();
            if side.is_child() {
                return; // drops everything
            }
            drop(open);
            side.expect_success();
            handle.wait().unwrap();
            assert_eq!((rt.take(x).unwrap()[0], rt.take(y).unwrap()[0]), (100, 100));
        }
    }
}

fn simulation() -> Runtime {
    let machine = SimulatedMachine::from_file("machines/laptop.toml").unwrap();
    Runtime::builder().simulate(machine).build().unwrap()
}

fn child_of_simulation() {
    let rt = simulation();
    let x = rt.data(vec![0u64; 1000]);
    for _ in 0..100 {
        rt.task("add", (x.inout(),)).cpu(|_, _| ()).submit().unwrap();
    }
    let side = fork();
    if side.is_child() {
        return;
    }
    side.expect_success();
    rt.wait().unwrap();
}

fn every_way_in() {
    for hosts in [false, true] {
        refuses_everything(build("2:CPU:1", hosts));
    }
}

fn every_way_in_placed() {
    for scheduler in ["stealing", "eft"] {
        let builder = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").scheduler(scheduler);
        refuses_everything(builder.record_graph(true).build().unwrap());
    }
}

fn every_way_in_simulated() {
    refuses_everything(simulation());
}

fn refuses_everything(rt: Runtime) {
    let (x, y, value) = (rt.data(vec![1u64; 10]), rt.scalar(1u64), rt.value(vec![1]));
    let mut recording = rt.record(|r| r.task("add", (y.inout(),)).cpu(|_, (y,)| y[0] += 1).submit()).unwrap();
    recording.replay().unwrap();
    let (ended, pending) = (
        rt.task("ended", ()).cpu(|_, ()| ()).submit_handle().unwrap(),
        rt.task("pending", ()).cpu(|_, ()| ()).submit_handle().unwrap(),
    );
    ended.wait().unwrap();
    let group = rt.group();
    in_child(|| {
        refused(rt.task("t", (x.inout(),)).cpu(|_, _| ()).submit());
        refused(rt.task("t", (x.inout(),)).cpu(|_, _| ()).submit_handle());
        refused(rt.task("t", ()).returns(|_, ()| 1).submit());
        refused(group.task("t", (x.inout(),)).cpu(|_, _| ()).submit());
        refused(rt.for_each("t", (x.blocks(2).inout(),)).cpu(|_, _| ()).submit());
        refused(rt.wait());
        refused(rt.wait_timeout(std::time::Duration::MAX));
        refused(rt.fetch(&x, SpaceId::HOST));
        refused(pending.wait());
        refused(group.wait());
        refused(rt.read(&x));
        refused(rt.read(&y));
        refused(rt.read_value(&value, Clone::clone));
        refused(rt.prefetch(&x, SpaceId::HOST));
        refused(rt.fetch(&x, SpaceId::HOST));
        refused(rt.to_dlpack(x.input(), SpaceId::HOST).map(drop));
        refused(rt.scope(|_| ()));
        refused(rt.record(|r| r.task("t", (x.inout(),)).cpu(|_, _| ()).submit()));
        refused(recording.replay());
        refused(rt.accept(&x));
        refused(rt.shutdown());
        let (Poll::Ready(waited), Poll::Ready(read)) = (poll(rt.wait_async()), poll(rt.read_async(&x))) else {
            panic!("a future must not wait in a child")
        };
        refused(waited);
        refused(read);
        refused(rt.take(value).map_err(|error| error.into_parts().1));
        let new = (rt.data(vec![1u64; 10]), rt.zeros::<f64, _>([4, 4]), rt.value(1));
        refused(rt.task("t", (new.0.inout(), new.1.inout())).cpu(|_, _| ()).submit());
        drop(new);
        assert_eq!(rt.statistics().tasks.len(), rt.machine().num_units());
        drop((rt.graph(), rt.statistics().conflicts, x.all().valid_in(), rt.now()));
        assert!(format!("{rt:?}").contains("units"));
        drop((x, recording));
    });
}

/// Uses a new runtime, as a child process may.
fn sums() {
    let rt = Runtime::builder().compute_units("2:CPU:1").build().unwrap();
    let x = rt.data(vec![1u64; 1000]);
    for _ in 0..200 {
        rt.for_each("add", (x.blocks(100).inout(),))
            .cpu(|_, (x,)| x.iter_mut().for_each(|x| *x += 1))
            .submit()
            .unwrap();
    }
    assert_eq!(rt.take(x).unwrap(), [201; 1000]);
}

fn child_builds_and_forks() {
    let rt = build("2:CPU:1", true);
    let x = rt.scalar(1u64);
    for _ in 0..2 {
        in_child(|| {
            sums();
            let inner = build("2:CPU:1", false);
            let y = inner.scalar(5u64);
            in_child(|| {
                refused(rt.read(&x));
                refused(inner.read(&y));
                sums();
            });
            assert_eq!(inner.take(y).unwrap(), [5]);
            refused(rt.read(&x));
        });
        assert_eq!(rt.read(&x).unwrap()[0], 1);
    }
    sums();
}

/// At some of the forks, other threads hold locks of runtimes and locks that runtimes share.
fn fork_amid_busy_threads() {
    let (over, rt) = (AtomicBool::new(false), Arc::new(build("1:CPU:1,1:EMU:1", false)));
    let (fast, begun) = (build("2:CPU:1", false), Barrier::new(4));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                begun.wait();
                while !over.load(Ordering::Relaxed) {
                    for rt in [&*rt, &fast] {
                        let x = rt.data(vec![1u64; 64]);
                        (0..64).for_each(|_| _ = rt.task("t", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap());
                        assert_eq!(rt.read(&x).unwrap()[0], 65);
                    }
                    drop(build("1:CPU:1", false));
                }
            });
        }
        begun.wait(); // a fork while these threads start could leave a lock of the standard library taken
        for _ in 0..100 {
            in_child(|| {
                let x = fast.data(vec![1u64; 64]);
                refused(fast.read(&x));
                refused(rt.task("t", ()).cpu(|_, ()| ()).submit());
                assert!(!format!("{rt:?} {}", rt.statistics()).is_empty());
                sums();
                drop((rt.clone(), x));
            });
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// All threads that start or end meanwhile are the library's.
fn fork_amid_starts() {
    let (over, begun) = (AtomicBool::new(false), Barrier::new(3));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                begun.wait();
                while !over.load(Ordering::Relaxed) {
                    drop(build("1:CPU:2,1:EMU:1", false));
                }
            });
        }
        begun.wait();
        (0..200).for_each(|_| in_child(sums));
        over.store(true, Ordering::Relaxed);
    });
}

fn fork_in_body() {
    for units in MIXES {
        for hosts in [false, true] {
            let rt = Arc::new(build(units, hosts));
            let (x, inner) = (rt.data(vec![1u64; 100]), rt.clone());
            let task = rt.task("forks", (x.inout(),)).cpu(move |cx, (x,)| {
                in_child(|| {
                    refused(cx.task("child", ()).cpu(|_, ()| ()).submit());
                    refused(inner.task("beside", ()).cpu(|_, ()| ()).submit());
                    refused(inner.wait());
                    refused(cx.wait());
                    x[0] = 7; // changes only the child's memory
                    sums();
                });
                x[1] = 8;
            });
            task.submit().unwrap();
            assert_eq!(rt.read(x.slice(..2)).unwrap(), [1, 8]);
        }
    }
}

fn child_returns_from_body() {
    for units in MIXES {
        for hosts in [false, true] {
            let rt = build(units, hosts);
            let x = rt.data(vec![1u64; 100]);
            let task = rt.task("forks", (x.inout(),)).cpu(|_, (x,)| {
                let side = fork();
                if side.is_child() {
                    return;
                }
                side.expect_abort();
                x[0] = 2;
            });
            task.submit().unwrap();
            assert_eq!(rt.read(x.slice(0)).unwrap(), [2], "the parent must continue");
        }
    }
}

fn child_awaits_stolen_call() {
    let rt = build("2:CPU:1", false);
    let forks = rt.task("forks", ()).cpu(|cx, ()| {
        let ((begun, begins), (open, opened)) = (channel(), gate());
        cx.join(
            move |_| {
                begins.recv().unwrap(); // another thread has taken the second call
                let side = fork();
                if !side.is_child() {
                    side.expect_abort();
                    drop(open);
                }
            },
            move |_| {
                begun.send(()).unwrap();
                _ = opened.lock().unwrap().recv();
            },
        );
    });
    forks.submit().unwrap();
    rt.wait().unwrap();
}

fn fork_on_foreign_thread() {
    for units in MIXES {
        let rt = Arc::new(build(units, true));
        let (x, shared) = (rt.scalar(1u64), rt.clone());
        let handle = x.clone();
        let forks = std::thread::spawn(move || {
            let side = fork();
            if side.is_child() {
                refused(shared.read(&handle));
                drop((shared, handle));
                sums();
                leave(0);
            }
            side.expect_success();
        });
        forks.join().unwrap();
        assert_eq!(rt.read(&x).unwrap()[0], 1);
    }
}

fn scope_in_child() {
    let rt = build("2:CPU:1", false);
    let (open, opened) = gate();
    let mut values = vec![0u64; 100];
    let mut side = None;
    let scoped = rt.scope(|s| {
        let x = s.borrow_mut(&mut values[..]);
        let body = move |_: &thalweg::Context, (x,): (&mut [u64],)| {
            _ = opened.lock().unwrap().recv();
            x.fill(1);
        };
        s.task("fill", (x.inout(),)).cpu(body).submit().unwrap();
        side = Some(fork());
        drop(open);
    });
    let side = side.expect("the scope was entered");
    if side.is_child() {
        return refused(scoped);
    }
    scoped.unwrap();
    side.expect_success();
    assert_eq!(values, [1; 100]);
}

fn futures_of_parent() {
    let rt = build("2:CPU:1", false);
    let (open, opened) = gate();
    let x = rt.scalar(1u64);
    let one = rt.task("one", (x.inout(),)).returns(move |_, _| _ = opened.lock().unwrap().recv()).submit().unwrap();
    let mut futures = (Box::pin(rt.wait_async()), Box::pin(rt.read_async(&x)), Box::pin(one.into_future()));
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(futures.0.as_mut().poll(cx).is_pending());
    assert!(futures.1.as_mut().poll(cx).is_pending());
    assert!(futures.2.as_mut().poll(cx).is_pending());
    for polled in [true, false] {
        let mut futures = Some(&mut futures);
        in_child(|| {
            let futures = futures.take().unwrap();
            if polled {
                let cx = &mut Context::from_waker(Waker::noop());
                let Poll::Ready(all) = futures.0.as_mut().poll(cx) else { panic!("the future waits") };
                let Poll::Ready(read) = futures.1.as_mut().poll(cx) else { panic!("the future waits") };
                let Poll::Ready(one) = futures.2.as_mut().poll(cx) else { panic!("the future waits") };
                refused(all);
                refused(read);
                refused(one);
            }
        });
    }
    let side = fork();
    if side.is_child() {
        return drop((futures, rt)); // in this order, and from `main`
    }
    side.expect_success();
    drop(open);
    rt.wait().unwrap();
}

fn replays_and_tensors() {
    let rt = build("2:CPU:1", true);
    let (x, y) = (rt.scalar(0u64), rt.data(vec![1.0f64; 10]));
    let mut step = rt.record(|r| r.task("add", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit()).unwrap();
    for _ in 0..10 {
        step.replay().unwrap();
    }
    let tensor = rt.to_dlpack(y.input(), SpaceId::HOST).unwrap();
    rt.task("later", (y.output(),)).cpu(|_, (y,)| y.fill(2.0)).submit().unwrap();
    step.replay().unwrap();
    let side = fork();
    if side.is_child() {
        drop(tensor);
        refused(step.replay());
        drop(step);
        return drop(rt);
    }
    side.expect_success();
    drop(tensor);
    assert_eq!((rt.take(x).unwrap(), rt.take(y).unwrap()[0]), (vec![11], 2.0));
}

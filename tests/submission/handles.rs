//! Waits for a single task by its handle.

use crate::common::{MIXES, for_each_mix, gate, runtime, watched};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use thalweg::error::FailureReason;
use thalweg::prelude::*;

#[test]
fn wait_for_a_handle_does_not_wait_for_other_tasks() {
    watched("not for others", || {
        let rt = runtime("2:CPU:1");
        let (x, y) = (rt.scalar(0u64), rt.scalar(0u64));
        let (open, opened) = gate();
        rt.task("blocked", (y.inout(),))
            .cpu(move |_, (y,)| {
                opened();
                y[0] += 1;
            })
            .submit()
            .unwrap();
        let later = rt.task("later", (y.inout(),)).cpu(|_, (y,)| y[0] *= 5).submit_handle().unwrap();
        let task = rt.task("add", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit_handle().unwrap();
        task.wait().unwrap();
        assert!(task.is_finished() && !later.is_finished());
        assert_eq!((task.name(), task.failure().is_none()), ("add", true));
        assert_eq!(rt.read(&x).unwrap()[0], 1);
        drop(open);
        later.wait().unwrap();
        later.wait().unwrap();
        assert_eq!(rt.read(&y).unwrap()[0], 5);
    });
}

#[test]
fn wait_for_a_task_of_a_chain_covers_its_predecessors() {
    for_each_mix(|rt| {
        let x = rt.scalar(0u64);
        let count = Arc::new(AtomicU64::new(0));
        let add = || {
            let count = count.clone();
            let body = move |_: &Context, (x,): (&mut [u64],)| {
                x[0] += 1;
                count.fetch_add(1, Ordering::SeqCst);
            };
            rt.task("add", (x.inout(),)).cpu(body).submit_handle().unwrap()
        };
        let tasks: Vec<_> = (0..20).map(|_| add()).collect();
        for n in [3, 12, 7, 19] {
            tasks[n].wait().unwrap();
            assert!(count.load(Ordering::SeqCst) > n as u64);
            assert!(tasks[..=n].iter().all(TaskHandle::is_finished));
        }
        assert_eq!(rt.read(&x).unwrap()[0], 20);
    });
}

/// A simulation runs no bodies, and a wait advances virtual time.
#[test]
fn wait_for_a_simulated_task_advances_time_to_its_end() {
    let machine = r#"
        name = "one core"
        [units.CPU]
        count = 1
        bytes_per_s = 1e9
        [[tasks]]
        name = "work"
        [tasks.time_ns]
        CPU = { 1 = 100 }
    "#;
    let machine: SimulatedMachine = machine.parse().unwrap();
    let rt = Runtime::builder().compute_units("1:CPU:1").simulate(machine).build().unwrap();
    let x = rt.scalar(0u64);
    let work = || rt.task("work", (x.inout(),)).cpu(|_, _| panic!("bodies must not run")).submit_handle().unwrap();
    let tasks: Vec<_> = (0..5).map(|_| work()).collect();
    tasks[1].wait().unwrap();
    assert_eq!(rt.now().as_nanos(), 200);
    assert_eq!(tasks.iter().filter(|task| task.is_finished()).count(), 2);
    tasks[4].wait().unwrap();
    assert_eq!(rt.now().as_nanos(), 500);
}

#[test]
fn hosting_thread_executes_tasks_while_it_waits_for_a_handle() {
    watched("hosts", || {
        let rt = Runtime::builder().compute_units("1:CPU:1").use_current_thread(true).build().unwrap();
        let x = rt.scalar(0u64);
        let tasks: Vec<_> =
            (0..100).map(|_| rt.task("add", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit_handle().unwrap()).collect();
        for task in tasks.iter().rev() {
            task.wait().unwrap();
        }
        assert_eq!(rt.take(x).unwrap(), [100]);
    });
}

#[test]
fn several_threads_may_wait_for_one_task() {
    watched("several", || {
        let rt = runtime("2:CPU:1");
        let (open, opened) = gate();
        let ended = Arc::new(AtomicBool::new(false));
        let at_end = ended.clone();
        let task = rt
            .task("gated", ())
            .cpu(move |_, ()| {
                opened();
                at_end.store(true, Ordering::SeqCst);
            })
            .submit_handle()
            .unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    task.wait().unwrap();
                    assert!(ended.load(Ordering::SeqCst));
                });
            }
            drop(open);
        });
    });
}

#[test]
fn handles_of_failed_and_skipped_tasks_return_the_cause() {
    for units in MIXES {
        watched(units, move || {
            let rt = runtime(units);
            let (x, y) = (rt.scalar(0u64), rt.scalar(0u64));
            let fails = rt.task("fails", (x.inout(),)).cpu(|_, _| Err("no")).submit_handle().unwrap();
            let panics = rt.task("panics", (y.inout(),)).cpu(|_, _| unreachable!("later")).submit_handle().unwrap();
            let skipped = rt.task("skipped", (x.input(),)).cpu(|_, _| ()).submit_handle().unwrap();
            let unharmed = rt.task("unharmed", (x.output(),)).cpu(|_, (x,)| x[0] = 3).submit_handle().unwrap();
            let cause = |task: &TaskHandle| match task.wait() {
                Err(RunError::Failed(failures)) => (failures.len(), failures[0].name().to_owned()),
                other => panic!("it should have failed: {other:?}"),
            };
            assert_eq!(cause(&skipped), (1, "fails".to_owned()));
            assert_eq!(cause(&fails), (1, "fails".to_owned()));
            assert_eq!(cause(&panics), (1, "panics".to_owned()));
            let reason = panics.failure().unwrap();
            assert!(matches!(reason.reason(), FailureReason::Panicked(why) if why.contains("later")));
            unharmed.wait().unwrap();
            assert!(unharmed.failure().is_none());
            assert_eq!(rt.read(&x).unwrap()[0], 3);
            rt.wait().unwrap(); // the calls above have reported both
            let error: Box<dyn std::error::Error> = Box::new(RunError::Poisoned(reason));
            assert!(error.to_string().contains("later"));
        });
    }
}

#[test]
fn wait_for_a_handle_works_for_every_kind_of_task() {
    for units in MIXES {
        watched(units, move || {
            let rt = runtime(units);
            let x = rt.data(vec![1u64; 100]);
            let reduces =
                rt.task("sum", (x.slice(..50).reduction(Sum),)).cpu(|_, (x,)| x.fill(1)).submit_handle().unwrap();
            let in_turn =
                rt.task("turn", (x.slice(50..).commutative(),)).cpu(|_, (x,)| x[0] += 1).submit_handle().unwrap();
            let list: Vec<_> = blocks(100, 5).map(|part| x.slice(part).inout()).collect();
            let list = rt.task("list", list).cpu(|_, mut x| x[19][4] = 9).submit_handle().unwrap();
            let nothing = rt.task("nothing", ()).cpu(|_, ()| ()).submit_handle().unwrap();
            for task in [&nothing, &list, &in_turn, &reduces] {
                task.wait().unwrap();
                assert!(task.is_finished());
            }
            let x = rt.take(x).unwrap();
            assert_eq!((x[0], x[49], x[50], x[51], x[99]), (2, 2, 2, 1, 9));
        });
    }
}

#[test]
fn task_is_waited_for_inside_bodies_and_after_the_end() {
    watched("ended", || {
        let rt = Arc::new(runtime("1:CPU:1"));
        let first = rt.task("first", ()).cpu(|_, ()| ()).submit_handle().unwrap();
        let task = first.clone();
        let asks = move |_: &Context, ()| task.wait();
        let asks = rt.task("asks", ()).cpu(asks).submit_handle().unwrap();
        asks.wait().unwrap();
        rt.shutdown().unwrap();
        first.wait().unwrap();
        drop(rt);
        first.wait().unwrap();
    });
}

#[test]
fn handle_does_not_keep_the_bodys_captures_alive() {
    watched("captured", || {
        let rt = runtime("1:CPU:1");
        let captured = Arc::new(());
        let kept = captured.clone();
        let task = rt.task("t", ()).cpu(move |_, ()| drop(kept)).submit_handle().unwrap();
        task.wait().unwrap();
        let unused = captured.clone();
        rt.task("u", ()).host(|_, ()| ()).gpu(move |_, ()| drop(unused)).submit().unwrap();
        rt.wait().unwrap();
        assert_eq!(Arc::strong_count(&captured), 1);
        drop(rt);
        assert!(task.is_finished(), "a handle may outlive its runtime");
    });
}

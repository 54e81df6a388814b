//! Tests of the driver within a complete runtime: threads that die, an absent host, and homes that are removed.

use crate::driver::window::Motion;
use crate::error::{RunError, SubmitError};
use crate::{Builder, Context, Runtime};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context as Polled, Poll, Wake, Waker};
use std::time::Duration;

fn is_broken<T: std::fmt::Debug>(result: Result<T, RunError>) {
    match result {
        Err(RunError::Refused(SubmitError::Broken { problem })) => assert!(problem.contains("doomed"), "{problem}"),
        other => panic!("expected a broken runtime: {other:?}"),
    }
}

/// Runs a test on a separate thread, and fails if the test hangs because a waiter was not notified.
fn watched(test: impl FnOnce() + Send + 'static) {
    let (done, ended) = channel();
    let thread = std::thread::spawn(move || {
        test();
        done.send(()).unwrap();
    });
    let ended = ended.recv_timeout(Duration::from_secs(60));
    assert!(ended.is_ok() || thread.is_finished(), "hangs");
    thread.join().unwrap();
}

fn builder(units: &str) -> Builder {
    Runtime::builder().compute_units(units).report_stalls_after(None)
}

#[test]
fn waiters_are_notified_when_a_units_thread_dies() {
    let machines = ["1:CPU:1", "1:CPU:2", "2:CPU:1", "1:CPU:1,1:EMU:1"].map(|units| (units, false));
    for (units, on_device) in machines.into_iter().chain([("1:CPU:1,1:EMU:1", true)]) {
        watched(move || {
            let rt = builder(units).build().unwrap();
            let x = rt.data(vec![0u64; 100]);
            let ((open, opened), (began, begins)) = (channel::<()>(), channel());
            let gate = move |at: &Context, _: (&mut [u64],)| {
                began.send(at.unit().index()).unwrap();
                _ = opened.recv();
            };
            let task = rt.task("gate", (x.inout(),));
            if on_device { task.emulated(gate).submit() } else { task.host(gate).submit() }.unwrap();
            // An urgent task goes through a queue, and before a thread takes a task it checks whether it has to die.
            rt.task("behind", (x.inout(),)).priority(1).cpu(|_, _| ()).submit().unwrap();
            let busy = begins.recv().unwrap();
            let doomed = (busy + 1) % rt.machine().num_units();
            std::thread::scope(|scope| {
                let waits = [scope.spawn(|| rt.wait()), scope.spawn(|| rt.read(&x.all()).map(drop))];
                while rt.door.driver.shared().waiters.len() < waits.len() {
                    std::thread::yield_now();
                }
                rt.door.driver.threads().doomed.store(doomed, Ordering::Relaxed);
                // The gate stays closed while the waiters are notified, unless it occupies the only unit. In that case
                // the unit's thread dies after the gate.
                let closed = (doomed != busy).then_some(open);
                while !rt.door.driver.shared().is_broken() {
                    rt.door.driver.shared().idle.wake_all();
                    std::thread::yield_now();
                }
                waits.into_iter().for_each(|wait| is_broken(wait.join().unwrap()));
                drop(closed);
            });
            is_broken(rt.wait());
            is_broken(rt.take(x).map_err(RunError::from));
            let refused = rt.task("late", ()).cpu(|_, ()| ()).submit().unwrap_err();
            assert!(refused.to_string().contains("thread of unit"), "{refused}");
        });
    }
}

#[test]
fn waiters_are_notified_when_a_hosting_thread_dies() {
    watched(|| {
        let rt = builder("1:CPU:1").use_current_thread(true).build().unwrap();
        rt.task("never", ()).cpu(|_, ()| ()).submit().unwrap();
        rt.door.driver.threads().doomed.store(0, Ordering::Relaxed);
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| rt.wait()));
        died.unwrap_err();
        assert!(rt.door.driver.shared().is_broken());
        let refused = rt.task("late", ()).cpu(|_, ()| ()).submit().unwrap_err();
        assert!(refused.to_string().contains("the execution of tasks"), "{refused}");
        std::thread::scope(|scope| assert!(scope.spawn(|| rt.wait()).join().unwrap().is_err()));
    });
}

#[test]
fn futures_are_notified_when_a_units_thread_dies() {
    struct Bell(Mutex<Sender<()>>);
    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            let _ = self.0.lock().unwrap().send(());
        }
    }
    type Ended = Box<dyn Future<Output = Result<(), RunError>> + Send>;
    watched(|| {
        let rt = builder("1:CPU:1").build().unwrap();
        let x = rt.data(vec![0u64; 8]);
        let (open, opened) = channel::<()>();
        let early = rt.task("early", ()).returns(|_, ()| 1).submit().unwrap();
        rt.wait().unwrap();
        rt.task("gate", (x.inout(),)).cpu(move |_, _| _ = opened.recv()).submit().unwrap();
        let never = rt.task("never", (x.inout(), early.input())).priority(1);
        let never = never.returns(|_, _| 2).submit().unwrap();
        let (early, never) = (early.into_future(), never.into_future());
        let (read, wait) = (rt.read_async(&x), rt.wait_async());
        let futures: [Ended; 4] = [
            Box::new(async { early.await.map(drop) }), // its reader never ends
            Box::new(async { never.await.map(drop) }),
            Box::new(async { read.await.map(drop) }),
            Box::new(wait),
        ];
        let polled = futures.map(|future| {
            let (ring, rung) = channel();
            let (waker, mut future) = (Waker::from(Arc::new(Bell(Mutex::new(ring)))), Box::into_pin(future));
            assert!(future.as_mut().poll(&mut Polled::from_waker(&waker)).is_pending());
            (future, waker, rung)
        });
        rt.door.driver.threads().doomed.store(0, Ordering::Relaxed);
        drop(open);
        for (mut future, waker, rung) in polled {
            let error = loop {
                rung.recv().unwrap();
                if let Poll::Ready(ended) = future.as_mut().poll(&mut Polled::from_waker(&waker)) {
                    break ended;
                }
            };
            is_broken(error);
        }
    });
}

/// Waits until the threads that look for work have fallen asleep.
fn until_nothing_moves(rt: &Runtime, case: &str) {
    let since = std::time::Instant::now();
    while rt.door.driver.threads().motion() != Motion::Nothing {
        assert!(since.elapsed() < Duration::from_secs(60), "{case}: {:?}", rt.door.driver.threads().motion());
        std::thread::yield_now();
    }
}

/// A submitter must not wait for tasks that no present thread can run.
#[test]
fn ready_tasks_of_an_absent_host_do_not_count_as_motion() {
    for (units, scheduler) in [("1:CPU:1", "stealing"), ("1:CPU:1", "dynamic"), ("1:CPU:1,1:EMU:1", "dynamic")] {
        let builder = Runtime::builder().compute_units(units).scheduler(scheduler).use_current_thread(true);
        let rt = builder.build().unwrap();
        let submit = || (0..3).for_each(|_| _ = rt.task("ready", ()).host(|_, ()| ()).submit().unwrap());
        submit();
        until_nothing_moves(&rt, &format!("{units} {scheduler}"));
        rt.wait().unwrap();
        submit();
        until_nothing_moves(&rt, &format!("{units} {scheduler}: the host has left again"));
        std::thread::scope(|scope| _ = scope.spawn(|| rt.wait().unwrap()));
        submit();
        until_nothing_moves(&rt, &format!("{units} {scheduler}: the guest has left too"));
    }
}

/// Between two waits, the thread that hosts a unit may come back soon, unless it sleeps.
#[test]
fn absent_host_that_is_awake_may_come_back() {
    let rt = of_one_thread();
    let seen = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let observer = scope.spawn(|| {
            let seen_awake = rt.door.driver.threads().motion();
            seen.store(true, Ordering::Release);
            until_nothing_moves(&rt, "the host sleeps");
            seen_awake
        });
        while !seen.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        assert_eq!(observer.join().unwrap(), Motion::Away);
    });
}

/// The thread that hosts a unit of several cores sleeps while a body runs on the unit's own threads.
#[test]
fn body_in_a_pool_is_motion_while_the_host_sleeps() {
    let rt = builder("1:CPU:2").use_current_thread(true).build().unwrap();
    let (begun, seen) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let observer = scope.spawn(|| {
            while !begun.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            let motions: Vec<_> = (0..100).map(|_| rt.door.driver.threads().motion()).collect();
            seen.store(true, Ordering::Release);
            motions
        });
        rt.scope(|scope| {
            let body = |_: &Context, ()| {
                begun.store(true, Ordering::Release);
                while !seen.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
            };
            scope.task("spinning", ()).cpu(body).submit().unwrap();
        })
        .unwrap();
        assert_eq!(observer.join().unwrap(), [Motion::Working; 100]);
    });
}

/// Creates a runtime hosted by the thread that builds it, which executes nothing before it waits.
fn of_one_thread() -> Runtime {
    builder("1:CPU:1").use_current_thread(true).build().unwrap()
}

#[test]
fn tasks_ready_at_submission_begin_in_submission_order() {
    let rt = of_one_thread();
    let begun = Arc::new(Mutex::new(Vec::new()));
    let note = |n: usize| {
        let begun = begun.clone();
        move || begun.lock().unwrap().push(n)
    };
    for n in 0..100 {
        let note = note(n);
        rt.task("one by one", ()).cpu(move |_, ()| note()).submit().unwrap();
    }
    let (x, together) = (rt.data((100..200).collect::<Vec<_>>()), begun.clone());
    rt.for_each("together", (x.blocks(1).input(),))
        .cpu(move |_, (x,)| together.lock().unwrap().push(x[0]))
        .submit()
        .unwrap();
    rt.wait().unwrap();
    let begun = begun.lock().unwrap();
    assert!(begun.iter().copied().eq(0..200), "{begun:?}");
}

#[test]
fn awaited_task_runs_before_other_submitted_tasks() {
    let rt = of_one_thread();
    let (x, ended) = (rt.data(vec![1u64; 4]), Arc::new(AtomicUsize::new(0)));
    for _ in 0..100 {
        let ended = ended.clone();
        rt.task("other", ()).cpu(move |_, ()| _ = ended.fetch_add(1, Ordering::Relaxed)).submit().unwrap();
    }
    assert_eq!(*rt.read(&x).unwrap(), [1; 4]);
    assert!(ended.load(Ordering::Relaxed) < 10, "{ended:?} of 100 others had to end first");
    rt.wait().unwrap();
}

/// The number of pending tasks of a tree grows with its depth, not with the size of its last level.
#[test]
fn newest_child_begins_first() {
    const DEPTH: usize = 12;
    type Counts = Arc<[AtomicUsize; 2]>;
    fn branch(at: &Context, depth: usize, counts: &Counts) {
        let [pending, most] = &**counts;
        pending.fetch_sub(1, Ordering::Relaxed);
        if depth == 0 {
            return;
        }
        for _ in 0..2 {
            let of_child = counts.clone();
            most.fetch_max(pending.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            at.task("branch", ()).cpu(move |at, ()| branch(at, depth - 1, &of_child)).submit().unwrap();
        }
    }
    let rt = builder("1:CPU:1").use_current_thread(true).max_pending_tasks(1 << DEPTH << 2).build().unwrap();
    let counts: Counts = Arc::new([AtomicUsize::new(1), AtomicUsize::new(1)]);
    let of_root = counts.clone();
    rt.task("root", ()).cpu(move |at, ()| branch(at, DEPTH, &of_root)).submit().unwrap();
    rt.wait().unwrap();
    let [pending, most] = &*counts;
    assert_eq!(pending.load(Ordering::Relaxed), 0);
    assert!(most.load(Ordering::Relaxed) < 1 << (DEPTH - 2), "{most:?} were pending at once");
}

#[test]
fn homes_are_forgotten_with_their_data() {
    let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").build().unwrap();
    let homes = || rt.door.driver.threads().placed().homes();
    let (kept, taken) = (rt.scalar(1u64), rt.scalar(2u64));
    for n in 0..100u64 {
        let x = rt.data(vec![n; 10]);
        rt.task("use", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
    }
    assert_eq!(rt.take(taken).unwrap(), [2]);
    rt.wait().unwrap();
    assert_eq!(homes(), 1);
    drop(kept);
    rt.wait().unwrap();
    assert_eq!(homes(), 0);
}

/// If this returned, the scope's frame would be left while a task may still use it.
#[test]
fn scope_that_cannot_end_aborts_the_process() {
    const IN_CHILD: &str = "THALWEG_TEST_A_SCOPE_THAT_CANNOT_END";
    if std::env::var_os(IN_CHILD).is_some() {
        let (rt, mut x) = (builder("1:CPU:1").build().unwrap(), [0u64; 4]);
        let _ = rt.scope(|s| {
            rt.door.driver.threads().doomed.store(0, Ordering::Relaxed);
            while !rt.door.driver.shared().is_broken() {
                let x = s.borrow_mut(Box::leak(Box::new([0u64; 4])));
                let _ = s.task("never", (x.inout(),)).cpu(|_, (x,)| x.fill(1)).submit();
                rt.door.driver.shared().idle.wake_all();
                std::thread::yield_now();
            }
            s.borrow_mut(&mut x).len()
        });
        std::process::exit(0); // the test fails if it gets here
    }
    let test = std::env::current_exe().unwrap();
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let child = std::process::Command::new(test).args(["--exact", &name, "--nocapture"]).env(IN_CHILD, "1").output();
    let child = child.unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(!child.status.success() && said.contains("cannot end a scope"), "{:?}: {said}", child.status);
    assert!(child.status.code().is_none(), "it was aborted: {:?}", child.status);
}

//! Captured values of bodies and contents of errors, which are user-defined. They may have any size and alignment, and
//! their destructors may submit, wait, or panic. Each destructor runs exactly once, when the task ends, and never at a
//! point where it could block the runtime.

use crate::common::{failed, for_each_mix, poison, watched};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::prelude::*;

/// Calls a function when it is dropped.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// An error that calls a function when it is dropped.
struct Testament<F: Fn()>(#[allow(dead_code, reason = "has a destructor")] OnDrop<F>);

impl<F: Fn()> fmt::Debug for Testament<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Testament")
    }
}

impl<F: Fn()> fmt::Display for Testament<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it failed")
    }
}

impl<F: Fn()> std::error::Error for Testament<F> {}

fn sum_with(captured: impl Send + Sync + 'static) -> Reduction<f64> {
    Reduction::new("sum", 0.0, move |a: &mut f64, b| {
        let _held = &captured;
        *a += b;
    })
}

#[test]
fn captures_are_dropped_before_a_wait_returns() {
    for_each_mix(|rt| {
        let (x, y) = (rt.scalar(0.0), rt.scalar(0u64));
        let held = Arc::new(());
        for _ in 0..20 {
            let operation = sum_with(held.clone());
            let body = held.clone();
            rt.task("reduce", (x.reduction(operation), y.inout()))
                .cpu(move |_, (x, y)| (x[0], y[0]) = (Arc::strong_count(&body) as f64, 1))
                .submit()
                .unwrap();
        }
        assert!(rt.read(&x).unwrap()[0] > 0.0);
        assert_eq!(Arc::strong_count(&held), 1, "the operation must be dropped without an overwrite");
        let operation = sum_with(held.clone());
        rt.task("reduce", (x.reduction(operation),)).cpu(|_, (x,)| x[0] = 1.0).submit().unwrap();
        rt.wait().unwrap();
        assert_eq!(Arc::strong_count(&held), 1);
    });
}

#[test]
fn capture_may_submit_when_dropped() {
    for hosts in [false, true] {
        watched("a capture submits", move || {
            let builder = Runtime::builder().compute_units("1:CPU:1").use_current_thread(hosts).max_pending_tasks(64);
            let rt = Arc::new(builder.build().unwrap());
            let (x, y) = (rt.scalar(0.0), rt.scalar(0u64));
            let ran = Arc::new(AtomicUsize::new(0));
            const ROUNDS: usize = 200;
            for _ in 0..ROUNDS {
                let (inner, data, counter) = (rt.clone(), y.clone(), ran.clone());
                let captured = Arc::new(OnDrop(move || {
                    let counter = counter.clone();
                    let body = move |_: &thalweg::Context, _: (&[u64],)| _ = counter.fetch_add(1, Ordering::Relaxed);
                    inner.task("last words", (data.input(),)).cpu(body).submit().unwrap();
                }));
                let operation = sum_with(captured);
                rt.task("reduce", (x.reduction(operation),)).cpu(|_, (x,)| x[0] = 1.0).submit().unwrap();
                // The write replaces the reduction in the history, so the reduction is dropped here, while the history
                // is locked.
                rt.task("write", (x.output(),)).cpu(|_, (x,)| x[0] = 2.0).submit().unwrap();
            }
            rt.wait().unwrap();
            rt.wait().unwrap(); // for tasks submitted by the last destructors
            assert_eq!(ran.load(Ordering::Relaxed), ROUNDS);
            assert_eq!(rt.read(&x).unwrap()[0], 2.0);
        });
    }
}

#[test]
fn capture_may_hold_the_last_handle() {
    for_each_mix(|rt| {
        let x = rt.scalar(0.0);
        for _ in 0..50 {
            let inner = rt.data(vec![1.0; 100]);
            rt.task("fill", (inner.inout(),)).cpu(|_, (inner,)| inner.fill(2.0)).submit().unwrap();
            rt.task("reduce", (x.reduction(sum_with(inner)),)).cpu(|_, (x,)| x[0] = 1.0).submit().unwrap();
        }
        assert_eq!(rt.read(&x).unwrap()[0], 50.0);
        rt.task("write", (x.output(),)).cpu(|_, (x,)| x[0] = 0.0).submit().unwrap();
        rt.wait().unwrap();
    });
}

#[test]
fn error_may_submit_when_dropped() {
    for units in crate::common::MIXES {
        watched(units, move || {
            let rt = Arc::new(Runtime::builder().compute_units(units).build().unwrap());
            let (x, y) = (rt.scalar(0u64), rt.scalar(0u64));
            let dropped = Arc::new(AtomicUsize::new(0));
            const ROUNDS: usize = 20;
            for round in 0..ROUNDS {
                let (inner, read, wrote, counter) = (rt.clone(), x.clone(), y.clone(), dropped.clone());
                let error = move || {
                    let last_words = OnDrop(move || {
                        counter.fetch_add(1, Ordering::Relaxed);
                        let accesses = (read.input(), wrote.inout());
                        inner.task("last words", accesses).cpu(|_, (_, y)| y[0] += 1).submit().unwrap();
                    });
                    Err::<(), _>(Testament(last_words))
                };
                rt.task("fails", (x.inout(),)).cpu(move |_, (_,)| error()).submit().unwrap();
                assert_eq!(failed(rt.wait()), ["fails"]);
                assert_eq!(dropped.load(Ordering::Relaxed), round, "dropped although the value can still be requested");
                assert_eq!(poison(rt.read(&x)).1, "failed: it failed");
                // The write replaces the failed task in the history, so the task is dropped here, while the history is
                // locked.
                rt.task("mends", (x.output(),)).cpu(|_, (x,)| x[0] = 1).submit().unwrap();
                rt.wait().unwrap();
                rt.wait().unwrap();
                assert_eq!(
                    dropped.load(Ordering::Relaxed),
                    round + 1,
                    "not dropped although the value can no longer be requested"
                );
            }
            rt.wait().unwrap();
            assert_eq!(rt.read(&y).unwrap()[0], ROUNDS as u64);
        });
    }
}

#[test]
fn reported_failures_are_freed() {
    watched("many failures", || {
        let rt = Runtime::builder().compute_units("2:CPU:1").build().unwrap();
        let x = rt.scalar(0u64);
        let alive = Arc::new(());
        for _ in 0..50 {
            for _ in 0..40 {
                let held = alive.clone();
                let body = move |_: &thalweg::Context, (_,): (&mut [u64],)| {
                    Err::<(), _>(Testament(OnDrop(move || _ = Arc::strong_count(&held))))
                };
                rt.task("fails", (x.output(),)).cpu(body).submit().unwrap();
            }
            assert_eq!(failed(rt.wait()).len(), 40);
            assert!(Arc::strong_count(&alive) <= 200, "{}", Arc::strong_count(&alive));
        }
        drop((x, rt));
        assert_eq!(Arc::strong_count(&alive), 1);
    });
}

#[test]
fn destructor_of_an_error_may_panic() {
    watched("errors panic", || {
        let rt = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
        let x = rt.scalar(0u64);
        for _ in 0..3 {
            let body = |_: &thalweg::Context, (_,): (&mut [u64],)| {
                Err::<(), _>(Testament(OnDrop(|| panic!("an error that can not go quietly"))))
            };
            rt.task("fails", (x.output(),)).cpu(body).submit().unwrap();
            assert_eq!(failed(rt.wait()), ["fails"]);
            rt.task("mends", (x.output(),)).cpu(|_, (x,)| x[0] = 1).submit().unwrap();
            rt.wait().unwrap();
        }
        assert_eq!(rt.read(&x).unwrap()[0], 1);
        rt.task("fails", (x.output(),)).cpu(|_, (_,)| Err::<(), _>("again")).submit().unwrap();
        drop((rt, x));
    });
}

#[test]
fn destructor_of_an_operation_may_panic() {
    for_each_mix(|rt| {
        let x = rt.scalar(0.0);
        // The tasks are held back until this thread has dropped its own clones of the operations.
        let (open, opened) = std::sync::mpsc::channel::<()>();
        rt.task("gate", (x.inout(),)).cpu(move |_, _| _ = opened.recv()).submit().unwrap();
        for _ in 0..5 {
            let operation = sum_with(Arc::new(OnDrop(|| panic!("an operation that can not go quietly"))));
            rt.task("reduce", (x.reduction(operation),)).cpu(|_, (x,)| x[0] = 1.0).submit().unwrap();
        }
        drop(open);
        assert_eq!(rt.read(&x).unwrap()[0], 5.0);
        rt.wait().unwrap();
    });
}

/// Returns a value whose destructor waits for the runtime, and a channel that receives the result of this wait.
fn waits(rt: &Arc<Runtime>) -> (impl Send + Sync + 'static, std::sync::mpsc::Receiver<Result<(), RunError>>) {
    let (rt, (said, heard)) = (rt.clone(), std::sync::mpsc::channel());
    (OnDrop(move || said.send(rt.wait()).unwrap()), heard)
}

fn is_refused(result: Result<(), RunError>) -> bool {
    matches!(result, Err(RunError::Refused(SubmitError::InsideTask { .. })))
}

#[test]
fn destructor_cannot_wait_for_its_own_task() {
    for hosts in [false, true] {
        watched("a destructor waits", move || {
            let builder = Runtime::builder().compute_units("1:CPU:1").use_current_thread(hosts);
            let rt = Arc::new(builder.build().unwrap());
            let (x, y) = (rt.scalar(0.0), rt.scalar(0u64));
            // Case 1: the destructor runs at the end of a task that has run.
            let (waiting, heard) = waits(&rt);
            let (submitted, gate) = std::sync::mpsc::channel();
            let add = move |x: &mut [f64]| {
                gate.recv().unwrap(); // the submission's clone of the operation must be dropped before the task's
                x[0] = 1.0;
            };
            rt.task("reduce", (x.reduction(sum_with(Arc::new(waiting))),)).cpu(move |_, (x,)| add(x)).submit().unwrap();
            submitted.send(()).unwrap();
            rt.wait().unwrap();
            assert!(is_refused(heard.recv().unwrap()));
            // Case 2: the destructor belongs to a skipped task, and may run on the thread that submits it.
            rt.task("fails", (y.inout(),)).cpu(|_, (_,)| Err::<(), _>("no")).submit().unwrap();
            assert_eq!(failed(rt.wait()), ["fails"]);
            let (waiting, heard) = waits(&rt);
            rt.task("skipped", (y.inout(),)).cpu(move |_, (_,)| drop(waiting)).submit().unwrap();
            rt.wait().unwrap();
            assert!(is_refused(heard.recv().unwrap()));
        });
    }
}

#[test]
fn destructor_of_a_skipped_task_cannot_wait_under_placement() {
    watched("skipped at submission", || {
        let rt = Arc::new(Runtime::builder().compute_units("1:EMU:1").build().unwrap());
        let y = rt.scalar(0u64);
        rt.task("fails", (y.inout(),)).cpu(|_, (_,)| Err::<(), _>("no")).submit().unwrap();
        assert_eq!(failed(rt.wait()), ["fails"]);
        // With placement, the submitting thread drops a task that is already poisoned at submission.
        let (waiting, heard) = waits(&rt);
        rt.task("skipped", (y.inout(),)).cpu(move |_, (_,)| drop(waiting)).submit().unwrap();
        assert!(is_refused(heard.recv().unwrap()));
        rt.wait().unwrap();
    });
}

#[test]
fn captures_may_have_any_alignment() {
    #[repr(align(128))]
    #[derive(Clone, Copy)]
    struct Line(u64);
    #[repr(align(8192))]
    #[derive(Clone, Copy)]
    struct Page(u64);
    #[repr(align(256))]
    #[derive(Clone, Copy)]
    struct Nothing;
    for_each_mix(|rt| {
        let x = rt.scalar(0u64);
        let held = Arc::new(());
        for round in 0..20 {
            let (line, page, held) = (Line(round), Page(1), held.clone());
            let body = move |_: &thalweg::Context, (x,): (&mut [u64],)| {
                let (line, page) = (&line, &page);
                assert_eq!((&raw const *line).addr() % 128 + (&raw const *page).addr() % 8192, 0);
                x[0] += line.0 + page.0 + Arc::strong_count(&held).min(1) as u64;
            };
            rt.task("padded", (x.inout(),)).cpu(body).submit().unwrap();
            let nothing = Nothing;
            let body = move |_: &thalweg::Context, (x,): (&mut [u64],)| {
                let nothing = &nothing;
                x[0] += ((&raw const *nothing).addr() % 256) as u64;
            };
            rt.task("empty", (x.inout(),)).cpu(body).submit().unwrap();
        }
        assert_eq!(rt.read(&x).unwrap()[0], 190 + 20 + 20);
        rt.wait().unwrap();
        assert_eq!(Arc::strong_count(&held), 1);
    });
}

#[test]
fn captures_may_be_large() {
    const LARGE: usize = 4 << 20;
    let test = || {
        let rt = Runtime::builder().compute_units("1:CPU:1").use_current_thread(true).build().unwrap();
        let x = rt.scalar(0u64);
        let captured = [1u8; LARGE];
        let body = move |_: &thalweg::Context, (x,): (&mut [u64],)| {
            x[0] = captured.iter().map(|byte| u64::from(*byte)).sum();
        };
        rt.task("large", (x.output(),)).cpu(body).submit().unwrap();
        assert_eq!(rt.read(&x).unwrap()[0], LARGE as u64);
    };
    std::thread::Builder::new().stack_size(40 * LARGE).spawn(test).unwrap().join().unwrap();
}

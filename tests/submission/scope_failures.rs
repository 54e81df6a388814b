//! Scopes that fail: panics, failed tasks and copies, cancellation, lost devices, and refused borrows.

use crate::common::{MIXES, builder, failed, for_each_mix, gate, runtime, watched};
use ndarray::{Array2, ArrayView2, Axis, s};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::error::{FailureReason, RunError};
use thalweg::prelude::*;

#[test]
fn borrow_of_an_array_that_is_not_row_major_is_refused() {
    let rt = runtime("1:CPU:1");
    let mut square = Array2::<f64>::zeros((4, 6));
    let (table, row) = ([1.0, 2.0, 3.0, 4.0], [[1.0, 2.0]]);
    let row = ArrayView2::from(&row);
    rt.scope(|scope| {
        let turned = scope.borrow_array(square.t());
        assert!(matches!(turned, Err(SubmitError::Layout { .. })));
        let words = turned.unwrap_err().to_string();
        assert!(words.contains("[6, 4]") && words.contains("row-major") && words.contains("; try"), "{words}");
        for refused in [
            scope.borrow_array(square.slice(s![.., ..;2])).map(drop),
            scope.borrow_array(square.slice(s![..;-1, ..])).map(drop),
            scope.borrow_array(row.broadcast((3, 2)).unwrap()).map(drop),
            scope.borrow_array(ndarray::ArrayView1::from(&table).slice_move(s![..;2])).map(drop),
        ] {
            assert!(matches!(refused, Err(SubmitError::Layout { .. })), "{refused:?}");
        }
    })
    .unwrap();
    rt.scope(|scope| {
        let mut view = square.view_mut();
        view.invert_axis(Axis(0));
        assert!(scope.borrow_array_mut(view).is_err());
    })
    .unwrap();
    square[[3, 5]] = 1.0;
}

#[test]
fn panic_in_the_closure_is_resumed_after_the_tasks_have_ended() {
    for units in MIXES {
        watched(units, move || {
            let rt = runtime(units);
            let mut x = [0u64; 4];
            let (open, opened) = gate();
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                rt.scope(|s| {
                    let x = s.borrow_mut(&mut x);
                    s.task("gate", (x.inout(),)).host(move |_, _| opened()).submit().unwrap();
                    s.task("fill", (x.inout(),)).cpu(|_, (x,)| x.fill(1)).submit().unwrap();
                    drop(open);
                    panic!("out of here");
                })
            }));
            assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "out of here");
            assert_eq!(x, [1; 4]);
            assert_eq!(rt.take(rt.data(vec![1])).unwrap(), [1], "the runtime must remain usable");
        });
    }
}

#[test]
fn failures_of_a_scope_with_a_panicking_closure_are_reported_by_the_runtime() {
    for units in MIXES {
        watched(units, move || {
            let rt = runtime(units);
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                rt.scope(|s| {
                    s.task("fails", ()).host(|_, ()| Err("nobody listens")).submit().unwrap();
                    panic!("out of here");
                })
            }));
            assert!(panicked.is_err());
            let failures = rt.wait().unwrap_err().to_string();
            assert!(failures.contains("nobody listens"), "{failures}");
            rt.wait().unwrap();
        });
    }
}

#[test]
fn scope_returns_failures_and_memory_keeps_partial_results() {
    for_each_mix(|rt| {
        let (mut x, mut y) = ([0u64; 4], [0u64; 4]);
        let outside = rt.data(vec![0u64; 4]);
        rt.task("outside", (outside.inout(),)).cpu(|_, _| Err("lost")).submit().unwrap();
        let result = rt.scope(|s| {
            let (x, y) = (s.borrow_mut(&mut x), s.borrow_mut(&mut y));
            s.task("first", (x.inout(),)).cpu(|_, (x,)| x.fill(1)).submit().unwrap();
            s.task("second", (x.slice(..2).inout(),))
                .cpu(|_, (x,)| {
                    x.fill(2);
                    Err("on the way")
                })
                .submit()
                .unwrap();
            s.task("skipped", (x.slice(1..3).inout(),)).cpu(|_, (x,)| x.fill(3)).submit().unwrap();
            s.task("because of another", (outside.input(), y.inout())).cpu(|_, (_, y)| y.fill(4)).submit().unwrap();
        });
        let mut names = failed(result.map(drop));
        names.sort();
        assert_eq!(names, ["outside", "second"]);
        assert_eq!((x, y), ([2, 2, 1, 1], [0; 4]), "partial results must be in the borrowed memory");
        rt.wait().unwrap();
    });
}

#[test]
fn failure_of_an_outside_task_on_borrowed_data_fails_the_scope() {
    for_each_mix(|rt| {
        let mut x = [1u64; 4];
        let result = rt.scope(|s| {
            let x = s.borrow_mut(&mut x);
            rt.task("not the scope's", (x.slice(3..).inout(),)).cpu(|_, _| Err("no")).submit().unwrap();
            s.task("add", (x.slice(..3).inout(),)).cpu(|_, (x,)| x.fill(2)).submit().unwrap();
        });
        assert_eq!(failed(result.map(drop)), ["not the scope's"]);
        assert_eq!(x, [2, 2, 2, 1]);
        let mended = rt.scope(|s| {
            let x = s.borrow_mut(&mut x);
            rt.task("fails", (x.inout(),)).cpu(|_, _| Err("no")).submit().unwrap();
            rt.clear(&x).unwrap();
            s.group().wait().unwrap();
        });
        mended.unwrap();
        assert_eq!(x, [0; 4]);
    });
}

#[test]
fn cancelled_scope_keeps_the_results_of_tasks_that_ran() {
    for units in MIXES {
        watched(units, move || {
            let rt = runtime(units);
            let (mut x, never) = (vec![0u64; 4], AtomicUsize::new(0));
            let (open, opened) = gate();
            let result = rt.scope(|s| {
                let x = s.borrow_mut(&mut x);
                let (begins, begun) = std::sync::mpsc::channel();
                s.task("gate", (x.slice(..1).inout(),))
                    .host(move |_, (x,)| {
                        begins.send(()).unwrap();
                        opened();
                        x[0] = 1;
                    })
                    .submit()
                    .unwrap();
                for _ in 0..5 {
                    let body = |_: &thalweg::Context, _: (&mut [u64],)| _ = never.fetch_add(1, Ordering::Relaxed);
                    s.task("behind", (x.inout(),)).cpu(body).submit().unwrap();
                }
                begun.recv().unwrap();
                s.group().cancel();
                let late = s.task("late", ()).cpu(|_, ()| ()).submit();
                assert_eq!(late, Err(SubmitError::Cancelled { task: "late".into() }));
                drop(open);
            });
            let Err(RunError::Failed(failures)) = result else { panic!("cancelled: {result:?}") };
            assert!(failures.iter().all(|failure| matches!(failure.reason(), FailureReason::Cancelled)));
            assert_eq!((x, never.into_inner()), (vec![1, 0, 0, 0], 0));
        });
    }
}

#[test]
fn lost_device_fails_the_scope_and_leaves_the_home_unchanged() {
    watched("lost device", || {
        let rt =
            builder("1:EMU:1", false).emulated_devices(|_| EmulatedDevice::new().lost_after_tasks(1)).build().unwrap();
        let mut x = [1u64; 4];
        let result = rt.scope(|s| {
            let x = s.borrow_mut(&mut x);
            s.task("first", (x.inout(),)).emulated(|_, (x,)| x.fill(2)).submit().unwrap();
            s.task("second", (x.inout(),)).emulated(|_, (x,)| x.fill(3)).submit().unwrap();
        });
        assert!(result.is_err());
        assert_eq!(x, [1; 4], "the device's data must not reach the home");
    });
}

#[test]
fn failed_copy_fails_the_scope_but_does_not_hang_it() {
    for failing in 0..6 {
        watched("failing copy", move || {
            let device = EmulatedDevice::new().failing_copy(failing).capacity_bytes(80);
            let rt = builder("1:EMU:1", false).emulated_devices(move |_| device.clone()).build().unwrap();
            let mut x = vec![1u64; 20];
            let result = rt.scope(|s| {
                let x = s.borrow_mut(&mut x);
                for part in blocks(20, 10) {
                    s.task("add", (x.slice(part).inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
                }
            });
            match result {
                Ok(()) => assert_eq!((x[0], x[10]), (2, 2), "copy {failing}"),
                Err(_) => assert!(x[0] <= 2 && x[10] <= 2 && x[1..10] == [1; 9]),
            }
            let y = rt.data(vec![1]);
            assert_eq!(rt.take(y).unwrap(), [1]);
        });
    }
}

#[test]
fn shutdown_inside_a_scope_is_refused() {
    let rt = runtime("2:CPU:1");
    let mut x = [0u64; 2];
    rt.scope(|s| {
        let x = s.borrow_mut(&mut x);
        let refused = rt.shutdown();
        assert!(
            matches!(refused, Err(RunError::Refused(SubmitError::InsideScope { call: "shutdown" }))),
            "{refused:?}"
        );
        s.task("t", (x.output(),)).cpu(|_, (x,)| x.fill(1)).submit().unwrap();
    })
    .unwrap();
    assert_eq!(x, [1; 2]);
    rt.shutdown().unwrap();
    rt.shutdown().unwrap();
    let refused = rt.scope(|_| unreachable!("the closure must not run after the shutdown"));
    assert!(matches!(refused, Err(RunError::Refused(SubmitError::ShutDown))), "{refused:?}");
}

#[test]
fn scope_refuses_data_and_groups_of_another_runtime() {
    let (one, two) = (runtime("1:CPU:1"), runtime("1:CPU:1"));
    let mut x = [0u64; 4];
    one.scope(|s| {
        let x = s.borrow_mut(&mut x);
        two.scope(|t| {
            let refused = t.task("t", (x.inout(),)).cpu(|_, _| ()).submit().unwrap_err();
            assert!(matches!(refused, SubmitError::ForeignData { .. }), "{refused}");
            let refused = two.task("t", ()).group(s.group()).cpu(|_, ()| ()).submit().unwrap_err();
            assert!(matches!(refused, SubmitError::ForeignGroup { .. }), "{refused}");
        })
        .unwrap();
    })
    .unwrap();
}

#[test]
fn failed_loop_of_a_scope_is_reported_by_the_scope() {
    for_each_mix(|rt| {
        let mut x = vec![0u64; 100];
        let ended = rt.scope(|s| {
            let x = s.borrow_mut(&mut x);
            let fails = |_: &Context, (i, _): (usize, &mut [u64])| if i == 3 { Err("no") } else { Ok(()) };
            s.for_each("fails", (0.., x.blocks(10).inout())).cpu(fails).submit().unwrap();
        });
        assert_eq!(failed(ended), ["fails"]);
        rt.wait().unwrap();
    });
}

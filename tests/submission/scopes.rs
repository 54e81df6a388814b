//! Scopes: borrowed memory is used in place, and never after the scope has ended.

use crate::common::{MIXES, builder, failed, for_each_free_mix, for_each_mix, gate, runtime, watched};
use ndarray::{Array2, Array3, Array4, ArrayView2, Axis, s};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use thalweg::error::{FailureReason, RunError};
use thalweg::memory::AnyOrder;
use thalweg::prelude::*;

#[test]
fn writes_of_tasks_are_visible_when_the_scope_returns() {
    for_each_mix(|rt| {
        let (mut grid, table) = (vec![0u64; 103], (0..103).collect::<Vec<u64>>());
        let factor = 3;
        let value = rt.scope(|s| {
            let (x, y) = (s.borrow(&table[1..]), s.borrow_mut(&mut grid[1..]).named("grid"));
            for part in blocks(102, 10) {
                s.task("times", (x.slice(part.clone()).input(), y.slice(part.clone()).output()))
                    .cpu(|_, (x, y)| y.iter_mut().zip(x).for_each(|(y, x)| *y = factor * x))
                    .submit()?;
                s.task("more", (y.slice(part).inout(),)).cpu(|_, (y,)| y.iter_mut().for_each(|y| *y += 1)).submit()?;
            }
            Ok::<_, SubmitError>(7)
        });
        assert_eq!(value.unwrap(), Ok(7));
        assert_eq!(grid[0], 0);
        assert!((1..103).all(|i| grid[i] == 3 * i as u64 + 1));
    });
}

#[test]
fn borrowed_parts_of_arrays_leave_the_gaps_untouched() {
    for_each_mix(|rt| {
        let mut square = Array2::from_elem((8, 10), 1u32);
        let mut cube = Array3::from_elem((4, 5, 6), 1u32);
        let mut four = Array4::from_elem((3, 4, 5, 6), 1u32);
        let sum = rt.scalar(0u32);
        rt.scope(|scope| {
            let a = scope.borrow_array_mut(square.slice_mut(s![1..7;2, 2..9])).unwrap();
            let b = scope.borrow_array_mut(cube.slice_mut(s![1..3, 1..4, 2..5])).unwrap();
            let c = scope.borrow_array_mut(four.slice_mut(s![.., 1..3, ..;2, 1..5])).unwrap();
            assert_eq!((a.shape(), b.shape(), c.shape()), (vec![3, 7], vec![2, 3, 3], vec![3, 2, 3, 4]));
            for row in 0..3 {
                scope.task("a", (a.block((row, 1..)).inout(),)).cpu(|_, (mut x,)| x += 1).submit().unwrap();
            }
            for column in 0..3 {
                scope.task("b", (b.block((.., .., column)).inout(),)).cpu(|_, (mut x,)| x += 1).submit().unwrap();
            }
            for plane in 0..2 {
                let part = c.block((.., plane, .., 1..3));
                scope.task("c", (part.inout(),)).cpu(|_, (mut x,)| x += 1).submit().unwrap();
            }
            let all = (a.input(), b.input(), c.input(), sum.output());
            scope.task("sum", all).cpu(|_, (a, b, c, sum)| sum[0] = a.sum() + b.sum() + c.sum()).submit().unwrap();
        })
        .unwrap();
        assert_eq!(rt.read(&sum).unwrap()[0], (21 + 18) + 36 + (72 + 36));
        let changed = |i: usize, j: usize| (1..7).contains(&i) && i % 2 == 1 && (3..9).contains(&j);
        assert!(square.indexed_iter().all(|((i, j), x)| *x == 1 + u32::from(changed(i, j))));
        let changed =
            |(i, j, k): (usize, usize, usize)| (1..3).contains(&i) && (1..4).contains(&j) && (2..5).contains(&k);
        assert!(cube.indexed_iter().all(|(at, x)| *x == 1 + u32::from(changed(at))));
        let changed = |(_, j, k, l): (_, usize, usize, usize)| (1..3).contains(&j) && k % 2 == 0 && (2..4).contains(&l);
        assert!(four.indexed_iter().all(|((i, j, k, l), x)| *x == 1 + u32::from(changed((i, j, k, l)))));
    });
}

#[test]
fn every_mode_works_on_parts_of_larger_arrays() {
    for_each_mix(|rt| {
        let mut square = Array2::from_elem((6, 9), 100u64);
        rt.scope(|scope| {
            let x = scope.borrow_array_mut(square.slice_mut(s![2..5, 3..8])).unwrap();
            for n in 0..10u64 {
                let part = x.block((0..2, 1..4));
                scope.task("sum", (part.reduction(Sum),)).cpu(move |_, (mut x,)| x += n).submit().unwrap();
                scope
                    .task("any", (x.block((.., 0)).reduction(AnyOrder(Sum)),))
                    .cpu(|_, (mut x,)| x += 1)
                    .submit()
                    .unwrap();
                scope.task("add", (x.block((2, ..)).accumulate(Sum),)).cpu(|_, (mut x,)| x += 1).submit().unwrap();
                scope.task("by turns", (x.block((.., 4)).commutative(),)).cpu(|_, (mut x,)| x += 1).submit().unwrap();
            }
            let row = x.block((1, 1..4));
            if rt.machine().num_cpu_units() > 0 {
                for _ in 0..5 {
                    scope
                        .task("atomic", (row.concurrent(),))
                        .cpu(|_, (x,)| x.update(1, |x| x + 1000))
                        .submit()
                        .unwrap();
                }
            }
            let refused = scope.task("rows", (x.block((0..2, ..)).concurrent(),)).cpu(|_, _| ()).submit();
            assert!(matches!(refused, Err(SubmitError::NotContiguous { .. })), "{refused:?}");
        })
        .unwrap();
        let mut expected = Array2::from_elem((6, 9), 100u64);
        expected.slice_mut(s![2..4, 4..7]).mapv_inplace(|x| x + 45);
        expected.slice_mut(s![2..5, 3]).mapv_inplace(|x| x + 10);
        expected.slice_mut(s![4, 3..8]).mapv_inplace(|x| x + 10);
        expected.slice_mut(s![2..5, 7]).mapv_inplace(|x| x + 10);
        if rt.machine().num_cpu_units() > 0 {
            expected[[3, 5]] += 5000;
        }
        assert_eq!(square, expected);
    });
}

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
fn scoped_bodies_may_borrow_and_return_borrowing_errors() {
    #[derive(Debug)]
    struct Borrows<'a>(&'a str);
    impl<'a> From<Borrows<'a>> for thalweg::error::BoxError {
        fn from(Borrows(words): Borrows<'a>) -> Self {
            words.into()
        }
    }
    for_each_mix(|rt| {
        let (seen, words) = (Mutex::new(Vec::new()), String::from("no luck"));
        let result = rt.scope(|s| {
            for n in 0..20 {
                s.task("note", ()).cpu(|_, ()| seen.lock().unwrap().push(words.len())).submit().unwrap();
                let words = &words;
                s.task("fails", ())
                    .cpu(move |_, ()| if n == 9 { Err(Borrows(words)) } else { Ok(()) })
                    .submit()
                    .unwrap();
            }
        });
        let Err(RunError::Failed(failures)) = result else { panic!("one task fails: {result:?}") };
        assert_eq!(failures.len(), 1);
        assert_eq!(failures[0].reason().to_string(), "failed: no luck");
        assert_eq!(seen.into_inner().unwrap(), [7; 20]);
        rt.wait().unwrap(); // the scope has reported the failure
    });
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
fn scope_waits_even_if_handles_are_forgotten() {
    for_each_mix(|rt| {
        let (mut x, count) = (vec![0u64; 8], AtomicUsize::new(0));
        rt.scope(|s| {
            let handle = s.borrow_mut(&mut x);
            for _ in 0..10 {
                let task = s.task("add", (handle.inout(),)).cpu(|_, (x,)| {
                    x[0] += 1;
                    count.fetch_add(1, Ordering::Relaxed);
                });
                std::mem::forget(task.submit_handle().unwrap());
            }
            std::mem::forget(s.task("never", (handle.inout(),)).cpu(|_, (x,)| x.fill(99)));
            std::mem::forget(s.group().clone());
            std::mem::forget(handle);
        })
        .unwrap();
        assert_eq!((x[0], count.into_inner()), (10, 10));
    });
}

#[test]
fn captures_are_dropped_before_the_scope_returns() {
    struct Counted<'a>(&'a AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    for_each_mix(|rt| {
        let (dropped, mut x) = (AtomicUsize::new(0), [0u8; 8]);
        let result = rt.scope(|s| {
            let x = s.borrow_mut(&mut x);
            for n in 0..30 {
                let counted = Counted(&dropped);
                let body = move |_: &thalweg::Context, (x,): (&mut [u8],)| {
                    x[0] = counted.0.load(Ordering::Relaxed) as u8;
                    assert!(n != 10, "the tenth");
                };
                s.task("t", (x.inout(),)).cpu(body).submit().unwrap();
            }
            let counted = Counted(&dropped);
            drop(s.task("not submitted", ()).cpu(move |_, ()| drop(counted)));
            let counted = Counted(&dropped);
            let out = x.slice(7..9);
            assert!(s.task("refused", (out.inout(),)).cpu(move |_, _| drop(counted)).submit().is_err());
        });
        assert_eq!(failed(result.map(drop)), ["t"]);
        assert_eq!(dropped.into_inner(), 32);
    });
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
fn nested_scopes_may_share_borrowed_data() {
    for_each_mix(|rt| {
        let (table, mut outer) = (vec![1u64; 50], vec![0u64; 50]);
        let sum = rt.scope(|s| {
            let (x, y) = (s.borrow(&table), s.borrow_mut(&mut outer));
            s.task("copy", (x.input(), y.output())).cpu(|_, (x, y)| y.copy_from_slice(x)).submit().unwrap();
            let mut inner = [0u64; 50];
            rt.scope(|t| {
                let (again, z) = (t.borrow(&table), t.borrow_mut(&mut inner));
                let all = (again.input(), y.input(), z.output());
                let add = |_: &thalweg::Context, (x, y, z): (&[u64], &[u64], &mut [u64])| {
                    z.iter_mut().zip(x).zip(y).for_each(|((z, x), y)| *z = x + y);
                };
                // A task of the outer scope may use data borrowed by the inner scope, which waits for it.
                t.task("add", all).cpu(add).submit().unwrap();
                s.task("more", (z.inout(),)).cpu(|_, (z,)| z.iter_mut().for_each(|z| *z += 1)).submit().unwrap();
            })
            .unwrap();
            inner.iter().sum::<u64>()
        });
        assert_eq!((sum.unwrap(), outer), (150, vec![1; 50]));
    });
}

#[test]
fn body_may_submit_and_borrow_in_its_scope() {
    for_each_mix(|rt| {
        let (mut x, mut y) = (vec![0u64; 8], vec![0u64; 8]);
        rt.scope(|s| {
            let x = s.borrow_mut(&mut x);
            let y = &mut y;
            s.task("parent", (x.inout(),))
                .host(move |_, (x,)| {
                    x.fill(1);
                    let y = s.borrow_mut(y);
                    s.task("child", (y.output(),)).cpu(|_, (y,)| y.fill(2)).submit().map(drop)
                })
                .submit()
                .map(drop)
        })
        .unwrap()
        .unwrap_or_else(|refused| assert!(matches!(refused, SubmitError::NoUnit { .. })));
        if rt.machine().num_cpu_units() > 0 {
            assert_eq!((x, y), (vec![1; 8], vec![2; 8]));
        }
    });
}

#[test]
fn several_threads_may_submit_to_a_scope() {
    for_each_mix(|rt| {
        let mut x = vec![0u64; 40];
        rt.scope(|s| {
            let x = s.borrow_mut(&mut x);
            std::thread::scope(|threads| {
                for part in blocks(40, 10) {
                    let x = &x;
                    threads.spawn(move || {
                        for _ in 0..10 {
                            let part = x.slice(part.clone());
                            s.task("add", (part.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
                        }
                    });
                }
            });
        })
        .unwrap();
        assert!((0..40).all(|i| x[i] == if i % 10 == 0 { 10 } else { 0 }));
    });
}

#[test]
fn borrowed_data_can_be_read_fetched_and_cleared() {
    for_each_mix(|rt| {
        let mut x = vec![1u64; 10];
        rt.scope(|s| {
            let x = s.borrow_mut(&mut x);
            s.task("double", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2)).submit().unwrap();
            assert_eq!(rt.read(&x).unwrap(), [2; 10]);
            rt.fetch(x.slice(3..), SpaceId::HOST).unwrap();
            for space in rt.machine().spaces() {
                rt.fetch(&x, space).unwrap();
            }
            rt.clear(x.slice(..5)).unwrap();
        })
        .unwrap();
        assert_eq!(x, [0, 0, 0, 0, 0, 2, 2, 2, 2, 2]);
    });
}

#[test]
fn scope_brings_data_home_from_small_and_slow_devices() {
    for hosts in [false, true] {
        watched("small devices", move || {
            let device =
                EmulatedDevice::new().capacity_bytes(2000).copy_delay(std::time::Duration::from_micros(50), 1e9);
            let rt = builder("2:EMU:1", hosts).emulated_devices(move |_| device.clone()).build().unwrap();
            let mut square = Array2::from_elem((20, 40), 0u64);
            for round in 1..4 {
                rt.scope(|scope| {
                    let x = scope.borrow_array_mut(square.slice_mut(s![2..18, 5..35])).unwrap();
                    for (i, j) in (0..16).step_by(4).flat_map(|i| (0..30).step_by(10).map(move |j| (i, j))) {
                        let part = x.block((i..i + 4, j..j + 10));
                        scope.task("add", (part.inout(),)).cpu(|_, (mut x,)| x += 1).submit().unwrap();
                    }
                })
                .unwrap();
                assert_eq!((square.sum(), square[[2, 5]], square[[17, 34]]), (480 * round, round, round));
            }
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
fn body_may_open_its_own_scope() {
    for units in MIXES {
        // Skip hosted units of several cores, because their bodies run on threads that cannot do anything else while
        // they wait.
        for hosts in [false, true].into_iter().filter(|hosts| !hosts || units != "1:CPU:2") {
            watched(units, move || {
                let rt = Arc::new(builder(units, hosts).detect_conflicts(true).build().unwrap());
                let x = rt.data(vec![1u64; 40]);
                for part in blocks(40, 10) {
                    let inner = rt.clone();
                    // The body lends parts of its view.
                    let body = move |_: &thalweg::Context, (x,): (&mut [u64],)| {
                        let factor = x.len() as u64;
                        inner
                            .scope(|s| {
                                let x = s.borrow_mut(x);
                                for part in blocks(x.len(), 3) {
                                    let body = |_: &thalweg::Context, (x,): (&mut [u64],)| {
                                        x.iter_mut().for_each(|x| *x += factor)
                                    };
                                    s.task("inner", (x.slice(part).inout(),)).cpu(body).submit()?;
                                }
                                s.task("last", (x.slice(9).inout(),)).cpu(|_, (x,)| x[0] = 0).submit()
                            })?
                            .map_err(RunError::from)
                            .map(drop)
                    };
                    rt.task("outer", (x.slice(part).inout(),)).host(body).submit().unwrap();
                }
                rt.wait().unwrap();
                let x = rt.read(&x).unwrap();
                assert!((0..40).all(|i| x[i] == if i % 10 == 9 { 0 } else { 11 }), "{x:?}");
                assert_eq!(rt.statistics().conflicts, Vec::<String>::new());
            });
        }
    }
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

/// Counts its drops.
struct Told<'a>(&'a AtomicUsize, usize);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn result_may_borrow_data_that_outlives_the_scope() {
    for_each_mix(|rt| {
        if rt.machine().num_cpu_units() == 0 {
            return;
        }
        let (words, drops) = ("to be or not to be".to_owned(), AtomicUsize::new(0));
        let text = &words[..];
        let kept = rt.scope(|s| {
            let words: Vec<_> = (0..6)
                .map(|n| {
                    let word = s.task("word", ()).priority(1).returns(move |_, ()| text.split(' ').nth(n));
                    word.submit().unwrap()
                })
                .collect();
            let count = s.task("count", ()).returns(|_, ()| text.split(' ').count()).submit().unwrap();
            // A result that borrows nothing can be accessed by other tasks.
            let twice = s.task("twice", count.input()).returns(|_, count| 2 * count).submit().unwrap();
            assert_eq!(twice.get().unwrap(), 12);
            drop(s.task("dropped", ()).returns(|_, ()| Told(&drops, 0)).submit().unwrap());
            let asked = s.task("asked", ()).returns(|_, ()| Told(&drops, 7)).submit().unwrap();
            assert_eq!(asked.get().unwrap().1, 7);
            words
        });
        let kept = kept.unwrap().into_iter().map(|word| word.get().unwrap()).collect::<Option<Vec<&str>>>();
        assert_eq!(kept.unwrap(), ["to", "be", "or", "not", "to", "be"]);
        assert_eq!(drops.load(Ordering::SeqCst), 2);
        let fails = rt.scope(|s| {
            let parse = s.task("parse", ()).try_returns(|_, ()| text[..2].parse::<u8>().map(|_| text));
            assert!(parse.submit().unwrap().get().unwrap_err().to_string().contains("invalid digit"));
        });
        assert_eq!(failed(fails), ["parse"]);
        let words =
            rt.scope(|s| ["a", "b"].map(|word| s.task("word", ()).returns(move |_, ()| word).submit().unwrap()));
        assert_eq!(
            words.unwrap().map(|word| word.get().unwrap()),
            ["a", "b"],
            "results must be available after the scope has ended"
        );
    });
}

#[test]
fn results_of_a_scope_are_dropped_before_it_returns() {
    for_each_mix(|rt| {
        if rt.machine().num_cpu_units() == 0 {
            return;
        }
        let drops = AtomicUsize::new(0);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            rt.scope(|s| {
                for n in 0..20 {
                    let told = s.task("told", ()).returns(|_, ()| Told(&drops, 0)).submit().unwrap();
                    if n % 2 == 0 {
                        drop(told);
                    }
                }
                s.group().cancel();
                let late = s.task("late", ()).returns(|_, ()| Told(&drops, 0)).submit();
                assert!(matches!(late, Err(SubmitError::Cancelled { .. })));
                panic!("out of here");
            })
        }));
        drop(ended);
        let dropped = drops.load(Ordering::SeqCst);
        assert!(dropped <= 20, "{dropped}");
        assert_eq!(drops.into_inner(), dropped);
        let emulated = rt.scope(|s| s.task("t", ()).emulated(|_, ()| ()).returns(|_, ()| 1).submit().map(drop));
        assert!(matches!(emulated, Ok(Err(SubmitError::ResultOnDevice { .. }))));
    });
}

#[test]
fn scoped_loop_may_borrow_arrays_and_captures() {
    for_each_mix(|rt| {
        let (old, mut new, offset) = ((0..100).collect::<Vec<u64>>(), vec![0u64; 100], String::from("seven"));
        let iterations = rt.scope(|s| {
            let (old, new) = (s.borrow(&old), s.borrow_mut(&mut new));
            let add = |_: &Context, (old, new): (&[u64], &mut [u64])| {
                new.iter_mut().zip(old).for_each(|(new, old)| *new = old + offset.len() as u64);
            };
            s.for_each("add", (old.blocks(30).input(), new.blocks(30).output())).cpu(add).priority(1).submit().unwrap();
            let negate = |_: &Context, new: &mut [u64]| new.iter_mut().for_each(|x| *x = 1000 - *x);

            s.for_each("negate", new.blocks(50).inout()).cpu(negate).emulated(negate).submit()
        });
        assert_eq!(iterations.unwrap().unwrap(), 2);
        assert!(new.iter().zip(&old).all(|(new, old)| *new == 1000 - old - 5));
    });
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

#[test]
fn scope_in_a_body_may_lend_the_bodys_view() {
    for_each_free_mix(|rt| {
        let x = rt.data(vec![1u64; 64]);
        let parent = rt.task("parent", x.inout()).host(|cx, x| {
            for _ in 0..5 {
                let factor = 2;
                let scoped = cx.scope(|s| {
                    let x = s.borrow_mut(&mut *x);
                    let double = |_: &Context, x: &mut [u64]| x.iter_mut().for_each(|x| *x *= factor);
                    s.for_each("double", x.blocks(8).inout()).cpu(double).submit().unwrap();
                    let nested = |cx: &Context, x: &mut [u64]| {
                        let (one, other) = x.split_at_mut(32);
                        cx.scope(|s| {
                            s.task("one", ()).cpu(|_, ()| one[0] += 1).submit().unwrap();
                            s.task("other", ()).cpu(|_, ()| other[0] += 1).submit().unwrap();
                        })
                    };
                    s.task("nested", x.inout()).host(nested).submit().unwrap();
                });
                scoped.unwrap();
            }
        });
        parent.submit().unwrap();
        let x = rt.take(x).unwrap();
        assert_eq!((x[0], x[32], x[63]), (63, 63, 32));
    });
}

/// If members did not run on the stack of their waiting scope's body, each of them would need another stack.
#[test]
fn members_of_scopes_in_bodies_may_wait() {
    for_each_free_mix(|rt| {
        let (y, rt_of_bodies) = (rt.data(vec![3u64; 4]), rt);
        let sums = std::sync::atomic::AtomicU64::new(0);
        let outer = rt.scope(|s| {
            for _ in 0..8 {
                let body = |_: &Context, ()| {
                    rt_of_bodies.scope(|s| {
                        for _ in 0..4 {
                            let body = |_: &Context, ()| {
                                let sum: u64 = rt_of_bodies.read(&y).unwrap().iter().sum();
                                sums.fetch_add(sum, std::sync::atomic::Ordering::Relaxed);
                            };
                            s.task("reads", ()).host(body).submit().unwrap();
                        }
                    })
                };
                s.task("outer", ()).host(body).submit().unwrap();
            }
        });
        outer.unwrap();
        assert_eq!(sums.into_inner(), 8 * 4 * 12);
    });
}

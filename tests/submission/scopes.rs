//! Scopes: borrowed memory is used in place, and never after the scope has ended.

use crate::common::{builder, failed, for_each_mix, watched};
use ndarray::{Array2, Array3, Array4, s};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::error::RunError;
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

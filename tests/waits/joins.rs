//! Forks inside bodies: what both calls return, see and leave behind, wherever they run.

use crate::common::watched;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::prelude::*;

/// Machines on which calls run in different ways: one after the other, on other units, in a unit's own pool, on devices.
const MACHINES: [&str; 5] = ["1:CPU:1", "2:CPU:1", "4:CPU:1", "1:CPU:2,1:CPU:1", "2:CPU:1,1:EMU:1"];

/// Runs `test` on each machine, whose unit 0 the test's thread hosts or does not.
fn on_each(machines: &[&'static str], test: fn(&str, &Runtime)) {
    for &units in machines {
        for hosts in [false, true] {
            watched(&format!("{units} hosts={hosts}"), move || {
                test(units, &Runtime::builder().compute_units(units).use_current_thread(hosts).build().unwrap());
            });
        }
    }
}

/// Sorts by halves that are sorted side by side.
fn sort(at: &Context, x: &mut [u32]) {
    if x.len() <= 4 {
        return x.sort_unstable();
    }
    let (low, high) = x.split_at_mut(x.len() / 2);
    at.join(|at| sort(at, low), |at| sort(at, high));
    x.sort();
}

/// Numbers in no order, from a seed.
fn shuffled(n: u32, seed: u32) -> Vec<u32> {
    (0..n).map(|i| (i.wrapping_add(seed)).wrapping_mul(2_654_435_761) >> 7).collect()
}

#[test]
fn calls_work_on_parts_of_a_view() {
    on_each(&MACHINES, |units, rt| {
        let all: Vec<_> = (0..20).map(|seed| rt.data(shuffled(1000, seed))).collect();
        for x in &all {
            rt.task("sort", (x.inout(),)).cpu(|at, (x,)| sort(at, x)).submit().unwrap();
        }
        for (seed, x) in (0..).zip(all) {
            let mut expected = shuffled(1000, seed);
            expected.sort_unstable();
            assert_eq!(rt.take(x).unwrap(), expected, "on {units}");
        }
    });
}

/// The second call runs on another unit's thread: the first waits for it, which only that can end.
#[test]
fn an_idle_unit_makes_the_second_call() {
    on_each(&["2:CPU:1", "2:CPU:1,1:EMU:1"], |units, rt| {
        for _ in 0..200 {
            let of_both = rt.task("meet", ()).returns(|at, ()| {
                let both = Barrier::new(2);
                let meet = |at: &Context| (both.wait(), at.unit()).1;
                at.join(meet, meet)
            });
            let (first, second) = of_both.submit().unwrap().get().unwrap();
            assert_ne!(first, second, "on {units}");
        }
    });
}

/// Whose calls both fork again, all at once: each waits for the end of another, which a thread that waits has to make.
#[test]
fn who_waits_for_its_call_makes_others() {
    let rt = Runtime::builder().compute_units("4:CPU:1").build().unwrap();
    let ran = AtomicUsize::new(0);
    rt.scope(|s| {
        for _ in 0..50 {
            s.task("tree", ()).cpu(|at, ()| tree(at, 8, &ran)).submit()?;
        }
        Ok::<(), RunError>(())
    })
    .unwrap()
    .unwrap();
    assert_eq!(ran.into_inner(), 50 << 8);
}

fn tree(at: &Context, levels: u32, ran: &AtomicUsize) {
    if levels == 0 {
        ran.fetch_add(1, Ordering::Relaxed);
        return std::thread::yield_now();
    }
    at.join(|at| tree(at, levels - 1, ran), |at| tree(at, levels - 1, ran));
}

#[test]
fn a_panic_of_either_call_is_the_bodys() {
    on_each(&MACHINES, |units, rt| {
        for (first, second, expected) in [(true, false, "first"), (false, true, "second"), (true, true, "first")] {
            let ended = rt.task("panics", ()).returns(move |at, ()| {
                let call = |panics: bool, name: &'static str| {
                    std::thread::yield_now();
                    if panics {
                        std::panic::panic_any(name);
                    }
                };
                let joined = AssertUnwindSafe(|| at.join(|_| call(first, "first"), |_| call(second, "second")));
                catch_unwind(joined).unwrap_err().downcast_ref::<&str>().copied().unwrap()
            });
            assert_eq!(ended.submit().unwrap().get().unwrap(), expected, "on {units}");
        }
        rt.task("fails", ()).cpu(|at, ()| _ = at.join(|_| (), |_| panic!("by the second"))).submit().unwrap();
        let error = rt.wait().unwrap_err().to_string();
        assert!(error.contains("by the second"), "{error}");
    });
}

/// Counts what is dropped.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn captures_and_results_are_dropped_once() {
    on_each(&MACHINES, |units, rt| {
        for panics in [false, true] {
            let dropped = AtomicUsize::new(0);
            rt.scope(|s| {
                let dropped = &dropped;
                let body = move |at: &Context, ()| {
                    let [one, other] = [(); 2].map(|()| Counted(dropped));
                    let joined = catch_unwind(AssertUnwindSafe(|| {
                        let first = |_: &Context| {
                            drop(one);
                            assert!(!panics);
                            Counted(dropped)
                        };
                        at.join(first, |_| (other, Counted(dropped)).1)
                    }));
                    assert_eq!(joined.is_err(), panics);
                };
                s.task("drops", ()).cpu(body).submit().map(drop)
            })
            .unwrap()
            .unwrap();
            // A second call that nobody has come for is dropped, and makes no result.
            let count = dropped.into_inner();
            assert!(count == 4 - usize::from(panics) || panics && count == 2, "{count} on {units}");
        }
    });
}

/// What both calls submit are children of the task, which ends behind them.
#[test]
fn calls_submit_children() {
    on_each(&MACHINES, |units, rt| {
        let x = rt.data(vec![0; 64]);
        let inner = x.clone();
        rt.task("parent", (x.weak_inout(),))
            .cpu(move |at, ((),)| {
                let fill = |at: &Context, part: std::ops::Range<usize>| -> Result<(), SubmitError> {
                    for i in part {
                        at.task("child", (inner.slice(i..i + 1).inout(),)).cpu(move |_, (x,)| x[0] += i).submit()?;
                    }
                    Ok(())
                };
                let (low, high) = at.join(|at| fill(at, 0..32), |at| fill(at, 32..64));
                low.and(high)
            })
            .submit()
            .unwrap();
        rt.task("behind", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2)).submit().unwrap();
        assert_eq!(rt.take(x).unwrap(), (0..64).map(|i| 2 * i).collect::<Vec<_>>(), "on {units}");
    });
}

/// The same whoever makes a call: neither may wait, as who has come for the second could not leave it.
#[test]
fn calls_do_not_wait_for_tasks() {
    on_each(&MACHINES, |_, rt| {
        for _ in 0..50 {
            let refused = rt.task("waits", ()).returns(|at, ()| {
                let (first, second) = at.join(|at| at.wait(), |at| at.wait());
                assert!(at.inner_cores() > 1 || at.wait().is_ok(), "the body itself may, unless a pool runs it");
                [first, second].map(|waited| waited.unwrap_err())
            });
            for error in refused.submit().unwrap().get().unwrap() {
                assert!(
                    matches!(error, RunError::Refused(SubmitError::InsideFork { call: "Context::wait" })),
                    "{error}"
                );
            }
        }
    });
}

/// Bodies that wait lie aside while others fork on the same thread, so offers come back in another order.
#[test]
fn bodies_that_wait_and_bodies_that_fork_share_threads() {
    on_each(&["1:CPU:1", "2:CPU:1", "3:CPU:1"], |units, rt| {
        let ran = AtomicUsize::new(0);
        rt.scope(|s| {
            for _ in 0..40 {
                s.task("parent", ())
                    .cpu(|at, ()| {
                        for _ in 0..4 {
                            at.task("child", ()).cpu(|at, ()| _ = at.join(|_| 1, |_| 2)).submit()?;
                        }
                        tree(at, 4, &ran);
                        at.wait()?;
                        tree(at, 4, &ran);
                        Ok::<(), RunError>(())
                    })
                    .submit()?;
            }
            Ok::<(), RunError>(())
        })
        .unwrap()
        .unwrap();
        assert_eq!(ran.into_inner(), 80 << 4, "on {units}");
    });
}

#[test]
fn a_context_that_was_left_behind_calls_one_after_the_other() {
    let rt = Runtime::builder().compute_units("2:CPU:1").build().unwrap();
    let context = rt.task("leaves", ()).returns(|at, ()| at.clone()).submit().unwrap().get().unwrap();
    assert_eq!(context.join(|_| 1, |_| 2), (1, 2));
    drop(rt);
    assert_eq!(context.join(|_| 1, |_| 2), (1, 2));
}

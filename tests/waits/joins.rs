//! Fork-join inside bodies: the results, effects and failures of both calls, wherever they run.

use crate::common::watched;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::prelude::*;

/// Machines on which calls run in different ways: sequentially, on other units, in a unit's own pool, and with
/// devices.
const MACHINES: [&str; 5] = ["1:CPU:1", "2:CPU:1", "4:CPU:1", "1:CPU:2,1:CPU:1", "2:CPU:1,1:EMU:1"];

/// Runs `test` on each machine, with and without unit 0 hosted by the test's thread.
fn on_each(machines: &[&'static str], test: fn(&str, &Runtime)) {
    for &units in machines {
        for hosts in [false, true] {
            watched(&format!("{units} hosts={hosts}"), move || {
                test(units, &Runtime::builder().compute_units(units).use_current_thread(hosts).build().unwrap());
            });
        }
    }
}

/// Sorts the two halves in parallel.
fn sort(at: &Context, x: &mut [u32]) {
    if x.len() <= 4 {
        return x.sort_unstable();
    }
    let (low, high) = x.split_at_mut(x.len() / 2);
    at.join(|at| sort(at, low), |at| sort(at, high));
    x.sort();
}

/// Returns numbers in no order, derived from a seed.
fn shuffled(n: u32, seed: u32) -> Vec<u32> {
    (0..n).map(|i| (i.wrapping_add(seed)).wrapping_mul(2_654_435_761) >> 7).collect()
}

#[test]
fn joined_calls_may_work_on_parts_of_a_view() {
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

/// The second call must run on another unit's thread, because the first call waits for it.
#[test]
fn idle_unit_makes_the_second_call() {
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

/// Calls that fork recursively on all units at once, so a thread that waits for its second call has to run other calls.
#[test]
fn thread_that_waits_for_its_call_makes_other_calls() {
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
fn panic_of_either_call_is_resumed_in_the_body() {
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

/// Counts its drops.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn captures_and_results_of_calls_are_dropped_once() {
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
            // If the first call panics, a second call that no thread has taken is dropped and produces no result.
            let count = dropped.into_inner();
            assert!(count == 4 - usize::from(panics) || panics && count == 2, "{count} on {units}");
        }
    });
}

/// Tasks submitted by both calls are children of the task, and tasks after it wait for them.
#[test]
fn joined_calls_may_submit_children() {
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

/// Neither call may wait, regardless of the thread, because a thread that has taken the second call could not suspend
/// it.
#[test]
fn wait_inside_a_joined_call_is_refused() {
    on_each(&MACHINES, |_, rt| {
        for _ in 0..50 {
            let refused = rt.task("waits", ()).returns(|at, ()| {
                let (first, second) = at.join(|at| at.wait(), |at| at.wait());
                assert!(at.inner_cores() > 1 || at.wait().is_ok(), "the body itself may wait, unless a pool runs it");
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

/// Bodies are suspended while others fork on the same thread, so offers are withdrawn in a different order.
#[test]
fn waiting_and_forking_bodies_may_share_threads() {
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
fn context_that_outlives_its_body_makes_calls_sequentially() {
    let rt = Runtime::builder().compute_units("2:CPU:1").build().unwrap();
    let context = rt.task("leaves", ()).returns(|at, ()| at.clone()).submit().unwrap().get().unwrap();
    assert_eq!(context.join(|_| 1, |_| 2), (1, 2));
    drop(rt);
    assert_eq!(context.join(|_| 1, |_| 2), (1, 2));
}

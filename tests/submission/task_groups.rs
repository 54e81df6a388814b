//! Groups of tasks, which can be waited for separately, have their own failures, and are cancelled as a whole; and
//! timeouts.

use crate::common::{MIXES, builder, failed, for_each_free_mix, for_each_mix, gate, runtime, watched};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg::TaskGroup;
use thalweg::error::FailureReason;
use thalweg::prelude::*;

#[test]
fn group_wait_does_not_wait_for_other_tasks() {
    for units in ["2:CPU:1", "1:CPU:1,1:EMU:1"] {
        for hosts in [false, true] {
            watched(units, move || {
                let rt = builder(units, hosts).build().unwrap();
                let (begins, begun) = channel();
                let (open, opened) = gate();
                let x = rt.data(vec![0u64; 8]);
                std::thread::scope(|threads| {
                    // The gate must not run on the waiting thread, because it would then never open.
                    let gate = rt.task("gate", ()).host(move |_, ()| {
                        begins.send(()).unwrap();
                        opened();
                    });
                    gate.submit().unwrap();
                    let helper = hosts.then(|| threads.spawn(|| rt.wait().unwrap()));
                    begun.recv().unwrap();
                    let group = rt.group();
                    for _ in 0..100 {
                        group.task("add", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
                    }
                    group.wait().unwrap();
                    assert_eq!((group.pending(), rt.read(x.slice(0)).unwrap()), (0, vec![100]));
                    drop(open);
                    helper.into_iter().for_each(|helper| helper.join().unwrap());
                });
                rt.wait().unwrap();
            });
        }
    }
}

#[test]
fn failure_is_reported_by_the_first_group_that_is_waited_for() {
    for_each_mix(|rt| {
        let (one, two) = (rt.group(), rt.group());
        let x = rt.data(vec![0u64; 8]);
        one.task("first", (x.inout(),)).cpu(|_, _| Err("no")).submit().unwrap();
        two.task("skipped", (x.inout(),)).cpu(|_, _| ()).submit().unwrap();
        two.task("skipped too", (x.input(),)).cpu(|_, _| ()).submit().unwrap();
        two.task("second", ()).cpu(|_, ()| panic!("no")).submit().unwrap();
        rt.task("third", ()).cpu(|_, ()| Err("no")).submit().unwrap();
        let mut names = failed(two.wait());
        names.sort();
        assert_eq!(names, ["first", "second"], "each cause is reported once, even if it is in another group");
        assert_eq!(failed(one.wait()), ["first"]);
        assert_eq!((one.wait().is_ok(), two.wait().is_ok()), (true, true));
        assert_eq!(failed(rt.wait()), ["third"], "the other failures were reported already");
        rt.task("skipped", (x.input(),)).cpu(|_, _| ()).group(&one).submit().unwrap();
        assert_eq!(failed(one.wait()), ["first"], "a newly skipped task reports its cause again");
    });
}

#[test]
fn concurrent_wait_for_everything_also_gets_the_failure() {
    watched("both", || {
        let rt = runtime("2:CPU:1");
        let (open, opened) = gate();
        let group = rt.group();
        group
            .task("fails", ())
            .host(move |_, ()| {
                opened();
                Err("no")
            })
            .submit()
            .unwrap();
        std::thread::scope(|threads| {
            let all = threads.spawn(|| failed(rt.wait()));
            let alone = threads.spawn(|| failed(group.wait()));
            while !format!("{rt:?}").contains("waiting: 2") {
                std::thread::yield_now();
            }
            drop(open);
            assert_eq!(
                (all.join().unwrap(), alone.join().unwrap()),
                (vec!["fails".to_owned()], vec!["fails".to_owned()])
            );
        });
    });
}

#[test]
fn cancelled_members_that_have_not_begun_fail_and_drop_captures() {
    for units in MIXES {
        for scheduler in crate::common::SCHEDULERS {
            watched(units, move || {
                let rt = builder(units, false).scheduler(scheduler).build().unwrap();
                let captured = Arc::new(());
                let (x, ran) = (rt.data(vec![0u64; 8]), Arc::new(AtomicUsize::new(0)));
                let (open, opened) = gate();
                rt.task("gate", (x.inout(),))
                    .host(move |_, (x,)| {
                        opened();
                        x[0] = 1
                    })
                    .submit()
                    .unwrap();
                let group = rt.group();
                for n in 0..5 {
                    let (captured, ran) = (captured.clone(), ran.clone());
                    let body = move |_: &thalweg::Context, _: (&mut [u64],)| {
                        let _captured = captured;
                        ran.fetch_add(1, Ordering::Relaxed);
                    };
                    group.task(format!("member {n}"), (x.inout(),)).cpu(body).submit().unwrap();
                }
                group.task("apart", (x.after(),)).cpu(|_, _| unreachable!("cancelled")).submit().unwrap();
                group.cancel();
                drop(open);
                let Err(RunError::Failed(failures)) = group.wait() else { panic!("the group was not cancelled") };
                assert!(failures.iter().all(|failure| matches!(failure.reason(), FailureReason::Cancelled)));
                let mut names: Vec<_> = failures.iter().map(|failure| failure.name()).collect();
                names.sort_unstable();
                assert_eq!(names, ["apart", "member 0"], "the other members are skipped because of these");
                assert_eq!((ran.load(Ordering::Relaxed), Arc::strong_count(&captured)), (0, 1));
                let (name, reason) = crate::common::poison(rt.read(&x));
                assert_eq!((name.as_str(), reason.as_str()), ("member 0", "cancelled"));
                rt.accept(&x).unwrap();
                assert_eq!(rt.read(x.slice(0)).unwrap(), [1]);
                let late = group.task("late", (x.inout(),)).cpu(|_, _| ()).submit();
                assert_eq!(late, Err(SubmitError::Cancelled { task: "late".into() }));
                assert_eq!(group.pending(), 0);
                rt.wait().unwrap();
            });
        }
    }
}

#[test]
fn members_of_a_subgroup_belong_to_both_groups() {
    for_each_mix(|rt| {
        let all = rt.group();
        let (one, two) = (all.group(), all.group());
        let count = Arc::new(AtomicUsize::new(0));
        for group in [&all, &one, &two] {
            for _ in 0..10 {
                let count = count.clone();
                group.task("t", ()).cpu(move |_, ()| _ = count.fetch_add(1, Ordering::Relaxed)).submit().unwrap();
            }
        }
        one.task("fails", ()).cpu(|_, ()| Err("no")).submit().unwrap();
        assert_eq!(failed(all.wait()), ["fails"]);
        assert_eq!((count.load(Ordering::Relaxed), one.pending(), two.pending()), (30, 0, 0));
        assert_eq!(failed(one.wait()), ["fails"]);
        two.wait().unwrap();
        one.cancel();
        assert_eq!((all.is_cancelled(), one.is_cancelled(), two.is_cancelled()), (false, true, false));
        all.cancel();
        assert!(two.is_cancelled() && two.task("t", ()).cpu(|_, ()| ()).submit().is_err());
    });
}

#[test]
fn members_inherit_the_groups_priority_unless_they_set_one() {
    for scheduler in ["stealing", "priority"] {
        watched(scheduler, move || {
            let rt = builder("1:CPU:1", false).scheduler(scheduler).build().unwrap();
            let (order, (open, opened)) = (Arc::new(Mutex::new(Vec::new())), gate());
            let (begins, begun) = channel();
            let gate = rt.task("gate", ()).cpu(move |_, ()| {
                begins.send(()).unwrap();
                opened()
            });
            gate.submit().unwrap();
            begun.recv().unwrap();
            let urgent = rt.group().with_priority(5);
            let note = |name: &'static str| {
                let order = order.clone();
                move |_: &thalweg::Context, ()| order.lock().unwrap().push(name)
            };
            rt.task("", ()).cpu(note("none")).submit().unwrap();
            rt.task("", ()).priority(3).cpu(note("three")).submit().unwrap();
            urgent.task("", ()).cpu(note("group's")).submit().unwrap();
            urgent.task("", ()).cpu(note("own")).priority(7).submit().unwrap();
            rt.task("", ()).priority(1).group(&urgent).cpu(note("one")).submit().unwrap();
            drop(open);
            rt.wait().unwrap();
            assert_eq!(*order.lock().unwrap(), ["own", "group's", "three", "one", "none"]);
        });
    }
}

#[test]
fn group_wait_covers_reductions_and_accumulation() {
    for_each_mix(|rt| {
        let (sum, bins) = (rt.scalar(0.0), rt.data(vec![0u64; 4]));
        let group = rt.group();
        for n in 0..50 {
            group.task("sum", (sum.reduction(Sum),)).cpu(move |_, (sum,)| sum[0] = f64::from(n)).submit().unwrap();
            group.task("count", (bins.accumulate(Sum),)).cpu(|_, (bins,)| bins[1] += 1).submit().unwrap();
            group.task("turn", (bins.commutative(),)).cpu(|_, (bins,)| bins[0] += 1).submit().unwrap();
        }
        group.wait().unwrap();
        assert_eq!(group.pending(), 0);
        assert_eq!((rt.read(&sum).unwrap()[0], rt.read(&bins).unwrap()), (1225.0, vec![50, 50, 0, 0]));
    });
}

#[test]
fn tasks_submitted_by_destructors_of_captures_are_waited_for() {
    struct Submits(Arc<Runtime>, Arc<AtomicUsize>);
    impl Drop for Submits {
        fn drop(&mut self) {
            let count = self.1.clone();
            self.0.task("late", ()).cpu(move |_, ()| _ = count.fetch_add(1, Ordering::Relaxed)).submit().unwrap();
            panic!("the destructor panics as well");
        }
    }
    watched("destructors", || {
        let (rt, count) = (Arc::new(runtime("2:CPU:1")), Arc::new(AtomicUsize::new(0)));
        let group = rt.group();
        for _ in 0..20 {
            let submits = Submits(rt.clone(), count.clone());
            group
                .task("t", ())
                .cpu(move |_, ()| {
                    let _submits = &submits;
                })
                .submit()
                .unwrap();
        }
        let _ = group.wait(); // a body whose captures panic when dropped has failed
        assert_eq!(group.pending(), 0);
        let _ = rt.wait();
        assert_eq!(count.load(Ordering::Relaxed), 20);
    });
}

#[test]
fn body_may_wait_for_other_groups_but_not_its_own() {
    for units in MIXES {
        watched(units, move || {
            let rt: &'static Runtime = Box::leak(Box::new(runtime(units)));
            let group = rt.group();
            let own = group.group();
            let inner = group.clone();
            let body = move |_: &thalweg::Context, ()| {
                let Err(RunError::Refused(refused)) = inner.wait() else {
                    panic!("the wait for the own group must be refused")
                };
                assert!(matches!(&refused, SubmitError::InsideGroup { task } if task == "member"), "{refused}");
                let others = rt.group();
                let count = Arc::new(AtomicUsize::new(0));
                for _ in 0..10 {
                    let count = count.clone();
                    others
                        .task("other", ())
                        .cpu(move |_, ()| _ = count.fetch_add(1, Ordering::Relaxed))
                        .submit()
                        .unwrap();
                }
                others.wait().unwrap();
                assert_eq!(count.load(Ordering::Relaxed), 10);
                inner.cancel();
            };
            own.task("member", ()).host(body).submit().unwrap();
            group.wait().unwrap();
            assert!(own.is_cancelled());
            rt.shutdown().unwrap();
        });
    }
}

#[test]
fn wait_ends_with_its_timeout() {
    for units in MIXES {
        for hosts in [false, true] {
            watched(units, move || {
                let rt = builder(units, hosts).build().unwrap();
                assert!(rt.wait_timeout(Duration::ZERO).unwrap(), "nothing is pending");
                let (open, opened) = gate();
                rt.task("fails", ()).host(|_, ()| Err("no")).submit().unwrap();
                std::thread::scope(|threads| {
                    if !hosts {
                        rt.task("gate", ()).host(move |_, ()| opened()).submit().unwrap();
                        assert!(!rt.wait_timeout(Duration::ZERO).unwrap());
                        assert!(!rt.wait_timeout(Duration::from_millis(5)).unwrap(), "no failure is reported yet");
                        assert!(!threads.spawn(|| rt.wait_timeout(Duration::from_millis(5)).unwrap()).join().unwrap());
                    }
                });
                drop(open);
                assert_eq!(failed(rt.wait_timeout(Duration::MAX).map(drop)), ["fails"]);
                assert!(rt.wait_timeout(Duration::MAX).unwrap());
            });
        }
    }
}

#[test]
fn group_can_be_stored_in_a_struct_and_outlive_its_runtime() {
    struct Request {
        group: TaskGroup,
        x: Data<u64>,
    }
    let rt = runtime("2:CPU:1");
    let request = Request { group: rt.group(), x: rt.data(vec![1; 100]) };
    let request = std::thread::spawn(move || {
        let Request { group, x } = &request;
        group.for_each("double", x.blocks(10).inout()).cpu(|_, x| x.iter_mut().for_each(|x| *x *= 2)).submit().unwrap();
        group.wait().unwrap();
        request
    });
    let Request { group, x } = request.join().unwrap();
    assert_eq!(rt.take(x).unwrap(), [2; 100]);
    drop(rt);
    assert!(matches!(group.task("late", ()).cpu(|_, ()| ()).submit(), Err(SubmitError::ShutDown)));
    group.wait().unwrap();
}

#[test]
fn iterations_of_a_loop_are_members_of_its_group() {
    for_each_mix(|rt| {
        let (x, group) = (rt.data(vec![1u64; 100]), rt.group());
        let fails = |_: &Context, (i, x): (usize, &mut [u64])| {
            if i == 7 {
                Err("no")
            } else {
                x.fill(2);
                Ok(())
            }
        };
        rt.for_each("fails", (0.., x.blocks(10).inout())).group(&group).cpu(fails).submit().unwrap();
        assert_eq!(failed(group.wait()), ["fails"]);
        rt.wait().unwrap();
        group.cancel();
        let refused = group.for_each("late", x.blocks(10).inout()).cpu(|_, _| ()).submit();
        assert!(matches!(refused, Err(SubmitError::Cancelled { .. })));
    });
}

#[test]
fn group_wait_ends_with_its_timeout() {
    for units in MIXES {
        watched(units, move || {
            let rt = builder(units, false).build().unwrap();
            let (group, (open, opened)) = (rt.group(), gate());
            assert!(group.wait_timeout(Duration::ZERO).unwrap(), "nothing is pending");
            group.task("gate", ()).host(move |_, ()| opened()).submit().unwrap();
            let fails = group.task("fails", ()).host(|_, ()| Err("no"));
            fails.submit().unwrap();
            assert!(!group.wait_timeout(Duration::from_millis(5)).unwrap(), "no failure is reported yet");
            drop(open);
            assert_eq!(failed(group.wait_timeout(Duration::MAX).map(drop)), ["fails"]);
        });
    }
}

#[test]
fn group_is_awaited_as_a_future() {
    for_each_mix(|rt| {
        let (inner, outer) = (rt.group(), rt.group());
        inner.task("fails", ()).host(|_, ()| Err("no")).submit().unwrap();
        let (awaited, own) = (inner.wait_async(), outer.clone());
        let task = outer.task("awaits", ()).host_async(move |_, ()| async move {
            assert_eq!(failed(awaited.await), ["fails"]);
            let refused = own.wait_async().await.unwrap_err();
            assert!(
                matches!(refused, RunError::Refused(SubmitError::InsideGroup { .. })),
                "the future would wait for itself"
            );
        });
        task.submit().unwrap();
        outer.wait().unwrap();
    });
}

#[test]
fn group_is_cancelled_when_its_guard_is_dropped() {
    let rt = runtime("1:CPU:1");
    let group = rt.group().cancel_on_drop();
    let (kept, clone) = (rt.group().cancel_on_drop().keep(), group.clone());
    drop(clone.clone());
    assert!(!clone.is_cancelled(), "dropping a clone must not cancel the group");
    drop(group);
    assert_eq!((clone.is_cancelled(), kept.is_cancelled()), (true, false));
}

#[test]
fn groups_made_in_a_body_are_parts_of_its_group() {
    for_each_free_mix(|rt| {
        let (x, all) = (rt.data(vec![1u64; 100]), rt.group());
        let (inner, outer) = (x.clone(), all.clone());
        let parent = all.task("parent", x.weak_inout()).host(move |cx, ()| {
            let group = cx.group();
            let double = |_: &Context, x: &mut [u64]| x.iter_mut().for_each(|x| *x *= 2);
            group.for_each("double", inner.blocks(10).inout()).cpu(double).submit().unwrap();
            group.wait().unwrap();
            std::thread::scope(|threads| {
                let elsewhere =
                    || matches!(cx.group().task("t", ()).cpu(|_, ()| ()).submit(), Err(SubmitError::NoParent { .. }));
                assert!(threads.spawn(elsewhere).join().unwrap());
            });
            assert!(!cx.is_cancelled());
            outer.cancel();
            assert!(cx.is_cancelled() && group.is_cancelled());
            let refused = group.task("late", inner.inout()).cpu(|_, _| ()).submit();
            assert!(matches!(refused, Err(SubmitError::Cancelled { .. })));
        });
        parent.submit().unwrap();
        all.wait().unwrap();
        assert_eq!(rt.read(&x).unwrap(), [2; 100]);
    });
}

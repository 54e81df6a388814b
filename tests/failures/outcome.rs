//! Accesses that provide either a value or the failure because of which it is missing: `outcome` of regions, values,
//! tokens and results. Also the recovery of values and results.

use crate::common::{failed, for_each_mix, gate, poison, runtime, watched};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::error::{FailureReason, TaskFailure};
use thalweg::prelude::*;

pub(super) const N: usize = 64;

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("exit code {0}")]
struct ExitCode(i32);

/// Returns the value, or the name and the exit code of the failed task.
pub(super) fn told<T>(outcome: Result<T, &TaskFailure>) -> Result<T, (String, Option<i32>)> {
    outcome.map_err(|failure| {
        let FailureReason::Returned(error) = failure.reason() else { return (failure.name().to_owned(), None) };
        (failure.name().to_owned(), error.downcast_ref::<ExitCode>().map(|ExitCode(code)| *code))
    })
}

/// Returns the name of the task whose failure caused the missing result.
fn no_result<R: std::fmt::Debug>(result: Pending<R>) -> String {
    match result.get() {
        Err(RunError::NoResult { failure, .. }) => failure.name().to_owned(),
        other => panic!("there should be no result: {other:?}"),
    }
}

pub(super) fn root(name: &str, code: i32) -> (String, Option<i32>) {
    (name.to_owned(), Some(code))
}

pub(super) fn fail(rt: &Runtime, name: &'static str, code: i32, region: Region<'_, u64>) {
    rt.task(name, region.inout()).cpu(move |_, _| Err(ExitCode(code))).submit().unwrap();
}

#[test]
fn outcome_gives_the_value_or_the_first_cause_without_poisoning() {
    for_each_mix(|rt| {
        let (good, bad, out) = (rt.data(vec![7u64; N]), rt.data(vec![7u64; N]), rt.data(vec![0u64; N]));
        rt.task("add", good.inout()).cpu(|_, x| x[0] += 1).submit().unwrap();
        fail(rt, "root", 3, bad.all());
        rt.task("skipped", (bad.input(), good.slice(1..2).inout())).cpu(|_, _| unreachable!()).submit().unwrap();
        rt.task("look", (good.slice(..1).outcome(), bad.outcome(), good.outcome(), out.output()))
            .cpu(|_, (first, bad, all, out)| {
                assert_eq!(told(first).unwrap(), [8]);
                assert_eq!(told(bad).unwrap_err(), root("root", 3));
                assert_eq!(told(all).unwrap_err(), root("root", 3), "only a part of it is poisoned");
                out.fill(9);
            })
            .submit()
            .unwrap();
        assert_eq!(rt.read(&out).unwrap(), [9; N]);
        assert_eq!(failed(rt.wait()), ["root"]);
        assert_eq!(poison(rt.read(&bad)).0, "root", "an outcome must not clear the poison");
        assert_eq!(poison(rt.take(good)).0, "root");
    });
}

#[test]
fn task_with_an_outcome_is_skipped_for_other_poisoned_inputs() {
    for_each_mix(|rt| {
        let (looked, used, out) = (rt.data(vec![1u64; N]), rt.data(vec![1u64; N]), rt.data(vec![1u64; N]));
        fail(rt, "looked", 1, looked.all());
        fail(rt, "used", 2, used.all());
        let ran = Arc::new(AtomicUsize::new(0));
        let count = ran.clone();
        rt.task("skipped", (looked.outcome(), used.input(), out.inout()))
            .cpu(move |_, _| _ = count.fetch_add(1, Ordering::Relaxed))
            .submit()
            .unwrap();
        let reason = rt.task("look", out.outcome()).returns(|_, out| told(out.map(|_| ())).unwrap_err()).now();
        assert_eq!(reason, root("used", 2));
        assert_eq!(ran.load(Ordering::Relaxed), 0);
        assert_eq!(failed(rt.wait()).len(), 2);
    });
}

/// Submits a task and waits for its result.
trait Now<R> {
    fn now(self) -> R;
}

impl<A, F, R> Now<R> for thalweg::TaskBuilder<'_, A, thalweg::Returning<F, thalweg::memory::Always, R>>
where
    A: thalweg::task::Accesses,
    F: for<'c, 'a> FnOnce(&'c Context, <A::Stored as thalweg::memory::AccessList>::Views<'a>) -> R + Send + 'static,
    R: Send + Sync + 'static,
{
    fn now(self) -> R {
        self.submit().unwrap().get().unwrap()
    }
}

#[test]
fn failure_of_a_task_with_an_outcome_is_a_new_cause() {
    for_each_mix(|rt| {
        let (x, y) = (rt.data(vec![1u64; N]), rt.data(vec![1u64; N]));
        fail(rt, "first", 1, x.all());
        rt.task("second", (x.outcome(), y.inout()))
            .cpu(|_, (x, _)| {
                assert_eq!(told(x.map(|_| ())).unwrap_err(), root("first", 1));
                Err(ExitCode(2))
            })
            .submit()
            .unwrap();
        rt.task("third", (y.outcome(), x.outcome(), y.slice(..0).input()))
            .cpu(|_, (y, x, _)| {
                assert_eq!(told(y.map(|_| ())).unwrap_err(), root("second", 2));
                assert_eq!(told(x.map(|_| ())).unwrap_err(), root("first", 1));
            })
            .submit()
            .unwrap();
        let mut failures = failed(rt.wait());
        failures.sort();
        assert_eq!(failures, ["first", "second"]);
    });
}

#[test]
fn chain_of_outcomes_continues_after_every_failure() {
    for_each_mix(|rt| {
        let chain: Vec<_> = (0..20).map(|_| rt.scalar(0u64)).collect();
        for (i, pair) in chain.windows(2).enumerate() {
            rt.task(format!("stage {i}"), (pair[0].outcome(), pair[1].output()))
                .cpu(move |_, (before, after)| {
                    match told(before) {
                        Ok(before) => after[0] = before[0] + 1,
                        Err(cause) => {
                            assert_eq!(cause, root(&format!("stage {}", i - 1), i as i32 - 1));
                            after[0] = 100;
                        }
                    }
                    if i % 7 == 3 { Err(ExitCode(i as i32)) } else { Ok(()) }
                })
                .submit()
                .unwrap();
        }
        assert_eq!(failed(rt.wait()).len(), 3);
        assert_eq!(rt.read(&chain[19]).unwrap()[0], 100, "stage 17 fails, stage 18 begins again");
    });
}

#[test]
fn outcome_of_a_group_with_a_failed_member_is_that_failure() {
    for_each_mix(|rt| {
        let modes = ["commutative", "concurrent", "reduction", "accumulate"];
        for (mode, readers) in modes.into_iter().flat_map(|mode| [(mode, false), (mode, true)]) {
            let x = rt.data(vec![0u64; N]);
            for i in 0..24 {
                let end = move || if i == 5 { Err(ExitCode(5)) } else { Ok(()) };
                let name = format!("member {i}");
                match mode {
                    "commutative" => rt.task(name, x.commutative()).cpu(move |_, _| end()).submit(),
                    "concurrent" => rt.task(name, x.concurrent()).cpu(move |_, _| end()).submit(),
                    "reduction" => rt.task(name, x.reduction(Sum)).cpu(move |_, _| end()).submit(),
                    _ => rt.task(name, x.accumulate(Sum)).cpu(move |_, _| end()).submit(),
                }
                .unwrap();
            }
            if readers {
                rt.task("reader", x.after()).cpu(|_, ()| ()).submit().unwrap();
            }
            let cause = rt.task("look", x.slice(3..9).outcome()).returns(|_, x| told(x.map(|_| ())).unwrap_err());
            assert_eq!(cause.now(), root("member 5", 5), "{mode}");
            assert_eq!(failed(rt.wait()), ["member 5"]);
        }
    });
}

#[test]
fn outcome_of_an_accumulated_region_is_the_sum() {
    for_each_mix(|rt| {
        let x = rt.data(vec![0u64; N]);
        (0..24).for_each(|i| _ = rt.task("add", x.accumulate(Sum)).cpu(move |_, x| x[0] += i).submit().unwrap());
        assert_eq!(rt.task("look", x.outcome()).returns(|_, x| x.unwrap()[0]).now(), 276);
    });
}

#[test]
fn outcome_of_a_value_precedes_the_next_writer() {
    for_each_mix(|rt| {
        let list = rt.value(vec![0u64]);
        let sums: Vec<_> = (1..50)
            .map(|i| {
                rt.task("push", list.inout()).cpu(move |_, list| list.push(i)).submit().unwrap();
                let look = rt.task("look", list.outcome()).returns(|_, list| list.unwrap().iter().sum::<u64>());
                look.submit().unwrap()
            })
            .collect();
        for (i, sum) in (1..).zip(sums) {
            assert_eq!(sum.get().unwrap(), i * (i + 1) / 2);
        }
        rt.task("fails", list.inout()).cpu(|_, _| Err(ExitCode(1))).submit().unwrap();
        let look = rt.task("look", list.outcome()).returns(|_, list| told(list.map(|_| ())));
        assert_eq!(look.now().unwrap_err(), root("fails", 1));
        rt.accept(&list).unwrap();
        assert_eq!(rt.task("look", list.outcome()).returns(|_, list| list.unwrap().len()).now(), 50);
        assert_eq!(failed(rt.wait()), ["fails"]);
        assert_eq!(rt.take(list).unwrap().len(), 50);
    });
}

#[test]
fn values_tokens_and_results_can_be_cleared_and_accepted() {
    for_each_mix(|rt| {
        let (list, token) = (rt.value(vec![1, 2, 3]), rt.token());
        rt.task("value", list.inout()).cpu(|_, _| Err(ExitCode(1))).submit().unwrap();
        rt.task("token", token.inout()).cpu(|_, ()| Err(ExitCode(2))).submit().unwrap();
        let look = rt.task("look", token.outcome()).returns(|_, token| told(token).unwrap_err());
        assert_eq!(look.now(), root("token", 2));
        rt.clear(&list).unwrap();
        rt.accept(&token).unwrap();
        rt.task("push", (list.inout(), token.input())).cpu(|_, (list, ())| list.push(4)).submit().unwrap();
        assert_eq!(rt.take(list).unwrap(), [4]);

        let mut kept = rt.task("kept", ()).try_returns(|_, ()| Ok::<_, ExitCode>(vec![5])).submit().unwrap();
        let mut lost = rt.task("lost", ()).try_returns(|_, ()| Err::<Vec<u64>, _>(ExitCode(3))).submit().unwrap();
        let before = rt.task("look", lost.outcome()).returns(|_, lost| told(lost.cloned())).submit().unwrap();
        let skipped = rt.task("skipped", lost.input()).returns(|_, lost| lost.len()).submit().unwrap();
        rt.clear(&mut kept).unwrap();
        rt.clear(&mut lost).unwrap();
        rt.clear(&mut lost).unwrap();
        let reader = rt.task("reader", (kept.input(), lost.input())).returns(|_, (kept, lost)| (kept[0], lost.len()));
        assert_eq!(reader.now(), (5, 0));
        assert_eq!(before.get().unwrap().unwrap_err(), root("lost", 3));
        assert_eq!(no_result(skipped), "lost");
        assert_eq!((kept.get().unwrap(), lost.get().unwrap()), (vec![5], vec![]));
        let mut failures = failed(rt.wait());
        failures.sort();
        assert_eq!(failures, ["token", "value"], "`get` has reported the failure of `lost`");
    });
}

#[test]
fn after_access_to_a_failed_result_orders_without_poison() {
    for_each_mix(|rt| {
        let (open, opened) = gate();
        let order = rt.value(Vec::new());
        let first = rt.task("first", order.after()).host_try(move || {
            opened();
            Err::<u8, _>(ExitCode(1))
        });
        rt.task("second", (first.after(), order.inout())).cpu(|_, ((), order)| order.push("second")).submit().unwrap();
        rt.task("third", order.inout()).cpu(|_, order| order.push("third")).submit().unwrap();
        open.send(()).unwrap();
        assert_eq!(rt.take(order).unwrap(), ["second", "third"]);
        assert_eq!(no_result(first), "first");
        rt.wait().unwrap(); // `get` has reported the failure
    });
}

/// Submits a task whose body takes no views.
trait Try<'rt, A: thalweg::task::Accesses> {
    fn host_try<R: Send + Sync + 'static>(
        self,
        body: impl FnOnce() -> Result<R, ExitCode> + Send + 'static,
    ) -> Pending<R>;
}

impl<'rt, A: thalweg::task::Accesses> Try<'rt, A> for thalweg::TaskBuilder<'rt, A> {
    fn host_try<R: Send + Sync + 'static>(
        self,
        body: impl FnOnce() -> Result<R, ExitCode> + Send + 'static,
    ) -> Pending<R> {
        self.try_returns(move |_, _| body()).submit().unwrap()
    }
}

#[test]
fn outcome_of_a_region_written_by_children_is_per_child() {
    for_each_mix(|rt| {
        let x = rt.data(vec![1u64; N]);
        let inner = x.clone();
        rt.task("parent", x.weak_inout())
            .cpu(move |at, ()| {
                at.task("good", inner.slice(..32).inout()).cpu(|_, x| x.fill(2)).submit()?;
                at.task("bad", inner.slice(32..).inout()).cpu(|_, _| Err(ExitCode(4))).submit()?;
                // An outcome access between siblings.
                at.task("look", inner.slice(31..33).outcome())
                    .cpu(|_, x| assert_eq!(told(x.map(|_| ())).unwrap_err(), root("bad", 4)))
                    .submit()?;
                Ok::<(), SubmitError>(())
            })
            .submit()
            .unwrap();
        let look = |region: Region<'_, u64>| {
            let task = rt.task("look", region.outcome());
            task.returns(|_, x| told(x.map(<[u64]>::to_vec))).submit().unwrap()
        };
        let (good, bad, both) = (look(x.slice(..32)), look(x.slice(40..)), look(x.all()));
        assert_eq!(good.get().unwrap().unwrap(), [2; 32]);
        assert_eq!(bad.get().unwrap().unwrap_err(), root("bad", 4));
        assert_eq!(both.get().unwrap().unwrap_err(), root("bad", 4));
        assert_eq!(failed(rt.wait()), ["bad"]);
    });
}

#[test]
fn outcome_of_a_cancelled_task_is_a_cancellation() {
    for_each_mix(|rt| {
        let (group, x, y) = (rt.group(), rt.data(vec![1u64; N]), rt.data(vec![1u64; N]));
        let (open, opened) = gate();
        rt.task("before", x.inout()).cpu(move |_, _| opened()).submit().unwrap();
        group.task("given up", (x.input(), y.inout())).cpu(|_, _| ()).submit().unwrap();
        group.cancel();
        let reason = rt.task("look", (y.outcome(), x.outcome())).returns(|_, (y, x)| {
            assert_eq!(x.unwrap(), [1; N]);
            y.map(|_| ()).map_err(|failure| (failure.name().to_owned(), failure.reason().to_string()))
        });
        let reason = reason.submit().unwrap();
        open.send(()).unwrap();
        assert_eq!(reason.get().unwrap(), Err(("given up".to_owned(), "cancelled".to_owned())));
        assert!(rt.wait().is_err());
    });
}

#[test]
fn outcome_works_in_loops_and_scopes() {
    for_each_mix(|rt| {
        let (x, missing) = (rt.data(vec![1u64; N]), Arc::new(AtomicUsize::new(0)));
        fail(rt, "hole", 1, x.slice(10..20));
        let count = missing.clone();
        rt.for_each("look", (0.., x.blocks(8).outcome()))
            .cpu(move |_, (i, x)| match x {
                Ok(x) => assert_eq!(x, [1; 8], "block {i}"),
                Err(failure) => {
                    assert_eq!(failure.name(), "hole");
                    count.fetch_add(1 << i, Ordering::Relaxed);
                }
            })
            .submit()
            .unwrap();
        assert_eq!(failed(rt.wait()), ["hole"]);
        assert_eq!(missing.load(Ordering::Relaxed), 0b110);

        let mut lent = vec![3u64; N];
        let scope = rt.scope(|s| {
            let lent = s.borrow_mut(&mut lent);
            s.task("fails", lent.slice(..2).inout()).cpu(|_, _| Err(ExitCode(1))).submit()?;
            s.task("look", lent.outcome()).cpu(|_, x| assert_eq!(told(x).unwrap_err(), root("fails", 1))).submit()?;
            Ok::<_, SubmitError>(())
        });
        assert!(scope.is_err());

        rt.wait().unwrap();
    });
}

#[test]
fn outcome_of_tiles_is_that_of_the_overlapping_writers() {
    for_each_mix(|rt| {
        let x = rt.zeros::<u64, _>([32, 32]);
        for (i, tile) in x.tiles([8, 8]).iter().enumerate() {
            let task = rt.task(format!("tile {i}"), tile.output());
            task.cpu(move |_, mut x| {
                x.fill(1);
                if i == 5 { Err(ExitCode(5)) } else { Ok(()) }
            })
            .submit()
            .unwrap();
        }
        let look = |region: Region<'_, u64, Ix2>| {
            rt.task("look", region.outcome()).returns(|_, x| told(x.map(|x| x.sum()))).submit().unwrap()
        };
        let (good, face, all) = (look(x.block((8..16, 16..24))), look(x.block((15..16, 0..32))), look(x.all()));
        assert_eq!(good.get().unwrap().unwrap(), 64);
        assert_eq!(face.get().unwrap().unwrap_err(), root("tile 5", 5));
        assert_eq!(all.get().unwrap().unwrap_err(), root("tile 5", 5));
        assert_eq!(failed(rt.wait()), ["tile 5"]);
    });
}

#[test]
fn outcome_after_a_replay_is_that_of_the_recorded_task() {
    for_each_mix(|rt| {
        let (x, y) = (rt.data(vec![1u64; N]), rt.data(vec![1u64; N]));
        let mut step = rt
            .record(|r| {
                r.task("read", y.input()).cpu(|_, _| ()).submit()?;
                let body = |_: &Context, x: &mut [u64]| {
                    if x[0] == 3 {
                        Err(ExitCode(3))
                    } else {
                        x[0] += 1;
                        Ok(())
                    }
                };
                r.task("recorded", x.inout()).cpu(body).submit()
            })
            .unwrap();
        for round in 1..4 {
            step.replay().unwrap();
            let look = rt.task("look", (x.outcome(), y.outcome()));
            let look = look.returns(|_, (x, y)| (told(x.map(|x| x[0])), y.is_ok())).now();
            assert!(look.1);
            match round {
                3 => assert_eq!(look.0.unwrap_err(), root("recorded", 3)),
                _ => assert_eq!(look.0.unwrap(), round + 1),
            }
        }
        rt.clear(&x).unwrap();
        step.replay().unwrap();
        assert_eq!(rt.task("look", x.outcome()).returns(|_, x| x.unwrap()[0]).now(), 1);
        assert_eq!(failed(rt.wait()), ["recorded"]);
    });
}

#[test]
fn outcome_of_data_lost_with_a_device_is_the_loss() {
    for scheduler in ["stealing", "eft", "dynamic"] {
        watched(scheduler, move || {
            for tasks in 0..6 {
                let rt = Runtime::builder()
                    .compute_units("1:CPU:1,1:EMU:1")
                    .scheduler(scheduler)
                    .emulated_devices(move |_| EmulatedDevice::new().lost_after_tasks(tasks))
                    .build()
                    .unwrap();
                let parts: Vec<_> = (0..8).map(|_| rt.data(vec![1u64; N])).collect();
                for part in &parts {
                    rt.task("double", part.inout()).cpu(|_, x| x.iter_mut().for_each(|x| *x *= 2)).submit().unwrap();
                }
                let looks: Vec<_> = parts
                    .iter()
                    .map(|part| {
                        let look = rt.task("look", part.outcome()).returns(|_, x| {
                            x.map(|x| assert_eq!(x, [2; N])).map_err(|failure| failure.reason().to_string())
                        });
                        look.submit().unwrap()
                    })
                    .collect();
                for (look, part) in looks.into_iter().zip(&parts) {
                    match (look.get().expect("a task with an outcome runs"), rt.read(part)) {
                        (Ok(()), Ok(x)) => assert_eq!(x, [2; N]),
                        (Err(reason), Err(RunError::Poisoned(cause))) => assert_eq!(reason, cause.reason().to_string()),
                        (look, read) => panic!("{look:?}, but {read:?}"),
                    }
                }
                let _ = rt.wait();
            }
        });
    }
}

#[test]
fn outcome_of_data_that_cannot_be_copied_is_the_failed_copy() {
    watched("failing copy", || {
        let device = EmulatedDevice::new().failing_copy(0);
        let builder = Runtime::builder().compute_units("1:CPU:1,1:EMU:1");
        let rt = builder.emulated_devices(move |_| device.clone()).build().unwrap();
        let (x, out) = (rt.data(vec![1u64; N]), rt.data(vec![0u64; 1]));
        // The host's replica stays valid.
        rt.task("look", (x.outcome(), out.output()))
            .emulated(|_, (x, out)| out[0] = x.is_err().into())
            .submit()
            .unwrap();
        assert_eq!(rt.read(&out).unwrap(), [1]);
        assert_eq!(rt.read(&x).unwrap(), [1; N]);
        assert_eq!(failed(rt.wait()), ["a copy for look"]);
    });
    watched("failing copy home", || {
        let device = EmulatedDevice::new().failing_copy(0);
        let builder = Runtime::builder().compute_units("1:CPU:1,1:EMU:1");
        let rt = builder.emulated_devices(move |_| device.clone()).build().unwrap();
        let x = rt.data(vec![1u64; N]);
        rt.task("fill", x.output()).emulated(|_, x| x.fill(2)).submit().unwrap();
        let look =
            rt.task("look", x.outcome()).returns(|_, x| x.map(|_| ()).map_err(|failure| failure.name().to_owned()));
        assert_eq!(look.now().unwrap_err(), "a copy for look");
        assert_eq!(rt.read(&x).unwrap(), [2; N], "the device still has the data, and the next copy succeeds");
        assert_eq!(failed(rt.wait()), ["a copy for look"]);
    });
}

#[test]
fn outcome_is_refused_in_recordings_on_devices_and_with_a_write() {
    let rt = runtime("1:CPU:1");
    let x = rt.data(vec![1u64; N]);
    let refused = rt.record(|r| r.task("recorded", x.outcome()).cpu(|_, _| ()).submit()).unwrap_err().to_string();
    assert!(refused.contains("`recorded`") && refused.contains("outcome"), "{refused}");
    let both = rt.task("both", x.outcome()).cpu(|_, _| ()).gpu(|_, _| ()).submit().unwrap_err();
    assert!(matches!(both, SubmitError::OutcomeOnDevice { .. }), "{both}");
    let writes = rt.task("writes", (x.outcome(), x.slice(..1).inout())).cpu(|_, _| ()).submit().unwrap_err();
    assert!(matches!(writes, SubmitError::OverlappingAccesses { .. }), "{writes}");
}

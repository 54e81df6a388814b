//! Recordings: a replay is equivalent to submitting the same tasks again, on every kind of unit.

use crate::common::words;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use thalweg::Explanation;
use thalweg::prelude::*;

type Outcome = Result<(), Box<dyn std::error::Error>>;

const UNITS: [&str; 4] = ["1:CPU:1", "3:CPU:1", "2:CPU:1,1:EMU:1", "1:CPU:1,1:EMU:2"];

fn on(units: &str) -> Runtime {
    Runtime::builder().compute_units(units).build().unwrap()
}

/// A program that mixes all features: tasks on blocks, readers of the whole array, reductions, commutative tasks,
/// values and tokens.
struct Program {
    x: Data<i64>,
    y: Data<i64>,
    sum: Data<i64>,
    any: Data<i64>,
    text: Value<Vec<i64>>,
    token: Token,
    hits: Data<u64>,
}

const LEN: usize = 96;

impl Program {
    fn new(rt: &Runtime) -> Self {
        Self {
            x: rt.data((0..LEN as i64).collect()),
            y: rt.data(vec![1; LEN]),
            sum: rt.scalar(0),
            any: rt.scalar(1),
            text: rt.value(Vec::new()),
            token: rt.token(),
            hits: rt.data(vec![0; 2]),
        }
    }

    fn record(&self, rt: &Runtime, devices: bool) -> Result<Recording, SubmitError> {
        let Self { x, y, sum, any, text, token, hits } = self;
        rt.record(|r| {
            let n = r.parameter("n", 3i64);
            // Groups of earlier replays end here. The groups of this replay end with the last task.
            r.task("open", (sum.inout(), any.inout(), hits.inout())).host(|_, _| ()).submit()?;
            let add = r.for_each("add", (n.input(), x.blocks(16).inout(), y.blocks(16).input()));
            add.cpu(|_, (n, x, y)| x.iter_mut().zip(y).for_each(|(x, y)| *x = (*x * n + y) % 1009)).submit()?;
            for block in x.blocks(24) {
                let part = r.task("sum", (block.input(), sum.reduction(Sum)));
                part.cpu(|_, (x, sum)| sum[0] += x.iter().sum::<i64>()).submit()?;
                let part = r.task("any", (block.input(), any.commutative()));
                part.cpu(|_, (x, any)| any[0] = (any[0] + x[0]) % 1013).priority(1).submit()?;
                let count = r.task("count", (block.input(), hits.concurrent(), token.input()));
                count.host(|_, (x, hits, ())| hits.update((x[0] % 2) as usize, |n| n + 1)).submit()?;
            }
            let shift = r.task("shift", (x.slice(..LEN / 2).input(), y.slice(LEN / 2..).output()));
            let shift = shift.cpu(|_, (x, y)| y.copy_from_slice(x));
            if devices {
                shift.emulated(|_, (x, y)| y.copy_from_slice(x)).submit()?
            } else {
                shift.submit()?
            }
            r.task("note", (sum.input(), any.input(), hits.input(), text.inout(), token.inout()))
                .cpu(|_, (sum, any, _, text, ())| text.push(sum[0] * 10_000 + any[0]))
                .submit()
        })
    }

    /// Computes the same results sequentially.
    fn expected(replays: &[i64]) -> (Vec<i64>, Vec<i64>, Vec<i64>, Vec<u64>) {
        let (mut x, mut y): (Vec<i64>, Vec<i64>) = ((0..LEN as i64).collect(), vec![1; LEN]);
        let (mut sum, mut any, mut text, mut hits) = (0, 1, Vec::new(), vec![0; 2]);
        for n in replays {
            x.iter_mut().zip(&y).for_each(|(x, y)| *x = (*x * n + y) % 1009);
            for part in x.chunks(24) {
                sum += part.iter().sum::<i64>();
                any = (any + part[0]) % 1013;
                hits[(part[0] % 2) as usize] += 1;
            }
            y[LEN / 2..].copy_from_slice(&x[..LEN / 2]);
            text.push(sum * 10_000 + any);
        }
        (x, y, text, hits)
    }
}

#[test]
fn replay_is_equivalent_to_resubmission_on_every_kind_of_unit() -> Outcome {
    for units in UNITS {
        let rt = on(units);
        let program = Program::new(&rt);
        let mut step = program.record(&rt, units.contains("EMU"))?;
        assert_eq!((step.len(), step.is_empty()), (1 + 6 + 3 * 4 + 2, false));
        assert_eq!(rt.read(&program.x)?, (0..LEN as i64).collect::<Vec<_>>(), "recording must not run anything");
        assert_eq!(step.explain(), &Explanation::NotReplayed);
        let replays = [3, 3, 5, 7, 7, 7, 2, 3];
        for n in replays {
            step.set_by_name("n", n)?;
            step.replay()?;
        }
        assert_eq!(step.explain() == &Explanation::Frozen, !units.contains("EMU"), "{}", step.explain());
        let (x, y, text, hits) = Program::expected(&replays);
        assert_eq!(rt.read(&program.x)?, x, "{units}");
        assert_eq!(rt.read(&program.y)?, y, "{units}");
        assert_eq!(rt.read(&program.hits)?, hits, "{units}");
        drop(step);
        assert_eq!(rt.take(program.text)?, text, "{units}");
    }
    Ok(())
}

#[test]
fn tasks_between_replays_are_ordered_with_them() -> Outcome {
    for units in UNITS {
        let rt = on(units);
        let (x, y) = (rt.data(vec![1u64; 64]).named("x"), rt.data(vec![0u64; 64]).named("y"));
        let mut step = rt.record(|r| {
            r.for_each("double", x.blocks(8).inout()).cpu(|_, x| x.iter_mut().for_each(|x| *x *= 2)).submit()?;
            r.for_each("add", (x.blocks(16).input(), y.blocks(16).inout()))
                .cpu(|_, (x, y)| y.iter_mut().zip(x).for_each(|(y, x)| *y += x))
                .submit()
                .map(drop)
        })?;
        let (mut by_hand, mut sum) = (1u64, 0);
        for round in 0..20u64 {
            for _ in 0..round % 4 {
                step.replay()?;
                by_hand *= 2;
                sum += by_hand;
            }
            match round % 3 {
                0 => {
                    rt.task("one", x.inout()).cpu(|_, x| x.iter_mut().for_each(|x| *x = (*x + 1) % 1000)).submit()?;
                    by_hand = (by_hand + 1) % 1000;
                }
                1 => assert_eq!(rt.read(&y)?, [sum; 64], "{units}, round {round}"),
                _ => {}
            }
        }
        assert_eq!((rt.read(&x)?, rt.read(&y)?), (vec![by_hand; 64], vec![sum; 64]), "{units}");
        assert!(rt.statistics().conflicts.is_empty());
        assert_eq!(step.explain() == &Explanation::Frozen, !units.contains("EMU"), "{}", step.explain());
    }
    Ok(())
}

#[test]
fn replay_uses_the_parameters_set_before_it() -> Outcome {
    for units in UNITS {
        let rt = on(units);
        let (gate, x) = (rt.scalar(0u8), rt.value(Vec::new()));
        let (open, opened) = channel();
        let opened = Mutex::new(opened);
        let mut value = None;
        let mut step = rt.record(|r| {
            let value = value.insert(r.parameter("value", "none".to_owned()));
            r.task("push", (gate.input(), value.input(), x.inout()))
                .host(|_, (_, value, x)| x.push(value.clone()))
                .submit()
        })?;
        let value = value.unwrap();
        let wait = rt.task("gate", gate.inout());
        wait.host(move |_, _| opened.lock().unwrap().recv().unwrap()).submit()?;
        for text in ["a", "b", "c"] {
            step.set(&value, text.to_owned())?;
            step.replay()?;
        }
        rt.task("now", (value.input(), x.inout())).host(|_, (value, x)| x.push(value.clone() + "!")).submit()?;
        step.set(&value, "d".to_owned())?;
        open.send(())?;
        step.replay()?;
        drop(step);
        assert_eq!(rt.take(x)?, ["a", "b", "c", "c!", "d"], "{units}");
    }
    Ok(())
}

#[test]
fn failure_in_a_replay_poisons_what_it_would_and_later_replays_run() -> Outcome {
    for units in UNITS {
        let rt = on(units);
        let (x, y, z) = (rt.data(vec![0i32; 8]), rt.data(vec![0i32; 8]), rt.scalar(0));
        let mut fails = None;
        let mut step = rt.record(|r| {
            let fails = fails.insert(r.parameter("fails", usize::MAX));
            r.for_each("fill", (0.., fails.input(), x.blocks(2).output()))
                .cpu(|_, (i, fails, x)| {
                    x.fill(i as i32);
                    if i == *fails { Err("no") } else { Ok(()) }
                })
                .submit()?;
            r.for_each("copy", (x.blocks(2).input(), y.blocks(2).inout()))
                .cpu(|_, (x, y)| y.iter_mut().zip(x).for_each(|(y, x)| *y += x))
                .submit()?;
            r.task("other", z.inout()).cpu(|_, z| z[0] += 1).submit()
        })?;
        let fails = fails.unwrap();
        step.replay()?;
        rt.wait()?;
        step.set(&fails, 2)?;
        step.replay()?;
        let failed = rt.wait().unwrap_err();
        assert!(failed.to_string().contains("fill"), "{failed}");
        assert!(matches!(rt.read(x.slice(4..6)), Err(RunError::Poisoned(_))), "{units}");
        assert!(matches!(rt.read(y.slice(4..6)), Err(RunError::Poisoned(_))), "{units}");
        assert_eq!(rt.read(y.slice(..4))?, [0, 0, 2, 2], "{units}");
        assert_eq!(rt.read(y.slice(6..))?, [6, 6], "{units}");
        // Regions that are overwritten are valid again; regions that are updated are not.
        step.set(&fails, usize::MAX)?;
        step.replay()?;
        step.replay()?;
        rt.wait()?;
        assert_eq!(rt.read(&x)?, [0, 0, 1, 1, 2, 2, 3, 3], "{units}");
        assert!(matches!(rt.read(y.slice(4..6)), Err(RunError::Poisoned(_))), "{units}");
        assert_eq!(rt.read(y.slice(6..))?, [12, 12], "{units}");
        rt.clear(y.slice(4..6))?;
        step.replay()?;
        assert_eq!(rt.read(y.slice(4..))?, [2, 2, 15, 15], "{units}");
        assert_eq!(rt.read(&z)?[0], 5);
    }
    Ok(())
}

#[test]
fn poison_from_outside_skips_only_dependent_recorded_tasks() -> Outcome {
    for units in UNITS {
        let rt = on(units);
        let (x, y) = (rt.data(vec![1i32; 8]), rt.data(vec![1i32; 8]));
        let mut step = rt.record(|r| {
            r.for_each("add", x.blocks(2).inout()).cpu(|_, x| x.iter_mut().for_each(|x| *x += 1)).submit()?;
            r.task("over", x.slice(..2).output()).cpu(|_, x| x.fill(100)).submit()?;
            r.for_each("copy", (x.blocks(2).input(), y.blocks(2).output()))
                .cpu(|_, (x, y)| y.copy_from_slice(x))
                .submit()
                .map(drop)
        })?;
        step.replay()?;
        rt.task("fails", x.slice(..4).inout()).cpu(|_, _| Err("no")).submit()?;
        step.replay()?;
        step.replay()?;
        rt.wait().unwrap_err();
        assert_eq!(rt.read(y.slice(..2))?, [100, 100], "{units}");
        assert!(matches!(rt.read(y.slice(2..4)), Err(RunError::Poisoned(_))), "{units}");
        assert_eq!(rt.read(y.slice(4..))?, [4; 4], "{units}");
        rt.task("mends", x.slice(2..4).output()).cpu(|_, x| x.fill(7)).submit()?;
        step.replay()?;
        assert_eq!(rt.read(&y)?, [100, 100, 8, 8, 5, 5, 5, 5], "{units}");
    }
    Ok(())
}

#[test]
fn taken_data_and_invalid_recordings_are_refused() -> Outcome {
    let rt = on("2:CPU:1");
    let (x, y) = (rt.data(vec![0u64; 8]).named("x"), rt.data(vec![0u64; 8]).named("y"));
    let result = rt.task("one", ()).returns(|_, ()| 1u64).submit()?;
    let refused = rt.record(|r| r.task("uses", (result.input(), x.inout())).cpu(|_, _| ()).submit()).unwrap_err();
    assert!(matches!(&refused, SubmitError::RecordedResult { task } if task == "uses"), "{refused}");
    let refused = rt.record(|r| r.task("out", x.slice(5..9).inout()).cpu(|_, _| ()).submit()).unwrap_err();
    assert!(matches!(refused, SubmitError::OutOfBounds { .. }), "{refused}");
    let refused = rt.record(|r| r.task("twice", (x.inout(), x.input())).cpu(|_, _| ()).submit()).unwrap_err();
    assert!(matches!(refused, SubmitError::OverlappingAccesses { .. }), "{refused}");
    let refused = rt.record(|r| r.task("none", x.inout()).submit()).unwrap_err();
    assert!(matches!(refused, SubmitError::NoBody { .. }), "{refused}");
    let refused =
        rt.record(|r| r.for_each("loop", (x.blocks(2).input(), y.blocks(3).inout())).cpu(|_, _| ()).submit().map(drop));
    assert!(matches!(refused.unwrap_err(), SubmitError::Lengths { .. }));
    let refused = rt.record(|r| {
        let (_n, _m) = (r.parameter("n", 1), r.parameter("n", 2));
        Ok(())
    });
    assert_eq!(
        refused.unwrap_err().to_string(),
        "cannot use parameter `n`: the recording has two parameters of this name"
    );

    let mut own = None;
    let mut step = rt.record(|r| {
        let own = own.insert(r.parameter("n", 1u64));
        r.task("first", (own.input(), x.inout())).cpu(|_, (n, x)| x[0] += n).submit()?;
        r.task("second", y.inout()).cpu(|_, y| y[0] += 1).submit()
    })?;
    let own = own.unwrap();
    let refused = rt.record(|r| r.task("foreign", (own.input(), x.inout())).cpu(|_, _| ()).submit()).unwrap_err();
    assert!(refused.to_string().contains("belongs to another recording"), "{refused}");
    let mut other = rt.record(|_| Ok(()))?;
    assert!(matches!(other.set(&own, 2), Err(SubmitError::Parameter { .. })));
    let refused = step.set_by_name("n", "text").unwrap_err();
    assert_eq!(refused.to_string(), "cannot use parameter `n`: it is a `u64`, not a `&str`");
    other.replay()?; // an empty recording
    step.replay()?;
    assert_eq!(rt.take(y)?[0], 1);
    let refused = step.replay().unwrap_err();
    assert_eq!(
        words(&refused),
        "cannot access data `y` in `second`: it was taken back from the runtime; try registering it again"
    );
    assert_eq!(rt.read(&x)?[0], 1, "a refused replay must not submit anything");
    drop(rt);
    assert_eq!(step.replay().unwrap_err(), SubmitError::ShutDown);
    Ok(())
}

#[test]
fn recording_keeps_its_data_and_bodies_until_it_is_dropped() -> Outcome {
    for units in UNITS {
        let rt = on(units);
        let (said, heard) = channel();
        struct Last(std::sync::mpsc::Sender<&'static str>, &'static str);
        impl Drop for Last {
            fn drop(&mut self) {
                let _ = self.0.send(self.1);
            }
        }
        let (value, captured) = (rt.value(Last(said.clone(), "value")), Last(said, "body"));
        let captured = Arc::new(captured);
        let kept = value.clone();
        let mut step = rt.record(move |r| r.task("uses", kept.inout()).host(move |_, _| _ = &captured).submit())?;
        drop(value);
        step.replay()?;
        step.replay()?;
        rt.wait()?;
        assert!(heard.try_recv().is_err(), "{units}: both must be kept for the next replay");
        step.replay()?;
        drop(step);
        rt.wait()?;
        drop(rt);
        let mut gone: Vec<_> = heard.iter().collect();
        gone.sort_unstable();
        assert_eq!(gone, ["body", "value"], "{units}");
    }
    Ok(())
}

#[test]
fn replay_in_a_body_is_checked_like_a_submission() -> Outcome {
    for units in UNITS {
        let rt = Arc::new(on(units));
        let (x, y) = (rt.scalar(0), rt.scalar(0));
        let step = Arc::new(Mutex::new(rt.record(|r| r.task("add", x.inout()).cpu(|_, x| x[0] += 1).submit())?));
        let (in_body, other) = (step.clone(), step.clone());
        rt.task("holds", x.inout())
            .host(move |_, _| assert!(matches!(in_body.lock().unwrap().replay(), Err(SubmitError::Nested { .. }))))
            .submit()?;
        rt.task("beside", y.inout()).host(move |_, _| other.lock().unwrap().replay()).submit()?;
        rt.wait()?;
        step.lock().unwrap().replay()?;
        assert_eq!(rt.read(&x)?[0], 2, "{units}");
        drop(step);
    }
    Ok(())
}

#[test]
fn threads_may_replay_concurrently() -> Outcome {
    for units in UNITS {
        let rt = on(units);
        let (shared, own): (_, Vec<_>) = (rt.scalar(0u64), (0..4).map(|_| rt.data(vec![0u64; 16])).collect());
        std::thread::scope(|threads| {
            for own in &own {
                let (rt, shared) = (&rt, &shared);
                threads.spawn(move || {
                    let mut step = rt
                        .record(|r| {
                            r.for_each("own", own.blocks(4).inout()).cpu(|_, x| x[0] += 1).submit()?;
                            r.task("shared", (own.input(), shared.inout()))
                                .cpu(|_, (own, x)| x[0] += own[12] % 3)
                                .submit()
                        })
                        .unwrap();
                    for round in 0..50 {
                        step.replay().unwrap();
                        if round % 10 == 0 {
                            assert_eq!(rt.read(own).unwrap()[4], round + 1);
                        }
                    }
                });
            }
        });
        let each: u64 = (1..=50).map(|n| n % 3).sum();
        assert_eq!(rt.read(&shared)?[0], 4 * each, "{units}");
        own.iter().try_for_each(|own| rt.read(own).map(|own| assert_eq!(own[8], 50)))?;
    }
    Ok(())
}

#[test]
fn recording_may_be_wide_and_long() -> Outcome {
    for units in ["1:CPU:1", "2:CPU:1"] {
        let rt = on(units);
        let x = rt.data(vec![1u64; 300]);
        let total = rt.scalar(0u64);
        // The recording has as many writers of parts as readers of the whole, then one writer of the whole, and a long
        // chain after it.
        let mut step = rt.record(|r| {
            r.for_each("add", x.blocks(1).inout()).cpu(|_, x| x[0] += 1).submit()?;
            for _ in 0..300 {
                r.task("look", (x.input(), total.concurrent()))
                    .host(|_, (x, n)| n.update(0, |n| n + x[299]))
                    .submit()?;
            }
            r.task("all", x.inout()).cpu(|_, x| x.iter_mut().for_each(|x| *x += 1)).submit()?;
            for _ in 0..2000 {
                r.task("link", x.slice(7..8).inout()).cpu(|_, x| x[0] += 1).submit()?;
            }
            Ok(())
        })?;
        (0..3).try_for_each(|_| step.replay())?;
        assert_eq!(rt.read(x.slice(6..8))?, [7, 6007], "{units}");
        assert_eq!(rt.read(&total)?[0], 300 * (2 + 4 + 6));
    }
    Ok(())
}

#[test]
fn reductions_and_commutative_turns_are_ordered_in_each_replay() -> Outcome {
    for units in ["1:CPU:1", "3:CPU:1"] {
        let rt = on(units);
        let (x, sum, order) = (rt.data((0..40).map(|n| 0.1 + f64::from(n)).collect()), rt.scalar(0.0), rt.scalar(1.0));
        let mut step = rt.record(|r| {
            r.task("open", (sum.inout(), order.inout())).cpu(|_, _| ()).submit()?;
            for block in x.blocks(1) {
                let task = r.task("add", (block.inout(), sum.reduction(Sum), order.commutative()));
                task.cpu(|_, (x, sum, order)| {
                    sum[0] += x[0];
                    (x[0], order[0]) = (x[0] * 1.01, order[0] + 1.0);
                })
                .submit()?;
            }
            r.task("close", (sum.input(), order.input())).cpu(|_, _| ()).submit()
        })?;
        let (mut by_hand, mut terms) = (0.0, (0..40).map(|n| 0.1 + f64::from(n)).collect::<Vec<_>>());
        for replays in 1..5 {
            (0..replays).try_for_each(|_| step.replay())?;
            for _ in 0..replays {
                terms.iter_mut().for_each(|x| (by_hand, *x) = (by_hand + *x, *x * 1.01));
            }
            assert_eq!(
                rt.read(&sum)?[0].to_bits(),
                f64::to_bits(by_hand),
                "{units}: the sum must be equal bit for bit"
            );
        }
        assert_eq!((rt.read(&order)?[0], step.explain()), (401.0, &Explanation::Frozen));
    }
    Ok(())
}

#[test]
fn body_in_a_frozen_replay_may_only_have_and_wait_for_children() -> Outcome {
    let rt = Arc::new(on("2:CPU:1"));
    let (x, y, seen) = (rt.data(vec![1u64; 8]), rt.scalar(0u64), Arc::new(Mutex::new(Vec::new())));
    let (inner, held, noted) = (rt.clone(), x.clone(), seen.clone());
    let mut step = rt.record(|r| {
        let inner = inner.clone();
        r.task("add", x.inout()).cpu(|_, x| x[0] += 1).submit()?;
        r.task("parent", (x.input(), y.inout()))
            .host(move |cx, (x, y)| {
                let refused = inner.read(&held).unwrap_err();
                assert!(matches!(refused, RunError::Refused(SubmitError::InsideReplay { .. })), "{refused}");
                let (held, noted) = (held.clone(), noted.clone());
                cx.task("child", held.input()).cpu(move |_, x| noted.lock().unwrap().push(x[0])).submit().unwrap();
                y[0] += x[0];
            })
            .submit()?;
        r.task("after", x.inout()).cpu(|_, x| x[0] += 1).submit()
    })?;
    (0..3).try_for_each(|_| step.replay())?;
    assert_eq!(step.explain(), &Explanation::Frozen);
    assert_eq!(rt.read(&y)?[0], 2 + 4 + 6);
    assert_eq!(*seen.lock().unwrap(), [2, 4, 6], "children must read before the tasks after their parent");
    drop(step); // the recording keeps the runtime alive
    Ok(())
}

/// Members of a group do not inherit each other's failures, not even across two replays.
#[test]
fn group_may_extend_over_two_replays() -> Outcome {
    for units in UNITS {
        for mode in ["reduction", "concurrent", "commutative"] {
            let rt = on(units);
            let (s, y) = (rt.scalar(0u64), rt.scalar(0u64));
            let mut step = rt.record(|r| {
                let fails = r.parameter("fails", true);
                macro_rules! member {
                    ($access:expr) => {{
                        let task = r.task("member", (fails.input(), $access, y.output()));
                        task.host(|_, (fails, _, y)| {
                            y[0] = 7;
                            if *fails { Err("as it was told") } else { Ok(()) }
                        })
                        .submit()
                    }};
                }
                match mode {
                    "reduction" => member!(s.reduction(Sum)),
                    "concurrent" => member!(s.concurrent()),
                    _ => member!(s.commutative()),
                }
            })?;
            step.replay()?;
            step.set_by_name("fails", false)?;
            step.replay()?;
            assert!(matches!(step.explain(), Explanation::Resubmitted(_)), "{}", step.explain());
            let failures = rt.wait().unwrap_err().to_string();
            assert!(failures.contains("as it was told"), "{failures}");
            assert_eq!(rt.read(&y)?[0], 7, "{units}, {mode}: the second member must run");
            assert!(rt.read(&s).is_err(), "{units}, {mode}: the output of the first member must be missing");
        }
    }
    Ok(())
}

/// A successful replay clears the poison that an earlier replay has left, regardless of which of the two is noticed
/// first.
#[test]
fn successful_replay_clears_the_poison_of_earlier_ones() -> Outcome {
    for units in UNITS {
        for (fail, succeed) in [(1, 1), (2, 1), (1, 3), (3, 2)] {
            let rt = on(units);
            let x = rt.data(vec![0u64; 8]);
            let mut step = rt.record(|r| {
                let fails = r.parameter("fails", true);
                let task = r.task("write", (fails.input(), x.slice(2..6).output()));
                task.host(|_, (fails, x)| {
                    x.fill(5);
                    if *fails { Err("as it was told") } else { Ok(()) }
                })
                .submit()
            })?;
            for _ in 0..fail {
                step.replay()?;
                assert!(rt.wait().is_err());
            }
            step.set_by_name("fails", false)?;
            for _ in 0..succeed {
                step.replay()?;
                rt.wait()?;
            }
            rt.task("behind", x.inout()).cpu(|_, x| x[0] = 1).submit()?;
            rt.wait()?;
            assert_eq!(rt.take(x)?, [1, 0, 5, 5, 5, 5, 0, 0], "{units}: {fail} failed, {succeed} did not");
        }
    }
    Ok(())
}

#[test]
fn tasks_skipped_in_later_replays_are_counted() -> Outcome {
    for units in UNITS {
        let rt = on(units);
        let x = rt.data(vec![0u64; 10]);
        let mut step = rt.record(|r| {
            r.task("all", x.inout()).cpu(|_, x| x[0] += 1).submit()?;
            r.task("fails", x.slice(2..4).inout()).host(|_, _| Err("always")).submit()
        })?;
        (0..10).try_for_each(|_| step.replay())?;
        let Err(RunError::Failed(failures)) = rt.wait() else { panic!("{units}: no failure was reported") };
        assert_eq!((failures.len(), failures[0].skipped()), (1, 18), "{units}");
    }
    Ok(())
}

#[test]
fn replay_refused_in_a_body_submits_nothing() -> Outcome {
    for units in UNITS {
        let rt = Arc::new(on(units));
        let (x, y) = (rt.scalar(0), rt.scalar(0));
        let mut step = rt.record(|r| {
            r.task("free", y.inout()).cpu(|_, y| y[0] += 1).submit()?;
            r.task("held", x.inout()).cpu(|_, x| x[0] += 1).submit()
        })?;
        let refused = rt.task("holds", x.inout()).returns(move |_, _| step.replay().unwrap_err()).submit()?.get()?;
        assert!(matches!(refused, SubmitError::Nested { .. }), "{refused}");
        assert_eq!((rt.read(&x)?[0], rt.read(&y)?[0]), (0, 0), "{units}");
    }
    Ok(())
}

#[test]
fn taken_data_cannot_be_recorded() -> Outcome {
    let rt = on("1:CPU:1");
    let x = rt.scalar(0);
    let again = x.clone();
    rt.take(x)?;
    let refused = rt.record(|r| r.task("late", again.inout()).cpu(|_, _| ()).submit()).map(drop).unwrap_err();
    assert!(matches!(refused, SubmitError::Taken { .. }), "{refused}");
    Ok(())
}

/// Opens a gate when it is dropped, so that a failing test does not hang.
struct Open(Option<std::sync::mpsc::Sender<()>>);

impl Open {
    fn new() -> (Self, std::sync::mpsc::Receiver<()>) {
        let (open, opened) = std::sync::mpsc::channel();
        (Self(Some(open)), opened)
    }

    fn open(&mut self) {
        self.0 = None;
    }
}

/// Reads `data` repeatedly and returns whether every element always equals `value`.
fn stays(data: &[u64], value: u64) -> bool {
    (0..500).all(|_| {
        std::thread::yield_now();
        std::hint::black_box(data).iter().all(|x| *x == value)
    })
}

/// Parents that read, with children that keep reading after the parents have ended. A long list of parents is combined
/// into a join.
#[test]
fn replay_waits_for_children_of_earlier_readers() -> Outcome {
    for parents in [1, 3, 40] {
        for part in [8..24, 0..64] {
            let rt = on("2:CPU:1");
            let (x, begins) = (rt.data(vec![0u64; 64]), rt.token());
            let mut write =
                rt.record(|r| r.task("writer", x.inout()).cpu(|_, x| x.iter_mut().for_each(|x| *x += 1)).submit())?;
            let (torn, (mut gate, opened)) = (Arc::new(AtomicUsize::new(0)), Open::new());
            rt.task("gate", begins.output()).cpu(move |_, _| _ = opened.recv()).submit()?;
            for _ in 0..parents {
                let (y, torn, part) = (x.clone(), torn.clone(), part.clone());
                rt.task("parent", (x.slice(part.clone()).input(), begins.input()))
                    .cpu(move |cx, _| {
                        let child = cx.task("child", y.slice(part).input());
                        let child =
                            child.cpu(move |_, y| _ = torn.fetch_add(usize::from(!stays(y, 0)), Ordering::Relaxed));
                        child.submit().map(drop)
                    })
                    .submit()?;
            }
            write.replay()?; // no parent has begun yet
            assert_eq!(write.explain(), &Explanation::Frozen);
            gate.open();
            rt.wait()?;
            assert_eq!(torn.load(Ordering::Relaxed), 0, "{parents} parents of {part:?}");
            assert_eq!(rt.read(&x)?, [1; 64]);
        }
    }
    Ok(())
}

/// The children of a recorded task that fails or panics are treated like those of one that succeeds: a successor inside
/// the recording, a task after the replay and the release of the data all come after the children.
#[test]
fn failed_recorded_task_is_followed_after_its_children() -> Outcome {
    for panics in [false, true] {
        for successor_inside in [false, true] {
            let rt = on("2:CPU:1");
            let x = rt.data(vec![7u64; 64]);
            let wrong = Arc::new(AtomicUsize::new(0));
            let (mut gate, opened) = Open::new();
            let (begun, begins) = std::sync::mpsc::channel();
            let (opened, begun) = (Arc::new(Mutex::new(opened)), Mutex::new(begun));
            let (y, counted) = (x.clone(), wrong.clone());
            let mut step = rt.record(|r| {
                r.task("parent", y.clone().input())
                    .cpu(move |cx, _| {
                        let (wrong, begun, opened) = (counted.clone(), begun.lock().unwrap().clone(), opened.clone());
                        cx.task("child", y.input())
                            .cpu(move |_, y| {
                                begun.send(()).unwrap();
                                let _ = opened.lock().unwrap().recv(); // until a successor is submitted
                                wrong.fetch_add(usize::from(!stays(y, 7)), Ordering::Relaxed);
                            })
                            .submit()?;
                        assert!(!panics, "as it was told");
                        Err::<(), Box<dyn std::error::Error + Send + Sync>>("as it was told".into())
                    })
                    .submit()?;
                match successor_inside {
                    true => r.task("writer", x.output()).cpu(|_, x| x.fill(8)).submit(),
                    false => Ok(()),
                }
            })?;
            step.replay()?;
            assert_eq!(step.explain(), &Explanation::Frozen);
            begins.recv()?;
            if !successor_inside {
                rt.task("writer", x.output()).cpu(|_, x| x.fill(8)).submit()?;
            }
            gate.open();
            assert!(rt.wait().is_err());
            assert_eq!(wrong.load(Ordering::Relaxed), 0);
            assert_eq!(rt.read(&x)?, [8; 64]);
        }
    }
    Ok(())
}

/// The children of one round do not affect the next round, neither through their failures nor through their reads.
#[test]
fn failures_of_children_are_reported_in_their_own_replay_only() -> Outcome {
    let rt = on("2:CPU:1");
    let (x, round) = (rt.scalar(1u64), Arc::new(AtomicUsize::new(0)));
    let (told, seen) = (Arc::new(Mutex::new(Vec::new())), round.clone());
    let (held, noted) = (x.clone(), told.clone());
    let mut step = rt.record(|r| {
        r.task("parent", x.input())
            .cpu(move |cx, _| {
                let fails = seen.load(Ordering::Relaxed) == 0;
                let child = cx.task("child", held.input());
                child.cpu(move |_, _| if fails { Err("as it was told") } else { Ok(()) }).submit().unwrap();
                if !fails {
                    noted.lock().unwrap().push(cx.wait().is_ok());
                }
            })
            .submit()
    })?;
    for number in 0..3 {
        round.store(number, Ordering::Relaxed);
        step.replay()?;
        assert_eq!(rt.wait().is_err(), number == 0);
    }
    assert_eq!(*told.lock().unwrap(), [true, true]);
    Ok(())
}

/// A task builder that outlives the body in which it was made.
#[test]
fn child_submitted_after_the_body_of_a_recorded_task_is_refused() -> Outcome {
    let rt = on("2:CPU:1");
    let x: &'static Data<u64> = Box::leak(Box::new(rt.data(vec![1u64; 8])));
    let (send, late) = std::sync::mpsc::channel();
    let send = Mutex::new(send);
    let mut step = rt.record(|r| {
        r.task("parent", x.input())
            .cpu(move |cx, _| {
                cx.task("child", x.input()).cpu(|_, _| ()).submit().unwrap();
                let late: &'static Context = Box::leak(Box::new(cx.clone()));
                send.lock().unwrap().send(late.task("late", x.input())).unwrap();
            })
            .submit()
    })?;
    for _ in 0..3 {
        step.replay()?;
        rt.wait()?;
        let refused = late.recv()?.cpu(|_, _| ()).submit().unwrap_err();
        assert!(matches!(refused, SubmitError::NoParent { .. }), "{refused}");
    }
    Ok(())
}

/// In a replay, the body of a recorded task or of its child must not wait for a later task of the round or for a task
/// after the replay, so every kind of such wait is refused. If the same tasks are submitted one by one, these waits
/// succeed. Waits for descendants of the same recorded task are allowed in both cases.
#[test]
fn waits_inside_a_replay_are_refused_except_for_own_children() {
    crate::common::watched("waits inside a replay", || wait_inside_replays().unwrap());
}

fn wait_inside_replays() -> Outcome {
    for in_child in [false, true] {
        for frozen in [false, true] {
            let rt = Arc::new(if frozen {
                on("2:CPU:1")
            } else {
                Runtime::builder().compute_units("2:CPU:1").scheduler("dynamic").build()?
            });
            let (x, y, value) = (rt.scalar(1u64), rt.scalar(0u64), rt.value(0u64));
            // This task comes after the replay because of its input.
            let (send, receive) = std::sync::mpsc::channel::<(TaskHandle, Pending<u64>, Pending<u64>)>();
            let (receive, seen) = (Arc::new(Mutex::new(receive)), Arc::new(Mutex::new(Vec::new())));
            let (inner, held, later, later_value) = (rt.clone(), x.clone(), y.clone(), value.clone());
            let noted = seen.clone();
            let mut step = rt.record(|r| {
                let waits = move |cx: &Context| {
                    let (handle, result, used) = receive.lock().unwrap().recv().unwrap();
                    let refused = |error: RunError| match error {
                        RunError::Refused(SubmitError::InsideReplay { call }) => call.to_owned(),
                        other => other.to_string(),
                    };
                    let mut all = vec![
                        inner.read(&later).map_or_else(refused, |y| y[0].to_string()),
                        inner.read_value(&later_value, |y| *y).map_or_else(refused, |y| y.to_string()),
                        inner.fetch(&later, SpaceId::HOST).map_or_else(refused, |()| "done".into()),
                        handle.wait().map_or_else(refused, |()| "done".into()),
                        inner.scope(|_| 3).map_or_else(refused, |three| three.to_string()),
                        inner.group().wait().map_or_else(refused, |()| "done".into()),
                        result.get().map_or_else(refused, |y| y.to_string()),
                    ];
                    let child = cx.task("uses", used.input()).cpu(|_, _| ()).submit();
                    all.push(child.map_or_else(|error| refused(error.into()), |_| "done".into()));
                    // Descendants of the same recorded task.
                    let own = cx.task("own", ()).returns(|_, ()| 5u64).submit().unwrap();
                    let next = cx.task("next", own.input()).returns(|_, own| own + 1).submit().unwrap();
                    let third = cx.task("third", ()).cpu(|_, ()| ()).submit_handle().unwrap();
                    third.wait().unwrap();
                    all.push((next.get().unwrap() + own.get().unwrap()).to_string());
                    cx.wait().unwrap();
                    noted.lock().unwrap().push(all);
                };
                let waits = Arc::new(waits);
                r.task("parent", x.input())
                    .cpu(move |cx, _| match in_child {
                        false => waits(cx),
                        true => {
                            let waits = waits.clone();
                            cx.task("child", held.input()).cpu(move |cx, _| waits(cx)).submit().unwrap();
                        }
                    })
                    .submit()?;
                r.task("later", (y.inout(), value.inout()))
                    .cpu(|_, (y, value)| {
                        y[0] += 1;
                        *value += 1;
                    })
                    .submit()
            })?;
            for _ in 0..2 {
                step.replay()?;
                assert_eq!(step.explain() == &Explanation::Frozen, frozen);
                let after = rt.task("after", y.input()).cpu(|_, _| ()).submit_handle()?;
                let results = [0, 1].map(|_| rt.task("after", y.input()).returns(|_, y| y[0]).submit());
                let [first, second] = results;
                send.send((after, first?, second?))?;
                rt.wait()?;
            }
            let calls = ["read", "read_value", "fetch", "TaskHandle::wait", "scope", "wait", "get", "submit", "11"];
            for (round, found) in (1..).zip(&*seen.lock().unwrap()) {
                let n = round.to_string();
                let values = [&n, &n, "done", "done", "3", "done", &n, "done", "11"];
                assert_eq!(found, if frozen { &calls } else { &values });
            }
            assert_eq!(seen.lock().unwrap().len(), 2);
            drop(step); // the recording keeps the runtime alive
        }
    }
    Ok(())
}

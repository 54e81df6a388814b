//! Recordings: a replay is equivalent to submitting the same tasks again, on every kind of unit.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use thalweg::Explanation;
use thalweg::prelude::*;

pub(crate) type Outcome = Result<(), Box<dyn std::error::Error>>;

pub(crate) const UNITS: [&str; 4] = ["1:CPU:1", "3:CPU:1", "2:CPU:1,1:EMU:1", "1:CPU:1,1:EMU:2"];

pub(crate) fn on(units: &str) -> Runtime {
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

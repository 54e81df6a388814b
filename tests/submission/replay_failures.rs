//! Failures in replays, poison from outside, and recordings that are refused.

use super::replay::{Outcome, UNITS, on};
use crate::common::words;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use thalweg::prelude::*;

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
fn taken_data_cannot_be_recorded() -> Outcome {
    let rt = on("1:CPU:1");
    let x = rt.scalar(0);
    let again = x.clone();
    rt.take(x)?;
    let refused = rt.record(|r| r.task("late", again.inout()).cpu(|_, _| ()).submit()).map(drop).unwrap_err();
    assert!(matches!(refused, SubmitError::Taken { .. }), "{refused}");
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

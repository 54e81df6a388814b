//! Loops of recordings, on every kind of unit: by frozen graphs, and by tasks.

use super::replay::{Outcome, UNITS, on};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::Explanation;
use thalweg::prelude::*;

/// Records a task that halves `x` and stores it in `size`, and a task that counts iterations.
fn halve(rt: &Runtime, x: &Data<f64>, size: &Data<f64>, count: &Data<u32>) -> Result<Recording, SubmitError> {
    rt.record(|r| {
        let by = r.parameter("by", 2.0);
        r.task("halve", (by.input(), x.inout(), size.output()))
            .cpu(|_, (by, x, size)| (x[0], size[0]) = (x[0] / by, x[0] / by))
            .submit()?;
        r.task("count", count.inout()).cpu(|_, count| count[0] += 1).submit()
    })
}

#[test]
fn loop_ends_when_its_number_is_small_or_after_all_iterations() -> Outcome {
    for units in UNITS {
        let rt = on(units);
        let (x, size, count) = (rt.scalar(1024.0), rt.scalar(0.0), rt.scalar(0));
        let mut halve = halve(&rt, &x, &size, &count)?;
        halve.repeat_until(&size, 16.0, 100)?;
        assert_eq!((rt.read(&x)?[0], rt.read(&count)?[0]), (16.0, 6), "{units}");
        halve.repeat_until(&size, 16.0, 100)?;
        assert_eq!((rt.read(&x)?[0], rt.read(&count)?[0]), (8.0, 7), "{units}: the first iteration always takes place");
        halve.repeat_until(&size, 0.0, 3)?;
        halve.repeat_until(&size, 0.0, 0)?;
        halve.repeat(0)?;
        rt.wait()?;
        assert_eq!((rt.read(&x)?[0], rt.read(&count)?[0]), (1.0, 10), "{units}");
        halve.repeat(2)?;
        halve.replay()?;
        rt.wait()?;
        assert_eq!((rt.read(&x)?[0], rt.read(&count)?[0]), (0.125, 13), "{units}");
        rt.task("spoil", x.output()).cpu(|_, x| x[0] = f64::NAN).submit()?;
        halve.repeat_until(&size, 0.0, 100)?;
        assert_eq!(rt.read(&count)?[0], 14, "{units}: NaN ends a loop");
    }
    Ok(())
}

#[test]
fn loop_keeps_the_parameters_of_its_submission() -> Outcome {
    for units in UNITS {
        let rt = on(units);
        let (x, size, count) = (rt.scalar(6561.0), rt.scalar(0.0), rt.scalar(0));
        let mut halve = halve(&rt, &x, &size, &count)?;
        halve.set_by_name("by", 3.0)?;
        halve.repeat_until(&size, 1.0, 100)?;
        halve.set_by_name("by", 0.5)?;
        rt.wait()?;
        assert_eq!((rt.read(&x)?[0], rt.read(&count)?[0]), (1.0, 8), "{units}");
        halve.replay()?;
        assert_eq!(rt.read(&x)?[0], 2.0, "{units}");
    }
    Ok(())
}

#[test]
fn failed_iteration_ends_its_loop_and_leaves_nothing_behind() -> Outcome {
    for units in UNITS {
        let rt = on(units);
        let (x, y, left, other) = (rt.scalar(0), rt.scalar(0), rt.scalar(9), rt.scalar(5));
        let calls = Arc::new(AtomicUsize::new(0));
        let called = calls.clone();
        let mut step = rt.record(|r| {
            let fails = move |_: &Context, x: &mut [i32]| {
                x[0] += 1;
                if called.fetch_add(1, Ordering::Relaxed) == 2 { Err("no luck") } else { Ok(()) }
            };
            r.task("fails", x.inout()).cpu(fails).submit()?;
            r.task("good", (other.input(), y.inout(), left.inout()))
                .cpu(|_, (other, y, left)| (y[0], left[0]) = (y[0] + other[0], left[0] - 1))
                .submit()
        })?;
        step.repeat_until(&left, 0, 100)?;
        let failed = rt.wait().unwrap_err().to_string();
        assert!(failed.contains("`fails`") && failed.contains("no luck"), "{units}: {failed}");
        assert_eq!(calls.load(Ordering::Relaxed), 3, "{units}");
        for missing in [&x, &y, &left] {
            assert!(matches!(rt.read(missing), Err(RunError::Poisoned(_))), "{units}");
        }
        assert_eq!(rt.read(&other)?[0], 5, "{units}");
        // A task whose input is missing is skipped, which ends a loop as well.
        step.repeat_until(&left, 0, 100)?;
        rt.wait()?;
        assert_eq!(calls.load(Ordering::Relaxed), 3, "{units}");
        for (lost, value) in [(&x, 1), (&y, 2), (&left, 3)] {
            rt.task("mend", lost.output()).cpu(move |_, x| x[0] = value).submit()?;
        }
        step.repeat_until(&left, 0, 100)?;
        rt.wait()?;
        assert_eq!((rt.read(&x)?[0], rt.read(&y)?[0], rt.read(&left)?[0]), (4, 17, 0), "{units}");
    }
    Ok(())
}

#[test]
fn loop_is_ordered_with_the_tasks_around_it() -> Outcome {
    for units in UNITS {
        let rt = on(units);
        let (x, left, seen) = (rt.data(vec![1u64; 64]), rt.scalar(0), rt.scalar(0));
        let mut step = rt.record(|r| {
            r.for_each("add", x.blocks(16).inout()).cpu(|_, x| x.iter_mut().for_each(|x| *x += 1)).submit()?;
            r.task("left", left.inout()).cpu(|_, left| left[0] -= 1).submit()
        })?;
        let mut expected = 0;
        for round in 1..20 {
            rt.task("left", left.output()).cpu(move |_, left| left[0] = round % 5 + 1).submit()?;
            step.repeat_until(&left, 0, 100)?;
            rt.task("look", (x.input(), seen.inout())).cpu(|_, (x, seen)| seen[0] += x[63]).submit()?;
            expected += 1 + (1..=round).map(|round| round as u64 % 5 + 1).sum::<u64>();
        }
        rt.wait()?;
        assert_eq!(rt.read(&seen)?[0], expected, "{units}");
    }
    Ok(())
}

/// Tasks whose reduction may continue from one iteration into the next are not frozen.
#[test]
fn loop_of_tasks_that_are_resolved_again_matches() -> Outcome {
    let rt = on("2:CPU:1");
    let (sum, left) = (rt.scalar(0), rt.scalar(7));
    let mut step = rt.record(|r| {
        for n in 1..4 {
            r.task("add", sum.reduction(Sum)).cpu(move |_, sum| sum[0] += n).submit()?;
        }
        r.task("left", left.inout()).cpu(|_, left| left[0] -= 1).submit()
    })?;
    step.repeat_until(&left, 0, 100)?;
    assert!(matches!(step.explain(), Explanation::Resubmitted(_)));
    rt.wait()?;
    assert_eq!((rt.read(&sum)?[0], rt.read(&left)?[0]), (42, 0));
    Ok(())
}

#[test]
fn new_instances_begin_in_each_iteration() -> Outcome {
    for units in UNITS {
        let rt = on(units);
        let (x, space) = (rt.data(vec![0; 4]), IterationSpace::new("parts", vec![1.0; 4]));
        let mut step = rt.record(|r| {
            r.begin(&space);
            r.for_each("add", x.blocks(1).inout()).cpu(|_, x| x[0] += 1).at(&space).submit().map(drop)
        })?;
        step.repeat(5)?;
        rt.wait()?;
        assert_eq!((space.instances(), rt.read(&x)?), (5, vec![5; 4]), "{units}");
    }
    Ok(())
}

#[test]
fn unsuitable_conditions_are_refused() -> Outcome {
    let (rt, stranger) = (on("1:CPU:1"), on("1:CPU:1"));
    let (x, many, unwritten) = (rt.scalar(1), rt.data(vec![0; 2]).named("many"), rt.scalar(1));
    let mut step = rt.record(|r| r.task("t", (x.inout(), many.inout(), unwritten.input())).cpu(|_, _| ()).submit())?;
    let refusal = |refused: Result<(), SubmitError>| refused.unwrap_err().to_string();
    let refused = refusal(step.repeat_until(&many, 0, 1));
    let expected = "data `many` does not have one element; try a data object with one, as `rt.scalar` makes";
    assert_eq!(refused, format!("cannot repeat a recording: {expected}"));
    assert!(refusal(step.repeat_until(&unwritten, 0, 1)).contains("is written by no recorded task"));
    assert!(refusal(step.repeat_until(&stranger.scalar(0), 0, 1)).contains("another runtime"));
    let mut step = rt.record(|r| r.task("add", x.accumulate(Sum)).cpu(|_, x| x[0] += 1).submit())?;
    assert!(refusal(step.repeat(2)).contains("task `add` accumulates into data 0, which iterations share"));
    Ok(())
}

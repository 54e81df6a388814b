//! Bodies that are run again when they fail: each run finds what the first one found.

use crate::common::{failed, for_each_mix, runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use thalweg::prelude::*;

/// Says of each run whether it is among the first so many, which are to fail.
fn failing(times: u32) -> impl Fn() -> bool + Clone + Send {
    let runs = Arc::new(AtomicU32::new(0));
    move || runs.fetch_add(1, Ordering::Relaxed) < times
}

#[test]
fn a_body_that_fails_is_run_again_on_what_it_found() {
    for_each_mix(|rt| {
        for times in 0..4 {
            let x = rt.array(ndarray::Array2::from_elem((6, 7), 1u64));
            let (y, z, sum) = (rt.data(vec![1u64; 9]), rt.data(vec![0u64; 9]), rt.scalar(10.0));
            let fails = failing(times);
            let all = (
                x.block((1..4, 2..6)).inout(),
                y.slice(3..5).commutative(),
                z.output(),
                sum.reduction(Sum),
                y.slice(0).input(),
            );
            rt.task("t", all)
                .retries(3)
                .cpu(move |_, (mut x, y, z, sum, one)| {
                    x *= 2;
                    y.iter_mut().for_each(|y| *y *= 3);
                    z.fill(x[[0, 0]] + y[0] + one[0]);
                    sum[0] += 5.0;
                    match fails() {
                        true if z[0] % 2 == 0 => Err("again"),
                        true => panic!("again"),
                        false => Ok(()),
                    }
                })
                .submit()
                .unwrap();
            let mut expected = ndarray::Array2::from_elem((6, 7), 1u64);
            expected.slice_mut(ndarray::s![1..4, 2..6]).fill(2);
            assert_eq!(rt.take(x).unwrap(), expected, "{times}");
            assert_eq!(rt.take(y).unwrap(), [1, 1, 1, 3, 3, 1, 1, 1, 1]);
            assert_eq!((rt.take(z).unwrap(), rt.read_scalar(&sum).unwrap()), (vec![6; 9], 15.0));
        }
        rt.wait().unwrap();
    });
}

#[test]
fn the_last_failure_is_the_tasks() {
    for_each_mix(|rt| {
        let (x, runs) = (rt.data(vec![1u64; 4]), Arc::new(AtomicU32::new(0)));
        let count = runs.clone();
        let body = move |_: &thalweg::Context, (x,): (&mut [u64],)| {
            x[0] += 1;
            Err::<(), _>(format!("run {}", count.fetch_add(1, Ordering::Relaxed)))
        };
        rt.task("fails", (x.inout(),)).retries(4).cpu(body).submit().unwrap();
        rt.task("panics", ()).retries(1).host(|_, ()| panic!("always")).submit().unwrap();
        let Err(RunError::Failed(failures)) = rt.wait() else { panic!("both fail") };
        let mut words: Vec<_> = failures.iter().map(|failure| failure.reason().to_string()).collect();
        words.sort();
        assert_eq!(words, ["failed: run 4", "panicked: always"]);
        assert_eq!(runs.load(Ordering::Relaxed), 5);
        rt.accept(&x).unwrap();
        assert_eq!(rt.read(&x).unwrap(), [2, 1, 1, 1], "what the last run left");
    });
}

#[test]
fn a_body_without_retries_left_is_run_once() {
    let rt = runtime("1:CPU:1");
    let runs = Arc::new(AtomicU32::new(0));
    let count = runs.clone();
    let body = move |_: &thalweg::Context, ()| {
        count.fetch_add(1, Ordering::Relaxed);
        Err("no")
    };
    rt.task("once", ()).retries(0).cpu(body).submit().unwrap();
    assert_eq!(failed(rt.wait()), ["once"]);
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[test]
fn accesses_that_cannot_be_taken_back_are_refused() {
    let rt = runtime("2:CPU:1");
    let (x, rows) = (rt.data(vec![0u64; 4]).named("x"), rt.zeros::<u64, _>([2, 2]));
    let refused = [
        rt.task("t", (rows.inout(), x.concurrent())).retries(1).cpu(|_, _| ()).submit().unwrap_err(),
        rt.task("t", (x.slice(1..).accumulate(Sum),)).retries(1).cpu(|_, _| ()).submit().unwrap_err(),
        rt.task("t", vec![x.concurrent()]).retries(1).cpu(|_, _| ()).submit().unwrap_err(),
        rt.task("t", (x.weak_inout(),)).retries(1).cpu(|_, _| ()).submit().unwrap_err(),
    ];
    for (error, region) in
        refused.iter().zip(["[0..4] (concurrent)", "[1..4] (accumulate)", "[0..4] (concurrent)", "[0..4] (weak inout)"])
    {
        assert!(matches!(error, SubmitError::Retries { .. }), "{error}");
        let words = error.to_string();
        assert!(words.contains(region) && words.contains("data `x`") && words.contains("; try"), "{words}");
    }
    rt.wait().unwrap();
}

#[test]
fn lists_of_accesses_are_put_back_one_by_one() {
    for_each_mix(|rt| {
        let x = rt.data((0..20u64).collect());
        let parts: Vec<_> = blocks(20, 3).map(|part| (x.slice(part).inout(), x.slice(0..0).input())).collect();
        let fails = failing(2);
        rt.task("t", (parts, x.slice(20..20).inout()))
            .retries(2)
            .cpu(move |_, (parts, _)| {
                parts.into_iter().for_each(|(part, _)| part.iter_mut().for_each(|x| *x += 100));
                if fails() { Err("again") } else { Ok(()) }
            })
            .submit()
            .unwrap();
        assert_eq!(rt.take(x).unwrap(), (100..120).collect::<Vec<u64>>());
    });
}

#[test]
fn retries_in_groups_and_scopes() {
    for_each_mix(|rt| {
        let mut square = ndarray::Array2::from_elem((5, 6), 1u64);
        let fails = failing(1);
        rt.scope(|s| {
            let x = s.borrow_array_mut(square.slice_mut(ndarray::s![1..4, 1..5])).unwrap();
            s.task("t", (x.inout(),))
                .retries(1)
                .cpu(|_, (mut x,)| {
                    x += 1;
                    if fails() { Err("again") } else { Ok(()) }
                })
                .submit()
                .unwrap();
        })
        .unwrap();
        assert_eq!((square.sum(), square[[1, 1]]), (42, 2));
        let (group, fails) = (rt.group(), failing(3));
        group.task("t", ()).retries(2).cpu(move |_, ()| if fails() { Err("no") } else { Ok(()) }).submit().unwrap();
        assert_eq!(failed(group.wait()), ["t"]);
    });
}

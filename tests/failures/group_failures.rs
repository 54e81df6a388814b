//! Failures of members that have finished before others come: a group keeps them as long as its value can be used,
//! however long its lists get and whatever takes their place.

use crate::common::{failed, runtime};
use thalweg::prelude::*;

/// More than any list of a history holds before it is shortened.
const MANY: usize = 50;

fn member(rt: &Runtime, x: &Data<u64>, fails: bool) {
    let body = move |_: &thalweg::Context, (x,): (&mut [u64],)| {
        x[0] += 1;
        if fails { Err("as it was told") } else { Ok(()) }
    };
    rt.task("member", (x.commutative(),)).cpu(body).submit().unwrap();
}

/// Whether a reader of `x` was skipped.
fn reader_is_skipped(rt: &Runtime, x: &Data<u64>) -> bool {
    rt.read(x).is_err()
}

#[test]
fn a_failed_member_is_not_forgotten_when_the_group_gets_long() {
    let rt = runtime("2:CPU:1");
    let x = rt.scalar(0u64);
    member(&rt, &x, false);
    member(&rt, &x, true);
    assert_eq!(failed(rt.wait()), ["member"]);
    (0..MANY).for_each(|_| member(&rt, &x, false));
    rt.wait().unwrap();
    assert!(reader_is_skipped(&rt, &x));
}

#[test]
fn a_failed_member_is_not_forgotten_when_another_group_follows_a_long_one() {
    let rt = runtime("2:CPU:1");
    let x = rt.scalar(0u64);
    for fails in [false, true] {
        for i in 0..12 {
            member(&rt, &x, fails && i == 3);
        }
        match fails {
            true => assert_eq!(failed(rt.wait()), ["member"]),
            false => rt.wait().unwrap(),
        }
    }
    rt.task("sum", (x.reduction(Sum),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
    rt.task("sum", (x.reduction(Sum),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
    assert!(reader_is_skipped(&rt, &x));
}

#[test]
fn every_member_inherits_the_failure_of_what_the_group_came_after() {
    let rt = runtime("2:CPU:1");
    let (x, ran) = (rt.scalar(0u64), rt.scalar(0u64));
    rt.task("writer", (x.inout(),)).cpu(|_, _| Err("as it was told")).submit().unwrap();
    assert_eq!(failed(rt.wait()), ["writer"]);
    for _ in 0..5 {
        rt.task("member", (x.commutative(), ran.commutative())).cpu(|_, (_, ran)| ran[0] += 1).submit().unwrap();
    }
    rt.task("count", (ran.after(),)).cpu(|_, _| ()).submit().unwrap();
    let _ = rt.wait(); // the failure was reported
    rt.accept(&ran).unwrap(); // those that were skipped would have updated it
    assert_eq!(rt.read_scalar(&ran).unwrap(), 0, "a member used what the writer should have written");
}

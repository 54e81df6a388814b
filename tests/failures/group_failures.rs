//! Failures of group members that end before later members are submitted. The group remembers these failures as long as
//! its value can be used, however often its lists are shortened or replaced.

use crate::common::{failed, runtime};
use thalweg::prelude::*;

/// More entries than any list in a history has before it is shortened.
const MANY: usize = 50;

fn member(rt: &Runtime, x: &Data<u64>, fails: bool) {
    let body = move |_: &thalweg::Context, (x,): (&mut [u64],)| {
        x[0] += 1;
        if fails { Err("as it was told") } else { Ok(()) }
    };
    rt.task("member", (x.commutative(),)).cpu(body).submit().unwrap();
}

/// Returns whether a read of `x` is refused because `x` is poisoned.
fn reader_is_skipped(rt: &Runtime, x: &Data<u64>) -> bool {
    rt.read(x).is_err()
}

#[test]
fn failed_member_is_remembered_when_the_group_grows() {
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
fn failed_member_is_remembered_when_another_group_follows() {
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
fn member_inherits_the_failure_of_the_groups_predecessor() {
    let rt = runtime("2:CPU:1");
    let (x, ran) = (rt.scalar(0u64), rt.scalar(0u64));
    rt.task("writer", (x.inout(),)).cpu(|_, _| Err("as it was told")).submit().unwrap();
    assert_eq!(failed(rt.wait()), ["writer"]);
    for _ in 0..5 {
        rt.task("member", (x.commutative(), ran.commutative())).cpu(|_, (_, ran)| ran[0] += 1).submit().unwrap();
    }
    rt.task("count", (ran.after(),)).cpu(|_, _| ()).submit().unwrap();
    let _ = rt.wait(); // the failure was reported
    rt.accept(&ran).unwrap(); // accept the region, which the skipped members have not updated
    assert_eq!(rt.read(&ran).unwrap()[0], 0, "a member used the value that the writer failed to write");
}

//! Counted resources: never more in use than there is, in turn, given back however a task ends, refusals.

use crate::common::{failed, for_each_free_mix, for_each_mix, words};
use crate::meter::Meter;
use std::sync::{Arc, Mutex};
use thalweg::check::{Explorer, Strategy};
use thalweg::prelude::*;

#[test]
fn no_more_is_in_use_than_there_is() {
    for_each_mix(|rt| {
        let (one, other) = (Meter::new(rt, 3), Meter::new(rt, 2));
        let sum = rt.scalar(0u32);
        for n in 0..40u32 {
            let (a, b) = (n % 4, n / 4 % 3);
            let (first, second) = (one.clone(), other.clone());
            let body = move |_: &thalweg::Context, sum: &mut [u32]| {
                let _used = (first.begin(a), second.begin(b));
                sum[0] += a + b;
            };
            let task = rt.task("both", sum.commutative()).cpu(body);
            task.uses(&other.resource, b).uses(&one.resource, a).submit().unwrap();
            let first = one.clone();
            let alone = rt.task("one", ()).cpu(move |_, ()| drop(first.begin(a)));
            alone.uses(&one.resource, a).submit().unwrap();
        }
        let iterations = rt.for_each("loop", (0..20,)).cpu({
            let one = one.clone();
            move |_, _| drop(one.begin(2))
        });
        assert_eq!(iterations.uses(&one.resource, 2).submit().unwrap(), 20);
        assert_eq!(rt.read(&sum).unwrap()[0], (0..40).map(|n| n % 4 + n / 4 % 3).sum());
        rt.wait().unwrap();
    });
}

#[test]
fn resource_is_given_out_in_turn() {
    let explorer = Explorer::new().runtime(|builder| builder.compute_units("3:CPU:1"));
    let explored = explorer.strategy(Strategy::Random).run(0..100, |rt| {
        let (license, order) = (rt.resource("license", 3), Arc::new(Mutex::new(Vec::new())));
        // The last needs little, but must not overtake the one that needs everything.
        for (n, amount) in [(0, 3), (1, 1), (2, 3), (3, 1)] {
            let order = order.clone();
            let body = move |_: &thalweg::Context, ()| order.lock().unwrap().push(n);
            rt.task("task", ()).cpu(body).uses(&license, amount).submit().unwrap();
        }
        rt.wait().unwrap();
        order.lock().unwrap().clone()
    });
    assert!(explored.unwrap().distinct > 10);
}

#[test]
fn ends_of_every_kind_give_the_amount_back() {
    for_each_mix(|rt| {
        let (license, x) = (rt.resource("license", 1), rt.scalar(0u32));
        let panics = |_: &thalweg::Context, _: &mut [u32]| std::panic::resume_unwind(Box::new("as planned"));
        for round in 0..2 {
            rt.task("fails", x.inout()).cpu(|_, _| Err("as planned")).uses(&license, 1).submit().unwrap();
            rt.task("poisoned", x.inout()).cpu(|_, _| ()).uses(&license, 1).submit().unwrap();
            rt.task("writes", x.output()).cpu(|_, x| x[0] = 1).uses(&license, 1).submit().unwrap();
            rt.task("panics", x.inout()).cpu(panics).uses(&license, 1).submit().unwrap();
            rt.task("writes", x.output()).cpu(move |_, x| x[0] = round).uses(&license, 1).submit().unwrap();
            let group = rt.group();
            group.task("cancelled", x.inout()).cpu(|_, _| ()).uses(&license, 1).submit().unwrap();
            group.task("cancelled", ()).cpu(|_, ()| ()).uses(&license, 1).submit().unwrap();
            assert_eq!(failed(rt.wait()), ["fails", "panics"]);
        }
        assert_eq!(rt.read(&x).unwrap()[0], 1);
    });
}

#[test]
fn recorded_tasks_use_resources_in_each_replay() {
    for_each_mix(|rt| {
        let (meter, x) = (Meter::new(rt, 2), rt.data(vec![0u32; 8]));
        let mut recording = rt
            .record(|r| {
                for n in 0..8 {
                    let own = meter.clone();
                    let amount = n as u32 % 3;
                    let body = move |_: &thalweg::Context, x: &mut [u32]| {
                        let _used = own.begin(amount);
                        x[0] += 1;
                    };
                    let task = r.task("step", x.slice(n..n + 1).inout()).cpu(body);
                    task.uses(&meter.resource, amount).submit()?;
                }
                Ok(())
            })
            .unwrap();
        (0..10).for_each(|_| recording.replay().unwrap());
        recording.repeat(5).unwrap();
        assert_eq!(rt.read(&x).unwrap(), [15; 8]);
    });
}

#[test]
fn inner_tasks_use_later_resources() {
    for_each_free_mix(|rt| {
        let (outer, inner) = (Meter::new(rt, 2), Meter::new(rt, 1));
        for _ in 0..20 {
            let (first, second) = (outer.clone(), inner.clone());
            let body = move |cx: &thalweg::Context, ()| {
                let _used = first.begin(1);
                let refused = cx.task("same", ()).cpu(|_, ()| ()).uses(&first.resource, 1).submit();
                assert!(matches!(refused, Err(SubmitError::Resource { .. })), "{refused:?}");
                let own = second.clone();
                let child = cx.task("child", ()).cpu(move |_, ()| drop(own.begin(1))).uses(&second.resource, 1);
                child.submit()?;
                cx.wait()
            };
            rt.task("parent", ()).host(body).uses(&outer.resource, 1).submit().unwrap();
        }
        rt.wait().unwrap();
    });
}

#[test]
fn impossible_uses_are_refused() {
    let rt = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
    let other = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
    let (license, foreign) = (rt.resource("license", 3), other.resource("license", 3));
    let refused = |submitted: Result<TaskId, SubmitError>| words(&submitted.unwrap_err());
    let task = || rt.task("t", ()).cpu(|_, ()| ());
    let cases = [
        (&license, 4.0, "it uses 4 of resource `license`, which has 3; try an amount up to that"),
        (&license, -1.0, "it uses -1 of resource `license`; try an amount from 0 to 3"),
        (&license, f64::NAN, "it uses NaN of resource `license`; try an amount from 0 to 3"),
        (&foreign, 1.0, "it uses resource `license`, which belongs to another runtime; try one of this runtime"),
    ];
    for (resource, amount, problem) in cases {
        assert_eq!(refused(task().uses(resource, amount).submit()), format!("cannot submit task `t`: {problem}"));
    }
    let sum = refused(task().uses(&license, 2).uses(&license, 1.5).submit());
    assert!(sum.ends_with(": it uses 3.5 of resource `license`, which has 3; try an amount up to that"), "{sum}");
    rt.wait().unwrap();
}

#[test]
fn fractions_add_up() {
    let rt = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
    let bandwidth = rt.resource("bandwidth", 0.3);
    rt.task("t", ()).cpu(|_, ()| ()).uses(&bandwidth, 0.1).uses(&bandwidth, 0.2).submit().unwrap();
    rt.wait().unwrap();
    assert_eq!((bandwidth.name(), bandwidth.total()), ("bandwidth", 0.3));
}

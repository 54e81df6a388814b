//! Hints on recorded tasks and on tasks of a scope: groups, a device, and all devices of a unit.

use crate::common::{failed, for_each_mix};
use thalweg::Explanation;
use thalweg::error::RunError;
use thalweg::prelude::*;

#[test]
fn recorded_task_is_a_member_of_its_group_in_each_replay() {
    for_each_mix(|rt| {
        let (x, y, group) = (rt.data(vec![1u64; 8]), rt.data(vec![1u64; 8]), rt.group());
        let mut step = rt
            .record(|r| {
                r.task("double", x.inout()).group(&group).cpu(|_, x| x.iter_mut().for_each(|x| *x *= 2)).submit()?;
                let fails = r.for_each("fails", (0.., y.blocks(4).inout())).group(&group);
                fails.cpu(|_, (i, _)| if i == 1 { Err("no") } else { Ok(()) }).submit().map(drop)
            })
            .unwrap();
        for n in 1..4 {
            step.replay().unwrap();
            assert_eq!(failed(group.wait()), ["fails"], "replay {n}");
            assert_eq!(group.pending(), 0);
            rt.clear(y.all()).unwrap();
            assert_eq!(rt.read(&x).unwrap(), [1 << n; 8]);
        }
        assert!(rt.wait().is_ok(), "the group has reported all failures");
        group.cancel();
        assert!(matches!(step.replay(), Err(SubmitError::Cancelled { .. })));
    });
}

#[test]
fn recording_with_a_group_explains_why_it_is_resubmitted() {
    let rt = Runtime::builder().compute_units("2:CPU:1").build().unwrap();
    let (x, group) = (rt.scalar(0), rt.group());
    let mut step = rt.record(|r| r.task("add", x.inout()).group(&group).cpu(|_, x| x[0] += 1).submit()).unwrap();
    (0..3).try_for_each(|_| step.replay()).unwrap();
    assert!(matches!(step.explain(), Explanation::Resubmitted(why) if why.contains("`add`") && why.contains("group")));
    group.wait().unwrap();
    assert_eq!(rt.take(x).unwrap(), [3]);
}

#[test]
fn recorded_and_scoped_tasks_may_name_their_devices() {
    let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:2").build().unwrap();
    let devices = rt.machine().unit(UnitId(1)).devices.clone();
    let x = rt.data(vec![1u64; 8]);
    let parts = || x.blocks(4).iter().map(|part| part.inout()).collect::<Vec<_>>();
    let mut step = rt
        .record(|r| {
            r.task("all", parts())
                .emulated(|_, parts| parts.into_iter().for_each(|x| x.iter_mut().for_each(|x| *x += 1)))
                .across_devices()
                .submit()
        })
        .unwrap();
    (0..3).try_for_each(|_| step.replay()).unwrap();
    rt.wait().unwrap();
    assert_eq!(x.slice(..4).valid_in(), [devices[0].space()]);
    assert_eq!(x.slice(4..).valid_in(), [devices[1].space()]);

    let (mut lent, add) = (vec![1u64; 8], 2);
    rt.scope(|s| {
        let lent = s.borrow_mut(&mut lent);
        for (i, device) in devices.iter().enumerate() {
            s.task("one", lent.slice(4 * i..4 * i + 4).inout())
                .cpu(move |cx, x| {
                    assert_eq!(cx.device(), Some(*device));
                    x.iter_mut().for_each(|x| *x += add);
                })
                .on_device(*device)
                .submit()?;
        }
        Ok::<_, RunError>(())
    })
    .unwrap()
    .unwrap();
    assert_eq!((rt.take(x).unwrap(), lent), (vec![4; 8], vec![3; 8]));
}

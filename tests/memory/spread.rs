//! Loops that are spread over the devices of a unit, and tasks that are bound to one device: where they run, which data
//! is copied between devices, refusals, and the effects of failures and device loss.
//!
//! These tests use emulated devices; `tests/conformance` has similar tests for accelerators.

use crate::common::{SCHEDULERS, watched, words};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use thalweg::error::FailureReason;
use thalweg::prelude::*;

const N: usize = 240;

/// Returns the devices of the machine's last unit. The list is empty if this is a CPU unit.
fn devices(rt: &Runtime) -> &[DeviceId] {
    &rt.machine().units().last().unwrap().devices
}

/// Sets each element of `y` to three times its left neighbour in `x` plus its right neighbour.
fn stepped(x: &[u64], y: &mut [u64], before: usize) {
    for (i, y) in y.iter_mut().enumerate() {
        let here = i + before;
        let next = x[(here + 1).min(x.len() - 1)];
        *y = x[here.saturating_sub(1)].wrapping_mul(3).wrapping_add(next);
    }
}

fn expected(steps: usize) -> Vec<u64> {
    let mut x: Vec<u64> = (0..N as u64).collect();
    for _ in 0..steps {
        let mut y = vec![0; N];
        stepped(&x, &mut y, 0);
        x = y;
    }
    x
}

/// The device on which each part of a loop ran.
type Places = Arc<Mutex<BTreeSet<(usize, Option<DeviceId>)>>>;

/// Does some steps in `parts` parts. Returns the result, and the device on which each part ran.
fn steps(rt: &Runtime, parts: usize, steps: usize) -> (Data<u64>, BTreeSet<(usize, Option<DeviceId>)>) {
    let (mut x, mut y) = (rt.data((0..N as u64).collect()), rt.zeros::<u64, _>(N));
    let (size, places) = (N.div_ceil(parts), Places::default());
    for _ in 0..steps {
        let places = places.clone();
        rt.for_each("step", (0.., x.blocks(size).grow(1).input(), y.blocks(size).output()))
            .cpu(move |cx, (part, x, y)| {
                places.lock().unwrap().insert((part, cx.device()));
                stepped(x, y, usize::from(part > 0));
            })
            .spread(devices(rt))
            .submit()
            .unwrap();
        std::mem::swap(&mut x, &mut y);
    }
    rt.wait().unwrap();
    let places = places.lock().unwrap().clone();
    (x, places)
}

#[test]
fn part_runs_on_its_device() {
    for units in ["1:EMU:4", "1:CPU:1,1:EMU:3", "2:EMU:2", "1:EMU:1", "2:CPU:1", "1:CPU:2,1:EMU:4"] {
        for scheduler in SCHEDULERS {
            watched(&format!("{units} {scheduler}"), move || {
                let builder = Runtime::builder().compute_units(units).scheduler(scheduler);
                let rt = builder.detect_conflicts(true).build().unwrap();
                let devices = devices(&rt).to_vec();
                for parts in [devices.len().max(1), 1, 2, 12] {
                    let (x, places) = steps(&rt, parts, 5);
                    let place = |part: usize| devices.get(part % devices.len().max(1)).copied();
                    assert_eq!(places, (0..parts).map(|part| (part, place(part))).collect());
                    if let Some(first) = devices.first() {
                        let size = N.div_ceil(parts);
                        assert_eq!(
                            x.slice(..size).valid_in(),
                            [first.space()],
                            "a part must stay where it was computed"
                        );
                    }
                    assert_eq!(rt.take(x).unwrap(), expected(5));
                }
                assert_eq!(rt.statistics().conflicts, Vec::<String>::new());
            });
        }
    }
}

#[test]
fn halos_are_copied_from_device_to_device() {
    watched("halos", || {
        let rt = Runtime::builder().compute_units("1:EMU:4").build().unwrap();
        let (x, _) = steps(&rt, 4, 10);
        let (mut from_home, mut between) = (0, 0);
        for link in rt.statistics().links {
            match (link.from, link.to) {
                (SpaceId::HOST, _) => from_home += link.bytes,
                (from, to) if from != to => between += link.bytes,
                _ => {} // copies within a device
            }
        }
        // In the first step, a halo comes from the host, or from the other device if this device already has it. In the
        // other nine steps, halos are copied in both directions.
        assert_eq!(from_home + between, 8 * (N as u64 + 3 * 2 * 10));
        assert!((8 * 3 * 2 * 9..=8 * 3 * 2 * 10).contains(&between), "{between}");
        assert_eq!(rt.take(x).unwrap(), expected(10));
    });
}

#[test]
fn task_that_its_device_cannot_run_is_refused() {
    watched("refused", || {
        let device = |_| EmulatedDevice::new().capacity_bytes(800);
        let build = |units: &str| Runtime::builder().compute_units(units).emulated_devices(device).build().unwrap();
        let rt = build("1:CPU:1,1:EMU:2");
        let (x, value, first) = (rt.data(vec![1u64; 200]).named("x"), rt.value(1).named("v"), DeviceId(0));
        let on_cores = rt.task("t", (x.slice(..10).inout(),)).host(|_, _| ()).on_device(first).submit();
        let with_value = rt.task("t", (value.inout(),)).cpu(|_, _| ()).on_device(first).submit();
        let large = rt.task("t", (x.inout(),)).cpu(|_, _| ()).on_device(first).submit();
        let absent = rt.task("t", (x.slice(..10).inout(),)).cpu(|_, _| ()).on_device(DeviceId(2)).submit();
        for (refused, why) in [
            (on_cores, "the device is of kind EMU, but the task has bodies for CPU; try a body for EMU"),
            (with_value, "it accesses value `v` in host memory; try another task for that"),
            (large, "it needs 1600 bytes at once, and the device has 800; try smaller regions"),
        ] {
            assert_eq!(words(&refused.unwrap_err()), format!("cannot submit task `t` to device 0: {why}"));
        }
        assert!(matches!(absent, Err(SubmitError::Device { .. })));
        // A loop is refused as a whole.
        let spread = |rt: &Runtime, x: &Data<u64>, devices: &[DeviceId]| {
            let task = rt.for_each("loop", x.blocks(20).inout()).cpu(|_, x| x.iter_mut().for_each(|x| *x += 1));
            task.spread(devices).submit()
        };
        assert!(matches!(spread(&rt, &x, &[first, DeviceId(9)]), Err(SubmitError::Device { .. })));
        rt.wait().unwrap();
        assert_eq!(rt.read(&x.all()).unwrap(), [1; 200]);
        assert_eq!(spread(&rt, &x, &[first]), Ok(10));
        assert_eq!(rt.take(x).unwrap(), [2; 200]);
        // On cores alone, tasks are not placed.
        let rt = build("2:CPU:1");
        let x = rt.data(vec![1u64; 200]);
        assert!(matches!(spread(&rt, &x, &[first]), Err(SubmitError::Device { .. })));
        assert_eq!(spread(&rt, &x, &[]), Ok(10));
        assert_eq!(rt.take(x).unwrap(), [2; 200]);
    });
}

#[test]
fn failing_part_poisons_only_its_part() {
    watched("failure", || {
        let rt = Runtime::builder().compute_units("1:EMU:4").build().unwrap();
        let x = rt.data(vec![0u64; N]);
        rt.for_each("fails", (0.., x.blocks(N / 4).output()))
            .cpu(|_, (part, x)| {
                x.fill(1);
                if part == 2 { Err("no") } else { Ok(()) }
            })
            .spread(devices(&rt))
            .submit()
            .unwrap();
        let Err(RunError::Failed(failures)) = rt.wait() else { panic!("no part has failed") };
        assert_eq!(failures.len(), 1);
        assert_eq!(rt.read(&x.slice(..N / 2)).unwrap(), [1; N / 2]);
        assert!(matches!(rt.read(&x.slice(N / 2..3 * N / 4)), Err(RunError::Poisoned(_))));
        assert_eq!(rt.read(&x.slice(3 * N / 4..)).unwrap(), [1; N / 4]);
    });
}

#[test]
fn remaining_devices_run_the_parts_of_a_lost_device() {
    for units in ["1:EMU:3", "1:CPU:1,1:EMU:3", "3:EMU:1"] {
        for scheduler in SCHEDULERS {
            for tasks in [0, 1, 4] {
                watched(&format!("loss {units} {scheduler}"), move || {
                    let device = move |number| {
                        let device = EmulatedDevice::new();
                        if number == 1 { device.lost_after_tasks(tasks) } else { device }
                    };
                    let builder = Runtime::builder().compute_units(units).scheduler(scheduler);
                    let rt = builder.emulated_devices(device).build().unwrap();
                    let all: Vec<DeviceId> = (0..3).map(DeviceId).collect();
                    let x = rt.data(vec![0u64; N]);
                    let step = || {
                        let add = rt.for_each("add", x.blocks(N / 3).inout());
                        add.cpu(|_, x| x.iter_mut().for_each(|x| *x += 1)).spread(&all).submit().unwrap();
                    };
                    (0..8).for_each(|_| step());
                    let Err(RunError::Failed(failures)) = rt.wait() else { panic!("the loss was not reported") };
                    let is_loss =
                        |reason: &FailureReason| matches!(reason, FailureReason::Device(DeviceError::Lost { .. }));
                    assert!(failures.len() == 1 && failures.iter().all(|failure| is_loss(failure.reason())));
                    // The parts on the other devices are correct; the lost part is cleared and recomputed by the
                    // remaining devices.
                    assert_eq!(rt.read(&x.slice(..N / 3)).unwrap(), [8; N / 3]);
                    assert!(matches!(rt.read(&x.slice(N / 3..2 * N / 3)), Err(RunError::Poisoned(_))));
                    rt.clear(x.slice(N / 3..2 * N / 3)).unwrap();
                    let fill = rt.for_each("fill", x.blocks(N / 3).output());
                    fill.cpu(|_, x| x.fill(5)).spread(&all).submit().unwrap();
                    (0..3).for_each(|_| step());
                    rt.wait().unwrap();
                    assert_eq!(rt.take(x).unwrap(), [8; N]);
                });
            }
        }
    }
}

#[test]
fn spread_and_other_loops_can_be_mixed() {
    for scheduler in ["stealing", "static", "clustered-guided", "bottom-level", "auto", "static-pcf:pcf=2"] {
        watched(scheduler, move || {
            let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:2,1:EMU:1").scheduler(scheduler).build().unwrap();
            let (x, all) = (rt.data(vec![0u64; N]), [DeviceId(2), DeviceId(0), DeviceId(1)]);
            let space = IterationSpace::new("blocks", vec![1.0; 6]);
            for _ in 0..6 {
                space.begin();
                let add = || rt.for_each("add", x.blocks(N / 6).inout());
                add().cpu(|_, x| x.iter_mut().for_each(|x| *x += 1)).at(&space).submit().unwrap();
                add().cpu(|_, x| x.iter_mut().for_each(|x| *x *= 2)).spread(&all).submit().unwrap();
                let task = rt.task("one", (x.slice(..10).inout(),)).cpu(|cx, (x,)| {
                    assert_eq!(cx.device(), Some(DeviceId(1)));
                    x.iter_mut().for_each(|x| *x += 0);
                });
                task.at(&space, 0).on_device(DeviceId(1)).submit().unwrap();
            }
            rt.wait().unwrap();
            assert_eq!(rt.take(x).unwrap(), [126; N]);
        });
    }
}

#[test]
fn recorded_task_runs_on_its_device_in_each_replay() {
    watched("replay", || {
        let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:2").build().unwrap();
        let x = rt.data(vec![0u64; 8]);
        let step = rt.record(|r| {
            for device in [DeviceId(1), DeviceId(0)] {
                let add = r.task("add", (x.inout(),)).cpu(move |cx, (x,)| {
                    assert_eq!(cx.device(), Some(device));
                    x.iter_mut().for_each(|x| *x += 1);
                });
                add.on_device(device).submit()?;
            }
            Ok::<(), SubmitError>(())
        });
        let mut step = step.unwrap();
        for _ in 0..5 {
            step.replay().unwrap();
        }
        rt.wait().unwrap();
        assert_eq!(rt.take(x).unwrap(), [10; 8]);
    });
}

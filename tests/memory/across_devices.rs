//! Tasks that span the devices of their unit: placement of parts, order among other tasks, refusals, and the effects of
//! failures, memory shortage and device loss.
//!
//! These tests use emulated devices; `tests/conformance` has similar tests for accelerators.

use crate::common::{SCHEDULERS, watched, words};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::error::FailureReason;
use thalweg::prelude::*;
use thalweg::task::{Inout, Input, Output};

const N: usize = 240;

type Rotated<'x> = Vec<(Input<'x, u64>, Output<'x, u64>)>;

/// Pairs each part of `x` with the part of `y` at the same position, with parts of `size` elements.
fn pairs<'x>(x: &'x Data<u64>, y: &'x Data<u64>, size: usize) -> Rotated<'x> {
    x.blocks(size).iter().zip(y.blocks(size).iter()).map(|(x, y)| (x.input(), y.output())).collect()
}

/// Submits a task that sets each element of `y` to three times its right neighbour in `x`, which may be in the next
/// part, plus one.
fn rotate(rt: &Runtime, x: &Data<u64>, y: &Data<u64>, size: usize) {
    rt.task("rotate", pairs(x, y, size)).cpu(|_, parts| rotated(parts)).across_devices().submit().unwrap();
}

fn rotated(parts: Vec<(&[u64], &mut [u64])>) {
    let (x, y): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    let next = |part: usize| x[(part + 1) % x.len()][0];
    for (part, y) in y.into_iter().enumerate() {
        for (i, y) in y.iter_mut().enumerate() {
            *y = x[part].get(i + 1).copied().unwrap_or_else(|| next(part)).wrapping_mul(3) + 1;
        }
    }
}

fn expected(steps: usize) -> Vec<u64> {
    let mut x: Vec<u64> = (0..N as u64).collect();
    for _ in 0..steps {
        let mut y = vec![0; N];
        rotated(vec![(&x, &mut y)]);
        x = y;
    }
    x
}

fn parts_inout(x: &Data<u64>, size: usize) -> Vec<(Inout<'_, u64>,)> {
    x.blocks(size).iter().map(|x| (x.inout(),)).collect()
}

#[test]
fn rotation_across_devices_matches_host_on_every_machine() {
    for units in ["1:EMU:4", "1:CPU:1,1:EMU:3", "2:EMU:2", "1:EMU:1", "2:CPU:1", "1:CPU:2,1:EMU:4"] {
        for scheduler in SCHEDULERS {
            watched(&format!("{units} {scheduler}"), move || {
                let builder = Runtime::builder().compute_units(units).scheduler(scheduler);
                let rt = builder.detect_conflicts(true).build().unwrap();
                for parts in [4, 1, 2, 12] {
                    let (mut x, mut y) = (rt.data((0..N as u64).collect()), rt.zeros::<u64, _>(N));
                    for step in 0..6 {
                        rotate(&rt, &x, &y, N / parts);
                        std::mem::swap(&mut x, &mut y);
                        // Tasks in between, on parts of all sizes.
                        let add = rt.for_each("add", x.blocks(N / (step + 1)).inout());
                        add.cpu(|_, x| x.iter_mut().for_each(|x| *x += 0)).submit().unwrap();
                    }
                    assert_eq!(rt.take(x).unwrap(), expected(6));
                }
                assert_eq!(rt.statistics().conflicts, Vec::<String>::new());
            });
        }
    }
}

#[test]
fn part_stays_in_the_memory_of_its_device() {
    watched("memory", || {
        let rt = Runtime::builder().compute_units("1:EMU:3").build().unwrap();
        let (x, y) = (rt.data((0..N as u64).collect()), rt.zeros::<u64, _>(N));
        rotate(&rt, &x, &y, N / 6);
        rt.wait().unwrap();
        let devices = &rt.machine().unit(UnitId(0)).devices;
        for part in 0..6 {
            let at = part * (N / 6)..(part + 1) * (N / 6);
            assert_eq!(y.slice(at).valid_in(), [devices[part % 3].space()]);
        }
        // Each byte has been copied once, to its device.
        let bytes: u64 = rt.statistics().links.iter().map(|link| link.bytes).sum();
        assert_eq!(bytes, 8 * N as u64);
        assert_eq!(rt.take(y).unwrap(), expected(1));
    });
}

#[test]
fn empty_lists_and_empty_parts_run_once() {
    for units in ["1:EMU:2", "1:CPU:1,1:EMU:2", "2:CPU:1"] {
        watched(units, move || {
            let rt = Runtime::builder().compute_units(units).build().unwrap();
            let (x, calls) = (rt.data(vec![1u64; 4]), Arc::new(AtomicUsize::new(0)));
            let count = |calls: &Arc<AtomicUsize>| {
                let calls = calls.clone();
                move |_: &Context, parts: Vec<(&mut [u64],)>| {
                    parts.into_iter().flat_map(|(x,)| x).for_each(|x| *x += 1);
                    calls.fetch_add(1, Ordering::SeqCst);
                }
            };
            let none: Vec<(Inout<'_, u64>,)> = Vec::new();
            rt.task("none", none).cpu(count(&calls)).across_devices().submit().unwrap();
            let empty =
                vec![(x.slice(0..0).inout(),), (x.all().inout(),), (x.slice(4..4).inout(),), (x.slice(2..2).inout(),)];
            rt.task("empty", empty).cpu(count(&calls)).across_devices().submit().unwrap();
            let all_empty: Vec<_> = (0..3).map(|_| (x.slice(1..1).inout(),)).collect();
            rt.task("all empty", all_empty).cpu(count(&calls)).across_devices().submit().unwrap();
            rt.wait().unwrap();
            assert_eq!((rt.take(x).unwrap(), calls.load(Ordering::SeqCst)), (vec![2; 4], 3));
        });
    }
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    watched("refused", || {
        let device = |number: usize| EmulatedDevice::new().capacity_bytes(if number == 0 { 1600 } else { 400 });
        let build = |units: &str| Runtime::builder().compute_units(units).emulated_devices(device).build().unwrap();
        let rt = build("1:CPU:1,1:EMU:2");
        let x = rt.data(vec![1u64; N]).named("x");
        let run = |sizes: [usize; 2]| {
            let parts = vec![(x.slice(..sizes[0]).inout(),), (x.slice(N - sizes[1]..).inout(),)];
            let task =
                rt.task("t", parts).emulated(|_, parts| parts.into_iter().flat_map(|(x,)| x).for_each(|x| *x += 1));
            task.across_devices().submit()
        };
        // Each part has to fit into the memory of its device.
        assert!(run([180, 50]).is_ok());
        let refused = run([10, 60]).unwrap_err();
        assert_eq!(
            words(&refused),
            "cannot make room for the data of `t`: it needs 480 bytes at once, and the largest memory it could use \
             has 400; try smaller regions, or units with more memory"
        );
        let sum = rt.scalar(0u64).named("sum");
        let reduces = rt.task("t", vec![(x.slice(..10).input(), sum.reduction(Sum))]).cpu(|_, _| ());
        assert_eq!(
            words(&reduces.across_devices().submit().unwrap_err()),
            "cannot submit task `t` across devices: it has a reduction on data `sum`, and its devices have no order to \
             combine in; try an output for each part, and a task that combines them"
        );
        let overlap = vec![(x.slice(..10).inout(),), (x.slice(9..20).inout(),)];
        let overlap = rt.task("t", overlap).cpu(|_, _| ()).across_devices().submit();
        assert!(matches!(overlap, Err(SubmitError::OverlappingAccesses { .. })));
        rt.wait().unwrap();
        let mut all = vec![2u64; N];
        all[180..N - 50].fill(1);
        assert_eq!(rt.take(x).unwrap(), all);
    });
}

/// Tasks that each need most of several memories run alongside tasks that need most of one memory. All of them get
/// room, in any order.
#[test]
fn tasks_that_fill_several_memories_all_get_room() {
    for scheduler in SCHEDULERS {
        watched(&format!("shortage {scheduler}"), move || {
            let device = |_| EmulatedDevice::new().capacity_bytes(8 * 60);
            let builder = Runtime::builder().compute_units("1:EMU:3,1:EMU:2").scheduler(scheduler);
            let rt = builder.emulated_devices(device).build().unwrap();
            let data: Vec<_> = (0..6).map(|_| rt.data(vec![0u64; 100])).collect();
            for step in 0..60 {
                let x = &data[step % 6];
                rt.task("two", parts_inout(x, 50))
                    .cpu(|_, parts| parts.into_iter().flat_map(|(x,)| x).for_each(|x| *x += 1))
                    .across_devices()
                    .submit()
                    .unwrap();
                let one = &data[(step * 5 + 1) % 6];
                rt.task("one", (one.slice(20..75).inout(),))
                    .cpu(|_, (x,)| x.iter_mut().for_each(|x| *x += 1))
                    .submit()
                    .unwrap();
            }
            rt.wait().unwrap();
            for x in data {
                let mut all = vec![10; 100];
                all[20..75].fill(20);
                assert_eq!(rt.take(x).unwrap(), all);
            }
        });
    }
}

/// Devices refuse memory although their capacity should suffice. Tasks then wait for memory again, and fail if nothing
/// else uses the devices.
#[test]
fn refused_memory_is_requested_again_and_fails_only_a_lone_task() {
    watched("refusals", || {
        let device = |number| EmulatedDevice::new().holds_bytes(if number == 0 { 1700 } else { 900 });
        let rt = Runtime::builder().compute_units("1:EMU:2").emulated_devices(device).build().unwrap();
        let data: Vec<_> = (0..6).map(|_| rt.data(vec![0u64; 100])).collect();
        let add = |x: &Data<u64>, size| {
            let task = rt.task("add", parts_inout(x, size));
            let task = task.emulated(|_, parts| parts.into_iter().flat_map(|(x,)| x).for_each(|x| *x += 1));
            task.across_devices().submit().unwrap();
        };
        (0..10).for_each(|_| data.iter().for_each(|x| add(x, 50)));
        rt.wait().unwrap();
        let large = rt.data(vec![0u64; 240]);
        add(&large, 120); // the second device never has room for its part
        let Err(RunError::Failed(failures)) = rt.wait() else { panic!("the task has not failed") };
        assert!(matches!(failures[0].reason(), FailureReason::Device(DeviceError::OutOfMemory { .. })), "{failures:?}");
        data.iter().for_each(|x| add(x, 50));
        data.into_iter().for_each(|x| assert_eq!(rt.take(x).unwrap(), [11; 100]));
    });
}

#[test]
fn failure_poisons_all_parts() {
    for panics in [false, true] {
        watched("failure", move || {
            let rt = Runtime::builder().compute_units("1:EMU:2").build().unwrap();
            let (x, y) = (rt.data(vec![1u64; N]), rt.data(vec![1u64; N]));
            rt.task("fails", parts_inout(&x, N / 2))
                .cpu(move |_, _| {
                    assert!(!panics, "on purpose");
                    Err::<(), _>("no")
                })
                .across_devices()
                .submit()
                .unwrap();
            rt.task(
                "skipped",
                vec![(x.slice(N - 1..).input(), y.slice(..1).inout()), (x.slice(..0).input(), y.slice(1..).inout())],
            )
            .cpu(|_, _| ())
            .across_devices()
            .submit()
            .unwrap();
            let Err(RunError::Failed(failures)) = rt.wait() else { panic!("the task has not failed") };
            assert_eq!((failures.len(), failures[0].skipped()), (1, 1));
            assert!([&x, &y].iter().all(|x| matches!(rt.read(&x.all()), Err(RunError::Poisoned(_)))));
            [&x, &y].iter().for_each(|x| rt.clear(x.all()).unwrap());
            rt.task("again", parts_inout(&x, N / 4))
                .cpu(|_, parts| parts.into_iter().for_each(|(x,)| x.fill(7)))
                .across_devices()
                .submit()
                .unwrap();
            assert_eq!(rt.take(x).unwrap(), [7; N]);
        });
    }
}

#[test]
fn remaining_devices_run_tasks_across_a_lost_device() {
    for units in ["1:EMU:3", "1:CPU:1,1:EMU:3", "1:EMU:2,1:EMU:1"] {
        for scheduler in SCHEDULERS {
            for (lost, tasks) in [(0, 0), (1, 0), (1, 1), (0, 4), (2, 2), (1, 4)] {
                watched(&format!("loss {units} {scheduler} {lost} {tasks}"), move || {
                    let device = move |number| {
                        let device = EmulatedDevice::new();
                        if number == lost { device.lost_after_tasks(tasks) } else { device }
                    };
                    let builder = Runtime::builder().compute_units(units).scheduler(scheduler);
                    let rt = builder.emulated_devices(device).build().unwrap();
                    let x: Vec<_> = (0..4).map(|_| rt.data(vec![0u64; N])).collect();
                    let step = |x: &Data<u64>| {
                        let add = rt.task("add", parts_inout(x, N / 3)).emulated(|_, parts| {
                            parts.into_iter().flat_map(|(x,)| x).for_each(|x| *x += 1);
                        });
                        let add = add.cpu(|_, parts| parts.into_iter().flat_map(|(x,)| x).for_each(|x| *x += 1));
                        add.across_devices().submit().unwrap();
                    };
                    // Some schedulers only use the device after some time.
                    for round in 1..=3 {
                        (0..5).for_each(|_| x.iter().for_each(step));
                        if let Err(error) = rt.wait() {
                            let RunError::Failed(failures) = error else { panic!("{error}") };
                            let is_loss = |reason: &FailureReason| {
                                matches!(reason, FailureReason::Device(DeviceError::Lost { .. }))
                            };
                            assert!(failures.iter().all(|failure| is_loss(failure.reason())), "{failures:?}");
                        }
                        // Each array is either correct, or lost and can be filled again.
                        for x in &x {
                            match rt.read(&x.all()) {
                                Ok(found) => assert_eq!(found, [5 * round; N]),
                                Err(error) => {
                                    assert!(matches!(error, RunError::Poisoned(_)));
                                    rt.clear(x.all()).unwrap();
                                    let anew = rt.task("anew", (x.output(),)).host(move |_, (x,)| x.fill(5 * round));
                                    anew.submit().unwrap();
                                }
                            }
                        }
                    }
                    x.into_iter().for_each(|x| assert_eq!(rt.take(x).unwrap(), [15; N]));
                });
            }
        }
    }
}

#[test]
fn two_runtimes_may_run_tasks_across_devices_at_once() {
    watched("two runtimes", || {
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let rt = Runtime::builder().compute_units("1:EMU:2").build().unwrap();
                    let (mut x, mut y) = (rt.data((0..N as u64).collect()), rt.zeros::<u64, _>(N));
                    for _ in 0..50 {
                        rotate(&rt, &x, &y, N / 4);
                        std::mem::swap(&mut x, &mut y);
                    }
                    assert_eq!(rt.take(x).unwrap(), expected(50));
                });
            }
        });
    });
}

#[test]
fn handles_scopes_and_on_device_work_across_devices() {
    watched("handles", || {
        let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:2").build().unwrap();
        let x = rt.data(vec![0u64; N]);
        let add = || {
            let task = rt.task("add", parts_inout(&x, N / 2));
            task.emulated(|cx, parts| {
                assert_eq!(cx.device(), Some(DeviceId(0)), "the body runs on the device of the first part");
                parts.into_iter().flat_map(|(x,)| x).for_each(|x| *x += 1);
            })
        };
        let handle = add().across_devices().submit_handle().unwrap();
        handle.wait().unwrap();
        // The last call of `on_device` and `across_devices` counts.
        add().across_devices().on_device(DeviceId(0)).submit().unwrap();
        rt.wait().unwrap();
        assert_eq!(x.all().valid_in(), [SpaceId(1)]);
        add().on_device(DeviceId(1)).across_devices().submit().unwrap();
        rt.wait().unwrap();
        assert_eq!(x.slice(N / 2..).valid_in(), [SpaceId(2)]);
        rt.scope(|s| {
            let parts: Vec<_> = x.blocks(N / 2).iter().map(|x| (x.inout(),)).collect();
            s.task("scoped", parts)
                .cpu(|_, parts| parts.into_iter().flat_map(|(x,)| x).for_each(|x| *x += 1))
                .across_devices()
                .submit()
                .unwrap();
        })
        .unwrap();
        assert_eq!(rt.take(x).unwrap(), [4; N]);
    });
}

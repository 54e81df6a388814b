//! Devices that can hold less than their declared capacity: idle replicas are evicted to make room, and a task fails
//! only if it is refused memory while no other task uses the device.

use crate::common::watched;
use std::time::Duration;
use thalweg::EmulatedDevice;
use thalweg::error::FailureReason;
use thalweg::prelude::*;

const BLOCK: usize = 64;
const BLOCK_BYTES: u64 = 8 * BLOCK as u64;
const BLOCKS: usize = 12;

fn machine(units: &str, scheduler: &str, device: impl Fn(usize) -> EmulatedDevice + 'static) -> Runtime {
    let builder = Runtime::builder().compute_units(units).scheduler(scheduler).emulated_devices(device);
    builder.detect_conflicts(true).build().unwrap()
}

/// Passes over an array block by block. Each block of `x` is updated, and then a block of `y` is overwritten with
/// values from two blocks of `x`.
fn passes(rt: &Runtime, x: &Data<u64>, y: &Data<u64>) {
    for round in 0..4 {
        for (n, part) in (0..).zip(blocks(BLOCKS * BLOCK, BLOCK)) {
            rt.task("update", (x.slice(part.clone()).inout(),))
                .cpu(move |_, (x,)| x.iter_mut().for_each(|x| *x = *x * 3 + round))
                .submit()
                .unwrap();
            let other = (n * 5 + 1) % BLOCKS * BLOCK;
            let (own, other) = (x.slice(part.clone()), x.slice(other..other + BLOCK));
            let task = rt.task("overwrite", (own.input(), other.input(), y.slice(part).output()));
            let body = |a: &[u64], b: &[u64], c: &mut [u64]| {
                c.iter_mut().zip(a.iter().zip(b)).for_each(|(c, (a, b))| *c = a.wrapping_mul(7) ^ b);
            };
            task.cpu(move |_, (a, b, c)| body(a, b, c)).submit().unwrap();
        }
    }
}

/// Returns the expected results of [`passes`].
fn expected() -> (Vec<u64>, Vec<u64>) {
    let rt = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
    let (x, y) = (rt.data((0..).take(BLOCKS * BLOCK).collect()), rt.zeros([BLOCKS * BLOCK]));
    passes(&rt, &x, &y);
    (rt.take(x).unwrap(), rt.take(y).unwrap())
}

fn check(rt: &Runtime) {
    let (x, y) = (rt.data((0..).take(BLOCKS * BLOCK).collect()), rt.zeros([BLOCKS * BLOCK]));
    passes(rt, &x, &y);
    rt.wait().unwrap();
    assert_eq!((rt.take(x).unwrap(), rt.take(y).unwrap()), expected());
}

#[test]
fn idle_replicas_make_room() {
    for scheduler in crate::common::SCHEDULERS {
        for blocks in [3, 4, 7] {
            watched(scheduler, move || {
                let device = EmulatedDevice::new().holds_bytes(blocks * BLOCK_BYTES);
                let rt = machine("1:EMU:1", scheduler, move |_| device.clone());
                check(&rt);
                assert!(
                    rt.statistics().evictions > 0,
                    "nothing was evicted although the device holds less than its capacity"
                );
            });
        }
    }
}

#[test]
fn devices_of_different_sizes_with_a_core_match_host() {
    for scheduler in crate::common::SCHEDULERS {
        watched(scheduler, move || {
            let device = |n| EmulatedDevice::new().holds_bytes((3 + 2 * n as u64) * BLOCK_BYTES);
            check(&machine("1:CPU:1,2:EMU:1", scheduler, device));
            check(&machine("1:EMU:2", scheduler, device));
        });
    }
}

#[test]
fn single_refused_allocation_does_not_change_results() {
    for number in 1..30 {
        watched("refusal", move || {
            let device = EmulatedDevice::new().refused_allocation(number).copy_delay(Duration::from_micros(5), 1e9);
            check(&machine("1:EMU:1", "dynamic", move |_| device.clone()));
        });
    }
}

#[test]
fn lone_task_that_is_refused_memory_fails() {
    watched("alone", || {
        let device = EmulatedDevice::new().holds_bytes(BLOCK_BYTES - 1);
        let rt = machine("1:EMU:1", "dynamic", move |_| device.clone());
        let (large, small) = (rt.data(vec![1u64; BLOCK]), rt.data(vec![1u64; BLOCK / 2]));
        let add = |x: &Data<u64>| rt.task("add", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
        for _ in 0..3 {
            add(&small);
            add(&large); // the first fails; the later ones are skipped, because it has not written its output
        }
        rt.task("fill", (large.output(),)).cpu(|_, (x,)| x.fill(1)).submit().unwrap(); // without a copy
        let RunError::Failed(failures) = rt.wait().unwrap_err() else { panic!("another error") };
        let causes: Vec<_> = failures.iter().map(|failure| (failure.task(), failure.skipped())).collect();
        assert_eq!(causes, [(TaskId(1), 2), (TaskId(6), 0)]);
        for failure in failures.iter() {
            let FailureReason::Device(error) = failure.reason() else { panic!("another reason: {failure}") };
            let &DeviceError::OutOfMemory { needed_bytes, in_use_bytes, .. } = error else { panic!("{error}") };
            assert_eq!((needed_bytes, in_use_bytes), (BLOCK_BYTES, BLOCK_BYTES));
            let text = error.to_string();
            assert!(text.contains("cannot allocate 512 bytes on") && text.contains("512 bytes are in use"), "{text}");
        }
        assert_eq!(rt.take(small).unwrap()[0], 4);
        assert!(matches!(rt.read(&large), Err(RunError::Poisoned(_))));
        add(&rt.data(vec![1u64; 3]));
        rt.wait().unwrap();
    });
}

/// A replica that is larger than the requested region would leave no room for other replicas.
#[test]
fn oversized_replica_is_evicted() {
    watched("large", || {
        let device = EmulatedDevice::new().holds_bytes(4 * BLOCK_BYTES);
        let rt = machine("1:EMU:1", "dynamic", move |_| device.clone());
        let (x, y) = (rt.data(vec![1u64; 4 * BLOCK]), rt.data(vec![1u64; BLOCK]));
        rt.task("all", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x += 1)).submit().unwrap();
        rt.task("part", (x.slice(..BLOCK).inout(), y.inout()))
            .cpu(|_, (x, y)| x.iter_mut().zip(y).for_each(|(x, y)| *x += *y))
            .submit()
            .unwrap();
        rt.wait().unwrap();
        assert_eq!(rt.take(x).unwrap(), [vec![3; BLOCK], vec![2; 3 * BLOCK]].concat());
    });
}

#[test]
fn empty_region_needs_no_memory() {
    watched("empty", || {
        let device = EmulatedDevice::new().holds_bytes(0);
        let rt = machine("1:EMU:1", "dynamic", move |_| device.clone());
        let x = rt.data(vec![1u64; 10]);
        rt.task("nothing", (x.slice(3..3).inout(),)).cpu(|_, (x,)| assert!(x.is_empty())).submit().unwrap();
        rt.wait().unwrap();
        assert_eq!(rt.take(x).unwrap(), [1; 10]);
    });
}

//! Devices with many replicas, many queued tasks, or evictions: unrelated events must not become more expensive.

use std::time::Duration;

use crate::meter::{Result, closed_gate, nanoseconds_each, runtime, without_window};
use thalweg::prelude::*;

/// Number of elements per block.
const BLOCK: usize = 8;

/// Returns the time in nanoseconds for one of n tasks, each on its own block. All blocks are already on the device.
pub(super) fn many_blocks(n: usize) -> Result<f64> {
    let rt = runtime("1:EMU:1")?;
    let x = rt.data(vec![0u64; n * BLOCK]);
    let sweep = || {
        for part in blocks(n * BLOCK, BLOCK) {
            rt.task("add", (x.slice(part).inout(),)).cpu(|_, (x,)| x[0] += 1).submit()?;
        }
        Ok(rt.wait()?)
    };
    sweep()?;
    nanoseconds_each(n, sweep)
}

/// Returns the time in nanoseconds for one of the n regions in a task's access list, averaged over the first task on
/// the device and one task after it.
pub(super) fn long_list(n: usize) -> Result<f64> {
    let rt = runtime("1:EMU:1")?;
    let x = rt.data(vec![0u64; n * BLOCK]);
    let parts = || -> Vec<_> { blocks(n * BLOCK, BLOCK).map(|part| x.slice(part).inout()).collect() };
    nanoseconds_each(2 * n, || {
        for _ in 0..2 {
            rt.task("add", (parts(),)).cpu(|_, (x,)| x.into_iter().for_each(|x| x[0] += 1)).submit()?;
        }
        Ok(rt.wait()?)
    })
}

/// Returns the time in nanoseconds for one of n ready tasks that only the device can run.
pub(super) fn queue_beside_an_idle_unit(n: usize) -> Result<f64> {
    let rt = without_window("1:CPU:1,1:EMU:1")?;
    let x: Vec<_> = (0..16).map(|_| rt.scalar(0u64)).collect();
    let (open, gate) = closed_gate(&rt)?;
    for at in 0..n {
        rt.task("task", (gate.input(), x[at % x.len()].input())).emulated(|_, _| ()).submit()?;
    }
    nanoseconds_each(n, || {
        drop(open);
        Ok(rt.wait()?)
    })
}

/// Number of replicas that fill the device.
const REPLICAS: usize = 64;
/// Doubles per replica.
const DOUBLES: usize = 1024;

/// Returns the number of replicas that are evicted to make room for one more while n tasks end on the CPU unit.
pub(super) fn evictions_for_one(n: usize) -> Result<f64> {
    // The copies are slow enough that all n tasks end before there is room for the new replica.
    let capacity_bytes = (REPLICAS * DOUBLES * size_of::<f64>()) as u64;
    let device = EmulatedDevice::new().capacity_bytes(capacity_bytes);
    let device = device.copy_delay(Duration::from_millis(20), f64::INFINITY);
    let builder = Runtime::builder().compute_units("1:CPU:1,1:EMU:1");
    let rt = builder.emulated_devices(move |_| device.clone()).build()?;
    let full: Vec<_> = (0..REPLICAS).map(|_| rt.data(vec![0.0f64; DOUBLES])).collect();
    for x in &full {
        rt.task("fill", (x.output(),)).emulated(|_, (x,)| x.fill(1.0)).submit()?;
    }
    rt.wait()?;
    let (before, more) = (rt.statistics().evictions, rt.data(vec![0.0f64; DOUBLES]));
    rt.task("one more", (more.output(),)).emulated(|_, (x,)| x.fill(2.0)).submit()?;
    let elsewhere: Vec<_> = (0..n).map(|_| rt.scalar(0.0)).collect();
    for x in &elsewhere {
        rt.task("elsewhere", (x.inout(),)).host(|_, (x,)| x[0] += 1.0).submit()?;
    }
    rt.wait()?;
    Ok((rt.statistics().evictions - before) as f64)
}

//! Groups that depend on groups: if n tasks depend on n others, the graph must not get n² edges.

use crate::meter::{Result, closed_gate, nanoseconds_each, without_window};
use thalweg::prelude::*;

/// Number of parts of an array. A reader of the whole array depends on one writer per part.
const PARTS: usize = 64;

pub(super) fn reduction(n: usize) -> Result<f64> {
    let rt = without_window("1:CPU:1")?;
    let (open, gate) = closed_gate(&rt)?;
    let x = rt.scalar(0u64);
    for _ in 0..n {
        rt.task("add", (x.reduction(Sum), gate.input())).cpu(|_, (x, _)| x[0] += 1).submit()?;
    }
    readers(&rt, &x, n, open)
}

pub(super) fn concurrent(n: usize) -> Result<f64> {
    let rt = without_window("1:CPU:1")?;
    let (open, gate) = closed_gate(&rt)?;
    let x = rt.scalar(0u64);
    for _ in 0..n {
        rt.task("add", (x.concurrent(), gate.input())).cpu(|_, (x, _)| x.update(0, |x| x + 1)).submit()?;
    }
    readers(&rt, &x, n, open)
}

/// Returns the time in nanoseconds to submit one of n tasks. Each task reads `x` and updates its own part of another
/// array.
fn readers(rt: &Runtime, x: &Data<u64>, n: usize, open: std::sync::mpsc::Sender<()>) -> Result<f64> {
    let y = rt.data(vec![0u64; n]);
    let cost = nanoseconds_each(n, || {
        for part in blocks(n, 1) {
            rt.task("use", (x.input(), y.slice(part).inout())).cpu(|_, (x, y)| y[0] += x[0]).submit()?;
        }
        Ok(())
    })?;
    drop(open);
    rt.wait()?;
    Ok(cost)
}

pub(super) fn readers_first(n: usize) -> Result<f64> {
    let rt = without_window("1:CPU:1")?;
    let (open, gate) = closed_gate(&rt)?;
    let (x, y) = (rt.scalar(0u64), rt.data(vec![0u64; n]));
    for _ in 0..n {
        rt.task("read", (x.input(), gate.input())).cpu(|_, _| ()).submit()?;
    }
    let cost = nanoseconds_each(n, || {
        for part in blocks(n, 1) {
            rt.task("add", (x.reduction(Sum), y.slice(part).inout())).cpu(|_, (x, _)| x[0] += 1).submit()?;
        }
        Ok(())
    })?;
    drop(open);
    rt.wait()?;
    Ok(cost)
}

/// Measures n readers of the whole array, after writers of all parts.
pub(super) fn readers_of_parts(n: usize) -> Result<f64> {
    let rt = without_window("1:CPU:1")?;
    let (open, gate) = closed_gate(&rt)?;
    let x = rt.data(vec![0u64; PARTS]);
    for part in blocks(PARTS, 1) {
        rt.task("write", (x.slice(part).output(), gate.input())).cpu(|_, _| ()).submit()?;
    }
    let cost = nanoseconds_each(n, || {
        for _ in 0..n {
            rt.task("read all", (x.input(),)).cpu(|_, _| ()).submit()?;
        }
        Ok(())
    })?;
    drop(open);
    rt.wait()?;
    Ok(cost)
}

/// Measures the single task that depends on n readers, when every reader is in the history of each of n parts.
pub(super) fn writer_of_parts(n: usize) -> Result<f64> {
    let rt = without_window("1:CPU:1")?;
    let (open, gate) = closed_gate(&rt)?;
    let x = rt.data(vec![0u64; n]);
    for part in blocks(n, 1) {
        rt.task("write", (x.slice(part).output(), gate.input())).cpu(|_, _| ()).submit()?;
    }
    for _ in 0..n {
        rt.task("read all", (x.input(),)).cpu(|_, _| ()).submit()?;
    }
    let cost = nanoseconds_each(n, || {
        rt.task("write all", (x.inout(),)).cpu(|_, _| ()).submit()?;
        Ok(())
    })?;
    drop(open);
    rt.wait()?;
    Ok(cost)
}

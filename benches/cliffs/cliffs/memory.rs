//! Memory that is kept or accumulates needlessly.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::meter::{Result, closed_gate, peak_kib, resident_kib, runtime, spin, without_window};
use thalweg::prelude::*;

/// Number of elements in the array that tasks reduce into: 1 MiB.
const BINS: usize = 1 << 17;

/// Returns how many KiB are still allocated after n tasks have reduced into an array one after the other and nothing
/// has written the data they read.
pub(super) fn kept_by_reductions(n: usize) -> Result<f64> {
    let rt = runtime("1:CPU:1")?;
    let (points, histogram) = (rt.data(vec![1u64; n]), rt.data(vec![0u64; BINS]));
    let count = |part: std::ops::Range<usize>| {
        let accesses = (points.slice(part).input(), histogram.reduction(Sum));
        rt.task("count", accesses).cpu(|_, (points, bins)| bins.fill(points[0])).submit()?;
        Ok::<(), Box<dyn std::error::Error>>(rt.wait()?)
    };
    let before = resident_kib()?;
    blocks(n, 1).try_for_each(count)?;
    Ok((resident_kib()? - before).max(0.0))
}

/// Size of a task's captures, in bytes.
const CAPTURED: usize = 4096;

/// Returns the peak memory, in KiB, of a program that submits n tasks faster than they run, from a thread that hosts no
/// unit.
pub(super) fn peak_under_a_window(n: usize) -> Result<f64> {
    let rt = Runtime::builder().compute_units("1:CPU:1").max_pending_tasks(64).build()?;
    let before = resident_kib()?;
    for at in 0..n {
        let captured = [at as u8; CAPTURED];
        let body = move |_: &Context, ()| {
            spin(20);
            std::hint::black_box(&captured);
        };
        rt.task("heavy", ()).cpu(body).submit()?;
    }
    rt.wait()?;
    Ok((peak_kib()? - before).max(0.0))
}

/// Number of parts whose readers run before memory is measured, so that all memory that will be reused is already
/// allocated.
const WARM: usize = 4;
/// Number of parts whose readers run after the first measurement.
const PARTS: usize = 16;

/// Returns how many KiB are kept per array part after n concurrent readers and a later write.
pub(super) fn kept_by_readers(n: usize) -> Result<f64> {
    let rt = without_window("1:CPU:1")?;
    let x = rt.data(vec![0u8; WARM + PARTS]);
    let round = |part: usize| {
        let part = part..part + 1;
        let (open, gate) = closed_gate(&rt)?;
        for _ in 0..n {
            rt.task("read", (x.slice(part.clone()).input(), gate.input())).cpu(|_, _| ()).submit()?;
        }
        drop(open);
        rt.wait()?;
        rt.task("write", (x.slice(part).output(),)).cpu(|_, _| ()).submit()?;
        Ok::<(), Box<dyn std::error::Error>>(rt.wait()?)
    };
    (0..WARM).try_for_each(round)?;
    let before = resident_kib()?;
    (WARM..WARM + PARTS).try_for_each(round)?;
    Ok((resident_kib()? - before).max(0.0) / PARTS as f64)
}

/// Number of tasks in a recording, each on its own part.
const RECORDED: usize = 4096;

/// Returns the peak memory, in KiB, of a program that replays a recording n times while another thread submits tasks
/// that each read one part of the recorded data. Most replays therefore begin and end part by part, interleaved with
/// the other thread's tasks.
pub(super) fn peak_of_replays_among_others(n: usize) -> Result<f64> {
    let rt = Runtime::builder().compute_units("1:CPU:1").use_current_thread(false).max_pending_tasks(64).build()?;
    let x = rt.data(vec![0u64; RECORDED]);
    let record = |r: &Recorder<'_>| {
        x.blocks(1).into_iter().try_for_each(|part| r.task("update", (part.inout(),)).cpu(|_, (x,)| x[0] += 1).submit())
    };
    let mut recording = rt.record(record)?;
    recording.replay()?;
    rt.wait()?;
    let (before, over) = (resident_kib()?, AtomicBool::new(false));
    std::thread::scope(|threads| {
        let others = threads.spawn(|| {
            let mut parts = (0..RECORDED).cycle();
            while let (false, Some(part)) = (over.load(Ordering::Relaxed), parts.next()) {
                rt.task("look", (x.slice(part..part + 1).input(),)).cpu(|_, _| ()).submit()?;
            }
            Ok::<(), SubmitError>(())
        });
        let replayed = (0..n).try_for_each(|_| recording.replay().map(|_| ()));
        over.store(true, Ordering::Relaxed);
        replayed.and(others.join().expect("submissions do not panic"))
    })?;
    rt.wait()?;
    Ok((peak_kib()? - before).max(0.0))
}

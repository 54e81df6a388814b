//! Measurement tools: a clock, the process's memory use, the context switches of its threads, and gates.

use std::error::Error;
use std::fs;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use thalweg::prelude::*;

/// Result of a measurement.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Builds a runtime with these units and default settings.
pub(crate) fn runtime(units: &str) -> Result<Runtime> {
    Ok(Runtime::builder().compute_units(units).build()?)
}

/// Builds a runtime like [`runtime`] but without a window, which would block submissions while a gate is closed. The
/// window has its own cliff.
pub(crate) fn without_window(units: &str) -> Result<Runtime> {
    Ok(Runtime::builder().compute_units(units).max_pending_tasks(usize::MAX).build()?)
}

/// Runs `work`, which consists of `count` events, and returns the time per event in nanoseconds.
pub(crate) fn nanoseconds_each(count: usize, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64() * 1e9 / count as f64)
}

/// Submits a task that ends when the returned sender is dropped. Also returns the data object that the task writes, so
/// readers of this data object stay pending until then.
pub(crate) fn closed_gate(rt: &Runtime) -> Result<(Sender<()>, Data<u64>)> {
    let gate = rt.scalar(0u64);
    let (open, opened) = channel::<()>();
    let wait = move || _ = opened.recv();
    if rt.machine().num_cpu_units() > 0 {
        rt.task("gate", (gate.output(),)).host(move |_, _| wait()).submit()?;
    } else {
        rt.task("gate", (gate.output(),)).cpu(move |_, _| wait()).submit()?;
    }
    Ok((open, gate))
}

/// Returns the value of the line `key` in `/proc/self/status`, in KiB.
fn status_kib(key: &str) -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with(key)).ok_or("the system reports no memory figures")?;
    Ok(line.split_whitespace().nth(1).ok_or("no figure")?.parse()?)
}

/// Returns how many KiB of this process are in physical memory.
pub(crate) fn resident_kib() -> Result<f64> {
    status_kib("VmRSS:")
}

/// Returns the highest value that [`resident_kib`] has had so far.
pub(crate) fn peak_kib() -> Result<f64> {
    status_kib("VmHWM:")
}

/// Returns the number of context switches of all threads of this process.
pub(crate) fn context_switches() -> Result<u64> {
    let mut sum = 0;
    for task in fs::read_dir("/proc/self/task")? {
        let status = fs::read_to_string(task?.path().join("status")).unwrap_or_default();
        let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
        sum += switches.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok()).sum::<u64>();
    }
    Ok(sum)
}

/// Keeps the core busy for about `microseconds`, without sleeping.
pub(crate) fn spin(microseconds: u64) {
    let start = Instant::now();
    while start.elapsed().as_micros() < u128::from(microseconds) {
        std::hint::spin_loop();
    }
}

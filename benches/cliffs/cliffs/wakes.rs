//! Sleeping threads: an event must wake only the threads that it concerns.

use std::time::Duration;

use crate::meter::{Result, context_switches, runtime};
use thalweg::prelude::*;

/// Number of data objects dropped.
const DROPPED: usize = 500;
/// Number of tasks in the chain.
const CHAIN: usize = 500;
/// Long enough for idle threads to fall asleep.
const PAUSE: Duration = Duration::from_micros(300);

/// Returns the number of context switches per dropped data object while all units sleep.
pub(super) fn by_release(units: usize) -> Result<f64> {
    let rt = runtime(&format!("{units}:CPU:1"))?;
    std::thread::sleep(Duration::from_millis(50));
    let before = context_switches()?;
    for _ in 0..DROPPED {
        drop(rt.scalar(0u64));
        std::thread::sleep(PAUSE);
    }
    rt.wait()?;
    Ok((context_switches()? - before) as f64 / DROPPED as f64)
}

pub(super) fn by_chain_stealing(units: usize) -> Result<f64> {
    by_chain(units, "stealing")
}

pub(super) fn by_chain_dynamic(units: usize) -> Result<f64> {
    by_chain(units, "dynamic")
}

/// Returns the number of context switches per task of a chain, where only one unit can work at a time.
fn by_chain(units: usize, scheduler: &str) -> Result<f64> {
    let rt = Runtime::builder().compute_units(format!("{units}:CPU:1")).scheduler(scheduler).build()?;
    let x = rt.scalar(0u64);
    rt.wait()?;
    let before = context_switches()?;
    for _ in 0..CHAIN {
        rt.task("link", (x.inout(),)).cpu(|_, _| std::thread::sleep(PAUSE)).submit()?;
    }
    rt.wait()?;
    Ok((context_switches()? - before) as f64 / CHAIN as f64)
}

//! Placement: the cost of an event must not depend on how many unrelated units the machine has.

use crate::meter::{Result, nanoseconds_each};
use thalweg::prelude::*;

const TASKS: usize = 20_000;

pub(super) fn units_dynamic(n: usize) -> Result<f64> {
    units(n, "dynamic")
}

pub(super) fn units_stealing(n: usize) -> Result<f64> {
    units(n, "stealing")
}

pub(super) fn units_eft(n: usize) -> Result<f64> {
    units(n, "eft")
}

/// Returns the wall-clock time per task in nanoseconds on a simulated machine with n units, which exercises the whole
/// engine without threads.
fn units(n: usize, scheduler: &str) -> Result<f64> {
    let machine: SimulatedMachine = format!(
        "name = \"wide\"\n[units.CPU]\ncount = {n}\nbytes_per_s = 1e9\n[[tasks]]\nname = \"work\"\ncost = 1\n\
         [tasks.time_ns]\nCPU = {{ 1 = 1000 }}\n"
    )
    .parse()?;
    let builder = Runtime::builder().compute_units(format!("{n}:CPU:1")).scheduler(scheduler);
    let rt = builder.simulate(machine).build()?;
    let x: Vec<Data<u64>> = (0..n).map(|_| rt.zeros(1)).collect();
    nanoseconds_each(TASKS, || {
        for at in 0..TASKS {
            rt.task("work", (x[at % n].inout(),)).cpu(|_, _| ()).submit()?;
        }
        Ok(rt.wait()?)
    })
}

//! Submission from a thread that hosts a unit and from a thread that does not.

use crate::meter::{Result, closed_gate, nanoseconds_each, runtime};
use thalweg::prelude::*;

pub(super) fn hosting(n: usize) -> Result<f64> {
    let rt =
        Runtime::builder().compute_units("2:CPU:1").use_current_thread(true).max_pending_tasks(usize::MAX).build()?;
    submit(&rt, n)
}

pub(super) fn foreign(n: usize) -> Result<f64> {
    let rt = Runtime::builder().compute_units("1:CPU:1").max_pending_tasks(usize::MAX).build()?;
    submit(&rt, n)
}

/// Returns the time in milliseconds of n submissions under the default window. All tasks wait at a gate that the
/// submitter opens only after the last submission.
pub(super) fn behind_own_gate(n: usize) -> Result<f64> {
    let rt = runtime("1:CPU:1")?;
    let (open, gate) = closed_gate(&rt)?;
    let cost = nanoseconds_each(1, || {
        for _ in 0..n {
            rt.task("task", (gate.input(),)).cpu(|_, _| ()).submit()?;
        }
        Ok(())
    })?;
    drop(open);
    rt.wait()?;
    Ok(cost / 1e6)
}

/// Returns the time in nanoseconds to submit one of n tasks, each on its own data object, while none of them can run.
/// Only the second pass counts, because its memory is already allocated.
fn submit(rt: &Runtime, n: usize) -> Result<f64> {
    let data: Vec<_> = (0..n).map(|_| rt.scalar(0u64)).collect();
    let pass = || {
        let (open, gate) = closed_gate(rt)?;
        let cost = nanoseconds_each(n, || {
            for x in &data {
                rt.task("task", (x.inout(), gate.input())).cpu(|_, _| ()).submit()?;
            }
            Ok(())
        })?;
        drop(open);
        rt.wait()?;
        Ok(cost)
    };
    pass()?;
    pass()
}

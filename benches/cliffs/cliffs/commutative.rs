//! Turns of commutative tasks: a finished task must find its successor without scanning all waiting tasks.

use crate::meter::{Result, closed_gate, nanoseconds_each, without_window};

pub(super) fn one_region(n: usize) -> Result<f64> {
    turns(n, |_| 0)
}

pub(super) fn regions(n: usize) -> Result<f64> {
    turns(n, |task| task)
}

/// Returns the time to run one of n tasks that become ready together, in nanoseconds. `element` maps a task's index to
/// the element that the task updates when its turn comes.
fn turns(n: usize, element: fn(usize) -> usize) -> Result<f64> {
    let rt = without_window("1:CPU:1")?;
    let x = rt.data(vec![0u64; n]);
    let (open, gate) = closed_gate(&rt)?;
    for at in (0..n).map(element) {
        rt.task("turn", (x.slice(at..at + 1).commutative(), gate.input())).cpu(|_, (x, _)| x[0] += 1).submit()?;
    }
    nanoseconds_each(n, || {
        drop(open);
        Ok(rt.wait()?)
    })
}

//! Waits: waiting for one task must not require unrelated tasks to finish.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::meter::{Result, spin};
use thalweg::prelude::*;

/// Returns how many of the n tasks in a chain a hosting thread runs before its read of unrelated data returns.
pub(super) fn behind_a_chain(n: usize) -> Result<f64> {
    let rt = Runtime::builder().compute_units("1:CPU:1").use_current_thread(true).build()?;
    let (chain, other, ran) = (rt.scalar(0u64), rt.scalar(0u64), Arc::new(AtomicUsize::new(0)));
    rt.task("other", (other.inout(),)).cpu(|_, (x,)| x[0] = 1).submit()?;
    for _ in 0..n {
        let ran = ran.clone();
        let body = move |_: &Context, _: (&mut [u64],)| {
            spin(20);
            ran.fetch_add(1, Ordering::Relaxed);
        };
        rt.task("chain", (chain.inout(),)).cpu(body).submit()?;
    }
    rt.read(&other)?;
    let before = ran.load(Ordering::Relaxed);
    rt.wait()?;
    Ok(before as f64)
}

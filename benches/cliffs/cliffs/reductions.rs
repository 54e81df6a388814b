//! Reductions: combining must neither hold up submission nor cost more than adding the arrays by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::meter::{Result, runtime};
use thalweg::prelude::*;

/// Number of group members that run while other tasks join the group.
const MEMBERS: usize = 8;
/// Minimum number of tasks that join, at intervals of [`PAUSE`].
const JOINS: usize = 40;
const PAUSE: Duration = Duration::from_millis(1);

/// Returns the mean time in microseconds to submit a task that joins the group. Tasks keep joining until all of the
/// group's first members have run and been combined.
pub(super) fn join_while_combining(n: usize) -> Result<f64> {
    let rt = runtime("1:CPU:1")?;
    let (x, ran) = (rt.data(vec![0.0f64; n]), Arc::new(AtomicUsize::new(0)));
    for member in 0..MEMBERS {
        let ran = ran.clone();
        let body = move |_: &Context, (x,): (&mut [f64],)| {
            x[member] += 1.0;
            ran.fetch_add(1, Ordering::Relaxed);
        };
        rt.task("add", (x.reduction(Sum),)).cpu(body).submit()?;
    }
    while ran.load(Ordering::Relaxed) == 0 {
        std::hint::spin_loop();
    }
    let (mut joins, mut time) = (0, Duration::ZERO);
    while joins < JOINS || ran.load(Ordering::Relaxed) < MEMBERS {
        let start = Instant::now();
        rt.task("late", (x.reduction(Sum),)).cpu(|_, _| ()).submit()?;
        time += start.elapsed();
        joins += 1;
        std::thread::sleep(PAUSE);
    }
    rt.wait()?;
    Ok(time.as_secs_f64() * 1e6 / joins as f64)
}

/// Number of doubles in the array that tasks reduce into: 4 MiB.
const DOUBLES: usize = 1 << 19;

/// Returns the time of n tasks that accumulate into an array, relative to a plain loop that accumulates into its
/// own array and then adds it.
pub(super) fn accumulating_over_loop(n: usize) -> Result<f64> {
    let rt = Runtime::builder().compute_units("1:CPU:1").use_current_thread(true).build()?;
    let x = rt.data(vec![0.0f64; DOUBLES]);
    let start = Instant::now();
    for _ in 0..n {
        rt.task("add", (x.accumulate(Sum),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x += 1.0)).submit()?;
    }
    rt.fetch(&x.all(), SpaceId::HOST)?;
    let tasks = start.elapsed();
    let start = Instant::now();
    let (mut sum, mut own) = (vec![0.0f64; DOUBLES], vec![0.0f64; DOUBLES]);
    for _ in 0..n {
        std::hint::black_box(&mut own).iter_mut().for_each(|x| *x += 1.0);
    }
    sum.iter_mut().zip(&own).for_each(|(sum, x)| *sum += x);
    let by_hand = start.elapsed();
    if rt.take(x)? != sum {
        return Err("tasks and loop differ".into());
    }
    Ok(tasks.as_secs_f64() / by_hand.as_secs_f64())
}

/// Returns the time of n tasks that each fill and reduce an array, relative to a plain loop that fills one array and
/// adds it.
pub(super) fn tasks_over_loop(n: usize) -> Result<f64> {
    let rt = Runtime::builder().compute_units("1:CPU:1").use_current_thread(true).build()?;
    let x = rt.data(vec![0.0f64; DOUBLES]);
    let (mut sum, mut own) = (vec![0.0f64; DOUBLES], vec![0.0f64; DOUBLES]);
    let start = Instant::now();
    for _ in 0..n {
        rt.task("add", (x.reduction(Sum),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x += 1.0)).submit()?;
    }
    rt.fetch(&x, SpaceId::HOST)?;
    let tasks = start.elapsed();
    let start = Instant::now();
    for _ in 0..n {
        own.fill(0.0);
        std::hint::black_box(&mut own).iter_mut().for_each(|x| *x += 1.0);
        sum.iter_mut().zip(&own).for_each(|(sum, x)| *sum += x);
        std::hint::black_box(&mut sum);
    }
    let by_hand = start.elapsed();
    if rt.take(x)? != sum {
        return Err("tasks and loop differ".into());
    }
    Ok(tasks.as_secs_f64() / by_hand.as_secs_f64())
}

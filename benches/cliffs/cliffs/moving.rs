//! Blocks that are accessed once and never again: the tasks that have ended must cost neither time nor memory.

use crate::meter::{Result, nanoseconds_each, resident_kib, runtime};
use thalweg::prelude::*;

/// Number of tasks between two waits.
const STEP: usize = 1000;
/// Number of elements in the array; a two-dimensional array has [`ROWS`] rows and columns.
const ELEMENTS: usize = 1 << 20;
const ROWS: usize = 1000;
/// Number of row blocks with moving borders per step.
const BLOCKS: usize = 50;

/// Submits the task with the given index.
type Submit<'a> = Box<dyn FnMut(usize) -> Result<()> + 'a>;

/// Returns a pseudo-random number below `below`.
fn random(seed: usize, below: usize) -> usize {
    (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % below
}

/// Submits n tasks and waits after every [`STEP`] tasks.
fn run(rt: &Runtime, n: usize, mut submit: Submit<'_>) -> Result<()> {
    for number in 0..n {
        submit(number)?;
        if number % STEP == STEP - 1 {
            rt.wait()?;
        }
    }
    Ok(rt.wait()?)
}

/// Returns the time per task in nanoseconds, after one untimed warm-up step.
fn time(units: &str, n: usize, program: impl Fn(&Runtime) -> Submit<'_>) -> Result<f64> {
    let rt = runtime(units)?;
    let mut submit = program(&rt);
    run(&rt, STEP, Box::new(&mut submit))?;
    nanoseconds_each(n, || run(&rt, n, Box::new(|number| submit(STEP + number))))
}

/// Returns by how many KiB n tasks make the process grow. Twenty steps before the measurement warm all memory caches.
fn memory(units: &str, n: usize, program: impl Fn(&Runtime) -> Submit<'_>) -> Result<f64> {
    const WARM: usize = 20 * STEP;
    let rt = runtime(units)?;
    let mut submit = program(&rt);
    run(&rt, WARM, Box::new(&mut submit))?;
    let before = resident_kib()?;
    run(&rt, n, Box::new(|number| submit(WARM + number)))?;
    Ok((resident_kib()? - before).max(0.0))
}

/// Submits reads of 1000 elements at random positions.
fn reads(rt: &Runtime) -> Submit<'_> {
    let x = rt.data(vec![0u64; ELEMENTS]);
    Box::new(move |n| {
        let at = random(n, ELEMENTS - 1000);
        Ok(rt.task("read", (x.slice(at..at + 1000).input(),)).cpu(|_, _| ()).submit().map(|_| ())?)
    })
}

/// Submits updates of row blocks whose borders move a little in each step.
fn writes(rt: &Runtime) -> Submit<'_> {
    let x = rt.data(vec![0u64; ELEMENTS]);
    Box::new(move |n| {
        let (step, block, extent) = (n / BLOCKS, n % BLOCKS, ELEMENTS / BLOCKS);
        let border = |block: usize| match block {
            0 => 0,
            BLOCKS => ELEMENTS,
            inner => inner * extent + random(step * BLOCKS + inner, extent / 2),
        };
        let rows = border(block)..border(block + 1);
        Ok(rt.task("update", (x.slice(rows).inout(),)).cpu(|_, _| ()).submit().map(|_| ())?)
    })
}

/// Returns a random box of up to a hundredth of the array.
fn random_box(n: usize) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    let (i, j) = (random(n, ROWS - 100), random(n + 77, ROWS - 100));
    (i..i + 1 + n % 99, j..j + 1 + n % 97)
}

/// Submits updates of random boxes.
fn boxes(rt: &Runtime) -> Submit<'_> {
    let x = rt.zeros::<f32, _>((ROWS, ROWS));
    Box::new(move |n| Ok(rt.task("update", (x.block(random_box(n)).inout(),)).cpu(|_, _| ()).submit().map(|_| ())?))
}

/// Submits parents that weakly hold 1000 elements at random positions, each with a child on some of these elements.
fn parents(rt: &Runtime) -> Submit<'_> {
    let x = rt.data(vec![0u64; ELEMENTS]);
    Box::new(move |n| {
        let (at, inner) = (random(n, ELEMENTS - 1000), x.clone());
        let body = move |cx: &Context, _: ((),)| {
            cx.task("child", (inner.slice(at + 10..at + 20).inout(),)).cpu(|_, _| ()).submit().expect("is covered");
        };
        Ok(rt.task("parent", (x.slice(at..at + 1000).weak_inout(),)).cpu(body).submit().map(|_| ())?)
    })
}

pub(super) fn reads_time(n: usize) -> Result<f64> {
    time("2:CPU:1", n, reads)
}

pub(super) fn reads_memory(n: usize) -> Result<f64> {
    memory("2:CPU:1", n, reads)
}

pub(super) fn writes_time(n: usize) -> Result<f64> {
    time("2:CPU:1", n, writes)
}

pub(super) fn boxes_time(n: usize) -> Result<f64> {
    time("2:CPU:1", n, boxes)
}

pub(super) fn boxes_memory(n: usize) -> Result<f64> {
    memory("2:CPU:1", n, boxes)
}

pub(super) fn parents_time(n: usize) -> Result<f64> {
    time("2:CPU:1", n, parents)
}

pub(super) fn parents_memory(n: usize) -> Result<f64> {
    memory("2:CPU:1", n, parents)
}

pub(super) fn device_writes_time(n: usize) -> Result<f64> {
    time("1:EMU:1", n, writes)
}

pub(super) fn device_boxes_time(n: usize) -> Result<f64> {
    time("1:EMU:1", n, boxes)
}

pub(super) fn device_boxes_memory(n: usize) -> Result<f64> {
    memory("1:EMU:1", n, boxes)
}

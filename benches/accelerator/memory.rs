//! Cost of device memory: short-lived arrays of changing sizes, on an idle device and while a kernel runs.
//!
//! The environment variable `THALWEG_DEVICE_MEMORY` selects the allocator of the whole process, `recycler` or `pool`,
//! so a comparison takes two runs. `scripts/gpu-suite` makes both.

use super::cuda::BUSY as BUSY_PROGRAM;
use super::launches::TOUCH;
use super::report::Table;
use super::statistics::median;
use super::{Result, Row, Setting};
use std::time::Instant;
use thalweg::kernel::{Kernel, Write};
use thalweg::machine::UnitKind;
use thalweg::prelude::*;

static BUSY: Kernel<(Write<f64>, i32)> = Kernel::new(&BUSY_PROGRAM, "busy");

/// Arrays that are created in each round.
const ARRAYS: usize = 64;
/// Rounds before the figures of later rounds count.
const FIRST_ROUNDS: usize = 8;

/// Creates arrays that differ in size from those of other rounds, and a task for each. Returns when the tasks have
/// ended, with the time in microseconds.
fn round(rt: &Runtime, bytes: usize, round: usize) -> Result<f64> {
    let start = Instant::now();
    for n in 0..ARRAYS {
        let len = bytes / 8 / ARRAYS;
        let x = rt.zeros_in::<f64, _>(MemoryKind::DeviceOnly, [(len - len * ((round * 7 + n) % 16) / 32).max(1)]);
        rt.task("touch", (x.output(),)).gpu(|k, (mut x,)| k.launch(&TOUCH, 1, (&mut x,))).submit()?;
    }
    rt.wait()?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}

/// Returns how long eight arrays with a task each take while a kernel runs, and how long the kernel takes.
fn beside_a_kernel(rt: &Runtime, bytes: usize, number: usize, x: &Data<f64>, rounds: i32) -> Result<[f64; 2]> {
    let task = rt.task("busy", (x.inout(),)).gpu(move |k, (mut x,)| k.launch(&BUSY, 1, (&mut x, rounds)));
    let start = Instant::now();
    let busy = task.submit_handle()?;
    let mut ends = Vec::new();
    for n in 0..8 {
        let len = bytes / 8 / ARRAYS + 1000 * (number * 8 + n); // a size that no round has had
        let y = rt.zeros_in::<f64, _>(MemoryKind::DeviceOnly, [len.max(1)]);
        let task = rt.task("touch", (y.output(),)).gpu(|k, (mut y,)| k.launch(&TOUCH, 1, (&mut y,)));
        ends.push(task.submit_handle()?);
    }
    ends.iter().try_for_each(|task| task.wait())?;
    let tasks = start.elapsed().as_secs_f64() * 1e6;
    busy.wait()?;
    Ok([tasks, start.elapsed().as_secs_f64() * 1e6])
}

pub(crate) fn measure(setting: &Setting) -> Result<Vec<Row>> {
    if !matches!(setting.kind, UnitKind::Cuda | UnitKind::Hip) {
        println!("Memory: OpenCL has one way to allocate it.");
        return Ok(Vec::new());
    }
    let contender = match std::env::var("THALWEG_DEVICE_MEMORY").as_deref() {
        Ok("pool") => "pool",
        _ => "recycler",
    };
    let rt = setting.runtime()?;
    let x = rt.scalar(0.0);
    let run = |rounds: i32| -> Result<f64> {
        let start = Instant::now();
        rt.task("busy", (x.inout(),)).gpu(move |k, (mut x,)| k.launch(&BUSY, 1, (&mut x, rounds))).submit()?;
        rt.wait()?;
        Ok(start.elapsed().as_secs_f64() * 1e6)
    };
    let probe = 20_000;
    run(probe)?; // compiles the kernel
    let wanted = if setting.bench { 20_000.0 } else { 500.0 };
    let rounds = (f64::from(probe) * wanted / run(probe)?).clamp(1.0, 1e9) as i32;
    let count = if setting.bench { 200 } else { 4 };
    let first = (0..FIRST_ROUNDS).map(|n| round(&rt, setting.bytes, n)).collect::<Result<Vec<_>>>()?;
    let later = (0..count).map(|n| round(&rt, setting.bytes, FIRST_ROUNDS + n)).collect::<Result<Vec<_>>>()?;
    let repetitions = 0..setting.repetitions;
    let both = repetitions.map(|n| beside_a_kernel(&rt, setting.bytes, n, &x, rounds)).collect::<Result<Vec<_>>>()?;
    let each = |times: &[f64]| median(times).map(|us| us / ARRAYS as f64);
    let of = |which: usize| median(&both.iter().map(|both| both[which]).collect::<Vec<_>>());
    let figures = [
        ("an array and its task, first rounds", each(&first)),
        ("an array and its task, later rounds", each(&later)),
        ("eight of new sizes, while a kernel runs", of(0)),
        ("that kernel", of(1)),
    ];
    let mut table = Table::new(contender, &["us"]);
    for (case, us) in figures {
        table.row(case, [us.map(|us| format!("{us:.1}"))]);
    }
    table.print(&format!("Device memory, arrays of up to {} KiB, {}", (setting.bytes / ARRAYS) >> 10, setting.units));
    let row = |(case, value): (&str, Option<f64>)| {
        Some(Row { question: "memory", case: case.to_owned(), contender, value: value?, unit: "us" })
    };
    Ok(figures.into_iter().filter_map(row).collect())
}

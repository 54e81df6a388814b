//! What a launch costs: tiny kernels in a chain and apart, by the runtime and by bare calls.

use super::bare;
use super::report::Table;
use super::statistics::median;
use super::{Result, Row, Setting};
use std::time::Instant;
use thalweg::kernel::{Kernel, Program, Write};
use thalweg::prelude::*;

/// One thread of one group does something; the rest of the time is the launch's.
pub(crate) const TEXT: &str =
    "KERNEL(64, 1, 1) touch(INOUT(double, x, 1)) { REGION(x); if (GLOBAL_ID(0) == 0) x[0] += 1.0; }";
#[allow(unsafe_code)]
// SAFETY: the first element of x is touched.
pub(crate) const PROGRAM: Program = unsafe { Program::new("touch.cl", TEXT) };
static TOUCH: Kernel<(Write<f64>,)> = Kernel::new(&PROGRAM, "touch");

/// Arrays that independent tasks take by turns.
const ARRAYS: usize = 64;

/// Nanoseconds per task.
fn tasks(rt: &Runtime, count: usize, arrays: usize) -> Result<f64> {
    let data: Vec<_> = (0..arrays).map(|_| rt.scalar(0.0)).collect();
    let touch = |x: &Data<f64>| {
        let task = rt.task("touch", (x.inout(),));
        task.gpu(|k, (mut x,)| k.launch(&TOUCH, 1, (&mut x,))).submit()
    };
    data.iter().try_for_each(|x| touch(x).map(drop))?; // compiles the kernel, brings the data
    rt.wait()?;
    let start = Instant::now();
    for n in 0..count {
        touch(&data[n % arrays])?;
    }
    rt.wait()?;
    let elapsed = start.elapsed();
    let done: f64 = data.iter().map(|x| rt.read_scalar(x)).sum::<std::result::Result<f64, _>>()?;
    assert!((done - (count + arrays) as f64).abs() < 0.5, "every kernel has run");
    Ok(elapsed.as_nanos() as f64 / count as f64)
}

pub(crate) fn measure(setting: &Setting) -> Result<Vec<Row>> {
    let rt = setting.runtime()?;
    let (mut chain, mut apart, mut by_hand) = (Vec::new(), Vec::new(), Vec::new());
    let mut bare = bare::launches(setting)?;
    for _ in 0..setting.repetitions {
        by_hand.extend(bare.as_mut().map(|launch| launch(setting.tasks)).transpose()?);
        chain.push(tasks(&rt, setting.tasks, 1)?);
        apart.push(tasks(&rt, setting.tasks, ARRAYS)?);
    }
    let figures = [
        ("bare calls, one stream", "bare", median(&by_hand)),
        ("a chain of tasks", "thalweg", median(&chain)),
        ("tasks on 64 arrays by turns", "thalweg", median(&apart)),
    ];
    let mut table = Table::new("tiny kernels", &["us each", "rate to bare calls"]);
    for (case, _, value) in figures {
        let us = value.map(|value| format!("{:.2}", value / 1e3));
        let rate = figures[0].2.zip(value).map(|(bare, value)| format!("{:.2}", bare / value));
        table.row(case, [us, rate]);
    }
    table.print(&format!("Launches, {} of each, {}", setting.tasks, setting.units));
    let row = |(case, contender, value): (&str, _, Option<f64>)| {
        Some(Row { question: "launches", case: case.to_owned(), contender, value: value?, unit: "ns" })
    };
    Ok(figures.into_iter().filter_map(row).collect())
}

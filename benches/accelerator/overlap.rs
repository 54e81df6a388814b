//! How much of the copies disappears behind kernels: blocks are brought, computed on, and brought home.

use super::report::Table;
use super::statistics::median;
use super::{Result, Row, Setting};
use std::time::Instant;
use thalweg::kernel::{Kernel, Program, Write};
use thalweg::prelude::*;

const TEXT: &str = "
    KERNEL(256, 1, 1) work(INOUT(double, x, n), int rounds, int n)
    {
        REGION(x);
        int i = GLOBAL_ID(0);
        if (i < n) {
            double v = x[i];
            for (int r = 0; r < rounds; r++) v = v * 0.999 + 0.5;
            x[i] = v;
        }
    }
";
#[allow(unsafe_code)]
// SAFETY: the first n elements of x are touched.
const PROGRAM: Program = unsafe { Program::new("overlap.cl", TEXT) };
static WORK: Kernel<(Write<f64>, i32, i32)> = Kernel::new(&PROGRAM, "work");
const BLOCKS: usize = 16;

/// Seconds for all blocks: copied there and back if `moved`, else they are there already.
fn pass(rt: &Runtime, data: &[Data<f64>], rounds: i32, moved: bool) -> Result<f64> {
    let device = SpaceId(1);
    if moved {
        for x in data {
            rt.task("home", (x.output(),)).cpu(|_, (x,)| x.fill(1.0)).submit()?;
        }
    } else {
        data.iter().try_for_each(|x| rt.copy(&x.all(), device))?;
    }
    rt.wait()?;
    let start = Instant::now();
    for x in data {
        let n = x.len();
        let task = rt.task("work", (x.inout(),));
        task.gpu(move |k, (mut x,)| k.launch(&WORK, n, (&mut x, rounds, n as i32))).submit()?;
    }
    if moved {
        data.iter().try_for_each(|x| rt.prefetch(&x.all(), SpaceId::HOST))?;
    }
    rt.wait()?;
    Ok(start.elapsed().as_secs_f64())
}

pub(crate) fn measure(setting: &Setting) -> Result<Vec<Row>> {
    let rt = setting.runtime()?;
    let elements = setting.bytes / 8 / BLOCKS;
    let data: Vec<_> = (0..BLOCKS).map(|_| rt.data(vec![1.0; elements])).collect();
    pass(&rt, &data, 1, true)?; // compiles, allocates
    // As many rounds as make kernels take about as long as copies do.
    let copies = pass(&rt, &data, 1, true)?;
    let probe = 200;
    let kernels = pass(&rt, &data, probe, false)?;
    let rounds = ((f64::from(probe) * copies / kernels) as i32).clamp(1, 1_000_000);
    let mut hidden = Vec::new();
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..setting.repetitions {
        let alone = [pass(&rt, &data, rounds, false)?, pass(&rt, &data, 1, true)?];
        let both = pass(&rt, &data, rounds, true)?;
        hidden.push((alone[0] + alone[1] - both) / alone[0].min(alone[1]));
        for (times, time) in times.iter_mut().zip([alone[0], alone[1], both]) {
            times.push(time);
        }
    }
    let [kernels, copies, both] = times.map(|times| median(&times).unwrap_or(f64::NAN) * 1e3);
    let hidden = median(&hidden).unwrap_or(f64::NAN);
    let mut table = Table::new("16 blocks", &["ms"]);
    for (case, value) in [("kernels alone", kernels), ("copies there and back alone", copies), ("both", both)] {
        table.row(case, [Some(format!("{value:.2}"))]);
    }
    table.row("hidden of the shorter", [Some(format!("{:.0} %", hidden * 100.0))]);
    table.print(&format!("Copies behind kernels, {} MiB, {}", setting.bytes >> 20, setting.units));
    let row =
        |case: &str, value, unit| Row { question: "overlap", case: case.to_owned(), contender: "thalweg", value, unit };
    Ok(vec![
        row("kernels", kernels, "ms"),
        row("copies", copies, "ms"),
        row("both", both, "ms"),
        row("hidden", hidden, ""),
    ])
}

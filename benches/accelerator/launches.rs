//! Cost of a launch: tiny kernels, chained or independent, launched by the runtime and by direct calls to the
//! interface.

use super::bare;
use super::report::Table;
use super::statistics::median;
use super::{Result, Row, Setting};
use std::time::Instant;
use thalweg::kernel::{Kernel, Program, Write};
use thalweg::prelude::*;

/// A kernel in which one thread of one group does a little work, so almost all of the time is launch overhead.
pub(crate) const TEXT: &str =
    "KERNEL(64, 1, 1) touch(INOUT(double, x, 1)) { REGION(x); if (GLOBAL_ID(0) == 0) x[0] += 1.0; }";
#[allow(unsafe_code)]
// SAFETY: the kernel touches only the first element of x, and every array has at least one element.
pub(crate) const PROGRAM: Program = unsafe { Program::new("touch.cl", TEXT) };
pub(crate) static TOUCH: Kernel<(Write<f64>,)> = Kernel::new(&PROGRAM, "touch");

/// Number of arrays that independent tasks use in rotation.
const ARRAYS: usize = 64;

/// Number of tasks in a recording.
pub(crate) const RECORDED: usize = 100;

/// Cases that the goals compare.
pub(crate) const LAUNCH: &str = "bare calls, one stream";
pub(crate) const GRAPH: &str = "bare graphs of a chain";
pub(crate) const CHAIN: &str = "a chain of tasks";
pub(crate) const REPLAYED: &str = "the same, replayed";

/// Times per task, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Times {
    wall: f64,
    /// CPU time of the submitting thread and the unit's thread together; `None` if the system does not report it.
    host: Option<f64>,
}

/// Returns the CPU time that this thread and the runtime's threads have used so far, in nanoseconds. Returns `None` if
/// the system does not report it.
fn computed() -> Option<f64> {
    let mut sum = 0.0;
    for thread in std::fs::read_dir("/proc/self/task").ok()? {
        let path = thread.ok()?.path();
        let is_main = path.file_name()?.to_str()?.parse() == Ok(std::process::id());
        if is_main || std::fs::read_to_string(path.join("comm")).ok()?.starts_with("thalweg") {
            sum += std::fs::read_to_string(path.join("schedstat")).ok()?.split(' ').next()?.parse::<f64>().ok()?;
        }
    }
    Some(sum)
}

/// Returns the times per task, from the call of `submit` until all submitted tasks have ended.
fn timed(rt: &Runtime, tasks: usize, submit: impl FnOnce() -> Result<()>) -> Result<Times> {
    let (before, start) = (computed(), Instant::now());
    submit()?;
    rt.wait()?;
    let (wall, after) = (start.elapsed().as_nanos() as f64, computed());
    let host = before.zip(after).map(|(before, after)| after - before);
    Ok(Times { wall: wall / tasks as f64, host: host.map(|host| host / tasks as f64) })
}

fn check(rt: &Runtime, data: &[Data<f64>], kernels: usize) -> Result<()> {
    let done: f64 = data.iter().map(|x| Ok(rt.read(x)?[0])).sum::<std::result::Result<f64, RunError>>()?;
    assert!((done - kernels as f64).abs() < 0.5, "every kernel has run");
    Ok(())
}

/// Measures `count` submitted tasks that use `arrays` arrays in rotation.
fn tasks(rt: &Runtime, count: usize, arrays: usize) -> Result<Times> {
    let data: Vec<_> = (0..arrays).map(|_| rt.scalar(0.0)).collect();
    let touch = |x: &Data<f64>| {
        let task = rt.task("touch", (x.inout(),));
        task.gpu(|k, (mut x,)| k.launch(&TOUCH, 1, (&mut x,))).submit()
    };
    data.iter().try_for_each(|x| touch(x).map(drop))?; // compiles the kernel and copies the data to the device
    rt.wait()?;
    let times = timed(rt, count, || Ok((0..count).try_for_each(|n| touch(&data[n % arrays]).map(drop))?))?;
    check(rt, &data, count + arrays)?;
    Ok(times)
}

/// Measures `count` replayed tasks that use `arrays` arrays in rotation. Also returns a description of how a replay is
/// submitted.
fn replays(rt: &Runtime, count: usize, arrays: usize) -> Result<(Times, String)> {
    let data: Vec<_> = (0..arrays).map(|_| rt.scalar(0.0)).collect();
    let mut recording = rt.record(|r| {
        (0..RECORDED).try_for_each(|n| {
            let task = r.task("touch", (data[n % arrays].inout(),));
            task.gpu(|k, (mut x,)| k.launch(&TOUCH, 1, (&mut x,))).submit()
        })
    })?;
    // If the device supports graphs, these replays build the graph.
    for _ in 0..3 {
        recording.replay()?;
    }
    rt.wait()?;
    let count = count.div_ceil(RECORDED);
    let times = timed(rt, count * RECORDED, || Ok((0..count).try_for_each(|_| recording.replay())?))?;
    check(rt, &data, (count + 3) * RECORDED)?;
    Ok((times, recording.explain().to_string()))
}

pub(crate) fn measure(setting: &Setting) -> Result<Vec<Row>> {
    let rt = setting.runtime()?;
    let (mut by_hand, mut graphs) = (Vec::new(), Vec::new());
    let mut of_tasks = [const { Vec::new() }; 4];
    let mut replayed = String::new();
    let mut bare = bare::launches(setting)?;
    for _ in 0..setting.repetitions {
        if let Some(bare) = &mut bare {
            by_hand.push((bare.launches)(setting.tasks)?);
            graphs.extend(bare.graphs.as_mut().map(|launch| launch(setting.tasks)).transpose()?);
        }
        for (n, arrays) in [1, ARRAYS].into_iter().enumerate() {
            of_tasks[2 * n].push(tasks(&rt, setting.tasks, arrays)?);
            let (times, how) = replays(&rt, setting.tasks, arrays)?;
            of_tasks[2 * n + 1].push(times);
            replayed = how;
        }
    }
    let cases = [CHAIN, REPLAYED, "tasks on 64 arrays in rotation", "the same in rotation, replayed"];
    let bare = median(&by_hand);
    let mut figures = vec![(LAUNCH, "bare", bare, None), (GRAPH, "bare", median(&graphs), None)];
    figures.extend(cases.into_iter().zip(&of_tasks).map(|(case, times)| {
        let host: Vec<_> = times.iter().filter_map(|times| times.host).collect();
        (case, "thalweg", median(&times.iter().map(|times| times.wall).collect::<Vec<_>>()), median(&host))
    }));
    let mut table = Table::new("tiny kernels", &["us each", "rate to bare calls", "us computed by the host"]);
    for (case, _, value, host) in &figures {
        let us = |ns: Option<f64>| ns.map(|ns| format!("{:.2}", ns / 1e3));
        let rate = bare.zip(*value).map(|(bare, value)| format!("{:.2}", bare / value));
        table.row(case, [us(*value), rate, us(*host)]);
    }
    table.print(&format!("Launches, {} of each, {}", setting.tasks, setting.units));
    println!("Of {RECORDED} tasks: {replayed}.\n");
    let row = |case: String, contender, value: Option<f64>| {
        Some(Row { question: "launches", case, contender, value: value?, unit: "ns" })
    };
    let rows = figures.into_iter().flat_map(|(case, contender, value, host)| {
        [row(case.to_owned(), contender, value), row(format!("{case}: host"), contender, host)]
    });
    Ok(rows.flatten().collect())
}

//! The contenders of the overhead bench, one file each, and the problems that each offers.
//!
//! Contenders in Rust run in a child process of the bench ([`run`]); contenders in C are built by the harness. All
//! follow the same protocol: data and runtime are set up first; the time runs from the first submission to the end of
//! the wait; and the fastest of several passes counts, after a warm-up pass.

mod rayon_scope;
mod thalweg;

use std::error::Error;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::harness::build::{LIBGOMP, LIBOMP};
use crate::harness::tracks_dependences;
use crate::problems::Problem;

/// Name of the runtime that this bench measures against the others.
pub(crate) const THALWEG: &str = "thalweg";
/// The same runtime while it writes a trace.
pub(crate) const TRACED: &str = "thalweg, traced";
/// Name of the contender that sets the lower bound: a work-stealing pool without dependences.
pub(crate) const RAYON: &str = "rayon";

/// Answer that a contender's process prints as JSON.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Answer {
    /// Number of tasks in a pass.
    pub(crate) tasks: usize,
    /// Time of a pass divided by its number of tasks; in `memory`, only the submission is timed.
    pub(crate) ns_per_task: f64,
    /// Growth of the resident memory per pending task; in `memory` only.
    pub(crate) bytes_per_task: Option<f64>,
}

/// Returns `Ok` if `contender` can run `problem` on `workers` workers, and otherwise the reason why it cannot.
pub(crate) fn offers(contender: &str, problem: Problem, workers: usize) -> Result<(), &'static str> {
    match (contender, problem) {
        (THALWEG, _) => Ok(()),
        (TRACED, _) => Ok(()),
        (_, Problem::ReplayIndependent | Problem::ReplayChain | Problem::ReplayWavefront | Problem::ReplayRandom) => {
            Err("to be compared with the same tasks, submitted")
        }
        (_, Problem::Value | Problem::Token | Problem::Result) => Err("to be compared with indep1dep and independent"),
        (RAYON, Problem::Independent | Problem::Fib | Problem::FibJoin | Problem::FlatFib) => Ok(()),
        (_, Problem::Fib | Problem::FibJoin | Problem::FlatFib) => {
            Err("to be compared with Rayon, which has no dependences either")
        }
        (RAYON, _) => Err("a scope has no data dependences"),
        (_, Problem::Regions | Problem::Blocks | Problem::ForEach | Problem::Axpy | Problem::ForEachAxpy) => {
            Err("its dependences are on whole data, not on parts that overlap")
        }
        (LIBGOMP, Problem::Memory) => {
            Err("a task walks the list of all earlier readers of its datum: a million take hours")
        }
        (LIBOMP, Problem::Memory) if workers == 1 => {
            Err("a team of one runs each task at once, so none is ever pending")
        }
        _ => Ok(()),
    }
}

/// Returns whether Thalweg's goals refer to `contender`, which they do if the contender orders tasks by their data.
pub(crate) fn is_rival(contender: &str, workers: usize) -> bool {
    ![THALWEG, TRACED, RAYON].contains(&contender) && tracks_dependences(contender, workers)
}

/// Runs a contender written in Rust in this process.
///
/// # Errors
/// If the name is unknown, the contender does not offer the problem, or the runtime fails.
pub(crate) fn run(
    name: &str,
    problem: Problem,
    tasks: usize,
    workers: usize,
    passes: usize,
) -> Result<Answer, Box<dyn Error>> {
    offers(name, problem, workers)?;
    match name {
        THALWEG => thalweg::run(problem, tasks, workers, passes, None),
        TRACED => {
            let file = std::env::temp_dir().join(format!("thalweg-overhead-{}.thw", std::process::id()));
            let answer = thalweg::run(problem, tasks, workers, passes, Some(&file));
            std::fs::remove_file(file)?;
            answer
        }
        RAYON => rayon_scope::run(problem, tasks, workers, passes),
        _ => Err(format!("no contender {name:?} in this program").into()),
    }
}

/// Measures the time per task over several calls of `pass`, each of which submits `tasks` tasks and waits for them.
fn measure<E>(tasks: usize, passes: usize, mut pass: impl FnMut() -> Result<(), E>) -> Result<Answer, E> {
    pass()?;
    let mut least = Duration::MAX;
    for _ in 0..passes {
        let start = Instant::now();
        pass()?;
        least = least.min(start.elapsed());
    }
    Ok(answer(tasks, least, None))
}

/// Measures the memory per pending task. `submit` submits `tasks` tasks, which stay pending.
fn measure_memory<E>(tasks: usize, submit: impl FnOnce() -> Result<(), E>) -> Result<Answer, E> {
    let before = resident_bytes();
    let start = Instant::now();
    submit()?;
    let elapsed = start.elapsed();
    let growth = resident_bytes().zip(before).map(|(after, before)| after.saturating_sub(before));
    Ok(answer(tasks, elapsed, growth))
}

fn answer(tasks: usize, elapsed: Duration, growth: Option<u64>) -> Answer {
    Answer {
        tasks,
        ns_per_task: elapsed.as_secs_f64() * 1e9 / tasks as f64,
        bytes_per_task: growth.map(|bytes| bytes as f64 / tasks as f64),
    }
}

/// Returns how many bytes of this process are in physical memory, or `None` if the system has no `/proc/self/status`.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1024)
}

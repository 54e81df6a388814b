//! Stages of the programs: the minimum work of each stage and its measured time.
//!
//! The operation count includes only operations that a stage cannot avoid, at the points where it cannot avoid them.
//! Operations are counted by hand from the stage's formulas; a fused multiply-add counts as two, a division or square
//! root as one. The byte count is the minimum traffic of any program for one execution of the stage: every number that
//! the stage needs from outside is read once, every number that it leaves behind is written once, and no memory is read
//! merely because it is about to be written. A stage that moves more data or does more operations than its formulas
//! require therefore falls short of its bound.

pub(crate) mod bt;
pub(crate) mod cg;
pub(crate) mod jacobi;
pub(crate) mod lu;
pub(crate) mod mz;
pub(crate) mod sp;

use std::error::Error;
use std::iter::Sum;
use std::ops::{Add, Mul};
use std::time::Instant;

use serde::Serialize;
use thalweg::Runtime;
use thalweg::error::BuildError;

use crate::crew::Crew;
use crate::statistics::median;

/// Work of a stage in one pass over the whole problem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Work {
    /// Floating-point operations.
    pub(crate) operations: f64,
    /// Minimum traffic: bytes that must be read or written.
    pub(crate) bytes: f64,
    /// How many numbers are gathered through indices.
    pub(crate) gathers: f64,
}

impl Work {
    /// Returns work without gathers.
    pub(crate) const fn new(operations: f64, bytes: f64) -> Self {
        Self { operations, bytes, gathers: 0.0 }
    }
}

impl Add for Work {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            operations: self.operations + other.operations,
            bytes: self.bytes + other.bytes,
            gathers: self.gathers + other.gathers,
        }
    }
}

impl Mul<f64> for Work {
    type Output = Self;

    fn mul(self, times: f64) -> Self {
        Self { operations: self.operations * times, bytes: self.bytes * times, gathers: self.gathers * times }
    }
}

impl Sum for Work {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

/// A measured stage of a program.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) program: &'static str,
    /// The letter of the problem class.
    pub(crate) class: char,
    pub(crate) units: usize,
    pub(crate) stage: &'static str,
    /// Work of a pass over the whole problem.
    pub(crate) work: Work,
    /// Size of the data that the program touches between two such passes, in bytes.
    pub(crate) resident: f64,
    /// Size of the array that numbers are gathered from, in bytes.
    pub(crate) gathered: f64,
    /// Time in seconds of each pass of this stage alone. Every stage passes over the whole problem before the next
    /// stage begins.
    #[serde(skip)]
    pub(crate) passes: Vec<f64>,
    /// Time that the stage takes in a step, in unit seconds: in a plain loop and as tasks. `None` if it was not
    /// measured.
    pub(crate) shares: Option<Shares>,
}

impl Measured {
    /// Returns the time of the fastest pass in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.passes.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// Unit seconds per step with and without the runtime, as medians over interleaved repetitions.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Shares {
    pub(crate) plain: f64,
    pub(crate) tasks: Timed,
    /// The same tasks, but recorded once and replayed in each step; `None` if they were not measured.
    pub(crate) replayed: Option<Timed>,
}

/// Unit seconds per step of tasks.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Timed {
    pub(crate) seconds: f64,
    /// The fraction of this time that the runtime takes: the median over the repetitions.
    pub(crate) runtime: f64,
}

impl Shares {
    /// Computes the shares from repetitions that were each measured in a plain loop and as tasks.
    pub(crate) fn of(repetitions: &[(f64, f64)]) -> Self {
        Self {
            plain: middle(repetitions.iter().map(|(plain, _)| *plain)),
            tasks: Timed::of(repetitions),
            replayed: None,
        }
    }

    /// Computes the shares from repetitions that were each measured in a plain loop, as tasks, and as replayed tasks.
    pub(crate) fn with_replays(repetitions: &[[f64; 3]]) -> Self {
        let beside = |kind: usize| repetitions.iter().map(|times| (times[0], times[kind])).collect::<Vec<_>>();
        Self { replayed: Some(Timed::of(&beside(2))), ..Self::of(&beside(1)) }
    }
}

impl Timed {
    fn of(repetitions: &[(f64, f64)]) -> Self {
        Self {
            seconds: middle(repetitions.iter().map(|(_, tasks)| *tasks)),
            runtime: middle(repetitions.iter().map(|(plain, tasks)| 1.0 - plain / tasks)),
        }
    }
}

/// Returns the median, or NaN if there are no values.
fn middle(values: impl Iterator<Item = f64>) -> f64 {
    median(&values.collect::<Vec<_>>()).unwrap_or(f64::NAN)
}

/// Amount of measurement.
///
/// Disturbances on a machine come and go within seconds, so a repetition consists of several short turns instead of one
/// long turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Minimum number of passes of each stage.
    pub(crate) passes: usize,
    /// Number of interleaved repetitions of a plain loop and of tasks.
    pub(crate) repetitions: usize,
    /// Minimum duration, in seconds, of all passes of a program together and of each repetition.
    pub(crate) seconds: f64,
}

impl Effort {
    /// Returns the number of passes (or steps), given that one takes `seconds`; at least `least`.
    pub(crate) fn times(&self, least: usize, seconds: f64) -> usize {
        ((self.seconds / seconds) as usize).clamp(least, 2000)
    }

    /// Returns the number of turns, each of which includes a plain loop, and the number of steps per turn, given that a
    /// step takes `seconds`.
    pub(crate) fn turns(&self, seconds: f64) -> (usize, usize) {
        /// Number of steps that a turn should have at least. With fewer steps, the beginning and the end of a turn
        /// would distort the result.
        const LEAST: usize = 20;
        const MOST_TURNS: usize = 5;
        let steps = self.times(1, seconds);
        let turns = (steps / LEAST).clamp(1, MOST_TURNS);
        (turns * self.repetitions, steps / turns)
    }
}

/// Builds a runtime with a one-core unit for each thread of the crew and otherwise default settings.
fn runtime(crew: &Crew) -> Result<Runtime, BuildError> {
    let units = crew.units();
    Runtime::builder().compute_units(format!("{units}:CPU:1")).use_current_thread(true).build()
}

/// Returns the time in seconds until `steps` steps of tasks have ended. `submit` submits one step.
fn timed_tasks(
    rt: &Runtime,
    steps: usize,
    submit: impl FnMut(usize) -> Result<(), Box<dyn Error>>,
) -> Result<f64, Box<dyn Error>> {
    let start = Instant::now();
    (0..steps).try_for_each(submit)?;
    rt.wait()?;
    Ok(start.elapsed().as_secs_f64())
}

/// Runs `work` and returns the elapsed time in seconds.
fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

//! The stages: the least work of each, and the time that it takes.
//!
//! Operations are those that a stage must do at the points where it must do them. They are counted by hand from its
//! formulas, a fused multiply-add as two, division and square root as one. Bytes are the least that any program
//! would have to move for the stage once: every number that the stage needs from outside is read once, every number
//! that it leaves is written once, and nothing is read before it is written. So a stage that moves more, or does
//! more than its formulas, misses its bound.

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

/// Work of a stage in a pass over all of a problem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Work {
    /// Floating-point operations.
    pub(crate) operations: f64,
    /// Bytes that must be read or written.
    pub(crate) bytes: f64,
    /// Numbers that are gathered through indices.
    pub(crate) gathers: f64,
}

impl Work {
    /// Returns work of these operations and bytes.
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

/// A stage of a program, measured.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) program: &'static str,
    /// The problem's class, by its letter.
    pub(crate) class: char,
    pub(crate) units: usize,
    pub(crate) stage: &'static str,
    /// Work of a pass over the whole problem.
    pub(crate) work: Work,
    /// Bytes that the program goes through from one such pass to the next.
    pub(crate) resident: f64,
    /// Bytes that numbers are gathered from.
    pub(crate) gathered: f64,
    /// Seconds of each pass over the whole problem by this stage alone: every stage goes through all of it before
    /// the next begins.
    #[serde(skip)]
    pub(crate) passes: Vec<f64>,
    /// Seconds of the stage in a step, summed over the units: in a plain loop, and as tasks.
    pub(crate) shares: Option<Shares>,
}

impl Measured {
    /// Returns the time of the fastest pass.
    pub(crate) fn seconds(&self) -> f64 {
        self.passes.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

/// Unit seconds per step, without and with the runtime: medians over interleaved repetitions.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Shares {
    pub(crate) plain: f64,
    pub(crate) tasks: Timed,
    /// The same tasks, recorded once and replayed in each step.
    pub(crate) replayed: Option<Timed>,
}

/// Unit seconds per step of tasks.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Timed {
    pub(crate) seconds: f64,
    /// The runtime's fraction of them: the median over the repetitions.
    pub(crate) runtime: f64,
}

impl Shares {
    /// Returns the shares of repetitions, each in a plain loop and as tasks.
    pub(crate) fn of(repetitions: &[(f64, f64)]) -> Self {
        Self {
            plain: middle(repetitions.iter().map(|(plain, _)| *plain)),
            tasks: Timed::of(repetitions),
            replayed: None,
        }
    }

    /// Returns the shares of repetitions, each in a plain loop, as tasks, and as tasks that are replayed.
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

/// Returns the median, NaN if there are no values.
fn middle(values: impl Iterator<Item = f64>) -> f64 {
    median(&values.collect::<Vec<_>>()).unwrap_or(f64::NAN)
}

/// How much is measured.
///
/// Disturbances on a machine come and go within seconds, so a repetition is several short turns instead of a long
/// one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Minimum number of passes of each stage.
    pub(crate) passes: usize,
    /// Interleaved repetitions of a plain loop and of tasks.
    pub(crate) repetitions: usize,
    /// Minimum seconds of all passes of a program, and of each repetition.
    pub(crate) seconds: f64,
}

impl Effort {
    /// Returns the number of passes, or of steps, if one takes `seconds`.
    pub(crate) fn times(&self, least: usize, seconds: f64) -> usize {
        ((self.seconds / seconds) as usize).clamp(least, 2000)
    }

    /// Returns the number of turns, each with a plain loop, and the number of steps in each, if a step takes
    /// `seconds`.
    pub(crate) fn turns(&self, seconds: f64) -> (usize, usize) {
        /// With fewer steps in a turn, its beginning and its end would matter.
        const LEAST: usize = 20;
        const MOST_TURNS: usize = 5;
        let steps = self.times(1, seconds);
        let turns = (steps / LEAST).clamp(1, MOST_TURNS);
        (turns * self.repetitions, steps / turns)
    }
}

/// Builds a runtime with a one-core unit for each of the crew's threads, and otherwise as users have it.
fn runtime(crew: &Crew) -> Result<Runtime, BuildError> {
    let units = crew.units();
    Runtime::builder().compute_units(format!("{units}:CPU:1")).use_current_thread(true).build()
}

/// Returns the seconds until `steps` steps of tasks have ended; `submit` submits one step.
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

/// Returns the seconds that `work` takes.
fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

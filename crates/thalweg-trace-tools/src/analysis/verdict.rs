//! The verdict: what limits a run.
//!
//! A run that computes most of the time is busy. Otherwise, if the critical path takes most of the makespan, the
//! path is the limit, because nothing else could shorten the run. Otherwise, the limit is the activity on which the
//! units lost the most time.

use super::sentences::Sentences;
use super::shares::Lost;
use super::{Analysis, Shares};
use crate::Trace;
use crate::text::percent;

/// A run that computes for at least this share of the time counts as busy, in percent.
const BUSY: f64 = 85.0;
/// A critical path of at least this share of the makespan limits the run, in percent.
pub(super) const CRITICAL: f64 = 80.0;
/// A runtime needs microseconds between bodies. After such a gap, in nanoseconds, the thread was not running.
pub(super) const NOT_RUNNING: u64 = 1_000_000;

/// The limit of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Limit {
    /// No body ran.
    #[default]
    Nothing,
    /// The units compute most of the time.
    Busy,
    /// The program submits tasks too slowly.
    Submission,
    /// The program waits for tasks without submitting more, or it has submitted all tasks and only a few remain.
    Waits,
    /// Tasks are small compared with the runtime's work for each.
    Runtime,
    /// Unit threads have work but do not get to run on their cores.
    Cores,
    /// Tasks wait for each other.
    Dependence,
    /// Tasks wait for copies.
    Copy,
    /// Tasks wait for memory.
    Memory,
    /// Units are idle although tasks are ready.
    Imbalance,
}

impl Limit {
    /// Returns the leading words of the verdict, such as `submission-bound`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing ran",
            Self::Busy => "busy",
            Self::Submission => "submission-bound",
            Self::Waits => "held up by waits",
            Self::Runtime => "runtime-bound",
            Self::Cores => "short of cores",
            Self::Dependence => "dependence-bound",
            Self::Copy => "copy-bound",
            Self::Memory => "memory-bound",
            Self::Imbalance => "imbalanced",
        }
    }
}

/// The limit of a run, with a sentence that explains it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// The limit.
    pub limit: Limit,
    /// One sentence: the limit, figures, and a remedy after a semicolon.
    pub sentence: String,
}

pub(super) fn of(trace: &Trace, analysis: &Analysis, lost: &Lost) -> Verdict {
    let limit = limit(analysis, lost);
    let sentence = format!("{}: {}", limit.name(), Sentences { trace, analysis, lost }.of(limit));
    Verdict { limit, sentence }
}

fn limit(analysis: &Analysis, lost: &Lost) -> Limit {
    let shares = &analysis.shares;
    if analysis.bodies() == 0 {
        return Limit::Nothing;
    }
    if percent(shares.computing, analysis.unit_time()) >= BUSY {
        return Limit::Busy;
    }
    if percent(analysis.critical_ns, analysis.makespan()) >= CRITICAL && analysis.critical.len() > 1 {
        return Limit::Dependence;
    }
    // Gaps in which a thread did not run are not the runtime's work, so both compete with the other losses separately.
    let not_running = lost.gaps_from(NOT_RUNNING).1.min(shares.runtime);
    let losses = [
        (submission(shares, lost), Limit::Submission),
        (lost.at_waits, Limit::Waits),
        (not_running, Limit::Cores),
        (shares.runtime - not_running, Limit::Runtime),
        (shares.dependence, Limit::Dependence),
        (shares.copy.saturating_add(lost.copy_elsewhere), Limit::Copy),
        (shares.memory.saturating_add(lost.memory_elsewhere), Limit::Memory),
        (lost.imbalance, Limit::Imbalance),
    ];
    let largest = losses.into_iter().filter(|(time, _)| *time > 0).max_by_key(|(time, _)| *time);
    largest.map_or(Limit::Busy, |(_, limit)| limit)
}

/// Returns the time that is lost because tasks come too slowly.
pub(super) fn submission(shares: &Shares, lost: &Lost) -> u64 {
    (shares.submission.saturating_sub(lost.at_waits)).saturating_add(shares.program)
}

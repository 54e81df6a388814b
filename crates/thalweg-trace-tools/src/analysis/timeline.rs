//! Division of each unit's time into stretches with a single activity.

use super::prepare::Prepared;
use super::spans::{Span, past};
use super::steps::{ALL_SUBMITTED, COPYING, FOR_COPIES, Kinds, READY, Step, THROTTLE, WAIT, by_kind, idle};
use super::unit::{Nature, UnitWalk};

/// How a unit spends its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Activity {
    /// The unit runs a body. Time in which a body waits while its thread searches or sleeps does not count.
    Computing,
    /// The unit is between bodies and no search or sleep was recorded, or a task in the unit's queue has not yet
    /// begun.
    Runtime,
    /// The unit is led by a program thread that currently runs program code: it submits tasks or does other work.
    Program,
    /// Idle; each submitted task that the unit could run waits for a predecessor.
    Dependence,
    /// Idle; tasks placed here wait for copies.
    Copy,
    /// Idle; tasks placed here wait for memory.
    Memory,
    /// Idle although a task was ready; another unit got the task, or it was held back.
    Unit,
    /// Idle; every submitted task that this unit could run had already started.
    Submission,
}

impl Activity {
    /// All activities.
    pub const ALL: [Self; 8] = [
        Self::Computing,
        Self::Runtime,
        Self::Program,
        Self::Dependence,
        Self::Copy,
        Self::Memory,
        Self::Unit,
        Self::Submission,
    ];

    /// Returns the activity as a word: `computing`, `runtime`, `program`, `dependence`, `copy`, `memory`, `unit`,
    /// `submission`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Computing => "computing",
            Self::Runtime => "runtime",
            Self::Program => "program",
            Self::Dependence => "dependence",
            Self::Copy => "copy",
            Self::Memory => "memory",
            Self::Unit => "unit",
            Self::Submission => "submission",
        }
    }

    /// Returns a human-readable title, such as `waiting for a dependence`.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Computing => "computing",
            Self::Runtime => "runtime",
            Self::Program => "in the program",
            Self::Dependence => "waiting for a dependence",
            Self::Copy => "waiting for a copy",
            Self::Memory => "waiting for memory",
            Self::Unit => "task ready elsewhere",
            Self::Submission => "nothing submitted",
        }
    }

    /// Returns `true` if the unit is idle.
    pub const fn is_idle(self) -> bool {
        !matches!(self, Self::Computing | Self::Runtime | Self::Program)
    }
}

/// The state of the program's thread while it is outside of bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Program {
    /// The thread submits tasks or does other work.
    Works,
    /// The thread waits for tasks.
    Waits,
    /// The thread is throttled because too many tasks are pending.
    Throttled,
    /// The thread has submitted its last task.
    HasSubmittedAll,
}

/// A stretch of one unit's time with one activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The unit.
    pub unit: usize,
    /// When the stretch began, in nanoseconds.
    pub start: u64,
    /// When the stretch ended, in nanoseconds.
    pub end: u64,
    /// The unit's activity.
    pub activity: Activity,
    /// The program's state during the stretch. If the unit computes, the state at the beginning of the stretch.
    pub program: Program,
    /// For [`Activity::Unit`], what all ready tasks on other units wait for, if that is copies ([`Activity::Copy`])
    /// or memory ([`Activity::Memory`]).
    pub elsewhere: Option<Activity>,
}

/// Divides the time of all units into stretches and calls `visit` for each.
pub(super) fn walk(prepared: &Prepared<'_>, mut visit: impl FnMut(&Stretch)) {
    let kinds = Kinds::new(prepared);
    let steps = by_kind(prepared, &kinds);
    for walk in UnitWalk::of_all(prepared) {
        let mut pending: Option<Stretch> = None;
        let mut merge = |next: Stretch| match &mut pending {
            Some(last) if last.activity == next.activity && next.activity == Activity::Computing => last.end = next.end,
            Some(last) if *last == (Stretch { start: last.start, end: last.end, ..next }) => last.end = next.end,
            last => last.replace(next).iter().for_each(&mut visit),
        };
        let (steps, mut step) = (&steps[kinds.of_unit(walk.unit)], 0);
        walk.run(|span, nature| divide(walk.unit, span, nature, steps, &mut step, &mut merge));
        pending.iter().for_each(&mut visit);
    }
}

/// Divides a span in which the unit's own flags stay the same. `step` is the index of a step at or before the
/// span's start.
pub(super) fn divide(
    unit: usize,
    (from, until): Span,
    nature: Nature,
    steps: &[Step],
    step: &mut usize,
    mut visit: impl FnMut(Stretch),
) {
    *step += past(&steps[*step..], |step| step.at <= from).saturating_sub(1);
    let mut start = from;
    while start < until {
        let next = steps.get(*step + 1).filter(|_| !matches!(nature, Nature::Sure(_)));
        let end = next.map_or(until, |next| next.at.min(until));
        let now = steps[*step].flags;
        let program = match () {
            () if now & WAIT != 0 => Program::Waits,
            () if now & THROTTLE != 0 => Program::Throttled,
            () if now & ALL_SUBMITTED != 0 => Program::HasSubmittedAll,
            () => Program::Works,
        };
        let activity = match nature {
            Nature::Sure(activity) => activity,
            Nature::UnlessCopying(_) if now & COPYING != 0 => Activity::Copy,
            Nature::UnlessCopying(activity) => activity,
            Nature::Idle => idle(now),
        };
        let elsewhere = match () {
            () if activity != Activity::Unit || now & READY != 0 => None,
            () if now & FOR_COPIES != 0 => Some(Activity::Copy),
            () => Some(Activity::Memory),
        };
        visit(Stretch { unit, start, end, activity, program, elsewhere });
        start = end;
        if start < until {
            *step += 1;
        }
    }
}

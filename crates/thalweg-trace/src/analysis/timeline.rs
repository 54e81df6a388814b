//! The division of each unit's time into stretches of one activity.

use super::prepare::Prepared;
use super::spans::{Span, past};
use super::steps::{ALL_SUBMITTED, COPYING, FOR_COPIES, Kinds, READY, Step, THROTTLE, WAIT, by_kind, idle};
use super::unit::{Nature, UnitWalk};

/// A use of a unit's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Activity {
    /// A body runs. A body that waits, while its thread searches or sleeps, does not count.
    Computing,
    /// Between bodies, without a recorded search or sleep; or a task is in the unit's queue and was not yet begun.
    Runtime,
    /// The unit is led by a thread of the program, which is in the program: it submits tasks, or does other work.
    Program,
    /// Idle; each submitted task that the unit could run waits for a predecessor.
    Dependence,
    /// Idle; tasks placed here wait for copies.
    Copy,
    /// Idle; tasks placed here wait for memory.
    Memory,
    /// Idle although a task was ready, which another unit got or which was held back.
    Unit,
    /// Idle; no task was submitted that this unit could run and that had not started.
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

    /// Returns a word for it: `computing`, `runtime`, `program`, `dependence`, `copy`, `memory`, `unit`, `submission`.
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

    /// Returns a title for people, such as `waiting for a dependence`.
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

    /// Tells whether the unit has nothing to do.
    pub const fn is_idle(self) -> bool {
        !matches!(self, Self::Computing | Self::Runtime | Self::Program)
    }
}

/// The state of the program's thread, outside of bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Program {
    /// It submits tasks, or does other work.
    Works,
    /// It waits for tasks.
    Waits,
    /// It is held back, because too many tasks are pending.
    Throttled,
    /// It has submitted its last task.
    HasSubmittedAll,
}

/// A stretch of one unit's time with one activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The unit.
    pub unit: usize,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// The unit's activity.
    pub activity: Activity,
    /// The program's state meanwhile; of a stretch in which the unit computes, at its beginning.
    pub program: Program,
    /// For [`Activity::Unit`]: the common obstacle of all ready tasks on other units, if they wait for copies
    /// ([`Activity::Copy`]) or for memory ([`Activity::Memory`]).
    pub elsewhere: Option<Activity>,
}

/// Divides the time of all units.
pub(super) fn walk(prepared: &Prepared<'_>, mut visit: impl FnMut(&Stretch)) {
    let kinds = Kinds::new(prepared.trace);
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

/// Divides a span of one nature. `step` is a step at or before its start.
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

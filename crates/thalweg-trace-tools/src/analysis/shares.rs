//! Sums of unit time per activity, and a finer breakdown of lost time by reason.

use super::prepare::Prepared;
use super::spans::{Span, sum};
use super::steps::{Kinds, by_kind};
use super::sums::{Idle, IdleTimes, Sums};
use super::timeline::{Activity, divide};
use super::unit::{Nature, UnitWalk};
use std::collections::HashSet;

/// The time and the tasks of one unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitUse {
    /// The number of bodies that the unit ran.
    pub tasks: u64,
    /// How the unit's time divides into activities.
    pub shares: Shares,
}

/// Shares of time, in nanoseconds; see [`Activity`] for the fields.
///
/// The fields add up to the time of the units: each moment of a unit belongs to exactly one of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shares {
    /// A body runs; bodies in bodies count once.
    pub computing: u64,
    /// Time between bodies in which neither a search nor a sleep was recorded.
    pub runtime: u64,
    /// Time in which the unit's leading thread runs program code: it submits tasks or does other work.
    pub program: u64,
    /// Idle while each submitted task that the unit could run waits for a predecessor.
    pub dependence: u64,
    /// Idle while tasks placed here wait for copies.
    pub copy: u64,
    /// Idle while tasks placed here wait for memory.
    pub memory: u64,
    /// Idle although a task was ready; another unit got the task, or it was held back.
    pub unit: u64,
    /// Idle because every submitted task had already started.
    pub submission: u64,
}

impl Shares {
    /// Returns the time of an activity.
    pub fn get(&self, activity: Activity) -> u64 {
        match activity {
            Activity::Computing => self.computing,
            Activity::Runtime => self.runtime,
            Activity::Program => self.program,
            Activity::Dependence => self.dependence,
            Activity::Copy => self.copy,
            Activity::Memory => self.memory,
            Activity::Unit => self.unit,
            Activity::Submission => self.submission,
        }
    }

    /// Returns a mutable reference to the time of an activity.
    fn get_mut(&mut self, activity: Activity) -> &mut u64 {
        match activity {
            Activity::Computing => &mut self.computing,
            Activity::Runtime => &mut self.runtime,
            Activity::Program => &mut self.program,
            Activity::Dependence => &mut self.dependence,
            Activity::Copy => &mut self.copy,
            Activity::Memory => &mut self.memory,
            Activity::Unit => &mut self.unit,
            Activity::Submission => &mut self.submission,
        }
    }

    /// Returns all activities with their times.
    pub fn parts(&self) -> [(Activity, u64); 8] {
        Activity::ALL.map(|activity| (activity, self.get(activity)))
    }

    /// Returns the sum of all times.
    pub fn total(&self) -> u64 {
        sum(self.parts().iter().map(|(_, time)| *time))
    }

    /// Returns the total idle time.
    pub fn idle(&self) -> u64 {
        sum(self.parts().iter().filter(|(activity, _)| activity.is_idle()).map(|(_, time)| *time))
    }

    /// Adds the shares of another unit to this one.
    pub fn add(&mut self, other: &Self) {
        for (activity, time) in other.parts() {
            let sum = self.get_mut(activity);
            *sum = sum.saturating_add(time);
        }
    }
}

/// Time lost on all units, broken down more finely than by [`Activity`].
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// Nothing was submitted, because the program waited for tasks or had submitted all.
    pub(super) at_waits: u64,
    /// All submitted tasks waited for predecessors, and the program could not submit more.
    pub(super) throttled: u64,
    /// The only ready tasks waited for copies, on other units.
    pub(super) copy_elsewhere: u64,
    /// The only ready tasks waited for memory, on other units.
    pub(super) memory_elsewhere: u64,
    /// Tasks were ready, and the idle unit was of a kind that ran tasks.
    pub(super) imbalance: u64,
    /// Durations of all stretches of [`Activity::Runtime`], shortest first.
    pub(super) gaps: Vec<u64>,
}

impl Lost {
    /// Returns the median stretch between bodies.
    pub(super) fn median_gap(&self) -> u64 {
        self.gaps.get(self.gaps.len() / 2).copied().unwrap_or(0)
    }

    /// Returns the number and the total duration of runtime stretches that last at least `time`.
    pub(super) fn gaps_from(&self, time: u64) -> (u64, u64) {
        let long = &self.gaps[self.gaps.partition_point(|gap| *gap < time)..];
        (long.len() as u64, sum(long.iter().copied()))
    }
}

/// Returns the shares of each unit, and the lost time of all units together.
pub(super) fn of_units(prepared: &Prepared<'_>) -> (Vec<UnitUse>, Lost) {
    let mut units = vec![UnitUse::default(); prepared.units];
    for task in &prepared.trace.tasks {
        if let (Some(_), Some(unit)) = (task.start, task.unit) {
            units[unit].tasks += 1;
        }
    }
    let kinds = Kinds::new(prepared);
    let used: HashSet<usize> = (0..units.len()).filter(|unit| units[*unit].tasks > 0).collect();
    let used: HashSet<usize> = used.into_iter().map(|unit| kinds.of_unit(unit)).collect();
    let steps = by_kind(prepared, &kinds);
    let sums = |(kind, steps)| Sums::new(steps, &prepared.submissions[kinds.rank_of(kind)]);
    let sums: Vec<Sums<'_>> = steps.iter().map(Vec::as_slice).enumerate().map(sums).collect();
    let mut lost = Lost::default();
    for walk in UnitWalk::of_all(prepared) {
        let kind = kinds.of_unit(walk.unit);
        let (mut step, mut times, mut gap) = (0, IdleTimes::default(), (0, 0));
        let shares = &mut units[walk.unit].shares;
        let mut add = |activity, (start, end): Span| {
            *shares.get_mut(activity) += end - start;
            if activity == Activity::Runtime {
                if gap.1 != start {
                    lost.gaps.push(gap.1 - gap.0);
                    gap.0 = start;
                }
                gap.1 = end;
            }
        };
        walk.run(|span, nature| match nature {
            Nature::Idle => sums[kind].add(span, &mut step, &mut times),
            Nature::Sure(activity) => add(activity, span),
            nature => divide(walk.unit, span, nature, &steps[kind], &mut step, |stretch| {
                add(stretch.activity, (stretch.start, stretch.end));
            }),
        });
        lost.gaps.push(gap.1 - gap.0);
        let time = |idle: Idle| times[idle as usize];
        shares.unit = time(Idle::Unit) + time(Idle::CopyElsewhere) + time(Idle::MemoryElsewhere);
        shares.dependence = time(Idle::Dependence) + time(Idle::Throttled);
        shares.submission = time(Idle::Submission) + time(Idle::AtWait);
        let add = |lost: &mut u64, idle: Idle| *lost = lost.saturating_add(time(idle));
        add(&mut lost.throttled, Idle::Throttled);
        add(&mut lost.at_waits, Idle::AtWait);
        if used.contains(&kind) {
            add(&mut lost.imbalance, Idle::Unit);
            add(&mut lost.copy_elsewhere, Idle::CopyElsewhere);
            add(&mut lost.memory_elsewhere, Idle::MemoryElsewhere);
        }
    }
    lost.gaps.retain(|gap| *gap > 0);
    lost.gaps.sort_unstable();
    (units, lost)
}

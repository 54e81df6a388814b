//! Sums of the units' time per activity, and of lost time by finer reasons than activities.

use super::prepare::Prepared;
use super::spans::Span;
use super::steps::{Kinds, by_kind};
use super::sums::{Idle, IdleTimes, Sums};
use super::timeline::{Activity, divide};
use super::unit::{Nature, UnitWalk};
use std::collections::HashSet;

/// The time and the tasks of one unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitUse {
    /// The number of bodies that it ran.
    pub tasks: u64,
    /// The shares of its time.
    pub shares: Shares,
}

/// Shares of time, in nanoseconds; see [`Activity`] for the fields.
///
/// The fields add up to the time of the units: each moment of a unit belongs to exactly one of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shares {
    /// A body runs; bodies in bodies count once.
    pub computing: u64,
    /// Between bodies, without a recorded search or sleep.
    pub runtime: u64,
    /// The thread that leads the unit is in the program: it submits tasks, or does other work.
    pub program: u64,
    /// Idle while each submitted task that the unit could run waits for a predecessor.
    pub dependence: u64,
    /// Idle while tasks placed here wait for copies.
    pub copy: u64,
    /// Idle while tasks placed here wait for memory.
    pub memory: u64,
    /// Idle although a task was ready, which another unit got or which was held back.
    pub unit: u64,
    /// Idle while no task was submitted that had not yet started.
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

    /// Returns the place of an activity's time.
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
        self.parts().iter().map(|(_, time)| time).sum()
    }

    /// Returns the time in which the unit had nothing to do.
    pub fn idle(&self) -> u64 {
        self.parts().iter().filter(|(activity, _)| activity.is_idle()).map(|(_, time)| time).sum()
    }

    /// Adds the shares of another unit.
    pub fn add(&mut self, other: &Self) {
        for (activity, time) in other.parts() {
            *self.get_mut(activity) += time;
        }
    }
}

/// Lost time of all units, by finer reasons than activities.
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
    /// Tasks were ready, on units of kinds that ran tasks.
    pub(super) imbalance: u64,
    /// The stretches of [`Activity::Runtime`], the shortest first.
    pub(super) gaps: Vec<u64>,
}

impl Lost {
    /// Returns the median stretch between bodies.
    pub(super) fn median_gap(&self) -> u64 {
        self.gaps.get(self.gaps.len() / 2).copied().unwrap_or(0)
    }

    /// Returns the number and the sum of stretches of at least a time.
    pub(super) fn gaps_from(&self, time: u64) -> (u64, u64) {
        let long = &self.gaps[self.gaps.partition_point(|gap| *gap < time)..];
        (long.len() as u64, long.iter().sum())
    }
}

/// Returns the shares of each unit, and the lost time of all.
pub(super) fn of_units(prepared: &Prepared<'_>) -> (Vec<UnitUse>, Lost) {
    let mut units = vec![UnitUse::default(); prepared.units];
    for task in &prepared.trace.tasks {
        if let (Some(_), Some(unit)) = (task.start, task.unit) {
            units[unit].tasks += 1;
        }
    }
    let kinds = Kinds::new(prepared.trace);
    let used: HashSet<usize> = (0..units.len()).filter(|unit| units[*unit].tasks > 0).collect();
    let used: HashSet<usize> = used.into_iter().map(|unit| kinds.of_unit(unit)).collect();
    let steps = by_kind(prepared, &kinds);
    let sums: Vec<Sums<'_>> = steps.iter().map(|steps| Sums::new(steps, &prepared.submissions)).collect();
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
        lost.throttled += time(Idle::Throttled);
        lost.at_waits += time(Idle::AtWait);
        if used.contains(&kind) {
            lost.imbalance += time(Idle::Unit);
            lost.copy_elsewhere += time(Idle::CopyElsewhere);
            lost.memory_elsewhere += time(Idle::MemoryElsewhere);
        }
    }
    lost.gaps.retain(|gap| *gap > 0);
    lost.gaps.sort_unstable();
    (units, lost)
}

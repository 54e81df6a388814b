//! Sums of the timeline, per unit and for reasons that lie in the program.

use super::prepare::Prepared;
use super::timeline::{Activity, Program, walk};

/// What one unit did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitUse {
    /// How many bodies it ran.
    pub tasks: u64,
    /// What its time went to.
    pub shares: Shares,
}

/// What time went to, in nanoseconds; see [`Activity`] for the fields.
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
    /// The time of an activity.
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

    /// The place of an activity's time.
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

    /// All activities with their times.
    pub fn parts(&self) -> [(Activity, u64); 8] {
        Activity::ALL.map(|activity| (activity, self.get(activity)))
    }

    /// The sum of all.
    pub fn total(&self) -> u64 {
        self.parts().iter().map(|(_, time)| time).sum()
    }

    /// The time in which the unit had nothing to do.
    pub fn idle(&self) -> u64 {
        self.parts().iter().filter(|(activity, _)| activity.is_idle()).map(|(_, time)| time).sum()
    }

    /// Adds those of another unit.
    pub fn add(&mut self, other: &Self) {
        for (activity, time) in other.parts() {
            *self.get_mut(activity) += time;
        }
    }
}

/// Idle time by what the program did, over all units.
#[derive(Debug, Default)]
pub(super) struct Lost {
    /// Nothing was submitted, because the program waited for tasks or had submitted all.
    pub(super) at_waits: u64,
    /// All submitted tasks waited for predecessors, and the program could not submit more.
    pub(super) throttled: u64,
}

/// What each unit did, and what was lost in all.
pub(super) fn of_units(prepared: &Prepared<'_>) -> (Vec<UnitUse>, Lost) {
    let mut units = vec![UnitUse::default(); prepared.units];
    let mut lost = Lost::default();
    walk(prepared, |stretch| {
        let time = stretch.end - stretch.start;
        *units[stretch.unit].shares.get_mut(stretch.activity) += time;
        match (stretch.activity, stretch.program) {
            (Activity::Submission, Program::Waits | Program::HasSubmittedAll) => lost.at_waits += time,
            (Activity::Dependence, Program::Throttled) => lost.throttled += time,
            _ => {}
        }
    });
    for task in &prepared.trace.tasks {
        if let (Some(_), Some(unit)) = (task.start, task.unit) {
            units[unit].tasks += 1;
        }
    }
    (units, lost)
}

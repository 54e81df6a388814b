//! The table of tasks, built from records that name tasks by number and come in any order.
//!
//! Each kind of record has its list, and the table is built from the lists at the end. A list takes less memory than a
//! map with an entry per task, and a task's position follows from its number, since most numbers are consecutive.
//!
//! Invariants:
//! 1. A task is in the table if its submission was recorded.
//! 2. If several records of one kind name a task, the last one that was added counts.

use crate::record::{End, NO_UNIT, Stage};
use crate::tables::{Task, Trace};

/// How and where a body ran.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ran {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) unit: u32,
    pub(crate) device: u16,
    pub(crate) stream: Option<u32>,
    pub(crate) outcome: End,
}

/// The placement of a task: its time, the policy, and the nanoseconds that the policy expected of the body and until
/// the body's end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice {
    pub(crate) at: u64,
    pub(crate) policy: u8,
    pub(crate) expected: [Option<u64>; 2],
}

/// The submission of a task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Submission {
    pub(crate) task: u64,
    pub(crate) at: u64,
    pub(crate) site: u32,
    pub(crate) thread: u32,
}

/// The records about tasks.
#[derive(Default)]
pub(crate) struct Records {
    pub(crate) submissions: Vec<Submission>,
    /// Tasks, with the numbers of their parents.
    pub(crate) parents: Vec<(u64, u64)>,
    pub(crate) runs: Vec<(u64, Ran)>,
    /// Tasks, with the number of a stage and its time.
    pub(crate) stages: Vec<(u64, usize, u64)>,
    pub(crate) choices: Vec<(u64, Choice)>,
}

impl Records {
    /// Fills the table of `trace`, and returns the tasks' positions. `parent_at` returns the task that a parent's
    /// number means at some time.
    pub(crate) fn into_table(mut self, trace: &mut Trace, parent_at: impl Fn(u64, u64) -> u64) -> Positions {
        let mut submissions = std::mem::take(&mut self.submissions);
        // Sorting is stable, so of the records about a task the last one comes last.
        submissions.sort_by_key(|submission| submission.task);
        submissions.dedup_by(|later, kept| {
            let is_same = later.task == kept.task;
            if is_same {
                *kept = *later;
            }
            is_same
        });
        let positions = Positions::new(submissions.iter().map(|submission| submission.task));
        let (sites, policies) = (trace.sites.len(), trace.policies.len());
        let task = |Submission { task, at, site, thread }: Submission| Task {
            number: task,
            site: (site as usize).min(sites - 1),
            submitted: at,
            submitter: Some(thread as usize),
            ..Task::default()
        };
        trace.tasks = submissions.into_iter().map(task).collect();
        let tasks = &mut trace.tasks;
        for (number, Ran { start, end, unit, device, stream, outcome }) in self.runs {
            let Some(position) = positions.of(number) else { continue };
            let task = &mut tasks[position];
            (task.start, task.end, task.finished) = (Some(start), Some(end), Some(end));
            task.unit = unit_with(unit);
            task.device = device.checked_sub(1).map(usize::from);
            task.stream = stream.map(|stream| stream as usize);
            task.outcome = Some(outcome);
        }
        for (number, stage, at) in self.stages {
            let Some(position) = positions.of(number) else { continue };
            let (task, at) = (&mut tasks[position], Some(at));
            match stage {
                stage if stage == Stage::Ready as usize => task.ready = at,
                stage if stage == Stage::Reserved as usize => task.reserved = at,
                stage if stage == Stage::Launched as usize => task.launched = at,
                stage if stage == Stage::Ended as usize => task.finished = at,
                _ => {}
            }
        }
        for (number, Choice { at, policy, expected }) in self.choices {
            let Some(position) = positions.of(number) else { continue };
            let task = &mut tasks[position];
            task.placed = Some(at);
            task.policy = Some(usize::from(policy)).filter(|policy| *policy < policies);
            [task.expected, task.expected_end] = expected;
        }
        for (number, parent) in self.parents {
            let Some(position) = positions.of(number) else { continue };
            tasks[position].parent = positions.of(parent_at(parent, tasks[position].submitted));
        }
        positions
    }
}

/// Returns the unit with a number in a record.
pub(crate) fn unit_with(number: u32) -> Option<usize> {
    (number != NO_UNIT).then_some(number as usize)
}

/// The positions of tasks in the table, by number.
pub(crate) struct Positions {
    /// The runs of consecutive numbers, in order: the first number, and its position.
    runs: Vec<(u64, usize)>,
    tasks: usize,
}

impl Positions {
    /// Returns the positions of tasks with these numbers, which are in order and distinct.
    fn new(numbers: impl Iterator<Item = u64>) -> Self {
        let (mut runs, mut tasks, mut next) = (Vec::new(), 0, None);
        for number in numbers {
            if next != Some(number) {
                runs.push((number, tasks));
            }
            (next, tasks) = (number.checked_add(1), tasks + 1);
        }
        Self { runs, tasks }
    }

    /// Returns the position of a task; `None` if the task is not in the table.
    pub(crate) fn of(&self, number: u64) -> Option<usize> {
        let run = self.runs.partition_point(|(first, _)| *first <= number).checked_sub(1)?;
        let (first, position) = self.runs[run];
        let end = self.runs.get(run + 1).map_or(self.tasks, |(_, next)| *next);
        let offset = usize::try_from(number - first).ok()?;
        (offset < end - position).then_some(position + offset)
    }
}

#[cfg(test)]
mod tests {
    use super::Positions;

    #[test]
    fn positions_follow_from_numbers_with_gaps() {
        let numbers = [3, 4, 5, 9, 11, 12, u64::MAX - 1, u64::MAX];
        let positions = Positions::new(numbers.into_iter());
        assert_eq!(numbers.map(|number| positions.of(number)), std::array::from_fn(Some));
        assert_eq!([0, 2, 6, 8, 10, 13, u64::MAX - 2].map(|number| positions.of(number)), [None; 7]);
        assert_eq!(Positions::new([].into_iter()).of(0), None);
    }
}

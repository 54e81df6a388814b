//! StarPU's `dmdas`: a ready task goes to the queue of the unit where it would end first, including the copies of its
//! data (`dmda`: the expected end of the unit's work, plus the copies, plus the task, all with weight 1); each queue is
//! sorted by priority, and only tasks of at least the same priority count as work before it.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use thalweg::ids::{TaskId, UnitId};
use thalweg::sched::{Policy, ReadyTask, Sample, SubmittedTask, View};

use super::{Numbers, Problem, ranks};

/// The baseline; for one run of its graph.
#[derive(Debug)]
pub(crate) struct Dmdas {
    problem: Problem,
    /// Time of one byte over a link.
    byte_ns: f64,
    priority: Vec<u64>,
    queues: Vec<BTreeSet<(Reverse<u64>, usize)>>,
    /// When each unit ends the tasks that it was given.
    until_ns: Vec<f64>,
    now_ns: f64,
    numbers: Numbers,
}

impl Dmdas {
    /// Creates the policy; `byte_ns` is the time of one byte over a link.
    pub(crate) fn new(problem: Problem, byte_ns: f64) -> Self {
        let priority = ranks::upward(&problem).into_iter().map(f64::to_bits).collect();
        let units = problem.units();
        let (queues, until_ns) = (vec![BTreeSet::new(); units], vec![0.0; units]);
        Self { problem, byte_ns, priority, queues, until_ns, now_ns: 0.0, numbers: Numbers::default() }
    }

    fn end_ns(&self, task: usize, unit: usize) -> f64 {
        let urgent = self.queues[unit].range(..=(Reverse(self.priority[task]), usize::MAX));
        let queued: f64 = urgent.map(|(_, other)| self.problem.cost[*other][unit]).sum();
        self.until_ns[unit].max(self.now_ns) + queued + self.problem.cost[task][unit]
    }
}

impl Policy for Dmdas {
    fn name(&self) -> &'static str {
        "dmdas"
    }

    fn looks_ahead(&self) -> bool {
        true
    }

    fn submitted(&mut self, task: &SubmittedTask<'_>) {
        self.numbers.submitted(task.id);
    }

    fn ready(&mut self, task: ReadyTask, view: &View<'_>) {
        let index = self.numbers.of(task.id);
        let end = |unit: &usize| {
            self.end_ns(index, *unit) + view.missing_at(task.id, UnitId(*unit as u16)) as f64 * self.byte_ns
        };
        let best = (0..self.problem.units()).min_by(|one, other| end(one).total_cmp(&end(other))).unwrap_or(0);
        self.queues[best].insert((Reverse(self.priority[index]), index));
    }

    fn next(&mut self, unit: UnitId, _: &View<'_>) -> Option<TaskId> {
        let unit = unit.index();
        let (_, task) = self.queues[unit].pop_first()?;
        self.until_ns[unit] = self.until_ns[unit].max(self.now_ns) + self.problem.cost[task][unit];
        Some(self.numbers.task(task))
    }

    fn finished(&mut self, sample: &Sample) {
        self.now_ns = self.now_ns.max(sample.ended_ns as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgent_tasks_overtake_in_the_queue_of_the_unit_where_they_end_first() {
        // Task 2 is followed by task 3. Unit 1 takes twice as long.
        let problem = Problem {
            cost: vec![vec![10.0, 20.0]; 4],
            after: vec![vec![], vec![], vec![], vec![(2, 0.0)]],
            link: vec![vec![0.0; 2]; 2],
        };
        let mut policy = Dmdas::new(problem, 1.0);
        let unit = |id| thalweg::sched::UnitView {
            id: UnitId(id),
            kind: thalweg::machine::UnitKind::Cpu,
            spaces: vec![thalweg::ids::SpaceId::HOST],
            in_flight: 0,
        };
        let units = [unit(0), unit(1)];
        let view = View::new(&units, &|_, _| 0);
        let name = "t".into();
        (0..4).for_each(|id| policy.submitted(&SubmittedTask::new(TaskId(id), &name)));
        (0..3).for_each(|id| policy.ready(ReadyTask::new(TaskId(id), "t", [true, true]), &view));
        let order: Vec<_> = std::iter::from_fn(|| policy.next(UnitId(0), &view)).collect();
        assert_eq!(order, [TaskId(2), TaskId(0), TaskId(1)], "20 on unit 0, like 20 on unit 1; task 2 counts as first");
        assert_eq!(policy.next(UnitId(1), &view), None);
    }
}

//! A policy that follows a static schedule: each unit runs its tasks in the schedule's order.
//!
//! Tasks that follow one task become ready one after the other. If nothing else runs then, a policy has to give a task
//! at once, so a unit gives the first of its tasks that is ready.

use std::collections::VecDeque;

use thalweg::ids::{TaskId, UnitId};
use thalweg::sched::{Policy, ReadyTask, SubmittedTask, View};

use super::Numbers;
use super::list::Schedule;

/// Follows a schedule of the tasks in the order of their submission.
#[derive(Debug)]
pub(crate) struct Planned {
    name: &'static str,
    /// The tasks of each unit that it has not been given.
    queues: Vec<VecDeque<usize>>,
    numbers: Numbers,
    ready: Vec<bool>,
}

impl Planned {
    /// Creates a policy for one run of the scheduled graph.
    pub(crate) fn new(name: &'static str, schedule: &Schedule, units: usize) -> Self {
        let mut order: Vec<usize> = (0..schedule.len()).collect();
        order.sort_by(|one, other| schedule[*one].1.total_cmp(&schedule[*other].1).then(one.cmp(other)));
        let mut queues = vec![VecDeque::new(); units];
        order.into_iter().for_each(|task| queues[schedule[task].0].push_back(task));
        Self { name, queues, numbers: Numbers::default(), ready: vec![false; schedule.len()] }
    }
}

impl Policy for Planned {
    fn name(&self) -> &'static str {
        self.name
    }

    fn looks_ahead(&self) -> bool {
        true
    }

    fn submitted(&mut self, task: &SubmittedTask<'_>) {
        self.numbers.submitted(task.id);
    }

    fn ready(&mut self, task: ReadyTask, _: &View<'_>) {
        self.ready[self.numbers.of(task.id)] = true;
    }

    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        let queue = &mut self.queues[unit.index()];
        let first = queue.iter().position(|task| self.ready[*task])?;
        if first > 0 && !view.is_idle() {
            return None;
        }
        let task = queue.remove(first)?;
        Some(self.numbers.task(task))
    }
}

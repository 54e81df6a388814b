//! The noise of a simulation, by task. It depends only on the seed and the task's number, so a run on one GPU shows it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use thalweg::ids::{TaskId, UnitId};
use thalweg::sched::{Policy, ReadyTask, Sample, SubmittedTask, View};

use crate::rivals::Numbers;

/// The time of each task, in the order of submission, in nanoseconds.
pub(super) type Recorded = Arc<Mutex<Vec<f64>>>;

/// A policy that runs tasks in the order in which they become ready, and records their times.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    queue: VecDeque<TaskId>,
    numbers: Numbers,
    pub(super) took: Recorded,
}

impl Policy for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn looks_ahead(&self) -> bool {
        true
    }

    fn submitted(&mut self, task: &SubmittedTask<'_>) {
        self.numbers.submitted(task.id);
    }

    fn ready(&mut self, task: ReadyTask, _: &View<'_>) {
        self.queue.push_back(task.id);
    }

    fn next(&mut self, _: UnitId, _: &View<'_>) -> Option<TaskId> {
        self.queue.pop_front()
    }

    fn finished(&mut self, sample: &Sample) {
        let at = self.numbers.of(sample.task);
        let mut took = self.took.lock().expect("no thread panics while it records a time");
        if took.len() <= at {
            took.resize(at + 1, 0.0);
        }
        took[at] = sample.elapsed_ns as f64;
    }
}

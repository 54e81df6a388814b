//! The policy of an exploration: every ready task goes to any unit that can run it.

use crate::explore::Choices;
use crate::ids::{TaskId, UnitId};
use crate::sched::{Policy, ReadyTask, View};
use std::sync::Arc;

/// Gives each task to a unit that was decided on when the task became ready.
pub(super) struct AnyUnit {
    choices: Arc<Choices>,
    ready: Vec<(UnitId, ReadyTask)>,
}

impl AnyUnit {
    pub(super) fn new(choices: Arc<Choices>) -> Self {
        Self { choices, ready: Vec::new() }
    }
}

impl Policy for AnyUnit {
    fn name(&self) -> &'static str {
        "any-unit"
    }

    fn ready(&mut self, task: ReadyTask, view: &View<'_>) {
        let units: Vec<UnitId> = view.units.iter().map(|unit| unit.id).filter(|unit| task.runs_on(*unit)).collect();
        let unit = units.get(self.choices.pick(units.len().max(1))).copied();
        self.ready.push((unit.unwrap_or(UnitId(0)), task));
    }

    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        let own: Vec<usize> = (0..self.ready.len()).filter(|n| self.ready[*n].0 == unit).collect();
        if !own.is_empty() {
            return Some(self.ready.remove(own[self.choices.pick(own.len())]).1.id);
        }
        // A unit whose device was lost is not asked for its tasks.
        let any = self.ready.iter().position(|(_, task)| view.is_idle() && task.runs_on(unit))?;
        Some(self.ready.remove(any).1.id)
    }

    fn fast_path(&self) -> bool {
        true
    }
}

//! Device loss: replicas elsewhere take over, the device's tasks go to other units, and data that existed only there
//! are poisoned.
//!
//! Tasks that the device had begun have failed. Tasks on their way to it are returned: from memory queues at once,
//! from copies when these have ended one way or the other, from the unit's inbox when its hosting thread finds the
//! device gone. The policy does not know of the loss: it continues to give tasks to the unit, and units with room run
//! them instead. If there is no CPU unit, the thread that hosted the lost device remains and runs tasks for cores at
//! home.
//!
//! Regions that an issued task should have written are lost in the directory, not in the dependence graph, which has
//! already released the task's successors: a task that comes to read them is poisoned there, and a task that was
//! launched after it and is not yet issued is checked once more (`Event::Issuing`). Data that were valid only on the
//! lost device stay lost until a task overwrites them.

use super::Placement;
use super::stages::{Assigned, Launched, Placed};
use crate::depend::OwnedTask;
use crate::engine::command::Command;
use crate::error::TaskFailure;
use crate::ids::{SpaceId, UnitId};
use crate::trace::Stage;
use std::sync::Arc;

impl Placement {
    /// Handles the loss of the device with this memory, which `cause` was the first to reveal.
    pub(in crate::engine) fn device_lost(&mut self, space: SpaceId, cause: &Arc<TaskFailure>, out: &mut Vec<Command>) {
        if !self.residency.lose(space, cause) {
            return;
        }
        let waiting = self.queue.lose(space);
        for data in self.residency.all_data() {
            for order in self.residency.lose_replicas(data, space, cause, out) {
                self.flow.begin(order, true, out);
            }
        }
        waiting.into_iter().for_each(|assigned| self.give_up_place(assigned, out));
        self.dispatch(out);
    }

    /// Redirects a task that waits for the memory of a lost device.
    pub(super) fn give_up_place(&mut self, Assigned { task, unit, space, .. }: Assigned, out: &mut Vec<Command>) {
        if let Some(unit) = unit {
            self.queue.take_from(unit);
        }
        self.redirect(task, space, out);
    }

    /// Returns why a launched task has lost its input, if it has: tasks that it was launched after have failed.
    pub(in crate::engine) fn lost_since_launch(&self, task: &OwnedTask) -> Option<Arc<TaskFailure>> {
        let launched = self.flow.launched(task.shared().id)?;
        if let Some(parts) = task.body().parts() {
            self.residency.tell_losses(task, parts);
            return None;
        }
        self.residency.cause_of_loss(task, &launched.reserved.replicas)
    }

    /// Redirects a launched task that a lost device has returned; it was not begun.
    pub(in crate::engine) fn returned(&mut self, task: OwnedTask, out: &mut Vec<Command>) {
        let Some(launched) = self.flow.end(task.shared().id) else { return };
        let space = launched.space;
        let waiters = self.let_go(launched, out);
        self.redirect(task, space, out);
        self.one_less(waiters, out);
        self.dispatch(out);
    }

    /// Releases the memory of a task that was on its way to a lost device, and redirects the task.
    pub(super) fn turn_back(&mut self, placed: Placed, out: &mut Vec<Command>) {
        let space = placed.assigned.space;
        let (task, launched) = Launched::of(placed, false);
        self.let_go(launched, out);
        self.redirect(task, space, out);
    }

    /// Gives a task to the least busy unit that suits it; poisons it if none is left.
    fn redirect(&mut self, task: OwnedTask, space: SpaceId, out: &mut Vec<Command>) {
        let bound = task.owned().as_ref().is_some_and(|side| side.space.is_some());
        match self.queue.least_busy_for(&task, &self.residency).filter(|_| !bound) {
            Some(unit) => self.queue.assign(task, unit, &self.residency),
            None => {
                let cause = self.residency.cause_of_device_loss(space).or_else(|| self.residency.last_loss().cloned());
                task.set_poison(cause.expect("tasks are redirected only after a loss"));
                out.push(Command::Skip(task));
            }
        }
    }

    /// Gives a unit a task that the policy intends for a lost one; returns false if there is none.
    pub(super) fn stand_in(&mut self, unit: usize, out: &mut Vec<Command>) -> bool {
        let Some(task) = self.queue.next_for_the_gone(&self.residency) else { return false };
        self.assign_or_redirect(task, unit, out);
        true
    }

    /// Gives a task to this unit, unless the unit can no longer run it.
    pub(super) fn assign_or_redirect(&mut self, task: OwnedTask, unit: usize, out: &mut Vec<Command>) {
        if self.residency.last_loss().is_none() || self.queue.suits(&task, unit, &self.residency) {
            self.trace(&task, Some(UnitId(unit as u16)), Stage::Placed);
            self.queue.assign(task, unit, &self.residency);
        } else {
            self.redirect(task, SpaceId::HOST, out);
        }
    }

    /// Skips a task, with the cause, if no unit is left for it; otherwise returns it.
    pub(super) fn poison_if_hopeless(&mut self, task: OwnedTask, out: &mut Vec<Command>) -> Option<OwnedTask> {
        let Some(cause) = self.residency.last_loss() else { return Some(task) };
        if self.queue.suits_any(&task, &self.residency) {
            return Some(task);
        }
        task.set_poison(cause.clone());
        out.push(Command::Skip(task));
        None
    }
}

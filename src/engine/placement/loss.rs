//! Device loss: replicas in other memories take over, the device's tasks go to other units, and data that existed only
//! on the device are poisoned.
//!
//! Tasks that the device had begun have failed. Tasks on their way to the device are returned: immediately if they
//! wait for memory, after their copies have completed or failed if they wait for copies, and from the unit's inbox
//! when its hosting thread notices the loss. The policy does not know about the loss: it keeps giving tasks to the
//! unit, and units with room run these tasks instead. If there is no CPU unit, the thread that hosted the lost device
//! stays and runs CPU tasks in host memory.
//!
//! Regions that an issued task should have written are lost in the directory, but not in the dependence graph, which
//! has already released the task's successors. A task that is about to read such regions is poisoned at that point. A
//! task that was launched after the issued task and is not issued yet is checked once more (`Event::Issuing`). Data
//! that were valid only on the lost device stay lost until a task overwrites them.

use super::Placement;
use super::stages::{Assigned, Launched, Placed};
use crate::depend::OwnedTask;
use crate::engine::command::Command;
use crate::error::TaskFailure;
use crate::ids::SpaceId;
use std::sync::Arc;

impl Placement {
    /// Handles the loss of the device with this memory, as revealed by `cause`.
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
            self.queue.take_from(unit, None);
        }
        self.redirect(task, space, out);
    }

    /// If tasks that precede a launched task have failed since the launch, so that it has lost its input, returns the
    /// reason.
    pub(in crate::engine) fn lost_since_launch(&self, task: &OwnedTask) -> Option<Arc<TaskFailure>> {
        let launched = self.flow.launched(task.shared().id)?;
        if let Some(parts) = task.body().parts() {
            self.residency.tell_losses(task, parts);
            return None;
        }
        self.residency.cause_of_loss(task, &launched.reserved.replicas)
    }

    /// Redirects a launched task that was returned because its device is lost. The task had not begun.
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

    /// Gives a task to the least busy unit that suits it. Poisons the task if no such unit is left.
    fn redirect(&mut self, task: OwnedTask, space: SpaceId, out: &mut Vec<Command>) {
        let bound = task.owned().as_ref().is_some_and(|side| side.space.is_some());
        match self.queue.least_busy_for(&task, &self.residency).filter(|_| !bound) {
            Some(unit) => {
                self.trace_placed(&task, unit, false);
                self.assign(task, unit);
            }
            None => {
                let cause = self.residency.cause_of_device_loss(space).or_else(|| self.residency.last_loss().cloned());
                task.set_poison(cause.expect("tasks are redirected only after a loss"));
                out.push(Command::Skip(task));
            }
        }
    }

    /// Gives a unit a task that the policy intends for a lost unit. Returns false if there is no such task.
    pub(super) fn stand_in(&mut self, unit: usize, out: &mut Vec<Command>) -> bool {
        let Some(task) = self.queue.next_for_the_gone(&self.residency) else { return false };
        self.assign_or_redirect(task, unit, out);
        true
    }

    /// Gives a task to this unit; if the unit can no longer run the task, redirects it.
    pub(super) fn assign_or_redirect(&mut self, task: OwnedTask, unit: usize, out: &mut Vec<Command>) {
        if self.residency.last_loss().is_none() || self.queue.suits(&task, unit, &self.residency) {
            self.trace_placed(&task, unit, true);
            self.assign(task, unit);
        } else {
            self.redirect(task, SpaceId::HOST, out);
        }
    }

    /// If no unit is left for a task, skips the task and records the cause. Otherwise returns the task.
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

//! Data transfers for a placed task, its launch, and the release of its resources.

use super::Placement;
use super::needs::forgotten_by;
use super::residency::{InTheWay, Tasks};
use super::stages::{Launched, Placed, UnderWay};
use crate::coherence::ReplicaId;
use crate::engine::command::{Command, Launch};
use crate::ids::{DataId, TaskId};
use crate::trace::Stage;

impl Placement {
    /// Plans the copies that are still missing for a task with reserved memory. If none are missing, launches the
    /// task.
    ///
    /// Called again when everything that the task waited for has completed.
    pub(super) fn bring(&mut self, placed: Placed, out: &mut Vec<Command>) {
        let Placed { assigned, reserved } = &placed;
        if assigned.task.is_poisoned() {
            return self.skip(placed, out); // a copy for the task has failed
        }
        if assigned.spaces().iter().any(|space| self.residency.is_lost(*space)) {
            return self.turn_back(placed, out);
        }
        if reserved.refused {
            return self.retreat(placed, out);
        }
        if let Some(parts) = assigned.task.body().parts() {
            self.residency.tell_losses(&assigned.task, parts);
        } else if let Some(cause) = self.residency.cause_of_loss(&assigned.task, &reserved.replicas) {
            assigned.task.set_poison(cause);
            return self.skip(placed, out);
        }
        let mut pending = self.flow.write_backs_in_the_way(&assigned.task);
        let InTheWay { before, before_combination, waited_for } = self.residency.tasks_in_the_way(&placed);
        if pending.is_empty() && waited_for.is_empty() {
            for order in self.residency.fill(&placed, &mut pending) {
                pending.push(order.copy);
                self.flow.begin(order, false, out);
            }
            if pending.is_empty() {
                return self.launch(placed, before, before_combination, out);
            }
        }
        pending.sort_unstable();
        pending.dedup();
        self.flow.await_ends(placed, &pending, &waited_for);
    }

    /// Releases the source and target replicas of a copy that has ended, and the tasks that waited for it.
    pub(super) fn let_go_of_copy(&mut self, copy: UnderWay, out: &mut Vec<Command>) {
        self.residency.unpin(copy.data, &copy.transfer, out);
        self.one_less(copy.waiters, out);
        self.dispatch(out);
    }

    /// Notes that each of these tasks waits for one end fewer.
    pub(super) fn one_less(&mut self, waiters: Vec<TaskId>, out: &mut Vec<Command>) {
        for task in waiters {
            if let Some(placed) = self.flow.one_less(task) {
                self.bring(placed, out);
            }
        }
    }

    fn launch(&mut self, placed: Placed, after: Tasks, combines_after: Tasks, out: &mut Vec<Command>) {
        if let Some(data) = forgotten_by(&placed.assigned.task) {
            self.residency.abandon(data, out);
        }
        let (task, launched) = self.flow.launch(placed, !(after.is_empty() && combines_after.is_empty()));
        let (unit, device, places) = (launched.unit, launched.space.device(), launched.reserved.replicas.clone());
        let across = launched.across.clone();
        self.trace(&task, Stage::Launched);
        out.push(match unit {
            None => Command::Run(task),
            Some(unit) => {
                Command::Launch(Box::new(Launch { task, unit, device, across, places, after, combines_after }))
            }
        });
    }

    /// Skips a task that has its memory but has lost its input.
    fn skip(&mut self, placed: Placed, out: &mut Vec<Command>) {
        let (task, _) = self.flow.launch(placed, false);
        out.push(Command::Skip(task));
    }

    /// Evicts replicas.
    pub(super) fn evict(&mut self, leaving: &[(DataId, ReplicaId)], out: &mut Vec<Command>) {
        for (data, id) in leaving {
            for order in self.residency.evict(*data, *id) {
                self.flow.begin(order, true, out);
            }
            self.residency.drop_if_leaving(*data, *id, out);
        }
    }

    /// Releases the resources of a task that no longer runs. Returns the tasks that waited for its end.
    pub(super) fn let_go(&mut self, launched: Launched, out: &mut Vec<Command>) -> Vec<TaskId> {
        self.residency.let_go(&launched, out);
        if let Some(unit) = launched.counted_for() {
            self.queue.take_from(unit, launched.share);
        }
        launched.waiters
    }
}

//! When a device is lost: replicas elsewhere serve, its tasks go to other units, what existed only there is poisoned.
//!
//! Tasks that the device had begun have failed. Those that were on their way to it come back: from memory queues at once,
//! from copies when these have ended one way or the other, from the unit's inbox when its hosting thread finds the device
//! gone. The policy knows nothing of it: it goes on giving tasks to the unit, and whoever has room does them instead.

use super::command::Command;
use super::placement::Placement;
use super::stages::{Assigned, Placed, Running};
use crate::depend::OwnedTask;
use crate::error::TaskFailure;
use crate::ids::SpaceId;
use crate::sched::UnitView;
use std::sync::Arc;

impl Placement {
    /// The device with this memory is gone, as `cause` was the first to find.
    pub(super) fn device_lost(&mut self, space: SpaceId, cause: &Arc<TaskFailure>, out: &mut Vec<Command>) {
        if space.is_host() || self.is_lost(space) {
            return;
        }
        self.lost.push((space, cause.clone()));
        self.units.iter_mut().for_each(|unit| unit.spaces.retain(|other| *other != space));
        self.masks.clear();
        let data: Vec<_> = self.directories.keys().copied().collect();
        for data in data {
            let Some(directory) = self.directories.get_mut(&data) else { continue };
            for replica in directory.space_lost(space, cause) {
                self.drop_if_leaving(data, replica, out);
            }
        }
        let waiting = std::mem::take(&mut self.waiting[space.index()]);
        for Assigned { task, unit, .. } in waiting {
            if let Some(unit) = unit {
                self.units[unit.index()].in_flight -= 1;
            }
            self.redirect(task, space, out);
        }
        self.pump(out);
    }

    /// Whether the device with this memory is gone.
    pub(super) fn is_lost(&self, space: SpaceId) -> bool {
        self.lost.iter().any(|(lost, _)| *lost == space)
    }

    /// Whether a unit has no memory left to work in.
    pub(super) fn is_gone(&self, unit: usize) -> bool {
        self.units[unit].spaces.is_empty()
    }

    /// A launched task comes back from a device that is gone; it was not begun.
    pub(super) fn returned(&mut self, task: OwnedTask, out: &mut Vec<Command>) {
        let Some(running) = self.running.remove(&task.shared().id) else { return };
        let space = running.space;
        let waiters = self.let_go(running, out);
        self.redirect(task, space, out);
        self.one_less(waiters, out);
        self.pump(out);
    }

    /// A task that was on its way to a device that is gone gives its memory back and goes elsewhere.
    pub(super) fn turn_back(&mut self, placed: Placed, out: &mut Vec<Command>) {
        let space = placed.assigned.space;
        let (task, running) = Running::of(placed, false);
        self.let_go(running, out);
        self.redirect(task, space, out);
    }

    /// Gives a task to the least busy unit that suits it; poisons it if none is left.
    fn redirect(&mut self, task: OwnedTask, space: SpaceId, out: &mut Vec<Command>) {
        let mask = self.describe(&task).units;
        let suited = |unit: &&UnitView| mask[unit.id.index()];
        let unit = self.units.iter().filter(suited).min_by_key(|unit| (unit.in_flight, unit.id)).map(|unit| unit.id);
        let Some(unit) = unit.filter(|_| task.owned().as_ref().is_none_or(|side| side.space.is_none())) else {
            let cause = self.lost.iter().find(|(lost, _)| *lost == space).or(self.lost.last());
            task.set_poison(cause.expect("tasks are redirected only after a loss").1.clone());
            return out.push(Command::Skip(task));
        };
        self.assign(task, unit.index());
    }

    /// Gives a unit a task that the policy means for one that is gone; false if there is none.
    pub(super) fn stand_in(&mut self, unit: usize, out: &mut Vec<Command>) -> bool {
        let gone: Vec<usize> = (0..self.units.len()).filter(|other| self.is_gone(*other)).collect();
        for other in gone {
            let Some(next) = self.ask(other) else { continue };
            let Some(task) = self.queued.remove(&next) else { continue };
            if self.describe(&task).units[unit] {
                self.assign(task, unit);
            } else {
                self.redirect(task, SpaceId::HOST, out);
            }
            return true;
        }
        false
    }

    /// Ends tasks that no unit is left for.
    pub(super) fn poison_if_hopeless(&mut self, task: OwnedTask, out: &mut Vec<Command>) -> Option<OwnedTask> {
        let Some((_, cause)) = self.lost.last().cloned() else { return Some(task) };
        if self.describe(&task).units.contains(&true) {
            return Some(task);
        }
        task.set_poison(cause);
        out.push(Command::Skip(task));
        None
    }
}

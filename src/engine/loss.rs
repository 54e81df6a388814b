//! When a device is lost: replicas elsewhere serve, its tasks go to other units, what existed only there is poisoned.
//!
//! Tasks that the device had begun have failed. Those that were on their way to it come back: from memory queues at once,
//! from copies when these have ended one way or the other, from the unit's inbox when its hosting thread finds the device
//! gone. The policy knows nothing of it: it goes on giving tasks to the unit, and whoever has room does them instead.
//! Where there is no CPU unit, the thread that hosted a device that is gone remains: it runs at home what cores can.

use super::command::Command;
use super::placement::Placement;
use super::stages::{Assigned, Placed, Running};
use crate::depend::OwnedTask;
use crate::error::TaskFailure;
use crate::ids::{DataId, SpaceId};
use crate::sched::UnitView;
use std::sync::Arc;

impl Placement {
    /// The device with this memory is gone, as `cause` was the first to find.
    pub(super) fn device_lost(&mut self, space: SpaceId, cause: &Arc<TaskFailure>, out: &mut Vec<Command>) {
        if space.is_host() || self.is_lost(space) {
            return;
        }
        self.lost.push((space, cause.clone()));
        self.units.lose(space);
        self.suited.clear();
        let data: Vec<_> = self.directories.keys().copied().collect();
        for data in data {
            let Some(directory) = self.directories.get_mut(&data) else { continue };
            let gone = directory.space_lost(space, cause);
            for id in gone {
                self.send_away(data, id);
                self.drop_if_leaving(data, id, out);
            }
            self.bring_home_what_relied_on_the_lost(data, out);
        }
        let waiting = std::mem::take(&mut self.waiting[space.index()]);
        for Assigned { task, unit, .. } in waiting {
            if let Some(unit) = unit {
                self.take_from(unit.index());
            }
            self.redirect(task, space, out);
        }
        self.pump(out);
    }

    /// Replicas on their way out are not written back where others hold the same. If those are gone, it has to be done yet.
    fn bring_home_what_relied_on_the_lost(&mut self, data: DataId, out: &mut Vec<Command>) {
        let Some(directory) = self.directories.get_mut(&data) else { return };
        let leaving: Vec<_> = directory.away().filter(|replica| replica.leaving).map(|replica| replica.id).collect();
        let mut transfers = Vec::new();
        for id in leaving {
            directory.write_back(id, &mut self.next_copy, &mut transfers);
        }
        for transfer in transfers {
            self.start_copy(data, transfer, true, out);
        }
    }

    /// Whether the device with this memory is gone.
    pub(super) fn is_lost(&self, space: SpaceId) -> bool {
        self.lost.iter().any(|(lost, _)| *lost == space)
    }

    /// What found out that the device with this memory is gone.
    pub(super) fn cause_of_device_loss(&self, space: SpaceId) -> Option<Arc<TaskFailure>> {
        self.lost.iter().find(|(lost, _)| *lost == space).map(|(_, cause)| cause.clone())
    }

    /// Why a launched task has nothing to work on any more: those that it was launched behind have failed.
    pub(super) fn lost_since_launch(&self, task: &OwnedTask) -> Option<Arc<TaskFailure>> {
        self.cause_of_loss(task, &self.running.get(&task.shared().id)?.replicas)
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
        let units = self.suited(&task).units;
        let suited = |unit: &&UnitView| units[unit.id.index()];
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
            let Some(task) = self.take_named(next, other) else { continue };
            self.assign_or_redirect(task, unit, out);
            return true;
        }
        false
    }

    /// Gives a task to this unit, unless that can not run it any more.
    pub(super) fn assign_or_redirect(&mut self, task: OwnedTask, unit: usize, out: &mut Vec<Command>) {
        if self.lost.is_empty() || self.suited(&task).units[unit] {
            self.assign(task, unit);
        } else {
            self.redirect(task, SpaceId::HOST, out);
        }
    }

    /// Ends tasks that no unit is left for.
    pub(super) fn poison_if_hopeless(&mut self, task: OwnedTask, out: &mut Vec<Command>) -> Option<OwnedTask> {
        let Some((_, cause)) = self.lost.last().cloned() else { return Some(task) };
        if self.suited(&task).units.contains(&true) {
            return Some(task);
        }
        task.set_poison(cause);
        out.push(Command::Skip(task));
        None
    }
}

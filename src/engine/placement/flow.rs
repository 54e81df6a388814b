//! Work under way: launched tasks, copies, tasks whose data are arriving, and the tasks that wait for each of them.
//!
//! This module makes no decisions: its callers settle which copies are made and whether a task is launched.
//!
//! Invariants:
//! 1. The number of ends that an arriving task waits for equals the number of copies and launched tasks that list it
//!    among their waiters. It is at least one.
//! 2. Every write-back under way can be found by its data object and its block; no other copy can.

use super::needs::forgotten_by;
use super::stages::{Launched, Placed, UnderWay};
use crate::coherence::CopyId;
use crate::depend::{AccessRecord, OwnedTask};
use crate::engine::command::{Command, CopyOrder};
use crate::ids::{DataId, SpaceId, TaskId, UnitId};
use crate::region::BoxIndex;
use rustc_hash::FxHashMap;

/// Traffic between two address spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Traffic {
    /// Number of copies.
    pub(crate) copies: u64,
    /// Total bytes.
    pub(crate) bytes: u64,
}

/// Tasks and copies under way; see the module documentation.
#[derive(Default)]
pub(super) struct Flow {
    /// Tasks whose data are arriving, each with the number of ends that it still waits for.
    arriving: FxHashMap<TaskId, (Placed, usize)>,
    launched: FxHashMap<TaskId, Launched>,
    copies: FxHashMap<CopyId, UnderWay>,
    write_backs: FxHashMap<DataId, BoxIndex<CopyId>>,
    traffic: FxHashMap<(SpaceId, SpaceId), Traffic>,
}

impl Flow {
    /// Orders a copy.
    pub(super) fn begin(&mut self, order: Box<CopyOrder>, write_back: bool, out: &mut Vec<Command>) {
        let CopyOrder { copy, from, to, block, element_bytes, unified } = *order;
        if !unified {
            let traffic = self.traffic.entry((from.space, to.space)).or_default();
            traffic.copies += 1;
            traffic.bytes += (block.volume() * element_bytes) as u64;
        }
        let write_back = write_back.then(|| self.write_backs.entry(from.data).or_default().insert(block, copy));
        self.copies.insert(copy, UnderWay::of(&order, write_back));
        out.push(Command::Copy(order));
    }

    /// Removes a copy that has ended and returns it.
    pub(super) fn end_copy(&mut self, copy: CopyId) -> Option<UnderWay> {
        let ended = self.copies.remove(&copy)?;
        if let Some(entry) = ended.write_back
            && let Some(of_data) = self.write_backs.get_mut(&ended.data)
        {
            of_data.remove(entry);
            if of_data.is_empty() {
                self.write_backs.remove(&ended.data);
            }
        }
        Some(ended)
    }

    /// Returns the write-backs under way for regions that a task accesses. Write-backs belong to no task, so
    /// dependences do not order them. Without this check, a copy to the same place could overtake a write-back, or a
    /// task could write where a write-back is still arriving.
    pub(super) fn write_backs_in_the_way(&self, task: &OwnedTask) -> Vec<CopyId> {
        let mut found = Vec::new();
        if self.write_backs.is_empty() {
            return found;
        }
        let forgotten = forgotten_by(task);
        task.body().accesses(&mut |AccessRecord { datum, block, .. }| match self.write_backs.get(&datum.id) {
            Some(of_data) if forgotten == Some(datum.id) => found.extend(of_data.values()),
            Some(of_data) => of_data.find(block, |_, copy| found.push(*copy)),
            None => {}
        });
        found
    }

    /// Makes a task wait for the ends of these copies and tasks, each of which is listed once.
    pub(super) fn await_ends(&mut self, placed: Placed, copies: &[CopyId], tasks: &[TaskId]) {
        let id = placed.assigned.task.shared().id;
        for task in tasks {
            if let Some(launched) = self.launched.get_mut(task) {
                launched.waiters.push(id);
            }
        }
        for copy in copies {
            if let Some(copy) = self.copies.get_mut(copy) {
                copy.waiters.push(id);
            }
        }
        self.arriving.insert(id, (placed, copies.len() + tasks.len()));
    }

    /// Notes that a task waits for one end fewer. Returns the task if that was the last end.
    pub(super) fn one_less(&mut self, task: TaskId) -> Option<Placed> {
        let (_, missing) = self.arriving.get_mut(&task)?;
        *missing -= 1;
        if *missing > 0 {
            return None;
        }
        self.arriving.remove(&task).map(|(placed, _)| placed)
    }

    /// Returns the tasks whose data are arriving.
    pub(super) fn arriving(&self) -> impl Iterator<Item = &Placed> {
        self.arriving.values().map(|(placed, _)| placed)
    }

    /// Returns the launched tasks.
    pub(super) fn all_launched(&self) -> impl Iterator<Item = (&TaskId, &Launched)> {
        self.launched.iter()
    }

    /// Returns the copies and the launched tasks that a task waits for.
    pub(super) fn awaited_by(&self, task: TaskId) -> (impl Iterator<Item = &UnderWay>, impl Iterator<Item = TaskId>) {
        let copies = self.copies.values().filter(move |copy| copy.waiters.contains(&task));
        let launched = self.launched.iter().filter(move |(_, launched)| launched.waiters.contains(&task));
        (copies, launched.map(|(id, _)| *id))
    }

    /// Returns a copy under way.
    pub(super) fn copy(&self, copy: CopyId) -> Option<&UnderWay> {
        self.copies.get(&copy)
    }

    /// Returns whether copies from or to a space are under way.
    pub(super) fn copies_use(&self, space: SpaceId) -> bool {
        self.copies.values().any(|copy| copy.between.0 == space || copy.between.1 == space)
    }

    /// Returns the tasks that wait for a copy, with their reservations. The copy may already have ended.
    pub(super) fn placed_waiting_for(&mut self, waiters: &[TaskId]) -> impl Iterator<Item = &mut Placed> {
        let arriving = self.arriving.iter_mut();
        arriving.filter(|(task, _)| waiters.contains(task)).map(|(_, (placed, _))| placed)
    }

    /// Returns the tasks that wait for a copy. The copy may already have ended.
    pub(super) fn waiting_for(&self, copy: &UnderWay) -> impl Iterator<Item = &OwnedTask> {
        copy.waiters.iter().filter_map(|task| self.arriving.get(task)).map(|(placed, _)| &placed.assigned.task)
    }

    /// Records that a task with its memory goes to its unit. If `behind`, other tasks in its device's queue come
    /// first.
    pub(super) fn launch(&mut self, placed: Placed, behind: bool) -> (OwnedTask, &Launched) {
        let (task, launched) = Launched::of(placed, behind);
        let launched = self.launched.entry(task.shared().id).insert_entry(launched).into_mut();
        (task, launched)
    }

    /// Notes that a launched task is in its device's queue, and whether it releases its successors. Also returns the
    /// unit for which the task no longer counts, if any.
    pub(super) fn enqueue(&mut self, task: TaskId, share: u32, releases: bool) -> Option<(&Launched, Option<UnitId>)> {
        let launched = self.launched.get_mut(&task)?;
        let counted_for = launched.counted_for();
        (launched.issued, launched.share) = (releases, Some(share));
        let counts_no_more = counted_for.filter(|_| launched.counted_for().is_none());
        Some((launched, counts_no_more))
    }

    /// Notes that the body of a launched task waits or continues. If that changes the task's state, returns the unit
    /// whose count changes.
    pub(super) fn suspend(&mut self, task: TaskId, suspended: bool) -> Option<UnitId> {
        let launched = self.launched.get_mut(&task)?;
        let before = std::mem::replace(&mut launched.suspended, suspended);
        launched.unit.filter(|_| before != suspended)
    }

    /// Returns the state of a launched task.
    pub(super) fn launched(&self, task: TaskId) -> Option<&Launched> {
        self.launched.get(&task)
    }

    /// Removes a launched task that has ended or that was returned to placement.
    pub(super) fn end(&mut self, task: TaskId) -> Option<Launched> {
        self.launched.remove(&task)
    }

    /// Returns whether nothing is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.arriving.is_empty() && self.launched.is_empty() && self.copies.is_empty()
    }

    /// Returns the number of launched tasks plus the number of copies under way.
    pub(super) fn under_way(&self) -> usize {
        self.launched.len() + self.copies.len()
    }

    /// Returns the traffic between each pair of spaces so far.
    pub(super) fn traffic(&self) -> Vec<((SpaceId, SpaceId), Traffic)> {
        let mut traffic: Vec<_> = self.traffic.iter().map(|(spaces, moved)| (*spaces, *moved)).collect();
        traffic.sort_unstable_by_key(|(spaces, _)| *spaces);
        traffic
    }

    /// Appends a textual description of the work under way.
    pub(super) fn describe(&self, lines: &mut Vec<String>) {
        lines.extend(self.arriving.iter().map(|(task, (_, missing))| format!("{task} waits for {missing} copies")));
        lines.extend(self.launched.iter().map(|(task, launched)| format!("{task} runs in {}", launched.space)));
        lines.extend(self.copies.values().map(|c| format!("{} {:?} is being copied", c.data, c.transfer.block)));
    }
}

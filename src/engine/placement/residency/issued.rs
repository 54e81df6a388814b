//! Effects of tasks on replicas: regions written by tasks that were issued or have ended, and the issued tasks that a
//! new task has to follow.

use super::{Residency, Tasks};
use crate::depend::{AccessRecord, Mode, OwnedTask};
use crate::engine::command::ReplicaRef;
use crate::engine::placement::needs::{forgotten_by, lends};
use crate::engine::placement::stages::{Launched, Placed};

/// Issued tasks that conflict with a task about to be launched.
#[derive(Default)]
pub(in crate::engine::placement) struct InTheWay {
    /// The task is launched after these tasks.
    pub(in crate::engine::placement) before: Tasks,
    /// The task's contributions are combined after these tasks.
    pub(in crate::engine::placement) before_combination: Tasks,
    /// The task's copies must not start until these tasks have ended.
    pub(in crate::engine::placement) waited_for: Tasks,
}

impl Residency {
    /// Notes that a task is in its device's queue. Another thread may meanwhile have found that the device is lost; in
    /// that case the regions that the task writes are lost.
    pub(in crate::engine::placement) fn issued(&mut self, task: &OwnedTask, replicas: &[ReplicaRef]) {
        self.has_issued = true;
        let mut places = replicas.iter();
        task.body().accesses(&mut |access| {
            let Some(position) = places.next() else { return };
            let loss = self.lost.iter().find(|(lost, _)| *lost == position.space);
            if let Some(directory) = self.directories.get_mut(&position.data)
                && !access.block.is_empty()
            {
                let writes = access.mode.writes();
                directory.issued(task.shared().id, position.replica, access.block, writes);
                self.has_moved |= writes;
                if let Some((_, cause)) = loss.filter(|_| writes) {
                    directory.written_and_lost(access.block, cause, &mut self.any_loss);
                }
            }
        });
        self.lose_missing(task);
    }

    /// Notes the regions that a task that stands for several tasks should have written but did not.
    fn lose_missing(&mut self, task: &OwnedTask) {
        let Some(parts) = task.body().parts() else { return };
        parts.missing(&mut |data, block, cause| {
            if let Some(directory) = self.directories.get_mut(&data) {
                directory.written_and_lost(block, cause, &mut self.any_loss);
                self.has_moved = true;
            }
        });
    }

    /// Notes that the regions a task has written are valid in the task's replica or, if the device is lost, nowhere. A
    /// task that was skipped before it `began` has written nothing, and its replica may never have been filled.
    pub(in crate::engine::placement) fn ended(&mut self, task: &OwnedTask, began: bool, launched: &Launched) {
        self.has_moved = true;
        let (id, failure) = (task.shared().id, task.poison().filter(|_| launched.issued));
        let mut places = launched.reserved.replicas.iter();
        task.body().accesses(&mut |access| {
            let Some(position) = places.next() else { return };
            let loss = self.lost.iter().find(|(lost, _)| *lost == position.space);
            let Some(directory) = self.directories.get_mut(&position.data) else { return };
            match loss {
                _ if launched.issued => directory.ended(id, failure.as_ref(), &mut self.any_loss),
                _ if !began || access.block.is_empty() || !access.mode.writes() || access.mode.is_weak() => {}
                Some((_, cause)) => directory.written_and_lost(access.block, cause, &mut self.any_loss),
                None => directory.written(position.replica, access.block),
            }
        });
        if began && !launched.issued {
            self.lose_missing(task);
        }
    }

    /// Returns the issued tasks that use the same regions as a task about to be launched. If both tasks use the same
    /// replica, the new task is launched after the issued task. If bytes have to be copied first, or if all replicas
    /// will be released along with the data, the end of the issued task is awaited. The same applies if the tasks use
    /// different replicas of the same bytes and one of the tasks writes: ordering exists only within the streams of
    /// one device, so it covers neither another device's streams nor the host.
    pub(in crate::engine::placement) fn tasks_in_the_way(&self, placed: &Placed) -> InTheWay {
        let mut found = InTheWay::default();
        if !self.has_issued {
            return found;
        }
        let forgotten = forgotten_by(&placed.assigned.task);
        let mut places = placed.reserved.replicas.iter();
        placed.assigned.task.body().accesses(&mut |access| {
            let AccessRecord { block, mode, .. } = access;
            let Some(position) = places.next().filter(|_| !mode.is_weak()) else { return };
            let Some(directory) = self.directories.get(&position.data) else { return };
            if forgotten == Some(position.data) {
                found.waited_for.extend(directory.issued_tasks());
                return;
            }
            let mut is_there = None;
            directory.issued_uses(block, |issued| {
                let here = issued.replica == position.replica;
                if !here && directory.is_unified() && (issued.writes || mode.writes()) {
                    found.waited_for.push(issued.task);
                    return;
                }
                let there = || directory.is_valid_in(position.replica, block);
                if mode != Mode::Out && !*is_there.get_or_insert_with(there) {
                    if here || issued.writes {
                        found.waited_for.push(issued.task);
                    }
                } else if here && access.is_reduced_in_place() {
                    found.before_combination.push(issued.task);
                } else if here && (issued.writes || mode.writes()) {
                    found.before.push(issued.task);
                }
            });
        });
        // No stream can wait for the streams of all devices of a task, and no foreign stream can wait for exported
        // data.
        if placed.assigned.across.is_some() || lends(&placed.assigned.task) {
            found.waited_for.append(&mut found.before);
        }
        for tasks in [&mut found.before, &mut found.before_combination, &mut found.waited_for] {
            tasks.sort_unstable();
            tasks.dedup();
        }
        found
    }
}

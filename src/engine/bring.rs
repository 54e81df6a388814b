//! Bringing a placed task's data to it, launching it, and letting go of replicas.

use super::assign::forgotten_by;
use super::command::{Command, CopyOrder, Launch, Release, ReplicaRef};
use super::placement::Placement;
use super::stages::{Placed, Running, UnderWay};
use crate::coherence::{CopyId, Replica, ReplicaId, Transfer};
use crate::depend::{AccessRecord, Mode, OwnedTask};
use crate::error::TaskFailure;
use crate::ids::{DataId, TaskId};
use smallvec::SmallVec;
use std::sync::Arc;

type Tasks = SmallVec<[TaskId; 2]>;

/// Issued tasks that a task meets.
#[derive(Default)]
struct InTheWay {
    /// It is launched behind them.
    before: Tasks,
    /// Their end comes before its copies.
    waited_for: Tasks,
}

impl Placement {
    /// Plans the copies that a task with memory still needs, and launches it if there are none.
    ///
    /// Called again when what it waited for has arrived.
    pub(super) fn bring(&mut self, placed: Placed, out: &mut Vec<Command>) {
        if placed.assigned.task.is_poisoned() {
            return self.skip(placed, out); // a copy for it has failed
        }
        if self.is_lost(placed.assigned.space) {
            return self.turn_back(placed, out);
        }
        if let Some(cause) = self.cause_of_loss(&placed.assigned.task, &placed.replicas) {
            placed.assigned.task.set_poison(cause);
            return self.skip(placed, out);
        }
        let mut pending = self.write_backs_in_the_way(&placed.assigned.task);
        let in_flight = self.tasks_in_the_way(&placed);
        if pending.is_empty() && in_flight.waited_for.is_empty() {
            let mut transfers = Vec::new();
            let mut k = 0;
            placed.assigned.task.body().accesses(&mut |AccessRecord { block, mode, .. }| {
                let place = placed.replicas[k];
                k += 1;
                let Some(directory) = self.directories.get_mut(&place.data).filter(|_| !block.is_empty()) else {
                    return;
                };
                if mode == Mode::Out {
                    // What the region holds now is of no use to anybody: it must not be written back over the new
                    // value.
                    directory.written(place.replica, block);
                    return;
                }
                if mode == Mode::After {
                    return; // it does not look at the region, wherever that is valid
                }
                let mut planned = Vec::new();
                directory.fill(place.replica, block, &mut self.next_copy, &mut pending, &mut planned);
                pending.extend(planned.iter().map(|transfer| transfer.copy));
                transfers.extend(planned.into_iter().map(|transfer| (place.data, transfer)));
            });
            for (data, transfer) in transfers {
                self.start_copy(data, transfer, false, out);
            }
        }
        if pending.is_empty() && in_flight.waited_for.is_empty() {
            return self.launch(placed, in_flight.before, out);
        }
        pending.sort_unstable();
        pending.dedup();
        let id = placed.assigned.task.shared().id;
        for task in &in_flight.waited_for {
            if let Some(running) = self.running.get_mut(task) {
                running.waiters.push(id);
            }
        }
        for copy in &pending {
            if let Some(copy) = self.copies.get_mut(copy) {
                copy.waiters.push(id);
            }
        }
        self.arriving.insert(id, (placed, pending.len() + in_flight.waited_for.len()));
    }

    /// Why something that a task reads is lost, if it is.
    pub(super) fn cause_of_loss(&self, task: &OwnedTask, places: &[ReplicaRef]) -> Option<Arc<TaskFailure>> {
        let mut cause = None;
        let mut places = places.iter();
        task.body().accesses(&mut |AccessRecord { block, mode, .. }| {
            let directory = places.next().and_then(|place| self.directories.get(&place.data));
            if let Some(directory) = directory.filter(|_| mode.relies_on_value() && cause.is_none()) {
                cause = directory.cause_of_loss(block);
            }
        });
        cause
    }

    /// Issued tasks that use what a task will use: on the same replica it is launched behind them; where bytes have to
    /// be copied first, or all replicas will go with the data, their end is waited for.
    fn tasks_in_the_way(&self, placed: &Placed) -> InTheWay {
        let mut found = InTheWay::default();
        let forgotten = forgotten_by(&placed.assigned.task);
        let mut places = placed.replicas.iter();
        placed.assigned.task.body().accesses(&mut |AccessRecord { block, mode, .. }| {
            let Some(place) = places.next() else { return };
            let Some(directory) = self.directories.get(&place.data) else { return };
            if forgotten == Some(place.data) {
                found.waited_for.extend(directory.in_flight().map(|issued| issued.task));
                return;
            }
            if block.is_empty() {
                return;
            }
            let mut is_there = None;
            for issued in directory.in_flight().filter(|issued| issued.block.overlaps(block)) {
                let here = issued.replica == place.replica;
                let there = || directory.is_valid_in(place.replica, block);
                if mode != Mode::Out && !*is_there.get_or_insert_with(there) {
                    if here || issued.writes {
                        found.waited_for.push(issued.task);
                    }
                } else if here && (issued.writes || mode.writes()) {
                    found.before.push(issued.task);
                }
            }
        });
        for tasks in [&mut found.before, &mut found.waited_for] {
            tasks.sort_unstable();
            tasks.dedup();
        }
        found
    }

    /// Write-backs under way of what a task accesses. Only they belong to no task, so dependences do not order them:
    /// a copy to the same place could overtake one, or a task could write where one still arrives.
    fn write_backs_in_the_way(&self, task: &OwnedTask) -> Vec<CopyId> {
        if self.write_backs.is_empty() {
            return Vec::new();
        }
        let forgotten = forgotten_by(task);
        let mut found = Vec::new();
        task.body().accesses(&mut |AccessRecord { datum, block, .. }| {
            let meets = |copy: &&CopyId| {
                forgotten == Some(datum.id)
                    || self.copies.get(copy).is_some_and(|copy| copy.transfer.block.overlaps(block))
            };
            found.extend(self.write_backs.get(&datum.id).into_iter().flatten().filter(meets));
        });
        found
    }

    pub(super) fn start_copy(&mut self, data: DataId, transfer: Transfer, write_back: bool, out: &mut Vec<Command>) {
        let Some(directory) = self.directories.get_mut(&data) else { return };
        let mut end = |id| {
            let replica = directory.replica_mut(id);
            replica.pins += 1;
            ReplicaRef { data, replica: id, space: replica.space, holds: replica.block }
        };
        let (from, to) = (end(transfer.from), end(transfer.to));
        let link = self.links.entry((from.space, to.space)).or_default();
        link.copies += 1;
        link.bytes += directory.bytes(&transfer.block);
        let element_bytes = directory.element_bytes;
        out.push(Command::Copy(Box::new(CopyOrder {
            copy: transfer.copy,
            from,
            to,
            block: transfer.block,
            element_bytes,
        })));
        if write_back {
            self.write_backs.entry(data).or_default().push(transfer.copy);
        }
        self.copies.insert(transfer.copy, UnderWay { data, transfer, write_back, waiters: Vec::new() });
    }

    fn launch(&mut self, placed: Placed, after: Tasks, out: &mut Vec<Command>) {
        if let Some(data) = forgotten_by(&placed.assigned.task) {
            self.abandon(data, out);
        }
        let (task, running) = Running::of(placed, !after.is_empty());
        let (id, unit, device, places) =
            (task.shared().id, running.unit, running.space.device(), running.replicas.clone());
        out.push(match unit {
            None => Command::Run(task),
            Some(unit) => Command::Launch(Box::new(Launch { task, unit, device, places, after })),
        });
        self.running.insert(id, running);
    }

    /// Lets go of a task that has its memory but nothing to work on.
    pub(super) fn skip(&mut self, placed: Placed, out: &mut Vec<Command>) {
        let (task, running) = Running::of(placed, false);
        self.running.insert(task.shared().id, running);
        out.push(Command::Skip(task));
    }

    /// A replica is to leave, as soon as nobody uses it: no task finds it any more.
    pub(super) fn send_away(&mut self, data: DataId, id: ReplicaId) {
        let Some(directory) = self.directories.get_mut(&data) else { return };
        if let Some(replica) = directory.find(id).filter(|replica| !replica.leaving) {
            self.memories.leaves(replica.space, data, id, replica.last_use, directory.bytes(&replica.block));
            directory.leave(id);
        }
    }

    /// Drops a replica that was to leave, when its last user is gone.
    pub(super) fn drop_if_leaving(&mut self, data: DataId, id: ReplicaId, out: &mut Vec<Command>) {
        let Some(directory) = self.directories.get_mut(&data) else { return };
        let idle = directory.find(id).filter(|replica| replica.leaving && replica.pins == 0);
        let Some(Replica { space, block, .. }) = idle.cloned() else { return };
        directory.remove(id);
        let bytes = directory.bytes(&block);
        out.push(Command::Release(Box::new(Release { replica: id, space, bytes })));
    }

    /// The task that is launched next frees a data object's home: whatever is elsewhere goes first, or else it might
    /// yet be evicted, and written back to where nothing is any more. Nobody uses it: all who did were waited for.
    fn abandon(&mut self, data: DataId, out: &mut Vec<Command>) {
        let Some(directory) = self.directories.get_mut(&data) else { return };
        debug_assert!(directory.in_flight().next().is_none(), "a task in flight uses what is released");
        let element_bytes = directory.element_bytes;
        for Replica { id, space, block, last_use, leaving, pins } in directory.abandon() {
            debug_assert!(pins == 0, "somebody uses a replica of what is released");
            let bytes = (block.volume() * element_bytes) as u64;
            if !leaving {
                self.memories.leaves(space, data, id, last_use, bytes);
            }
            out.push(Command::Release(Box::new(Release { replica: id, space, bytes })));
        }
        out.push(Command::Unregister { data });
    }
}

//! The disk as a further memory: limited host memory, whose idle homes leave for it.
//!
//! Host memory is then reserved like a device's ([`Residency`](super::residency)): a task gets the homes of all its
//! data at once, idle homes leave to make room, and those that have left come back before the task is launched, while
//! other tasks run. Nothing here decides which homes leave: the least recently used ones do, as on a device.
//!
//! A home that cannot be written to the disk stays. The task that needed the room fails instead, since nothing else
//! would make room for it; no data are lost.

use super::Placement;
use super::stages::{Assigned, UnderWay};
use crate::depend::{Datum, OwnedTask};
use crate::engine::command::Command;
use crate::error::TaskFailure;
use crate::ids::SpaceId;
use std::sync::Arc;

/// Number of tasks given to a CPU unit, so that the homes for the next tasks come back while one runs.
const CPU_DEPTH_WITH_DISK: usize = 3;

impl Placement {
    /// Limits host memory to its capacity. Homes that do not fit leave for the disk, which is the last space.
    pub(crate) fn with_disk(mut self) -> Self {
        self.residency.add_disk();
        self.queue.units.give_ahead(CPU_DEPTH_WITH_DISK);
        self
    }

    /// Notes that a new data object has a home that can leave.
    pub(in crate::engine) fn add_home(&mut self, datum: &Datum, is_resident: bool, out: &mut Vec<Command>) {
        let leaving = self.residency.add_home(datum, is_resident);
        self.evict(&leaving, out);
    }

    /// Whether the bodies of all tasks that use limited host memory wait, possibly for a task that needs more of it.
    pub(super) fn all_wait_at_home(&self, space: SpaceId) -> bool {
        let is_limited = self.residency.disk().is_some() && space.is_host();
        is_limited
            && !self.residency.is_left(space)
            && self.flow.arriving().next().is_none()
            && self.flow.all_launched().all(|(_, launched)| launched.suspended)
    }

    /// Handles a home that could not be written to the disk.
    pub(super) fn spill_failed(
        &mut self,
        ended: UnderWay,
        fail: &dyn Fn(Option<&OwnedTask>) -> Arc<TaskFailure>,
        out: &mut Vec<Command>,
    ) {
        self.residency.spill_failed(ended.data, &ended.transfer);
        // Other homes that are leaving may make enough room.
        if !self.residency.is_left(SpaceId::HOST)
            && let Some(Assigned { task, unit, .. }) = self.queue.next_waiting(SpaceId::HOST)
        {
            task.set_poison(fail(Some(&task)));
            unit.into_iter().for_each(|unit| self.queue.take_from(unit, None));
            out.push(Command::Skip(task));
        }
        self.let_go_of_copy(ended, out);
    }
}

//! Requirements of a task for its unit and memory, and the purpose of special tasks.

use crate::depend::{AccessRecord, Kinds, OwnedTask};
use crate::ids::{DataId, DeviceId, SpaceId};
use crate::sched::{Near, Position};

/// Memory requirements of a task.
pub(crate) struct Needs {
    /// Total size of the task's regions, in bytes.
    pub(crate) bytes: u64,
    /// Whether the task must run in host memory.
    pub(crate) home_only: bool,
}

impl Needs {
    /// Returns the requirements of a task with these accesses.
    pub(crate) fn of(accesses: &[AccessRecord<'_>]) -> Self {
        let mut needs = Self { bytes: 0, home_only: false };
        accesses.iter().for_each(|access| needs.add(access));
        needs
    }

    /// Returns the requirements of a task.
    pub(super) fn of_task(task: &OwnedTask) -> Self {
        let mut needs = Self { bytes: 0, home_only: false };
        task.body().accesses(&mut |access| needs.add(&access));
        needs
    }

    fn add(&mut self, access: &AccessRecord<'_>) {
        if !access.mode.sees_nothing() {
            self.bytes += access.bytes();
        }
        self.home_only |= access.is_at_home();
    }
}

/// Returns the number of bytes that a task needs in a memory.
pub(super) fn bytes_in(task: &OwnedTask, space: SpaceId) -> u64 {
    let mut bytes = 0;
    task.body().accesses(&mut |access| bytes += access.bytes_in(space));
    bytes
}

/// Returns the unit kinds on which a task can run.
pub(super) fn kinds(task: &OwnedTask) -> Kinds {
    task.owned().as_ref().and_then(|side| side.kinds).unwrap_or_else(|| task.body().kinds())
}

/// Returns the device for which a task is intended, even if that device is lost.
pub(super) fn device_of(task: &OwnedTask) -> Option<DeviceId> {
    task.owned().as_ref().and_then(|side| side.device)
}

/// For a task across the devices of its unit, returns the end of each part's access range.
pub(super) fn parts_of(task: &OwnedTask) -> Option<&[usize]> {
    task.owned().as_ref().and_then(|side| side.across.as_deref())
}

/// If the task is a release or a take, returns the data object that no longer exists after the task has run.
pub(super) fn forgotten_by(task: &OwnedTask) -> Option<DataId> {
    task.owned().as_ref().and_then(|side| side.forget)
}

/// Returns whether a task exports its regions of a memory.
pub(super) fn lends(task: &OwnedTask) -> bool {
    task.owned().as_ref().is_some_and(|side| side.lends)
}

/// Returns a task's position in an iteration space, if it is a recurring task.
pub(super) fn position_of(task: &OwnedTask) -> Option<Position> {
    task.owned().as_ref().and_then(|side| side.position.clone())
}

/// Returns the index that a task is close to, if it has one.
pub(super) fn near(task: &OwnedTask) -> Option<Near> {
    task.owned().as_ref().and_then(|side| side.near)
}

//! What placement asks of a task: its needs of a unit and a memory, and what it is for.

use crate::depend::{AccessRecord, Kinds, OwnedTask};
use crate::ids::{DataId, DeviceId, SpaceId};
use crate::sched::{Beside, Place};

/// What a task needs of a memory.
pub(crate) struct Needs {
    /// The sum of its regions.
    pub(crate) bytes: u64,
    /// It must work at home.
    pub(crate) home_only: bool,
}

impl Needs {
    /// Of these accesses.
    pub(crate) fn of(accesses: &[AccessRecord<'_>]) -> Self {
        let mut needs = Self { bytes: 0, home_only: false };
        accesses.iter().for_each(|access| needs.add(access));
        needs
    }

    /// Of a task.
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

/// What a task needs of a memory.
pub(super) fn bytes_in(task: &OwnedTask, space: SpaceId) -> u64 {
    let mut bytes = 0;
    task.body().accesses(&mut |access| bytes += access.bytes_in(space));
    bytes
}

/// The kinds of unit that a task can run on.
pub(super) fn kinds(task: &OwnedTask) -> Kinds {
    task.owned().as_ref().and_then(|side| side.kinds).unwrap_or_else(|| task.body().kinds())
}

/// The device that a task is for, also if that is gone.
pub(super) fn device_of(task: &OwnedTask) -> Option<DeviceId> {
    task.owned().as_ref().and_then(|side| side.device)
}

/// Of a task across the devices of its unit: where the accesses of each part end.
pub(super) fn parts_of(task: &OwnedTask) -> Option<&[usize]> {
    task.owned().as_ref().and_then(|side| side.across.as_deref())
}

/// The data that is gone when a task has run, if it is a release or a take.
pub(super) fn forgotten_by(task: &OwnedTask) -> Option<DataId> {
    task.owned().as_ref().and_then(|side| side.forget)
}

/// Whether a task lends out what it has of a memory.
pub(super) fn lends(task: &OwnedTask) -> bool {
    task.owned().as_ref().is_some_and(|side| side.lends)
}

/// Where a task stands in an iteration space, if it recurs.
pub(super) fn place_of(task: &OwnedTask) -> Option<Place> {
    task.owned().as_ref().and_then(|side| side.place.clone())
}

/// The index beside which a task runs, if there is one.
pub(super) fn beside(task: &OwnedTask) -> Option<Beside> {
    task.owned().as_ref().and_then(|side| side.beside)
}

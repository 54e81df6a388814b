//! Tasks across the devices of their unit: which memory each part of such a task uses.
//!
//! A part is one element of the access list that was submitted with the task. Part `i` goes to device `i` modulo the
//! number of devices that the unit still has when it gets the task. So on a unit with a single device, or on a unit of
//! cores, all parts are in one memory, and the task is like any other task.
//!
//! The hosting thread opens a session on each device, calls the single body, and closes the sessions. The task ends
//! when the last device has finished. If a part fails, the task fails immediately (`Event::PartFailed`).
//!
//! This module makes no other choices and reserves nothing. Invariants:
//! 1. All memories belong to one unit, and each memory holds all of its parts at the same time.
//! 2. The working set is reserved in all of the memories in one step, or in none of them. Until then the task waits in
//!    the queue of the first memory and holds no memory, so such tasks cannot deadlock on each other's memory.
//! 3. Such a task is never issued: its successors wait for its end, and it waits for the ends of its predecessors,
//!    because streams of different devices have no common order.

use super::residency::Residency;
use crate::depend::{AccessRecord, OwnedTask};
use crate::ids::{DeviceId, SpaceId};
use smallvec::SmallVec;

/// Locations of the parts of a task that works in several memories.
#[derive(Debug)]
pub(crate) struct Across {
    /// For each part, its device.
    pub(crate) parts: Box<[DeviceId]>,
    /// The devices without duplicates, starting with the device of the first part.
    pub(crate) devices: SmallVec<[DeviceId; 4]>,
    /// For each access, its memory.
    accesses: Box<[SpaceId]>,
}

impl Across {
    /// Assigns parts to these memories in rotation. `ends` contains, for each part, the end of its range of accesses.
    /// Returns `None` if all parts are in one memory.
    pub(super) fn new(ends: &[usize], spaces: &[SpaceId]) -> Option<Self> {
        let devices: SmallVec<[DeviceId; 4]> =
            spaces.iter().take(ends.len()).filter_map(|space| space.device()).collect();
        if devices.len() < 2 {
            return None;
        }
        let parts: Box<[DeviceId]> = (0..ends.len()).map(|part| devices[part % devices.len()]).collect();
        let mut accesses = Vec::new();
        for (device, end) in parts.iter().zip(ends) {
            accesses.resize(*end, device.space());
        }
        let accesses = accesses.into();
        Some(Self { parts, devices, accesses })
    }

    /// Returns the memory of an access.
    pub(super) fn space(&self, access: usize) -> SpaceId {
        self.accesses[access]
    }

    /// Returns the memories without duplicates.
    pub(super) fn spaces(&self) -> impl Iterator<Item = SpaceId> {
        self.devices.iter().map(|device| device.space())
    }
}

/// Returns the number of bytes that the parts of a task need at the same time in each of these memories of a unit.
/// `ends` are the ends of the parts' access ranges, and `spaces` must not be empty.
pub(crate) fn bytes_in_each(
    ends: &[usize],
    spaces: &[SpaceId],
    accesses: impl FnOnce(&mut dyn FnMut(AccessRecord<'_>)),
) -> SmallVec<[u64; 4]> {
    let mut bytes: SmallVec<[u64; 4]> = spaces.iter().map(|_| 0).collect();
    let (mut access, mut part) = (0, 0);
    accesses(&mut |record| {
        while access >= ends[part] {
            part += 1;
        }
        access += 1;
        let at = part % spaces.len();
        bytes[at] += record.bytes_in(spaces[at]);
    });
    bytes
}

/// Returns whether a task's parts, whose access ranges have these ends, fit into these memories of a unit.
pub(super) fn fits(task: &OwnedTask, ends: &[usize], spaces: &[SpaceId], residency: &Residency) -> bool {
    if spaces.is_empty() {
        return false;
    }
    let bytes = bytes_in_each(ends, spaces, |visit| task.body().accesses(visit));
    bytes.iter().zip(spaces).all(|(bytes, space)| residency.fits(*bytes, *space))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_rotate_over_the_devices() {
        let spaces = [1, 2, 3].map(SpaceId);
        let across = Across::new(&[2, 2, 3, 6], &spaces).unwrap();
        assert_eq!(*across.parts, [0, 1, 2, 0].map(DeviceId));
        assert_eq!(*across.accesses, [1, 1, 3, 1, 1, 1].map(SpaceId));
        assert_eq!(across.spaces().collect::<Vec<_>>(), spaces);
        // There are never more devices than parts; a single device gives `None`.
        assert_eq!(Across::new(&[1, 2], &spaces).unwrap().devices[..], [0, 1].map(DeviceId));
        for (ends, spaces) in
            [(&[][..], &spaces[..]), (&[3], &spaces), (&[1, 2], &spaces[..1]), (&[1, 2], &[SpaceId::HOST])]
        {
            assert!(Across::new(ends, spaces).is_none());
        }
    }
}

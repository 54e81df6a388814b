//! Tasks across the devices of their unit: the memory that each part of such a task works in.
//!
//! A part is one element of the list of accesses that the task was submitted with. Part `i` goes to device `i` modulo
//! the number of devices that the unit has left when it gets the task; so on a unit with one device, or of cores, all
//! parts are in one memory, and the task is like any other.
//!
//! The hosting thread opens a session on each device, calls the one body, and closes the sessions; the task ends when
//! the last device has finished. If a part fails, the task fails at once (`Event::PartFailed`).
//!
//! This module chooses nothing else, and reserves nothing. Invariants:
//! 1. All memories are those of one unit, and each holds all of its parts at once.
//! 2. The working set is reserved in all of them in one step, or in none. Until then the task waits in the queue of
//!    the first, and holds nothing: such tasks cannot deadlock on each other's memory.
//! 3. Such a task is never issued: its successors wait for its end, and it waits for the end of its predecessors.
//!    Streams of several devices have no common order.

use super::residency::Residency;
use crate::depend::{AccessRecord, OwnedTask};
use crate::ids::{DeviceId, SpaceId};
use smallvec::SmallVec;

/// The locations of the parts of a task that works in several memories.
#[derive(Debug)]
pub(crate) struct Across {
    /// The device of each part.
    pub(crate) parts: Box<[DeviceId]>,
    /// The devices, each once, starting with that of the first part.
    pub(crate) devices: SmallVec<[DeviceId; 4]>,
    /// The memory of each access.
    accesses: Box<[SpaceId]>,
}

impl Across {
    /// Assigns parts to these memories in rotation. The accesses of a part end before its entry in `ends`. Returns
    /// `None` if all parts are in one memory.
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

    /// Returns the memories, each once.
    pub(super) fn spaces(&self) -> impl Iterator<Item = SpaceId> {
        self.devices.iter().map(|device| device.space())
    }
}

/// Returns the bytes that the parts of a task need at once in each of these memories of a unit; `ends` are the ends
/// of the parts' accesses, and `spaces` is not empty.
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

/// Returns whether the parts of a task, whose accesses have these ends, fit into these memories of a unit.
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
        // No more devices than parts; a single device gives `None`.
        assert_eq!(Across::new(&[1, 2], &spaces).unwrap().devices[..], [0, 1].map(DeviceId));
        for (ends, spaces) in
            [(&[][..], &spaces[..]), (&[3], &spaces), (&[1, 2], &spaces[..1]), (&[1, 2], &[SpaceId::HOST])]
        {
            assert!(Across::new(ends, spaces).is_none());
        }
    }
}

//! The slots of a disk: where each replica is in which file, and the checksum of its content.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// Slots begin and end at multiples of this size, which is a multiple of the block size of almost all disks.
pub(super) const SLOT_BYTES: u64 = 4096;

/// The number of the first slot in a file of the user, beyond all positions in the file of slots.
const FILES: u64 = 1 << 62;

/// A file of the user, and its path for errors.
#[derive(Debug)]
pub(crate) struct UserFile {
    pub(crate) file: Arc<File>,
    pub(crate) path: PathBuf,
}

/// All slots of a disk.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// The end of the last slot.
    end: u64,
    /// The first bytes of the free slots, by size.
    free: FxHashMap<u64, Vec<u64>>,
    /// The checksums of the slots in use, by their first byte.
    checksums: FxHashMap<u64, u32>,
    /// The slots in files of the user: the file, and the position of the first byte.
    files: FxHashMap<u64, (Arc<UserFile>, u64)>,
    /// Number of such slots so far.
    opened: u64,
}

/// The owner of a slot.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) first: u64,
    bytes: u64,
    slots: Arc<Mutex<Slots>>,
}

impl Slot {
    /// Returns a slot in the file of slots.
    pub(super) fn new(slots: &Arc<Mutex<Slots>>, bytes: u64) -> Self {
        let bytes = bytes.next_multiple_of(SLOT_BYTES);
        let mut all = slots.lock();
        let first = all.free.get_mut(&bytes).and_then(Vec::pop).unwrap_or_else(|| {
            let first = all.end;
            all.end += bytes;
            first
        });
        drop(all);
        Self { first, bytes, slots: slots.clone() }
    }

    /// Makes a part of a file of the user a slot, whose content begins at this position.
    pub(super) fn adopt(slots: &Arc<Mutex<Slots>>, file: Arc<UserFile>, position: u64) -> Self {
        let mut all = slots.lock();
        let first = FILES + all.opened;
        all.opened += 1;
        all.files.insert(first, (file, position));
        drop(all);
        Self { first, bytes: 0, slots: slots.clone() }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut slots = self.slots.lock();
        slots.checksums.remove(&self.first);
        if slots.files.remove(&self.first).is_some() {
            return;
        }
        slots.free.entry(self.bytes).or_default().push(self.first);
    }
}

impl Slots {
    /// Returns the file of the user and the position of a slot's first byte, if the slot is in such a file.
    pub(super) fn file_of_user(&self, first: u64) -> Option<(Arc<UserFile>, u64)> {
        self.files.get(&first).cloned()
    }

    /// Notes that the content of a slot is about to change.
    pub(super) fn begin_write(&mut self, first: u64) {
        self.checksums.remove(&first);
    }

    /// Notes the checksum of a slot that was written completely.
    pub(super) fn end_write(&mut self, first: u64, checksum: u32) {
        self.checksums.insert(first, checksum);
    }

    /// Whether content with this checksum is what a slot should have. The first content of a slot in a file of the user
    /// is not known.
    pub(super) fn is_expected(&self, first: u64, checksum: u32) -> bool {
        self.checksums.get(&first).map_or(first >= FILES, |known| *known == checksum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_again() {
        let slots = Arc::default();
        let first = Slot::new(&slots, 5000);
        let base = first.first;
        let second = Slot::new(&slots, 5000);
        assert_ne!(base, second.first);
        drop(first);
        assert_eq!(Slot::new(&slots, 8000).first, base, "it needs two pages as well");
        assert_eq!(slots.lock().end, 4 * SLOT_BYTES);
    }
}

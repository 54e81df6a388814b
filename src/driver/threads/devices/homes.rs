//! Homes of data objects: their addresses, and which of them are page-locked.

use super::page_locks::PageLock;
use super::{Devices, Memory};
use crate::coherence::ReplicaId;
#[cfg(unix)]
use crate::device::UserFile;
use crate::ids::{DataId, SpaceId};
use crate::memory::{DataCell, free_pages};
use crate::region::MAX_DIMS;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Minimum array size for page-locking, which takes longer than it saves on smaller arrays. Smaller copies do not
/// trigger page-locking either.
const PAGE_LOCK_FROM_BYTES: usize = 1 << 20;
/// Index of the copy that triggers page-locking of its array, counting from 1. Locking does not pay for an array that
/// is copied at most once. Locking it earlier would also place its pages, which the first thread that writes the array
/// should determine.
const PAGE_LOCK_AT_COPY: usize = 2;

/// The home of a data object.
pub(super) struct Home {
    pub(super) base: *mut u8,
    /// Per dimension, the distance in elements between consecutive indices.
    pub(super) strides: [usize; MAX_DIMS],
    /// Alignment of each element's address, which replicas must preserve.
    pub(super) element_align: usize,
    /// Number of bytes that may be page-locked.
    pub(super) lockable_bytes: usize,
    /// Whether the home can leave for the disk: it is the runtime's own, and contiguous.
    can_leave: bool,
    /// Whether the array is page-locked only on request, because its pages are not allocated until the first touch.
    by_request: bool,
    /// Number of copies so far that were large enough to count towards page-locking.
    copies: AtomicUsize,
    pub(super) page_lock: PageLock,
}

impl Home {
    /// Returns whether the home is page-locked.
    pub(super) fn is_locked(&self) -> bool {
        self.page_lock.is_locked()
    }
}

// SAFETY: the only field that is not `Send` is the address `base`. The directory and the dependences keep conflicting
// copies and bodies apart, so using this address on another thread creates no data race.
unsafe impl Send for Home {}
// SAFETY: the only field that is not `Sync` is the address `base`. Through a shared reference it can only be read, so
// concurrent accesses to the field are not a data race.
unsafe impl Sync for Home {}

impl Devices {
    /// Registers the home of a data object.
    pub(in crate::driver::threads) fn add_home(&self, cell: &DataCell) {
        let bytes = cell.datum.whole().volume() * cell.datum.element_bytes;
        // The gaps of a borrowed home do not belong to the runtime, and memory that devices use directly must not be
        // page-locked.
        let lockable = bytes > 0 && !cell.datum.is_unified() && cell.is_contiguous(&cell.datum.whole());
        let home = Home {
            base: cell.base(),
            strides: cell.strides(),
            element_align: cell.element_align(),
            lockable_bytes: if lockable { bytes } else { 0 },
            can_leave: lockable && self.disk.is_some() && cell.is_own_array(),
            by_request: cell.is_reserved(),
            copies: AtomicUsize::new(0),
            page_lock: PageLock::default(),
        };
        self.homes.insert(cell.datum.id, Arc::new(home));
    }

    /// Requests that a home be page-locked if that pays off. Called before an accelerator copies `bytes` bytes from or
    /// to the home.
    pub(super) fn prepare_home(&self, data: DataId, bytes: u64) {
        let home = self.home(data);
        if home.by_request || home.lockable_bytes < PAGE_LOCK_FROM_BYTES || bytes < PAGE_LOCK_FROM_BYTES as u64 {
            return;
        }
        if home.copies.fetch_add(1, Ordering::Relaxed) + 1 >= PAGE_LOCK_AT_COPY {
            self.request_lock(&home);
        }
    }

    /// Page-locks a data object's home if possible. Returns whether the home is locked.
    pub(in crate::driver::threads) fn pin_memory(&self, cell: &DataCell) -> bool {
        let home = self.homes.get(&cell.datum.id).map(|home| home.clone());
        home.is_some_and(|home| home.lockable_bytes > 0 && self.lock_now(&home))
    }

    /// Returns whether homes leave for a disk.
    pub(in crate::driver::threads) fn have_disk(&self) -> bool {
        self.disk.is_some()
    }

    /// Returns whether the home of a data object can leave for the disk.
    pub(in crate::driver::threads) fn lets_leave(&self, data: DataId) -> bool {
        self.disk.is_some() && self.homes.get(&data).is_some_and(|home| home.can_leave)
    }

    /// Makes a part of a file the memory of a replica on the disk. Returns the space of the disk.
    ///
    /// # Panics
    /// Panics if there is no disk.
    #[cfg(unix)]
    pub(in crate::driver::threads) fn open(&self, replica: ReplicaId, file: Arc<UserFile>, position: u64) -> SpaceId {
        let disk = self.disk.as_ref().expect("only a runtime with a disk opens files");
        self.replicas.insert(replica, Memory { buffer: disk.adopt(file, position), strides: None });
        self.spaces().last().expect("the disk is a device")
    }

    /// Gives the pages of a home whose content is on the disk back to the system. No task uses the home, and none can
    /// free it, until this is reported.
    pub(super) fn free_pages(&self, data: DataId) {
        let home = self.home(data);
        debug_assert!(home.can_leave, "a home that stays was released");
        // SAFETY: the home belongs to the runtime, so its pages belong to nothing else; its content is on the disk,
        // and is copied back before the home is used again.
        unsafe { free_pages(home.base, home.lockable_bytes) }
    }

    /// Returns the home of a data object in use.
    pub(super) fn home(&self, data: DataId) -> Arc<Home> {
        self.homes.get(&data).expect("a data object in use has a home").clone()
    }

    /// Returns the number of registered homes.
    #[cfg(test)]
    pub(in crate::driver::threads) fn homes(&self) -> usize {
        self.homes.len()
    }

    /// Forgets the home of a data object, whose memory is no longer page-locked afterwards.
    pub(in crate::driver::threads) fn forget_home(&self, data: DataId) {
        if let Some((_, home)) = self.homes.remove(&data) {
            home.page_lock.undo();
        }
    }
}

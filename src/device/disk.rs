//! The disk: an address space in a file, for homes that leave host memory.
//!
//! To the rest of the runtime, the disk is a device that runs no tasks. A replica on the disk holds a whole data
//! object, row by row, in a slot of one file. The file is unlinked right after it is created, so that nothing is left
//! of it when the process ends, in whatever way. A checksum of each replica's content is kept in memory and verified
//! when the content is read, because a disk or a file system may return other bytes than were written.
//!
//! A slot may also be a part of a file of the user, with content from the beginning. Such slots have numbers from
//! [`FILES`] on instead of positions.
//!
//! This module moves bytes, and decides nothing. Each copy is made by one of two threads, one for each direction.
//!
//! Invariants:
//! 1. A slot belongs to one replica until the replica's buffer is dropped. Slots do not overlap.
//! 2. A slot has a checksum exactly if its last write was complete. A slot in a file of the user also has content
//!    without a checksum until it is written for the first time.

use super::Buffer;
use super::device::{Copying, Device, DeviceCopy, End, Execution, Synchronous};
use crate::coherence::CopyId;
use crate::error::DeviceError;
use crate::kernel::DeviceSite;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The name of the interface in errors.
const API: &str = "system";
/// Slots begin at multiples of this size, which is a multiple of the block size of almost all disks.
const SLOT_BYTES: u64 = 4096;
/// Number of bytes that are read or written at once, so that their checksum is computed while they are in the cache.
const STEP_BYTES: usize = 256 << 10;

/// The number of the first slot in a file of the user, beyond all positions in the file of slots.
const FILES: u64 = 1 << 62;

/// The disk; see the module documentation. Clones are the same disk.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    name: String,
    file: Arc<File>,
    slots: Arc<Mutex<Slots>>,
}

#[derive(Debug, Default)]
struct Slots {
    /// The end of the last slot.
    end: u64,
    /// The first bytes of the free slots, by size.
    free: FxHashMap<u64, Vec<u64>>,
    /// The checksums of the slots in use, by their first byte.
    checksums: FxHashMap<u64, u32>,
    /// The slots in files of the user: the file, and the position of the first byte.
    files: FxHashMap<u64, (Arc<File>, u64)>,
    /// Number of such slots so far.
    opened: u64,
}

/// The owner of a slot.
#[derive(Debug)]
struct Slot {
    first: u64,
    bytes: u64,
    slots: Arc<Mutex<Slots>>,
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

impl Disk {
    /// Creates the file in this directory.
    pub(crate) fn create(directory: &Path) -> io::Result<Self> {
        static FILES: AtomicU64 = AtomicU64::new(0);
        let name = format!("thalweg-{}-{}", std::process::id(), FILES.fetch_add(1, Ordering::Relaxed));
        let path = directory.join(name);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(Self { name: format!("the disk at {}", directory.display()), file: Arc::new(file), slots: Arc::default() })
    }

    /// Makes a part of a file of the user a slot, whose content begins at this position.
    pub(crate) fn adopt(&self, file: Arc<File>, position: u64) -> Buffer {
        let mut slots = self.slots.lock();
        let first = FILES + slots.opened;
        slots.opened += 1;
        slots.files.insert(first, (file, position));
        Buffer::new(first as usize, Slot { first, bytes: 0, slots: self.slots.clone() })
    }

    /// Returns the file and the position of a slot's first byte.
    fn place(&self, first: u64) -> (Arc<File>, u64) {
        let known = self.slots.lock().files.get(&first).cloned();
        known.unwrap_or_else(|| (self.file.clone(), first))
    }

    /// Writes the content of a slot.
    fn write(&self, first: u64, content: &[u8]) -> Result<(), DeviceError> {
        self.slots.lock().checksums.remove(&first);
        let ((file, mut at), mut hasher) = (self.place(first), crc32fast::Hasher::new());
        for step in content.chunks(STEP_BYTES) {
            hasher.update(step);
            file.write_all_at(step, at).map_err(|error| self.error("write", &error))?;
            at += step.len() as u64;
        }
        self.slots.lock().checksums.insert(first, hasher.finalize());
        Ok(())
    }

    /// Reads the content of a slot.
    fn read(&self, first: u64, content: &mut [u8]) -> Result<(), DeviceError> {
        let bytes = content.len();
        let ((file, mut at), mut hasher) = (self.place(first), crc32fast::Hasher::new());
        for step in content.chunks_mut(STEP_BYTES) {
            file.read_exact_at(step, at).map_err(|error| self.error("read", &error))?;
            hasher.update(step);
            at += step.len() as u64;
        }
        let known = self.slots.lock().checksums.get(&first).copied();
        if known != Some(hasher.finalize()) && !(known.is_none() && first >= FILES) {
            return Err(DeviceError::Corrupted { device: self.name.clone(), bytes });
        }
        Ok(())
    }

    #[cold]
    fn error(&self, call: &'static str, error: &io::Error) -> DeviceError {
        let (device, code) = (self.name.clone(), error.raw_os_error().unwrap_or(0));
        let said = error.to_string();
        let what = said.split(" (os error").next().unwrap_or_default().to_owned();
        DeviceError::Call { device, call, api: API, code, what }
    }
}

impl Device for Disk {
    fn execution(&self) -> Execution<'_> {
        Execution::Here(self)
    }

    fn domain(&self) -> (&'static str, usize) {
        ("disk", 0)
    }

    fn copies_apart(&self) -> bool {
        true
    }

    fn capacity_bytes(&self) -> u64 {
        u64::MAX
    }

    fn allocate(&self, bytes: u64, _: usize) -> Result<Buffer, DeviceError> {
        let bytes = bytes.next_multiple_of(SLOT_BYTES);
        let mut slots = self.slots.lock();
        let first = slots.free.get_mut(&bytes).and_then(Vec::pop).unwrap_or_else(|| {
            let first = slots.end;
            slots.end += bytes;
            first
        });
        drop(slots);
        let base = usize::try_from(first).expect("a file has at most as many bytes as there are addresses");
        Ok(Buffer::new(base, Slot { first, bytes, slots: self.slots.clone() }))
    }

    fn end(&self, site: DeviceSite) -> End {
        End::Device(site)
    }

    unsafe fn copy(&self, _: &DeviceCopy, _: CopyId) -> Result<Copying, DeviceError> {
        Ok(Copying::Apart)
    }

    unsafe fn copy_now(&self, copy: &DeviceCopy) -> Result<(), DeviceError> {
        let bytes = usize::try_from(copy.bytes()).expect("a data object fits the address space");
        match (copy.from, copy.to) {
            (End::Host { first, .. }, End::Device(site)) => {
                // SAFETY: only whole data objects whose elements are contiguous are copied to the disk, so the content
                // is this many bytes. The caller keeps them valid, and nothing writes to them, until this returns.
                let content = unsafe { std::slice::from_raw_parts(first, bytes) };
                self.write(site.base as u64, content)
            }
            (End::Device(site), End::Host { first, .. }) => {
                // SAFETY: as above; and the caller lets nothing else touch the destination until this returns. All
                // elements are plain bytes, and the pages are initialised, as all pages that a system maps are.
                let content = unsafe { std::slice::from_raw_parts_mut(first, bytes) };
                self.read(site.base as u64, content)
            }
            (End::Host { .. }, End::Host { .. }) | (End::Device(_), End::Device(_)) => {
                unreachable!("a copy to or from the disk has one end in host memory")
            }
        }
    }
}

impl Synchronous for Disk {
    fn run(&self, _: &mut dyn FnMut()) -> Result<(), DeviceError> {
        unreachable!("no unit runs tasks on the disk")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> Disk {
        Disk::create(&std::env::temp_dir()).unwrap()
    }

    #[test]
    fn content_returns_unless_it_was_changed() {
        let disk = disk();
        let content: Vec<u8> = (0..STEP_BYTES + 1000).map(|n| (n * 7) as u8).collect();
        let buffers: Vec<_> = (0..3).map(|_| disk.allocate(content.len() as u64, 1).unwrap()).collect();
        let firsts: Vec<_> = buffers.iter().map(|buffer| buffer.base() as u64).collect();
        firsts.iter().for_each(|first| disk.write(*first, &content).unwrap());
        let mut found = vec![0; content.len()];
        disk.read(firsts[1], &mut found).unwrap();
        assert!(found == content);
        disk.file.write_all_at(&[content[9] ^ 1], firsts[1] + 9).unwrap();
        let error = disk.read(firsts[1], &mut found).unwrap_err();
        assert!(error.to_string().contains("its checksum differs"), "{error}");
        disk.read(firsts[2], &mut found).unwrap();
    }

    #[test]
    fn slot_in_a_file_of_the_user_keeps_to_its_place() {
        let (disk, name) = (disk(), format!("thalweg-slot-{}", std::process::id()));
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, b"0123456789").unwrap();
        let file = Arc::new(OpenOptions::new().read(true).write(true).open(&path).unwrap());
        let slots = [2, 6].map(|position| disk.adopt(file.clone(), position));
        let mut found = [0; 3];
        disk.read(slots[0].base() as u64, &mut found).unwrap();
        assert_eq!(&found, b"234", "content from the beginning");
        disk.write(slots[1].base() as u64, b"abc").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"012345abc9");
        file.write_all_at(b"B", 7).unwrap();
        assert!(matches!(disk.read(slots[1].base() as u64, &mut found), Err(DeviceError::Corrupted { .. })));
        let beyond = disk.adopt(file.clone(), 9);
        assert!(matches!(disk.read(beyond.base() as u64, &mut found), Err(DeviceError::Call { call: "read", .. })));
        drop((slots, beyond));
        assert!(disk.slots.lock().files.is_empty());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn slots_are_used_again() {
        let disk = disk();
        let first = disk.allocate(5000, 1).unwrap();
        let base = first.base();
        let second = disk.allocate(5000, 1).unwrap();
        assert_ne!(base, second.base());
        drop(first);
        assert_eq!(disk.allocate(8000, 1).unwrap().base(), base, "it needs two pages as well");
        assert_eq!(disk.slots.lock().end, 4 * SLOT_BYTES);
    }

    #[test]
    fn file_without_a_checksum_is_not_trusted() {
        let disk = disk();
        let buffer = disk.allocate(8, 1).unwrap();
        disk.file.write_all_at(&[0; 8], buffer.base() as u64).unwrap();
        assert!(matches!(disk.read(buffer.base() as u64, &mut [0; 8]), Err(DeviceError::Corrupted { .. })));
    }
}

//! The disk: an address space in a file, for homes that are evicted from host memory.
//!
//! To the rest of the runtime, the disk is a device that runs no tasks. A replica on the disk holds a whole data
//! object, row by row, in a slot of one file. The file is unlinked right after it is created, so nothing is left of it
//! however the process ends. A checksum of each replica's content is kept in memory and verified when the content is
//! read, because a disk or a file system may return corrupt bytes.
//!
//! Large slots bypass the page cache ([`direct`]). Small slots go through it, because direct transfers would wait for
//! the disk, and so do all slots on file systems without direct transfers.
//!
//! A slot may also be a part of a user's file, with content from the beginning. Such slots have numbers instead of
//! positions ([`slots`]), and are always transferred through the page cache.
//!
//! This module moves bytes, and decides nothing. Each copy is made by one of two threads, one for each direction.
//!
//! Invariants:
//! 1. A slot belongs to one replica until the replica's buffer is dropped. Slots do not overlap.
//! 2. A slot has a checksum exactly if its last write was complete. A slot in a user's file has content without a
//!    checksum until it is first written.
//! 3. Both paths to a slot have the same content: the page cache is coherent with direct transfers.

#[cfg(target_os = "linux")]
mod direct;
#[cfg(not(target_os = "linux"))]
#[path = "direct_absent.rs"]
mod direct;
#[cfg(target_os = "linux")]
mod ring;
mod slots;

use super::Buffer;
use super::device::{Copying, Device, DeviceCopy, End, Execution, Synchronous};
use crate::coherence::CopyId;
use crate::error::DeviceError;
use crate::kernel::DeviceSite;
use direct::Direct;
use parking_lot::Mutex;
pub(crate) use slots::UserFile;
use slots::{Slot, Slots};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The name of the interface in errors.
const API: &str = "system";
/// Number of bytes that pass through the page cache at once, so that the CPU's cache has them for the checksum.
const STEP_BYTES: usize = 256 << 10;
/// Number of bytes that are copied at once, so that the CPU's cache has them for the checksum.
const COPY_BYTES: usize = 32 << 10;
/// Minimum size of a slot that is transferred past the page cache.
const DIRECT_FROM_BYTES: usize = 1 << 20;

/// The disk; see the module documentation. Clones are the same disk.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    name: String,
    file: Arc<File>,
    direct: Arc<Option<Direct>>,
    slots: Arc<Mutex<Slots>>,
}

/// The way of a slot's content.
enum Route<'a> {
    /// Past the page cache.
    Direct(&'a Direct),
    /// Through the page cache of this file, from this position on.
    Cached(Arc<File>, u64),
}

impl Disk {
    /// Creates the file in this directory.
    pub(crate) fn create(directory: &Path) -> io::Result<Self> {
        static FILES: AtomicU64 = AtomicU64::new(0);
        let name = format!("thalweg-{}-{}", std::process::id(), FILES.fetch_add(1, Ordering::Relaxed));
        let path = directory.join(name);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        let direct = Arc::new(Direct::open(&path));
        std::fs::remove_file(&path)?;
        let name = format!("the disk at {}", directory.display());
        Ok(Self { name, file: Arc::new(file), direct, slots: Arc::default() })
    }

    /// Makes a part of a file of the user a slot, whose content begins at this position.
    pub(crate) fn adopt(&self, file: Arc<UserFile>, position: u64) -> Buffer {
        let slot = Slot::adopt(&self.slots, file, position);
        Buffer::new(slot.first as usize, slot)
    }

    /// Returns how this many bytes of a slot are transferred.
    fn route(&self, first: u64, bytes: usize) -> Route<'_> {
        let user = self.slots.lock().file_of_user(first);
        let direct = (*self.direct).as_ref().filter(|direct| bytes >= DIRECT_FROM_BYTES && direct.is_usable());
        match (user, direct) {
            (None, Some(direct)) => Route::Direct(direct),
            (None, None) => Route::Cached(self.file.clone(), first),
            (Some((user, at)), _) => Route::Cached(user.file.clone(), at),
        }
    }

    /// Writes the content of a slot.
    fn write(&self, first: u64, content: &[u8]) -> Result<(), DeviceError> {
        let mut hasher = crc32fast::Hasher::new();
        self.slots.lock().begin_write(first);
        let written = match self.route(first, content.len()) {
            Route::Direct(direct) => direct.write(&self.file, (first, content.len()), |range, buffer| {
                copy_and_hash(&content[range], buffer, &mut hasher);
            }),
            Route::Cached(file, at) => {
                let mut steps = (at..).step_by(STEP_BYTES).zip(content.chunks(STEP_BYTES));
                steps.try_for_each(|(at, step)| {
                    hasher.update(step);
                    file.write_all_at(step, at)
                })
            }
        };
        written.map_err(|error| self.error(first, "write", &error))?;
        self.slots.lock().end_write(first, hasher.finalize());
        Ok(())
    }

    /// Reads the content of a slot.
    fn read(&self, first: u64, content: &mut [u8]) -> Result<(), DeviceError> {
        let (bytes, mut hasher) = (content.len(), crc32fast::Hasher::new());
        let read = match self.route(first, bytes) {
            Route::Direct(direct) => direct.read(&self.file, (first, bytes), |range, buffer| {
                copy_and_hash(buffer, &mut content[range], &mut hasher);
            }),
            Route::Cached(file, at) => {
                let mut steps = (at..).step_by(STEP_BYTES).zip(content.chunks_mut(STEP_BYTES));
                steps.try_for_each(|(at, step)| {
                    file.read_exact_at(step, at)?;
                    hasher.update(step);
                    Ok(())
                })
            }
        };
        read.map_err(|error| self.error(first, "read", &error))?;
        let is_expected = self.slots.lock().is_expected(first, hasher.finalize());
        match is_expected {
            true => Ok(()),
            false => Err(DeviceError::Corrupted { device: self.name_of(first), bytes }),
        }
    }

    /// Returns the name of the file that contains a slot.
    #[cold]
    fn name_of(&self, first: u64) -> String {
        let user = self.slots.lock().file_of_user(first);
        user.map_or_else(|| self.name.clone(), |(user, _)| format!("file {}", user.path.display()))
    }

    #[cold]
    fn error(&self, first: u64, call: &'static str, error: &io::Error) -> DeviceError {
        let (device, code) = (self.name_of(first), error.raw_os_error().unwrap_or(0));
        let said = match error.kind() {
            io::ErrorKind::UnexpectedEof => "the file ends before the content".to_owned(),
            _ => error.to_string(),
        };
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
        let slot = Slot::new(&self.slots, bytes);
        let base = usize::try_from(slot.first).expect("a file has at most as many bytes as there are addresses");
        Ok(Buffer::new(base, slot))
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

/// Copies bytes, and adds them to a checksum.
fn copy_and_hash(from: &[u8], to: &mut [u8], hasher: &mut crc32fast::Hasher) {
    for (from, to) in from.chunks(COPY_BYTES).zip(to.chunks_mut(COPY_BYTES)) {
        hasher.update(from);
        to.copy_from_slice(from);
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
        let user = Arc::new(UserFile { file: file.clone(), path: path.clone() });
        let slots = [2, 6].map(|position| disk.adopt(user.clone(), position));
        let mut found = [0; 3];
        disk.read(slots[0].base() as u64, &mut found).unwrap();
        assert_eq!(&found, b"234", "content from the beginning");
        disk.write(slots[1].base() as u64, b"abc").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"012345abc9");
        file.write_all_at(b"B", 7).unwrap();
        assert!(matches!(disk.read(slots[1].base() as u64, &mut found), Err(DeviceError::Corrupted { .. })));
        let beyond = disk.adopt(user, 9);
        assert!(matches!(disk.read(beyond.base() as u64, &mut found), Err(DeviceError::Call { call: "read", .. })));
        let numbers = [slots[0].base() as u64, beyond.base() as u64];
        drop((slots, beyond));
        assert!(numbers.iter().all(|number| disk.slots.lock().file_of_user(*number).is_none()));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn file_without_a_checksum_is_not_trusted() {
        let disk = disk();
        let buffer = disk.allocate(8, 1).unwrap();
        disk.file.write_all_at(&[0; 8], buffer.base() as u64).unwrap();
        assert!(matches!(disk.read(buffer.base() as u64, &mut [0; 8]), Err(DeviceError::Corrupted { .. })));
    }
}

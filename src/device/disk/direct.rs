//! Transfers between memory and the disk past the page cache.
//!
//! The page cache costs a copy by the kernel and more than a third of a fast disk's bandwidth. `O_DIRECT` avoids it,
//! but demands addresses, positions and sizes at multiples of a block, which arrays do not have. So content passes
//! through aligned buffers. Several of them are in flight while the thread fills or empties another one.
//!
//! The page cache completes transfers that stop early, and takes over if the file system refuses a transfer.
//!
//! This module knows neither replicas nor checksums, and never repeats a transfer that failed.
//!
//! Invariants:
//! 1. Nothing touches a buffer from the start of its transfer until its end.
//! 2. No transfer is in flight when a call returns, even with an error.

use super::ring::Ring;
use super::slots::SLOT_BYTES;
use parking_lot::Mutex;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Addresses, positions and sizes of transfers are multiples of this size.
const BLOCK_BYTES: usize = SLOT_BYTES as usize;
/// Maximum size of one transfer.
const STEP_BYTES: usize = 1 << 20;
/// Maximum number of transfers in flight.
const DEPTH: usize = 4;

/// A file whose content is transferred past the page cache.
pub(super) struct Direct {
    file: File,
    is_refused: AtomicBool,
    reads: Mutex<Lane>,
    writes: Mutex<Lane>,
}

/// The transfers of one direction.
struct Lane {
    is_write: bool,
    buffers: [Buffer; DEPTH],
    /// Without a ring, each transfer has ended when its start returns.
    ring: Option<Ring>,
    /// The results of transfers that have ended, by the numbers of their buffers.
    ended: [Option<io::Result<usize>>; DEPTH],
    /// The end of the bytes for which the file system has reserved room.
    reserved: u64,
}

/// Memory for one step, which begins at a multiple of a block.
#[derive(Default)]
struct Buffer {
    memory: Vec<u8>,
    skipped: usize,
}

impl Direct {
    /// Opens a file, or returns `None` if its file system has no such transfers.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).custom_flags(libc::O_DIRECT).open(path).ok()?;
        let [reads, writes] = [false, true].map(|is_write| Mutex::new(Lane::new(is_write)));
        Some(Self { file, is_refused: AtomicBool::new(false), reads, writes })
    }

    /// Returns whether the file system has refused no transfer so far.
    pub(super) fn is_usable(&self) -> bool {
        !self.is_refused.load(Ordering::Relaxed)
    }

    /// Writes content, rounded up to whole blocks. `fill` is called with ranges of the content in order, and with the
    /// memory for them.
    pub(super) fn write(
        &self,
        cached: &File,
        (at, bytes): (u64, usize),
        mut fill: impl FnMut(Range<usize>, &mut [u8]),
    ) -> io::Result<()> {
        let mut lane = self.writes.lock();
        lane.reserve(&self.file, (at, bytes));
        self.transfer(&mut lane, cached, (at, bytes), |lane, range, has_ended| {
            if !has_ended {
                let (content, padding) = lane.buffer(&range).split_at_mut(range.len());
                fill(range, content);
                padding.fill(0);
            }
        })
    }

    /// Reads content. `empty` is called with ranges of the content in order, and with their bytes.
    pub(super) fn read(
        &self,
        cached: &File,
        (at, bytes): (u64, usize),
        mut empty: impl FnMut(Range<usize>, &[u8]),
    ) -> io::Result<()> {
        self.transfer(&mut self.reads.lock(), cached, (at, bytes), |lane, range, has_ended| {
            if has_ended {
                empty(range.clone(), &lane.buffer(&range)[..range.len()]);
            }
        })
    }

    /// Transfers content step by step. `visit` is called for each step before it starts and after it has ended.
    fn transfer(
        &self,
        lane: &mut Lane,
        cached: &File,
        (at, bytes): (u64, usize),
        mut visit: impl FnMut(&mut Lane, Range<usize>, bool),
    ) -> io::Result<()> {
        let step = |number: usize| number * STEP_BYTES..bytes.min((number + 1) * STEP_BYTES);
        let (steps, mut started, mut result) = (bytes.div_ceil(STEP_BYTES), 0, Ok(()));
        for number in 0..steps {
            while started < steps.min(number + DEPTH) && result.is_ok() {
                visit(lane, step(started), false);
                lane.start(&self.file, at, &step(started));
                started += 1;
            }
            if number == started {
                break;
            }
            let ended = lane.end(&step(number));
            let ended = ended.or_else(|error| self.complete(lane, cached, (at, &step(number)), error));
            result = result.and(ended);
            if result.is_ok() {
                visit(lane, step(number), true);
            }
        }
        result
    }

    /// Completes a step through the page cache that was refused, or that stopped early. All other errors are returned.
    #[cold]
    fn complete(
        &self,
        lane: &mut Lane,
        cached: &File,
        (at, step): (u64, &Range<usize>),
        error: io::Error,
    ) -> io::Result<()> {
        match error.kind() {
            ErrorKind::InvalidInput => self.is_refused.store(true, Ordering::Relaxed),
            ErrorKind::UnexpectedEof | ErrorKind::Interrupted | ErrorKind::WouldBlock => {}
            _ => return Err(error),
        }
        let at = at + step.start as u64;
        match lane.is_write {
            true => cached.write_all_at(lane.buffer(step), at),
            false => cached.read_exact_at(&mut lane.buffer(step)[..step.len()], at),
        }
    }
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Direct").field(&self.file).finish()
    }
}

impl Lane {
    fn new(is_write: bool) -> Self {
        let buffers = Default::default();
        Self { is_write, buffers, ring: Ring::new(DEPTH as u32), ended: Default::default(), reserved: 0 }
    }

    /// Reserves room for content. A write that extends a file would exclude reads. If there is no room, the write
    /// reports it.
    fn reserve(&mut self, file: &File, (at, bytes): (u64, usize)) {
        let bytes = bytes.next_multiple_of(BLOCK_BYTES) as u64;
        if at + bytes > self.reserved {
            let _ = rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), at, bytes);
            self.reserved = at + bytes;
        }
    }

    /// Returns the memory for a step.
    fn buffer(&mut self, step: &Range<usize>) -> &mut [u8] {
        let buffer = &mut self.buffers[step.start / STEP_BYTES % DEPTH];
        buffer.blocks(step.len().next_multiple_of(BLOCK_BYTES))
    }

    /// Starts a step's transfer.
    fn start(&mut self, file: &File, at: u64, step: &Range<usize>) {
        let number = step.start / STEP_BYTES % DEPTH;
        let bytes = self.buffers[number].blocks(step.len().next_multiple_of(BLOCK_BYTES));
        let at = at + step.start as u64;
        match &mut self.ring {
            // SAFETY: invariants 1 and 2; a file and its lanes are dropped together.
            Some(ring) => unsafe { ring.start(number, file, bytes, at, self.is_write) },
            None if self.is_write => self.ended[number] = Some(file.write_at(bytes, at)),
            None => self.ended[number] = Some(file.read_at(bytes, at)),
        }
    }

    /// Waits for the end of a step's transfer.
    fn end(&mut self, step: &Range<usize>) -> io::Result<()> {
        let number = step.start / STEP_BYTES % DEPTH;
        loop {
            if let Some(result) = self.ended[number].take() {
                let is_complete = result? >= step.len();
                return if is_complete { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) };
            }
            let ring = self.ring.as_mut().expect("without a ring, a transfer has ended when its start returns");
            let (number, result) = ring.wait();
            self.ended[number] = Some(result);
        }
    }
}

impl Buffer {
    /// Returns the first `bytes` bytes, which are at most one step.
    fn blocks(&mut self, bytes: usize) -> &mut [u8] {
        if self.memory.is_empty() {
            self.memory = vec![0; STEP_BYTES + BLOCK_BYTES];
            self.skipped = self.memory.as_ptr().align_offset(BLOCK_BYTES);
        }
        &mut self.memory[self.skipped..][..bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More bytes than are in flight at once. The last transfer is no whole block.
    const BYTES: usize = (DEPTH + 1) * STEP_BYTES + 5000;

    /// Returns a file past the page cache and through it, or `None` if the file system has no such transfers.
    fn open() -> Option<(Direct, File)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let cached = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        Some((Direct::open(&path)?, cached))
    }

    fn write(direct: &Direct, cached: &File, content: &[u8]) -> io::Result<()> {
        direct.write(cached, (8192, BYTES), |range, memory| memory.copy_from_slice(&content[range]))
    }

    fn read(direct: &Direct, cached: &File, content: &[u8]) -> io::Result<usize> {
        let mut next = 0;
        direct.read(cached, (8192, BYTES), |range, memory| {
            assert!(range.start == next && memory == &content[range.clone()], "{range:?}");
            next = range.end;
        })?;
        Ok(next)
    }

    #[test]
    fn content_is_the_same_with_and_without_a_ring() {
        let content: Vec<u8> = (0..BYTES).map(|at| (at * 7 + at / 4096) as u8).collect();
        for has_ring in [true, false] {
            let Some((mut direct, cached)) = open() else { return };
            if !has_ring {
                (direct.reads.get_mut().ring, direct.writes.get_mut().ring) = (None, None);
            }
            write(&direct, &cached, &content).unwrap();
            assert_eq!(read(&direct, &cached, &content).unwrap(), BYTES);
            let mut seen = vec![0; BYTES];
            cached.read_exact_at(&mut seen, 8192).unwrap();
            assert!(seen == content, "the page cache sees the same");
            cached.set_len((BYTES / 2) as u64).unwrap();
            assert_eq!(read(&direct, &cached, &content).unwrap_err().kind(), ErrorKind::UnexpectedEof);
            write(&direct, &cached, &content).unwrap();
            assert_eq!(read(&direct, &cached, &content).unwrap(), BYTES, "no earlier transfer is in flight");
            assert!(direct.is_usable());
        }
    }

    #[test]
    fn error_of_the_system_is_returned() {
        for has_ring in [true, false] {
            let Some((mut direct, cached)) = open() else { return };
            if !has_ring {
                direct.writes.get_mut().ring = None;
            }
            direct.file = File::open("/dev/null").unwrap();
            assert_eq!(write(&direct, &cached, &[1; BYTES]).unwrap_err().raw_os_error(), Some(libc::EBADF));
        }
    }
}

//! Limits on the number of stacks in a process, and on the address space that has to remain for other memory.
//!
//! The system limits a process's address space (`RLIMIT_AS`) and the number of its mappings (`vm.max_map_count`). The
//! stacks of waiting bodies must not use up either resource, because other allocations need them too and abort the
//! process if they fail.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of stacks in the process, across all threads.
static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// The number of mappings per stack: the stack itself, and the guard at its end.
const MAPPINGS: usize = 2;
/// The fraction of all mappings that stacks may use: three quarters.
const PART_OF_MAPPINGS: (usize, usize) = (3, 4);
/// The number of mappings that Linux allows by default.
const USUAL_MAPPINGS: usize = 65_530;
/// The part of a limited address space that stacks leave to other memory, and its bounds.
const PART_LEFT: u64 = 8;
const LEAST_LEFT: u64 = 4 << 20;
const MOST_LEFT: u64 = 256 << 20;

/// One stack's entry in the count, which lasts until this is dropped.
pub(super) struct Mapped(());

impl Mapped {
    /// Counts one more stack.
    ///
    /// # Errors
    /// Returns an error if the process already has the maximum number of stacks.
    pub(super) fn new() -> io::Result<Self> {
        let before = MAPPED.fetch_add(1, Ordering::Relaxed);
        let counted = Self(()); // dropped, and so counted down again, if it is one too many
        if before < most() { Ok(counted) } else { Err(io::ErrorKind::OutOfMemory.into()) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        MAPPED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the number of stacks in this process.
pub(crate) fn mapped() -> usize {
    MAPPED.load(Ordering::Relaxed)
}

fn most() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| {
        let allowed = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok();
        let mappings = allowed.and_then(|text| text.trim().parse().ok()).unwrap_or(USUAL_MAPPINGS);
        let (part, of) = PART_OF_MAPPINGS;
        mappings / of * part / MAPPINGS
    })
}

/// Returns the number of bytes that must remain unmapped, or 0 if the address space is not limited.
pub(super) fn headroom() -> usize {
    limit().map_or(0, |limit| (limit / PART_LEFT).clamp(LEAST_LEFT, MOST_LEFT) as usize)
}

/// Returns the number of bytes that the process may map.
#[cfg(unix)]
fn limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the call writes only to `limit`.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) } == 0;
    (known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

#[cfg(not(unix))]
fn limit() -> Option<u64> {
    None
}

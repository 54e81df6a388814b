//! Host memory of emulated devices and of OpenCL devices that are CPUs, with guard zones in builds with debug
//! assertions.
//!
//! A body with unsafe code may write outside of its views, and so may a kernel on cores. In host memory that damages
//! the heap, and the program fails much later. Guard zones around each replica absorb the damage and reveal it. Fresh
//! memory of emulated devices contains a pattern rather than zeros, so a task that leaves elements of an output
//! unwritten is noticed as on a real device.
//!
//! This module knows nothing of tasks: the driver checks the zones after each body.
//!
//! Invariant: outside of the replica's bytes, the memory has the pattern whenever no body runs on it.

#![allow(unsafe_code)] // guard zones are read and repaired by address

use super::Buffer;

/// The size of each guard zone; zero in builds without debug assertions.
const GUARD_BYTES: usize = if cfg!(debug_assertions) { 256 } else { 0 };
/// The value of every byte of fresh memory in builds with debug assertions; NaN as a floating-point number.
const PATTERN: u8 = 0xff;

/// The guard zones around a replica.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guards {
    /// The first byte of the replica.
    first: usize,
    bytes: usize,
    /// The size of the zone before it.
    front: usize,
}

/// Damage to a guard zone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overrun {
    pub(crate) bytes: usize,
    pub(crate) side: &'static str,
}

impl Overrun {
    /// Whether any buffer has guard zones.
    pub(crate) const IS_LOOKED_FOR: bool = GUARD_BYTES > 0;
}

impl Buffer {
    /// Allocates host memory of this many bytes, aligned to 64 bytes, or to `align` if that is more. In builds with
    /// debug assertions it has guard zones and contains the pattern, otherwise zeros.
    pub(super) fn guarded(bytes: usize, align: usize) -> Self {
        let memory = Self::fenced(bytes, align);
        if memory.guards.is_some() {
            let base: *mut u8 = std::ptr::with_exposed_provenance_mut(memory.base);
            // SAFETY: the memory has these bytes, and no other code has their address yet.
            unsafe { base.write_bytes(PATTERN, bytes) };
        }
        memory
    }

    /// Like [`Self::guarded`], but with zeros between the guard zones. Untouched pages take no memory.
    pub(super) fn fenced(bytes: usize, align: usize) -> Self {
        if GUARD_BYTES == 0 {
            return Self::in_host_memory(bytes, align);
        }
        let front = GUARD_BYTES.next_multiple_of(align.max(64));
        let all = bytes.checked_add(front + GUARD_BYTES).expect("a replica fits the address space");
        let whole = Self::in_host_memory(all, align);
        let guards = Guards { first: whole.base() + front, bytes, front };
        let base: *mut u8 = std::ptr::with_exposed_provenance_mut(whole.base());
        // SAFETY: `in_host_memory` returned `all` bytes there, and no other code has their address yet.
        unsafe {
            base.write_bytes(PATTERN, front);
            base.add(front + bytes).write_bytes(PATTERN, GUARD_BYTES);
        }
        Self { guards: Some(guards), ..Self::new(guards.first, whole) }
    }

    /// Returns the damage to one of the guard zones, and repairs it. No body may run on the memory meanwhile, except
    /// bodies that have the replica as well and stay inside it.
    pub(crate) fn overrun(&self) -> Option<Overrun> {
        // SAFETY: the buffer owns the memory.
        unsafe { self.guards?.overrun() }
    }
}

impl Guards {
    /// Like [`Buffer::overrun`].
    ///
    /// # Safety
    /// The memory between and in the zones still exists.
    pub(super) unsafe fn overrun(self) -> Option<Overrun> {
        let Self { first, bytes, front } = self;
        let repair = |from: usize, len: usize, side: &'static str| {
            let zone: *mut u8 = std::ptr::with_exposed_provenance_mut(from);
            // SAFETY: `fenced` made the zones part of the memory, which the caller keeps. Nothing else has a
            // reference to them: replicas are between them, and running bodies and kernels write only to replicas,
            // except for the overruns that this detects.
            let zone = unsafe { std::slice::from_raw_parts_mut(zone, len) };
            let changed = zone.iter().filter(|byte| **byte != PATTERN).count();
            if changed > 0 {
                zone.fill(PATTERN);
            }
            (changed > 0).then_some(Overrun { bytes: changed, side })
        };
        repair(first - front, front, "before").or_else(|| repair(first + bytes, GUARD_BYTES, "after"))
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn write_outside_of_replica_is_reported_once_per_side() {
        let memory = Buffer::guarded(24, 128);
        assert!(memory.base().is_multiple_of(128));
        let base: *mut u8 = std::ptr::with_exposed_provenance_mut(memory.base());
        // SAFETY: all of these addresses are in the memory, with its guard zones.
        unsafe {
            assert_eq!(*base.add(23), PATTERN, "fresh memory is not zeroed");
            base.write_bytes(1, 24);
            assert_eq!(memory.overrun(), None);
            base.sub(1).write(7);
            base.add(24).write_bytes(7, 8);
        }
        assert_eq!(memory.overrun(), Some(Overrun { bytes: 1, side: "before" }));
        assert_eq!(memory.overrun(), Some(Overrun { bytes: 8, side: "after" }));
        assert_eq!(memory.overrun(), None);
        // SAFETY: this address is in the memory.
        assert_eq!(unsafe { *base.add(23) }, 1);
    }
}

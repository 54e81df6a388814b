//! Host memory for emulated devices and for OpenCL CPU devices, with guard zones in builds with debug assertions.
//!
//! A body with unsafe code may write outside its views, and so may a kernel that runs on cores. In host memory, such
//! a write corrupts the heap, and the program fails much later. Guard zones around each replica absorb the damage and
//! make it detectable. In addition, fresh memory of emulated devices contains a pattern rather than zeros, so a task
//! that leaves elements of an output unwritten is noticed, as it would be on a real device.
//!
//! This module knows nothing about tasks: the driver checks the zones after each body.
//!
//! Invariant: whenever no body runs on the memory, all of its bytes outside the replica contain the pattern.

#![allow(unsafe_code)] // guard zones are read and repaired by address

use super::Buffer;

/// The size of each guard zone; zero in builds without debug assertions.
const GUARD_BYTES: usize = if cfg!(debug_assertions) { 256 } else { 0 };
/// The value of every byte of fresh memory in builds with debug assertions. As a floating-point number, the pattern
/// is NaN.
const PATTERN: u8 = 0xff;

/// The guard zones around a replica.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guards {
    /// The address of the replica's first byte.
    first: usize,
    bytes: usize,
    /// The size of the zone before the replica, in bytes.
    front: usize,
}

/// Damage to a guard zone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overrun {
    pub(crate) bytes: usize,
    pub(crate) side: &'static str,
}

impl Overrun {
    /// Whether buffers have guard zones in this build.
    pub(crate) const IS_LOOKED_FOR: bool = GUARD_BYTES > 0;
}

impl Buffer {
    /// Allocates host memory of this many bytes, aligned to 64 bytes, or to `align` if that is more. In builds with
    /// debug assertions, the memory has guard zones and is filled with the pattern; otherwise, it is filled with
    /// zeros.
    pub(super) fn guarded(bytes: usize, align: usize) -> Self {
        let memory = Self::fenced(bytes, align);
        if memory.guards.is_some() {
            let base: *mut u8 = std::ptr::with_exposed_provenance_mut(memory.base);
            // SAFETY: the memory has `bytes` bytes, and no other code knows their address yet.
            unsafe { base.write_bytes(PATTERN, bytes) };
        }
        memory
    }

    /// Like [`Self::guarded`], but the memory between the guard zones is always zeroed. Pages that are never touched
    /// take no physical memory.
    pub(super) fn fenced(bytes: usize, align: usize) -> Self {
        if GUARD_BYTES == 0 {
            return Self::in_host_memory(bytes, align);
        }
        let front = GUARD_BYTES.next_multiple_of(align.max(64));
        let all = bytes.checked_add(front + GUARD_BYTES).expect("a replica fits the address space");
        let whole = Self::in_host_memory(all, align);
        let guards = Guards { first: whole.base() + front, bytes, front };
        let base: *mut u8 = std::ptr::with_exposed_provenance_mut(whole.base());
        // SAFETY: `in_host_memory` allocated `all` bytes at this address, and no other code knows the address yet.
        unsafe {
            base.write_bytes(PATTERN, front);
            base.add(front + bytes).write_bytes(PATTERN, GUARD_BYTES);
        }
        Self { guards: Some(guards), ..Self::new(guards.first, whole) }
    }

    /// Returns the damage to one of the guard zones, if any, and repairs it. Meanwhile, no body may run on the
    /// memory, except bodies that also access this replica and stay inside it.
    pub(crate) fn overrun(&self) -> Option<Overrun> {
        // SAFETY: the buffer owns the memory.
        unsafe { self.guards?.overrun() }
    }
}

impl Guards {
    /// Like [`Buffer::overrun`].
    ///
    /// # Safety
    /// The replica and its guard zones must still exist.
    pub(super) unsafe fn overrun(self) -> Option<Overrun> {
        let Self { first, bytes, front } = self;
        let repair = |from: usize, len: usize, side: &'static str| {
            let zone: *mut u8 = std::ptr::with_exposed_provenance_mut(from);
            // SAFETY: `fenced` made the zones part of the memory, which the caller keeps alive. Nothing else has a
            // reference to the zones, because replicas are between them, and running bodies and kernels write only to
            // replicas, apart from the overruns that this function detects.
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
        // SAFETY: all of these addresses are in the replica or in its guard zones.
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
        // SAFETY: this address is in the replica.
        assert_eq!(unsafe { *base.add(23) }, 1);
    }
}

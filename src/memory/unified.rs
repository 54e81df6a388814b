//! Homes in unified memory, where the host and all devices of the runtime use the same bytes at the same addresses.
//!
//! One of the devices allocates the memory, and stays open as long as the memory exists. From the beginning, the data
//! object has a replica on each device that uses the home's addresses, its *alias* (`engine/placement/residency`). The
//! validity of aliases records which side used the bytes last, and orders the users; there is nothing to copy between
//! aliases.
//!
//! Aliases take no room and are never evicted. Copies between them are at most hints to the system to move pages
//! (`driver/threads/devices/`). If a device of the runtime does not reach unified memory, or the host may not touch
//! it while kernels run, `MemoryKind::Unified` makes an ordinary array.
//!
//! This module knows nothing about pages, which the system moves to where they are touched.
//!
//! Invariant: the elements begin at the memory's address, which is a multiple of their alignment, and are
//! initialised.

use super::Element;
use std::any::TypeId;
use std::fmt;
use std::ptr::with_exposed_provenance_mut;

/// Memory that is already allocated, and is freed when this value is dropped.
///
/// # Safety
/// The requested bytes, starting at the base, belong to this value alone. The base never changes, and its provenance is
/// exposed.
pub(crate) unsafe trait Allocated: Send + Sync + 'static {
    fn base(&self) -> usize;
}

/// An array in unified memory; see the module documentation.
pub(crate) struct Unified {
    memory: Box<dyn Allocated>,
    len: usize,
    element: TypeId,
}

// SAFETY: the home owns plain elements that are `Send` and `Sync`, in memory that any thread may use, so it may move to
// another thread.
unsafe impl Send for Unified {}

impl fmt::Debug for Unified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unified").field("base", &self.memory.base()).field("len", &self.len).finish_non_exhaustive()
    }
}

impl Unified {
    /// Writes `len` zeros to unified memory that was allocated for them. Returns `None` if the memory is not aligned
    /// for such elements.
    pub(crate) fn zeros<T: Element>(memory: impl Allocated, len: usize) -> Option<Self> {
        if !memory.base().is_multiple_of(align_of::<T>()) {
            return None;
        }
        let unified = Self { memory: Box::new(memory), len, element: TypeId::of::<T>() };
        // SAFETY: the memory was just allocated with room for `len` elements, and nothing else uses it. Zeros are valid
        // elements.
        unsafe { unified.first().cast::<T>().write_bytes(0, len) };
        Some(unified)
    }

    /// Returns the address of the first element, which is the same on devices.
    pub(crate) fn first(&self) -> *mut u8 {
        with_exposed_provenance_mut(self.memory.base())
    }

    /// Copies the elements and frees the memory.
    ///
    /// # Panics
    /// Panics if `T` is not the element type.
    pub(super) fn into_vec<T: Element>(self) -> Vec<T> {
        assert!(self.element == TypeId::of::<T>(), "another element type");
        // SAFETY: by the type's invariant, `len` initialised elements begin there, and nothing else uses the memory any
        // more.
        unsafe { std::slice::from_raw_parts(self.first().cast::<T>(), self.len) }.to_vec()
    }
}

//! A home in unified memory: the host and all devices of the runtime use the same bytes at the same addresses.
//!
//! One of the devices allocates the memory, and stays open as long as the memory exists. On each device, the data
//! object has from the beginning a replica at the home's addresses, its *alias* (`engine/placement/residency`).
//! Validity of aliases records which side used the bytes last, and orders its users; there is nothing to copy between
//! them.
//!
//! Aliases take no room and are never evicted. Copies between them are at most hints to the system to move pages
//! (`driver/threads/devices.rs`). If a device of the runtime does not reach unified memory, or the host may not touch
//! it while kernels run, `rt.unified` makes an ordinary array.
//!
//! This module knows nothing about pages, which the system moves to where they are touched.
//!
//! Invariant: the elements begin at the memory's address, which is a multiple of their alignment, and are
//! initialised.

use super::Element;
use std::any::TypeId;
use std::fmt;
use std::ptr::with_exposed_provenance_mut;

/// Memory that was allocated, and is freed when this is dropped.
///
/// # Safety
/// From the base on, which is exposed and stays the same, the requested bytes belong to this value alone.
pub(crate) unsafe trait Allocated: Send + Sync + 'static {
    fn base(&self) -> usize;
}

/// An array in unified memory; see the module documentation.
pub(crate) struct Unified {
    memory: Box<dyn Allocated>,
    len: usize,
    element: TypeId,
}

// SAFETY: the home owns plain elements that are `Send` and `Sync`, in memory that any thread may use.
unsafe impl Send for Unified {}

impl fmt::Debug for Unified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unified").field("base", &self.memory.base()).field("len", &self.len).finish_non_exhaustive()
    }
}

impl Unified {
    /// Makes `len` zeros in unified memory that was allocated for them; `None` if the memory is not aligned for them.
    pub(crate) fn zeros<T: Element>(memory: impl Allocated, len: usize) -> Option<Self> {
        if !memory.base().is_multiple_of(align_of::<T>()) {
            return None;
        }
        let unified = Self { memory: Box::new(memory), len, element: TypeId::of::<T>() };
        // SAFETY: the memory was just allocated, with room for that many elements, and nothing else has it. Zeros are
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
    /// If `T` is not the type of its elements.
    pub(super) fn into_vec<T: Element>(self) -> Vec<T> {
        assert!(self.element == TypeId::of::<T>(), "another element type");
        // SAFETY: by the type's invariant; nothing else uses it any more.
        unsafe { std::slice::from_raw_parts(self.first().cast::<T>(), self.len) }.to_vec()
    }
}

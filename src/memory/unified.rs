//! A home in unified memory: the host and all devices of the runtime use the same bytes at the same addresses.
//!
//! It is allocated by one of the devices, which stays open as long as it is there. On each device the data object has from the
//! beginning a replica at the home's addresses, its *alias* (`engine/placement/residency`): which of them is valid says who used
//! the bytes last, and orders those who use them; there is nothing to copy between them.
//!
//! What never happens here: nothing is known of pages, which the system moves to where they are touched.
//!
//! Invariant: the elements begin at the memory's address, which is a multiple of their alignment, and are initialised.

use super::Element;
use std::any::TypeId;
use std::fmt;
use std::ptr::with_exposed_provenance_mut;

/// Memory that was allocated, and is freed when this is dropped.
///
/// # Safety
/// From the base on, which is exposed and stays the same, the bytes that were asked for are this value's alone.
pub(crate) unsafe trait Allocated: Send + Sync + 'static {
    fn base(&self) -> usize;
}

/// See the module.
pub(crate) struct Unified {
    memory: Box<dyn Allocated>,
    len: usize,
    element: TypeId,
}

// SAFETY: it owns plain elements that are `Send` and `Sync`, in memory that any thread may use.
unsafe impl Send for Unified {}

impl fmt::Debug for Unified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unified").field("base", &self.memory.base()).field("len", &self.len).finish_non_exhaustive()
    }
}

impl Unified {
    /// This many zeros in unified memory that was allocated for them; nothing where it is not aligned for them.
    pub(crate) fn zeros<T: Element>(memory: impl Allocated, len: usize) -> Option<Self> {
        if !memory.base().is_multiple_of(align_of::<T>()) {
            return None;
        }
        let unified = Self { memory: Box::new(memory), len, element: TypeId::of::<T>() };
        // SAFETY: the memory was just allocated, with room for so many, and is nobody else's. Zeros are elements.
        unsafe { unified.first().cast::<T>().write_bytes(0, len) };
        Some(unified)
    }

    /// Where the first element is, on devices too.
    pub(crate) fn first(&self) -> *mut u8 {
        with_exposed_provenance_mut(self.memory.base())
    }

    /// The elements, copied; the memory is given back.
    ///
    /// # Panics
    /// If `T` is not the type of its elements.
    pub(super) fn into_vec<T: Element>(self) -> Vec<T> {
        assert!(self.element == TypeId::of::<T>(), "another element type");
        // SAFETY: by the type's invariant; nobody else uses it any more.
        unsafe { std::slice::from_raw_parts(self.first().cast::<T>(), self.len) }.to_vec()
    }
}

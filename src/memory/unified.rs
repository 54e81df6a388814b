//! A home in unified memory: the host and all devices of the runtime use the same bytes at the same addresses.
//!
//! It is allocated by one of the devices, which stays open as long as it is there. On each device the data object has from the
//! beginning a replica at the home's addresses, its *alias* (`engine/placement/residency`): which of them is valid says who used
//! the bytes last, and orders those who use them; there is nothing to copy between them.
//!
//! What never happens here: nothing is known of pages, which the system moves to where they are touched.
//!
//! Invariant: the elements begin at the buffer's address, which is a multiple of their alignment, and are initialised.

use super::Element;
use crate::device::Buffer;
use std::any::TypeId;
use std::ptr::with_exposed_provenance_mut;

/// See the module.
#[derive(Debug)]
pub(crate) struct Unified {
    buffer: Buffer,
    len: usize,
    element: TypeId,
}

// SAFETY: it owns plain elements that are `Send` and `Sync`, in memory that any thread may use.
unsafe impl Send for Unified {}

impl Unified {
    /// This many zeros in unified memory that has room for them; nothing where it is not aligned for them.
    pub(crate) fn zeros<T: Element>(buffer: Buffer, len: usize) -> Option<Self> {
        if !buffer.base().is_multiple_of(align_of::<T>()) {
            return None;
        }
        let unified = Self { buffer, len, element: TypeId::of::<T>() };
        // SAFETY: the memory was just allocated, with room for so many, and is nobody else's. Zeros are elements.
        unsafe { unified.first().cast::<T>().write_bytes(0, len) };
        Some(unified)
    }

    /// Where the first element is, on devices too.
    pub(crate) fn first(&self) -> *mut u8 {
        with_exposed_provenance_mut(self.buffer.base())
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

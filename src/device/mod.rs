//! Devices: memories of their own, and what computes on them.
//!
//! A [`Device`] is a narrow thing: it allocates, copies and runs. It knows nothing of tasks, dependences or coherence;
//! which bytes go where and when is decided by the engine, and the runtime calls in here.

#![allow(unsafe_code)] // raw memory is handed out and copied here; every use states its reason

mod emulated;

pub use emulated::EmulatedDevice;

use crate::memory::BoxCopy;
use std::ptr::NonNull;

/// What the runtime needs of a device.
pub(crate) trait Device: Send + Sync {
    /// How many bytes fit into its memory.
    fn capacity_bytes(&self) -> u64;

    /// Memory for a replica, zeroed and aligned to 64 bytes.
    fn allocate(&self, bytes: u64) -> Buffer;

    /// Whether a copy of so many bytes takes long enough to be made on the device's own copy engine.
    fn copies_apart(&self, bytes: u64) -> bool;

    /// Copies a box to, from or inside the device's memory; returns when it has arrived.
    ///
    /// # Safety
    /// As for [`crate::memory::copy_box`].
    unsafe fn copy(&self, copy: &BoxCopy);

    /// Runs a body at the device's speed.
    fn run(&self, body: &mut dyn FnMut());
}

/// Memory in a device's address space; freed when dropped.
#[derive(Debug)]
pub(crate) struct Buffer {
    base: NonNull<u8>,
    layout: std::alloc::Layout,
}

// SAFETY: the buffer owns its bytes; who may touch them when is the engine's matter.
unsafe impl Send for Buffer {}
// SAFETY: as above; a shared reference only gives the address.
unsafe impl Sync for Buffer {}

impl Buffer {
    fn zeroed(bytes: usize) -> Self {
        let layout = std::alloc::Layout::from_size_align(bytes.max(1), 64).expect("a replica fits the address space");
        // SAFETY: the layout's size is not zero.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        Self { base: NonNull::new(base).unwrap_or_else(|| std::alloc::handle_alloc_error(layout)), layout }
    }

    /// The address of the first byte.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, freed once.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), self.layout) }
    }
}

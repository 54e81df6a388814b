//! The home of a data in host memory.

use super::Element;
use crate::depend::Datum;
use crate::ids::DataId;
use crate::region::{Block, MAX_DIMS};
use parking_lot::Mutex;
use std::mem::ManuallyDrop;

/// A vector without its type.
#[derive(Debug)]
pub(crate) struct HostBuffer {
    base: *mut u8,
    len: usize,
    capacity: usize,
    free: unsafe fn(*mut u8, usize, usize),
}

// SAFETY: the buffer owns plain elements that are `Send` and `Sync`.
unsafe impl Send for HostBuffer {}

impl HostBuffer {
    pub(crate) fn new<T: Element>(vec: Vec<T>) -> Self {
        unsafe fn free<T>(base: *mut u8, len: usize, capacity: usize) {
            // SAFETY: the parts are those of a `Vec<T>` taken apart below.
            drop(unsafe { Vec::from_raw_parts(base.cast::<T>(), len, capacity) });
        }
        let mut vec = ManuallyDrop::new(vec);
        Self { base: vec.as_mut_ptr().cast(), len: vec.len(), capacity: vec.capacity(), free: free::<T> }
    }

    /// The vector again.
    ///
    /// # Panics
    /// If `T` is not the type it was made of.
    pub(crate) fn into_vec<T: Element>(self) -> Vec<T> {
        assert!(std::ptr::fn_addr_eq(self.free, HostBuffer::new::<T>(Vec::new()).free), "another element type");
        let parts = ManuallyDrop::new(self);
        // SAFETY: the parts of a `Vec` of this type, taken apart once.
        unsafe { Vec::from_raw_parts(parts.base.cast(), parts.len, parts.capacity) }
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        // SAFETY: the parts belong together and are freed once.
        unsafe { (self.free)(self.base, self.len, self.capacity) }
    }
}

/// A registered data with its home.
///
/// What every submission looks at stands in the first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct DataCell {
    /// Of the runtime it is registered with.
    pub(crate) runtime: u64,
    base: *mut u8,
    pub(crate) datum: Datum,
    buffer: Mutex<Option<HostBuffer>>,
}

// SAFETY: the elements behind `base` are reached only through views (rules 1–3 of the module).
unsafe impl Send for DataCell {}
// SAFETY: as above.
unsafe impl Sync for DataCell {}

impl DataCell {
    pub(crate) fn new<T: Element>(runtime: u64, id: DataId, shape: &[usize], vec: Vec<T>) -> Self {
        let buffer = HostBuffer::new(vec);
        Self {
            datum: Datum::new(id, shape, size_of::<T>(), false),
            runtime,
            base: buffer.base,
            buffer: Mutex::new(Some(buffer)),
        }
    }

    /// A data without memory, for programs that are simulated. Its address is none, and nobody may follow it.
    pub(crate) fn phantom<T: Element>(runtime: u64, id: DataId, shape: &[usize]) -> Self {
        let datum = Datum::new(id, shape, size_of::<T>(), true);
        Self { datum, runtime, base: std::ptr::without_provenance_mut(align_of::<Self>()), buffer: Mutex::new(None) }
    }

    /// Takes the memory out; once, and never of a phantom.
    pub(crate) fn take_buffer(&self) -> Option<HostBuffer> {
        self.buffer.lock().take()
    }

    /// Elements from one index to the next, per dimension.
    #[inline]
    pub(crate) fn strides(&self) -> [usize; MAX_DIMS] {
        strides_of(self.datum.shape())
    }

    /// Where the first element of `block` lies at home.
    #[inline]
    pub(crate) fn address(&self, block: &Block) -> *mut u8 {
        let strides = self.strides();
        let offset: usize = (0..MAX_DIMS).map(|d| block.lo()[d] * strides[d]).sum();
        self.base.wrapping_add(offset * self.datum.element_bytes)
    }

    /// The address of element 0.
    #[inline]
    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }
}

/// Row-major strides, in elements.
#[inline]
pub(crate) fn strides_of(shape: &[usize; MAX_DIMS]) -> [usize; MAX_DIMS] {
    let mut strides = [1; MAX_DIMS];
    for d in (0..MAX_DIMS - 1).rev() {
        strides[d] = strides[d + 1] * shape[d + 1];
    }
    strides
}

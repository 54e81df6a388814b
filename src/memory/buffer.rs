//! The home of a data in host memory.

use super::Element;
use super::replica::SparesOf;
use crate::depend::Datum;
use crate::ids::DataId;
use crate::region::{Block, MAX_DIMS};
use parking_lot::Mutex;
use std::mem::ManuallyDrop;

/// What a cache brings at once, nearly everywhere.
const LINE_BYTES: usize = 64;

/// How many lines one array may begin after another: to the end of a page, where caches begin to count anew.
const LINES: usize = 64;

/// Arrays of less do not suffer from how they lie.
const LARGE_BYTES: usize = 16 * LINES * LINE_BYTES;

/// A vector without its type.
#[derive(Debug)]
pub(crate) struct HostBuffer {
    base: *mut u8,
    /// Elements before the first that counts.
    skipped: usize,
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
        let base = vec.as_mut_ptr().cast();
        Self { base, skipped: 0, len: vec.len(), capacity: vec.capacity(), free: free::<T> }
    }

    /// So many zeros. Large arrays begin at a cache line, and `number` by `number` at another line of their page: what
    /// allocators give begins beside one, and at the same line for all, so that equal places of several arrays compete
    /// for the same set of the cache.
    pub(crate) fn zeros<T: Element>(len: usize, number: u32) -> Self {
        let bytes = size_of::<T>();
        if bytes == 0 || !LINE_BYTES.is_multiple_of(bytes) || len.saturating_mul(bytes) < LARGE_BYTES {
            return Self::new(bytemuck::zeroed_vec::<T>(len));
        }
        let per_line = LINE_BYTES / bytes;
        let mut vec: Vec<T> = bytemuck::zeroed_vec(len + LINES * per_line);
        // 17 has no divisor in common with the number of lines, so each has its turn, and neighbours are far apart.
        let skipped = vec.as_ptr().align_offset(LINE_BYTES) + number as usize * 17 % (LINES - 1) * per_line;
        vec.truncate(skipped + len);
        let mut buffer = Self::new(vec);
        buffer.skipped = skipped;
        buffer
    }

    /// Where the first element that counts is.
    fn first<T>(&self) -> *mut u8 {
        self.base.cast::<T>().wrapping_add(self.skipped).cast()
    }

    /// The vector again; what was skipped is closed up.
    ///
    /// # Panics
    /// If `T` is not the type it was made of.
    pub(crate) fn into_vec<T: Element>(self) -> Vec<T> {
        assert!(std::ptr::fn_addr_eq(self.free, HostBuffer::new::<T>(Vec::new()).free), "another element type");
        let parts = ManuallyDrop::new(self);
        // SAFETY: the parts of a `Vec` of this type, taken apart once.
        let mut vec: Vec<T> = unsafe { Vec::from_raw_parts(parts.base.cast(), parts.len, parts.capacity) };
        vec.drain(..parts.skipped);
        vec
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
    /// Memory that reductions use again.
    pub(super) spares: SparesOf,
}

// SAFETY: the elements behind `base` are reached only through views (rules 1–3 of the module).
unsafe impl Send for DataCell {}
// SAFETY: as above.
unsafe impl Sync for DataCell {}

impl DataCell {
    /// A data whose home is `buffer`, which holds elements of this type, as many as the shape has.
    pub(crate) fn new<T: Element>(runtime: u64, id: DataId, shape: &[usize], buffer: HostBuffer) -> Self {
        Self {
            datum: Datum::new(id, shape, size_of::<T>(), false),
            runtime,
            base: buffer.first::<T>(),
            buffer: Mutex::new(Some(buffer)),
            spares: SparesOf::default(),
        }
    }

    /// A data without memory, for programs that are simulated. Its address is none, and nobody may follow it.
    pub(crate) fn phantom<T: Element>(runtime: u64, id: DataId, shape: &[usize]) -> Self {
        let datum = Datum::new(id, shape, size_of::<T>(), true);
        let base = std::ptr::without_provenance_mut(align_of::<Self>());
        Self { datum, runtime, base, buffer: Mutex::new(None), spares: SparesOf::default() }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_arrays_of_zeros_begin_at_different_lines_and_come_back_whole() {
        let len = LARGE_BYTES / 8 + 3;
        let mut lines: Vec<usize> = (0..8)
            .map(|number| {
                let buffer = HostBuffer::zeros::<f64>(len, number);
                let line = buffer.first::<f64>().addr() / LINE_BYTES;
                assert!(buffer.first::<f64>().addr().is_multiple_of(LINE_BYTES));
                assert_eq!(buffer.into_vec::<f64>(), vec![0.0; len]);
                line % LINES
            })
            .collect();
        lines.dedup();
        assert!(lines.len() > 1, "{lines:?}");
    }

    #[test]
    fn elements_that_fill_no_line_are_not_moved() {
        for len in [0, 1, LARGE_BYTES] {
            assert_eq!(HostBuffer::zeros::<[f64; 3]>(len, 5).skipped, 0);
        }
        assert_eq!(HostBuffer::zeros::<u8>(LARGE_BYTES - 1, 5).skipped, 0);
    }
}

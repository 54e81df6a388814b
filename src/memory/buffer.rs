//! Homes of data objects in host memory, either owned by the runtime or lent by a caller.

use super::adopted::{DeviceArray, ForeignArray};
use super::dlpack::Layout as TensorLayout;
use super::home::{BoxedValue, Home};
use super::replica::SparesOf;
use super::shared_pages::Part;
use super::strides::{is_contiguous, strides_of};
use super::{Element, Reserved, Unified, huge};
use crate::depend::{Datum, Residence};
use crate::ids::{DataId, SpaceId};
use crate::region::{Block, MAX_DIMS};
use parking_lot::Mutex;
use std::alloc::{Layout, dealloc};
use std::any::TypeId;
use std::mem::ManuallyDrop;

/// The size of a cache line on almost all CPUs.
pub(super) const LINE_BYTES: usize = 64;

/// The number of lines in a page, at any of which an array may begin. The line matters because caches select a set by
/// the address within a page.
const LINES: usize = 64;

/// The size of an ordinary page.
pub(super) const PAGE_BYTES: usize = LINES * LINE_BYTES;

/// The size from which the placement of arrays in cache sets matters.
const LARGE_BYTES: usize = 16 * LINES * LINE_BYTES;

/// Returns the offset in bytes from the start of a page at which the large array with index `number` begins.
/// Consecutive arrays begin at different lines.
pub(super) fn line_in_page(number: u64) -> usize {
    // 17 is coprime to the number of lines, so every line is used in turn, and consecutive arrays are far apart.
    number as usize * 17 % LINES * LINE_BYTES
}

/// A type-erased vector, whose elements may begin some bytes after its base.
///
/// Invariant: `base` and `layout` describe the allocation of a `Vec` with elements of type `element`. `len` initialised
/// elements begin `skipped_bytes` after `base`, and are aligned there.
#[derive(Debug)]
pub(crate) struct HostBuffer {
    base: *mut u8,
    /// The number of bytes before the first element.
    skipped_bytes: usize,
    len: usize,
    layout: Layout,
    element: TypeId,
}

// SAFETY: the buffer owns plain elements that are `Send` and `Sync`, so it may move to another thread.
unsafe impl Send for HostBuffer {}

impl HostBuffer {
    pub(crate) fn new<T: Element>(vec: Vec<T>) -> Self {
        let mut vec = ManuallyDrop::new(vec);
        let layout = Layout::array::<T>(vec.capacity()).expect("a vector has a layout");
        Self { base: vec.as_mut_ptr().cast(), skipped_bytes: 0, len: vec.len(), layout, element: TypeId::of::<T>() }
    }

    /// Allocates `len` zeros. Buffers larger than a cache line are line-aligned, which allocators do not guarantee.
    /// Large buffers are staggered within their page depending on `number`, because allocators would begin all of them
    /// at the same line, and equal indices of several arrays would then compete for the same cache set. Even larger
    /// buffers request huge pages.
    ///
    /// # Panics
    /// Panics if the size in bytes exceeds the maximum size of an allocation.
    pub(crate) fn zeros<T: Element>(len: usize, number: u64) -> Self {
        Self::try_zeros::<T>(len, number).unwrap_or_else(|| {
            let bytes = size_of::<T>();
            panic!("cannot allocate {len} zeros of {bytes} bytes each: the system has no memory of this size")
        })
    }

    /// Like [`zeros`](Self::zeros), but returns `None` if the system has no memory of this size.
    pub(crate) fn try_zeros<T: Element>(len: usize, number: u64) -> Option<Self> {
        let bytes = size_of::<T>();
        let spare_lines = match len.saturating_mul(bytes) {
            // An alignment larger than a line implies line alignment.
            all if all <= LINE_BYTES || align_of::<T>() > LINE_BYTES => 0,
            all if all < LARGE_BYTES => 1,
            _ => LINES + 1,
        };
        let spare = if spare_lines > 0 { (spare_lines * LINE_BYTES).div_ceil(bytes) } else { 0 };
        let capacity = len.checked_add(spare).filter(|capacity| Layout::array::<T>(*capacity).is_ok());
        let Some(capacity) = capacity else {
            panic!("cannot allocate {len} zeros of {bytes} bytes each: that is more than any memory can hold");
        };
        let mut buffer = Self::new(bytemuck::try_zeroed_vec::<T>(capacity).ok()?);
        buffer.len = len;
        if buffer.layout.size() >= huge::LEAST_BYTES {
            huge::advise(buffer.base, buffer.layout.size());
        }
        if spare_lines > 0 {
            let to_line = buffer.base.addr().next_multiple_of(LINE_BYTES) - buffer.base.addr();
            buffer.skipped_bytes = to_line + if spare_lines > LINES { line_in_page(number) } else { 0 };
        }
        Some(buffer)
    }

    /// Returns the address of the first element.
    pub(super) fn first(&self) -> *mut u8 {
        self.base.wrapping_add(self.skipped_bytes)
    }

    /// Converts the buffer back into a vector; the elements move to the front if bytes were skipped.
    ///
    /// # Panics
    /// Panics if `T` is not the type the buffer was made from.
    pub(crate) fn into_vec<T: Element>(self) -> Vec<T> {
        assert!(self.element == TypeId::of::<T>(), "another element type");
        let parts = ManuallyDrop::new(self);
        let first = parts.base.cast::<T>();
        if parts.skipped_bytes > 0 {
            // SAFETY: by the type's invariant, both addresses are aligned and have room for `len` elements.
            unsafe { std::ptr::copy(parts.first().cast::<T>(), first, parts.len) };
        }
        // An empty allocation holds any number of zero-sized elements.
        let capacity = parts.layout.size().checked_div(size_of::<T>()).unwrap_or(parts.len);
        // SAFETY: these are the parts of a `Vec` of this type, which was taken apart and is reassembled only here.
        unsafe { Vec::from_raw_parts(first, parts.len, capacity) }
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        if self.layout.size() > 0 {
            // SAFETY: `base` is the allocation of a `Vec`, which has this layout. Its elements are `Copy`, so they have
            // no destructors.
            unsafe { dealloc(self.base, self.layout) }
        }
    }
}

/// A registered data object with its home.
///
/// The fields that every submission reads are in the first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct DataCell {
    /// The ID of the runtime that the data object is registered with.
    pub(crate) runtime: u64,
    base: *mut u8,
    pub(crate) datum: Datum,
    home: Mutex<Option<Home>>,
    /// The strides in the host copy, in elements, one per dimension. Elements along the innermost dimension are
    /// adjacent, and no two indices have the same address.
    strides: [usize; MAX_DIMS],
    /// The alignment of elements, which is the same in every memory.
    element_align: usize,
    /// Memory that reductions reuse.
    spares: SparesOf,
}

// SAFETY: the memory at `base` is `Send` and `Sync`, and is accessed only through views, which are sound on any thread
// (rules 1–3 of the module).
unsafe impl Send for DataCell {}
// SAFETY: a shared reference only gives the address of the elements. Views are made from that address only for tasks
// that dependences keep from conflicting.
unsafe impl Sync for DataCell {}

impl DataCell {
    /// Returns the memory that this data object's reductions reuse; phantoms have none.
    pub(super) fn spares(&self) -> Option<&SparesOf> {
        Some(&self.spares).filter(|_| !self.datum.phantom)
    }

    /// Creates a data object whose home is `buffer`, which contains exactly the elements of the shape.
    pub(crate) fn new<T: Element>(runtime: u64, id: DataId, shape: &[usize], buffer: HostBuffer) -> Self {
        let (datum, base) = (Datum::new(id, shape, size_of::<T>(), false), buffer.first());
        let strides = strides_of(datum.shape());
        Self::with_home::<T>(runtime, datum, Some(Home::Array(buffer)), base, strides)
    }

    /// Creates a data object of elements of this size and alignment; `buffer` contains them, or there is no memory.
    #[cfg(feature = "dynamic")]
    pub(crate) fn of_size(
        runtime: u64,
        id: DataId,
        shape: &[usize],
        (element_bytes, element_align): (usize, usize),
        buffer: Option<HostBuffer>,
    ) -> Self {
        let datum = Datum::new(id, shape, element_bytes, buffer.is_none());
        let base = buffer.as_ref().map_or(std::ptr::without_provenance_mut(align_of::<Self>()), HostBuffer::first);
        let strides = strides_of(datum.shape());
        Self { element_align, ..Self::with_home::<u8>(runtime, datum, buffer.map(Home::Array), base, strides) }
    }

    /// Creates a data object whose home is a part of a piece of memory shared with other data objects. The part
    /// contains exactly the elements of the shape.
    pub(crate) fn together<T: Element>(runtime: u64, id: DataId, shape: &[usize], part: Part) -> Self {
        let (datum, base) = (Datum::new(id, shape, size_of::<T>(), false), part.first());
        let strides = strides_of(datum.shape());
        Self::with_home::<T>(runtime, datum, Some(Home::Together(part)), base, strides)
    }

    /// Creates a data object whose home reserves addresses, and gets memory only where it is touched.
    pub(crate) fn reserved<T: Element>(runtime: u64, id: DataId, shape: &[usize]) -> Self {
        let datum = Datum::new(id, shape, size_of::<T>(), false);
        let home = Reserved::new::<T>(shape.iter().product());
        let (first, strides) = (home.first(), strides_of(datum.shape()));
        Self::with_home::<T>(runtime, datum, Some(Home::Reserved(home)), first, strides)
    }

    /// Returns whether the home has memory only where it was touched.
    pub(crate) fn is_reserved(&self) -> bool {
        matches!(*self.home.lock(), Some(Home::Reserved(_) | Home::Adopted(_)))
    }

    /// Returns whether the home is an array of the runtime's own, in memory that it shares with no other data object.
    pub(crate) fn is_own_array(&self) -> bool {
        matches!(*self.home.lock(), Some(Home::Array(_) | Home::Reserved(_)))
    }

    /// Creates a data object whose home was allocated by another library.
    pub(crate) fn foreign(
        runtime: u64,
        id: DataId,
        layout: &TensorLayout,
        (element_bytes, element_align): (usize, usize),
        home: ForeignArray,
    ) -> Self {
        let datum = Datum::new(id, &layout.shape, element_bytes, false);
        let home = Some(Home::Foreign(home));
        Self { element_align, ..Self::with_home::<u8>(runtime, datum, home, layout.first, layout.strides) }
    }

    /// Creates a data object in device memory that was allocated by another library.
    pub(crate) fn adopted(
        runtime: u64,
        id: DataId,
        layout: &TensorLayout,
        (element_bytes, element_align): (usize, usize),
        (space, home): (SpaceId, DeviceArray),
    ) -> Self {
        let mut datum = Datum::new(id, &layout.shape, element_bytes, false);
        datum.set_adopted_in(space);
        let (first, strides) = (home.first(), strides_of(datum.shape()));
        let home = Some(Home::Adopted(home));
        Self { element_align, ..Self::with_home::<u8>(runtime, datum, home, first, strides) }
    }

    /// Creates a data object whose home devices access in place.
    pub(crate) fn unified<T: Element>(runtime: u64, id: DataId, shape: &[usize], home: Unified) -> Self {
        let mut datum = Datum::new(id, shape, size_of::<T>(), false);
        datum.set_unified();
        let (first, strides) = (home.first(), strides_of(datum.shape()));
        Self::with_home::<T>(runtime, datum, Some(Home::Unified(home)), first, strides)
    }

    /// Creates a data object whose home is lent: elements of this type at `base`, with these strides. The home is never
    /// freed, because it is not ours; the data object is dropped when nothing uses it any more (see
    /// [`Lease`](super::Lease)).
    pub(super) fn borrowed<T: Element>(
        runtime: u64,
        id: DataId,
        shape: &[usize],
        base: *mut T,
        strides: [usize; MAX_DIMS],
    ) -> Self {
        let datum = Datum::new(id, shape, size_of::<T>(), false);
        Self::with_home::<T>(runtime, datum, None, base.cast(), strides)
    }

    /// Creates a data object without memory, for simulated programs. Its address is invalid and must not be
    /// dereferenced.
    pub(crate) fn phantom<T: Element>(runtime: u64, id: DataId, shape: &[usize]) -> Self {
        let datum = Datum::new(id, shape, size_of::<T>(), true);
        let base = std::ptr::without_provenance_mut(align_of::<Self>());
        let strides = strides_of(datum.shape());
        Self::with_home::<T>(runtime, datum, None, base, strides)
    }

    /// Creates a data object from a boxed value.
    pub(crate) fn value<T: Send + Sync + 'static>(runtime: u64, id: DataId, value: T) -> Self {
        let value = BoxedValue::new(value);
        let base = value.address();
        let datum = Datum::whole_in(Residence::Home, id);
        Self::with_home::<T>(runtime, datum, Some(Home::Value(value)), base, [1; MAX_DIMS])
    }

    /// Creates a token, which only orders tasks. Its address is invalid and is never dereferenced.
    pub(crate) fn token(runtime: u64, id: DataId) -> Self {
        Self { datum: Datum::whole_in(Residence::Nowhere, id), ..Self::phantom::<()>(runtime, id, &[1]) }
    }

    fn with_home<T>(runtime: u64, datum: Datum, home: Option<Home>, base: *mut u8, strides: [usize; MAX_DIMS]) -> Self {
        let (element_align, spares) = (align_of::<T>(), SparesOf::default());
        Self { runtime, base, datum, home: Mutex::new(home), strides, element_align, spares }
    }

    /// Takes the home out. Called at most once, and never for a data object that has no home or a lent home.
    pub(crate) fn take_home(&self) -> Option<Home> {
        self.home.lock().take()
    }

    /// Returns the strides in the host copy, in elements, one per dimension.
    #[inline]
    pub(crate) fn strides(&self) -> [usize; MAX_DIMS] {
        self.strides
    }

    /// Returns whether the elements of `block` are contiguous in the host copy.
    pub(crate) fn is_contiguous(&self, block: &Block) -> bool {
        is_contiguous(&block.extents(), &self.strides)
    }

    /// Returns the address of the first element of `block` in the host copy.
    #[inline]
    pub(crate) fn address(&self, block: &Block) -> *mut u8 {
        let offset: usize = (0..MAX_DIMS).map(|d| block.lo()[d] * self.strides[d]).sum();
        self.base.wrapping_add(offset * self.datum.element_bytes)
    }

    /// Returns the alignment of elements, which is the same in every memory.
    pub(crate) fn element_align(&self) -> usize {
        self.element_align
    }

    /// Returns the address of element 0.
    #[inline]
    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that buffers with skipped bytes are aligned, large enough, and converted back without loss. Returns the
    /// lines at which they begin.
    fn lines_of<T: Element + PartialEq + std::fmt::Debug>() -> Vec<usize> {
        let len = LARGE_BYTES / size_of::<T>() + 3;
        let mut lines: Vec<usize> = (0..8)
            .map(|number| {
                let buffer = HostBuffer::zeros::<T>(len, number);
                let first = buffer.first().addr();
                let end = buffer.base.addr() + buffer.layout.size();
                assert!(first.is_multiple_of(LINE_BYTES) && first.is_multiple_of(align_of::<T>()));
                assert!(buffer.base.addr() <= first && first + len * size_of::<T>() <= end);
                assert!(buffer.into_vec::<T>() == vec![T::zeroed(); len]);
                first / LINE_BYTES % LINES
            })
            .collect();
        lines.dedup();
        lines
    }

    #[test]
    fn large_zeroed_arrays_begin_at_different_lines_and_convert_back_whole() {
        assert!(lines_of::<f64>().len() > 1);
        assert!(lines_of::<u8>().len() > 1);
        // Elements that are smaller than a line and do not divide it, elements of exactly one line with a smaller
        // alignment, and elements of several lines.
        assert!(lines_of::<[f64; 3]>().len() > 1);
        assert!(lines_of::<[f64; 8]>().len() > 1);
        assert!(lines_of::<[u8; 256]>().len() > 1);
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(C, align(128))]
    struct Aligned([u8; 128]);
    // SAFETY: the type consists of bytes without padding, for which all bit patterns are valid.
    unsafe impl bytemuck::Zeroable for Aligned {}
    // SAFETY: the type consists of bytes without padding, for which all bit patterns are valid.
    unsafe impl bytemuck::Pod for Aligned {}

    #[test]
    fn elements_of_any_size_and_alignment_convert_back() {
        for len in [0, 1, LARGE_BYTES] {
            assert_eq!(HostBuffer::zeros::<()>(len, 5).into_vec::<()>().len(), len);
            let vec = vec![Aligned([7; 128]); len / 1024];
            assert_eq!(HostBuffer::new(vec.clone()).into_vec::<Aligned>(), vec);
        }
        assert!(HostBuffer::zeros::<Aligned>(LARGE_BYTES, 5).first().addr().is_multiple_of(128));
        // Small buffers of more than a line are line-aligned; a buffer of a single line may begin anywhere.
        for len in [65, 100, LARGE_BYTES - 1] {
            let few = HostBuffer::zeros::<u8>(len, 5);
            assert!(few.first().addr().is_multiple_of(LINE_BYTES) && few.skipped_bytes < LINE_BYTES);
            assert_eq!(few.into_vec::<u8>(), vec![0; len]);
        }
        assert_eq!(HostBuffer::zeros::<u8>(LINE_BYTES, 5).layout.size(), LINE_BYTES);
        let mut roomy = Vec::with_capacity(100);
        roomy.extend([1u16, 2, 3]);
        assert_eq!(HostBuffer::new(roomy).into_vec::<u16>(), [1, 2, 3]);
    }

    /// Pages must first be touched by the writing thread, so that they are placed near it. The size exceeds 32 MiB
    /// because C allocators may recycle smaller blocks that are already resident.
    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn large_zeroed_arrays_are_resident_only_where_written() {
        const LEN: usize = 64 << 20;
        let buffer = HostBuffer::zeros::<u8>(LEN, 3);
        let resident = || super::super::reserved::resident_bytes(buffer.first(), LEN);
        assert!(resident() < LEN / 8, "{} bytes", resident());
        // SAFETY: the range is inside the buffer, and the buffer belongs to this test alone.
        unsafe { buffer.first().wrapping_add(LEN / 2).write_bytes(1, LEN / 4) };
        assert!((LEN / 4..LEN / 2).contains(&resident()), "{} bytes", resident());
    }

    #[test]
    fn zeros_of_impossible_size_panic() {
        for len in [usize::MAX, usize::MAX / 8, usize::MAX / 16] {
            let refused = std::panic::catch_unwind(|| HostBuffer::zeros::<u64>(len, 1)).unwrap_err();
            assert!(refused.downcast_ref::<String>().unwrap().contains("more than any memory can hold"));
        }
    }

    #[test]
    #[should_panic(expected = "another element type")]
    fn into_vec_of_other_element_type_panics() {
        HostBuffer::new(vec![1u64]).into_vec::<i64>();
    }
}

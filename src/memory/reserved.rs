//! Homes that consist only of reserved addresses until they are touched; pages then appear one by one, filled with
//! zeros.
//!
//! An allocator may return memory that was used before, in which case it zeroes all pages immediately. The addresses of
//! such a home are therefore requested directly from the system, without a promise that there is memory for all of them
//! (`MAP_NORESERVE`). Data that only devices use thus cost only addresses, and their home gets memory where a task or a
//! copy first writes it on the host.
//!
//! Invariant: `base` and `bytes` describe a mapping that we own, or `bytes` is 0. The elements are inside the mapping
//! and aligned.

use super::Element;
use std::ptr::NonNull;

/// Reserved addresses for an array; see the module documentation.
#[derive(Debug)]
pub(crate) struct Reserved {
    base: *mut u8,
    bytes: usize,
    /// The address of the first element.
    first: *mut u8,
    len: usize,
}

// SAFETY: the home owns plain elements that are `Send` and `Sync`, so it may move to another thread.
unsafe impl Send for Reserved {}

impl Reserved {
    /// Reserves addresses for `len` zeros.
    ///
    /// # Panics
    /// Panics if the system does not have that much address space left for this process.
    pub(crate) fn new<T: Element>(len: usize) -> Self {
        let size = len * size_of::<T>();
        if size == 0 {
            let first: *mut u8 = NonNull::<T>::dangling().as_ptr().cast();
            return Self { base: first, bytes: 0, first, len };
        }
        Self::aligned(size, align_of::<T>(), len)
    }

    /// Reserves addresses for `size` bytes of zeros, which make up `len` elements and start at a multiple of `align`.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub(super) fn aligned(size: usize, align: usize, len: usize) -> Self {
        let bytes = size.saturating_add(align); // page alignment suffices for nearly all types
        let base = system::map(bytes).unwrap_or_else(|| {
            panic!("cannot reserve {bytes} bytes of addresses: the system refuses; try smaller arrays, or a larger `ulimit -v`")
        });
        let first = base.wrapping_add(base.addr().next_multiple_of(align) - base.addr());
        Self { base, bytes, first, len }
    }

    /// Returns the address of the first element.
    pub(crate) fn first(&self) -> *mut u8 {
        self.first
    }

    /// Copies the elements and releases the memory.
    ///
    /// # Panics
    /// Panics if there is no room for the elements of this type.
    pub(crate) fn into_vec<T: Element>(self) -> Vec<T> {
        assert!(self.len * size_of::<T>() <= self.bytes || self.bytes == 0, "another element type");
        // SAFETY: by the type's invariant, the elements are inside a mapping that we own, all of whose bytes can be
        // read, and nothing else uses the mapping any more.
        unsafe { std::slice::from_raw_parts(self.first.cast::<T>(), self.len) }.to_vec()
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: by the type's invariant, we own the mapping, and everything that used it has ended.
            unsafe { system::unmap(self.base, self.bytes) }
        }
    }
}

/// Returns how many of these bytes are resident now, or `bytes` if the system does not report it.
pub(crate) fn resident_bytes(first: *mut u8, bytes: usize) -> usize {
    system::resident_bytes(first, bytes).unwrap_or(bytes)
}

/// Gives the whole pages among these bytes back to the system; their content is undefined afterwards. On systems that
/// cannot do this, nothing happens.
///
/// # Safety
/// The bytes are in private memory of this process, and nothing relies on their content.
pub(crate) unsafe fn free_pages(first: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { system::free_pages(first, bytes) }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    use libc::{MAP_ANONYMOUS, MAP_FAILED, MAP_NORESERVE, MAP_PRIVATE, PROT_READ, PROT_WRITE};
    use std::ptr;

    /// Number of pages that one call reports, so that a home of any size is reported without further memory.
    const PAGES_AT_ONCE: usize = 4096;

    pub(super) fn map(bytes: usize) -> Option<*mut u8> {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        // SAFETY: this creates a new mapping, which does not affect any existing memory of ours.
        let base = unsafe { libc::mmap(ptr::null_mut(), bytes, PROT_READ | PROT_WRITE, flags, -1, 0) };
        (base != MAP_FAILED).then(|| base.cast())
    }

    /// # Safety
    /// `base` and `bytes` describe a mapping made by [`map`] that nothing uses any more.
    pub(super) unsafe fn unmap(base: *mut u8, bytes: usize) {
        // SAFETY: the caller guarantees that the memory comes from `map` and that nothing uses it any more.
        let result = unsafe { libc::munmap(base.cast(), bytes) };
        debug_assert_eq!(result, 0, "a mapping can be unmapped");
    }

    /// # Safety
    /// As for the caller.
    pub(super) unsafe fn free_pages(first: *mut u8, bytes: usize) {
        let Some(page) = page_bytes() else { return };
        let begin = first.addr().next_multiple_of(page);
        let end = (first.addr() + bytes) / page * page;
        if begin < end {
            let begin_at = first.wrapping_add(begin - first.addr());
            // SAFETY: the range consists of whole pages of private memory whose content nothing relies on, by the
            // caller's promise.
            unsafe { libc::madvise(begin_at.cast(), end - begin, libc::MADV_DONTNEED) };
        }
    }

    fn page_bytes() -> Option<usize> {
        // SAFETY: the call only queries a number.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok().filter(|page| *page > 0)
    }

    pub(super) fn resident_bytes(first: *mut u8, bytes: usize) -> Option<usize> {
        let page = page_bytes()?;
        let begin = first.addr() / page * page;
        let (count, base) = ((first.addr() + bytes - begin).div_ceil(page), first.wrapping_sub(first.addr() - begin));
        let (mut states, mut resident) = ([0u8; PAGES_AT_ONCE], 0);
        for index in (0..count).step_by(PAGES_AT_ONCE) {
            let states = &mut states[..PAGES_AT_ONCE.min(count - index)];
            let from = base.wrapping_add(index * page);
            // SAFETY: the slice has one byte for each page, and the call does not touch the memory at the queried
            // addresses.
            let result = unsafe { libc::mincore(from.cast(), states.len() * page, states.as_mut_ptr()) };
            if result != 0 {
                return None;
            }
            resident += states.iter().filter(|state| **state & 1 == 1).count();
        }
        Some(bytes.min(resident * page))
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod system {
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    const PAGE: usize = 4096;

    pub(super) fn map(bytes: usize) -> Option<*mut u8> {
        // SAFETY: the layout's size is not zero.
        let base = unsafe { alloc_zeroed(Layout::from_size_align(bytes, PAGE).ok()?) };
        (!base.is_null()).then_some(base)
    }

    /// # Safety
    /// `base` and `bytes` describe an allocation made by [`map`] that nothing uses any more.
    pub(super) unsafe fn unmap(base: *mut u8, bytes: usize) {
        let layout = Layout::from_size_align(bytes, PAGE).expect("the memory was allocated with this layout");
        // SAFETY: the caller guarantees that the memory comes from `map` and that nothing uses it any more.
        unsafe { dealloc(base, layout) }
    }

    /// # Safety
    /// Has no requirements.
    pub(super) unsafe fn free_pages(_: *mut u8, _: usize) {}

    pub(super) fn resident_bytes(_: *mut u8, _: usize) -> Option<usize> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn pages_become_resident_when_touched() {
        let len = 1 << 22; // more pages than one call reports
        let home = Reserved::new::<u64>(len);
        assert_eq!(resident_bytes(home.first(), 8 * len), 0);
        let middle = home.first().wrapping_add(4 * len);
        // SAFETY: the address is inside the mapping, which only this test uses.
        unsafe { middle.cast::<u64>().write(7) };
        let resident = resident_bytes(home.first(), 8 * len);
        assert!(resident > 0 && resident < 8 * len, "{resident}");
        let all = home.into_vec::<u64>();
        assert_eq!((all.len(), all[len / 2], all.iter().sum::<u64>()), (len, 7, 7));
    }

    #[test]
    fn empty_and_zero_sized_arrays_work() {
        assert!(Reserved::new::<f64>(0).into_vec::<f64>().is_empty());
        assert_eq!(Reserved::new::<()>(5).into_vec::<()>().len(), 5);
        let few = Reserved::new::<u16>(3);
        assert!(few.first().addr().is_multiple_of(2));
        assert_eq!(few.into_vec::<u16>(), [0; 3]);
    }
}

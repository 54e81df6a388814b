//! A home that is made of addresses alone until somebody touches it: pages come one by one, as zeros.
//!
//! What allocators give may be memory that was used before and had to be zeroed, page by page, when it was asked for. This is
//! asked of the system itself, without a promise that there is memory for all of it (`MAP_NORESERVE`): data that only devices
//! use cost addresses, and their home comes into being where it is first written on the host, by a task or a copy.
//!
//! Invariant: `base` and `bytes` are those of a mapping of our own, or `bytes` is 0; the elements lie in it, aligned.

use super::Element;
use std::ptr::NonNull;

/// See the module.
#[derive(Debug)]
pub(crate) struct Reserved {
    base: *mut u8,
    bytes: usize,
    /// Where the first element is.
    first: *mut u8,
    len: usize,
}

// SAFETY: it owns plain elements that are `Send` and `Sync`.
unsafe impl Send for Reserved {}

impl Reserved {
    /// Place for this many zeros.
    ///
    /// # Panics
    /// If the system has not so many addresses left for this process.
    pub(crate) fn new<T: Element>(len: usize) -> Self {
        let size = len * size_of::<T>();
        if size == 0 {
            let first: *mut u8 = NonNull::<T>::dangling().as_ptr().cast();
            return Self { base: first, bytes: 0, first, len };
        }
        Self::aligned(size, align_of::<T>(), len)
    }

    /// Place for `size` bytes of zeros, which are `len` elements, from a multiple of `align` on.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub(super) fn aligned(size: usize, align: usize, len: usize) -> Self {
        let bytes = size.saturating_add(align); // pages are aligned well enough for nearly all
        let base = system::map(bytes).unwrap_or_else(|| {
            panic!("cannot reserve {bytes} bytes of addresses: the system refuses; try smaller arrays, or a larger `ulimit -v`")
        });
        let first = base.wrapping_add(base.addr().next_multiple_of(align) - base.addr());
        Self { base, bytes, first, len }
    }

    /// Where the first element is.
    pub(crate) fn first(&self) -> *mut u8 {
        self.first
    }

    /// A copy of the elements; the memory is given back.
    ///
    /// # Panics
    /// If it has not room for elements of this type.
    pub(crate) fn into_vec<T: Element>(self) -> Vec<T> {
        assert!(self.len * size_of::<T>() <= self.bytes || self.bytes == 0, "another element type");
        // SAFETY: by the type's invariant, and all bytes of a mapping can be read; nobody else uses it any more.
        unsafe { std::slice::from_raw_parts(self.first.cast::<T>(), self.len) }.to_vec()
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: by the type's invariant; what used it has ended.
            unsafe { system::unmap(self.base, self.bytes) }
        }
    }
}

/// How many of these bytes have memory now; all of them where the system does not tell.
pub(crate) fn resident_bytes(first: *mut u8, bytes: usize) -> usize {
    system::resident_bytes(first, bytes).unwrap_or(bytes)
}

#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    use libc::{MAP_ANONYMOUS, MAP_FAILED, MAP_NORESERVE, MAP_PRIVATE, PROT_READ, PROT_WRITE};
    use std::ptr;

    pub(super) fn map(bytes: usize) -> Option<*mut u8> {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        // SAFETY: a new mapping, which touches no memory of ours.
        let base = unsafe { libc::mmap(ptr::null_mut(), bytes, PROT_READ | PROT_WRITE, flags, -1, 0) };
        (base != MAP_FAILED).then(|| base.cast())
    }

    /// # Safety
    /// A mapping of [`map`] that nobody uses any more.
    pub(super) unsafe fn unmap(base: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        let result = unsafe { libc::munmap(base.cast(), bytes) };
        debug_assert_eq!(result, 0, "a mapping can be given back");
    }

    pub(super) fn resident_bytes(first: *mut u8, bytes: usize) -> Option<usize> {
        // SAFETY: asks for a number.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok().filter(|page| *page > 0)?;
        let begin = first.addr() / page * page;
        let mut pages = vec![0u8; (first.addr() + bytes - begin).div_ceil(page)];
        let base = first.wrapping_sub(first.addr() - begin);
        // SAFETY: the vector has a byte for each page; nothing is touched at the addresses asked about.
        let result = unsafe { libc::mincore(base.cast(), pages.len() * page, pages.as_mut_ptr()) };
        let resident = pages.iter().filter(|page| **page & 1 == 1).count();
        (result == 0).then(|| bytes.min(resident * page))
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
    /// What [`map`] has given, and nobody uses any more.
    pub(super) unsafe fn unmap(base: *mut u8, bytes: usize) {
        let layout = Layout::from_size_align(bytes, PAGE).expect("it was allocated with this layout");
        // SAFETY: the caller's promise.
        unsafe { dealloc(base, layout) }
    }

    pub(super) fn resident_bytes(_: *mut u8, _: usize) -> Option<usize> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn memory_comes_page_by_page() {
        let len = 1 << 20;
        let home = Reserved::new::<u64>(len);
        assert_eq!(resident_bytes(home.first(), 8 * len), 0);
        let middle = home.first().wrapping_add(4 * len);
        // SAFETY: inside the mapping, and ours alone.
        unsafe { middle.cast::<u64>().write(7) };
        let resident = resident_bytes(home.first(), 8 * len);
        assert!(resident > 0 && resident < 8 * len, "{resident}");
        let all = home.into_vec::<u64>();
        assert_eq!((all.len(), all[len / 2], all.iter().sum::<u64>()), (len, 7, 7));
    }

    #[test]
    fn no_elements_and_no_bytes_need_nothing() {
        assert!(Reserved::new::<f64>(0).into_vec::<f64>().is_empty());
        assert_eq!(Reserved::new::<()>(5).into_vec::<()>().len(), 5);
        let few = Reserved::new::<u16>(3);
        assert!(few.first().addr().is_multiple_of(2));
        assert_eq!(few.into_vec::<u16>(), [0; 3]);
    }
}

//! Prefetching of memory before it is needed.

/// The size of a cache line on nearly all processors.
const LINE: usize = 64;

/// Hints that the processor should bring all of `value`'s memory to the cache. Has no other effect.
#[inline]
pub(crate) fn prefetch<T>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    for offset in (0..size_of::<T>()).step_by(LINE) {
        prefetch_line(start.wrapping_add(offset));
    }
}

/// Prefetches `lines` cache lines from this address on, but at most 32, because a processor tracks only a limited
/// number of outstanding misses.
#[inline(never)] // keeps its callers short
pub(super) fn prefetch_lines(start: *const u8, lines: usize) {
    const MOST: usize = 32;
    (0..lines.min(MOST)).for_each(|line| prefetch_line(start.wrapping_add(line * LINE)));
}

/// Prefetches the cache line that contains this address.
#[inline]
pub(super) fn prefetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint; it reads no value and cannot fault, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

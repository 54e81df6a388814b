//! Asking for memory before it is needed.

/// The size of a cache line, nearly everywhere.
const LINE: usize = 64;

/// Has all of `value`'s memory brought to the cache, if the processor likes to; has no other effect.
#[inline]
pub(crate) fn prefetch<T>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    for offset in (0..size_of::<T>()).step_by(LINE) {
        prefetch_line(start.wrapping_add(offset));
    }
}

/// As [`prefetch`], of so many lines from this address on; no more than thirty-two, as a processor waits for only so many at a time.
#[inline(never)] // who calls it stays short
pub(super) fn prefetch_lines(start: *const u8, lines: usize) {
    const MOST: usize = 32;
    (0..lines.min(MOST)).for_each(|line| prefetch_line(start.wrapping_add(line * LINE)));
}

/// As [`prefetch`], of the one line that has this address.
#[inline]
pub(super) fn prefetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which reads nothing and cannot fault, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

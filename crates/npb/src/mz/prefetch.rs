//! Asking for memory before it is needed, where a processor does not foresee it: many short pieces far apart.

/// Has the lines of a slice brought to the second cache, if the processor likes to; has no other effect. The first one is
/// left to what is being worked on.
#[inline(always)]
pub(crate) fn prefetch(numbers: &[f64]) {
    /// Numbers of a cache line, nearly everywhere.
    const LINE: usize = 8;
    for line in numbers.chunks(LINE) {
        prefetch_line(line.as_ptr());
    }
    // A slice that does not begin at a line ends in one more.
    if let Some(last) = numbers.last() {
        prefetch_line(last);
    }
}

#[inline(always)]
#[allow(unsafe_code)]
fn prefetch_line(address: *const f64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which reads nothing and cannot fault, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

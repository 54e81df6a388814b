//! Asking for memory before it is needed, where a processor does not foresee it: many short pieces far apart.
//!
//! A core waits for a few tens of lines at most, and stops at whatever asks for one more. So lines are asked for one by one, in
//! between the arithmetic of what lies before them, not all at once.
//!
//! Nor twice: where a vector is less than a line, one of those in it asks ([`asks_for_line`]).

use pulp::Simd;

use super::lanes::MAX_LANES;

/// Whether the vector that begins at the `at`-th number is to ask: of vectors that follow one another, one is for each eight
/// numbers, and so for each line, wherever lines begin.
#[inline(always)]
pub(crate) fn asks_for_line<S: Simd>(at: usize) -> bool {
    const LINE: usize = MAX_LANES;
    S::F64_LANES >= LINE || at % LINE < S::F64_LANES
}

/// Has the line where element `at` of a slice is, or would be, brought to a near cache, if the processor likes to; has no other
/// effect.
#[inline(always)]
pub(crate) fn prefetch<T>(elements: &[T], at: usize) {
    bring::<false, T>(elements, at);
}

/// As [`prefetch`], to the second cache: for what the first one has no room for until it is needed.
#[inline(always)]
pub(crate) fn prefetch_far<T>(elements: &[T], at: usize) {
    bring::<true, T>(elements, at);
}

#[inline(always)]
#[allow(unsafe_code)]
fn bring<const FAR: bool, T>(elements: &[T], at: usize) {
    let address = elements.as_ptr().wrapping_add(at);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which reads nothing and cannot fault, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        if FAR { _mm_prefetch::<_MM_HINT_T1>(address.cast()) } else { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

//! Software prefetching of accesses that a processor does not foresee: many short pieces far apart.
//!
//! A core has a few tens of outstanding cache lines at most, and stalls on a request for one more. So lines are
//! prefetched one by one, in between the arithmetic of earlier data, not all at once.
//!
//! No line is prefetched twice: if a vector is smaller than a line, only one vector in it issues the prefetch
//! ([`asks_for_line`]).

use pulp::Simd;

use super::lanes::MAX_LANES;

/// Returns whether the vector that begins at the `at`-th number issues a prefetch. Among consecutive vectors this
/// is one for every eight numbers, and so one for every line, wherever lines begin.
#[inline(always)]
pub(crate) fn asks_for_line<S: Simd>(at: usize) -> bool {
    const LINE: usize = MAX_LANES;
    S::F64_LANES >= LINE || at % LINE < S::F64_LANES
}

/// Hints that the line of element `at` of a slice, which may be beyond its end, should be brought to a near cache;
/// has no other effect.
#[inline(always)]
pub(crate) fn prefetch<T>(elements: &[T], at: usize) {
    bring::<false, T>(elements, at);
}

/// Does the same as [`prefetch`], but to the second-level cache: for data that the first-level cache could not hold
/// until they are needed.
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

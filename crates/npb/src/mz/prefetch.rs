//! Software prefetching for accesses to many short pieces far apart, which hardware prefetchers do not predict.
//!
//! A core supports at most a few tens of outstanding cache lines, and stalls when it requests one more. So lines
//! are prefetched one by one, interleaved with the arithmetic on earlier data, and not all at once.
//!
//! No line is prefetched twice: if a vector is smaller than a line, only one vector in it issues the prefetch
//! ([`asks_for_line`]).

use pulp::Simd;

use super::lanes::MAX_LANES;

/// Returns whether the vector that begins at index `at` issues a prefetch. Among consecutive vectors, one vector
/// per eight numbers does, and therefore one per line, wherever lines begin.
#[inline(always)]
pub(crate) fn asks_for_line<S: Simd>(at: usize) -> bool {
    const LINE: usize = MAX_LANES;
    S::F64_LANES >= LINE || at % LINE < S::F64_LANES
}

/// Hints that the cache line of element `at` of a slice should be brought to a near cache. The element may be
/// beyond the slice's end. The hint has no other effect.
#[inline(always)]
pub(crate) fn prefetch<T>(elements: &[T], at: usize) {
    bring::<false, T>(elements, at);
}

/// Variant of [`prefetch`] that targets the second-level cache, for data that the first-level cache could not hold
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
    // SAFETY: a prefetch is only a hint. It reads nothing and cannot fault, so it is sound for any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        if FAR { _mm_prefetch::<_MM_HINT_T1>(address.cast()) } else { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

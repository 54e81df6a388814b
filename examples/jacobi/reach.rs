//! Working-set size of a sweep, and how out-of-cache sweeps use prefetching and streaming stores.
//!
//! In the short rows of a block, the hardware prefetcher runs only a line or two ahead, and it stops at page
//! boundaries. An ordinary store first reads the line that it writes to, and this line then takes cache space from rows
//! that will be read again. A sweep over arrays in memory therefore prefetches the rows of its block early enough and
//! uses streaming stores, which bypass the caches. For arrays in a cache, both techniques would cost more than they
//! gain.
//!
//! Neither technique changes the result. Invariant: streaming stores are ordered before [`Past::during`] returns, so
//! that any thread that is notified of the end of a task sees what the task stored.

use std::marker::PhantomData;
use std::slice;
use std::sync::OnceLock;

use pulp::Simd;
use pulp::bytemuck::{cast_slice, cast_slice_mut};

use super::caches::data_caches;

/// Size of a cache line, in bytes.
const LINE: usize = 64;

/// Size assumed for the largest cache if the system reports none.
const USUAL: usize = 32 << 20;

/// Where a sweep finds its arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// In a cache, since the previous sweep.
    Cache,
    /// In memory, because the arrays are too large for any cache.
    Memory,
}

impl Reach {
    /// Returns the reach of arrays with a total size of `bytes`. Half of the largest cache is left for everything else.
    pub(crate) fn of(bytes: usize) -> Self {
        static LARGEST: OnceLock<usize> = OnceLock::new();
        let largest = LARGEST.get_or_init(|| data_caches().iter().map(|cache| cache.bytes).max().unwrap_or(USUAL));
        if bytes > largest / 2 { Self::Memory } else { Self::Cache }
    }
}

/// A cache level of a core.
#[derive(Clone, Copy)]
pub(crate) enum Near {
    First,
    Second,
}

/// Prefetches the cache line where element `at` of a row is, or would be if the row were longer. This is only a hint
/// and has no other effect.
#[inline(always)]
#[allow(unsafe_code)]
pub(crate) fn ask(row: &[f64], at: usize, to: Near) {
    let address = row.as_ptr().wrapping_add(at);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is only a hint, which reads nothing and cannot fault, so any address is allowed.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        match to {
            Near::First => _mm_prefetch::<_MM_HINT_T0>(address.cast()),
            Near::Second => _mm_prefetch::<_MM_HINT_T1>(address.cast()),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (address, to);
}

/// Streaming stores into rows that nothing else can access before [`Past::during`] returns.
pub(crate) struct Past<'r>(PhantomData<&'r mut [f64]>);

impl<'r> Past<'r> {
    /// Runs `store`, which may use streaming stores. Any later access to the rows sees what it stored, even after a
    /// panic.
    #[inline(always)]
    pub(crate) fn during(store: impl FnOnce(&Self)) {
        // The guard stays in this function, because a caller could leak it with `mem::forget`.
        let past = Self(PhantomData);
        store(&past);
    }

    /// Splits a row into the numbers before the first whole cache line, vectors, and a remainder shorter than a
    /// vector.
    #[inline(always)]
    pub(crate) fn split<S: Simd>(&self, row: &'r mut [f64]) -> (&'r mut [f64], PastVectors<'r, S>, &'r mut [f64]) {
        let before = row.as_ptr().align_offset(LINE).min(row.len());
        let (before, rest) = row.split_at_mut(before);
        let (vectors, after) = S::as_mut_simd_f64s(rest);
        (before, PastVectors(vectors), after)
    }
}

impl Drop for Past<'_> {
    #[inline(always)]
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: SSE is part of x86-64.
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
    }
}

/// Vectors that begin at a cache line, to be written by streaming stores.
pub(crate) struct PastVectors<'r, S: Simd>(&'r mut [S::f64s]);

impl<S: Simd> PastVectors<'_, S> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Stores vector `at`.
    ///
    /// # Panics
    /// If `at` is not less than [`len`](Self::len).
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn set(&mut self, at: usize, vector: S::f64s) {
        let place = &mut self.0[at];
        #[cfg(target_arch = "x86_64")]
        if S::F64_LANES.is_multiple_of(2) {
            use std::arch::x86_64::{_mm_set_pd, _mm_stream_pd};

            let vector = [vector];
            let from: &[f64] = cast_slice(&vector);
            let to: &mut [f64] = cast_slice_mut(slice::from_mut(place));
            for lane in (0..S::F64_LANES).step_by(2) {
                let [first, second] = [from[lane], from[lane + 1]];
                // SAFETY: SSE2 is part of x86-64. The target is a pair of numbers inside a vector with an even number
                // of lanes. Its address is a multiple of sixteen bytes, because the first vector begins at a cache
                // line. The numbers are borrowed exclusively until `Past::during` returns, which orders the stores.
                unsafe { _mm_stream_pd(&raw mut to[lane], _mm_set_pd(second, first)) }
            }
            return;
        }
        *place = vector;
    }
}

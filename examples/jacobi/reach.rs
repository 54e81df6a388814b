//! How far away a sweep's arrays are, and what a sweep over arrays that no cache holds asks of the memory.
//!
//! A processor foresees a line or two of the short rows of a block, and stops at the end of a page; and a store reads the line
//! that it writes to, which then takes the room in the caches of what is read again. So such a sweep asks for rows of the block
//! in time, and stores past the caches. From a cache both would cost more than they bring.
//!
//! Neither changes what is computed. Invariant: what was stored past the caches is in order before [`Past::during`] returns, so
//! that whoever is told of the end of a task finds what it stored.

use std::marker::PhantomData;
use std::slice;
use std::sync::OnceLock;

use pulp::Simd;
use pulp::bytemuck::{cast_slice, cast_slice_mut};

use super::caches::data_caches;

/// What a cache brings at once, in bytes.
const LINE: usize = 64;

/// The largest cache, where the system does not tell.
const USUAL: usize = 32 << 20;

/// Where a sweep finds its arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// In a cache, since the sweep before.
    Cache,
    /// In memory: there are too many.
    Memory,
}

impl Reach {
    /// That of arrays which have so many bytes together. Half of the largest cache is for what else there is.
    pub(crate) fn of(bytes: usize) -> Self {
        static LARGEST: OnceLock<usize> = OnceLock::new();
        let largest = LARGEST.get_or_init(|| data_caches().iter().map(|cache| cache.bytes).max().unwrap_or(USUAL));
        if bytes > largest / 2 { Self::Memory } else { Self::Cache }
    }
}

/// A cache of a core.
#[derive(Clone, Copy)]
pub(crate) enum Near {
    First,
    Second,
}

/// Has the line where element `at` of a row is, or would be, brought to a cache, if the processor likes to; has no other effect.
#[inline(always)]
#[allow(unsafe_code)]
pub(crate) fn ask(row: &[f64], at: usize, to: Near) {
    let address = row.as_ptr().wrapping_add(at);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which reads nothing and cannot fault, whatever the address.
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

/// Stores past the caches into rows that nobody else has before [`Past::during`] returns.
pub(crate) struct Past<'r>(PhantomData<&'r mut [f64]>);

impl<'r> Past<'r> {
    /// Has something stored past the caches. Whoever gets the rows then finds what was stored, also after a panic.
    #[inline(always)]
    pub(crate) fn during(store: impl FnOnce(&Self)) {
        // A value of the caller's could be forgotten.
        let past = Self(PhantomData);
        store(&past);
    }

    /// A row in three parts: numbers before the first line that is all its own, vectors, and numbers that are no vector.
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

/// Vectors that begin at a line, to be stored past the caches.
pub(crate) struct PastVectors<'r, S: Simd>(&'r mut [S::f64s]);

impl<S: Simd> PastVectors<'_, S> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Stores a vector.
    ///
    /// # Panics
    /// If there are not so many.
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
                // SAFETY: SSE2 is part of x86-64. These are two numbers, of an even number of lanes, at a multiple of sixteen
                // bytes, since the first vector begins at a line. They are borrowed until `Past::during` returns, which
                // puts them in order.
                unsafe { _mm_stream_pd(&raw mut to[lane], _mm_set_pd(second, first)) }
            }
            return;
        }
        *place = vector;
    }
}

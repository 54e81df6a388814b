//! The triad a = b + s·c of STREAM (McCalpin, "Memory bandwidth and machine balance in current high performance
//! computers", IEEE TCCA Newsletter, 1995), over arrays of a given size.

use std::hint::black_box;

use pulp::{Arch, Simd, WithSimd};

use super::memory::Numbers;
use crate::crew::Crew;

/// Bytes counted per element, for two numbers read and one written.
const BYTES: usize = 3 * size_of::<f64>();

/// Returns the bandwidth of all threads together in bytes per second. Each thread uses three arrays with a total size
/// of `bytes`. With `past_caches`, it uses streaming stores if the processor has them; these do not bring the written
/// lines into the cache.
pub(super) fn rate(crew: &Crew, bytes: usize, past_caches: bool, quick: bool) -> f64 {
    let len = (bytes / BYTES).max(64);
    let at_once = if quick { 1 << 16 } else { 1 << 26 };
    let (times, passes) = (if quick { 2 } else { 7 }, (at_once / (len * BYTES)).max(1));
    let prepare = || [1.0f64, 2.0, 3.0].map(|value| Numbers::new(len, value));
    let seconds = crew.time(times, prepare, |arrays| {
        let [a, b, c] = arrays.each_mut().map(Numbers::slice_mut);
        for _ in 0..passes {
            let (b, c) = (black_box(&*b), black_box(&*c));
            if past_caches { stream(a, b, c) } else { Arch::new().dispatch(Triad { a: black_box(&mut *a), b, c }) }
        }
    });
    (passes * len * BYTES * crew.units()) as f64 / seconds
}

struct Triad<'a> {
    a: &'a mut [f64],
    b: &'a [f64],
    c: &'a [f64],
}

impl WithSimd for Triad<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let factor = simd.splat_f64s(3.0);
        let ((a, rest), (b, _), (c, _)) =
            (S::as_mut_simd_f64s(self.a), S::as_simd_f64s(self.b), S::as_simd_f64s(self.c));
        for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
            *a = simd.mul_add_e_f64s(factor, *c, *b);
        }
        let end = self.b.len() - rest.len();
        for ((a, b), c) in rest.iter_mut().zip(&self.b[end..]).zip(&self.c[end..]) {
            *a = b + 3.0 * c;
        }
    }
}

/// The triad with streaming stores.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
fn stream(a: &mut [f64], b: &[f64], c: &[f64]) {
    use std::arch::x86_64::{_mm_set_pd, _mm_sfence, _mm_stream_pd};

    assert!(a.as_ptr().addr().is_multiple_of(16), "streaming stores are of sixteen bytes");
    let (pairs, _) = a.as_chunks_mut::<2>();
    for ((a, b), c) in pairs.iter_mut().zip(b.as_chunks::<2>().0).zip(c.as_chunks::<2>().0) {
        // SAFETY: SSE2 is part of x86-64. `a` is an exclusive borrow of two numbers. Its address is a multiple of
        // sixteen bytes, because that of the first pair is and every pair has sixteen bytes.
        unsafe { _mm_stream_pd(a.as_mut_ptr(), _mm_set_pd(b[1] + 3.0 * c[1], b[0] + 3.0 * c[0])) }
    }
    // SAFETY: SSE is part of x86-64. After the fence, any later read of `a`, on any core, sees the stores.
    unsafe { _mm_sfence() }
}

#[cfg(not(target_arch = "x86_64"))]
fn stream(a: &mut [f64], b: &[f64], c: &[f64]) {
    Arch::new().dispatch(Triad { a, b, c });
}

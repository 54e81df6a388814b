//! Fused multiply-adds per second with the widest vectors. The sums are in registers, and there are more of them than a
//! multiply-add takes cycles. A second variant also stores vectors, because some processors use the same pipes for
//! stores.

use std::hint::black_box;

use pulp::{Arch, Simd, WithSimd};

use crate::crew::Crew;

/// Number of independent sums. Together with the two factors, they fit into sixteen registers.
const SUMS: usize = 12;

/// Returns how many numbers fit into a vector.
pub(super) fn lanes() -> usize {
    Arch::new().dispatch(Lanes)
}

/// Returns the operations per second of all threads together. With `STORING`, a vector is stored for every two
/// multiply-adds.
pub(super) fn peak<const STORING: bool>(crew: &Crew, quick: bool) -> f64 {
    let (times, rounds) = if quick { (2, 10_000) } else { (9, 2_000_000) };
    let pass = |(): &mut ()| {
        black_box(Arch::new().dispatch(MultiplyAdds::<STORING> { rounds }));
    };
    let seconds = crew.time(times, || (), pass);
    (2 * SUMS * lanes() * rounds * crew.units()) as f64 / seconds
}

struct Lanes;

impl WithSimd for Lanes {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        S::F64_LANES
    }
}

struct MultiplyAdds<const STORING: bool> {
    rounds: usize,
}

impl<const STORING: bool> WithSimd for MultiplyAdds<STORING> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        // The sums converge to 2, so no number ever overflows or becomes denormal.
        let (factor, summand) = (simd.splat_f64s(black_box(0.5)), simd.splat_f64s(black_box(1.0)));
        let mut sums = [simd.splat_f64s(black_box(0.0)); SUMS];
        for _ in 0..self.rounds {
            for sum in &mut sums {
                *sum = simd.mul_add_e_f64s(*sum, factor, summand);
            }
            if STORING {
                black_box(&mut [factor; SUMS / 2]);
            }
        }
        let mut total = simd.splat_f64s(0.0);
        for sum in sums {
            total = simd.add_f64s(total, sum);
        }
        simd.reduce_sum_f64s(total)
    }
}

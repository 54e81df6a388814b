//! Fused multiply-adds per second: sums in registers, more of them than one takes cycles, in the widest vectors.

use std::hint::black_box;

use pulp::{Arch, Simd, WithSimd};

use crate::crew::Crew;

/// Sums that do not wait for one another. With two factors they fit into sixteen registers.
const SUMS: usize = 12;

/// Operations per second of all threads together, and the numbers of a vector.
pub(super) fn peak(crew: &Crew, quick: bool) -> (f64, usize) {
    let (times, rounds) = if quick { (2, 10_000) } else { (9, 2_000_000) };
    let pass = |(): &mut ()| {
        black_box(Arch::new().dispatch(MultiplyAdds { rounds }));
    };
    let seconds = crew.time(times, || (), pass);
    let lanes = Arch::new().dispatch(Lanes);
    ((2 * SUMS * lanes * rounds * crew.units()) as f64 / seconds, lanes)
}

struct Lanes;

impl WithSimd for Lanes {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        S::F64_LANES
    }
}

struct MultiplyAdds {
    rounds: usize,
}

impl WithSimd for MultiplyAdds {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        // They tend to 2: no number is ever too small or too large.
        let (factor, summand) = (simd.splat_f64s(black_box(0.5)), simd.splat_f64s(black_box(1.0)));
        let mut sums = [simd.splat_f64s(black_box(0.0)); SUMS];
        for _ in 0..self.rounds {
            for sum in &mut sums {
                *sum = simd.mul_add_e_f64s(*sum, factor, summand);
            }
        }
        let mut total = simd.splat_f64s(0.0);
        for sum in sums {
            total = simd.add_f64s(total, sum);
        }
        simd.reduce_sum_f64s(total)
    }
}

//! Fused multiply-adds per second: sums in registers, more of them than one takes cycles, in the widest vectors. And the same
//! beside stores, for which some processors use the same pipes.

use std::hint::black_box;

use pulp::{Arch, Simd, WithSimd};

use crate::crew::Crew;

/// Sums that do not wait for one another. With two factors they fit into sixteen registers.
const SUMS: usize = 12;

/// Numbers of a vector.
pub(super) fn lanes() -> usize {
    Arch::new().dispatch(Lanes)
}

/// Operations per second of all threads together; `STORING`: with a vector stored for every two multiply-adds.
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
        // They tend to 2: no number is ever too small or too large.
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

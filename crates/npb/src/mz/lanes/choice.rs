//! A choice between what is in memory and what is to be there.

use std::hint::black_box;

use pulp::Simd;

use super::Lane;

/// Which lanes of a vector in memory become others.
///
/// To choose between what was loaded and something else, and to store it where it was loaded: a compiler that sees this makes it a masked
/// store, which without AVX-512 takes 6.1 cycles on Zen 3, where to load, choose and store takes 1.6. So this is arithmetic, with bits
/// that the compiler knows nothing of.
#[derive(Clone, Copy, Debug)]
pub struct Choice<S: Simd> {
    simd: S,
    /// All bits of the lanes that change.
    changing: S::f64s,
}

impl<S: Simd> Choice<S> {
    /// The lanes of `changing`.
    #[inline(always)]
    pub fn new(simd: S, changing: S::m64s) -> Self {
        let [all, none] = [u64::MAX, 0].map(
            #[inline(always)]
            |bits| simd.splat_f64s(f64::from_bits(bits)),
        );
        Self { simd, changing: black_box(simd.select_f64s(changing, all, none)) }
    }

    /// The chosen lanes of `new`, the others of `old`.
    #[inline(always)]
    pub fn of(self, new: Lane<S>, old: Lane<S>) -> Lane<S> {
        let changes = self.simd.and_f64s(self.changing, self.simd.xor_f64s(old.value(), new.value()));
        Lane::new(self.simd, self.simd.xor_f64s(old.value(), changes))
    }
}

//! A vector of numbers that supports the operators of a single number.

use std::ops::{Add, Div, Mul, Neg, Range, Sub};

use pulp::Simd;

use super::native::{self, is_avx512};
use super::splats;

/// One number per lane.
#[derive(Clone, Copy, Debug)]
pub struct Lane<S: Simd> {
    pub(super) simd: S,
    pub(super) value: S::f64s,
}

impl<S: Simd> Lane<S> {
    /// Wraps a vector.
    #[inline(always)]
    pub(crate) fn new(simd: S, value: S::f64s) -> Self {
        Self { simd, value }
    }

    /// Returns the same number in every lane.
    #[inline(always)]
    pub fn splat(simd: S, value: f64) -> Self {
        Self { simd, value: simd.splat_f64s(value) }
    }

    /// Loads numbers starting at index `at`, one per lane.
    ///
    /// # Panics
    /// Panics if fewer numbers than lanes follow.
    #[inline(always)]
    pub fn load(simd: S, from: &[f64], at: usize) -> Self {
        Self { simd, value: S::as_simd_f64s(&from[at..at + S::F64_LANES]).0[0] }
    }

    /// Stores the lanes starting at index `at`.
    ///
    /// # Panics
    /// Panics if `to` has no room for all lanes there.
    #[inline(always)]
    pub fn store(self, to: &mut [f64], at: usize) {
        S::as_mut_simd_f64s(&mut to[at..at + S::F64_LANES]).0[0] = self.value;
    }

    /// Loads numbers starting at index `at`. If there are fewer numbers than lanes, the remaining lanes are zero.
    ///
    /// # Panics
    /// Panics if `at` is beyond the end.
    #[inline(always)]
    pub fn load_some(simd: S, from: &[f64], at: usize) -> Self {
        let from = &from[at..];
        if from.len() >= S::F64_LANES {
            Self::load(simd, from, 0)
        } else {
            Self { simd, value: simd.partial_load_f64s(from) }
        }
    }

    /// Returns this vector with the first `count` lanes replaced by those of `other`.
    #[inline(always)]
    pub(crate) fn with_first(self, count: usize, other: Self) -> Self {
        let first = self.simd.mask_between_m64s(0, count as u64).mask();
        Self { value: self.simd.select_f64s(first, other.value, self.value), ..self }
    }

    /// Variant of [`Lane::with_first`] for a `count` known at compile time, which needs no mask.
    #[inline(always)]
    pub(crate) fn joined(self, count: usize, other: Self) -> Self {
        native::joined(self, count, other).unwrap_or_else(
            #[inline(always)]
            || self.with_first(count, other),
        )
    }

    /// Stores the lanes starting at index `at`, or as many of them as fit.
    ///
    /// # Panics
    /// Panics if `at` is beyond the end.
    #[inline(always)]
    pub fn store_some(self, to: &mut [f64], at: usize) {
        let to = &mut to[at..];
        if to.len() >= S::F64_LANES {
            self.store(to, 0);
        } else {
            self.simd.partial_store_f64s(to, self.value);
        }
    }

    /// Stores the lanes starting at index `at`, but only those whose index is in `range`.
    ///
    /// # Panics
    /// Panics if `to` has no room for all lanes.
    #[inline(always)]
    pub fn store_within(self, to: &mut [f64], at: usize, range: &Range<usize>) {
        if range.start <= at && at + S::F64_LANES <= range.end {
            return self.store(to, at);
        }
        let Some(within) = self.within(at, range) else { return };
        let old = Self::load(self.simd, to, at);
        Self { value: self.simd.select_f64s(within, self.value, old.value), ..self }.store(to, at);
    }

    /// Returns the lanes whose index is in `range`, if the first lane has index `at`; `None` if there are no such
    /// lanes.
    #[inline(always)]
    fn within(self, at: usize, range: &Range<usize>) -> Option<S::m64s> {
        let [first, end] = [range.start, range.end].map(
            #[inline(always)]
            |place| place.saturating_sub(at).min(S::F64_LANES) as u64,
        );
        (first < end).then(
            #[inline(always)]
            || self.simd.mask_between_m64s(first, end).mask(),
        )
    }

    /// Returns the middle one of three adjacent vectors shifted to start two lanes earlier, one earlier, one later,
    /// and two later; `None` if the processor cannot do this without going through memory.
    #[inline(always)]
    pub fn sides(neighbours: [Self; 3]) -> Option<[Self; 4]> {
        native::sides(neighbours)
    }

    /// Moves each lane's number to the next lane, and the last lane's number to the first lane. On AVX2, `pulp`'s
    /// rotation by an arbitrary distance takes ten instructions; this one takes a single instruction.
    #[inline(always)]
    pub fn up(self) -> Self {
        match native::moved(self, true) {
            Some(moved) => moved,
            None => Self { value: self.simd.rotate_right_f64s(self.value, 1), ..self },
        }
    }

    /// Moves each lane's number to the previous lane, and the first lane's number to the last lane.
    #[inline(always)]
    pub fn down(self) -> Self {
        match native::moved(self, false) {
            Some(moved) => moved,
            None => Self { value: self.simd.rotate_left_f64s(self.value, 1), ..self },
        }
    }

    /// Returns the vector that starts one lane earlier; `before` is the vector that precedes this one in memory.
    #[inline(always)]
    pub fn one_before(self, before: Self) -> Self {
        if let Some([_, one, _, _]) = native::sides([before, self, self]) {
            return one;
        }
        self.up().joined(1, before.up())
    }

    /// Returns the vector that starts one lane later; `after` is the vector that follows this one in memory.
    #[inline(always)]
    pub fn one_after(self, after: Self) -> Self {
        if let Some([_, _, one, _]) = native::sides([self, self, after]) {
            return one;
        }
        after.down().joined(S::F64_LANES - 1, self.down())
    }

    /// Returns the instruction set.
    #[inline(always)]
    pub(crate) fn simd(self) -> S {
        self.simd
    }

    /// Returns the lanes as a vector.
    #[inline(always)]
    pub fn value(self) -> S::f64s {
        self.value
    }

    /// Returns the number in the first lane.
    #[inline(always)]
    pub(crate) fn first(self) -> f64 {
        bytemuck::cast_slice::<S::f64s, f64>(&[self.value])[0]
    }

    /// Computes `self * factor + summand`, rounded once if the processor can.
    #[inline(always)]
    pub(crate) fn mul_add(self, factor: Self, summand: Self) -> Self {
        Self { value: self.simd.mul_add_e_f64s(self.value, factor.value, summand.value), ..self }
    }

    /// Computes `minuend - self * factor`, rounded once if the processor can.
    #[inline(always)]
    pub(crate) fn mul_sub_from(self, factor: Self, minuend: Self) -> Self {
        Self { value: self.simd.negate_mul_add_e_f64s(self.value, factor.value, minuend.value), ..self }
    }

    /// Computes 1 / self. With AVX-512, this uses Newton's method starting from an estimate, which takes an eighth
    /// of the time of a division. The result may be off by one or two units in the last place, and is NaN if self
    /// is 0, infinite or subnormal.
    #[inline(always)]
    pub fn recip(self) -> Self {
        let one = Self::splat(self.simd, 1.0);
        match native::reciprocal(self) {
            // With x = (1 − e)/d: 1/d = x / (1 − e) = x (1 + e)(1 + e²)(1 + e⁴) …, and e < 2⁻¹⁴.
            Some(x) => {
                let e = self.mul_sub_from(x, one);
                let better = e.mul_add(x, x);
                (e * e).mul_add(better, better)
            }
            None => self.exact_recip(),
        }
    }

    /// Computes 1 / self, correctly rounded, so that the result is the same at every width. BT needs this because,
    /// in narrow zones, its separate stages use other vector widths than its fused step, and both must agree to the
    /// last bit.
    #[inline(always)]
    pub(crate) fn exact_recip(self) -> Self {
        Self { value: self.simd.div_f64s(self.simd.splat_f64s(1.0), self.value), ..self }
    }

    /// Computes 1 / √self with the same accuracy as [`Lane::recip`].
    #[inline(always)]
    pub fn recip_sqrt(self) -> Self {
        let [one, half, second, third] = splats(self.simd, [1.0, 1.0 / 2.0, 3.0 / 8.0, 5.0 / 16.0]);
        match native::reciprocal_root(self) {
            // With x² = (1 − e)/d: 1/√d = x (1 − e)^(−½) = x (1 + e/2 + 3e²/8 + 5e³/16 + …), and e < 2⁻¹³.
            Some(x) => {
                let e = (self * x).mul_sub_from(x, one);
                (e * x).mul_add(e.mul_add(e.mul_add(third, second), half), x)
            }
            None => self.sqrt().recip(),
        }
    }

    /// Computes √self.
    #[inline(always)]
    pub(crate) fn sqrt(self) -> Self {
        Self { value: self.simd.sqrt_f64s(self.value), ..self }
    }
}

impl<S: Simd> Add for Lane<S> {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self { value: self.simd.add_f64s(self.value, other.value), ..self }
    }
}

impl<S: Simd> Sub for Lane<S> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self { value: self.simd.sub_f64s(self.value, other.value), ..self }
    }
}

impl<S: Simd> Mul for Lane<S> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self { value: self.simd.mul_f64s(self.value, other.value), ..self }
    }
}

/// Division with the accuracy of [`Lane::recip`].
impl<S: Simd> Div for Lane<S> {
    type Output = Self;
    #[expect(clippy::suspicious_arithmetic_impl, reason = "a quotient is a product with a reciprocal")]
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        if is_avx512::<S>() {
            return self * other.recip();
        }
        Self { value: self.simd.div_f64s(self.value, other.value), ..self }
    }
}

impl<S: Simd> Neg for Lane<S> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self { value: self.simd.neg_f64s(self.value), ..self }
    }
}

//! The pseudo-random numbers of the NAS Parallel Benchmarks.
//!
//! Source: NASA report RNR-94-007, section 2.3: xₖ₊₁ = 5¹³ xₖ mod 2⁴⁶, the number is 2⁻⁴⁶ xₖ₊₁.
//! The arithmetic is exact in integers, so the sequence is the same on every machine.

/// The linear congruential generator, at NPB's seed.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    const SEED: u64 = 314_159_265;
    const MULTIPLIER: u64 = 1_220_703_125; // 5¹³
    const MODULUS: u64 = 1 << 46;

    /// The generator before its first number.
    pub(crate) fn new() -> Self {
        Self(Self::SEED)
    }

    /// The next number, in the open interval from 0 to 1.
    pub(crate) fn draw(&mut self) -> f64 {
        // Wrapping at 2⁶⁴ is exact modulo 2⁴⁶.
        self.0 = self.0.wrapping_mul(Self::MULTIPLIER) % Self::MODULUS;
        self.0 as f64 / Self::MODULUS as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the recurrence in arithmetic that cannot overflow.
    #[test]
    fn the_sequence_is_the_specified_one() {
        let mut random = Random::new();
        let mut state = 314_159_265_u128;
        for _ in 0..10_000 {
            state = state * 5_u128.pow(13) % (1 << 46);
            assert_eq!(random.draw(), state as f64 / 2_f64.powi(46));
        }
    }
}

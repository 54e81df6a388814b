//! The pseudo-random numbers of the NAS Parallel Benchmarks.
//!
//! Source: NASA report RNR-94-007, section 2.3: xₖ₊₁ = 5¹³ xₖ mod 2⁴⁶, the number is 2⁻⁴⁶ xₖ₊₁.
//! The arithmetic is exact in integers, so the sequence is the same on every machine.

/// The linear congruential generator, at NPB's seed.
#[derive(Debug)]
pub struct Random(u64);

impl Default for Random {
    /// The generator before its first number.
    fn default() -> Self {
        Self(Self::SEED)
    }
}

impl Random {
    const SEED: u64 = 314_159_265;
    const MULTIPLIER: u64 = 1_220_703_125; // 5¹³
    const MODULUS: u64 = 1 << 46;

    /// Returns the next number, in the open interval from 0 to 1.
    pub fn draw(&mut self) -> f64 {
        // Wrapping at 2⁶⁴ is exact modulo 2⁴⁶.
        self.0 = self.0.wrapping_mul(Self::MULTIPLIER) % Self::MODULUS;
        self.0 as f64 / Self::MODULUS as f64
    }
}

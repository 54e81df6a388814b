//! The pseudo-random numbers of the NAS Parallel Benchmarks.
//!
//! Source: NASA report RNR-94-007, section 2.3: xₖ₊₁ = 5¹³ xₖ mod 2⁴⁶, the number is 2⁻⁴⁶ xₖ₊₁. The integer
//! arithmetic is exact, so the sequence is the same on every machine.

/// A linear congruential generator that starts with NPB's seed.
#[derive(Debug)]
pub struct Random(u64);

impl Default for Random {
    /// Returns the generator in its initial state.
    fn default() -> Self {
        Self(Self::SEED)
    }
}

impl Random {
    const SEED: u64 = 314_159_265;
    const MULTIPLIER: u64 = 1_220_703_125; // 5¹³
    const MODULUS: u64 = 1 << 46;

    /// Returns the next number, in the open interval (0, 1).
    pub fn draw(&mut self) -> f64 {
        // Wrapping at 2⁶⁴ does not affect the result modulo 2⁴⁶.
        self.0 = self.0.wrapping_mul(Self::MULTIPLIER) % Self::MODULUS;
        self.0 as f64 / Self::MODULUS as f64
    }
}

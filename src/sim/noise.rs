//! Seeded noise: the factor by which a task's time differs from its mean.
//!
//! A task's noise depends only on the seed and the task's ID, not on when or where the task runs. So two schedulers
//! that are compared see the same tasks, and the order of events cannot change the noise. The generator uses only
//! integer arithmetic and additions, so the same seed gives the same bits on every machine. This is also why no
//! library's generator is used: its streams may change between versions.

/// The mixing function of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Noise with a given seed and strength.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Noise {
    pub(crate) seed: u64,
    /// Standard deviation of a task's time, relative to its mean.
    pub(crate) relative_deviation: f64,
}

impl Noise {
    /// Returns the factor for a task's mean time: approximately normally distributed around 1, and never below 0.05.
    ///
    /// The sum of twelve uniform numbers has variance 1 (Irwin and Hall) and stays within six standard deviations.
    pub(crate) fn factor(&self, task: u64) -> f64 {
        if self.relative_deviation == 0.0 {
            return 1.0;
        }
        let stream = mix(self.seed ^ mix(task.wrapping_add(0x9e37_79b9_7f4a_7c15)));
        let uniform = |n: u64| (mix(stream.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))) >> 11) as f64;
        let sum: f64 = (1..=12).map(uniform).sum::<f64>() / (1u64 << 53) as f64;
        (1.0 + self.relative_deviation * (sum - 6.0)).max(0.05)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_has_the_requested_mean_and_deviation_and_depends_on_seed_and_task() {
        let noise = Noise { seed: 7, relative_deviation: 0.1 };
        let factors: Vec<f64> = (0..20_000).map(|task| noise.factor(task)).collect();
        let mean = factors.iter().sum::<f64>() / 20_000.0;
        let deviation = (factors.iter().map(|f| (f - mean).powi(2)).sum::<f64>() / 20_000.0).sqrt();
        assert!((mean - 1.0).abs() < 3e-3 && (deviation - 0.1).abs() < 3e-3, "{mean} {deviation}");
        assert_eq!(noise.factor(5), factors[5]);
        assert_ne!(Noise { seed: 8, ..noise }.factor(5), factors[5]);
        assert_eq!(Noise { relative_deviation: 0.0, ..noise }.factor(5), 1.0);
    }
}

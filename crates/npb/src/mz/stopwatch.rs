//! Stopwatch that measures the time per stage.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

/// Time spent in the stages of a step.
#[derive(Clone, Debug, Default)]
pub struct Stopwatch(pub BTreeMap<&'static str, f64>);

impl Stopwatch {
    /// Adds time to a stage.
    pub fn add(&mut self, stage: &'static str, time: Duration) {
        *self.0.entry(stage).or_default() += time.as_secs_f64();
    }
}

impl AddAssign<&Stopwatch> for Stopwatch {
    /// Adds another stopwatch's times, stage by stage.
    fn add_assign(&mut self, other: &Self) {
        for (stage, seconds) in &other.0 {
            *self.0.entry(stage).or_default() += seconds;
        }
    }
}

impl fmt::Display for Stopwatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: f64 = self.0.values().sum();
        for (stage, seconds) in &self.0 {
            writeln!(f, "{stage:<10} {seconds:>8.4} s {:>5.1} %", 100.0 * seconds / total)?;
        }
        Ok(())
    }
}

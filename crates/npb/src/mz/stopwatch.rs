//! Time per stage.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

/// Time spent in the stages of a step.
#[derive(Clone, Debug, Default)]
pub struct Stopwatch(pub BTreeMap<&'static str, f64>);

impl Stopwatch {
    /// Does the work of a stage, and adds the time it took.
    pub fn time(&mut self, stage: &'static str, work: impl FnOnce()) {
        let start = Instant::now();
        work();
        self.add(stage, start.elapsed());
    }

    /// Adds time to a stage.
    pub fn add(&mut self, stage: &'static str, time: Duration) {
        *self.0.entry(stage).or_default() += time.as_secs_f64();
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

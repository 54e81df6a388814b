//! METG(50%): the smallest average granularity of a task at which half the peak rate is reached.
//!
//! Definition: Slaughter et al., "Task Bench" (SC20), section IV: efficiency is the achieved rate of floating-point
//! operations over the peak; granularity is wall time × workers / tasks. Kernels grow until the efficiency passes
//! one half; between two sizes it is interpolated linearly in the logarithm of the granularity.

use serde::{Deserialize, Serialize};

use crate::kernel::FLOPS;

/// Efficiency that METG(50%) requires.
const ASKED: f64 = 0.5;
/// Efficiency at which a sweep ends. It is more than METG(50%) requires, because the peak may turn out to be higher
/// than assumed.
pub(crate) const ENOUGH: f64 = 0.6;
/// First kernel size of a sweep, in iterations. Each following size is twice as large.
pub(crate) const FIRST: u64 = 4;
/// Largest kernel size of a sweep, about 300 µs per task.
pub(crate) const LAST: u64 = 1 << 17;
/// Number of passes per kernel size, of which the fastest counts.
pub(crate) const PASSES: usize = 2;

/// A kernel size and the fastest pass over the grid with kernels of this size.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Sample {
    pub(crate) iterations: u64,
    pub(crate) seconds: f64,
}

/// A contender's sweep over kernel sizes, which its process prints as JSON.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Sweep {
    pub(crate) tasks: usize,
    pub(crate) samples: Vec<Sample>,
}

impl Sweep {
    /// Returns operations per second.
    pub(crate) fn rate(&self, sample: Sample) -> f64 {
        FLOPS * sample.iterations as f64 * self.tasks as f64 / sample.seconds
    }

    /// Returns the highest rate of the sweep, in operations per second.
    pub(crate) fn best_rate(&self) -> f64 {
        self.samples.iter().map(|&sample| self.rate(sample)).fold(0.0, f64::max)
    }

    /// Returns METG(50%) in microseconds; `None` if half of `peak` was never reached.
    pub(crate) fn metg_us(&self, workers: usize, peak: f64) -> Option<f64> {
        let points = self.samples.iter().map(|&sample| {
            let granularity = sample.seconds * workers as f64 / self.tasks as f64 * 1e6;
            (granularity, self.rate(sample) / peak)
        });
        let mut below: Option<(f64, f64)> = None;
        for (granularity, efficiency) in points {
            if efficiency < ASKED {
                below = Some((granularity, efficiency));
                continue;
            }
            let Some((lower, poorer)) = below else {
                return Some(granularity);
            };
            let share = (ASKED - poorer) / (efficiency - poorer);
            return Some(lower * (granularity / lower).powf(share));
        }
        None
    }
}

//! The problems of the bench, their sizes, and the contenders that solve them.

use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::harness::build::{LIBGOMP, LIBOMP};
use crate::{cholesky, histogram, idle, service, smith_waterman};

/// Name of the runtime that this bench measures against the others.
pub(crate) const THALWEG: &str = "thalweg";
/// Name of the contender with a work-stealing pool and hand-written parallelism.
pub(crate) const RAYON: &str = "rayon";
/// Name of the plain loop on one core.
pub(crate) const PLAIN: &str = "plain loop";

/// Answer that a contender's process prints as JSON.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Answer {
    /// Time of the fastest pass in seconds; for idle, the number of busy cores.
    pub(crate) figure: f64,
    /// A number that is the same for all contenders if their results are right.
    pub(crate) check: f64,
}

/// A program to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Problem {
    /// A local alignment that keeps the whole score table, in tiles of 32 by 32 that take about 5 µs each.
    #[value(name = "smith_waterman")]
    SmithWaterman,
    /// The same alignment, but only the borders of tiles are kept.
    #[value(name = "smith_waterman_strips")]
    Strips,
    /// A histogram with 2^18 bins, computed with `reduction`.
    Histogram,
    /// The same histogram, computed with `accumulate`.
    #[value(name = "histogram_accumulate")]
    Accumulated,
    /// A Cholesky factorization in tiles of 256 by 256.
    Cholesky,
    /// Small graphs of five tasks each. Eight threads submit them, each thread one graph after another.
    Service,
    /// Futures that wait, during which no core should be busy.
    Idle,
}

impl Problem {
    /// Returns the problem's name on the command line, in tables and in JSON files.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::SmithWaterman => "smith_waterman",
            Self::Strips => "smith_waterman_strips",
            Self::Histogram => "histogram",
            Self::Accumulated => "histogram_accumulate",
            Self::Cholesky => "cholesky",
            Self::Service => "service",
            Self::Idle => "idle",
        }
    }

    /// Returns the problem size: the number of letters, numbers to count, rows, requests, or milliseconds.
    pub(crate) const fn size(self) -> usize {
        match self {
            Self::SmithWaterman | Self::Strips => 4096,
            Self::Histogram | Self::Accumulated => 1 << 24,
            Self::Cholesky => 4096,
            Self::Service | Self::Idle => 1000,
        }
    }

    /// Returns the problem size in a smoke test.
    pub(crate) const fn smoke_size(self) -> usize {
        match self {
            Self::SmithWaterman | Self::Strips => 200,
            Self::Histogram | Self::Accumulated => 1 << 18,
            Self::Cholesky => 600,
            Self::Service | Self::Idle => 20,
        }
    }

    /// Returns whether `contender` solves this problem.
    pub(crate) fn offers(self, contender: &str) -> bool {
        match self {
            Self::SmithWaterman => [THALWEG, PLAIN].contains(&contender),
            Self::Strips | Self::Histogram | Self::Accumulated | Self::Service => {
                [THALWEG, RAYON, PLAIN].contains(&contender)
            }
            Self::Cholesky => [THALWEG, RAYON, PLAIN, LIBGOMP, LIBOMP].contains(&contender),
            Self::Idle => contender == THALWEG,
        }
    }

    /// Solves the problem with the contender `name` in this process.
    ///
    /// # Errors
    /// If the name is unknown, or the runtime fails.
    pub(crate) fn run(self, name: &str, size: usize, workers: usize, passes: usize) -> Result<Answer, Box<dyn Error>> {
        if !self.offers(name) {
            return Err(format!("no contender {name:?} in this program").into());
        }
        match self {
            Self::SmithWaterman => smith_waterman::table(name, size, workers, passes),
            Self::Strips => smith_waterman::strips(name, size, workers, passes),
            Self::Histogram | Self::Accumulated => {
                histogram::run(name, self == Self::Accumulated, size, workers, passes)
            }
            Self::Cholesky => cholesky::run(name, size, workers, passes),
            Self::Service => service::run(name, size, workers, passes),
            Self::Idle => idle::run(size, workers),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the fastest of `passes` passes, after a warm-up pass. Each pass returns the time of its measured part and
/// its check value.
pub(crate) fn fastest(
    passes: usize,
    mut pass: impl FnMut() -> Result<(Duration, f64), Box<dyn Error>>,
) -> Result<Answer, Box<dyn Error>> {
    let (mut least, mut check) = pass()?;
    for _ in 0..passes {
        let elapsed;
        (elapsed, check) = pass()?;
        least = least.min(elapsed);
    }
    Ok(Answer { figure: least.as_secs_f64(), check })
}

/// Runs `code` and returns the elapsed time and the result.
pub(crate) fn timed<R>(code: impl FnOnce() -> R) -> (Duration, R) {
    let start = Instant::now();
    let result = code();
    (start.elapsed(), result)
}

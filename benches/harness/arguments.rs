//! Command-line arguments common to the benches.
//!
//! Cargo passes `--bench` to every bench under `cargo bench`, and nothing under `cargo test --benches`. Without the
//! flag, a bench does only enough work to prove that it runs.

use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Arguments common to the benches.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Common {
    /// Write the rows to FILE as a JSON array
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Run only these contenders, separated by commas [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) contender: Vec<String>,

    /// Worker counts to run with, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', default_values = ["1", "2"])]
    pub(crate) workers: Vec<NonZeroUsize>,

    /// Number of repetitions; each runs every contender once [default: 5]
    #[arg(long, value_name = "N")]
    pub(crate) repetitions: Option<NonZeroUsize>,

    /// Passed by `cargo bench`; without it the default sizes are those of a smoke test
    #[arg(long, hide = true)]
    bench: bool,
}

impl Common {
    /// Returns the default for a size: `full` under `cargo bench`, `smoke` otherwise.
    pub(crate) fn default_size(&self, full: usize, smoke: usize) -> usize {
        if self.bench { full } else { smoke }
    }

    /// Returns how many times every contender runs a case.
    pub(crate) fn repetitions(&self) -> usize {
        self.repetitions.map_or_else(|| self.default_size(5, 1), NonZeroUsize::get)
    }
}

//! The configurations that the article evaluates (figures 10, 12 and 14 to 16), and the schedulers.
//!
//! BT-MZ and SP-MZ run on N CPU units of one core. LU-MZ, which has only 16 zones, runs on one unit of N cores. Each
//! runs without a GPU, with one and with two. Each GPU needs a core that drives it, so 63 or 62 of 64 cores are left
//! for CPU units. PCFs are those of the article's table 4, from `published.toml`.

use std::fmt;

use npb::mz::Benchmark;

use crate::published::Published;

/// Cores of the configurations.
const CORES: [usize; 4] = [16, 32, 48, 64];

/// The schedulers of the article, then those of this project, then the others; charts show the first [`CHARTED`].
pub(crate) const SCHEDULERS: [&str; 16] = [
    "static",
    "dynamic",
    "static-pcf",
    "guided-runtime",
    "clustered-guided",
    "adjacency",
    "certified",
    "certified:team=auto",
    "eft",
    "pcf-static",
    "pcf-guided",
    "guided-sizes",
    "stealing",
    "priority",
    "clustered-guided:literal",
    "pcf-guided:literal",
];

/// The article's own schedulers.
pub(crate) const ARTICLES: &[&str] = SCHEDULERS.split_at(5).0;

/// The schedulers of the summary: the article's, and the best of ours.
pub(crate) const SUMMARIZED: [&str; 6] =
    ["static", "dynamic", "static-pcf", "guided-runtime", "clustered-guided", "certified:team=auto"];

/// Schedulers that never settle on a fixed map. They do not improve after a few steps.
pub(crate) const ONLINE: [&str; 3] = ["eft", "stealing", "priority"];
/// Number of steps that is enough for the schedulers in [`ONLINE`].
const ENOUGH: usize = 8;

/// Number of schedulers that a chart has room for.
pub(crate) const CHARTED: usize = 9;

/// A number of cores and of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Configuration {
    pub(crate) benchmark: Benchmark,
    /// Number of cores as counted in the article, including the cores that drive GPUs; 0 for GPUs alone.
    pub(crate) cores: usize,
    pub(crate) gpus: usize,
}

impl Configuration {
    /// Returns one core, the baseline of all speed-ups.
    pub(crate) fn serial(benchmark: Benchmark) -> Self {
        Self { benchmark, cores: 1, gpus: 0 }
    }

    /// Returns the same GPUs without CPU units.
    pub(crate) fn gpus_alone(self) -> Self {
        Self { cores: 0, ..self }
    }

    /// Returns all configurations of a benchmark: first one core and GPUs alone, then the others by GPUs and cores.
    pub(crate) fn all(benchmark: Benchmark) -> Vec<Self> {
        let alone = [(1, 0), (0, 1), (0, 2)];
        let others = (0..=2).flat_map(|gpus| CORES.map(|cores| (cores, gpus)));
        alone.into_iter().chain(others).map(|(cores, gpus)| Self { benchmark, cores, gpus }).collect()
    }

    /// Returns the hybrid configurations of the summary: those with the fewest and the most cores.
    pub(crate) fn summarized(benchmark: Benchmark) -> impl Iterator<Item = Self> {
        let hybrid = |configuration: &Self| configuration.gpus > 0 && [16, 64].contains(&configuration.cores);
        Self::all(benchmark).into_iter().filter(hybrid)
    }

    /// Returns the benchmark and the configuration, as the summary names them.
    pub(crate) fn title(self) -> String {
        format!("{}-MZ {self}", format!("{:?}", self.benchmark).to_uppercase())
    }

    /// Returns the configurations that this machine can run, with emulated devices as GPUs.
    pub(crate) fn on_this_machine(benchmark: Benchmark) -> Vec<Self> {
        let most = std::thread::available_parallelism().map_or(1, usize::from);
        let alone = [(1, 0), (0, 1), (0, 2)];
        let others = [(most, 0), (most, 1), (most, 2)].into_iter().filter(|&(cores, gpus)| cores > 1 || gpus > 0);
        alone.into_iter().chain(others).map(|(cores, gpus)| Self { benchmark, cores, gpus }).collect()
    }

    /// Returns whether a scheduler has any choice: more than one unit.
    pub(crate) fn has_choice(self) -> bool {
        self.cpu_units().0 + self.gpus > 1
    }

    /// Returns the number of CPU units, and the number of cores of each.
    pub(crate) fn cpu_units(self) -> (usize, usize) {
        let cores = if self.cores == 64 { 64 - self.gpus } else { self.cores };
        match self.benchmark {
            _ if cores == 0 => (0, 1),
            Benchmark::Lu => (1, cores),
            Benchmark::Bt | Benchmark::Sp => (cores, 1),
        }
    }

    /// Returns the units in the runtime's notation.
    pub(crate) fn units(self) -> String {
        let (units, cores) = self.cpu_units();
        let cpu = format!("{units}:CPU:{cores}");
        let gpu = format!("{}:GPU:1", self.gpus);
        match (self.cores, self.gpus) {
            (_, 0) => cpu,
            (0, _) => gpu,
            _ => format!("{cpu},{gpu}"),
        }
    }

    /// Returns a scheduler's name with its parameters for this configuration.
    pub(crate) fn scheduler(self, name: &str) -> String {
        let column = CORES.iter().position(|&cores| cores == self.cores);
        let pcf = column.and_then(|column| Some(Published::get().pcf.get(&self.benchmark)?.values[column]));
        let pcf = pcf.filter(|_| self.gpus > 0).unwrap_or(1.0);
        match name {
            "static-pcf" | "pcf-static" | "pcf-guided" => format!("{name}:pcf={pcf}"),
            "pcf-guided:literal" => format!("{name},pcf={pcf}"),
            _ => name.to_owned(),
        }
    }

    /// Returns how many of `most` steps a scheduler may take to settle.
    pub(crate) fn steps(name: &str, most: usize) -> usize {
        if ONLINE.contains(&name) { most.min(ENOUGH) } else { most }
    }
}

impl fmt::Display for Configuration {
    /// Formats the configuration as in the figures: `32x1+2` stands for 32 one-core units and two GPUs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.benchmark, self.cores) {
            (_, 0) => write!(f, "{} GPU", self.gpus),
            (Benchmark::Lu, cores) => write!(f, "1x{cores}+{}", self.gpus),
            (Benchmark::Bt | Benchmark::Sp, cores) => write!(f, "{cores}x1+{}", self.gpus),
        }
    }
}

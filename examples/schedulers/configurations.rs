//! The configurations that the article evaluates (figures 10, 12 and 14 to 16), and the schedulers.
//!
//! BT-MZ and SP-MZ run on N CPU units of one core, LU-MZ, which has 16 zones only, on one unit of N cores; each alone,
//! with one GPU and with two. With GPUs a core per GPU leads it, so of 64 cores 63 or 62 are left. PCFs are those of
//! the article's table 4, from `published.toml`.

use std::fmt;

use npb::mz::Benchmark;

use crate::published::Published;

/// Cores of the configurations.
const CORES: [usize; 4] = [16, 32, 48, 64];

/// The schedulers of the article, then those of this project, then the others; charts have the first [`CHARTED`].
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

/// The article's own.
pub(crate) const ARTICLES: &[&str] = SCHEDULERS.split_at(5).0;

/// Schedulers that settle on no map: what they do from step to step is as good as it gets after a few.
const ONLINE: [&str; 3] = ["eft", "stealing", "priority"];
/// So many.
const ENOUGH: usize = 8;

/// How many schedulers a chart has room for.
pub(crate) const CHARTED: usize = 9;

/// A number of cores and of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Configuration {
    pub(crate) benchmark: Benchmark,
    /// As the article counts them, those that lead GPUs included; 0: GPUs alone.
    pub(crate) cores: usize,
    pub(crate) gpus: usize,
}

impl Configuration {
    /// One core, which all speed-ups are over.
    pub(crate) fn serial(benchmark: Benchmark) -> Self {
        Self { benchmark, cores: 1, gpus: 0 }
    }

    /// GPUs without CPU units.
    pub(crate) fn gpus_alone(self) -> Self {
        Self { cores: 0, ..self }
    }

    /// All configurations of a benchmark: first one core and GPUs alone, then the others by GPUs and cores.
    pub(crate) fn all(benchmark: Benchmark) -> Vec<Self> {
        let alone = [(1, 0), (0, 1), (0, 2)];
        let others = (0..=2).flat_map(|gpus| CORES.map(|cores| (cores, gpus)));
        alone.into_iter().chain(others).map(|(cores, gpus)| Self { benchmark, cores, gpus }).collect()
    }

    /// What this machine can run, with emulated devices as GPUs.
    pub(crate) fn on_this_machine(benchmark: Benchmark) -> Vec<Self> {
        let most = std::thread::available_parallelism().map_or(1, usize::from);
        let alone = [(1, 0), (0, 1), (0, 2)];
        let others = [(most, 0), (most, 1), (most, 2)].into_iter().filter(|&(cores, gpus)| cores > 1 || gpus > 0);
        alone.into_iter().chain(others).map(|(cores, gpus)| Self { benchmark, cores, gpus }).collect()
    }

    /// Whether there is a choice for a scheduler at all: more than one unit.
    pub(crate) fn has_choice(self) -> bool {
        self.cpu_units().0 + self.gpus > 1
    }

    /// How many CPU units there are, and of how many cores each.
    pub(crate) fn cpu_units(self) -> (usize, usize) {
        let cores = if self.cores == 64 { 64 - self.gpus } else { self.cores };
        match self.benchmark {
            _ if cores == 0 => (0, 1),
            Benchmark::Lu => (1, cores),
            Benchmark::Bt | Benchmark::Sp => (cores, 1),
        }
    }

    /// What the units are, for the runtime.
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

    /// A scheduler's name with its parameters for this configuration.
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

    /// How many of `most` steps a scheduler may take to settle.
    pub(crate) fn steps(name: &str, most: usize) -> usize {
        if ONLINE.contains(&name) { most.min(ENOUGH) } else { most }
    }
}

impl fmt::Display for Configuration {
    /// As in the figures: `32x1+2` is 32 units of one core and two GPUs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.benchmark, self.cores) {
            (_, 0) => write!(f, "{} GPU", self.gpus),
            (Benchmark::Lu, cores) => write!(f, "1x{cores}+{}", self.gpus),
            (Benchmark::Bt | Benchmark::Sp, cores) => write!(f, "{cores}x1+{}", self.gpus),
        }
    }
}

//! The configurations that the article evaluates (figures 10, 12 and 14 to 16), and the schedulers.
//!
//! BT-MZ and SP-MZ run on N CPU units of one core, LU-MZ, which has 16 zones only, on one unit of N cores; each alone,
//! with one GPU and with two. With GPUs a core per GPU leads it, so of 64 cores 63 or 62 are left. PCFs are those of
//! the article's table 4.

use std::fmt;

use npb::mz::Benchmark;

/// Cores of the configurations.
const CORES: [usize; 4] = [16, 32, 48, 64];

/// The article's table 4, for as many cores.
const PCF: [(Benchmark, [f64; 4]); 3] = [
    (Benchmark::Sp, [10.89, 13.62, 22.52, 44.03]),
    (Benchmark::Bt, [21.91, 23.41, 29.66, 34.69]),
    (Benchmark::Lu, [6.74, 2.55, 2.30, 2.16]),
];

/// The schedulers of the article, then those of this project, then the others; charts have the first [`CHARTED`].
pub(crate) const SCHEDULERS: [&str; 12] = [
    "static",
    "dynamic",
    "static-pcf",
    "guided-runtime",
    "clustered-guided",
    "adjacency",
    "eft",
    "pcf-static",
    "pcf-guided",
    "guided-sizes",
    "stealing",
    "priority",
];

/// How many schedulers a chart has room for.
pub(crate) const CHARTED: usize = 7;

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

    /// Whether CPU units and GPUs work together.
    pub(crate) fn is_hybrid(self) -> bool {
        self.cores > 0 && self.gpus > 0
    }

    /// Whether there is a choice for a scheduler at all: more than one unit.
    pub(crate) fn has_choice(self) -> bool {
        let cpu_units = if self.benchmark == Benchmark::Lu { self.cores.min(1) } else { self.cores };
        cpu_units + self.gpus > 1
    }

    /// What the units are, for the runtime.
    pub(crate) fn units(self) -> String {
        let cores = if self.cores == 64 { 64 - self.gpus } else { self.cores };
        let cpu = match self.benchmark {
            Benchmark::Lu => format!("1:CPU:{cores}"),
            Benchmark::Bt | Benchmark::Sp => format!("{cores}:CPU:1"),
        };
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
        let row = PCF.iter().find(|(benchmark, _)| *benchmark == self.benchmark);
        match (name, column, row) {
            ("static-pcf" | "pcf-static" | "pcf-guided", Some(column), Some((_, pcf))) if self.gpus > 0 => {
                format!("{name}:pcf={}", pcf[column])
            }
            ("static-pcf" | "pcf-static" | "pcf-guided", ..) => format!("{name}:pcf=1"),
            _ => name.to_owned(),
        }
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

//! Upper bound on the speed-up over one core that any distribution can reach on a simulated machine.
//!
//! Let a zone of work *w* take *w·c·s(m)* on a CPU unit while *m* of them are busy, and *w·d* on a GPU. Then for
//! every assignment, however many units are idle:
//! - *Balance.* At every moment the CPU units together do at most *θ = max over m ≤ n of m / (c·s(m))*, and a GPU 1/d.
//!   Therefore, the total work W takes at least *W / (θ + g/d)*. The maximum over m matters: if more busy units do less
//!   work together (SP-MZ beyond 32), θ exceeds the rate of all units at full load, and that rate would not give a
//!   valid bound.
//! - *Granularity.* Zones are not divided, so some unit has the largest one. If zones are equal, a GPU finishes a
//!   whole number of them in time T, the CPU units at most n·⌊T/c⌋ and θ·T together, and these numbers must add up.
//!
//! The bound holds for mean times. With noise of 2 % per task, a measured mean can exceed the bound, but by less than 2
//! %.

use std::collections::BTreeMap;
use std::path::Path;

use npb::mz::{Benchmark, Class};
use serde::Deserialize;

use crate::common::Result;
use crate::configurations::Configuration;

/// The parts of a machine file that the bound depends on.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Machine {
    units: BTreeMap<String, Units>,
    #[serde(default)]
    links: Vec<Link>,
    tasks: Vec<Times>,
}

#[derive(Clone, Debug, Deserialize)]
struct Link {
    bytes_per_s: f64,
}

#[derive(Clone, Debug, Deserialize)]
struct Units {
    #[serde(default)]
    launch_ns: f64,
    bytes_per_s: f64,
    total_bytes_per_s: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
struct Times {
    name: String,
    cost: Option<f64>,
    time_ns: BTreeMap<String, BTreeMap<String, f64>>,
    #[serde(default)]
    speed_up: BTreeMap<String, f64>,
}

impl Machine {
    /// Reads a machine file.
    pub(crate) fn from_file(path: &Path) -> Result<Self> {
        Ok(toml::from_str(&std::fs::read_to_string(path)?)?)
    }

    /// Returns the time of one byte on the machine's first link.
    pub(crate) fn byte_ns(&self) -> f64 {
        self.links.first().map_or(0.0, |link| 1e9 / link.bytes_per_s)
    }

    /// Returns the bound for a configuration; `None` if the file has no times for the benchmark.
    pub(crate) fn bound(&self, configuration: Configuration, class: Class) -> Option<f64> {
        let (serial, least) =
            self.zones_ns(configuration.benchmark, class, configuration.cpu_units(), configuration.gpus)?;
        Some(serial / least)
    }

    /// Returns the time of a benchmark's step on one core, and the least time on `units` CPU units of `cores` cores
    /// and `gpus` GPUs, in nanoseconds.
    pub(crate) fn zones_ns(
        &self,
        benchmark: Benchmark,
        class: Class,
        (units, cores): (usize, usize),
        gpus: usize,
    ) -> Option<(f64, f64)> {
        let name = format!("{benchmark:?} *").to_lowercase();
        let times = self.tasks.iter().find(|times| times.name == name)?;
        let problem = benchmark.problem(class);
        let work: Vec<f64> = problem.meshes(benchmark).iter().map(|mesh| benchmark.operations(mesh.shape)).collect();
        let launch = |kind: &str| self.units.get(kind).map_or(0.0, |units| units.launch_ns);
        let (cpu, gpu) = (curve(times.time_ns.get("CPU")?), curve(times.time_ns.get("GPU")?));
        let cost = times.cost?;
        let inner = match cores {
            1 => 1.0,
            cores if times.speed_up.is_empty() => cores as f64,
            cores => at(&curve(&times.speed_up), cores as f64),
        };
        let alone = (at(&cpu, cores as f64) / inner, launch("CPU"));
        let slowdown = |busy: usize| at(&cpu, (busy * cores) as f64) / at(&cpu, cores as f64);
        let problem = Problem {
            work: &work,
            cost,
            cpu: alone,
            most: (1..=units).map(|busy| busy as f64 / slowdown(busy)).fold(0.0, f64::max),
            units,
            gpu: (at(&gpu, 1.0), launch("GPU")),
            gpus,
        };
        let serial: f64 = work.iter().map(|work| problem.takes((at(&cpu, 1.0), launch("CPU")), *work)).sum();
        Some((serial, problem.least_ns()))
    }

    /// Returns the times of a task on a CPU core and on a GPU of an idle machine, infinite if it does not run
    /// there; and the largest factor by which `cores` cores do more than one.
    pub(crate) fn task_ns(&self, name: &str, cost: f64, bytes: f64, cores: usize) -> ([f64; 2], f64) {
        let fits = |times: &&Times| match times.name.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => times.name == name,
        };
        let entry = self.tasks.iter().find(fits);
        let of = |kind: &str| {
            let Some(units) = self.units.get(kind) else { return f64::INFINITY };
            let work_ns = match entry {
                None => bytes / units.bytes_per_s * 1e9,
                Some(times) => match times.time_ns.get(kind) {
                    None => f64::INFINITY,
                    Some(points) => at(&curve(points), 1.0) * times.cost.map_or(1.0, |of| cost / of),
                },
            };
            units.launch_ns + work_ns
        };
        let slowdown = |busy: usize| match (entry, self.units.get("CPU")) {
            (Some(times), _) => {
                times.time_ns.get("CPU").map_or(1.0, |points| at(&curve(points), busy as f64) / at(&curve(points), 1.0))
            }
            (None, Some(Units { bytes_per_s, total_bytes_per_s: Some(total), .. })) => {
                (busy as f64 * bytes_per_s / total).max(1.0)
            }
            (None, _) => 1.0,
        };
        let most = (1..=cores).map(|busy| busy as f64 / slowdown(busy)).fold(0.0, f64::max);
        (["CPU", "GPU"].map(of), most)
    }
}

/// Zones and units. Each kind of unit has a time for a zone of `cost`, and one for its launch.
struct Problem<'a> {
    work: &'a [f64],
    cost: f64,
    cpu: (f64, f64),
    /// The highest combined rate of all CPU units, as a multiple of the rate of a single unit.
    most: f64,
    units: usize,
    gpu: (f64, f64),
    gpus: usize,
}

impl Problem<'_> {
    fn takes(&self, (ns, launch): (f64, f64), work: f64) -> f64 {
        ns * work / self.cost + launch
    }

    /// Returns the least time for all zones.
    fn least_ns(&self) -> f64 {
        let sum = |kind| self.work.iter().map(|work| self.takes(kind, *work)).sum::<f64>();
        let rate = self.most / sum(self.cpu) + self.gpus as f64 / sum(self.gpu);
        let balance = 1.0 / rate;
        let largest = self.work.iter().copied().fold(0.0, f64::max);
        let on_cpu = if self.units > 0 { self.takes(self.cpu, largest) } else { f64::INFINITY };
        let on_gpu = if self.gpus > 0 { self.takes(self.gpu, largest) } else { f64::INFINITY };
        let least = balance.max(on_cpu.min(on_gpu));
        let smallest = self.work.iter().copied().fold(f64::INFINITY, f64::min);
        if smallest < largest * (1.0 - 1e-9) { least } else { least.max(self.equal_zones_ns(on_cpu, on_gpu)) }
    }

    /// Returns the least time in which whole zones add up.
    fn equal_zones_ns(&self, on_cpu: f64, on_gpu: f64) -> f64 {
        let whole = |ns: f64, of: f64| if of.is_finite() { (ns / of + 1e-9).floor() } else { 0.0 };
        let done = |ns: f64| {
            let by_gpus = self.gpus as f64 * whole(ns, on_gpu);
            by_gpus + whole(ns * self.most, on_cpu).min(self.units as f64 * whole(ns, on_cpu))
        };
        let (mut low, mut high) = (0.0, self.work.len() as f64 * on_cpu.min(on_gpu));
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if done(middle) >= self.work.len() as f64 { high = middle } else { low = middle }
        }
        high
    }
}

/// Returns the points in ascending order.
fn curve(points: &BTreeMap<String, f64>) -> Vec<(f64, f64)> {
    let mut curve: Vec<(f64, f64)> =
        points.iter().filter_map(|(count, value)| Some((count.parse().ok()?, *value))).collect();
    curve.sort_by(|one, other| one.0.total_cmp(&other.0));
    curve
}

/// Interpolates linearly between points; constant before the first and after the last.
fn at(curve: &[(f64, f64)], count: f64) -> f64 {
    let above = curve.partition_point(|point| point.0 <= count);
    match (above.checked_sub(1).map(|below| curve[below]), curve.get(above)) {
        (Some((x, y)), Some((to_x, to_y))) => y + (to_y - y) * (count - x) / (to_x - x),
        (Some((_, y)), None) => y,
        (None, Some((_, y))) => *y,
        (None, None) => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem<'a>(work: &'a [f64], most: f64, units: usize, gpus: usize) -> Problem<'a> {
        Problem { work, cost: 1.0, cpu: (10.0, 0.0), most, units, gpu: (2.0, 0.0), gpus }
    }

    #[test]
    fn balance_assumes_the_best_number_of_busy_units() {
        // Work that is almost divisible, on four units that together do as much as three.
        let work = [0.001; 8000];
        assert!((problem(&work, 3.0, 4, 0).least_ns() - 80.0 / 3.0).abs() < 0.01);
        assert!((problem(&work, 3.0, 4, 1).least_ns() - 8.0 / (0.3 + 0.5)).abs() < 0.01);
    }

    #[test]
    fn equal_zones_are_not_divided() {
        // Seven zones: in 10, a GPU finishes five and a CPU unit one.
        assert!((problem(&[1.0; 7], 1.0, 1, 1).least_ns() - 12.0).abs() < 1e-6, "six and one");
        assert!((problem(&[1.0; 7], 2.0, 2, 1).least_ns() - 10.0).abs() < 1e-6, "five and two");
        assert!((problem(&[1.0; 5], 2.0, 2, 0).least_ns() - 30.0).abs() < 1e-6, "three and two");
        // One zone is most of the work.
        assert!((problem(&[9.0, 1.0], 2.0, 2, 0).least_ns() - 90.0).abs() < 1e-6);
    }

    #[test]
    fn curves_interpolate_as_the_simulation_does() {
        let points = vec![(1.0, 10.0), (16.0, 25.0)];
        assert_eq!([0.0, 1.0, 6.0, 16.0, 40.0].map(|count| at(&points, count)), [10.0, 10.0, 15.0, 25.0, 25.0]);
    }
}

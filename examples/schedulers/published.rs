//! The article's figures, from `published.toml`, compared with those found here.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use npb::mz::Benchmark;
use serde::Deserialize;

use crate::configurations::ARTICLES;
use crate::evaluation::{Period, Row};

/// All of the article's figures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Published {
    /// Table 4.
    pub(crate) pcf: BTreeMap<Benchmark, Factors>,
    /// Table 3.
    #[cfg_attr(not(test), expect(dead_code, reason = "the tests compare machine files with it"))]
    pub(crate) task_ms: BTreeMap<Benchmark, TaskTimes>,
    pub(crate) range: Vec<Range>,
}

/// PCFs for 16, 32, 48 and 64 cores.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Factors {
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers, and the tests"))]
    pub(crate) place: String,
    pub(crate) values: [f64; 4],
}

/// Milliseconds on a GPU, and with 1, 16, 32, 48 and 64 cores.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(test), expect(dead_code, reason = "the tests compare machine files with it"))]
pub(crate) struct TaskTimes {
    pub(crate) place: String,
    pub(crate) gpu: f64,
    pub(crate) cpu: [f64; 5],
}

/// The lowest and the highest of several speed-ups, or one of the two.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Range {
    pub(crate) place: String,
    benchmark: Benchmark,
    scheduler: String,
    period: Period,
    gpus: Vec<usize>,
    #[serde(default = "all_cores")]
    cores: Vec<usize>,
    #[serde(default)]
    over: Over,
    least: Option<f64>,
    most: Option<f64>,
}

fn all_cores() -> Vec<usize> {
    vec![16, 32, 48, 64]
}

/// Baseline of a speed-up, or no baseline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Over {
    #[default]
    Core,
    Gpus,
    /// Milliseconds per step instead of a speed-up.
    Ms,
}

/// Relative difference up to which an end of a range agrees with the article's, which are rounded.
const NEAR: f64 = 0.1;

impl Published {
    /// Returns the article's figures.
    pub(crate) fn get() -> &'static Self {
        static TABLE: LazyLock<Published> =
            LazyLock::new(|| toml::from_str(include_str!("published.toml")).expect("the table is checked by a test"));
        &TABLE
    }
}

impl Range {
    fn covers(&self, row: &Row) -> bool {
        let configuration = row.configuration;
        let scheduler = match self.scheduler.as_str() {
            "best" => ARTICLES.contains(&row.scheduler),
            name => row.scheduler == name,
        };
        scheduler
            && configuration.benchmark == self.benchmark
            && self.gpus.contains(&configuration.gpus)
            && self.cores.contains(&configuration.cores)
    }

    fn value(&self, row: &Row) -> Option<f64> {
        match self.over {
            Over::Core => Some(row.speed_up(self.period)),
            Over::Gpus => row.over_gpus(self.period),
            Over::Ms => Some(1e3 * row.seconds(self.period)),
        }
    }

    /// Returns whether units of one kind alone determine the value, so that it follows from the task times in the
    /// machine file and says nothing about the schedulers.
    fn is_input(&self) -> bool {
        self.gpus == [0] || self.cores == [0]
    }

    /// Returns whether any of the rows that the range covers is of a scheduler that still searches.
    pub(crate) fn still_searches(&self, rows: &[Row]) -> bool {
        rows.iter().any(|row| self.covers(row) && row.still_searches())
    }

    /// Returns the lowest and the highest value of the rows that the range covers, if there are any.
    pub(crate) fn found(&self, rows: &[Row]) -> Option<[f64; 2]> {
        let mut by_configuration: Vec<(String, f64)> = Vec::new();
        for row in rows.iter().filter(|row| self.covers(row)) {
            let (name, value) = (row.configuration.to_string(), self.value(row)?);
            match by_configuration.iter_mut().find(|(known, _)| *known == name) {
                Some((_, best)) => *best = best.max(value),
                None => by_configuration.push((name, value)),
            }
        }
        let values = || by_configuration.iter().map(|(_, value)| *value);
        Some([values().min_by(f64::total_cmp)?, values().max_by(f64::total_cmp)?])
    }

    /// Formats the article's range.
    pub(crate) fn reported(&self) -> String {
        match (self.least, self.most) {
            (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
            (Some(least), None) => format!("at least {least}"),
            (None, Some(most)) => format!("at most {most}"),
            (_, value) => value.map_or_else(String::new, |value| value.to_string()),
        }
    }

    /// Compares the range found here with the article's, in a word.
    pub(crate) fn verdict(&self, [least, most]: [f64; 2]) -> &'static str {
        let (low, high) = (self.least.unwrap_or(0.0), self.most.unwrap_or(f64::INFINITY));
        let near =
            |found: f64, reported: Option<f64>| reported.is_none_or(|reported| (found / reported - 1.0).abs() <= NEAR);
        match () {
            () if near(least, self.least) && near(most, self.most) && self.is_input() => "input",
            () if near(least, self.least) && near(most, self.most) => "agrees",
            () if least >= low * (1.0 - NEAR) && most <= high * (1.0 + NEAR) => "within",
            () if most < low * (1.0 - NEAR) => "below",
            () if least > high * (1.0 + NEAR) => "above",
            () => "overlaps",
        }
    }

    /// Describes the rows that the range covers.
    pub(crate) fn label(&self) -> String {
        let join = |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(" and ");
        let benchmark = format!("{:?}-MZ", self.benchmark).to_uppercase();
        let units = match (&self.cores[..], &self.gpus[..]) {
            ([0], gpus) => format!("{} GPU alone", join(gpus)),
            (_, [0]) => "no GPU".to_owned(),
            ([cores], gpus) => format!("{cores} cores, {} GPU", join(gpus)),
            (_, gpus) => format!("{} GPU", join(gpus)),
        };
        let over = match self.over {
            Over::Core => "",
            Over::Gpus => ", over GPUs alone",
            Over::Ms => ", ms",
        };
        format!("{benchmark} `{}`, {}, {units}{over}", self.scheduler, format!("{:?}", self.period).to_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configurations::{Configuration, SCHEDULERS};
    use crate::evaluation::{Place, Task, run};
    use npb::mz::Class;
    use thalweg::SimulatedMachine;

    #[test]
    fn ranges_have_a_place_and_a_known_scheduler() {
        let published = Published::get();
        assert!(published.range.len() > 60);
        for range in &published.range {
            let scheduler = range.scheduler.as_str();
            assert!(scheduler == "best" || SCHEDULERS.contains(&scheduler), "{scheduler}");
            assert!(range.place.contains('§') || range.place == "abstract", "{}", range.place);
            assert!(range.least.or(range.most).is_some() && range.least.unwrap_or(0.1) <= range.most.unwrap_or(1e3));
        }
        assert!(published.pcf.values().all(|factors| factors.place == "table 4"));
        assert!(published.task_ms.values().all(|times| times.place == "table 3"));
    }

    /// González Tallada & Morancho 2024: table 4 is table 3 divided by its first line.
    #[test]
    fn factors_of_table_4_follow_from_times_of_table_3() {
        let published = Published::get();
        for (benchmark, TaskTimes { gpu, cpu, .. }) in &published.task_ms {
            for (time, factor) in cpu[1..].iter().zip(published.pcf[benchmark].values) {
                assert!((time / gpu / factor - 1.0).abs() < 5e-3, "{benchmark:?}: {time} by {gpu}, {factor}");
            }
        }
    }

    /// Table 3's times are the computation period under `static`, times the number of units, divided by the number
    /// of zones; see the machine file.
    #[test]
    fn machine_reproduces_table_3_under_static() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/epyc7742-2xmi50.toml");
        let machine = SimulatedMachine::from_file(file).unwrap().with_noise(0, 0.0);
        for (&benchmark, TaskTimes { gpu, cpu, .. }) in &Published::get().task_ms {
            let zones = if benchmark == Benchmark::Lu { 16.0 } else { 1024.0 };
            let cores = [(1, 0), (16, 0), (32, 0), (48, 0), (64, 0), (0, 1)];
            for ((cores, gpus), published) in cores.into_iter().zip(cpu.iter().chain([gpu])) {
                let configuration = Configuration { benchmark, cores, gpus };
                let (units, scheduler) = (configuration.units(), "static");
                let task = Task { benchmark, class: Class::D, units: &units, scheduler, steps: 0 };
                let measured = run(&Place::Simulated(machine.clone()), task, None).unwrap();
                let units = (configuration.cpu_units().0 + gpus) as f64;
                let ms = 1e3 * measured.computation * units / zones;
                let off = ms / published - 1.0;
                assert!(off.abs() < 0.015, "{configuration}: {ms} ms a task, and the article has {published}");
            }
        }
    }
}

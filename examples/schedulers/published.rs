//! The ranges that the article reports, from `published.toml`.

use serde::Deserialize;

use crate::evaluation::{Period, Row};
use npb::mz::Benchmark;

/// One range.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Range {
    benchmark: Benchmark,
    scheduler: String,
    pub(crate) period: Period,
    gpus: Vec<usize>,
    pub(crate) speed_up: [f64; 2],
}

#[derive(Deserialize)]
struct File {
    range: Vec<Range>,
}

impl Range {
    /// All that are reported.
    pub(crate) fn all() -> Vec<Self> {
        let file: File = toml::from_str(include_str!("published.toml")).expect("the table is checked by a test");
        file.range
    }

    /// Whether it is about a row.
    pub(crate) fn covers(&self, row: &Row) -> bool {
        let configuration = row.configuration;
        configuration.is_hybrid()
            && configuration.benchmark == self.benchmark
            && row.scheduler == self.scheduler
            && self.gpus.contains(&configuration.gpus)
    }

    /// The lowest and the highest of the rows that it is about, if there are any.
    pub(crate) fn found(&self, rows: &[Row]) -> Option<[f64; 2]> {
        let mine = || rows.iter().filter(|row| self.covers(row)).map(|row| row.speed_up(self.period));
        Some([mine().min_by(f64::total_cmp)?, mine().max_by(f64::total_cmp)?])
    }

    /// Its rows in words.
    pub(crate) fn label(&self) -> String {
        let gpus = self.gpus.iter().map(usize::to_string).collect::<Vec<_>>().join(" and ");
        format!("{:?}-MZ {} {:?}, {gpus} GPU", self.benchmark, self.scheduler, self.period).to_lowercase()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configurations::SCHEDULERS;

    #[test]
    fn ranges_are_of_schedulers_that_run() {
        let ranges = Range::all();
        assert!(ranges.len() > 20);
        for range in ranges {
            assert!(SCHEDULERS.contains(&range.scheduler.as_str()), "{}", range.scheduler);
            assert!(0.0 < range.speed_up[0] && range.speed_up[0] < range.speed_up[1]);
        }
    }
}

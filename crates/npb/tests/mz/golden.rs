//! Reference sums, and a comparison of arrays with these sums.

use std::collections::BTreeMap;

use ndarray::{ArrayView4, Axis, s};
use npb::mz::{Benchmark, COMPONENTS};
use serde::Deserialize;

/// Sums over one zone at one stage.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Sums {
    sum: [f64; COMPONENTS],
    squares: [f64; COMPONENTS],
}

/// Sums by step, stage, and zone.
type Table = BTreeMap<String, BTreeMap<String, BTreeMap<String, Sums>>>;

/// The reference sums of one benchmark, class S.
pub(crate) struct Golden(Table);

impl Golden {
    /// Loads the sums of `benchmark`.
    pub(crate) fn of(benchmark: Benchmark) -> Self {
        let mut tables: BTreeMap<Benchmark, Table> =
            toml::from_str(include_str!("golden.toml")).expect("a table of sums");
        Self(tables.remove(&benchmark).expect("sums of every benchmark"))
    }

    /// Returns the zones that have reference sums.
    pub(crate) fn zones(&self) -> Vec<usize> {
        let stages = self.0["step1"].values().next().expect("a stage");
        stages.keys().map(|zone| zone["zone".len()..].parse().expect("a zone's number")).collect()
    }

    /// Asserts that `array`, which belongs to zone `zone` after `stage` of `step` (from 1), has the reference sums.
    pub(crate) fn check(&self, step: usize, stage: &str, zone: usize, array: &ArrayView4<'_, f64>) {
        let known = self.0[&format!("step{step}")][stage][&format!("zone{zone}")];
        let all = matches!(stage, "uexch" | "unew");
        let part = if all { array.view() } else { array.slice(s![.., 1..-1, 1..-1, 1..-1]) };
        for m in 0..COMPONENTS {
            let component = part.index_axis(Axis(0), m);
            let squares = component.fold(0.0, |sum, value| sum + value * value);
            let near = |value: f64, known: f64, scale: f64| (value - known).abs() <= 1e-11 * scale;
            // A sum may cancel, so its error is measured relative to its terms.
            let scale = (squares * component.len() as f64).sqrt();
            let place = format!("step {step}, {stage}, zone {zone}, component {}", m + 1);
            assert!(near(component.sum(), known.sum[m], scale), "{place}: {} is not {}", component.sum(), known.sum[m]);
            assert!(near(squares, known.squares[m], squares), "{place}: {squares} is not {}", known.squares[m]);
        }
    }
}

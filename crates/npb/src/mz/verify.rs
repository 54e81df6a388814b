//! The verdict on a run: its norms compared with the reference values.

use std::fmt;

use super::classes::Problem;
use super::physics::COMPONENTS;

/// Relative tolerance of the verification.
pub const EPSILON: f64 = 1e-8;

/// The norms that verify a run, summed over zones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Norms {
    /// Norms of the residual.
    pub residual: [f64; COMPONENTS],
    /// Norms of the error.
    pub error: [f64; COMPONENTS],
    /// LU's surface integral.
    pub surface: Option<f64>,
}

impl std::ops::AddAssign for Norms {
    /// Adds the norms of one more zone.
    fn add_assign(&mut self, zone: Self) {
        for m in 0..COMPONENTS {
            self.residual[m] += zone.residual[m];
            self.error[m] += zone.error[m];
        }
        self.surface = match (self.surface, zone.surface) {
            (Some(sum), Some(surface)) => Some(sum + surface),
            (sum, surface) => sum.or(surface),
        };
    }
}

/// A run's numbers, each paired with its reference value.
#[derive(Clone, Debug)]
pub struct Verdict {
    lines: Vec<(String, f64, f64)>,
}

impl Verdict {
    /// Compares a full run of `problem` with its references.
    ///
    /// # Panics
    /// Panics if only one of the two has a surface integral.
    pub fn new(problem: &Problem, norms: &Norms) -> Self {
        let mut lines = Vec::new();
        for (name, values, references) in
            [("residual", norms.residual, problem.residual), ("error", norms.error, problem.error)]
        {
            for (m, (value, reference)) in values.into_iter().zip(references).enumerate() {
                lines.push((format!("{name} {}", m + 1), value, reference));
            }
        }
        match (norms.surface, problem.surface) {
            (Some(value), Some(reference)) => lines.push(("surface".into(), value, reference)),
            (None, None) => {}
            _ => panic!("a surface integral on one side only"),
        }
        Self { lines }
    }

    /// Returns the largest relative difference from a reference; NaN if one of the run's numbers is NaN.
    pub fn difference(&self) -> f64 {
        let differences = self.lines.iter().map(|(_, value, reference)| ((value - reference) / reference).abs());
        differences.fold(0.0, |most: f64, one| if most.is_nan() || one <= most { most } else { one })
    }

    /// Returns whether all numbers are within [`EPSILON`] of their references.
    pub fn verified(&self) -> bool {
        self.lines.iter().all(|(_, value, reference)| ((value - reference) / reference).abs() <= EPSILON)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value, reference) in &self.lines {
            let difference = ((value - reference) / reference).abs();
            writeln!(f, "{name:<10} {value:>22.13e} {reference:>22.13e} {difference:>9.1e}")?;
        }
        writeln!(f, "largest relative difference {:.1e}, allowed {EPSILON:.0e}", self.difference())
    }
}

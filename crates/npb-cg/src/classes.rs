//! The problem classes of NPB CG: sizes, and the values that verify a run.
//!
//! Source: the NAS Parallel Benchmarks 3.4, benchmark CG; the problem itself is specified in NASA report
//! RNR-94-007, section 2.4. The reference values have all published digits.

use clap::ValueEnum;

/// A problem class, named by its official letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Class {
    /// 1 400 rows: a smoke test.
    #[value(name = "S", alias = "s")]
    S,
    /// 7 000 rows.
    #[value(name = "W", alias = "w")]
    W,
    /// 14 000 rows.
    #[value(name = "A", alias = "a")]
    A,
    /// 75 000 rows.
    #[value(name = "B", alias = "b")]
    B,
    /// 150 000 rows, 430 MB of matrix.
    #[value(name = "C", alias = "c")]
    C,
}

/// Parameters and reference value of a class.
#[derive(Clone, Copy, Debug)]
pub struct Problem {
    /// Order of the matrix.
    pub rows: usize,
    /// Number of random entries in each sparse vector that contributes to the matrix.
    pub entries_per_vector: usize,
    /// Number of timed steps of the inverse power iteration.
    pub iterations: usize,
    /// The shift λ of the spectrum.
    pub shift: f64,
    /// The official value of ζ after the last iteration.
    pub zeta: f64,
}

/// Reciprocal of the condition number of the unshifted matrix; the same in all classes.
pub(crate) const RCOND: f64 = 0.1;

/// Number of conjugate gradient iterations per solve. The number is fixed; there is no convergence test.
pub const CG_ITERATIONS: usize = 25;

/// Maximum relative error of ζ in a verified run.
pub const EPSILON: f64 = 1e-10;

impl Class {
    /// Returns the sizes and the reference value of this class.
    pub fn problem(self) -> Problem {
        let (rows, entries_per_vector, iterations, shift, zeta) = match self {
            Self::S => (1_400, 7, 15, 10.0, 8.5971775078648),
            Self::W => (7_000, 8, 15, 12.0, 10.362595087124),
            Self::A => (14_000, 11, 15, 20.0, 17.130235054029),
            Self::B => (75_000, 13, 75, 60.0, 22.712745482631),
            Self::C => (150_000, 15, 75, 110.0, 28.973605592845),
        };
        Problem { rows, entries_per_vector, iterations, shift, zeta }
    }
}

impl Problem {
    /// Returns the work of the timed part in floating-point operations, by NPB's own count.
    pub fn operations(&self) -> f64 {
        let row = (self.entries_per_vector * (self.entries_per_vector + 1)) as f64;
        let solve = 3.0 + row + CG_ITERATIONS as f64 * (5.0 + row) + 3.0;
        2.0 * self.iterations as f64 * self.rows as f64 * solve
    }

    /// Returns the relative error of a computed ζ.
    pub fn relative_error(&self, zeta: f64) -> f64 {
        (zeta - self.zeta).abs() / self.zeta
    }
}

//! The goals of the bench and whether this run has met them. A missed goal does not fail the bench, because a person
//! has to judge the result.

use std::fmt;

use crate::harness::build::{LIBGOMP, LIBOMP};
use crate::harness::{Series, Table, median, median_ratio};
use crate::problems::{Answer, PLAIN, Problem, RAYON, THALWEG};

/// The figure that a goal limits, with the limit.
#[derive(Clone, Copy, Debug)]
enum Figure {
    /// The plain loop's time divided by Thalweg's time summed over all workers must be at least this.
    PerCore(f64),
    /// Thalweg's time divided by the contender's time must be at most this.
    Against(&'static str, f64),
    /// The measured figure itself must be at most this.
    Itself(f64),
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PerCore(_) => f.write_str("rate per core to the plain loop's"),
            Self::Against(name, _) => write!(f, "time to {name}'s"),
            Self::Itself(_) => f.write_str("cores busy"),
        }
    }
}

const GOALS: [(Problem, usize, Figure); 11] = [
    (Problem::SmithWaterman, 1, Figure::PerCore(0.9)),
    (Problem::SmithWaterman, 2, Figure::PerCore(0.9)),
    (Problem::Strips, 1, Figure::PerCore(0.9)),
    (Problem::Strips, 2, Figure::PerCore(0.9)),
    (Problem::Histogram, 2, Figure::Against(RAYON, 1.0)),
    (Problem::Accumulated, 2, Figure::Against(RAYON, 1.0)),
    (Problem::Cholesky, 2, Figure::Against(RAYON, 1.0)),
    (Problem::Cholesky, 2, Figure::Against(LIBGOMP, 1.0)),
    (Problem::Cholesky, 2, Figure::Against(LIBOMP, 1.0)),
    (Problem::Service, 2, Figure::Against(RAYON, 1.1)),
    (Problem::Idle, 2, Figure::Itself(0.05)),
];

/// The measurements of one problem on one number of workers.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) problem: Problem,
    pub(crate) workers: usize,
    pub(crate) series: Vec<Series<Answer>>,
}

impl Case {
    fn of(&self, contender: &str) -> Option<Vec<f64>> {
        self.series.iter().find(|series| series.contender == contender).map(crate::figures)
    }

    fn reached(&self, figure: Figure) -> Option<f64> {
        let ours = self.of(THALWEG)?;
        match figure {
            Figure::PerCore(_) => Some(median_ratio(&self.of(PLAIN)?, &[&ours])? / self.workers as f64),
            Figure::Against(name, _) => median_ratio(&ours, &[&self.of(name)?]),
            Figure::Itself(_) => median(&ours),
        }
    }
}

/// Prints every goal with the figure of this run, or with a dash if either side of the comparison did not run.
pub(crate) fn print(cases: &[Case]) {
    let mut table = Table::new("problem", &["workers", "figure", "goal", "reached", "met"]);
    for (problem, workers, figure) in GOALS {
        let case = cases.iter().find(|case| case.problem == problem && case.workers == workers);
        let reached = case.and_then(|case| case.reached(figure));
        let (goal, met) = match figure {
            Figure::PerCore(least) => (format!("≥ {least}"), reached.map(|reached| reached >= least)),
            Figure::Against(_, most) | Figure::Itself(most) => {
                (format!("≤ {most}"), reached.map(|reached| reached <= most))
            }
        };
        table.row(
            problem.name(),
            [
                Some(workers.to_string()),
                Some(figure.to_string()),
                Some(goal),
                reached.map(|reached| format!("{reached:.2}")),
                met.map(|met| if met { "yes" } else { "no" }.to_owned()),
            ],
        );
    }
    table.print("Goals of thalweg (medians)");
}

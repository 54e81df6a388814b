//! The goals of the overhead bench and whether this run has met them.
//!
//! A goal compares Thalweg with contenders of the same run, by the median over repetitions of the ratio within each
//! repetition. Regions and replays, which no contender offers, have absolute times as goals. A missed goal does not
//! fail the bench: because machines are shared and noisy, a person has to judge the result.

use std::fmt;

use crate::contenders::{RAYON, THALWEG, is_rival};
use crate::harness::build::LIBGOMP;
use crate::harness::{Series, Table, median, median_ratio};
use crate::problems::Problem;

/// Baseline that Thalweg's time is compared with.
#[derive(Clone, Copy, Debug)]
enum Against {
    /// The contender that is fastest in each repetition among those that track data dependences.
    BestWithDependences,
    /// A single contender.
    Contender(&'static str),
    /// Thalweg itself, on another problem in the same run.
    Problem(Problem),
    /// Like [`Self::Problem`], but the figure is the difference in nanoseconds.
    Above(Problem),
    /// Thalweg itself, on one worker in the same run.
    OneWorker,
    /// No baseline: the figure is an absolute time in nanoseconds.
    Clock,
}

impl fmt::Display for Against {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BestWithDependences => f.write_str("ratio to the best with data dependences"),
            Self::Contender(name) => write!(f, "ratio to {name}"),
            Self::Problem(problem) => write!(f, "ratio to {problem}"),
            Self::Above(problem) => write!(f, "ns more than {problem}"),
            Self::OneWorker => f.write_str("ratio to one worker"),
            Self::Clock => f.write_str("ns per task"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Goal {
    problem: Problem,
    workers: usize,
    against: Against,
    most: f64,
}

const fn goal(problem: Problem, workers: usize, against: Against, most: f64) -> Goal {
    Goal { problem, workers, against, most }
}

const GOALS: [Goal; 23] = [
    goal(Problem::Independent, 2, Against::Contender(RAYON), 1.0),
    goal(Problem::Indep1dep, 2, Against::BestWithDependences, 0.5),
    goal(Problem::Chain, 2, Against::BestWithDependences, 0.5),
    goal(Problem::Wavefront, 2, Against::BestWithDependences, 0.5),
    goal(Problem::Random, 2, Against::BestWithDependences, 0.5),
    goal(Problem::Chain, 1, Against::Contender(LIBGOMP), 1.0),
    goal(Problem::Wavefront, 1, Against::Contender(LIBGOMP), 1.0),
    goal(Problem::Regions, 1, Against::Clock, 900.0),
    goal(Problem::Regions, 2, Against::Clock, 900.0),
    goal(Problem::ForEach, 1, Against::Problem(Problem::Blocks), 0.6),
    goal(Problem::ForEachAxpy, 1, Against::Problem(Problem::Axpy), 0.6),
    goal(Problem::Value, 1, Against::Problem(Problem::Indep1dep), 1.0),
    goal(Problem::Token, 1, Against::Problem(Problem::Indep1dep), 1.0),
    goal(Problem::Result, 1, Against::Above(Problem::Independent), 40.0),
    goal(Problem::Fib, 1, Against::Contender(RAYON), 3.0),
    goal(Problem::Fib, 2, Against::Contender(RAYON), 3.0),
    goal(Problem::FibJoin, 1, Against::Contender(RAYON), 3.0),
    goal(Problem::FibJoin, 2, Against::Contender(RAYON), 3.0),
    goal(Problem::FlatFib, 2, Against::OneWorker, 1.0 / 1.7),
    goal(Problem::ReplayIndependent, 2, Against::Clock, 80.0),
    goal(Problem::ReplayChain, 2, Against::Clock, 60.0),
    goal(Problem::ReplayWavefront, 2, Against::Clock, 125.0),
    goal(Problem::ReplayRandom, 2, Against::Clock, 185.0),
];

/// The times of one case: nanoseconds per task for every contender, with one sample per repetition.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) problem: Problem,
    pub(crate) workers: usize,
    pub(crate) times: Vec<Series<f64>>,
}

impl Case {
    fn of(&self, contender: &str) -> Option<&[f64]> {
        self.times.iter().find(|series| series.contender == contender).map(|series| series.samples.as_slice())
    }

    /// Returns Thalweg's figure relative to the baseline `against`, which is a contender in this case or another case
    /// in `all`. Returns `None` if the baseline did not run.
    fn figure(&self, against: Against, all: &[Case]) -> Option<f64> {
        let ours = self.of(THALWEG)?;
        let of_case = |problem, workers| {
            let case = all.iter().find(|case| case.problem == problem && case.workers == workers)?;
            case.of(THALWEG)
        };
        match against {
            Against::Clock => median(ours),
            Against::Problem(problem) => median_ratio(ours, &[of_case(problem, self.workers)?]),
            Against::OneWorker => median_ratio(ours, &[of_case(self.problem, 1)?]),
            Against::Above(problem) => {
                let other = of_case(problem, self.workers)?;
                median(&ours.iter().zip(other).map(|(ours, other)| ours - other).collect::<Vec<_>>())
            }
            Against::Contender(name) => median_ratio(ours, &[self.of(name)?]),
            Against::BestWithDependences => {
                let rivals: Vec<&[f64]> = self
                    .times
                    .iter()
                    .filter(|series| is_rival(series.contender, self.workers))
                    .map(|series| series.samples.as_slice())
                    .collect();
                median_ratio(ours, &rivals)
            }
        }
    }
}

/// Prints every goal with the figure of this run, or with a dash if either side of the comparison did not run.
pub(crate) fn print(cases: &[Case]) {
    let mut table = Table::new("problem", &["workers", "figure", "goal", "reached", "met"]);
    for goal in GOALS {
        let figure = cases
            .iter()
            .find(|case| case.problem == goal.problem && case.workers == goal.workers)
            .and_then(|case| case.figure(goal.against, cases));
        table.row(
            goal.problem.name(),
            [
                Some(goal.workers.to_string()),
                Some(goal.against.to_string()),
                Some(format!("≤ {:.3}", goal.most).trim_end_matches('0').trim_end_matches('.').to_owned()),
                figure.map(|figure| format!("{figure:.2}")),
                figure.map(|figure| if figure <= goal.most { "yes" } else { "no" }.to_owned()),
            ],
        );
    }
    table.print("Goals of thalweg (medians)");
}

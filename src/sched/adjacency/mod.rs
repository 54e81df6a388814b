//! `adjacency`: balances measured times *and* minimises copies between memories, using the graph of data exchange.
//!
//! The distributions in the sources keep neighbours together along one dimension only, the index order. On a mesh of
//! zones each unit gets a strip, which cuts all faces in the other dimension (González Tallada & Morancho 2024, §4.1).
//! This distribution is our own. It starts from the 1-D answer of `clustered-guided` and then looks for compact parts
//! of the graph that take hardly longer and cut less:
//!
//! 1. The times that the search measured, per index and unit kind, predict the time of any part.
//! 2. There are two starting points: the 1-D answer itself, and parts grown one after the other, each from a seed until
//!    it has its unit's share.
//! 3. Both are refined by moving and swapping single indices between neighbouring parts (after Kernighan & Lin 1970,
//!    and Fiduccia & Mattheyses 1982). Each step lowers the cut and keeps every unit within the limit.
//! 4. The better result is tried for two instances. If it takes longer than the limit, the 1-D answer is restored for
//!    good.
//!
//! Only exchange between *memories* counts, because all CPU units share one memory, where neighbours exchange data
//! without a copy. So on CPU units alone, this distribution equals `clustered-guided`. With one or two devices it
//! nearly does, because a strip is as compact as any other part; with eight devices a third less is cut (see the
//! tests). The weight of a pair of neighbours is the time to copy the bytes that they exchange, by the default
//! [`LinkEstimate`](super::LinkEstimate). The program declares the number of bytes
//! ([`IterationSpace::with_exchange`](crate::task::IterationSpace::with_exchange)). If it declares only the neighbours
//! ([`with_neighbours`](crate::task::IterationSpace::with_neighbours)), all pairs have the same weight. If it declares
//! no neighbours, this distribution equals `clustered-guided`.

pub(super) mod graph;
mod grow;
mod refine;

use graph::{Graph, Problem};

use super::{Assignment, ClusteredGuided, Distribution, Times, Workload};

/// The `adjacency` distribution; see the module documentation.
///
/// ```
/// use thalweg::sched::{Adjacency, Distribution, Team, Workload};
/// let workload = Workload { team: Team { cpus: 2, devices: 0 }, weights: &[1.0; 4], neighbours: None };
/// let mut distribution = Adjacency::new(0.05);
/// assert_eq!(distribution.assign(&workload, None).slots(), [0, 0, 1, 1]); // refined when it is measured
/// assert!(!distribution.is_steady());
/// ```
#[derive(Debug, Clone)]
pub struct Adjacency {
    slack: f64,
    line: ClusteredGuided,
    phase: Phase,
    /// Measured time of each index on a CPU unit and on a device unit; `None` if it has not run on that kind.
    known_ns: Vec<[Option<f64>; 2]>,
    present: Assignment,
    /// The 1-D answer and its longest time, kept while another assignment is tried.
    one_dimensional: Option<(Assignment, f64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// `clustered-guided` is still searching.
    Line,
    /// The answer of `clustered-guided` is being measured.
    Measure,
    /// An alternative is being tried, for this many more instances.
    Try(u32),
    Steady,
}

impl Default for Adjacency {
    fn default() -> Self {
        Self::new(Self::SLACK)
    }
}

impl Adjacency {
    /// The default slack.
    pub const SLACK: f64 = 0.05;

    /// Creates the distribution. An instance may take longer than under the 1-D answer by up to the fraction `slack`.
    pub fn new(slack: f64) -> Self {
        Self {
            slack,
            line: ClusteredGuided::default(),
            phase: Phase::Line,
            known_ns: Vec::new(),
            present: Assignment::new(Vec::new()),
            one_dimensional: None,
        }
    }

    fn learn(&mut self, workload: &Workload<'_>, times: &Times) {
        self.known_ns.resize(workload.len(), [None; 2]);
        for ((known, slot), ns) in self.known_ns.iter_mut().zip(&times.slot).zip(&times.index_ns) {
            known[usize::from(workload.team.is_device(*slot))] = Some(*ns);
        }
    }

    /// Estimates the time of every index on each unit kind: the measured time, or else its weight times that kind's
    /// mean.
    fn estimates(&self, workload: &Workload<'_>) -> Vec<[f64; 2]> {
        let per_weight = [0, 1].map(|kind| {
            let measured =
                self.known_ns.iter().zip(workload.weights).filter_map(|(ns, weight)| Some((ns[kind]?, weight)));
            let (ns, weight) = measured.fold((0.0, 0.0), |sum, (ns, weight)| (sum.0 + ns, sum.1 + weight));
            if weight > 0.0 { ns / weight } else { f64::INFINITY }
        });
        let of = |(known, weight): (&[Option<f64>; 2], &f64)| {
            [0, 1].map(|kind| known[kind].unwrap_or(weight * per_weight[kind]))
        };
        self.known_ns.iter().zip(workload.weights).map(of).collect()
    }

    /// Returns an assignment that is within the limit and cuts less than the 1-D answer, if one is found.
    fn better(&self, workload: &Workload<'_>, line: &Assignment, longest: f64) -> Option<Assignment> {
        let graph = Graph::new(workload.neighbours?, workload.len());
        let estimates = self.estimates(workload);
        let problem =
            Problem { graph: &graph, team: workload.team, ns: &estimates, limit: longest * (1.0 + self.slack) };
        let grown = grow::grow(&problem, &problem.loads(line.slots()));
        let candidates = [line.slots().to_vec(), grown].map(|start| refine::refine(&problem, start));
        let fits = |slots: &Vec<usize>| problem.loads(slots).iter().all(|load| *load <= problem.limit);
        let best = candidates.into_iter().filter(fits).min_by_key(|slots| graph.cut(slots, workload.team))?;
        (graph.cut(&best, workload.team) < graph.cut(line.slots(), workload.team)).then(|| Assignment::new(best))
    }
}

impl Distribution for Adjacency {
    fn name(&self) -> &'static str {
        "adjacency"
    }

    fn assign(&mut self, workload: &Workload<'_>, measured: Option<&Times>) -> Assignment {
        if let Some(times) = measured {
            self.learn(workload, times);
        }
        match (self.phase, measured) {
            (Phase::Line, _) => {
                self.present = self.line.assign(workload, measured);
                let plain = workload.neighbours.is_none() || workload.team.len() < 2;
                if self.line.is_steady() {
                    self.phase = if plain { Phase::Steady } else { Phase::Measure };
                }
            }
            (Phase::Measure, Some(times)) => {
                self.phase = Phase::Steady;
                if let Some(better) = self.better(workload, &self.present, times.longest_ns()) {
                    self.phase = Phase::Try(2);
                    self.one_dimensional = Some((std::mem::replace(&mut self.present, better), times.longest_ns()));
                }
            }
            (Phase::Try(left), Some(times)) => {
                self.phase = if left > 1 { Phase::Try(left - 1) } else { Phase::Steady };
                if self.phase == Phase::Steady
                    && let Some((line, before)) = self.one_dimensional.take()
                    && times.longest_ns() > before * (1.0 + self.slack)
                {
                    self.present = line;
                }
            }
            _ => {}
        }
        self.present.clone()
    }

    fn is_steady(&self) -> bool {
        self.phase == Phase::Steady
    }

    fn observe(&mut self, workload: &Workload<'_>, measured: &Times) {
        self.line.observe(workload, measured);
        if !self.line.is_steady() {
            self.phase = Phase::Line;
            self.known_ns.clear();
        }
    }
}

#[cfg(test)]
mod tests;

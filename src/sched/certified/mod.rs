//! `certified`: a map that is close to optimal for the measured times, with a bound that says how close.
//!
//! To keep neighbours together, the sources' distributions cut the index order into chunks. But units that share a
//! memory exchange data without copies, so only the division between *address spaces* affects communication, and within
//! one address space any index can go to any unit. So this distribution, which is our own, works in three steps:
//!
//! 1. *Shares per kind* ([`share`]): the indices that gain most from a device go to devices until both kinds end at the
//!    same time. Among indices with about the same gain, the last in index order go first, so that each kind's indices
//!    are contiguous. This is the optimum of the problem with divisible indices, so it gives a lower bound
//!    ([`LowerBound`]).
//! 2. *Units within a kind*: indices go to the least busy CPU unit, longest first (Graham 1969); devices, which have
//!    separate memories, get consecutive chunks.
//! 3. *Polish* ([`polish`]): moves and swaps take single indices off the unit that takes longest (in the manner of
//!    Fiduccia & Mattheyses 1982, with time in the role of cells). Then indices at the border between two memories
//!    change sides if that leaves less data to copy and keeps every unit within `slack` of the longest unit.
//!
//! Times are measured, in instances of three kinds:
//!
//! - The first instance is distributed by weights alone. If units of one kind took different times for the same
//!   weight, each unit gets the indices of its predecessor in the second instance. It shows whether the units differ or
//!   the weights are wrong ([`times`]).
//! - At most [`EXPLORED`] instances measure indices on the kind of unit where they have not run ([`explore`]).
//! - [`ROUNDS`] instances follow the steps above, each with the times measured so far.
//!
//! The best measured instance is kept. The bound holds for all maps that use the same units, by the measured times:
//! those of the instances above, in which all units of the team are busy. It is called estimated unless each index has
//! been measured on each unit. `team=auto` ([`super::team_size`]) tries maps that leave units idle.

mod explore;
mod polish;
mod share;
mod times;

pub use share::LowerBound;

use super::balance::balanced_chunks;
use super::{Assignment, Distribution, Times, Workload};
use polish::Loads;
use times::{Estimates, Known};

/// Maximum number of instances that explore times on the other kind of unit.
const EXPLORED: usize = 2;
/// Number of instances whose map is computed from the measured times.
const ROUNDS: usize = 2;

/// The `certified` distribution; see the module documentation.
///
/// ```
/// use thalweg::sched::{Certified, Distribution, Team, Times, Workload};
/// let workload = Workload { team: Team { cpus: 2, devices: 1 }, weights: &[1.0; 6], neighbours: None };
/// let mut distribution = Certified::default();
/// let mut assignment = distribution.assign(&workload, None);
/// while !distribution.is_steady() {
///     let ns = assignment.slots().iter().map(|slot| if *slot < 2 { 40.0 } else { 10.0 }).collect();
///     assignment = distribution.assign(&workload, Some(&Times::of(&assignment, 3, ns)));
/// }
/// let bound = distribution.bound().unwrap();
/// assert!(bound.gap() < 0.01, "four on the device and one on each CPU unit: 40 each; {bound}");
/// ```
#[derive(Debug, Clone)]
pub struct Certified {
    slack: f64,
    known: Known,
    stage: Stage,
    present: Assignment,
    best: Option<(f64, Assignment)>,
    bound: Option<LowerBound>,
}

/// The purpose of the present instance.
#[derive(Debug, Clone)]
enum Stage {
    /// To run everything once.
    First,
    /// To compare units of one kind with each other, given the first assignment.
    Compare(Assignment),
    /// To run indices on the other kind of unit; this many instances have done so before.
    Explore(usize),
    /// To measure a map; this many have been measured before.
    Measure(usize),
    Steady,
}

impl Default for Certified {
    fn default() -> Self {
        Self::new(Self::SLACK)
    }
}

impl Certified {
    /// The default slack.
    pub const SLACK: f64 = 0.01;

    /// Creates the distribution. To save copies between memories, units may take longer by up to the fraction `slack`.
    pub fn new(slack: f64) -> Self {
        let present = Assignment::new(Vec::new());
        Self { slack, known: Known::default(), stage: Stage::First, present, best: None, bound: None }
    }

    /// Returns the stage after the present one, with its assignment.
    fn next(&mut self, workload: &Workload<'_>, longest_ns: f64) -> (Stage, Assignment) {
        let team = workload.team;
        let explored = match std::mem::replace(&mut self.stage, Stage::Steady) {
            Stage::First if self.known.do_units_differ(workload) => {
                let slots = self.present.slots().iter().map(|slot| times::successor(team, *slot)).collect();
                return (Stage::Compare(self.present.clone()), Assignment::new(slots));
            }
            Stage::First => Some(0),
            Stage::Compare(first) => {
                self.known.compare(team, &first);
                Some(0)
            }
            Stage::Explore(before) => Some(before + 1),
            Stage::Measure(_) | Stage::Steady => None,
        };
        let estimates = self.known.estimates(workload).without_noise();
        if let Some(explored) = explored.filter(|explored| *explored < EXPLORED)
            && let Some(slots) = explore::slots(&estimates, self.known.missing(team), longest_ns)
        {
            return (Stage::Explore(explored), Assignment::new(slots));
        }
        (Stage::Measure(0), map(workload, &estimates, self.slack))
    }
}

/// Computes a map from the times on each unit.
fn map(workload: &Workload<'_>, estimates: &Estimates<'_>, slack: f64) -> Assignment {
    let (team, ns) = (workload.team, &estimates.kind_ns);
    let on_device = share::on_device(estimates);
    let mut slots = vec![0; ns.len()];
    let mut loads = Loads::new(estimates);
    let [mut cpus, devices]: [Vec<usize>; 2] =
        [false, true].map(|kind| (0..ns.len()).filter(|index| on_device[*index] == kind).collect());
    cpus.sort_by(|one, other| ns[*other][0].total_cmp(&ns[*one][0]).then(one.cmp(other)));
    for index in cpus {
        slots[index] = loads.give_to_first(index, 0..team.cpus);
    }
    let work: Vec<f64> = devices.iter().map(|index| ns[*index][1]).collect();
    let speeds: Vec<f64> = estimates.factors[team.cpus..].iter().map(|factor| 1.0 / factor).collect();
    for (device, chunk) in balanced_chunks(&work, &speeds).into_iter().enumerate() {
        for &index in &devices[chunk] {
            slots[index] = loads.give(index, team.cpus + device);
        }
    }
    polish::shorten(&mut slots, &mut loads);
    if let Some(neighbours) = workload.neighbours {
        polish::join(&mut slots, &mut loads, neighbours, slack);
    }
    Assignment::new(slots)
}

impl Distribution for Certified {
    fn name(&self) -> &'static str {
        "certified"
    }

    fn assign(&mut self, workload: &Workload<'_>, measured: Option<&Times>) -> Assignment {
        let team = workload.team;
        if team.len() == 1 || workload.is_empty() {
            self.stage = Stage::Steady;
            return Assignment::new(vec![0; workload.len()]);
        }
        if self.is_steady() {
            return self.present.clone();
        }
        let Some(times) = measured else {
            let known = Known::unmeasured(workload);
            self.present = map(workload, &known.estimates(workload), self.slack);
            return self.present.clone();
        };
        self.known.learn(workload, times);
        let took = times.longest_ns();
        if self.best.as_ref().is_none_or(|(best, _)| took < *best) {
            self.best = Some((took, self.present.clone()));
        }
        let longest = self.best.as_ref().map_or(took, |(best, _)| *best);
        if let Stage::Measure(before) = self.stage {
            self.stage = if before + 1 < ROUNDS { Stage::Measure(before + 1) } else { Stage::Steady };
            let estimates = self.known.estimates(workload);
            self.bound = Some(LowerBound {
                longest_ns: longest as u64,
                // Sums of fractions may be below a whole number by rounding errors.
                least_ns: (share::least_ns(&estimates) * (1.0 + 1e-12)) as u64,
                measured: self.known.pairs(),
                pairs: workload.len() * team.len(),
                busy: team.len(),
                units: team.len(),
            });
            self.present = match &self.best {
                Some((_, best)) if self.is_steady() => best.clone(),
                _ => map(workload, &estimates.without_noise(), self.slack),
            };
        } else {
            (self.stage, self.present) = self.next(workload, longest);
        }
        self.present.clone()
    }

    fn is_steady(&self) -> bool {
        matches!(self.stage, Stage::Steady)
    }

    /// Returns the lower bound for the best instance; `None` until a map has been measured.
    fn bound(&self) -> Option<LowerBound> {
        self.bound
    }
}

#[cfg(test)]
mod tests;

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
//! Times are measured. The first instance is distributed by weights alone, so that both kinds run something. Then
//! follow [`ROUNDS`] rounds of the steps above, each with the times measured in earlier rounds, because the time of an
//! index that changes its kind was only an estimate. The best measured instance is kept. The bound means that no map
//! takes less time *with these times*: measured under full load, or estimated for an index that never ran on a kind,
//! and equal on all units of a kind. Where units of a kind differ, where indices differ in their gain from a device, or
//! where fewer busy units are faster, a map can take much less.

mod polish;
mod share;

pub use share::LowerBound;

use super::balance::balanced_chunks;
use super::{Assignment, Distribution, Times, Workload};
use polish::Loads;

/// Number of measured instances after the first one.
const ROUNDS: usize = 4;

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
    known_ns: Vec<[Option<f64>; 2]>,
    present: Assignment,
    best: Option<(f64, Assignment)>,
    bound: Option<LowerBound>,
    instances: usize,
    steady: bool,
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
        Self { slack, known_ns: Vec::new(), present, best: None, bound: None, instances: 0, steady: false }
    }

    fn learn(&mut self, workload: &Workload<'_>, times: &Times) {
        self.known_ns.resize(workload.len(), [None; 2]);
        for ((known, slot), ns) in self.known_ns.iter_mut().zip(&times.slot).zip(&times.index_ns) {
            let known = &mut known[usize::from(workload.team.is_device(*slot))];
            *known = Some(known.map_or(*ns, |before| f64::midpoint(before, *ns)));
        }
    }

    /// Estimates the time of every index on each unit kind: the measured time, or else its weight times that kind's
    /// mean.
    fn estimates(&self, workload: &Workload<'_>) -> Vec<[f64; 2]> {
        let per_weight = [0, 1].map(|kind| {
            let measured =
                self.known_ns.iter().zip(workload.weights).filter_map(|(ns, weight)| Some((ns[kind]?, weight)));
            let (ns, weight) = measured.fold((0.0, 0.0), |sum, (ns, weight)| (sum.0 + ns, sum.1 + weight));
            if weight > 0.0 && ns > 0.0 { ns / weight } else { 1.0 }
        });
        let of = |(known, weight): (&[Option<f64>; 2], &f64)| {
            [0, 1].map(|kind| known[kind].unwrap_or(weight * per_weight[kind]).max(f64::MIN_POSITIVE))
        };
        self.known_ns.iter().zip(workload.weights).map(of).collect()
    }
}

/// Computes a map from the times on each kind.
fn map(workload: &Workload<'_>, ns: &[[f64; 2]], slack: f64) -> Assignment {
    let team = workload.team;
    let on_device = share::on_device(ns, team);
    let mut slots = vec![0; ns.len()];
    let mut loads = Loads::new(team, ns);
    let [mut cpus, devices]: [Vec<usize>; 2] =
        [false, true].map(|kind| (0..ns.len()).filter(|index| on_device[*index] == kind).collect());
    cpus.sort_by(|one, other| ns[*other][0].total_cmp(&ns[*one][0]).then(one.cmp(other)));
    for index in cpus {
        slots[index] = loads.give_to_least_busy(index, 0..team.cpus);
    }
    let work: Vec<f64> = devices.iter().map(|index| ns[*index][1]).collect();
    for (device, chunk) in balanced_chunks(&work, &vec![1.0; team.devices]).into_iter().enumerate() {
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
        if workload.team.len() == 1 || workload.is_empty() {
            self.steady = true;
            return Assignment::new(vec![0; workload.len()]);
        }
        if self.steady {
            return self.present.clone();
        }
        let Some(times) = measured else {
            let equal: Vec<[f64; 2]> =
                workload.weights.iter().map(|weight| [weight.max(f64::MIN_POSITIVE); 2]).collect();
            self.present = map(workload, &equal, self.slack);
            return self.present.clone();
        };
        self.learn(workload, times);
        let took = times.longest_ns();
        if self.best.as_ref().is_none_or(|(best, _)| took < *best) {
            self.best = Some((took, self.present.clone()));
        }
        let estimates = self.estimates(workload);
        let longest = self.best.as_ref().map_or(took, |(best, _)| *best);
        let least = share::least_ns(&estimates, workload.team);
        self.bound = Some(LowerBound { longest_ns: longest as u64, least_ns: least as u64 });
        self.instances += 1;
        self.steady = self.instances > ROUNDS;
        self.present = match &self.best {
            Some((_, best)) if self.steady => best.clone(),
            _ => map(workload, &estimates, self.slack),
        };
        self.present.clone()
    }

    fn is_steady(&self) -> bool {
        self.steady
    }

    /// Returns the lower bound for the best instance; `None` until an instance has been measured.
    fn bound(&self) -> Option<LowerBound> {
        self.bound
    }
}

#[cfg(test)]
mod tests;

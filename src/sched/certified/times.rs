//! Times of each index on each unit: measured ones, and estimates for the others.
//!
//! An index that has not run on a unit is expected to take its time on units of that kind, multiplied by the unit's
//! *factor*: how much longer the unit takes than the mean of its kind. Two instances determine the factors: the
//! second gives each unit the indices of its predecessor ([`Known::compare`]), because a unit that ends early may be
//! fast or may have easy indices. An index that has not run on a kind at all is expected to take its
//! weight times the kind's mean.
//!
//! Invariant: a measured time is never replaced by an estimate.

use crate::sched::{Assignment, Team, Times, Workload};
use smallvec::SmallVec;

/// Units of one kind whose times differ by less than this fraction count as equal, because it may be noise. Bounds use
/// factors as measured.
const ALIKE: f64 = 0.05;

/// The measured times.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// For each index, the slots it has run in, and its times there.
    measured: Vec<SmallVec<[(u32, f64); 4]>>,
    /// The factor of each slot.
    factors: Vec<f64>,
    /// Whether the factors of all units have been measured.
    compared: bool,
}

/// Times of all indices on all units, measured or estimated.
pub(super) struct Estimates<'a> {
    pub(super) team: Team,
    /// Time of each index on a unit of each kind with the factor 1.
    pub(super) kind_ns: Vec<[f64; 2]>,
    pub(super) factors: Vec<f64>,
    known: &'a Known,
}

/// Returns the slots of the CPU units and those of the devices.
pub(super) fn kinds(team: Team) -> [std::ops::Range<usize>; 2] {
    [0..team.cpus, team.cpus..team.len()]
}

impl Known {
    /// Creates the knowledge before the first instance: by weights alone, with all units alike.
    pub(super) fn unmeasured(workload: &Workload<'_>) -> Self {
        Self {
            measured: vec![SmallVec::new(); workload.len()],
            factors: vec![1.0; workload.team.len()],
            compared: false,
        }
    }

    /// Learns the times of an instance.
    pub(super) fn learn(&mut self, workload: &Workload<'_>, times: &Times) {
        self.measured.resize(workload.len(), SmallVec::new());
        self.factors.resize(workload.team.len(), 1.0);
        for ((known, slot), ns) in self.measured.iter_mut().zip(&times.slot).zip(&times.index_ns) {
            match known.iter_mut().find(|(other, _)| *other as usize == *slot) {
                Some((_, before)) => *before = f64::midpoint(*before, *ns),
                None => known.push((*slot as u32, *ns)),
            }
        }
    }

    /// Returns whether units of one kind took different times for the same weight.
    pub(super) fn do_units_differ(&self, workload: &Workload<'_>) -> bool {
        let mut sums = vec![[0.0; 2]; workload.team.len()];
        for (known, weight) in self.measured.iter().zip(workload.weights) {
            known.iter().for_each(|(slot, ns)| {
                let [times, weights] = sums[*slot as usize];
                sums[*slot as usize] = [times + ns, weights + weight];
            });
        }
        kinds(workload.team).into_iter().any(|slots| {
            let rates = sums[slots].iter().filter(|[_, weight]| *weight > 0.0).map(|[ns, weight]| ns / weight);
            let (least, most) = rates.fold((f64::MAX, 0.0), |(least, most), rate| (rate.min(least), rate.max(most)));
            most > least * (1.0 + ALIKE)
        })
    }

    /// Determines the factors of the units, given that each has run the indices that `first` gives to its predecessor.
    ///
    /// The ratios of neighbours around a ring of units multiply to 1, but their measurements do not quite. The least
    /// squares solution spreads the logarithm of the error evenly.
    pub(super) fn compare(&mut self, team: Team, first: &Assignment) {
        let mut sums = vec![[0.0; 2]; team.len()];
        for (known, slot) in self.measured.iter().zip(first.slots()) {
            let at = |slot: usize| known.iter().find(|(other, _)| *other as usize == slot).map(|(_, ns)| *ns);
            if let (Some(here), Some(there)) = (at(*slot), at(successor(team, *slot))) {
                sums[*slot] = [sums[*slot][0] + here, sums[*slot][1] + there];
            }
        }
        self.compared = true;
        for slots in kinds(team).into_iter().filter(|slots| slots.len() > 1) {
            self.compared &= sums[slots.clone()].iter().all(|[here, there]| *here > 0.0 && *there > 0.0);
            let logs: Vec<f64> = (sums[slots.clone()].iter())
                .map(|[here, there]| if *here > 0.0 && *there > 0.0 { (there / here).ln() } else { 0.0 })
                .collect();
            let error = logs.iter().sum::<f64>() / logs.len() as f64;
            let mut log = 0.0;
            for (slot, ratio) in slots.clone().zip(logs) {
                self.factors[slot] = f64::exp(log);
                log += ratio - error;
            }
            let mean = self.factors[slots.clone()].iter().sum::<f64>() / slots.len() as f64;
            self.factors[slots].iter_mut().for_each(|factor| *factor /= mean);
        }
    }

    /// Returns the indices that have not run on a kind of unit of the team, with that kind.
    pub(super) fn missing(&self, team: Team) -> impl Iterator<Item = (usize, bool)> {
        let has = move |index: usize, device: bool| {
            self.measured[index].iter().any(|(slot, _)| team.is_device(*slot as usize) == device)
        };
        let all = (0..self.measured.len()).flat_map(|index| [(index, false), (index, true)]);
        all.filter(move |(index, device)| !kinds(team)[usize::from(*device)].is_empty() && !has(*index, *device))
    }

    /// Returns whether estimates rest on measurements alone: each index has run on each kind of unit, and the units of
    /// a kind have been compared.
    #[cfg(test)]
    pub(super) fn is_complete(&self, team: Team) -> bool {
        self.compared && self.missing(team).next().is_none()
    }

    /// Returns the number of measured pairs of an index and a unit.
    pub(super) fn pairs(&self) -> usize {
        self.measured.iter().map(SmallVec::len).sum()
    }

    /// Estimates the times that are not known.
    pub(super) fn estimates(&self, workload: &Workload<'_>) -> Estimates<'_> {
        let team = workload.team;
        let mean = |index: usize, device: bool| {
            let of_kind = self.measured[index].iter().filter(|(slot, _)| team.is_device(*slot as usize) == device);
            let (runs, ns) = of_kind
                .fold((0.0, 0.0), |(runs, sum), (slot, ns)| (runs + 1.0, sum + ns / self.factors[*slot as usize]));
            (runs > 0.0).then(|| ns / runs)
        };
        let known: Vec<[Option<f64>; 2]> =
            (0..workload.len()).map(|index| [false, true].map(|device| mean(index, device))).collect();
        let per_weight = [0, 1].map(|kind| {
            let measured = known.iter().zip(workload.weights).filter_map(|(ns, weight)| Some((ns[kind]?, weight)));
            let (ns, weight) = measured.fold((0.0, 0.0), |sum, (ns, weight)| (sum.0 + ns, sum.1 + weight));
            if weight > 0.0 && ns > 0.0 { ns / weight } else { 1.0 }
        });
        let of = |(known, weight): (&[Option<f64>; 2], &f64)| {
            [0, 1].map(|kind| known[kind].unwrap_or(weight * per_weight[kind]).max(f64::MIN_POSITIVE))
        };
        let kind_ns = known.iter().zip(workload.weights).map(of).collect();
        Estimates { team, kind_ns, factors: self.factors.clone(), known: self }
    }
}

impl Estimates<'_> {
    /// Returns these estimates for the computation of a map: kinds whose units differ by noise alone are taken to be
    /// equal.
    pub(super) fn without_noise(mut self) -> Self {
        for slots in kinds(self.team) {
            let (least, most) = self.factors[slots.clone()]
                .iter()
                .fold((f64::MAX, 0.0), |(least, most), factor| (factor.min(least), factor.max(most)));
            if most < least * (1.0 + ALIKE) {
                self.factors[slots].fill(1.0);
            }
        }
        self
    }

    /// Returns the time of an index on the unit in this slot.
    pub(super) fn ns(&self, index: usize, slot: usize) -> f64 {
        let measured = self.known.measured[index].iter().find(|(other, _)| *other as usize == slot);
        measured.map_or_else(|| self.on_kind(index, slot), |(_, ns)| ns.max(f64::MIN_POSITIVE))
    }

    /// Returns the time of an index on the unit in this slot, by its mean on the kind of unit.
    pub(super) fn on_kind(&self, index: usize, slot: usize) -> f64 {
        self.kind_ns[index][usize::from(self.team.is_device(slot))] * self.factors[slot]
    }

    /// Returns the speed of each kind, in units with the factor 1.
    pub(super) fn speeds(&self) -> [f64; 2] {
        kinds(self.team).map(|slots| self.factors[slots].iter().map(|factor| 1.0 / factor).sum())
    }
}

/// Returns the next slot of the same kind, after the last one the first.
pub(super) fn successor(team: Team, slot: usize) -> usize {
    let [cpus, devices] = kinds(team);
    let of = if team.is_device(slot) { devices } else { cpus };
    if slot + 1 < of.end { slot + 1 } else { of.start }
}

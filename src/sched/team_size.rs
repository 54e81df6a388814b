//! `team=auto`: a measured choice of the number of CPU units to use, for any distribution.
//!
//! Units of one kind share caches and memory. If more of them make all slower, leaving some idle is faster (SP-MZ on
//! the machine of González Tallada & Morancho 2024, table 3: 32 units do the work of 24.7, and 64 that of 15.3). No
//! distribution over a given team can know that, since it never sees another team. So this one tries teams: all CPU
//! units, then three quarters, a half and a quarter of them while that is no worse, then sizes between the best and
//! its neighbours. For each team, a fresh copy of the distribution runs until it is steady, and one instance is
//! measured. The best team stays.
//!
//! Devices do not share what CPU units share, and all of them always take part. With `team=N`, N CPU units are used
//! and nothing is tried.

use super::fpm::{Known, SharesInUse};
use super::{Assignment, Distribution, LowerBound, State, Team, Times, Workload};

/// A team is worse if it takes longer by more than this fraction; less is noise.
const WORSE: f64 = 0.01;

/// The number of CPU units that a distribution should use.
///
/// ```
/// use thalweg::sched::{Distribution, Static, Team, TeamSize, TeamSized, Workload};
/// let workload = Workload { team: Team { cpus: 3, devices: 1 }, weights: &[1.0; 4], neighbours: None };
/// let mut distribution = TeamSized::new(Static, TeamSize::Of(1));
/// assert_eq!(distribution.assign(&workload, None).slots(), [0, 0, 3, 3]); // units 1 and 2 stay idle
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TeamSize {
    /// The fastest number.
    Auto,
    /// This many, or all if there are fewer.
    Of(usize),
}

/// A distribution over some of the CPU units; see the module documentation.
///
/// ```
/// use thalweg::sched::{Distribution, Static, Team, TeamSize, TeamSized, Times, Workload};
/// let workload = Workload { team: Team { cpus: 4, devices: 0 }, weights: &[1.0; 12], neighbours: None };
/// let mut distribution = TeamSized::new(Static, TeamSize::Auto);
/// let mut assignment = distribution.assign(&workload, None);
/// while !distribution.is_steady() {
///     let busy = 1 + assignment.slots().iter().max().unwrap();
///     let ns = vec![100.0 * (busy * busy) as f64; 12]; // four units do less together than one
///     assignment = distribution.assign(&workload, Some(&Times::of(&assignment, 4, ns)));
/// }
/// assert_eq!(assignment.slots(), [0; 12]);
/// ```
#[derive(Debug, Clone)]
pub struct TeamSized<D> {
    size: TeamSize,
    prototype: D,
    inner: D,
    /// Number of CPU units in use.
    cpus: usize,
    /// Number of other CPU units.
    idle: usize,
    /// The last assignment of `inner`.
    present: Assignment,
    /// The time of each team that was tried.
    tried: Vec<(usize, f64)>,
    best: Option<Best<D>>,
    begun: bool,
    settled: bool,
}

#[derive(Debug, Clone)]
struct Best<D> {
    ns: f64,
    cpus: usize,
    inner: D,
    present: Assignment,
}

impl<D: Distribution + Clone> TeamSized<D> {
    /// Wraps a distribution that has not assigned anything yet.
    pub fn new(distribution: D, size: TeamSize) -> Self {
        Self {
            size,
            inner: distribution.clone(),
            prototype: distribution,
            cpus: 0,
            idle: 0,
            present: Assignment::new(Vec::new()),
            tried: Vec::new(),
            best: None,
            begun: false,
            settled: size != TeamSize::Auto,
        }
    }

    fn narrow<'a>(&self, workload: &Workload<'a>) -> Workload<'a> {
        Workload { team: Team { cpus: self.cpus, ..workload.team }, ..*workload }
    }

    /// Returns the present assignment in the slots of the whole team.
    fn widen(&self) -> Assignment {
        let slot = |slot: &usize| slot + if *slot < self.cpus { 0 } else { self.idle };
        Assignment::new(self.present.slots().iter().map(slot).collect())
    }

    /// Returns the times in the slots of the smaller team.
    fn narrow_times(&self, workload: &Workload<'_>, times: &Times) -> Times {
        let in_team = |slot: &usize| *slot < self.cpus || workload.team.is_device(*slot);
        let joules = |all: &Vec<f64>| (0..all.len()).filter(in_team).map(|slot| all[slot]).collect();
        Times::of(&self.present, self.cpus + workload.team.devices, times.index_ns.clone())
            .with_energy(times.slot_j.as_ref().map(joules))
    }

    /// Records a measured team; tries the next one or settles on the best.
    fn judge(&mut self, workload: &Workload<'_>, ns: f64) {
        self.tried.push((self.cpus, ns));
        if self.best.as_ref().is_none_or(|best| ns < best.ns) {
            let (inner, present) = (self.inner.clone(), self.present.clone());
            self.best = Some(Best { ns, cpus: self.cpus, inner, present });
        }
        let least = usize::from(workload.team.devices == 0);
        if let Some(cpus) = next(workload.team.cpus, least, &self.tried) {
            (self.cpus, self.inner) = (cpus, self.prototype.clone());
            self.present = self.inner.assign(&self.narrow(workload), None);
        } else if let Some(Best { cpus, inner, present, .. }) = self.best.take() {
            (self.cpus, self.inner, self.present, self.settled) = (cpus, inner, present, true);
        }
    }
}

/// Returns the next team to try, of `all` CPU units and no fewer than `least`.
fn next(all: usize, least: usize, tried: &[(usize, f64)]) -> Option<usize> {
    let untried = |cpus: &usize| (least..=all).contains(cpus) && tried.iter().all(|(other, _)| other != cpus);
    let best = tried.iter().min_by(|one, other| one.1.total_cmp(&other.1))?;
    let coarse = [all, all * 3 / 4, all / 2, all / 4];
    let last = tried.iter().rev().find(|(cpus, _)| coarse.contains(cpus))?;
    if last.1 <= best.1 * (1.0 + WORSE)
        && let Some(next) = coarse.into_iter().find(untried)
    {
        return Some(next);
    }
    let fine = [all / 8, all / 16].into_iter().filter(|step| *step > 0);
    fine.flat_map(|step| [best.0.saturating_sub(step), best.0 + step]).find(untried)
}

impl<D: Distribution + Clone> Distribution for TeamSized<D> {
    fn name(&self) -> &'static str {
        self.prototype.name()
    }

    fn assign(&mut self, workload: &Workload<'_>, measured: Option<&Times>) -> Assignment {
        if !self.begun {
            self.begun = true;
            let least = usize::from(workload.team.devices == 0);
            self.cpus = match self.size {
                TeamSize::Auto => workload.team.cpus,
                TeamSize::Of(cpus) => cpus.max(least).min(workload.team.cpus),
            };
            self.settled |= workload.team.cpus <= least || workload.is_empty();
            self.present = self.inner.assign(&self.narrow(workload), None);
        } else if let Some(times) = measured {
            let times = self.narrow_times(workload, times);
            if !self.inner.is_steady() {
                self.present = self.inner.assign(&self.narrow(workload), Some(&times));
            } else if !self.settled {
                self.judge(workload, times.longest_ns());
            }
        }
        self.idle = workload.team.cpus - self.cpus;
        self.widen()
    }

    fn is_steady(&self) -> bool {
        self.settled && self.inner.is_steady()
    }

    fn search_state(&self) -> State {
        self.inner.search_state()
    }

    /// Returns the bound of the inner distribution, which holds for maps that use this team.
    fn bound(&self) -> Option<LowerBound> {
        self.inner.bound().map(|bound| LowerBound { units: bound.units + self.idle, ..bound })
    }

    fn profiles(&self) -> Option<Known> {
        self.inner.profiles()
    }

    fn shares(&self) -> Option<&SharesInUse> {
        self.inner.shares()
    }

    fn observe(&mut self, workload: &Workload<'_>, measured: &Times) {
        let times = self.narrow_times(workload, measured);
        self.inner.observe(&self.narrow(workload), &times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::{Certified, ClusteredGuided};

    /// Runs until steady on CPU units that slow each other down; returns the time of the last instance and the number
    /// of instances.
    fn settle(
        distribution: &mut impl Distribution,
        workload: &Workload<'_>,
        slowdown: fn(usize) -> f64,
    ) -> (f64, usize) {
        let team = workload.team;
        let mut assignment = distribution.assign(workload, None);
        for instances in 0..1000 {
            let busy = (0..team.cpus).filter(|slot| assignment.slots().contains(slot)).count();
            let time = |(weight, slot): (&f64, &usize)| {
                1e6 * weight * if team.is_device(*slot) { 0.1 } else { slowdown(busy.max(1)) }
            };
            let ns = workload.weights.iter().zip(assignment.slots()).map(time).collect();
            let times = Times::of(&assignment, team.len(), ns);
            if distribution.is_steady() {
                return (times.longest_ns(), instances);
            }
            assignment = distribution.assign(workload, Some(&times));
        }
        panic!("not steady after 1000 instances");
    }

    /// SP-MZ's slowdown: 32 units do the work of 24, and 64 that of 15.
    fn contended(busy: usize) -> f64 {
        1.0 + (busy as f64 / 32.0).powi(3) / 3.0
    }

    #[test]
    fn some_units_stay_idle_if_more_are_slower() {
        let weights = vec![1.0; 1024];
        for devices in [0, 1, 2] {
            let workload = Workload { team: Team { cpus: 62, devices }, weights: &weights, neighbours: None };
            let (all, _) = settle(&mut Certified::default(), &workload, contended);
            let mut sized = TeamSized::new(Certified::default(), TeamSize::Auto);
            let (fewer, instances) = settle(&mut sized, &workload, contended);
            assert!(fewer < 0.9 * all, "{devices} devices: {fewer} after {all}");
            assert!(instances < 80, "{instances}");
            let best = [28, 33, 37, 41, 46].into_iter().map(|cpus| {
                settle(&mut TeamSized::new(Certified::default(), TeamSize::Of(cpus)), &workload, contended).0
            });
            assert!(fewer < 1.05 * best.fold(f64::INFINITY, f64::min), "{devices} devices: {fewer}");
        }
    }

    #[test]
    fn all_units_are_used_if_none_slows_the_others() {
        let weights: Vec<f64> = (0..200).map(|at| f64::from(at % 7 + 1)).collect();
        for (cpus, devices) in [(8, 0), (8, 2), (1, 1), (1, 0), (0, 2)] {
            let workload = Workload { team: Team { cpus, devices }, weights: &weights, neighbours: None };
            let (plain, _) = settle(&mut ClusteredGuided::default(), &workload, |_| 1.0);
            let (sized, _) =
                settle(&mut TeamSized::new(ClusteredGuided::default(), TeamSize::Auto), &workload, |_| 1.0);
            assert!(sized <= plain * 1.0001, "{cpus} + {devices}: {sized} after {plain}");
        }
    }
}

//! `fpm`: shares of an iteration space from functional performance models, which are learned at run time or known in
//! advance.
//!
//! The size of a share is its sum of weights. Each unit has a time profile and, if its energy is known, an energy
//! profile. Without known profiles, the first instance is divided equally, which gives each unit's profile a first
//! point. Shares are then computed from the points. Running these shares adds further points where they matter, and
//! this repeats until the shares no longer change (partial functional performance models: Zhong et al. 2015). Units get
//! consecutive indices, in slot order.
//!
//! The search ends when the shares do not change, or have not improved for [`PATIENCE`] instances; the best measured
//! shares stay. Before the search ends, the unit with the smallest share is left out once if its share is negligible.
//! Only an instance without that unit shows how much it slows down the other units by sharing memory, links or even
//! cores. Later instances refine the profiles. If their times deviate from the expected ones by more than [`DRIFT`]
//! several times in a row, the search continues.
//!
//! If no energy is known, shares are optimised for time, and [`SharesInUse`] reports this. It does the same when a
//! budget cannot be met.

use super::{FpmError, Profile, Shares, balance, optimise_energy, optimise_energy_within, optimise_time};
use crate::sched::balance::balanced_chunks;
use crate::sched::{Assignment, Chunks, Distribution, Times, Workload};
use std::fmt;

/// Number of instances without progress after which the search keeps the best shares, and of instances with unexpected
/// times after which it resumes.
const PATIENCE: usize = 3;
/// Minimum relative improvement; anything smaller counts as noise.
const PROGRESS: f64 = 0.01;
/// Maximum relative deviation of an instance's time from the expected time.
const DRIFT: f64 = 0.25;
/// Maximum fraction of the total that counts as a negligible share.
const HARDLY_ANYTHING: f64 = 0.1;
/// Maximum number of dynamic-programming steps per decision, which take some milliseconds.
const STEPS: f64 = 2e7;
/// Number of parts into which the sum of weights is divided if weights are not whole numbers.
const PARTS: f64 = (1 << 20) as f64;

/// What the shares are optimised for.
///
/// ```
/// use thalweg::sched::fpm::{Budget, Objective};
/// assert_eq!(Objective::default(), Objective::Time);
/// let _cheap_but_not_twice_as_slow = Objective::Pareto(Budget::OfFastest(2.0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Objective {
    /// Minimises the time at which the last unit ends.
    #[default]
    Time,
    /// Minimises the total dynamic energy of all units.
    Energy,
    /// Minimises dynamic energy within a time budget.
    Pareto(Budget),
}

/// The longest time that an instance may take.
///
/// ```
/// use thalweg::sched::fpm::Budget;
/// assert_eq!(Budget::OfFastest(1.5).seconds(2.0), 3.0);
/// assert_eq!(Budget::Seconds(1.5).seconds(2.0), 1.5);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// The budget in seconds.
    Seconds(f64),
    /// The budget as a multiple of the time that the fastest shares take.
    OfFastest(f64),
}

impl Budget {
    /// Returns the budget in seconds, given the time of the fastest shares.
    pub fn seconds(self, fastest: f64) -> f64 {
        match self {
            Self::Seconds(seconds) => seconds,
            Self::OfFastest(factor) => factor * fastest,
        }
    }
}

/// Profiles known before the program runs: times in seconds and dynamic energies in joules, one per unit name.
///
/// ```
/// use thalweg::sched::fpm::{Known, Profile};
/// let time = ["CPU:4", "CUDA:1"].map(|unit| Profile::new(unit, [(100, 1.0)]).unwrap());
/// let known = Known { energy: vec![time[0].at_watts(60.0)], time: time.into() };
/// assert_eq!(known.energy[0].at(50), 30.0);
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Known {
    /// The time profiles.
    pub time: Vec<Profile>,
    /// The energy profiles.
    pub energy: Vec<Profile>,
}

/// The shares of an iteration space computed from profiles, with the time and energy that the profiles predict.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").scheduler("fpm").build()?;
/// let data: Vec<_> = (0..8).map(|_| rt.scalar(1.0)).collect();
/// let zones = IterationSpace::new("zones", vec![1.0; 8]);
/// for _ in 0..10 {
///     zones.begin();
///     for (index, x) in data.iter().enumerate() {
///         rt.task("double", (x.inout(),)).cpu(|_, (x,)| x[0] *= 2.0).at(&zones, index).submit()?;
///     }
/// }
/// rt.wait()?;
/// let shares = rt.statistics().shares.unwrap();
/// assert_eq!(shares.sizes.iter().sum::<f64>(), 8.0);
/// println!("{shares}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SharesInUse {
    /// The size of each unit's share, as a sum of weights. CPU units come first.
    pub sizes: Vec<f64>,
    /// Predicted time until the last unit ends, in seconds.
    pub time: f64,
    /// Predicted dynamic energy of all units, in joules; `None` if no energy profiles are known.
    pub energy: Option<f64>,
    /// Why the fastest shares are used instead of shares for the requested objective; `None` if the objective is met.
    pub instead: Option<String>,
}

impl fmt::Display for SharesInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.sizes.iter().map(f64::to_string).collect();
        write!(f, "{} of the weights; {:.6} s", sizes.join(" + "), self.time)?;
        if let Some(energy) = self.energy {
            write!(f, " and {energy:.3} J")?;
        }
        write!(f, " expected")?;
        self.instead.as_ref().map_or(Ok(()), |why| write!(f, "; the fastest shares, since {why}"))
    }
}

/// The `fpm` distribution; see the module documentation.
///
/// ```
/// use thalweg::sched::fpm::{Fpm, Objective};
/// use thalweg::sched::{Distribution, Team, Times, Workload};
/// let workload = Workload { team: Team { cpus: 1, devices: 1 }, weights: &[1.0; 8], neighbours: None };
/// let mut distribution = Fpm::new(Objective::Time);
/// let mut assignment = distribution.assign(&workload, None);
/// while !distribution.is_steady() {
///     let ns = assignment.slots().iter().map(|slot| [30.0, 10.0][*slot]).collect();
///     assignment = distribution.assign(&workload, Some(&Times::of(&assignment, 2, ns)));
/// }
/// assert_eq!(assignment.slots(), [0, 0, 1, 1, 1, 1, 1, 1]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Fpm {
    objective: Objective,
    /// Unit names: first those of the CPU units, then those of the device units.
    names: [Vec<String>; 2],
    known: Known,
    slots: Vec<Slot>,
    /// Factor from weights to sizes.
    scale: f64,
    sizes: Vec<u64>,
    present: Assignment,
    best: Option<(Score, Assignment)>,
    budget: Option<f64>,
    in_vain: usize,
    /// Whether this search has already left out a unit.
    left_out: bool,
    steady: bool,
    in_use: Option<SharesInUse>,
}

/// Profiles of the unit in one slot.
#[derive(Debug, Clone, Default)]
struct Slot {
    time: Option<Profile>,
    energy: Option<Profile>,
}

/// An instance's score; lower is better. The flag says whether the instance exceeded the budget, and takes precedence.
type Score = (bool, f64);

impl Fpm {
    /// Creates the distribution without known profiles.
    pub fn new(objective: Objective) -> Self {
        Self { objective, ..Self::default() }
    }

    /// Adds known profiles. The lists name the team's CPU units and device units as they appear in the profiles. If a
    /// team has a different number of units of one kind, the profiles of that kind are not used.
    ///
    /// ```
    /// use thalweg::sched::fpm::{Fpm, Known, Objective, Profile};
    /// use thalweg::sched::{Distribution, Team, Workload};
    /// let time = [("CPU:1", 3.0), ("GPU:1", 1.0)].map(|(unit, s)| Profile::new(unit, [(1, s)]).unwrap());
    /// let known = Known { time: time.into(), ..Known::default() };
    /// let mut fpm = Fpm::new(Objective::Time).with_known(known, vec!["CPU:1".into()], vec!["GPU:1".into()]);
    /// let workload = Workload { team: Team { cpus: 1, devices: 1 }, weights: &[1.0; 8], neighbours: None };
    /// assert_eq!(fpm.assign(&workload, None).slots(), [0, 0, 1, 1, 1, 1, 1, 1]);
    /// ```
    #[must_use]
    pub fn with_known(self, known: Known, cpus: Vec<String>, devices: Vec<String>) -> Self {
        Self { known, names: [cpus, devices], ..self }
    }

    fn begin(&mut self, workload: &Workload<'_>) -> Assignment {
        let total: f64 = workload.weights.iter().sum();
        let is_whole = total < PARTS * PARTS && workload.weights.iter().all(|weight| weight.fract() == 0.0);
        self.scale = if is_whole || total.is_nan() || total <= 0.0 { 1.0 } else { PARTS / total };
        self.sizes = workload.weights.iter().map(|weight| (weight * self.scale).round() as u64).collect();
        let of = |profiles: &[Profile], name: &str| {
            let own = profiles.iter().find(|profile| profile.unit() == name)?;
            Some(own.clone().scaled(self.scale))
        };
        let [cpus, devices] = &self.names;
        for (names, units) in [(cpus, workload.team.cpus), (devices, workload.team.devices)] {
            let known = |name: &String| Slot { time: of(&self.known.time, name), energy: of(&self.known.energy, name) };
            match names.len() == units {
                true => self.slots.extend(names.iter().map(known)),
                false => self.slots.extend(std::iter::repeat_n(Slot::default(), units)),
            }
        }
        let all_known = self.slots.iter().all(|slot| slot.time.is_some());
        if workload.team.len() == 1 || self.sizes.iter().all(|size| *size == 0) {
            self.steady = true;
        } else if all_known && let Some(assignment) = self.decide(workload, None) {
            return assignment;
        }
        balanced_chunks(workload.weights, &vec![1.0; workload.team.len()]).into()
    }

    /// Adds a measured point to each unit's profile, or updates an existing point.
    fn learn(&mut self, assignment: &Assignment, measured: &Times) {
        let sizes = self.loads(assignment);
        let joules = measured.slot_j.as_ref();
        for (slot, known) in self.slots.iter_mut().enumerate().filter(|(slot, _)| sizes[*slot] > 0) {
            let seconds = measured.slot_ns.get(slot).map(|ns| ns / 1e9);
            let values = [seconds, joules.and_then(|joules| joules.get(slot)).copied()];
            for (profile, value) in [&mut known.time, &mut known.energy].into_iter().zip(values) {
                let Some(value) = value else { continue };
                match profile {
                    Some(profile) => profile.refine(sizes[slot], value),
                    None => *profile = Profile::new(format!("slot {slot}"), [(sizes[slot], value)]).ok(),
                }
            }
        }
    }

    fn loads(&self, assignment: &Assignment) -> Vec<u64> {
        let mut loads = vec![0; self.slots.len()];
        assignment.slots().iter().zip(&self.sizes).for_each(|(slot, size)| loads[*slot] += size);
        loads
    }

    /// Returns the unit with the smallest share if this share is negligible and the objective is time. Does so at most
    /// once per search.
    fn leave_out(&mut self, assignment: &Assignment) -> Option<usize> {
        let loads = self.loads(assignment);
        let most = HARDLY_ANYTHING * loads.iter().sum::<u64>() as f64;
        let least = (0..loads.len()).filter(|slot| loads[*slot] > 0).min_by_key(|slot| loads[*slot])?;
        let is_to_be = self.objective == Objective::Time && !self.left_out && loads[least] as f64 <= most;
        self.left_out |= is_to_be;
        is_to_be.then_some(least)
    }

    /// Computes shares from the known profiles. The slot `without` gets nothing. Returns `None` if no other unit has
    /// been measured.
    fn decide(&mut self, workload: &Workload<'_>, without: Option<usize>) -> Option<Assignment> {
        let cpus = workload.team.cpus;
        // A unit that has not run yet is assumed to perform like other units of its kind.
        let like = |slot: usize, of: fn(&Slot) -> Option<&Profile>| {
            let sort = if slot < cpus { &self.slots[..cpus] } else { &self.slots[cpus..] };
            of(&self.slots[slot]).or_else(|| sort.iter().find_map(of)).cloned()
        };
        let is_known = |slot: &usize| like(*slot, |slot| slot.time.as_ref()).is_some();
        let taking_part: Vec<usize> =
            (0..self.slots.len()).filter(|slot| Some(*slot) != without && is_known(slot)).collect();
        let times: Vec<Profile> =
            taking_part.iter().filter_map(|slot| like(*slot, |slot| slot.time.as_ref())).collect();
        let energies: Option<Vec<Profile>> =
            taking_part.iter().map(|slot| like(*slot, |slot| slot.energy.as_ref())).collect();
        let n = self.sizes.iter().sum();
        let grain = self.grain(times.len());
        let Decision { shares, instead, budget } =
            shares(self.objective, &times, energies.as_deref(), n, grain).ok()?;
        self.budget = budget;
        let mut wanted = vec![0; self.slots.len()];
        taking_part.iter().zip(&shares.d).for_each(|(slot, d)| wanted[*slot] = *d);
        let assignment = self.cut(&wanted);
        let loads = self.loads(&assignment);
        let at = |profiles: &[Profile]| -> Vec<f64> {
            taking_part.iter().zip(profiles).map(|(slot, profile)| profile.at(loads[*slot])).collect()
        };
        self.in_use = Some(SharesInUse {
            sizes: loads.iter().map(|load| *load as f64 / self.scale).collect(),
            time: at(&times).into_iter().fold(0.0, f64::max),
            energy: energies.as_deref().map(|energies| at(energies).iter().sum()),
            instead,
        });
        Some(assignment)
    }

    /// Returns the granularity of shares: one index if all weights are equal, otherwise a fraction of the mean weight.
    /// It is raised where needed to keep the dynamic program short.
    fn grain(&self, units: usize) -> u64 {
        let (most, len) = ((STEPS / units.max(1) as f64).sqrt() as u64, self.sizes.len() as u64);
        let total: u64 = self.sizes.iter().sum();
        let first = self.sizes.first().copied().unwrap_or(1).max(1);
        match self.sizes.iter().all(|size| *size == first) {
            true => first * len.div_ceil(most),
            false => total.div_ceil(most.min(8 * len)).max(1),
        }
    }

    /// Assigns consecutive indices to each slot, cutting where the running sum of sizes is closest to the wanted sum.
    fn cut(&self, wanted: &[u64]) -> Assignment {
        let mut sums = vec![0];
        self.sizes.iter().for_each(|size| sums.push(sums[sums.len() - 1] + size));
        let last = wanted.iter().rposition(|wanted| *wanted > 0);
        let (mut first, mut goal) = (0, 0);
        let mut chunk = |(slot, wanted): (usize, &u64)| {
            goal += wanted;
            let above = sums.partition_point(|sum| *sum < goal).min(self.sizes.len());
            let below = above.saturating_sub(1);
            let nearest = if goal - sums[below] < sums[above].abs_diff(goal) { below } else { above };
            let end = match *wanted {
                _ if last == Some(slot) => self.sizes.len(),
                0 => first,
                _ => nearest.max(first),
            };
            std::mem::replace(&mut first, end)..end
        };
        wanted.iter().enumerate().map(&mut chunk).collect::<Chunks>().into()
    }

    /// Scores an instance by the objective.
    fn score(&self, measured: &Times) -> Score {
        let time = measured.longest_ns() / 1e9;
        let expected = self.in_use.as_ref().and_then(|in_use| in_use.energy);
        let energy = measured.slot_j.as_ref().map(|joules| joules.iter().sum()).or(expected);
        match (self.objective, energy) {
            _ if self.in_use.as_ref().is_some_and(|in_use| in_use.instead.is_some()) => (false, time),
            (Objective::Energy, Some(energy)) => (false, energy),
            // There is no budget before the first decision.
            (Objective::Pareto(_), Some(energy)) => {
                (self.budget.is_none_or(|budget| time > budget * (1.0 + PROGRESS)), energy)
            }
            _ => (false, time),
        }
    }
}

/// Returns whether `one` beats `other` by more than noise.
fn is_better(one: Score, other: Score) -> bool {
    match (one.0, other.0) {
        (false, true) => true,
        (true, false) => false,
        _ => one.1 < other.1 * (1.0 - PROGRESS),
    }
}

/// The shares chosen for the next instance.
struct Decision {
    shares: Shares,
    /// Why these are the fastest shares although the objective is not time; `None` otherwise.
    instead: Option<String>,
    /// Maximum time that these shares may take, in seconds.
    budget: Option<f64>,
}

/// Returns the best shares for the objective, or the fastest shares if the objective cannot be met.
fn shares(
    objective: Objective,
    times: &[Profile],
    energies: Option<&[Profile]>,
    n: u64,
    grain: u64,
) -> Result<Decision, FpmError> {
    let fastest = || match times.iter().all(Profile::rises) && grain == 1 {
        true => balance(times, n),
        false => optimise_time(times, n, grain),
    };
    let Some(energies) = energies.filter(|_| objective != Objective::Time) else {
        let why = || "the energy of some unit is not known: it has no power, profile or meter".to_owned();
        let instead = (objective != Objective::Time).then(why);
        return Ok(Decision { shares: fastest()?, instead, budget: None });
    };
    let Objective::Pareto(budget) = objective else {
        return Ok(Decision { shares: optimise_energy(energies, n, grain)?, instead: None, budget: None });
    };
    let fastest = fastest()?;
    let budget = budget.seconds(fastest.time);
    match optimise_energy_within(times, energies, n, grain, budget) {
        Ok(shares) => Ok(Decision { shares, instead: None, budget: Some(budget) }),
        Err(error @ FpmError::Budget { .. }) => {
            Ok(Decision { shares: fastest, instead: Some(error.to_string()), budget: Some(budget) })
        }
        Err(error) => Err(error),
    }
}

impl Distribution for Fpm {
    fn name(&self) -> &'static str {
        "fpm"
    }

    fn assign(&mut self, workload: &Workload<'_>, measured: Option<&Times>) -> Assignment {
        if self.slots.is_empty() {
            self.present = self.begin(workload);
            return self.present.clone();
        }
        let Some(times) = measured else { return self.present.clone() };
        let score = self.score(times);
        let present = std::mem::take(&mut self.present);
        self.learn(&present, times);
        if self.best.as_ref().is_none_or(|(best, _)| is_better(score, *best)) {
            self.best = Some((score, present.clone()));
            self.in_vain = 0;
        } else {
            self.in_vain += 1;
        }
        let next = self.decide(workload, None).unwrap_or_else(|| present.clone());
        let stays = next == present;
        self.steady = stays || self.in_vain >= PATIENCE;
        if self.steady
            && let Some(least) = self.leave_out(&next)
            && let Some(others) = self.decide(workload, Some(least))
        {
            (self.steady, self.in_vain, self.present) = (false, 0, others);
            return self.present.clone();
        }
        self.present = match self.best.take_if(|_| self.steady) {
            Some((best, assignment)) if !stays || is_better(best, score) => assignment,
            _ => next,
        };
        if self.steady {
            self.in_vain = 0;
        }
        self.present.clone()
    }

    fn is_steady(&self) -> bool {
        self.steady
    }

    fn shares(&self) -> Option<&SharesInUse> {
        self.in_use.as_ref()
    }

    /// Returns the profiles if all weights are whole numbers, because profile sizes must be whole. If several units
    /// share a name, the profile of the first one is returned.
    fn profiles(&self) -> Option<Known> {
        let names = self.names.concat();
        if self.scale != 1.0 || names.len() != self.slots.len() {
            return None;
        }
        let mut known = self.known.clone();
        for (at, (name, slot)) in names.iter().zip(&self.slots).enumerate() {
            for (learned, profiles) in [(&slot.time, &mut known.time), (&slot.energy, &mut known.energy)] {
                let Some(learned) = learned.clone().filter(|_| !names[..at].contains(name)) else { continue };
                profiles.retain(|profile| profile.unit() != name);
                profiles.push(learned.named(name.clone()));
            }
        }
        Some(known)
    }

    fn observe(&mut self, _: &Workload<'_>, measured: &Times) {
        if self.slots.len() < 2 {
            return;
        }
        let loads = self.loads(&self.present);
        let expected = |(slot, load): (&Slot, &u64)| slot.time.as_ref().map_or(0.0, |profile| profile.at(*load));
        let expected = self.slots.iter().zip(&loads).map(expected).fold(0.0, f64::max);
        let time = measured.longest_ns() / 1e9;
        self.in_vain = if (time - expected).abs() > DRIFT * expected { self.in_vain + 1 } else { 0 };
        if self.in_vain >= PATIENCE {
            (self.in_vain, self.steady, self.left_out) = (0, false, false);
        } else if self.in_vain == 0 {
            let present = self.present.clone();
            self.learn(&present, measured);
        }
    }
}

#[cfg(test)]
mod tests;

//! Shares of an iteration space for each kind of unit, and the lower bound on the time of all maps.
//!
//! For divisible indices and units that differ by a factor, the optimum is known: the indices that gain most from a
//! device go to devices, until CPU units and devices end at the same time.
//!
//! The bound is the dual of that optimum. Let p(i, u) be the time of index i on unit u, and λ(u) ≥ 0 numbers that add
//! up to 1. A map that takes the time T has `T ≥ Σ_u λ(u) · load(u) ≥ Σ_i min_u λ(u) · p(i, u)`. This holds for any λ
//! and any p, so a poor choice of λ makes the bound low, but never wrong. It is the dual of the linear program of
//! Lenstra et al. 1990.

use super::times::{Estimates, kinds};

/// Gains within this factor count as equal, so that measurement noise does not scatter the indices.
const ALIKE: f64 = 1.25;

/// The time of a map, with a lower bound for all maps.
///
/// Times are those measured with `busy` units at work. If fewer units are faster, because they share less, a map that
/// leaves some idle can take less than the bound. If [`is_measured`](Self::is_measured) does not hold, some index has
/// not run on some unit. Its time there, and so the bound, is estimated.
///
/// ```
/// use thalweg::sched::LowerBound;
/// let bound = LowerBound { longest_ns: 102, least_ns: 100, measured: 24, pairs: 24, busy: 3, units: 3 };
/// assert_eq!(bound.to_string(), "within 2.0 % of the optimum with all units busy");
/// let bound = LowerBound { measured: 12, busy: 2, ..bound };
/// assert_eq!(
///     bound.to_string(),
///     "within an estimated 2.0 % of the optimum with 2 of 3 units busy (measured: 12 of 24 times)"
/// );
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LowerBound {
    /// Time of the unit that took longest, in nanoseconds.
    pub longest_ns: u64,
    /// Lower bound on the time of any map, in nanoseconds.
    pub least_ns: u64,
    /// The number of pairs of an index and a unit whose time has been measured.
    pub measured: usize,
    /// The number of all pairs of an index and a busy unit.
    pub pairs: usize,
    /// The number of units that the maps use.
    pub busy: usize,
    /// The number of units that can run the indices.
    pub units: usize,
}

impl LowerBound {
    /// Returns whether each index has been measured on each unit that the maps use. Otherwise, the bound is estimated.
    pub fn is_measured(&self) -> bool {
        self.measured >= self.pairs
    }

    /// Returns the maximum fraction by which the map's time may exceed the optimum.
    pub fn gap(&self) -> f64 {
        if self.least_ns == 0 {
            return 0.0;
        }
        (self.longest_ns as f64 / self.least_ns as f64 - 1.0).max(0.0)
    }
}

impl std::fmt::Display for LowerBound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let estimated = if self.is_measured() { "" } else { "an estimated " };
        write!(f, "within {estimated}{:.1} % of the optimum with ", 100.0 * self.gap())?;
        match (self.busy, self.units) {
            (busy, units) if busy == units => write!(f, "all units busy")?,
            (busy, units) => write!(f, "{busy} of {units} units busy")?,
        }
        if !self.is_measured() {
            write!(f, " (measured: {} of {} times)", self.measured, self.pairs)?;
        }
        Ok(())
    }
}

/// Returns the indices in the order in which they are given to devices.
fn order(ns: &[[f64; 2]], key: impl Fn(f64) -> f64) -> Vec<usize> {
    let gain = |index: usize| key(ns[index][0] / ns[index][1]);
    let mut order: Vec<usize> = (0..ns.len()).collect();
    order.sort_by(|one, other| gain(*other).total_cmp(&gain(*one)).then(other.cmp(one)));
    order
}

/// Returns, for each index, whether it goes to a device. Takes indices from the front of the order until the two kinds
/// end at the same time, as closely as whole indices allow.
pub(super) fn on_device(estimates: &Estimates<'_>) -> Vec<bool> {
    let (ns, team, [cpu_speed, device_speed]) = (&estimates.kind_ns, estimates.team, estimates.speeds());
    let mut on_device = vec![team.cpus == 0; ns.len()];
    if team.cpus == 0 || team.devices == 0 {
        return on_device;
    }
    let mut cpus = ns.iter().map(|ns| ns[0]).sum::<f64>() / cpu_speed;
    let mut devices = 0.0;
    for index in order(ns, |gain| (gain.ln() / ALIKE.ln()).round()) {
        let [on_cpu, on_device_ns] = [ns[index][0] / cpu_speed, ns[index][1] / device_speed];
        if (devices + on_device_ns).max(cpus - on_cpu) >= cpus.max(devices) {
            break;
        }
        (cpus, devices) = (cpus - on_cpu, devices + on_device_ns);
        on_device[index] = true;
    }
    on_device
}

/// Returns the gain of the index that divisible work would divide between the two kinds.
fn gain_at_the_border(ns: &[[f64; 2]], [cpu_speed, device_speed]: [f64; 2]) -> f64 {
    let (mut left, mut taken, mut gain) = (ns.iter().map(|ns| ns[0]).sum::<f64>() / cpu_speed, 0.0, 1.0);
    for index in order(ns, |gain| gain) {
        gain = ns[index][0] / ns[index][1];
        left -= ns[index][0] / cpu_speed;
        taken += ns[index][1] / device_speed;
        if taken >= left {
            break;
        }
    }
    gain
}

/// Returns a lower bound on the time of any map: the larger of the dual bound and the longest index on the unit where
/// it takes least.
pub(super) fn least_ns(estimates: &Estimates<'_>) -> f64 {
    let (ns, team, speeds) = (&estimates.kind_ns, estimates.team, estimates.speeds());
    let of_kind = match (team.cpus, team.devices) {
        (_, 0) => [1.0, 0.0],
        (0, _) => [0.0, 1.0],
        _ => {
            // Both kinds are equally good for the index at the border.
            let devices = gain_at_the_border(ns, speeds) * speeds[1] / speeds[0];
            [1.0 / (1.0 + devices), devices / (1.0 + devices)]
        }
    };
    let mut weights: Vec<f64> = vec![0.0; team.len()];
    for ((slots, share), speed) in kinds(team).into_iter().zip(of_kind).zip(speeds) {
        slots.for_each(|slot| weights[slot] = share / (estimates.factors[slot] * speed));
    }
    let least = |index: usize, weight: &dyn Fn(usize) -> f64| {
        (0..team.len()).map(|slot| weight(slot) * estimates.ns(index, slot)).fold(f64::INFINITY, f64::min)
    };
    let dual = (0..ns.len()).map(|index| least(index, &|slot| weights[slot])).sum::<f64>();
    (0..ns.len()).map(|index| least(index, &|_| 1.0)).fold(dual, f64::max)
}

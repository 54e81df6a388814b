//! Shares of an iteration space for each unit kind, and the lower bound that follows from them.
//!
//! With divisible indices the optimum is known: the indices that gain most from a device go to devices, until CPU units
//! and devices end at the same time. Indivisible indices cannot take less time.

use crate::sched::Team;

/// Gains within this factor count as equal, so that measurement noise does not scatter the indices.
const ALIKE: f64 = 1.25;

/// The time of a map, with a lower bound for all maps that keep all units busy.
///
/// The bound holds for the times that were measured on each kind of unit. For an index that has not run on a kind, it
/// takes an estimate, and for all units of a kind the same time. So another map may take less.
///
/// ```
/// use thalweg::sched::LowerBound;
/// let bound = LowerBound { longest_ns: 102, least_ns: 100 };
/// assert_eq!(bound.to_string(), "within 2.0 % of the optimum with all units busy, by estimated times");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LowerBound {
    /// Time of the unit that took longest, in nanoseconds.
    pub longest_ns: u64,
    /// Lower bound on the time of any map, in nanoseconds, by estimated times.
    pub least_ns: u64,
}

impl LowerBound {
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
        write!(f, "within {:.1} % of the optimum with all units busy, by estimated times", 100.0 * self.gap())
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
pub(super) fn on_device(ns: &[[f64; 2]], team: Team) -> Vec<bool> {
    let mut on_device = vec![team.cpus == 0; ns.len()];
    if team.cpus == 0 || team.devices == 0 {
        return on_device;
    }
    let mut cpus = ns.iter().map(|ns| ns[0]).sum::<f64>() / team.cpus as f64;
    let mut devices = 0.0;
    for index in order(ns, |gain| (gain.ln() / ALIKE.ln()).round()) {
        let [on_cpu, on_device_ns] = [ns[index][0] / team.cpus as f64, ns[index][1] / team.devices as f64];
        if (devices + on_device_ns).max(cpus - on_cpu) >= cpus.max(devices) {
            break;
        }
        (cpus, devices) = (cpus - on_cpu, devices + on_device_ns);
        on_device[index] = true;
    }
    on_device
}

/// Returns a lower bound on the time of any map: the larger of the optimum with divisible indices and the longest index
/// on the kind where it takes least.
pub(super) fn least_ns(ns: &[[f64; 2]], team: Team) -> f64 {
    let longest = |shortest: &dyn Fn(&[f64; 2]) -> f64| ns.iter().map(shortest).fold(0.0, f64::max);
    match (team.cpus, team.devices) {
        (0, devices) => longest(&|ns| ns[1]).max(ns.iter().map(|ns| ns[1]).sum::<f64>() / devices.max(1) as f64),
        (cpus, 0) => longest(&|ns| ns[0]).max(ns.iter().map(|ns| ns[0]).sum::<f64>() / cpus as f64),
        (cpus, devices) => {
            let (cpus, devices) = (cpus as f64, devices as f64);
            let (mut left, mut taken) = (ns.iter().map(|ns| ns[0]).sum::<f64>() / cpus, 0.0);
            for index in order(ns, |gain| gain) {
                let [on_cpu, on_device] = [ns[index][0] / cpus, ns[index][1] / devices];
                if taken + on_device >= left - on_cpu {
                    // Only a part of this index goes to devices, so that both kinds end at the same time.
                    let part = ((left - taken) / (on_cpu + on_device)).clamp(0.0, 1.0);
                    taken += part * on_device;
                    left -= part * on_cpu;
                    break;
                }
                (left, taken) = (left - on_cpu, taken + on_device);
            }
            left.max(taken).max(longest(&|ns| ns[0].min(ns[1])))
        }
    }
}

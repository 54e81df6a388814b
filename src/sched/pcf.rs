//! The performance conversion factor (PCF): how many times longer a CPU unit takes than a device unit for the same task
//! (González Tallada 2024 (slides); González Tallada & Morancho 2024, §4.3).
//!
//! The PCF is given by the user or measured in a first instance. It is always finite and above 0.

use super::{Times, Workload};

/// Where a PCF comes from.
///
/// ```
/// use thalweg::sched::{Distribution, Pcf, StaticPcf, Team, Workload};
/// let workload = Workload { team: Team { cpus: 1, devices: 1 }, weights: &[1.0; 4], neighbours: None };
/// let mut distribution = StaticPcf::new(Pcf::Profiled);
/// assert_eq!(distribution.assign(&workload, None).slots(), [0, 0, 1, 1]); // to be measured first
/// assert!(!distribution.is_steady());
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pcf {
    /// Given by the user.
    Given(f64),
    /// Measured in the first instance, which is run under `static`.
    Profiled,
}

impl Pcf {
    /// Returns the PCF, or `None` until it is known.
    pub(crate) fn value(self, workload: &Workload<'_>, measured: Option<&Times>) -> Option<f64> {
        match self {
            Self::Given(pcf) => Some(pcf),
            Self::Profiled => measured.map(|times| profiled(workload, times)),
        }
    }
}

/// Returns the PCF of an instance: the time per weight on CPU units divided by that on device units.
///
/// With equal weights this is the quotient of average task times used in the sources (González Tallada & Morancho 2024,
/// tables 3 and 4). With unequal weights the result does not depend on which unit got the large tasks. Returns 1 if one
/// of the two kinds ran nothing.
///
/// ```
/// use thalweg::sched::{Assignment, Team, Times, Workload, profiled_pcf, static_chunks};
/// let workload = Workload { team: Team { cpus: 1, devices: 1 }, weights: &[1.0, 1.0, 2.0, 2.0], neighbours: None };
/// let times = Times::of(&static_chunks(4, 2).into(), 2, vec![30.0, 30.0, 15.0, 15.0]);
/// assert_eq!(profiled_pcf(&workload, &times), 4.0);
/// ```
pub fn profiled(workload: &Workload<'_>, measured: &Times) -> f64 {
    let (mut ns, mut weight) = ([0.0; 2], [0.0; 2]);
    for ((slot, index_ns), index_weight) in measured.slot.iter().zip(&measured.index_ns).zip(workload.weights) {
        let kind = usize::from(workload.team.is_device(*slot));
        ns[kind] += index_ns;
        weight[kind] += index_weight;
    }
    let pcf = (ns[0] / weight[0]) / (ns[1] / weight[1]);
    if pcf.is_finite() && pcf > 0.0 { pcf } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::{Assignment, Team};

    /// In González Tallada & Morancho 2024, table 4 is table 3 divided by its first line (BT-MZ, 16 × 1: 64.75 ms and
    /// 2.96 ms give 21.91 in table 4).
    #[test]
    fn factors_of_table_4_follow_from_the_times_of_table_3() {
        let workload = Workload { team: Team { cpus: 16, devices: 1 }, weights: &[1.0; 34], neighbours: None };
        let slots: Vec<usize> = (0..34).map(|index| index / 2).collect();
        for (cpu_ms, device_ms, pcf) in
            [(64.75, 2.96, 21.91), (69.19, 2.96, 23.41), (87.66, 2.96, 29.66), (102.5, 2.96, 34.69)]
        {
            let times = |slot| if slot < 16 { cpu_ms } else { device_ms };
            let assignment = Assignment::new(slots.clone());
            let measured = Times::of(&assignment, 17, slots.iter().map(|slot| times(*slot)).collect());
            let found = profiled(&workload, &measured);
            assert!((found / pcf - 1.0).abs() < 0.005, "{found} instead of {pcf}");
        }
    }

    #[test]
    fn factor_is_one_if_a_kind_is_missing() {
        let workload = Workload { team: Team { cpus: 2, devices: 0 }, weights: &[1.0; 2], neighbours: None };
        let measured = Times::of(&Assignment::new(vec![0, 1]), 2, vec![5.0, 5.0]);
        assert_eq!(profiled(&workload, &measured), 1.0);
    }
}

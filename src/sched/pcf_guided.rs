//! `pcf-guided`: starts with equal chunks, then converts the measured index times by the PCF between unit kinds and
//! divides them evenly (González Tallada 2024 (slides), "PCF-GUIDED scheduler").
//!
//! The slide adds up "all task execution times factorized with PCF" (ALL-WORK), divides the sum by the number of units
//! (WORK-CU = ALL-WORK / NCU) and keeps every unit's work close to the quotient. There are two readings:
//! - Ours: a time on a device counts PCF times, which converts it to the time on a CPU unit, and a device unit counts
//!   as PCF units. So all units end at the same time.
//! - `literal`: the same converted times, but WORK-CU as printed. Every unit gets equal converted work, so a device
//!   takes 1/PCF of the time. With PCF = 1 the two readings agree.
//!
//! Both readings deviate from the slide in two ways: "close to" means the optimal cut into consecutive chunks
//! (`balance.rs`), and the search ends after as many steps without gain as there are units, with the best measured
//! chunks. So an index that moves from one kind to the other is expected to take its time on the new kind, which the
//! guided step of González Tallada & Morancho 2024, §5.1.1, ignores.

use super::balance::balanced_chunks;
use super::guided::Descent;
use super::static_chunks::static_chunks;
use super::{Assignment, Distribution, Pcf, Times, Workload};

/// The `pcf-guided` distribution; see the module documentation.
///
/// ```
/// use thalweg::sched::{Distribution, Pcf, PcfGuided, Team, Times, Workload};
/// let workload = Workload { team: Team { cpus: 1, devices: 1 }, weights: &[1.0; 4], neighbours: None };
/// let mut distribution = PcfGuided::new(Pcf::Given(3.0));
/// let first = distribution.assign(&workload, None);
/// assert_eq!(first.slots(), [0, 0, 1, 1]);
/// let times = Times::of(&first, 2, vec![30.0, 30.0, 10.0, 10.0]);
/// assert_eq!(distribution.assign(&workload, Some(&times)).slots(), [0, 1, 1, 1]);
/// ```
#[derive(Debug, Clone)]
pub struct PcfGuided {
    pcf: Pcf,
    literal: bool,
    known: Option<f64>,
    descent: Descent,
}

impl PcfGuided {
    /// Creates the distribution with this PCF.
    pub fn new(pcf: Pcf) -> Self {
        Self { pcf, literal: false, known: None, descent: Descent::default() }
    }

    /// Selects the literal reading: every unit gets ALL-WORK / NCU, as on the slide.
    ///
    /// ```
    /// use thalweg::sched::{Distribution, Pcf, PcfGuided, Team, Times, Workload};
    /// let workload = Workload { team: Team { cpus: 1, devices: 1 }, weights: &[1.0; 4], neighbours: None };
    /// let mut distribution = PcfGuided::new(Pcf::Given(3.0)).literal();
    /// let times = Times::of(&distribution.assign(&workload, None), 2, vec![30.0, 30.0, 10.0, 10.0]);
    /// assert_eq!(distribution.assign(&workload, Some(&times)).slots(), [0, 0, 1, 1]); // 60 each when converted
    /// ```
    #[must_use]
    pub fn literal(self) -> Self {
        Self { literal: true, ..self }
    }
}

impl Distribution for PcfGuided {
    fn name(&self) -> &'static str {
        "pcf-guided"
    }

    fn assign(&mut self, workload: &Workload<'_>, measured: Option<&Times>) -> Assignment {
        let team = workload.team;
        match measured.filter(|_| !self.descent.chunks.is_empty()) {
            None => self.descent = Descent::from(static_chunks(workload.len(), team.len()), team.len()),
            Some(times) => {
                let pcf = *self.known.get_or_insert(self.pcf.value(workload, measured).unwrap_or(1.0));
                let speed = |slot: usize| if team.is_device(slot) { pcf } else { 1.0 };
                let converted: Vec<f64> =
                    times.index_ns.iter().zip(&times.slot).map(|(ns, slot)| ns * speed(*slot)).collect();
                let share = |slot: usize| if self.literal { 1.0 } else { speed(slot) };
                let next = balanced_chunks(&converted, &(0..team.len()).map(share).collect::<Vec<_>>());
                self.descent.go(times.longest_ns(), next);
            }
        }
        self.descent.chunks.clone().into()
    }

    fn is_steady(&self) -> bool {
        self.descent.steady
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::Team;

    /// Returns times for devices that are four times as fast.
    fn measured(assignment: &Assignment, weights: &[f64], team: Team) -> Times {
        let time = |(weight, slot): (&f64, &usize)| weight / if team.is_device(*slot) { 4.0 } else { 1.0 };
        Times::of(assignment, team.len(), weights.iter().zip(assignment.slots()).map(time).collect())
    }

    #[test]
    fn equal_chunks_are_balanced_in_one_step() {
        let (team, weights) = (Team { cpus: 2, devices: 1 }, [2.0; 24]);
        for pcf in [Pcf::Given(4.0), Pcf::Profiled] {
            let workload = Workload { team, weights: &weights, neighbours: None };
            let mut distribution = PcfGuided::new(pcf);
            let first = distribution.assign(&workload, None);
            assert_eq!(first.loads(3, &weights), [16.0; 3]);
            let second = distribution.assign(&workload, Some(&measured(&first, &weights, team)));
            assert_eq!(second.loads(3, &weights), [8.0, 8.0, 32.0], "8 ns each");
            assert!(!distribution.is_steady());
            let third = distribution.assign(&workload, Some(&measured(&second, &weights, team)));
            assert_eq!((third == second, distribution.is_steady()), (true, true));
        }
    }

    #[test]
    fn literal_reading_gives_equal_converted_work() {
        let (team, weights) = (Team { cpus: 2, devices: 1 }, [2.0; 24]);
        let workload = Workload { team, weights: &weights, neighbours: None };
        let mut distribution = PcfGuided::new(Pcf::Given(4.0)).literal();
        let first = distribution.assign(&workload, None);
        let second = distribution.assign(&workload, Some(&measured(&first, &weights, team)));
        assert_eq!(second.loads(3, &weights), [16.0; 3], "16 each, which the device has done in 4");
    }

    #[test]
    fn wrong_factor_ends_with_the_best_measured_chunks() {
        let (team, weights) = (Team { cpus: 1, devices: 1 }, [1.0; 20]);
        let workload = Workload { team, weights: &weights, neighbours: None };
        let mut distribution = PcfGuided::new(Pcf::Given(0.25));
        let mut assignment = distribution.assign(&workload, None);
        for _ in 0..10 {
            let times = measured(&assignment, &weights, team);
            assignment = distribution.assign(&workload, Some(&times));
        }
        assert!(distribution.is_steady());
        assert!(measured(&assignment, &weights, team).slot_ns.iter().all(|ns| *ns <= 10.0), "no worse than static");
    }
}

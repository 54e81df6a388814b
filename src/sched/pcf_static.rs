//! `pcf-static`: divides the indices into two parts by the PCF alone, each cut into equal chunks (González Tallada 2024
//! (slides), "PCF-STATIC scheduler").
//!
//! Unlike in `static-pcf` (González Tallada & Morancho 2024), the size of the parts does not depend on the number of
//! units of each kind, because here the PCF is the ratio between the two clusters. If there are as many CPU units as
//! device units, the two distributions nearly agree.

use super::static_chunks::{clustered_chunks, static_chunks};
use super::{Assignment, Distribution, Pcf, Times, Workload};

/// Returns CPU-TASKS as defined in González Tallada 2024 (slides): `tasks` = (PCF + 1) × CPU-TASKS, rounded down.
///
/// ```
/// assert_eq!(thalweg::sched::pcf_static_cpu_tasks(16, 2.0), 5); // the slides' example
/// ```
pub fn cpu_tasks(tasks: usize, pcf: f64) -> usize {
    ((tasks as f64 / (pcf + 1.0) + 1e-9).floor() as usize).min(tasks)
}

/// The distribution based on [`cpu_tasks`].
///
/// ```
/// use thalweg::sched::{Distribution, Pcf, PcfStatic, Team, Workload};
/// let workload = Workload { team: Team { cpus: 1, devices: 1 }, weights: &[1.0; 8], neighbours: None };
/// let mut distribution = PcfStatic::new(Pcf::Given(3.0));
/// assert_eq!(distribution.assign(&workload, None).slots(), [0, 0, 1, 1, 1, 1, 1, 1]);
/// ```
#[derive(Debug, Clone)]
pub struct PcfStatic {
    pcf: Pcf,
    steady: bool,
}

impl PcfStatic {
    /// Creates the distribution with this PCF.
    pub fn new(pcf: Pcf) -> Self {
        Self { pcf, steady: false }
    }
}

impl Distribution for PcfStatic {
    fn name(&self) -> &'static str {
        "pcf-static"
    }

    fn assign(&mut self, workload: &Workload<'_>, measured: Option<&Times>) -> Assignment {
        let (len, team) = (workload.len(), workload.team);
        let Some(pcf) = self.pcf.value(workload, measured) else { return static_chunks(len, team.len()).into() };
        self.steady = true;
        let of_cpus = match (team.cpus, team.devices) {
            (0, _) => 0,
            (_, 0) => len,
            _ => cpu_tasks(len, pcf),
        };
        clustered_chunks(len, of_cpus, workload).into()
    }

    fn is_steady(&self) -> bool {
        self.steady
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::Team;

    fn loads(tasks: usize, cpus: usize, devices: usize, pcf: f64) -> Vec<f64> {
        let weights = vec![1.0; tasks];
        let workload = Workload { team: Team { cpus, devices }, weights: &weights, neighbours: None };
        PcfStatic::new(Pcf::Given(pcf)).assign(&workload, None).loads(cpus + devices, &weights)
    }

    /// Example from González Tallada 2024 (slides): 16 tasks, two units of each kind, PCF = 2: <0,2> <3,4> <5,10>
    /// <11,15>.
    #[test]
    fn example_of_the_slides_is_reproduced() {
        let workload = Workload { team: Team { cpus: 2, devices: 2 }, weights: &[1.0; 16], neighbours: None };
        let assignment = PcfStatic::new(Pcf::Given(2.0)).assign(&workload, None);
        assert_eq!(assignment.slots(), [0, 0, 0, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3]);
    }

    #[test]
    fn units_of_one_kind_get_everything() {
        assert_eq!(loads(6, 3, 0, 4.0), [2.0, 2.0, 2.0]);
        assert_eq!(loads(6, 0, 2, 4.0), [3.0, 3.0]);
        assert_eq!(loads(1, 1, 1, 4.0), [0.0, 1.0]);
    }
}

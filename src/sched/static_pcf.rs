//! `static-pcf`: divides indices between devices and CPU units in the ratio of their speeds. Within each kind, all
//! units get equal chunks (González Tallada & Morancho 2024, §4.3).

use super::static_chunks::{clustered_chunks, static_chunks};
use super::{Assignment, Distribution, Pcf, Team, Times, Workload};

/// Returns T_gpu of González Tallada & Morancho 2024, §4.3: the number of `tasks` equal tasks that the device units
/// get if they are `pcf` times as fast as CPU units.
///
/// Tasks are divided into groups of N_gpu·PCF + N_cpu, and the devices get N_gpu·PCF of each group. The remaining tasks
/// do not fill a group; the devices get at most as many of them as of a full group. A PCF need not be whole, and the
/// article does not say how to round the result, so we round to the nearest whole number.
///
/// ```
/// use thalweg::sched::{Team, static_pcf_device_tasks};
/// // The article's example: 40 tasks, one unit of each kind, PCF = 4: groups of five.
/// assert_eq!(static_pcf_device_tasks(40, Team { cpus: 1, devices: 1 }, 4.0), 32);
/// // LU-MZ with 16 zones on 1×16 + 2 units and table 4's PCF: one zone is left for the CPU unit (§5.1.3).
/// assert_eq!(static_pcf_device_tasks(16, Team { cpus: 1, devices: 2 }, 6.74), 15);
/// ```
pub fn device_tasks(tasks: usize, team: Team, pcf: f64) -> usize {
    if team.cpus == 0 || team.devices == 0 {
        return if team.devices == 0 { 0 } else { tasks };
    }
    let of_devices = team.devices as f64 * pcf;
    let group = of_devices + team.cpus as f64;
    // Adds a small tolerance because rounding errors must not lose a whole group.
    let groups = (tasks as f64 / group + 1e-9).floor();
    let rest = (tasks as f64 - groups * group).max(0.0);
    ((groups * of_devices + rest.min(of_devices)).round() as usize).min(tasks)
}

/// The distribution based on [`device_tasks`].
///
/// ```
/// use thalweg::sched::{Distribution, Pcf, StaticPcf, Team, Workload};
/// let workload = Workload { team: Team { cpus: 1, devices: 1 }, weights: &[1.0; 8], neighbours: None };
/// let mut distribution = StaticPcf::new(Pcf::Given(3.0));
/// assert_eq!(distribution.assign(&workload, None).slots(), [0, 0, 1, 1, 1, 1, 1, 1]);
/// ```
#[derive(Debug, Clone)]
pub struct StaticPcf {
    pcf: Pcf,
    steady: bool,
}

impl StaticPcf {
    /// Creates the distribution with this PCF.
    pub fn new(pcf: Pcf) -> Self {
        Self { pcf, steady: false }
    }
}

impl Distribution for StaticPcf {
    fn name(&self) -> &'static str {
        "static-pcf"
    }

    fn assign(&mut self, workload: &Workload<'_>, measured: Option<&Times>) -> Assignment {
        let (len, team) = (workload.len(), workload.team);
        let Some(pcf) = self.pcf.value(workload, measured) else { return static_chunks(len, team.len()).into() };
        self.steady = true;
        clustered_chunks(len, len - device_tasks(len, team, pcf), workload).into()
    }

    fn is_steady(&self) -> bool {
        self.steady
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_tasks_follow_the_formula() {
        let tasks = |tasks, cpus, devices, pcf| device_tasks(tasks, Team { cpus, devices }, pcf);
        assert_eq!(tasks(44, 1, 1, 4.0), 36, "the remaining four go to the device");
        assert_eq!(tasks(3, 1, 1, 4.0), 3, "less than a group: all of them");
        assert_eq!(tasks(5, 3, 1, 1.0), 2, "at most a group's part of the remainder");
        assert_eq!(tasks(40, 0, 2, 4.0), 40);
        assert_eq!(tasks(40, 2, 0, 4.0), 0);
        assert_eq!(tasks(0, 1, 1, 4.0), 0);
        assert_eq!(tasks(1024, 16, 1, 21.91), 592, "BT-MZ, 16×1 + 1: 27 groups of 37.91");
        assert_eq!(tasks(10, 1, 1, 0.1), 1, "devices may be slower");
        assert_eq!(tasks(10, 1, 1, f64::MAX), 10);
    }

    #[test]
    fn factor_is_measured_in_the_first_instance_unless_given() {
        let workload = Workload { team: Team { cpus: 1, devices: 1 }, weights: &[1.0; 10], neighbours: None };
        let mut distribution = StaticPcf::new(Pcf::Profiled);
        let first = distribution.assign(&workload, None);
        assert_eq!((first.loads(2, &[1.0; 10]), distribution.is_steady()), (vec![5.0, 5.0], false));
        let times = first.slots().iter().map(|slot| if *slot == 0 { 40.0 } else { 10.0 }).collect();
        let second = distribution.assign(&workload, Some(&Times::of(&first, 2, times)));
        assert_eq!((second.loads(2, &[1.0; 10]), distribution.is_steady()), (vec![2.0, 8.0], true));
    }
}

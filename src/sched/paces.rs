//! Devices that are slower or faster than others of their kind.
//!
//! A kernel has one mean time per unit kind, so that a task on one unit tells something about all units of the kind.
//! But a device may be throttled. So each device also has a *factor*: its time as a multiple of its kind's. One number
//! for all kernels is enough, since whatever slows a device down slows down all its tasks, and it follows a change
//! within a few tasks.
//!
//! Only a notable difference counts: a device whose latest times are within [`NOTABLE`] of its kind's has exactly the
//! factor 1, so that noise does not tell devices apart. And only differences within a kind count: if all devices of a
//! kind slow down, the kind's means follow, and factors stay.
//!
//! Cores have no factors. They slow each other down, so a core's times say how many others were busy.

use super::model::KINDS;
use crate::machine::UnitKind;

/// Length of the running mean of a unit's ratios.
const MEMORY: f64 = 8.0;
/// Factor by which a device must differ from its kind.
const NOTABLE: f64 = 1.25;
/// Maximum influence of one task, as a factor: one that is interrupted for long says little about the next.
const MOST: f64 = 8.0;
/// Number of steps per octave of factors.
const STEPS: f64 = 8.0;

/// The factors of all units; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct Paces {
    units: Vec<Pace>,
    kinds: [Kind; KINDS],
}

#[derive(Debug, Clone, Copy)]
struct Pace {
    kind: UnitKind,
    /// Running mean of measured times over the expected times of the kind.
    ratio: f64,
    factor: f64,
}

#[derive(Debug, Clone, Copy)]
struct Kind {
    units: usize,
    /// The median of the units' ratios; of two medians, the smaller.
    usual: f64,
    /// Number of tasks since it was computed.
    tasks: usize,
}

impl Default for Kind {
    fn default() -> Self {
        Self { units: 0, usual: 1.0, tasks: 0 }
    }
}

impl Paces {
    /// Adds a unit. Units are numbered in the order in which they are added.
    pub(super) fn add(&mut self, kind: UnitKind) {
        self.units.push(Pace { kind, ratio: 1.0, factor: 1.0 });
        self.kinds[kind as usize].units += 1;
    }

    /// Returns a unit's time as a multiple of its kind's.
    pub(super) fn factor(&self, unit: usize) -> f64 {
        self.units.get(unit).map_or(1.0, |pace| pace.factor)
    }

    /// Learns that a task took `ratio` times as long as its kernel takes on the unit's kind. Returns whether a factor
    /// has changed.
    pub(super) fn learn(&mut self, unit: usize, ratio: f64) -> bool {
        let Some(pace) = self.units.get_mut(unit).filter(|pace| pace.kind.is_device() && ratio.is_finite()) else {
            return false;
        };
        pace.ratio += (ratio.clamp(1.0 / MOST, MOST) - pace.ratio) / MEMORY;
        let of_unit = pace.kind;
        let kind = &mut self.kinds[of_unit as usize];
        kind.tasks += 1;
        if kind.tasks < kind.units {
            return pace.renew(kind.usual);
        }
        // So the median costs a task no more on a machine with many units.
        let alike = self.units.iter().filter(|pace| pace.kind == of_unit);
        let mut ratios: Vec<f64> = alike.map(|pace| pace.ratio).collect();
        let middle = (ratios.len() - 1) / 2;
        let (_, usual, _) = ratios.select_nth_unstable_by(middle, f64::total_cmp);
        (kind.usual, kind.tasks) = (*usual, 0);
        let alike = self.units.iter_mut().filter(|pace| pace.kind == of_unit);
        alike.fold(false, |changed, pace| pace.renew(kind.usual) | changed)
    }
}

impl Pace {
    /// Recomputes the factor. Returns whether it has changed.
    fn renew(&mut self, usual: f64) -> bool {
        let exact = self.ratio / usual;
        let differs = !(1.0 / NOTABLE..=NOTABLE).contains(&exact);
        let factor = if differs { f64::exp2((exact.log2() * STEPS).round() / STEPS) } else { 1.0 };
        std::mem::replace(&mut self.factor, factor) != factor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices_and_cores() -> Paces {
        let mut paces = Paces::default();
        let [gpu, emulated, cpu] = [UnitKind::Gpu, UnitKind::Emulated, UnitKind::Cpu];
        [gpu, gpu, emulated, emulated, cpu, cpu].into_iter().for_each(|kind| paces.add(kind));
        paces
    }

    #[test]
    fn slow_unit_is_known_after_a_few_tasks_and_forgotten_after_as_many() {
        let mut paces = devices_and_cores();
        let factors = |paces: &Paces| [0, 1, 2, 3, 4].map(|unit| paces.factor(unit));
        for _ in 0..24 {
            paces.learn(0, 4.0);
            paces.learn(1, 1.0);
            paces.learn(2, 1.0);
        }
        assert_eq!(factors(&paces), [4.0, 1.0, 1.0, 1.0, 1.0], "in steps of an eighth of an octave");
        (0..24).for_each(|_| _ = paces.learn(0, 1.0));
        assert_eq!(factors(&paces), [1.0; 5]);
    }

    #[test]
    fn noise_and_changes_of_all_units_leave_factors_as_they_are() {
        let mut paces = devices_and_cores();
        for turn in 0..200 {
            let noise = if turn % 2 == 0 { 0.8 } else { 1.2 };
            paces.learn(0, noise);
            paces.learn(1, noise);
            assert_eq!([0, 1].map(|unit| paces.factor(unit)), [1.0; 2]);
        }
        for turn in 0..64 {
            let unit = 2 + turn % 2;
            paces.learn(unit, 3.0);
        }
        assert_eq!([2, 3].map(|unit| paces.factor(unit)), [1.0; 2], "the kind's means follow");
        paces.learn(2, f64::NAN);
        paces.learn(2, 1e9);
        assert!(paces.factor(2) < 2.0, "one task says little");
    }

    #[test]
    fn cores_have_no_factors() {
        let mut paces = devices_and_cores();
        (0..64).for_each(|_| _ = paces.learn(4, 4.0));
        assert_eq!(paces.factor(4), 1.0);
    }
}

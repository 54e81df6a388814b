//! Task times under load: cores that share a memory slow each other down.
//!
//! For every finished task it is known when the task ran, and thus how many units of its kind were busy meanwhile, on
//! average. A kernel's times are kept separately for each such number. A mean over all of them would not correspond to
//! any actual load: at the end of a time step, when one unit after the other falls idle, it would be far too low.

use crate::ids::UnitId;
use crate::machine::UnitKind;
use crate::sched::kernels::{KernelId, Kernels};

const KINDS: usize = UnitKind::ALL.len();
/// Maximum number of load levels per kind; kinds with more units share levels.
const PARTS: usize = 64;
/// Number of runs after which a mean is preferred to the mean at a lower load.
const ENOUGH: u32 = 4;
/// Length of the running mean: a run weighs at least 1/`MEMORY`.
const MEMORY: u32 = 64;

/// Kernel times by load; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Kind of each unit.
    kinds: Vec<UnitKind>,
    of_kind: [usize; KINDS],
    busy: [usize; KINDS],
    in_flight: Vec<usize>,
    now_ns: u64,
    /// For each kind, the integral of the number of busy units over time, so far.
    spent: [f64; KINDS],
    /// For each unit, the value of `spent` for its kind when its task began.
    began: Vec<f64>,
    by_kernel: Vec<[Vec<Mean>; KINDS]>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    runs: u32,
    ns: f64,
}

impl Load {
    /// Sets the units.
    pub(super) fn units(&mut self, kinds: impl Iterator<Item = UnitKind>) {
        if !self.kinds.is_empty() {
            return;
        }
        self.kinds.extend(kinds);
        self.kinds.iter().for_each(|kind| self.of_kind[*kind as usize] += 1);
        self.in_flight.resize(self.kinds.len(), 0);
        self.began.resize(self.kinds.len(), 0.0);
    }

    /// Returns the kind of a unit; `None` until the units are known.
    pub(super) fn kind(&self, unit: UnitId) -> Option<UnitKind> {
        self.kinds.get(unit.index()).copied()
    }

    /// Notes how many tasks a unit holds now.
    pub(super) fn in_flight(&mut self, unit: UnitId, tasks: usize) {
        let Some(kind) = self.kind(unit) else { return };
        let before = std::mem::replace(&mut self.in_flight[unit.index()], tasks);
        let busy = &mut self.busy[kind as usize];
        match (before, tasks) {
            (0, 1..) => {
                *busy += 1;
                self.began[unit.index()] = self.spent[kind as usize];
            }
            (1.., 0) => *busy -= 1,
            _ => {}
        }
    }

    /// Notes that a task has ended at this time.
    pub(super) fn ended(&mut self, unit: UnitId, now_ns: u64, elapsed_ns: f64, (kernel, work): (KernelId, f64)) {
        let passed = now_ns.saturating_sub(self.now_ns) as f64;
        self.now_ns = self.now_ns.max(now_ns);
        self.spent.iter_mut().zip(self.busy).for_each(|(spent, busy)| *spent += passed * busy as f64);
        let Some(kind) = self.kind(unit) else { return };
        let spent = self.spent[kind as usize];
        let meanwhile = spent - std::mem::replace(&mut self.began[unit.index()], spent);
        let of_kind = self.of_kind[kind as usize];
        let (part, parts) = (meanwhile / elapsed_ns.max(1.0) / of_kind as f64, of_kind.min(PARTS));
        if self.by_kernel.len() <= kernel.index() {
            self.by_kernel.resize_with(kernel.index() + 1, Default::default);
        }
        let means = &mut self.by_kernel[kernel.index()][kind as usize];
        means.resize(parts, Mean::default());
        // A unit that was busy for 0.99 of the time counts as busy throughout.
        let mean = &mut means[((part * parts as f64 + 0.01) as usize).clamp(1, parts) - 1];
        mean.runs = (mean.runs + 1).min(MEMORY);
        mean.ns += (elapsed_ns / work - mean.ns) / f64::from(mean.runs);
    }

    /// Returns the time of this much work on a unit kind at the highest load that was seen [`ENOUGH`] times, or else at
    /// the highest load seen at all. Returns `None` if the kernel has not run on that kind.
    pub(super) fn full_ns(&self, kernel: KernelId, kind: UnitKind, work: f64) -> Option<f64> {
        let parts = &self.by_kernel.get(kernel.index())?[kind as usize];
        let at_least = |runs: u32| parts.iter().rev().find(|mean| mean.runs >= runs);
        at_least(ENOUGH).or_else(|| at_least(1)).map(|mean| mean.ns * work)
    }

    /// Returns [`Self::full_ns`], or the best other estimate.
    pub(super) fn expected_ns(&self, kernels: &Kernels, kernel: KernelId, kind: UnitKind, work: f64) -> f64 {
        let known = self.full_ns(kernel, kind, work).or_else(|| kernels.known_ns(kernel, kind, work));
        known.unwrap_or_else(|| kernels.least_ns(kernel, work))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::Model;

    #[test]
    fn times_under_load_are_distinguished_from_times_alone() {
        let mut kernels = Kernels::default();
        let kernel = kernels.of(&"zone".into(), 0, Some(2.0), &Model::default());
        let mut load = Load::default();
        load.units([UnitKind::Cpu; 4].into_iter());
        let mut now_ns = 0;
        for _ in 0..8 {
            // All four units are busy for 400 ns, then the first unit alone for 100 ns.
            (0..4).for_each(|unit| load.in_flight(UnitId(unit), 1));
            now_ns += 400;
            for unit in 0..4 {
                load.ended(UnitId(unit), now_ns, 400.0, kernel);
                load.in_flight(UnitId(unit), 0);
            }
            load.in_flight(UnitId(0), 1);
            now_ns += 100;
            load.ended(UnitId(0), now_ns, 100.0, kernel);
            load.in_flight(UnitId(0), 0);
        }
        assert_eq!(load.full_ns(kernel.0, UnitKind::Cpu, 2.0), Some(400.0), "the last ones were alone");
        assert_eq!(load.full_ns(kernel.0, UnitKind::Cpu, 1.0), Some(200.0));
        assert_eq!(load.full_ns(kernel.0, UnitKind::Gpu, 1.0), None);
        assert_eq!(load.expected_ns(&kernels, kernel.0, UnitKind::Gpu, 1.0), 1e5, "nothing is known");
    }
}

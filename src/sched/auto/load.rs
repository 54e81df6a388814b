//! What tasks take while units of their kind are busy: cores that share a memory slow each other down.
//!
//! Of every task that has run it is known when, and so how many units of the kind were busy meanwhile, in the mean. A kernel's
//! times are kept by that: a mean over all would be that of no load at all, and at the end of
//! a time step, when one unit after the other falls idle, far too low.

use crate::ids::UnitId;
use crate::machine::UnitKind;
use crate::sched::kernels::{KernelId, Kernels};

const KINDS: usize = UnitKind::ALL.len();
/// By how many parts of a kind's units times are kept, if it has more.
const PARTS: usize = 64;
/// So many runs make a mean that is worth more than that of less load.
const ENOUGH: u32 = 4;
/// So many runs weigh as much as all before.
const MEMORY: u32 = 64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Of each unit.
    kinds: Vec<UnitKind>,
    of_kind: [usize; KINDS],
    busy: [usize; KINDS],
    in_flight: Vec<usize>,
    now_ns: u64,
    /// Busy units times nanoseconds, so far.
    spent: [f64; KINDS],
    /// Of each unit: what was spent when it began its task.
    began: Vec<f64>,
    by_kernel: Vec<[Vec<Mean>; KINDS]>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    runs: u32,
    ns: f64,
}

impl Load {
    /// These are the units.
    pub(super) fn units(&mut self, kinds: impl Iterator<Item = UnitKind>) {
        if !self.kinds.is_empty() {
            return;
        }
        self.kinds.extend(kinds);
        self.kinds.iter().for_each(|kind| self.of_kind[*kind as usize] += 1);
        self.in_flight.resize(self.kinds.len(), 0);
        self.began.resize(self.kinds.len(), 0.0);
    }

    /// The kind of a unit, once units are known.
    pub(super) fn kind(&self, unit: UnitId) -> Option<UnitKind> {
        self.kinds.get(unit.index()).copied()
    }

    /// A unit has so many tasks now.
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

    /// A task has ended at this time.
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
        // 0.99 of a unit's time is all of it.
        let mean = &mut means[((part * parts as f64 + 0.01) as usize).clamp(1, parts) - 1];
        mean.runs = (mean.runs + 1).min(MEMORY);
        mean.ns += (elapsed_ns / work - mean.ns) / f64::from(mean.runs);
    }

    /// What so much work takes on a kind of unit when that is as busy as it has been; nothing if none of it has run there.
    pub(super) fn full_ns(&self, kernel: KernelId, kind: UnitKind, work: f64) -> Option<f64> {
        let parts = &self.by_kernel.get(kernel.index())?[kind as usize];
        let at_least = |runs: u32| parts.iter().rev().find(|mean| mean.runs >= runs);
        at_least(ENOUGH).or_else(|| at_least(1)).map(|mean| mean.ns * work)
    }

    /// As [`Self::full_ns`], or what else is known.
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
    fn times_under_load_are_told_from_those_of_units_that_work_alone() {
        let mut kernels = Kernels::default();
        let kernel = kernels.of(&"zone".into(), 0, Some(2.0), &Model::default());
        let mut load = Load::default();
        load.units([UnitKind::Cpu; 4].into_iter());
        let mut now_ns = 0;
        for _ in 0..8 {
            // All four for 400, then the first alone for 100.
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

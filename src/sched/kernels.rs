//! Task times on each unit kind, by name and size.
//!
//! Tasks with a [`cost`](crate::TaskBuilder::cost) are classified by name, and their time is taken to be proportional
//! to the cost. Other tasks are classified by name and bytes.

use super::Model;
use crate::machine::UnitKind;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::borrow::Cow;

/// Expected time of a task if nothing is known about it.
pub(super) const UNKNOWN_NS: f64 = 1e5;

/// Length of the running mean: a run weighs at least 1/`MEMORY`.
const MEMORY: u32 = 64;
/// Factor by which an estimate must change before task levels are recomputed.
const NOTABLE: f64 = 1.25;

const KINDS: usize = UnitKind::ALL.len();

/// All kernels seen so far.
#[derive(Debug, Default)]
pub(super) struct Kernels {
    /// For each name, its kernels, each with the byte count that distinguishes it; `None` for tasks with a cost.
    by_name: FxHashMap<Cow<'static, str>, SmallVec<[(Option<u64>, KernelId); 1]>>,
    all: Vec<Kernel>,
}

/// The ID of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KernelId(u32);

#[derive(Debug, Default)]
struct Kernel {
    times: [Times; KINDS],
    trials: [u32; KINDS],
}

/// Times of a kernel per unit of work.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    runs: u32,
    mean_ns: f64,
    /// The time that was used to compute levels.
    noted_ns: f64,
}

impl Kernels {
    /// Returns the kernel of a task and its amount of work. A new kernel starts with the times in `model`, unless the
    /// task has a cost, because models do not record costs.
    #[allow(clippy::ptr_arg)] // a static name is kept without a copy
    pub(super) fn of(
        &mut self,
        name: &Cow<'static, str>,
        bytes: u64,
        cost: Option<f64>,
        model: &Model,
    ) -> (KernelId, f64) {
        let cost = cost.filter(|cost| cost.is_finite() && *cost > 0.0);
        let (key, work) = (if cost.is_some() { None } else { Some(bytes) }, cost.unwrap_or(1.0));
        if let Some(known) = self.by_name.get(&**name)
            && let Some((_, kernel)) = known.iter().find(|(other, _)| *other == key)
        {
            return (*kernel, work);
        }
        let id = KernelId(self.all.len() as u32);
        self.by_name.entry(name.clone()).or_default().push((key, id));
        let mut kernel = Kernel::default();
        for kind in UnitKind::ALL {
            if let Some(ns) = model.estimate_ns(name, kind, bytes).filter(|_| cost.is_none()) {
                kernel.times[kind as usize] = Times { runs: 1, mean_ns: ns, noted_ns: ns };
            }
        }
        self.all.push(kernel);
        (id, work)
    }

    /// Learns that this much work took this long. Returns whether the estimate has changed notably.
    pub(super) fn learn(&mut self, KernelId(id): KernelId, kind: UnitKind, work: f64, elapsed_ns: f64) -> bool {
        let times = &mut self.all[id as usize].times[kind as usize];
        times.runs = (times.runs + 1).min(MEMORY);
        times.mean_ns += (elapsed_ns / work - times.mean_ns) / f64::from(times.runs);
        let (less, more) = (times.noted_ns.min(times.mean_ns), times.noted_ns.max(times.mean_ns));
        let notable = more > less * NOTABLE;
        if notable {
            times.noted_ns = times.mean_ns;
        }
        notable
    }

    /// Returns the time of this much work on a unit kind; `None` if the kernel has not run there.
    pub(super) fn known_ns(&self, KernelId(id): KernelId, kind: UnitKind, work: f64) -> Option<f64> {
        let times = &self.all[id as usize].times[kind as usize];
        (times.runs > 0).then_some(times.mean_ns * work)
    }

    /// Returns the time on the fastest unit kind.
    pub(super) fn least_ns(&self, KernelId(id): KernelId, work: f64) -> f64 {
        let known = self.all[id as usize].times.iter().filter(|times| times.runs > 0);
        known.map(|times| times.mean_ns * work).min_by(f64::total_cmp).unwrap_or(UNKNOWN_NS)
    }

    /// Like [`Self::least_ns`], but as of the last notable change.
    pub(super) fn noted_ns(&self, KernelId(id): KernelId, work: f64) -> f64 {
        let known = self.all[id as usize].times.iter().filter(|times| times.runs > 0);
        known.map(|times| times.noted_ns * work).min_by(f64::total_cmp).unwrap_or(UNKNOWN_NS)
    }

    /// Returns the number of unfinished tasks that were given to a unit kind as trials.
    pub(super) fn trials(&mut self, KernelId(id): KernelId, kind: UnitKind) -> &mut u32 {
        &mut self.all[id as usize].trials[kind as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_classed_by_name_and_bytes_or_by_name_and_cost() {
        let (mut kernels, model) = (Kernels::default(), Model::default());
        let mut of = |name: &'static str, bytes, cost| kernels.of(&name.into(), bytes, cost, &model);
        assert_eq!(of("a", 8, None), of("a", 8, None));
        assert_ne!(of("a", 8, None).0, of("a", 16, None).0);
        assert_ne!(of("a", 8, None).0, of("b", 8, None).0);
        assert_eq!((of("a", 8, Some(2.0)).0, of("a", 8, Some(2.0)).1), (of("a", 16, Some(3.0)).0, 2.0));
        assert_eq!(of("a", 8, Some(0.0)), of("a", 8, None), "zero is not a cost");
    }

    #[test]
    fn times_are_learned_in_proportion_to_work() {
        let (mut kernels, mut model) = (Kernels::default(), Model::default());
        model.learn("a", UnitKind::Gpu, 8, 50.0);
        let (kernel, work) = kernels.of(&"a".into(), 8, None, &model);
        assert_eq!((kernels.known_ns(kernel, UnitKind::Gpu, work), work), (Some(50.0), 1.0));
        assert_eq!(kernels.known_ns(kernel, UnitKind::Cpu, work), None);
        let (kernel, work) = kernels.of(&"a".into(), 8, Some(10.0), &model);
        assert_eq!(kernels.known_ns(kernel, UnitKind::Gpu, work), None, "the model does not know the work of that run");
        assert!(kernels.learn(kernel, UnitKind::Cpu, work, 400.0), "new");
        assert!(!kernels.learn(kernel, UnitKind::Cpu, work, 404.0), "hardly a change");
        assert_eq!(kernels.noted_ns(kernel, 2.0), 80.0);
        assert!((kernels.known_ns(kernel, UnitKind::Cpu, 1.0).unwrap() - 40.2).abs() < 1e-9);
        assert!((kernels.least_ns(kernel, 2.0) - 80.4).abs() < 1e-9);
    }
}

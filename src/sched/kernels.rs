//! What tasks take on each kind of unit, by name and size.
//!
//! Of tasks with a [`cost`](crate::TaskBuilder::cost), tasks of one name are alike but for the cost, and time is in
//! proportion to it; of others, those of one name and as many bytes.

use super::Model;
use crate::machine::UnitKind;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::borrow::Cow;

/// How long a task is expected to take of which nothing is known.
pub(super) const UNKNOWN_NS: f64 = 1e5;

/// This many runs weigh as much as all before.
const MEMORY: u32 = 64;
/// By so much an estimate must change for the levels of tasks to be computed again.
const NOTABLE: f64 = 1.25;

const KINDS: usize = UnitKind::ALL.len();

/// All kernels seen.
#[derive(Debug, Clone, Default)]
pub(super) struct Kernels {
    /// With the bytes that tell tasks of one name apart.
    by_name: FxHashMap<Cow<'static, str>, SmallVec<[(Option<u64>, KernelId); 1]>>,
    all: Vec<Kernel>,
}

/// Names a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KernelId(u32);

#[derive(Debug, Clone, Default)]
struct Kernel {
    times: [Times; KINDS],
    trials: [u32; KINDS],
}

/// For one unit of work.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    runs: u32,
    mean_ns: f64,
    /// What levels were computed with.
    noted_ns: f64,
}

impl KernelId {
    /// Among all kernels, from 0.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

impl Kernels {
    /// The kernel of a task, and how much work it is. What `model` knows of a new one is taken over, but not if it has a cost,
    /// of which models know nothing.
    #[allow(clippy::ptr_arg)] // a name that is borrowed for ever is kept without a copy
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

    /// A task of so much work took so long; whether that changes what is expected of others notably.
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

    /// What so much work takes on a kind of unit, if any of it has run there.
    pub(super) fn known_ns(&self, KernelId(id): KernelId, kind: UnitKind, work: f64) -> Option<f64> {
        let times = &self.all[id as usize].times[kind as usize];
        (times.runs > 0).then_some(times.mean_ns * work)
    }

    /// What it takes on the kind of unit on which it takes least.
    pub(super) fn least_ns(&self, KernelId(id): KernelId, work: f64) -> f64 {
        let known = self.all[id as usize].times.iter().filter(|times| times.runs > 0);
        known.map(|times| times.mean_ns * work).min_by(f64::total_cmp).unwrap_or(UNKNOWN_NS)
    }

    /// As [`Self::least_ns`], as of the last notable change.
    pub(super) fn noted_ns(&self, KernelId(id): KernelId, work: f64) -> f64 {
        let known = self.all[id as usize].times.iter().filter(|times| times.runs > 0);
        known.map(|times| times.noted_ns * work).min_by(f64::total_cmp).unwrap_or(UNKNOWN_NS)
    }

    /// Unfinished tasks that were given to a kind of unit to see what they take there.
    pub(super) fn trials(&mut self, KernelId(id): KernelId, kind: UnitKind) -> &mut u32 {
        &mut self.all[id as usize].trials[kind as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_alike_by_name_and_bytes_or_by_name_and_cost() {
        let (mut kernels, model) = (Kernels::default(), Model::default());
        let mut of = |name: &'static str, bytes, cost| kernels.of(&name.into(), bytes, cost, &model);
        assert_eq!(of("a", 8, None), of("a", 8, None));
        assert_ne!(of("a", 8, None).0, of("a", 16, None).0);
        assert_ne!(of("a", 8, None).0, of("b", 8, None).0);
        assert_eq!((of("a", 8, Some(2.0)).0, of("a", 8, Some(2.0)).1), (of("a", 16, Some(3.0)).0, 2.0));
        assert_eq!(of("a", 8, Some(0.0)), of("a", 8, None), "that is no cost");
    }

    #[test]
    fn times_are_learned_in_proportion_to_work() {
        let (mut kernels, mut model) = (Kernels::default(), Model::default());
        model.learn("a", UnitKind::Gpu, 8, 50.0);
        let (kernel, work) = kernels.of(&"a".into(), 8, None, &model);
        assert_eq!((kernels.known_ns(kernel, UnitKind::Gpu, work), work), (Some(50.0), 1.0));
        assert_eq!(kernels.known_ns(kernel, UnitKind::Cpu, work), None);
        let (kernel, work) = kernels.of(&"a".into(), 8, Some(10.0), &model);
        assert_eq!(kernels.known_ns(kernel, UnitKind::Gpu, work), None, "of how much work that was is not known");
        assert!(kernels.learn(kernel, UnitKind::Cpu, work, 400.0), "new");
        assert!(!kernels.learn(kernel, UnitKind::Cpu, work, 404.0), "hardly");
        assert_eq!(kernels.noted_ns(kernel, 2.0), 80.0);
        assert!((kernels.known_ns(kernel, UnitKind::Cpu, 1.0).unwrap() - 40.2).abs() < 1e-9);
        assert!((kernels.least_ns(kernel, 2.0) - 80.4).abs() < 1e-9);
    }
}

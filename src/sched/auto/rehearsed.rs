//! A distribution that searches before its first instance, treating known times as if it had measured them.
//!
//! A search tries maps that no program should have to wait for. If the time of each index on both unit kinds is known
//! from a run under another policy, the search can run before the first instance.

use crate::sched::fpm::{Known, SharesInUse};
use crate::sched::{Assignment, Distribution, LowerBound, Times, Workload};
use std::sync::Arc;

/// Maximum number of rehearsed instances.
const MOST: usize = 250;

/// Time of each index on a CPU unit and on a device.
pub(super) type IndexTimes = Arc<[[f64; 2]]>;

/// A distribution that rehearses; see the module documentation.
#[derive(Debug, Clone)]
pub(super) struct Rehearsed<D> {
    distribution: D,
    index_ns: Option<IndexTimes>,
}

impl<D: Distribution> Rehearsed<D> {
    /// Creates the distribution. It rehearses if `index_ns` is given.
    pub(super) fn new(distribution: D, index_ns: Option<&IndexTimes>) -> Self {
        Self { distribution, index_ns: index_ns.cloned() }
    }
}

impl<D: Distribution> Distribution for Rehearsed<D> {
    fn name(&self) -> &'static str {
        self.distribution.name()
    }

    fn assign(&mut self, workload: &Workload<'_>, measured: Option<&Times>) -> Assignment {
        let mut assignment = self.distribution.assign(workload, measured);
        let known = self.index_ns.as_ref().filter(|known| measured.is_none() && known.len() == workload.len());
        let Some(known) = known else { return assignment };
        for _ in 0..MOST {
            if self.distribution.is_steady() {
                break;
            }
            let on_kind = |slot: &usize| usize::from(workload.team.is_device(*slot));
            let index_ns = assignment.slots().iter().zip(&**known).map(|(slot, ns)| ns[on_kind(slot)]).collect();
            let times = Times::of(&assignment, workload.team.len(), index_ns);
            assignment = self.distribution.assign(workload, Some(&times));
        }
        assignment
    }

    fn is_steady(&self) -> bool {
        self.distribution.is_steady()
    }

    fn bound(&self) -> Option<LowerBound> {
        self.distribution.bound()
    }

    fn profiles(&self) -> Option<Known> {
        self.distribution.profiles()
    }

    fn shares(&self) -> Option<&SharesInUse> {
        self.distribution.shares()
    }

    fn observe(&mut self, workload: &Workload<'_>, measured: &Times) {
        self.distribution.observe(workload, measured);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::{Certified, Team};

    #[test]
    fn first_map_is_the_result_of_the_search() {
        let workload = Workload { team: Team { cpus: 2, devices: 1 }, weights: &[1.0; 6], neighbours: None };
        let index_ns: IndexTimes = vec![[40.0, 10.0]; 6].into();
        let mut rehearsed = Rehearsed::new(Certified::default(), Some(&index_ns));
        let slots = rehearsed.assign(&workload, None);
        assert!(rehearsed.is_steady());
        assert_eq!(slots.loads(3, &[1.0; 6]), [1.0, 1.0, 4.0]);
        let mut unknown = Rehearsed::new(Certified::default(), None);
        assert_eq!(unknown.assign(&workload, None).loads(3, &[1.0; 6]), [2.0; 3], "by the weights alone");
        assert!(!unknown.is_steady());
    }
}

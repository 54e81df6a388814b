//! A fixed division: the first blocks go to the CPU, the others to the device.

use thalweg::sched::{Assignment, Distribution, Times, Workload};

#[derive(Clone)]
pub(super) struct Split {
    pub(super) on_cpu: usize,
}

impl Distribution for Split {
    fn name(&self) -> &'static str {
        "split"
    }

    /// Slot 0 is the CPU, slot 1 the device.
    fn assign(&mut self, workload: &Workload<'_>, _: Option<&Times>) -> Assignment {
        Assignment::new((0..workload.len()).map(|block| usize::from(block >= self.on_cpu)).collect())
    }

    fn is_steady(&self) -> bool {
        true
    }
}

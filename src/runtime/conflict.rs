//! The conflict detector: a test mode in which two running tasks with conflicting accesses are caught.
//!
//! If it ever finds one, the dependence layer is wrong; tests assert that it found none.

use crate::depend::{AccessRecord, Mode, OwnedTask};
use crate::ids::DataId;
use crate::region::Block;
use parking_lot::Mutex;

/// The accesses of all running tasks.
#[derive(Debug, Default)]
pub(crate) struct ConflictDetector {
    running: Mutex<Vec<Running>>,
    found: Mutex<Vec<String>>,
}

#[derive(Debug)]
struct Running {
    task: u64,
    data: DataId,
    block: Block,
    mode: Mode,
}

/// The accesses of one running task; dropped when its body has ended.
#[derive(Debug)]
pub(crate) struct Entered<'a> {
    detector: &'a ConflictDetector,
    task: u64,
}

impl ConflictDetector {
    /// Notes that a task's body begins.
    pub(crate) fn enter(&self, task: &OwnedTask) -> Entered<'_> {
        let id = task.shared().id.0;
        let mut running = self.running.lock();
        task.body().accesses(&mut |AccessRecord { datum, block, mode }| {
            for other in running.iter().filter(|other| other.task != id && other.data == datum.id) {
                let together =
                    !(mode.writes() || other.mode.writes()) || mode.joins(other.mode) && mode != Mode::Commutative;
                if !together && other.block.overlaps(block) {
                    let (ours, theirs) = (datum.describe(block), datum.describe(&other.block));
                    self.found.lock().push(format!(
                        "task {id} ({mode} {ours}) runs together with task {} ({} {theirs}) on {datum}",
                        other.task, other.mode
                    ));
                }
            }
            running.push(Running { task: id, data: datum.id, block: *block, mode });
        });
        Entered { detector: self, task: id }
    }

    /// The conflicts found so far, in words.
    pub(crate) fn found(&self) -> Vec<String> {
        self.found.lock().clone()
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.detector.running.lock().retain(|running| running.task != self.task);
    }
}

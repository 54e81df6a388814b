//! Conflict detector: a test mode that reports pairs of running tasks with conflicting accesses.
//!
//! Any such pair means that the dependence layer is wrong; tests assert that the detector finds none.

use crate::depend::{AccessRecord, Mode, OwnedTask};
use crate::ids::DataId;
use crate::region::Block;
use parking_lot::Mutex;

/// The accesses of all running tasks.
#[derive(Debug, Default)]
pub(crate) struct ConflictDetector {
    running: Mutex<Vec<Held>>,
    found: Mutex<Vec<String>>,
}

/// A region that a running task accesses.
#[derive(Debug)]
struct Held {
    task: u64,
    data: DataId,
    block: Block,
    mode: Mode,
}

/// Guard that removes the accesses of a running task after the task's body has ended.
#[derive(Debug)]
pub(crate) struct Entered<'a> {
    detector: &'a ConflictDetector,
    task: u64,
}

impl ConflictDetector {
    /// Notes that a task's body begins. Its accesses stay recorded until the returned guard is dropped.
    pub(crate) fn enter(&self, task: &OwnedTask) -> Entered<'_> {
        let id = task.shared().id.0;
        let mut running = self.running.lock();
        if running.iter().any(|other| other.task == id) {
            drop(running); // the task was detached and continues
            return Entered { detector: self, task: id };
        }
        task.body().accesses(&mut |AccessRecord { datum, block, mode }| {
            if mode.is_weak() {
                return;
            }
            for other in running.iter().filter(|other| other.task != id && other.data == datum.id) {
                let together = !(mode.writes() || other.mode.writes())
                    || mode.shares_group(other.mode) && mode != Mode::Commutative;
                if !together && other.block.overlaps(block) {
                    let (ours, theirs) = (datum.describe(block), datum.describe(&other.block));
                    self.found.lock().push(format!(
                        "task {id} ({mode} {ours}) runs together with task {} ({} {theirs}) on {datum}",
                        other.task, other.mode
                    ));
                }
            }
            running.push(Held { task: id, data: datum.id, block: *block, mode });
        });
        Entered { detector: self, task: id }
    }

    /// Notes the end of a task whose body had already returned.
    pub(crate) fn leave(&self, task: u64) {
        self.running.lock().retain(|running| running.task != task);
    }

    /// Returns descriptions of the conflicts found so far.
    pub(crate) fn found(&self) -> Vec<String> {
        self.found.lock().clone()
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.detector.leave(self.task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::depend::Kinds;
    use crate::depend::hand_made::{datum, task};
    use crate::memory::{Reducer, Sum};

    /// Returns the conflicts found when a task with access `beginning` begins while a task with access `running` is
    /// running.
    fn found(running: (Block, Mode), beginning: (Block, Mode)) -> Vec<String> {
        let x = datum(7, 10);
        let detector = ConflictDetector::default();
        let [first, second] = [(1, running), (2, beginning)].map(|(id, (block, mode))| {
            task(id, Kinds::NONE, &[(&x, block, mode)]).commit().expect("the task has no predecessors")
        });
        let entered = detector.enter(&first);
        drop(detector.enter(&second));
        let found = detector.found();
        drop(entered);
        // No task is running any more, so no further conflict is found.
        drop(detector.enter(&second));
        assert_eq!(detector.found(), found);
        found
    }

    #[test]
    fn conflicting_tasks_are_reported_with_their_accesses() {
        let (low, high, middle) = (Block::interval(0..5), Block::interval(5..10), Block::interval(3..7));
        let reduction = Mode::Reduction(Reducer::<f64>::id(&Sum));
        for mode in [Mode::Out, Mode::Inout, Mode::Commutative, Mode::Concurrent, reduction] {
            for (running, beginning) in [((low, Mode::In), (middle, mode)), ((middle, mode), (low, Mode::In))] {
                let found = found(running, beginning);
                assert_eq!(found.len(), 1, "{mode}: {found:?}");
                assert!(found[0].contains("task 2") && found[0].contains("task 1") && found[0].contains("0..5"));
            }
            assert!(super::tests::found((low, mode), (high, Mode::Inout)).is_empty(), "{mode}: different elements");
        }
        for mode in [Mode::Out, Mode::Inout, Mode::Commutative] {
            assert_eq!(found((low, mode), (low, mode)).len(), 1, "{mode}");
        }
        for mode in [Mode::In, Mode::Concurrent, reduction] {
            assert!(found((low, mode), (low, mode)).is_empty(), "{mode}: these may run concurrently");
        }
        let other = Mode::Reduction(Reducer::<f64>::id(&crate::memory::Max));
        assert_eq!(found((low, reduction), (low, other)).len(), 1, "a different operation");
    }
}

//! Which failures have been reported to whom.
//!
//! Every failure is reported by each `wait` that it concerns: by the first one to end after it, and by all others that were
//! under way when it was reported and waited for its task. A failure that nobody can need any more is let go.
//!
//! Time here is a count of waits' beginnings and ends. Invariant: a reported failure is kept exactly as long as there is a
//! wait that began before it was reported.

use crate::error::TaskFailure;
use crate::ids::TaskId;
use parking_lot::Mutex;
use std::sync::Arc;

/// The failures of a runtime that somebody may still have to be told.
#[derive(Debug, Default)]
pub(crate) struct FailureLog(Mutex<Log>);

#[derive(Debug, Default)]
struct Log {
    entries: Vec<Entry>,
    /// When each wait under way began.
    waits: Vec<u64>,
    now: u64,
}

#[derive(Debug)]
struct Entry {
    failure: Arc<TaskFailure>,
    /// When it was first reported.
    reported: Option<u64>,
}

/// The moment at which a wait began.
#[derive(Debug)]
#[must_use = "a wait that begins must end"]
pub(crate) struct WaitBegun(u64);

/// The task of a failure that is no task's in particular: it concerns everybody.
pub(crate) const NO_TASK: TaskId = TaskId(u64::MAX);

impl FailureLog {
    /// A task failed.
    pub(crate) fn push(&self, failure: Arc<TaskFailure>) {
        self.0.lock().entries.push(Entry { failure, reported: None });
    }

    /// A wait begins. What has been reported before does not concern it.
    pub(crate) fn begin(&self) -> WaitBegun {
        let mut log = self.0.lock();
        log.now += 1;
        let now = log.now;
        log.waits.push(now);
        WaitBegun(now)
    }

    /// A wait for all tasks before `boundary` ends: the failures that concern it, in the order in which they happened.
    pub(crate) fn end(&self, WaitBegun(began): WaitBegun, boundary: TaskId) -> Vec<Arc<TaskFailure>> {
        let mut log = self.0.lock();
        log.now += 1;
        let now = log.now;
        let mut failures = Vec::new();
        for Entry { failure, reported } in &mut log.entries {
            let waited_for = failure.task() < boundary || failure.task() == NO_TASK;
            if waited_for && reported.is_none_or(|at| at > began) {
                failures.push(failure.clone());
                reported.get_or_insert(now);
            }
        }
        if let Some(own) = log.waits.iter().position(|wait| *wait == began) {
            log.waits.swap_remove(own);
        }
        let first = log.waits.iter().copied().min().unwrap_or(u64::MAX);
        let let_go =
            log.entries.extract_if(.., |entry| entry.reported.is_some_and(|at| at <= first)).collect::<Vec<_>>();
        drop(log);
        drop(let_go); // an error of the user's may have a destructor of its own
        failures
    }

    /// What nobody has been told.
    pub(crate) fn take_unreported(&self) -> Vec<Arc<TaskFailure>> {
        let entries = std::mem::take(&mut self.0.lock().entries);
        entries.into_iter().filter(|entry| entry.reported.is_none()).map(|entry| entry.failure).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::FailureReason;
    use std::panic::Location;

    fn fail(log: &FailureLog, task: u64) {
        let reason = FailureReason::Cancelled;
        log.push(Arc::new(TaskFailure::new(TaskId(task), "task", Location::caller(), reason)));
    }

    fn end(log: &FailureLog, begun: WaitBegun, boundary: u64) -> Vec<u64> {
        log.end(begun, TaskId(boundary)).iter().map(|failure| failure.task().0).collect()
    }

    #[test]
    fn each_wait_under_way_is_told_of_the_tasks_it_waits_for() {
        let log = FailureLog::default();
        fail(&log, 0);
        let (first, second) = (log.begin(), log.begin());
        fail(&log, 3);
        fail(&log, 5);
        assert_eq!(end(&log, first, 4), [0, 3]);
        fail(&log, 1);
        let third = log.begin();
        assert_eq!(end(&log, second, 6), [0, 3, 5, 1]);
        assert_eq!(end(&log, third, 6), [5, 1], "unreported when it began");
        assert!(log.0.lock().entries.is_empty(), "nobody can need them any more");
        let last = log.begin();
        assert!(end(&log, last, 100).is_empty());
    }

    #[test]
    fn what_is_no_tasks_concerns_everybody_and_what_nobody_asked_for_stays() {
        let log = FailureLog::default();
        log.push(Arc::new(TaskFailure::new(NO_TASK, "a copy", Location::caller(), FailureReason::Cancelled)));
        fail(&log, 7);
        let wait = log.begin();
        assert_eq!(end(&log, wait, 2), [NO_TASK.0]);
        assert_eq!(log.take_unreported().iter().map(|failure| failure.task().0).collect::<Vec<_>>(), [7]);
    }
}

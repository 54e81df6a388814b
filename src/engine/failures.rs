//! Which failures have been reported to whom.
//!
//! Every failure is reported by each `wait` that it concerns: by the first one to end after it, and by all others that were
//! under way when it was reported and waited for its task. A failure that nobody can need any more is let go.
//!
//! A failure may hold an error of the user's, whose destructor can do anything, submit tasks included. Tasks, histories and
//! directories have shares of it and give them up under their locks. So one share of each failure is kept here, and given up
//! under no lock, once it is the last. Looking for such shares is spread over the calls that ask for it: each looks at a few,
//! in turn.
//!
//! Time here is a count of waits' beginnings and ends. Invariant: a reported failure is kept among the entries exactly as
//! long as there is a wait that began before it was reported.

use crate::error::TaskFailure;
use crate::ids::TaskId;
use crate::sync::drop_quietly;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many failures each wait looks at, to let them go.
const SWEEP_AT_WAIT: usize = 64;

/// The failures of a runtime that somebody may still have to be told.
#[derive(Debug, Default)]
pub(crate) struct FailureLog(Mutex<Log>, AtomicU64);

#[derive(Debug, Default)]
struct Log {
    entries: Vec<Entry>,
    /// When each wait under way began.
    waits: Vec<u64>,
    now: u64,
    /// One share of each failure, those looked at last at the end.
    shares: VecDeque<Arc<TaskFailure>>,
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

impl Log {
    /// Lets go of the failures that nobody has to be told any more. Each has a share left.
    fn forget(&mut self) {
        let first = self.waits.iter().copied().min().unwrap_or(u64::MAX);
        self.entries.retain(|entry| entry.reported.is_none_or(|at| at > first));
    }
}

impl FailureLog {
    /// A task failed.
    pub(crate) fn push(&self, failure: Arc<TaskFailure>) {
        self.1.fetch_add(1, Ordering::Relaxed); // whoever comes behind the task sees it
        let mut log = self.0.lock();
        log.shares.push_back(failure.clone());
        log.entries.push(Entry { failure, reported: None });
    }

    /// How many tasks have failed so far.
    pub(crate) fn count(&self) -> u64 {
        self.1.load(Ordering::Relaxed)
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
            let concerns_all = failure.task() == NO_TASK || failure.is_the_policys();
            let waited_for = failure.task() < boundary || concerns_all;
            if waited_for && reported.is_none_or(|at| at > began) {
                failures.push(failure.clone());
                reported.get_or_insert(now);
            }
        }
        if let Some(own) = log.waits.iter().position(|wait| *wait == began) {
            log.waits.swap_remove(own);
        }
        log.forget();
        drop(log);
        self.sweep(SWEEP_AT_WAIT);
        failures
    }

    /// These have been told to somebody who waited for their tasks alone: who begins to wait now is not told again.
    pub(crate) fn told(&self, failures: &[Arc<TaskFailure>]) {
        let mut log = self.0.lock();
        log.now += 1;
        let now = log.now;
        let told: FxHashSet<_> = failures.iter().map(Arc::as_ptr).collect();
        let concerned = log.entries.iter_mut().filter(|entry| told.contains(&Arc::as_ptr(&entry.failure)));
        concerned.for_each(|entry| _ = entry.reported.get_or_insert(now));
        log.forget();
    }

    /// A wait is given up: nobody was told of anything.
    pub(crate) fn give_up(&self, WaitBegun(began): WaitBegun) {
        let mut log = self.0.lock();
        if let Some(own) = log.waits.iter().position(|wait| *wait == began) {
            log.waits.swap_remove(own);
        }
        log.forget();
    }

    /// Looks at up to `count` failures and drops those that nobody else has a share of. No lock may be held.
    pub(crate) fn sweep(&self, count: usize) {
        let mut last = Vec::new();
        {
            let Log { shares, .. } = &mut *self.0.lock();
            for _ in 0..count.min(shares.len()) {
                let Some(share) = shares.pop_front() else { break };
                // Nobody can make another share of what nobody else has one of.
                if Arc::strong_count(&share) == 1 { last.push(share) } else { shares.push_back(share) }
            }
        }
        last.into_iter().for_each(|failure| drop_quietly(|| drop(failure)));
    }

    /// What nobody has been told.
    pub(crate) fn take_unreported(&self) -> Vec<Arc<TaskFailure>> {
        let entries = std::mem::take(&mut self.0.lock().entries);
        entries.into_iter().filter(|entry| entry.reported.is_none()).map(|entry| entry.failure).collect()
    }
}

impl Drop for FailureLog {
    fn drop(&mut self) {
        let Log { entries, shares, .. } = self.0.get_mut();
        entries.clear();
        shares.drain(..).for_each(|failure| drop_quietly(|| drop(failure)));
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

    #[test]
    fn the_last_share_is_given_up_here() {
        let log = FailureLog::default();
        let kept: Vec<_> = (0..10).map(|_| Arc::new(TaskFailure::for_tests("kept"))).collect();
        for failure in &kept {
            log.push(failure.clone());
            log.push(Arc::new(TaskFailure::for_tests("gone")));
        }
        assert_eq!(log.take_unreported().len(), 20);
        let shares = || log.0.lock().shares.len();
        assert_eq!(shares(), 20);
        log.sweep(5);
        assert!((17..=18).contains(&shares()), "of five in turn every second one is gone");
        (0..3).for_each(|_| log.sweep(5));
        assert_eq!(shares(), 10, "each was looked at once");
        drop(kept);
        log.sweep(usize::MAX);
        assert_eq!(shares(), 0);
    }
}

//! The failure log of a runtime: its failures, and the calls that have reported them.
//!
//! The first call that returns a failure reports the failure: a wait for all tasks before some moment, or a wait for
//! one task, a group or a result. All waits for everything that were under way at that moment and that covered the
//! failed task report the failure too. Then the failure is dropped.
//!
//! A request for a value returns a failure without reporting it ([`FailureLog::seen`]). Any thread may make such
//! requests as often as it likes, and each request names one of possibly several causes. If such a request reported
//! the failure, the wait through which the task's submitter should learn of the failure would miss it.
//!
//! A failure may hold a user's error, whose destructor can do anything, even submit tasks. Tasks, histories and
//! directories hold references to failures and drop them under their own locks. Therefore this log keeps one reference
//! to each failure, and drops it while no lock is held, once it is the last reference. The search for such last
//! references is spread over several calls, each of which inspects a few failures in turn. The user's callback is also
//! called while no lock is held: failures are held here until [`FailureLog::tell`].
//!
//! Time in this module is a count of the beginnings and ends of waits. Invariant: the entry of a reported failure is
//! kept exactly as long as there is a wait that began before the failure was reported.

use crate::error::{FailureReason, TaskFailure};
use crate::ids::TaskId;
use crate::log::tell;
use crate::sync::drop_quietly;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Number of failures that each wait inspects in order to drop unreferenced failures.
const SWEEP_AT_WAIT: usize = 64;
/// Number of failures that a call reporting one failure inspects for the same purpose. Each failure is reported once,
/// so inspecting two of them keeps up with new failures.
const SWEEP_AT_REPORT: usize = 2;

/// A user's callback that is called for each failure.
pub(crate) type Tell = Box<dyn Fn(&TaskFailure) + Send + Sync>;

/// The failures of a runtime that may still have to be reported.
#[derive(Default)]
pub(crate) struct FailureLog {
    log: Mutex<Log>,
    count: AtomicU64,
    callback: OnceLock<Tell>,
}

#[derive(Default)]
struct Log {
    /// The unreported failures and the failures that a wait may still need, in the order in which they occurred.
    entries: BTreeMap<u64, Entry>,
    /// Keys of the entries, by the address of the failure.
    known: FxHashMap<usize, u64>,
    /// The reported entries, each as the time of its report and its key.
    reported: VecDeque<(u64, u64)>,
    /// The time at which each wait under way began.
    waits: Vec<u64>,
    now: u64,
    /// Number of failures so far, which is the key of the next entry.
    next: u64,
    /// One reference to each failure. The failures inspected most recently are at the end.
    shares: VecDeque<Arc<TaskFailure>>,
    /// The failures for which [`FailureLog::tell`] has yet to call the callback.
    untold: VecDeque<Arc<TaskFailure>>,
}

struct Entry {
    failure: Arc<TaskFailure>,
    /// Time at which the failure was first reported; `None` if it is unreported.
    reported: Option<u64>,
    /// Whether a non-reporting call has returned the failure: a request for a value, or a wait for children.
    seen: bool,
}

/// The moment at which a wait began.
#[derive(Debug)]
#[must_use = "a wait that begins must end"]
pub(crate) struct WaitBegun(u64);

/// Task ID of a failure that belongs to no particular task and therefore concerns every wait.
pub(crate) const NO_TASK: TaskId = TaskId(u64::MAX);

impl Log {
    /// Advances the clock and returns the new time.
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// Marks the failures with these keys as reported now.
    fn report(&mut self, numbers: impl IntoIterator<Item = u64>) {
        let now = self.tick();
        for number in numbers {
            if let Some(entry) = self.entries.get_mut(&number)
                && entry.reported.is_none()
            {
                entry.reported = Some(now);
                self.reported.push_back((now, number));
            }
        }
        self.forget();
    }

    /// Drops the entries of failures that no wait needs any more. `shares` still holds a reference to each of these
    /// failures.
    fn forget(&mut self) {
        let first = self.waits.iter().copied().min().unwrap_or(u64::MAX);
        while let Some((at, number)) = self.reported.front().copied()
            && at <= first
        {
            self.reported.pop_front();
            if let Some(entry) = self.entries.remove(&number) {
                self.known.remove(&Arc::as_ptr(&entry.failure).addr());
            }
        }
    }

    fn end_wait(&mut self, began: u64) {
        if let Some(own) = self.waits.iter().position(|wait| *wait == began) {
            self.waits.swap_remove(own);
        }
    }
}

impl FailureLog {
    /// Makes [`Self::tell`] call `callback` for each failure from now on.
    pub(crate) fn set_callback(&self, callback: Tell) {
        let _first = self.callback.set(callback);
    }

    /// Adds the failure of a task.
    pub(crate) fn push(&self, failure: Arc<TaskFailure>) {
        self.count.fetch_add(1, Ordering::Relaxed); // visible to all code that runs after the task
        let mut log = self.log.lock();
        let number = log.next;
        log.next += 1;
        log.shares.push_back(failure.clone());
        let is_told = match failure.reason() {
            FailureReason::Cancelled => false,
            FailureReason::Panicked(_) => true,
            _ => self.callback.get().is_some(),
        };
        if is_told {
            log.untold.push_back(failure.clone());
        }
        log.known.insert(Arc::as_ptr(&failure).addr(), number);
        log.entries.insert(number, Entry { failure, reported: None, seen: false });
    }

    /// Calls the callback for each failure that it has not received yet. Without a callback, logs the tasks that have
    /// panicked, because a panic message names only the location inside the body. The caller must hold no lock.
    pub(crate) fn tell(&self) {
        loop {
            let Some(failure) = self.log.lock().untold.pop_front() else { return };
            // A panic in the callback does not propagate any further.
            drop_quietly(|| match self.callback.get() {
                Some(callback) => callback(&failure),
                None => tell(format_args!("{failure}")),
            });
        }
    }

    /// Returns the number of failures so far.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Begins a wait. Failures reported before this moment do not concern the wait.
    pub(crate) fn begin(&self) -> WaitBegun {
        let mut log = self.log.lock();
        let now = log.tick();
        log.waits.push(now);
        WaitBegun(now)
    }

    /// Ends a wait for all tasks before `boundary`. Returns the failures that concern the wait, in the order in which
    /// they occurred.
    pub(crate) fn end(&self, WaitBegun(began): WaitBegun, boundary: TaskId) -> Vec<Arc<TaskFailure>> {
        let mut log = self.log.lock();
        let concerns = |(number, Entry { failure, reported, .. }): (&u64, &Entry)| {
            let concerns_all = failure.task() == NO_TASK || failure.is_the_policys();
            let waited_for = failure.task() < boundary || concerns_all;
            (waited_for && reported.is_none_or(|at| at > began)).then(|| (*number, failure.clone()))
        };
        let (numbers, failures): (Vec<_>, Vec<_>) = log.entries.iter().filter_map(concerns).unzip();
        log.end_wait(began);
        log.report(numbers);
        drop(log);
        self.sweep(SWEEP_AT_WAIT);
        failures
    }

    /// Notes that a call that did not wait for everything reports these failures. Waits that begin from now on do not
    /// report them again.
    pub(crate) fn told(&self, failures: &[Arc<TaskFailure>]) {
        let mut log = self.log.lock();
        let numbers: Vec<u64> =
            failures.iter().filter_map(|failure| log.known.get(&Arc::as_ptr(failure).addr()).copied()).collect();
        log.report(numbers);
        drop(log);
        self.sweep(SWEEP_AT_REPORT * failures.len());
    }

    /// Notes that a call returns these failures without reporting them. Waits still report them, but the runtime does
    /// not when it ends.
    pub(crate) fn seen(&self, failures: &[Arc<TaskFailure>]) {
        let Log { entries, known, .. } = &mut *self.log.lock();
        for failure in failures {
            let number = known.get(&Arc::as_ptr(failure).addr());
            if let Some(entry) = number.and_then(|number| entries.get_mut(number)) {
                entry.seen = true;
            }
        }
    }

    /// Abandons a wait that has reported nothing.
    pub(crate) fn give_up(&self, WaitBegun(began): WaitBegun) {
        let mut log = self.log.lock();
        log.end_wait(began);
        log.forget();
    }

    /// Inspects up to `count` failures, and drops each failure whose last reference is in this log. The caller must
    /// hold no lock.
    pub(crate) fn sweep(&self, count: usize) {
        let mut last = Vec::new();
        {
            let Log { shares, .. } = &mut *self.log.lock();
            for _ in 0..count.min(shares.len()) {
                let Some(share) = shares.pop_front() else { break };
                // If this is the last reference, no other thread can create another reference.
                if Arc::strong_count(&share) == 1 { last.push(share) } else { shares.push_back(share) }
            }
        }
        last.into_iter().for_each(|failure| drop_quietly(|| drop(failure)));
    }

    /// Takes the failures that no call has returned and that no callback has received.
    pub(crate) fn take_unreported(&self) -> Vec<Arc<TaskFailure>> {
        let mut log = self.log.lock();
        log.known.clear();
        let entries = std::mem::take(&mut log.entries);
        drop(log);
        let unreported = entries.into_values().filter(|entry| entry.reported.is_none() && !entry.seen);
        unreported.filter(|_| self.callback.get().is_none()).map(|entry| entry.failure).collect()
    }
}

impl fmt::Debug for FailureLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailureLog").field("count", &self.count()).finish_non_exhaustive()
    }
}

impl Drop for FailureLog {
    fn drop(&mut self) {
        let Log { entries, untold, shares, .. } = self.log.get_mut();
        entries.clear();
        untold.clear();
        shares.drain(..).for_each(|failure| drop_quietly(|| drop(failure)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::FailureReason;
    use crate::sync::CallSite;

    fn fail(log: &FailureLog, task: u64) {
        let reason = FailureReason::Cancelled;
        log.push(Arc::new(TaskFailure::new(TaskId(task), "task", CallSite::caller(), reason)));
    }

    fn end(log: &FailureLog, begun: WaitBegun, boundary: u64) -> Vec<u64> {
        log.end(begun, TaskId(boundary)).iter().map(|failure| failure.task().0).collect()
    }

    #[test]
    fn every_wait_under_way_reports_failures_of_its_tasks() {
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
        assert!(log.log.lock().entries.is_empty(), "no wait can need them any more");
        let last = log.begin();
        assert!(end(&log, last, 100).is_empty());
    }

    #[test]
    fn failure_without_task_concerns_every_wait_and_others_stay() {
        let log = FailureLog::default();
        log.push(Arc::new(TaskFailure::new(NO_TASK, "a copy", CallSite::caller(), FailureReason::Cancelled)));
        fail(&log, 7);
        let wait = log.begin();
        assert_eq!(end(&log, wait, 2), [NO_TASK.0]);
        assert_eq!(log.take_unreported().iter().map(|failure| failure.task().0).collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn last_reference_is_dropped_by_the_log() {
        let log = FailureLog::default();
        let kept: Vec<_> = (0..10).map(|_| Arc::new(TaskFailure::for_tests("kept"))).collect();
        for failure in &kept {
            log.push(failure.clone());
            log.push(Arc::new(TaskFailure::for_tests("gone")));
        }
        assert_eq!(log.take_unreported().len(), 20);
        let shares = || log.log.lock().shares.len();
        assert_eq!(shares(), 20);
        log.sweep(5);
        assert!((17..=18).contains(&shares()), "every second one of the five inspected is dropped");
        (0..3).for_each(|_| log.sweep(5));
        assert_eq!(shares(), 10, "each was looked at once");
        drop(kept);
        log.sweep(usize::MAX);
        assert_eq!(shares(), 0);
    }

    #[test]
    fn failures_reported_one_by_one_leave_nothing() {
        let log = FailureLog::default();
        for task in 0..10_000 {
            let failure = Arc::new(TaskFailure::for_tests("requested"));
            log.push(failure.clone());
            if task % 2 == 0 {
                log.told(&[failure]);
            } else {
                let wait = log.begin();
                log.told(std::slice::from_ref(&failure));
                drop(failure);
                assert_eq!(end(&log, wait, 1).len(), 1, "the wait was under way");
            }
        }
        let log = log.log.lock();
        assert!(log.entries.is_empty() && log.known.is_empty() && log.reported.is_empty());
        assert!(log.shares.len() < 100, "{} shares are left", log.shares.len());
    }

    #[test]
    fn callback_is_called_once_under_no_lock_and_may_panic() {
        let log = Arc::new(FailureLog::default());
        let (calls, weak) = (Arc::new(AtomicU64::new(0)), Arc::downgrade(&log));
        let counted = calls.clone();
        log.set_callback(Box::new(move |failure| {
            assert!(weak.upgrade().is_some_and(|log| log.log.try_lock().is_some()));
            counted.fetch_add(1, Ordering::Relaxed);
            panic!("as a user's may: {failure}");
        }));
        let reason = || FailureReason::Returned("no".into());
        (0..3).for_each(|task| log.push(Arc::new(TaskFailure::new(TaskId(task), "t", CallSite::caller(), reason()))));
        fail(&log, 3); // task 3 was cancelled, which does not count as a separate failure
        (0..2).for_each(|_| log.tell());
        assert_eq!(calls.load(Ordering::Relaxed), 3);
        assert!(log.take_unreported().is_empty());
    }
}

//! The window, which limits how many tasks may be pending before submission waits, and how long a submitter waits
//! while nothing finishes.
//!
//! The window keeps memory and cache use small. It is not a hard limit, because all pending tasks may be waiting for a
//! task that is yet to be submitted. So a submitter waits only for a *reasonable* time. While bodies compute, this is
//! four times the recent time between two finished tasks, but at least 50 ms. While nothing runs, is ready or is being
//! copied, the submitter hardly waits at all. If the threads of all running bodies sleep, the minimum is halved,
//! because the bodies may be waiting for the submitter. If a hosting thread runs the program's own code instead, the
//! submitter waits for half of the minimum: the thread may have lost its core just before a wait. After the wait, the
//! submitter is *granted* three times as many further tasks as are pending, and its next wait is twice as long. Tasks
//! that finish reduce the grant.
//!
//! A window in bytes may limit what pending tasks allocate, as far as the program says it. A submitter takes its
//! task's share of it *before* it submits the task, so the sum exceeds the limit only if a single task does, or if
//! the submitter has waited in vain for a reasonable time.
//!
//! [`Window`] only makes decisions; the drivers sleep or run tasks.

use crate::sync::Quota;
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of submissions of a thread between two checks of the window.
const LOOK_EVERY: u64 = 32;
/// Minimum (while a body computes) and maximum time for which a submitter waits while nothing finishes.
const LEAST_PATIENCE: Duration = Duration::from_millis(50);
const MOST_PATIENCE: Duration = Duration::from_secs(10);
/// How long a submitter waits while nothing runs, and by how much the first check is delayed.
pub(super) const NOTHING_RUNS: Duration = Duration::from_micros(200);
/// Number of granted tasks that each finished task takes back.
const TAKEN_BACK: u64 = 8;

thread_local! {
    /// On a thread that hosts no unit, the number of submissions until the next check of the window.
    static UNTIL_LOOK: Cell<u32> = const { Cell::new(0) };
}

/// Activity of the other threads, as a waiting submitter observes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Motion {
    /// Nothing runs, is ready or is being copied.
    Nothing,
    /// No body runs, but the thread that hosts a unit runs the program's own code, and may begin to wait soon.
    Away,
    /// Bodies run, but their threads sleep: they wait for a device, a file, or the submitter.
    Sleeping,
    /// A body is computing or will be soon.
    Working,
}

/// The window of one runtime.
#[derive(Debug)]
pub(crate) struct Window {
    size: u64,
    /// The bytes that pending tasks may allocate, if that is limited.
    bytes: Option<Arc<Quota>>,
    look_every: u32,
    /// Whether submissions wait; otherwise only [`crate::Runtime::wait_for_room`] does.
    is_kept_by_submissions: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Number of tasks beyond the window's size that may currently be pending.
    granted: u64,
    /// Number of tasks that had finished at the last check.
    finished: u64,
    /// Time since which nothing has finished while a submitter waited.
    since: Instant,
    /// Four times the recent time between two finished tasks.
    patience: Duration,
    /// Number of grants since a task last finished.
    grants: u32,
}

impl Window {
    pub(crate) fn new(size: u64, is_kept_by_submissions: bool) -> Self {
        let look_every = (size / 4).clamp(1, LOOK_EVERY) as u32;
        let state = State { granted: 0, finished: 0, since: Instant::now(), patience: NOTHING_RUNS, grants: 0 };
        Self { size, bytes: None, look_every, is_kept_by_submissions, state: Mutex::new(state) }
    }

    /// Limits the bytes that pending tasks may allocate as well.
    pub(crate) fn in_bytes(self, bytes: Option<u64>) -> Self {
        Self { bytes: bytes.map(Quota::new), ..self }
    }

    /// Returns the bytes that pending tasks may allocate, if that is limited.
    pub(super) fn bytes(&self) -> Option<&Arc<Quota>> {
        self.bytes.as_ref()
    }

    /// Whether submissions wait.
    pub(super) fn is_kept_by_submissions(&self) -> bool {
        self.is_kept_by_submissions
    }

    /// Creates a window that every submission checks.
    pub(crate) fn looked_at_always(size: u64, is_kept_by_submissions: bool) -> Self {
        Self { look_every: 1, ..Self::new(size, is_kept_by_submissions) }
    }

    /// Returns whether a submitting thread should check the window now. `until_look` counts down the thread's
    /// submissions.
    #[inline]
    pub(super) fn is_time_to_look(&self, until_look: &Cell<u32>) -> bool {
        until_look.replace(until_look.get().checked_sub(1).unwrap_or(self.look_every - 1)) == 0
    }

    /// Like [`Self::is_time_to_look`], but for a thread that hosts no unit.
    #[inline]
    pub(super) fn is_time_to_look_outside(&self) -> bool {
        UNTIL_LOOK.with(|until_look| self.is_time_to_look(until_look))
    }

    /// Returns the maximum number of submissions between two checks.
    #[inline]
    pub(super) fn stride(&self) -> usize {
        self.look_every as usize
    }

    /// Returns whether a submission has to wait if it finds this many pending tasks.
    #[inline]
    pub(super) fn stops_submission(&self, pending: u64) -> bool {
        self.is_kept_by_submissions && pending > self.size
    }

    /// Returns the number of tasks that may be pending.
    #[inline]
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// For a submitter that finds `pending` pending tasks and begins to wait now, returns the number of pending tasks
    /// at which it may continue. Returns `None` if the submitter may continue immediately.
    pub(super) fn target(&self, pending: u64, finished: u64) -> Option<u64> {
        let mut state = self.state.lock();
        state.note(finished);
        let limit = self.size.saturating_add(state.granted);
        if pending <= limit {
            return None;
        }
        state.since = Instant::now();
        Some(limit - self.size.div_ceil(2))
    }

    /// Notes that a submitter begins to wait for bytes.
    pub(super) fn begin(&self, finished: u64) {
        let mut state = self.state.lock();
        state.note(finished);
        state.since = Instant::now();
    }

    /// Returns how much longer a waiting submitter should wait; `None` if it should stop waiting.
    pub(super) fn patience(&self, finished: u64, motion: impl FnOnce() -> Motion) -> Option<Duration> {
        let mut state = self.state.lock();
        let now = Instant::now();
        let elapsed = now.saturating_duration_since(state.since);
        if finished > state.finished {
            let gap = elapsed / u32::try_from(finished - state.finished).unwrap_or(u32::MAX);
            state.patience = (gap * 4).max(state.patience / 8 * 7).clamp(NOTHING_RUNS, MOST_PATIENCE);
            (state.finished, state.since, state.grants) = (finished, now, 0);
            return Some(NOTHING_RUNS);
        }
        let (patience, times) = (state.patience, 1 << state.grants.min(16));
        drop(state);
        if elapsed < NOTHING_RUNS {
            return Some(NOTHING_RUNS - elapsed);
        }
        let patience = match motion() {
            Motion::Nothing => return None,
            Motion::Away => return (LEAST_PATIENCE / 2).checked_sub(elapsed).filter(|left| !left.is_zero()),
            Motion::Sleeping => patience.max(LEAST_PATIENCE / 2),
            Motion::Working => patience.max(LEAST_PATIENCE),
        };
        let patience = patience.saturating_mul(times).min(MOST_PATIENCE);
        patience.checked_sub(elapsed).filter(|left| !left.is_zero())
    }

    /// Lets submission continue although `pending` tasks are pending.
    pub(super) fn grant(&self, pending: u64) {
        let mut state = self.state.lock();
        state.granted = pending.saturating_mul(4).saturating_sub(self.size);
        state.grants = state.grants.saturating_add(1);
    }
}

impl State {
    /// Notes how many tasks have finished.
    fn note(&mut self, finished: u64) {
        let finished_since = finished.saturating_sub(self.finished);
        self.granted = self.granted.saturating_sub(finished_since.saturating_mul(TAKEN_BACK));
        self.finished = self.finished.max(finished);
        if finished_since > 0 {
            self.grants = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_tasks_take_a_grant_back() {
        let window = Window::new(100, true);
        assert_eq!((window.target(100, 0), window.target(101, 0)), (None, Some(50)));
        window.grant(150);
        assert_eq!((window.target(600, 0), window.target(601, 0)), (None, Some(550)), "three times as many again");
        assert_eq!(window.target(600, 5), Some(510), "five have finished");
        assert_eq!(window.target(101, 1000), Some(50));
    }

    #[test]
    fn submitter_waits_longer_for_long_tasks_and_not_while_nothing_runs() {
        let window = Window::new(1, true);
        let wait = |seconds| window.state.lock().since = Instant::now() - Duration::from_secs(seconds);
        assert!(window.patience(0, || unreachable!("too early to look")).is_some());
        wait(1);
        assert!(window.patience(0, || Motion::Nothing).is_none());
        assert!(window.patience(0, || Motion::Sleeping).is_none());
        assert!(window.patience(0, || Motion::Working).is_none(), "nothing has finished in a second");
        assert!(window.patience(1, || Motion::Working).is_some(), "one has finished now");
        wait(3);
        for motion in [Motion::Sleeping, Motion::Working] {
            assert!(window.patience(1, || motion).is_some(), "four seconds are reasonable");
        }
        assert!(window.patience(1, || Motion::Nothing).is_none());
        assert!(window.patience(1, || Motion::Away).is_none());
        window.state.lock().since = Instant::now() - NOTHING_RUNS * 2;
        assert!(window.patience(1, || Motion::Away).is_some(), "the host may be back soon");
        wait(5);
        assert!(window.patience(1, || Motion::Sleeping).is_none());
        window.grant(1);
        assert!(window.patience(1, || Motion::Sleeping).is_some(), "twice as long the next time");
    }

    #[test]
    fn task_finished_between_two_waits_ends_the_doubling() {
        let window = Window::new(1, true);
        (0..20).for_each(|_| window.grant(1));
        let wait = || window.state.lock().since = Instant::now() - Duration::from_secs(1);
        window.target(u64::MAX, 0);
        wait();
        assert!(window.patience(0, || Motion::Sleeping).is_some(), "this submitter waits for the maximum time");
        window.target(u64::MAX, 1);
        wait();
        assert!(window.patience(1, || Motion::Sleeping).is_none(), "the next submitter does not");
    }
}

//! How many tasks may be pending before submission waits, and for how long it puts up with nothing finishing.
//!
//! The window keeps memory and caches small. It is not a limit: everything may be waiting for what is yet to be submitted.
//! So a submitter waits no longer than is *reasonable*: four times as long as it took lately for a task to finish, and while
//! bodies compute 50 ms at least; but while nothing runs, is ready or is copied, hardly at all. Bodies whose threads sleep are
//! given half of that: they may be waiting for the submitter. Then it is *granted* three times as many tasks as are pending, and the
//! next time it waits twice as long. What finishes takes the grant back.
//!
//! [`Window`] decides, and neither sleeps nor runs tasks; drivers do.

use parking_lot::Mutex;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How many submissions of a thread pass between two looks at the window, at most.
const LOOK_EVERY: u64 = 32;
/// How long nothing finishes before a submitter goes on, at least while a body computes, and at most.
const LEAST_PATIENCE: Duration = Duration::from_millis(50);
const MOST_PATIENCE: Duration = Duration::from_secs(10);
/// The same while nothing runs, and how long the first look is put off.
pub(super) const NOTHING_RUNS: Duration = Duration::from_micros(200);
/// How much of a grant one finished task takes back.
const TAKEN_BACK: u64 = 8;

thread_local! {
    /// How many submissions of a thread that hosts nothing are left until it looks at the window.
    static UNTIL_LOOK: Cell<u32> = const { Cell::new(0) };
}

/// What a submitter that waits can see of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Motion {
    /// Nothing runs, is ready or is copied.
    Nothing,
    /// Bodies run, and their threads sleep: for a device, a file, or what the submitter has yet to do.
    Sleeping,
    /// A body computes, or will soon.
    Working,
}

/// The window of one runtime.
#[derive(Debug)]
pub(crate) struct Window {
    size: u64,
    look_every: u32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// How many more may be pending for the time being.
    granted: u64,
    /// How many tasks had finished at the last look.
    finished: u64,
    /// Since when nothing has finished while a submitter waited.
    since: Instant,
    /// Four times as long as it took lately for a task to finish.
    patience: Duration,
    /// How often submission has gone on since something finished.
    grants: u32,
}

impl Window {
    pub(crate) fn new(size: u64) -> Self {
        let look_every = (size / 4).clamp(1, LOOK_EVERY) as u32;
        let state = State { granted: 0, finished: 0, since: Instant::now(), patience: NOTHING_RUNS, grants: 0 };
        Self { size, look_every, state: Mutex::new(state) }
    }

    /// Whether a thread that submits should look at the window now, which counts its submissions down here.
    #[inline]
    pub(super) fn is_time_to_look(&self, until_look: &Cell<u32>) -> bool {
        until_look.replace(until_look.get().checked_sub(1).unwrap_or(self.look_every - 1)) == 0
    }

    /// The same for a thread that hosts nothing.
    #[inline]
    pub(super) fn is_time_to_look_outside(&self) -> bool {
        UNTIL_LOOK.with(|until_look| self.is_time_to_look(until_look))
    }

    /// How many submissions may pass between two looks.
    #[inline]
    pub(super) fn stride(&self) -> usize {
        self.look_every as usize
    }

    /// How many tasks may be pending.
    #[inline]
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// How few must be pending before a submitter goes on that finds so many, which begins to wait now; nothing if it may go
    /// on at once.
    pub(super) fn target(&self, pending: u64, finished: u64) -> Option<u64> {
        let mut state = self.state.lock();
        let finished_since = finished.saturating_sub(state.finished);
        state.granted = state.granted.saturating_sub(finished_since.saturating_mul(TAKEN_BACK));
        state.finished = state.finished.max(finished);
        if finished_since > 0 {
            state.grants = 0;
        }
        let limit = self.size.saturating_add(state.granted);
        if pending <= limit {
            return None;
        }
        state.since = Instant::now();
        Some(limit - self.size.div_ceil(2))
    }

    /// A submitter that waits has a look: how much longer it should wait, nothing if it should not.
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
            Motion::Sleeping => patience.max(LEAST_PATIENCE / 2),
            Motion::Working => patience.max(LEAST_PATIENCE),
        };
        let patience = patience.saturating_mul(times).min(MOST_PATIENCE);
        patience.checked_sub(elapsed).filter(|left| !left.is_zero())
    }

    /// Submission goes on although so many are pending.
    pub(super) fn grant(&self, pending: u64) {
        let mut state = self.state.lock();
        state.granted = pending.saturating_mul(4).saturating_sub(self.size);
        state.grants = state.grants.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_taken_back_by_what_finishes() {
        let window = Window::new(100);
        assert_eq!((window.target(100, 0), window.target(101, 0)), (None, Some(50)));
        window.grant(150);
        assert_eq!((window.target(600, 0), window.target(601, 0)), (None, Some(550)), "three times as many again");
        assert_eq!(window.target(600, 5), Some(510), "five have finished");
        assert_eq!(window.target(101, 1000), Some(50));
    }

    #[test]
    fn a_submitter_waits_longer_for_long_tasks_and_not_for_nothing() {
        let window = Window::new(1);
        let wait = |seconds| window.state.lock().since = Instant::now() - Duration::from_secs(seconds);
        assert!(window.patience(0, || unreachable!("too early to look")).is_some());
        wait(1);
        assert!(window.patience(0, || Motion::Nothing).is_none());
        assert!(window.patience(0, || Motion::Sleeping).is_none());
        assert!(window.patience(0, || Motion::Working).is_none(), "nothing has finished in a second");
        assert!(window.patience(1, || Motion::Working).is_some(), "now one has");
        wait(3);
        for motion in [Motion::Sleeping, Motion::Working] {
            assert!(window.patience(1, || motion).is_some(), "four seconds are reasonable");
        }
        assert!(window.patience(1, || Motion::Nothing).is_none());
        wait(5);
        assert!(window.patience(1, || Motion::Sleeping).is_none());
        window.grant(1);
        assert!(window.patience(1, || Motion::Sleeping).is_some(), "twice as long the next time");
    }

    #[test]
    fn what_finishes_between_two_waits_ends_the_doubling() {
        let window = Window::new(1);
        (0..20).for_each(|_| window.grant(1));
        let wait = || window.state.lock().since = Instant::now() - Duration::from_secs(1);
        window.target(u64::MAX, 0);
        wait();
        assert!(window.patience(0, || Motion::Sleeping).is_some(), "this one waits as long as any can");
        window.target(u64::MAX, 1);
        wait();
        assert!(window.patience(1, || Motion::Sleeping).is_none(), "the next one is not made to");
    }
}

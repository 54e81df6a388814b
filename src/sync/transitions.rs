//! Exclusion of forks from transitions of threads: no fork happens while a thread starts or ends.
//!
//! Transitions do not exclude each other. A fork that waits for them keeps further ones from beginning, so it does not
//! wait for long, however many threads a program starts.
//!
//! Invariants:
//! 1. While a thread forks, it holds the lock, and there is no transition.
//! 2. A thread in a transition waits for nothing except the lock, which is free while a fork waits for transitions.

use super::atomic::{Condvar, Mutex, MutexGuard};

/// The transitions of one process.
pub(crate) struct Transitions {
    pub(super) counts: Mutex<Counts>,
    /// Notified when no transition is left, and when a fork has ended.
    pub(super) settled: Condvar,
}

/// The number of transitions, and whether a fork has begun, which may still wait for them.
pub(crate) struct Counts {
    transitions: usize,
    forks: bool,
}

/// Guard of a fork: there is no transition.
pub(super) type Settled<'a> = MutexGuard<'a, Counts>;

/// The start or the end of a thread, until it is dropped.
#[must_use]
pub(super) struct Transition<'a>(&'a Transitions);

impl Counts {
    pub(super) const NONE: Self = Self { transitions: 0, forks: false };
}

impl Transitions {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn lock_unless(&self, has: impl Fn(&Counts) -> bool) -> MutexGuard<'_, Counts> {
        let mut counts = self.lock();
        while has(&counts) {
            counts = self.settled.wait(counts).unwrap_or_else(|e| e.into_inner());
        }
        counts
    }

    /// Begins a transition, after a fork that has begun.
    pub(super) fn begin(&self) -> Transition<'_> {
        self.lock_unless(|counts| counts.forks).transitions += 1;
        Transition(self)
    }

    /// Waits until this thread may fork, which it may do until it calls [`end_fork`](Self::end_fork). Only one thread
    /// at a time may call this.
    pub(super) fn begin_fork(&self) -> Settled<'_> {
        self.lock().forks = true;
        self.lock_unless(|counts| counts.transitions > 0)
    }

    /// Ends a fork, in the parent and in the child.
    pub(super) fn end_fork(&self, mut settled: Settled<'_>) {
        settled.forks = false;
        drop(settled);
        self.settled.notify_all();
    }
}

impl Drop for Transition<'_> {
    fn drop(&mut self) {
        let mut counts = self.0.lock();
        counts.transitions -= 1;
        if counts.transitions == 0 {
            self.0.settled.notify_all();
        }
    }
}

//! The failures of a runtime: those that nobody was told of yet, and a share of every one.
//!
//! A failure may hold an error of the user's, whose destructor can do anything, submit tasks included. Tasks, histories
//! and directories have shares of it and give them up under their locks. So one share of each failure is kept here, and
//! given up under no lock, once it is the last.
//!
//! Looking for such shares is spread over the calls that ask for it: each looks at a few, in turn.

use crate::error::TaskFailure;
use crate::sync::drop_quietly;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// All failures of one runtime.
#[derive(Default)]
pub(super) struct Failures(Mutex<Log>);

#[derive(Default)]
struct Log {
    unreported: Vec<Arc<TaskFailure>>,
    /// One share of each, those looked at last at the end.
    shares: VecDeque<Arc<TaskFailure>>,
}

impl Failures {
    /// Notes a failure.
    pub(super) fn record(&self, failure: Arc<TaskFailure>) {
        let mut log = self.0.lock();
        log.unreported.push(failure.clone());
        log.shares.push_back(failure);
    }

    /// Those since the last call.
    pub(super) fn take_unreported(&self) -> Vec<Arc<TaskFailure>> {
        std::mem::take(&mut self.0.lock().unreported)
    }

    /// Looks at up to `count` failures and drops those that nobody else has a share of. No lock may be held.
    pub(super) fn sweep(&self, count: usize) {
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
}

impl Drop for Failures {
    fn drop(&mut self) {
        let Log { unreported, shares } = self.0.get_mut();
        unreported.clear();
        shares.drain(..).for_each(|failure| drop_quietly(|| drop(failure)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_share_is_given_up_here() {
        let failures = Failures::default();
        let kept: Vec<_> = (0..10).map(|_| Arc::new(TaskFailure::for_tests("kept"))).collect();
        for failure in &kept {
            failures.record(failure.clone());
            failures.record(Arc::new(TaskFailure::for_tests("gone")));
        }
        assert_eq!(failures.take_unreported().len(), 20);
        assert!(failures.take_unreported().is_empty());
        let shares = || failures.0.lock().shares.len();
        assert_eq!(shares(), 20);
        failures.sweep(5);
        assert!((17..=18).contains(&shares()), "of five in turn every second one is gone");
        (0..3).for_each(|_| failures.sweep(5));
        assert_eq!(shares(), 10, "each was looked at once");
        drop(kept);
        failures.sweep(usize::MAX);
        assert_eq!(shares(), 0);
    }
}

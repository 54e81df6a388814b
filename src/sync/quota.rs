//! A quota: an amount that is divided into shares. Threads can wait for a share.
//!
//! Taking a share never waits; a caller that finds no room leaves its waker and tries again later. A share that is
//! alone may exceed the quota, so that nothing waits forever.
//!
//! Invariant: `used` is the sum of the shares that exist.

use parking_lot::Mutex;
use std::sync::Arc;
use std::task::Waker;

/// A quota; see the module documentation.
#[derive(Debug)]
pub(crate) struct Quota {
    limit: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Sum of the shares. Each is a `u64` that a program chooses, so their sum can be larger.
    used: u128,
    /// Amount beyond the limit that may currently be used.
    granted: u128,
    waiting: Vec<Waker>,
}

/// A share of a quota, which is returned when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<Quota>,
    amount: u64,
}

impl Quota {
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, state: Mutex::default() })
    }

    /// Returns a share of this amount if it fits, or if there is no other share.
    pub(crate) fn try_take(self: &Arc<Self>, amount: u64) -> Option<Share> {
        let mut state = self.state.lock();
        if state.used > 0 && state.used + u128::from(amount) > u128::from(self.limit) + state.granted {
            return None;
        }
        state.used += u128::from(amount);
        drop(state);
        Some(Share { of: self.clone(), amount })
    }

    /// Returns a share of this amount, whether it fits or not.
    pub(crate) fn take(self: &Arc<Self>, amount: u64) -> Share {
        self.state.lock().used += u128::from(amount);
        Share { of: self.clone(), amount }
    }

    /// Returns whether less is used than the limit, or what was granted.
    pub(crate) fn has_room(&self) -> bool {
        let state = self.state.lock();
        state.used == 0 || state.used < u128::from(self.limit) + state.granted
    }

    /// Wakes `waker` when a share is next returned.
    pub(crate) fn wake(&self, waker: Waker) {
        let mut state = self.state.lock();
        state.waiting.retain(|other| !other.will_wake(&waker));
        state.waiting.push(waker);
    }

    /// Allows three times as much again as is used now, until no more than the limit is used.
    pub(crate) fn grant(&self) {
        let mut state = self.state.lock();
        state.granted = state.used.saturating_mul(4).saturating_sub(self.limit.into());
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut state = self.of.state.lock();
        state.used -= u128::from(self.amount);
        if state.used <= self.of.limit.into() {
            state.granted = 0;
        }
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_fit_unless_alone_or_granted() {
        let quota = Quota::new(100);
        let large = quota.try_take(1000).expect("it is alone");
        assert!(quota.try_take(1).is_none() && !quota.has_room());
        drop(large);
        let (first, second) = (quota.try_take(60).unwrap(), quota.try_take(40).unwrap());
        assert!(quota.try_take(1).is_none() && !quota.has_room());
        quota.grant();
        let granted = quota.try_take(300).expect("three times as much again");
        assert!(quota.try_take(1).is_none());
        drop((granted, first));
        assert!(quota.try_take(61).is_none(), "the grant has ended");
        drop(second);
    }

    #[test]
    fn sum_may_exceed_the_largest_share() {
        let quota = Quota::new(u64::MAX);
        let shares = [quota.take(u64::MAX), quota.take(u64::MAX)];
        assert!(quota.try_take(1).is_none() && !quota.has_room(), "the limit is exceeded");
        quota.grant();
        assert!(quota.try_take(u64::MAX).is_some());
        drop(shares);
        assert!(quota.try_take(u64::MAX).is_some() && quota.has_room());
    }
}

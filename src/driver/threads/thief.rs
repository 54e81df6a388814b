//! When a thread without work of its own takes some from others.
//!
//! A stolen task's memory, and that of the tasks around it, has to travel between two cores' caches, several times in
//! its life. For tasks that take less time than that, a thief makes the program slower, not faster. So a thief looks at
//! what its loot was worth: after tiny tasks it rests, the longer the more often, as long as the program gets on without
//! it. While nobody else submits or finishes anything, it never rests.
//!
//! Nothing here decides what is stolen, and a rest delays at most by [`LONGEST_REST`].

use crate::driver::progress::Tally;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Tasks that take a thief less than this on average are not worth taking.
const TINY: Duration = Duration::from_nanos(500);
const SHORTEST_REST: Duration = Duration::from_micros(8);
const LONGEST_REST: Duration = Duration::from_micros(64);

/// One thread's experience as a thief.
#[derive(Debug, Default)]
pub(super) struct Thief {
    loot: Cell<Option<Loot>>,
    rest: Cell<Duration>,
    until: Cell<Option<Instant>>,
}

/// What was taken and is being worked off.
#[derive(Debug, Clone, Copy)]
struct Loot {
    since: Instant,
    tally: Tally,
}

impl Thief {
    /// Something was stolen.
    pub(super) fn stole(&self, tally: Tally) {
        self.loot.set(Some(Loot { since: Instant::now(), tally }));
    }

    /// The thread has run out of work: whether it should steal now. `tally` is asked for only at the end of loot.
    pub(super) fn is_ready(&self, tally: impl FnOnce() -> Tally) -> bool {
        self.loot.get().is_none() && self.until.get().is_none() || self.is_ready_at(Instant::now(), tally)
    }

    fn is_ready_at(&self, now: Instant, tally: impl FnOnce() -> Tally) -> bool {
        if let Some(loot) = self.loot.take() {
            self.appraise(loot, tally(), now);
        }
        let rests = self.until.get().is_some_and(|until| now < until);
        if !rests {
            self.until.set(None);
        }
        !rests
    }

    fn appraise(&self, loot: Loot, tally: Tally, now: Instant) {
        let finished = tally.own - loot.tally.own;
        let tiny = now - loot.since < TINY * u32::try_from(finished).unwrap_or(u32::MAX);
        if tiny && tally.others != loot.tally.others {
            self.rest.set((self.rest.get() * 2).clamp(SHORTEST_REST, LONGEST_REST));
            self.until.set(Some(now + self.rest.get()));
        } else {
            self.rest.set(Duration::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Tally = Tally { own: 10, others: 100 };

    /// Whether it steals again right after loot of so many tasks of its own, while others finished so many.
    fn after(thief: &Thief, own: u64, others: u64) -> bool {
        let now = Instant::now();
        thief.loot.set(Some(Loot { since: now, tally: START }));
        thief.is_ready_at(now, || Tally { own: START.own + own, others: START.others + others })
    }

    #[test]
    fn rests_after_tiny_tasks_only_while_others_get_on() {
        let thief = Thief::default();
        assert!(thief.is_ready(|| START), "who has stolen nothing has no reason to rest");
        assert!(!after(&thief, 1_000_000, 5), "a million tasks in no time are tiny");
        assert!(after(&Thief::default(), 1_000_000, 0), "nobody else does anything");
        assert!(after(&Thief::default(), 0, 5), "nothing is finished yet, so nothing is known");
    }

    #[test]
    fn a_rest_ends_and_grows_to_its_bound() {
        let thief = Thief::default();
        for n in 0..10 {
            assert!(!after(&thief, 1_000_000, 5));
            let (until, rest) = (thief.until.get().expect("it rests"), (SHORTEST_REST * (1 << n)).min(LONGEST_REST));
            assert_eq!(thief.rest.get(), rest);
            assert!(!thief.is_ready_at(until - Duration::from_nanos(1), || START));
            assert!(thief.is_ready_at(until, || START) && thief.is_ready(|| START));
        }
        after(&thief, 0, 5);
        assert_eq!(thief.rest.get(), Duration::ZERO);
    }
}

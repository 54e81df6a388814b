//! Decides when a thread without work steals tasks from other threads.
//!
//! The memory of a stolen task, and of the tasks around it, has to travel between the caches of two cores several
//! times during the task's life. If tasks take less time than that, stealing makes the program slower, not faster. So
//! a thief measures each batch that it has stolen. After tiny tasks it backs off for exponentially increasing times,
//! as long as the program makes progress without it. While no other thread submits or finishes anything, it never
//! backs off.
//!
//! This module does not choose the tasks to steal, and it delays stealing by at most [`LONGEST_REST`].

use crate::driver::progress::Tally;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Minimum average time of a stolen task, as the thief sees it, for stealing to pay off.
const TINY: Duration = Duration::from_nanos(500);
const SHORTEST_REST: Duration = Duration::from_micros(8);
const LONGEST_REST: Duration = Duration::from_micros(64);

/// One thread's record of its steals.
#[derive(Debug, Default)]
pub(super) struct Thief {
    loot: Cell<Option<Loot>>,
    rest: Cell<Duration>,
    until: Cell<Option<Instant>>,
}

/// A stolen batch that is being executed.
#[derive(Debug, Clone, Copy)]
struct Loot {
    since: Instant,
    tally: Tally,
}

impl Thief {
    /// Notes that a batch was stolen.
    pub(super) fn stole(&self, tally: Tally) {
        self.loot.set(Some(Loot { since: Instant::now(), tally }));
    }

    /// Returns whether the thread, which has run out of work, should steal now. `tally` is called only at the end of a
    /// batch.
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

    /// Returns whether a thief steals again right after a batch of `own` tasks, while other threads finished `others`
    /// tasks.
    fn after(thief: &Thief, own: u64, others: u64) -> bool {
        let now = Instant::now();
        thief.loot.set(Some(Loot { since: now, tally: START }));
        thief.is_ready_at(now, || Tally { own: START.own + own, others: START.others + others })
    }

    #[test]
    fn thief_backs_off_after_tiny_tasks_only_while_others_progress() {
        let thief = Thief::default();
        assert!(thief.is_ready(|| START), "a thief that has stolen nothing does not back off");
        assert!(!after(&thief, 1_000_000, 5), "a million tasks in no time are tiny");
        assert!(after(&Thief::default(), 1_000_000, 0), "no other thread makes progress");
        assert!(after(&Thief::default(), 0, 5), "nothing is finished yet, so nothing is known");
    }

    #[test]
    fn backoff_ends_and_grows_to_its_bound() {
        let thief = Thief::default();
        for n in 0..10 {
            assert!(!after(&thief, 1_000_000, 5));
            let (until, rest) = (thief.until.get().expect("backs off"), (SHORTEST_REST * (1 << n)).min(LONGEST_REST));
            assert_eq!(thief.rest.get(), rest);
            assert!(!thief.is_ready_at(until - Duration::from_nanos(1), || START));
            assert!(thief.is_ready_at(until, || START) && thief.is_ready(|| START));
        }
        after(&thief, 0, 5);
        assert_eq!(thief.rest.get(), Duration::ZERO);
    }
}

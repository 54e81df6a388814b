//! The time since when a task has been seen running.
//!
//! Threads read no clock when they begin a task. So the beginning of a task is known only roughly: whoever looks at the
//! running tasks notes them here, and the next look finds those that are still running. A thread that looks regularly
//! (for `Builder::explain_on_signal`, or to draw progress) makes the times exact up to its interval.
//!
//! Nothing here costs a task anything.

use super::shared::Shared;
use crate::ids::TaskId;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};

/// The tasks that ran at the last look, each with the time at which it was first seen.
#[derive(Default)]
pub(crate) struct Sightings(Mutex<FxHashMap<TaskId, Sighting>>);

struct Sighting {
    since: Instant,
    slot: usize,
    /// The number of tasks that had finished in the slot. A task that runs again and again keeps its number.
    finished: u64,
}

impl Shared {
    /// Looks at the running tasks. Returns how long each of them has been running at least.
    pub(crate) fn sight(&self) -> FxHashMap<TaskId, Duration> {
        let now = Instant::now();
        let mut seen: Vec<(TaskId, usize, bool)> = Vec::new();
        for (slot, exposed) in self.running.iter().enumerate() {
            exposed.tasks(|task| seen.push((task.shared().id, slot, task.is_in_rounds())));
        }
        let mut known = self.sightings.0.lock();
        let mut next = FxHashMap::default();
        for (task, slot, recurs) in seen {
            let finished = self.progress.tally(slot).own;
            let is_same = |before: &Sighting| !recurs || (before.slot, before.finished) == (slot, finished);
            let since = known.get(&task).filter(|before| is_same(before)).map_or(now, |before| before.since);
            next.insert(task, Sighting { since, slot, finished });
        }
        *known = next;
        known.iter().map(|(task, sighting)| (*task, now - sighting.since)).collect()
    }
}

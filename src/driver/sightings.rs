//! Times since when tasks have been seen running.
//!
//! Threads do not read a clock when they begin a task, so the beginning of a task is known only roughly. A thread that
//! inspects the running tasks notes them here, and the next inspection finds the tasks that are still running. A
//! thread that inspects regularly (for `Builder::explain_on_signal`, or to draw progress) makes the times accurate to
//! within its interval.
//!
//! Tasks pay nothing for this.

use super::reasons::Queues;
use super::shared::Shared;
use super::watch::Stall;
use crate::ids::TaskId;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::time::{Duration, Instant};

/// Tasks that were running at the last inspection, each with the time at which it was first seen.
#[derive(Default)]
pub(crate) struct Sightings(Mutex<FxHashMap<TaskId, Sighting>>);

struct Sighting {
    since: Instant,
    slot: usize,
    /// Number of tasks that had finished in the slot. It distinguishes the runs of a task that runs repeatedly under
    /// one ID.
    finished: u64,
}

impl Shared {
    /// Inspects the running tasks. Returns, for each of them, the minimum time for which it has been running.
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

    /// Describes the running and waiting tasks; `late` have run for longer than the limit.
    pub(super) fn overdue(&self, late: &[TaskId], since: Duration, queues: &dyn Queues) -> Stall {
        let mut stall = self.stall(since, queues);
        let all = stall.running.iter().chain(&stall.waiting);
        stall.overdue = all.filter(|task| late.contains(&task.task)).cloned().collect();
        stall
    }
}

//! Tasks that go on without a thread: who they are, for who asks when nothing moves, and how many have ended so.
//!
//! They belong to whoever has what they lent out, or to nobody if that is lost; here is no more than a look at them.

use super::watch::RunningTask;
use crate::depend::Detachment;
use crate::ids::{TaskId, UnitId};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// See the module.
pub(crate) struct Away {
    tasks: Mutex<FxHashMap<TaskId, Weak<Detachment>>>,
    /// How many have ended, by the unit that ran their bodies.
    ended: Box<[AtomicU64]>,
}

impl Away {
    pub(super) fn new(units: usize) -> Self {
        Self { tasks: Mutex::default(), ended: (0..units).map(|_| AtomicU64::new(0)).collect() }
    }

    /// A task goes on without a thread from now on.
    pub(super) fn enter(&self, task: TaskId, detachment: &Arc<Detachment>) {
        self.tasks.lock().insert(task, Arc::downgrade(detachment));
    }

    /// It has ended.
    pub(super) fn leave(&self, task: TaskId) {
        self.tasks.lock().remove(&task);
    }

    /// Whether no task is away.
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.lock().is_empty()
    }

    /// One was ended by a thread that counts nothing for its unit.
    pub(super) fn ended_elsewhere(&self, unit: UnitId) {
        self.ended[unit.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// How many have ended so, for each unit.
    pub(super) fn ended_by_unit(&self) -> impl Iterator<Item = u64> {
        self.ended.iter().map(|ended| ended.load(Ordering::Relaxed))
    }

    /// Those that wait now, the oldest first.
    pub(super) fn tasks(&self) -> Vec<RunningTask> {
        let detachments: Vec<_> = self.tasks.lock().values().filter_map(Weak::upgrade).collect();
        let see = |detachment: &Arc<Detachment>| detachment.look(|task, unit| RunningTask::of(unit, task, task.body()));
        let mut tasks: Vec<_> = detachments.iter().filter_map(see).collect();
        tasks.sort_unstable_by_key(|task| task.task);
        tasks
    }
}

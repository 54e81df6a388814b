//! The tasks that continue without a thread: a list for stall reports, and counts of those that have ended.
//!
//! These tasks belong to the holders of the regions they lent out, or to nothing if these were forgotten; this file
//! only observes them.

use super::watch::RunningTask;
use crate::depend::{Detachment, OwnedTask};
use crate::ids::{TaskId, UnitId};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The detached tasks of one runtime; see the module.
pub(crate) struct Away {
    tasks: Mutex<FxHashMap<TaskId, Weak<Detachment>>>,
    /// How many have ended, by the unit that ran their bodies.
    ended: Box<[AtomicU64]>,
}

impl Away {
    pub(super) fn new(units: usize) -> Self {
        Self { tasks: Mutex::default(), ended: (0..units).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Notes that a task continues without a thread.
    pub(super) fn enter(&self, task: TaskId, detachment: &Arc<Detachment>) {
        self.tasks.lock().insert(task, Arc::downgrade(detachment));
    }

    /// Notes that it has ended.
    pub(super) fn leave(&self, task: TaskId) {
        self.tasks.lock().remove(&task);
    }

    /// Whether no task is detached.
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.lock().is_empty()
    }

    /// Counts a task that was ended by a thread that keeps no count for the task's unit.
    pub(super) fn ended_elsewhere(&self, unit: UnitId) {
        self.ended[unit.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// How many tasks were ended that way, for each unit.
    pub(super) fn ended_by_unit(&self) -> impl Iterator<Item = u64> {
        self.ended.iter().map(|ended| ended.load(Ordering::Relaxed))
    }

    /// Calls `see` with each task that currently waits, and the unit that ran its body. The task does not end
    /// meanwhile.
    pub(super) fn visit(&self, see: &mut dyn FnMut(&OwnedTask, UnitId)) {
        self.detachments().iter().for_each(|detachment| _ = detachment.look(&mut *see));
    }

    fn detachments(&self) -> Vec<Arc<Detachment>> {
        self.tasks.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// Returns the tasks that currently wait, the oldest first.
    pub(super) fn tasks(&self) -> Vec<RunningTask> {
        let detachments = self.detachments();
        let see = |detachment: &Arc<Detachment>| detachment.look(|task, unit| RunningTask::of(unit, task, task.body()));
        let mut tasks: Vec<_> = detachments.iter().filter_map(see).collect();
        tasks.sort_unstable_by_key(|task| task.task);
        tasks
    }
}

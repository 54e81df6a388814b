//! Tasks that continue without a thread: a list of them for stall reports, and counts of those that have ended.
//!
//! Such tasks are owned by the holders of the regions that they exported; if the holders leaked those regions, the
//! tasks have no owner. This file only observes the tasks.

use super::watch::RunningTask;
use crate::depend::{Detachment, OwnedTask};
use crate::ids::{TaskId, UnitId};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The detached tasks of one runtime; see the module documentation.
pub(crate) struct Away {
    tasks: Mutex<FxHashMap<TaskId, Weak<Detachment>>>,
    /// Number of tasks that were ended by threads without a counter for the task's unit, indexed by the unit that ran
    /// the bodies.
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

    /// Notes that the task has ended.
    pub(super) fn leave(&self, task: TaskId) {
        self.tasks.lock().remove(&task);
    }

    /// Returns whether no task is detached.
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.lock().is_empty()
    }

    /// Counts a task that was ended by a thread without a counter for the task's unit.
    pub(super) fn ended_elsewhere(&self, unit: UnitId) {
        self.ended[unit.index()].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns, for each unit, the number of tasks that were ended that way.
    pub(super) fn ended_by_unit(&self) -> impl Iterator<Item = u64> {
        self.ended.iter().map(|ended| ended.load(Ordering::Relaxed))
    }

    /// Calls `see` with each task that currently waits, and with the unit that ran its body. The task cannot end
    /// meanwhile.
    pub(super) fn visit(&self, see: &mut dyn FnMut(&OwnedTask, UnitId)) {
        self.detachments().iter().for_each(|detachment| _ = detachment.look(&mut *see));
    }

    fn detachments(&self) -> Vec<Arc<Detachment>> {
        self.tasks.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// Returns the tasks that currently wait, oldest first.
    pub(super) fn tasks(&self) -> Vec<RunningTask> {
        let detachments = self.detachments();
        let see = |detachment: &Arc<Detachment>| detachment.look(|task, unit| RunningTask::of(unit, task, task.body()));
        let mut tasks: Vec<_> = detachments.iter().filter_map(see).collect();
        tasks.sort_unstable_by_key(|task| task.task);
        tasks
    }
}

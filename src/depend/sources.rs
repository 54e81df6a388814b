//! The tasks that produced the contents a task finds, part by part. Used for tasks that do not inherit poison as a
//! whole.
//!
//! The histories are queried under the same locks under which the task is entered. Later, when everything that the task
//! waits for has ended or been issued, the sources are checked for poison.

use super::history::History;
use super::{AccessRecord, Mode, TaskRef};
use crate::error::TaskFailure;
use crate::ids::DataId;
use crate::region::Block;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The tasks that produced the contents that one task finds.
#[derive(Default)]
pub(crate) struct Sources {
    found: Mutex<Vec<(DataId, Block, TaskRef)>>,
    is_unknown: AtomicBool,
}

impl Sources {
    /// Returns the mode that causes the same edges as `mode` but does not make the task inherit poison.
    pub(crate) fn without_value(mode: Mode) -> Mode {
        match mode {
            Mode::In => Mode::After,
            Mode::Inout => Mode::Accept,
            other => other,
        }
    }

    /// Records the tasks that produced the contents found by these accesses to one data object. Returns false if these
    /// tasks are not known yet, because they depend on what children or members of a group will do.
    #[cold]
    pub(super) fn look<'a>(&self, accesses: impl Iterator<Item = &'a AccessRecord<'a>>, history: &History) -> bool {
        let mut found = self.found.lock();
        for AccessRecord { datum, block, mode } in accesses {
            let is_used = matches!(mode, Mode::After | Mode::Accept);
            if is_used && !history.sources(block, |part, task| found.push((datum.id, part, task.clone()))) {
                self.is_unknown.store(true, Ordering::Relaxed);
                return false;
            }
        }
        true
    }

    /// Whether the task was refused because its sources are not known yet.
    pub(crate) fn are_unknown(&self) -> bool {
        self.is_unknown.load(Ordering::Relaxed)
    }

    /// Takes the poisoned parts, each with its cause. Must be called once, when everything that the task waits for has
    /// ended or been issued.
    pub(crate) fn poisoned(&self) -> Vec<(DataId, Block, Arc<TaskFailure>)> {
        let found = std::mem::take(&mut *self.found.lock());
        found.into_iter().filter_map(|(data, block, task)| Some((data, block, task.poison()?))).collect()
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("are_unknown", &self.are_unknown()).finish_non_exhaustive()
    }
}

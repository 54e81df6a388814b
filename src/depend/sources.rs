//! Who has left what a task finds, part by part: for tasks that take over no poison as a whole.
//!
//! The histories are looked at under the same locks under which the task is entered. Afterwards, when all that it waits for has
//! ended or been issued, those that are poisoned are asked for.

use super::history::History;
use super::{AccessRecord, Mode, TaskRef};
use crate::error::TaskFailure;
use crate::ids::DataId;
use crate::region::Block;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Those who have left what one task finds.
#[derive(Default)]
pub(crate) struct Sources {
    found: Mutex<Vec<(DataId, Block, TaskRef)>>,
    is_unknown: AtomicBool,
}

impl Sources {
    /// The modes by which a task is entered that takes over no poison: with the same edges.
    pub(crate) fn without_value(mode: Mode) -> Mode {
        match mode {
            Mode::In => Mode::After,
            Mode::Inout => Mode::Accept,
            other => other,
        }
    }

    /// Notes who has left what accesses to one data object find; false if that is not known yet, as children or members of
    /// a group decide.
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

    /// Whether the task was refused because of what is not known yet.
    pub(crate) fn are_unknown(&self) -> bool {
        self.is_unknown.load(Ordering::Relaxed)
    }

    /// What is bad of it, when all that it waits for has ended or been issued; nobody is asked twice.
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

//! The tasks that have left the contents a task finds, part by part: for tasks that take over no poison as a whole.
//!
//! The histories are looked at under the same locks under which the task is entered. Later, when everything that the
//! task waits for has ended or been issued, the poisoned sources are queried.

use super::history::History;
use super::{AccessRecord, Mode, TaskRef};
use crate::error::TaskFailure;
use crate::ids::DataId;
use crate::region::Block;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The tasks that have left the contents that one task finds.
#[derive(Default)]
pub(crate) struct Sources {
    found: Mutex<Vec<(DataId, Block, TaskRef)>>,
    is_unknown: AtomicBool,
}

impl Sources {
    /// Returns the mode with the same edges by which a task is entered that takes over no poison.
    pub(crate) fn without_value(mode: Mode) -> Mode {
        match mode {
            Mode::In => Mode::After,
            Mode::Inout => Mode::Accept,
            other => other,
        }
    }

    /// Notes the tasks that have left the contents found by these accesses to one data object. Returns false if they
    /// are not known yet, because children or members of a group decide them.
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

    /// Takes the parts that are poisoned, with the cause. To be called once, when everything that the task waits for
    /// has ended or been issued.
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

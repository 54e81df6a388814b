//! Commutative tasks: ready in any order, running one at a time per region.
//!
//! A commutative task that has no predecessor left still has to get all of its commutative regions for itself. It gets
//! them all at once or waits without holding any, so two of them cannot block each other.

use super::{AccessRecord, Mode, OwnedTask};
use crate::ids::DataId;
use crate::region::Block;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// Who holds which commutative regions, and who waits, first come first served.
#[derive(Debug, Default)]
pub(crate) struct Arbiter {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    held: Vec<(usize, DataId, Block)>,
    waiting: VecDeque<OwnedTask>,
}

impl Arbiter {
    /// Gives the task back if it holds its regions now; else it waits inside.
    pub(crate) fn acquire(&self, task: OwnedTask) -> Option<OwnedTask> {
        let mut state = self.state.lock();
        if state.try_hold(&task) {
            return Some(task);
        }
        state.waiting.push_back(task);
        None
    }

    /// Takes the regions of a task that has run; hands those who can run now to `ready`.
    pub(crate) fn release(&self, task: &OwnedTask, mut ready: impl FnMut(OwnedTask)) {
        let mut state = self.state.lock();
        let holder = task.address();
        state.held.retain(|(by, ..)| *by != holder);
        let waiting = std::mem::take(&mut state.waiting);
        for task in waiting {
            if state.try_hold(&task) {
                ready(task);
            } else {
                state.waiting.push_back(task);
            }
        }
    }
}

impl State {
    fn try_hold(&mut self, task: &OwnedTask) -> bool {
        let mut wanted = Vec::new();
        task.body().accesses(&mut |AccessRecord { datum, block, mode }| {
            if mode == Mode::Commutative {
                wanted.push((task.address(), datum.id, *block));
            }
        });
        let free = wanted.iter().all(|(_, data, block)| {
            !self.held.iter().any(|(_, held_data, held)| held_data == data && held.overlaps(block))
        });
        if free {
            self.held.append(&mut wanted);
        }
        free
    }
}

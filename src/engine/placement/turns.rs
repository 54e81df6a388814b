//! Preference for tasks that follow other tasks ([`ReadyTask::follows`](crate::sched::ReadyTask::follows)), and its
//! limit.
//!
//! A consumer that runs before further producers frees memory. But an endless chain of consumers would keep all tasks
//! that follow no other task from running. So after a number of preferred tasks, one task that would be preferred has
//! to wait its turn.
//!
//! Invariant: `waiting` contains exactly the tasks in the policy's charge that were not preferred.

use crate::ids::TaskId;
use rustc_hash::FxHashSet;

/// Maximum number of tasks that may be preferred over a waiting task.
const MOST_PREFERRED: u32 = 256;

/// The state of the preference; see the module documentation.
#[derive(Default)]
pub(super) struct Turns {
    waiting: FxHashSet<TaskId>,
    /// Number of tasks preferred since a task that follows others last had to wait its turn, or since no task waited.
    preferred: u32,
}

impl Turns {
    /// Notes that a task is ready. Returns whether the task is preferred.
    pub(super) fn enter(&mut self, task: TaskId, follows: bool) -> bool {
        let is_preferred = follows && (self.waiting.is_empty() || self.preferred < MOST_PREFERRED);
        if is_preferred {
            self.preferred += u32::from(!self.waiting.is_empty());
        } else {
            self.waiting.insert(task);
            if follows {
                self.preferred = 0;
            }
        }
        is_preferred
    }

    /// Notes that the policy has given the task to a unit.
    pub(super) fn leave(&mut self, task: TaskId) {
        if self.waiting.remove(&task) && self.waiting.is_empty() {
            self.preferred = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preference_is_limited_only_while_others_wait() {
        let mut turns = Turns::default();
        let all = |turns: &mut Turns, n: u64| (0..n).all(|id| turns.enter(TaskId(id), true));
        assert!(all(&mut turns, 10_000));
        assert!(!turns.enter(TaskId(1 << 20), false));
        assert!(all(&mut turns, u64::from(MOST_PREFERRED)));
        assert!(!turns.enter(TaskId(1 << 21), true), "it waits its turn");
        assert!(all(&mut turns, u64::from(MOST_PREFERRED)));
        (20..22).for_each(|bit| turns.leave(TaskId(1 << bit)));
        assert!(all(&mut turns, 10_000));
    }
}

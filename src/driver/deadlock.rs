//! Deadlock detection for bodies that wait for something that in turn waits for the end of the body's task.
//!
//! Once the waiting body has nothing else to do, a certain deadlock is detected, and the wait is refused
//! ([`crate::sync::Suspended`] performs the search). The search finds paths along dependences, the children that a
//! body waits for, the members of a group, and other waiting bodies. It ignores other reasons why a task may be
//! delayed: turns of commutative tasks, memory, and the program's own threads. Deadlocks that involve those are only
//! visible in stall reports.
//!
//! A body that waits and finds nothing else to do adds itself and the object of its wait to a list. It then searches
//! once for a path from its own task to that object, along edges and through the waits of the other bodies in the list
//! (`sync/suspended.rs`). A waiting body holds back all tasks after it, so none of the successor lists that the search
//! reads is closed meanwhile. The body that closes a cycle finds the cycle, and its wait is refused. Tasks that do not
//! wait pay nothing.
//!
//! This module never waits, and its reports only concern tasks that cannot end meanwhile.

use super::shared::Shared;
use crate::depend::{AccessRecord, Body, Domain, Group, OwnedTask, Step, Task};
use crate::sync::CallSite;
use crate::sync::{Behind, Key, Search};
use std::sync::Arc;

/// Maximum number of ancestor levels that are searched.
const MOST_LEVELS: usize = 1 << 10;

/// A wait that can never end.
#[derive(Debug)]
pub(crate) struct Circle {
    /// Description of the task whose body waits.
    pub(crate) task: String,
    pub(crate) submitted_at: CallSite,
    /// Description of why the awaited event depends on this task.
    pub(crate) way: String,
}

/// Reason why a wait in a body is refused.
#[derive(Debug)]
pub(crate) enum Vain {
    /// The wait can never end.
    Circle(Circle),
    /// The thread cannot begin another task, because there is no memory for its stack.
    NoStack {
        /// Description of the task whose body waits.
        task: String,
        submitted_at: CallSite,
    },
}

/// Returns the key of a wait for the end of a task.
pub(crate) fn key_of_task(task: &Task) -> Key {
    std::ptr::from_ref(task).addr()
}

/// Returns the key of a wait for a task's children.
pub(crate) fn key_of_children(domain: &Arc<Domain>) -> Key {
    Arc::as_ptr(domain).addr()
}

/// Returns the key of a wait for the members of a group.
pub(crate) fn key_of_group(group: &Group) -> Key {
    std::ptr::from_ref(group).addr()
}

impl Shared {
    /// If anything is `left` to wait for, calls `wait`, in which the body of the first of `tasks` waits for `key`. The
    /// other tasks are further down the same stack.
    ///
    /// # Errors
    /// Fails if the event of `key` depends on the task. In that case `wait` is not called.
    pub(super) fn suspended(
        &self,
        tasks: &[&OwnedTask],
        key: Key,
        left: impl Fn() -> u64,
        wait: impl FnOnce(),
    ) -> Result<(), Vain> {
        if left() == 0 {
            return Ok(());
        }
        let parent = |task: &OwnedTask| task.owned().child.as_ref().map(|child| child.parent().clone());
        self.suspended.during(tasks, key, parent, |during| {
            if let Some(way) = during.way(Search { keys, goes_on: || left() > 0, describe }) {
                let task = tasks[0].shared();
                let circle = Circle { task: task.name.clone().into_owned(), submitted_at: task.location, way };
                return Err(Vain::Circle(circle));
            }
            wait();
            Ok(())
        })
    }
}

/// Visits the keys of events that cannot happen before this task ends: the end of the task itself, of its groups, and
/// of the children of its parent and ancestors. Parents of suspended tasks are known: if one of those tasks waits for
/// its children, the search continues from that task to the levels above.
pub(super) fn keys(
    task: &Task,
    body: &(dyn Body + 'static),
    parent: Option<&Option<Arc<Domain>>>,
    is_known: &mut dyn FnMut(Key) -> bool,
) {
    is_known(key_of_task(task));
    body.group().into_iter().flat_map(Group::line).for_each(|group| _ = is_known(key_of_group(group)));
    let mut parents = std::iter::successors(parent.cloned().flatten(), |domain| domain.outer()).take(MOST_LEVELS);
    parents.any(|domain| is_known(key_of_children(&domain)));
}

/// Describes the path from the waiting task to the awaited task.
fn describe(steps: &[Step<'_>]) -> String {
    // Tasks that the runtime has added are omitted unless they access a region.
    let asks = |step: &Step<'_>| {
        let mut any = false;
        step.body.accesses(&mut |_| any = true);
        any
    };
    let is_shown = |step: &&Step<'_>| !step.task.shared().join && (!step.task.shared().internal || asks(step));
    let shown: Vec<_> = steps.iter().filter(is_shown).collect();
    let pairs = shown.iter().zip(&shown[1..]).map(|(before, step)| link(before, step));
    let mut words: Vec<_> = pairs.collect();
    if let Some(last) = shown.last()
        && (!last.task.shared().internal || shown.len() == 1)
    {
        words.push(format!("this call waits for `{}`", last.task.shared().name));
    }
    words.join(", and ")
}

/// Describes why one task comes after another.
fn link(before: &Step<'_>, step: &Step<'_>) -> String {
    let (first, then) = (before.task.shared(), step.task.shared());
    let who = match then.internal {
        true => format!("the request of `{}`", then.name),
        false => format!("`{}`, submitted at {},", then.name, then.location),
    };
    match step.behind {
        Behind::Waits => format!("{who} waits for `{}`", first.name),
        Behind::Beneath => format!("{who} continues when `{}` has ended", first.name),
        Behind::Edge => {
            let by = conflict(before.body, step.body);
            let by = by.map_or_else(String::new, |access| format!(" by its access to {access}"));
            format!("{who} comes after `{}`{by}", first.name)
        }
    }
}

/// Describes an access of the second body that conflicts with an access of the first body.
pub(super) fn conflict(first: &(dyn Body + 'static), then: &(dyn Body + 'static)) -> Option<String> {
    let mut found = None;
    first.accesses(&mut |held| {
        then.accesses(&mut |access: AccessRecord<'_>| {
            if found.is_none() && held.conflicts_with(&access) {
                found = Some(format!("{} ({}) of {}", access.datum.describe(access.block), access.mode, access.datum));
            }
        });
    });
    found
}

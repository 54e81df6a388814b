//! Deadlock detection: waits of a body for something that itself waits for the end of the body's task.
//!
//! A certain deadlock is found when the waiting body has nothing else to do, and the wait is then refused
//! ([`crate::sync::Suspended`] performs the search). The search finds paths along dependences, the children that a body
//! waits for, the members of a group, and other waiting bodies. It does not consider other reasons why a task may be
//! delayed: turns of commutative tasks, memory, and the program's own threads. For these, the report of a stall
//! remains.
//!
//! A body that waits and finds nothing else to do enters itself in a list with the object of its wait. It then searches
//! once for a path from its own task to that object, along edges and through the waits of the other bodies in the list
//! (`sync/suspended.rs`). A waiting body holds back all tasks after it, so none of the lists of successors that are
//! searched is closed meanwhile. The body that closes a cycle finds it and is refused; tasks that do not wait pay
//! nothing.
//!
//! Nothing here waits, and the reports concern tasks that cannot end meanwhile.

use super::shared::Shared;
use crate::depend::{AccessRecord, Body, Domain, Group, OwnedTask, Step, Task};
use crate::sync::{Behind, Key, Search};
use std::panic::Location;
use std::sync::Arc;

/// The maximum number of levels of parents that are searched.
const MOST_LEVELS: usize = 1 << 10;

/// A wait that never ends.
#[derive(Debug)]
pub(crate) struct Circle {
    /// The task whose body waits.
    pub(crate) task: String,
    pub(crate) submitted_at: &'static Location<'static>,
    /// Why the event that it waits for depends on it, in words.
    pub(crate) way: String,
}

/// The reason why a wait in a body is refused.
#[derive(Debug)]
pub(crate) enum Vain {
    /// The wait never ends.
    Circle(Circle),
    /// The thread can begin no other task: there is no stack for one.
    NoStack {
        /// The task whose body waits.
        task: String,
        submitted_at: &'static Location<'static>,
    },
}

/// The key of a wait for the end of a task.
pub(crate) fn key_of_task(task: &Task) -> Key {
    std::ptr::from_ref(task).addr()
}

/// The key of a wait for a task's children.
pub(crate) fn key_of_children(domain: &Arc<Domain>) -> Key {
    Arc::as_ptr(domain).addr()
}

/// The key of a wait for the members of a group.
pub(crate) fn key_of_group(group: &Group) -> Key {
    std::ptr::from_ref(group).addr()
}

impl Shared {
    /// Calls `wait`, in which the body of the first of `tasks` waits for `key`, if anything is `left` to wait for.
    /// The other tasks lie beneath it on its stack.
    ///
    /// # Errors
    /// If the key depends on the task: `wait` is not called then.
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

/// Visits the keys that are not done before this task ends: those of the task itself, of its groups, and of the
/// children of its parent and of the ancestors. The parent is known for suspended tasks; if one of these waits for its
/// children, the search continues from that task to the levels above.
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

/// Describes the path, from the task that waits to the one it waits for.
fn describe(steps: &[Step<'_>]) -> String {
    // Tasks that the runtime adds itself are left out, unless they access a region.
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

/// Describes why a task comes after another.
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

/// Describes an access in the second body that conflicts with one in the first.
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

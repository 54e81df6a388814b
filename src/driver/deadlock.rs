//! Waits that never end: a body that waits for what waits for the end of its own task.
//!
//! What is certain to be one is found when the body has nothing else to do, and refused then ([`crate::sync::Suspended`]
//! searches). A body is found to wait for itself where the way leads over dependences, over the children that a body waits
//! for, the members of a group, and other bodies that wait. What else may hold somebody up is not looked at: turns of
//! commutative tasks, memory, threads of the program's own. There the report of a stall remains.
//!
//! Nothing here waits, and what is said is said of tasks that cannot go.

use super::shared::Shared;
use crate::depend::{AccessRecord, Body, Domain, Group, OwnedTask, Step, Task};
use crate::sync::{Behind, Key, Search};
use std::panic::Location;
use std::sync::Arc;

/// No more levels of parents are looked at.
const MOST_LEVELS: usize = 1 << 10;

/// A wait that never ends.
#[derive(Debug)]
pub(crate) struct Circle {
    /// The task whose body waits.
    pub(crate) task: String,
    pub(crate) submitted_at: &'static Location<'static>,
    /// Why what it waits for comes behind it, in words.
    pub(crate) way: String,
}

/// Why a wait in a body is refused.
#[derive(Debug)]
pub(crate) enum Vain {
    /// It never ends.
    Circle(Circle),
    /// Its thread can begin no other task: there is no stack for one.
    NoStack {
        /// The task whose body waits.
        task: String,
        submitted_at: &'static Location<'static>,
    },
}

/// What a body waits for that waits for the end of a task.
pub(crate) fn key_of_task(task: &Task) -> Key {
    std::ptr::from_ref(task).addr()
}

/// What a body waits for that waits for its task's children.
pub(crate) fn key_of_children(domain: &Arc<Domain>) -> Key {
    Arc::as_ptr(domain).addr()
}

/// What a body waits for that waits for the members of a group.
pub(crate) fn key_of_group(group: &Group) -> Key {
    std::ptr::from_ref(group).addr()
}

impl Shared {
    /// Calls `wait`, in which the body of the first of `tasks` waits for what has this key, of which something is `left`; the
    /// others lie beneath it on its stack.
    ///
    /// # Errors
    /// If that waits for the task: `wait` is not called then.
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

/// What is not over before this task is: the task, its groups, and the children of its parent and of those further up. The
/// parent is known of those that are suspended; where one waits for its children, those above are found by that one.
fn keys(
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

/// The way in words, from the task that waits to what it waits for.
fn describe(steps: &[Step<'_>]) -> String {
    // What the runtime adds by itself is left out, but what asks for a region.
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
        words.push(format!("`{}` is waited for here", last.task.shared().name));
    }
    words.join(", and ")
}

/// How a task comes behind another.
fn link(before: &Step<'_>, step: &Step<'_>) -> String {
    let (first, then) = (before.task.shared(), step.task.shared());
    let who = match then.internal {
        true => format!("what `{}` asks for", then.name),
        false => format!("`{}`, submitted at {},", then.name, then.location),
    };
    match step.behind {
        Behind::Waits => format!("{who} waits for `{}`", first.name),
        Behind::Beneath => format!("{who} goes on when `{}` has ended", first.name),
        Behind::Edge => {
            let by = conflict(before, step).map_or_else(String::new, |access| format!(" by its access to {access}"));
            format!("{who} comes after `{}`{by}", first.name)
        }
    }
}

/// An access of the second task that conflicts with one of the first.
fn conflict(before: &Step<'_>, step: &Step<'_>) -> Option<String> {
    let mut found = None;
    before.body.accesses(&mut |held| {
        step.body.accesses(&mut |access: AccessRecord<'_>| {
            if found.is_none() && held.conflicts_with(&access) {
                found = Some(format!("{} ({}) of {}", access.datum.describe(access.block), access.mode, access.datum));
            }
        });
    });
    found
}

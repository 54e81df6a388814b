//! The chain of tasks from a task that has not ended to the task that blocks it.
//!
//! A search that goes forward from everything that runs would visit all pending tasks. Edges lead from earlier to
//! later submissions, so the first search does not go beyond tasks that were submitted after the task in question.
//! Children are the exception, because they can be submitted after tasks that wait for them. So if the first search
//! finds nothing, further searches go beyond all tasks, and also take tasks out of the deques.
//!
//! This module does not describe tasks that wait for no other task through an edge; [`words`] does.

use super::scan::{Queues, Root, Scan, Standing};
use super::words::{self, Scene};
use super::{WaitReason, WaitStep};
use crate::depend::{Meta, ReadyStage, TaskRef, WalkedTask};
use crate::driver::deadlock::{conflict, key_of_group, key_of_task};
use crate::driver::shared::Shared;
use crate::ids::TaskId;
use crate::sync::{Key, Next};

/// Maximum number of tasks that one search visits.
const MOST_MET: usize = 1 << 16;
/// Maximum number of tasks that one search takes out of deques.
const MOST_TAKEN: usize = 1 << 12;
/// Maximum number of consecutive searches. Each body that waits requires a further search.
const MOST_SEARCHES: usize = 16;
/// Lowest ID of the dependence layer's internal tasks, which have no place in submission order.
const HELPERS: u64 = 1 << 61;

/// Explains why a task has not ended.
pub(crate) fn explain(shared: &Shared, queues: &dyn Queues, task: &TaskRef) -> WaitReason {
    let alone = |because: String| WaitReason::alone(task, because);
    let ended = || task.is_finished().then(|| alone(words::ended(task.poison())));
    if shared.is_in_child() {
        return alone("is in the parent process, where the runtime's threads are".to_owned());
    }
    if let Some(ended) = ended() {
        return ended;
    }
    let since = shared.sight();
    let mut steps: Vec<WaitStep> = Vec::new();
    let (mut goal, mut newest, mut is_exhausted) = (Some(key_of_task(task)), Some(task.shared().id), false);
    for _ in 0..MOST_SEARCHES {
        let Some(found) = goal.and_then(|goal| search(shared, queues, goal, newest.take(), &mut is_exhausted)) else {
            break;
        };
        let scene = Scene { shared, roots: &found.scan.roots, since: &since };
        if !extend(&mut steps, found.way) {
            break;
        }
        let mut root = Some(&found.scan.roots[found.root]);
        while let Some(at) = root {
            let holder = found.scan.holder_of(at);
            // The gate of a replay means nothing to the user, so it gets no step.
            let is_new = is_gate(at) && holder.is_some() || extend(&mut steps, [scene.step(at, holder)]);
            goal = awaited_by(at);
            root = holder.filter(|_| is_new && goal.is_none());
        }
    }
    match steps.is_empty() {
        false => WaitReason { steps },
        true => ended().unwrap_or_else(|| alone(words::not_found(shared, task, is_exhausted.then_some(MOST_MET)))),
    }
}

/// Creates one step of a chain.
pub(super) fn step(task: &Meta, because: String) -> WaitStep {
    let Meta { id, name, location, .. } = task;
    WaitStep { task: *id, name: name.clone().into_owned(), submitted_at: *location, because }
}

/// Describes why one task comes after another. A walk has visited both tasks.
pub(super) fn comes_after(then: &WalkedTask<'_>, first: &WalkedTask<'_>) -> String {
    let Meta { id, name, .. } = first.task().shared();
    let first_task = if id.0 < HELPERS { format!("{id} `{name}`") } else { "a replay of recorded tasks".to_owned() };
    let by = conflict(first.body(), then.body());
    let by = by.map_or_else(String::new, |access| format!(" by its access to {access}"));
    let others = then.task().blockers().filter(|_| !then.task().is_in_rounds()).map_or(0, |all| all.saturating_sub(1));
    let others = match others {
        0 => String::new(),
        1 => ", and after another one".to_owned(),
        others => format!(", and after {others} others"),
    };
    format!("comes after {first_task}{by}{others}")
}

/// Returns whether a task means something to the user: it is a user task, or it was added for a region.
pub(super) fn is_shown(task: &WalkedTask<'_>) -> bool {
    let Meta { join, internal, .. } = *task.task().shared();
    let mut any = false;
    if internal && !join {
        task.body().accesses(&mut |_| any = true);
    }
    !join && (!internal || any)
}

/// Appends steps, unless one of them names a task that is already in the list. Returns whether the steps were
/// appended. Without this check, two tasks that wait for each other would be written over and over.
fn extend(steps: &mut Vec<WaitStep>, new: impl IntoIterator<Item = WaitStep>) -> bool {
    for step in new {
        if steps.iter().any(|known| (known.task, &known.because) == (step.task, &step.because)) {
            return false;
        }
        steps.push(step);
    }
    true
}

/// Returns the key of the event that a task's body waits for.
fn awaited_by(root: &Root) -> Option<Key> {
    match root.standing {
        Standing::Begun { key, .. } => key,
        Standing::Waits { key } => Some(key),
        _ => None,
    }
}

fn is_gate(root: &Root) -> bool {
    matches!(root.standing, Standing::Queued { stage: ReadyStage::Replay, .. })
}

/// A task that was found, the index of the root from which the scan reached it, and the steps between them, excluding
/// the root's own step.
struct Trace<'s> {
    scan: Scan<'s>,
    way: Vec<WaitStep>,
    root: usize,
}

/// Searches for a task that has not ended and that precedes the event with this key, and for what that task waits for.
/// Sets `is_exhausted` if there were more tasks than a search may visit.
fn search<'s>(
    shared: &'s Shared,
    queues: &dyn Queues,
    goal: Key,
    newest: Option<TaskId>,
    is_exhausted: &mut bool,
) -> Option<Trace<'s>> {
    let attempts = [(newest, 0), (None, 0), (newest, MOST_TAKEN), (None, MOST_TAKEN)];
    let attempts = attempts.iter().skip(usize::from(newest.is_none()));
    for (newest, taken) in attempts {
        let (mut scan, mut found) = (Scan::new(shared, Some(goal), MOST_MET), None);
        scan.run(queues, *taken, &mut |met, number, root| {
            if is_goal(met, root, goal) {
                found = Some((describe(met), number));
                return Next::Stop;
            }
            let id = met.task().shared().id;
            if newest.is_some_and(|newest| id > newest && id.0 < HELPERS) { Next::Aside } else { Next::Beyond }
        });
        if let Some((way, root)) = found {
            return Some(Trace { scan, way, root });
        }
        *is_exhausted |= scan.is_exhausted();
    }
    None
}

fn is_goal(met: &WalkedTask<'_>, root: &Root, goal: Key) -> bool {
    match met.before() {
        None => root.is_goal,
        Some(_) => {
            let is_member = || met.body().group().is_some_and(|own| own.line().any(|own| key_of_group(own) == goal));
            key_of_task(met.task()) == goal || is_member()
        }
    }
}

/// Describes the path from a task to the root from which a walk has reached the task.
fn describe(met: &WalkedTask<'_>) -> Vec<WaitStep> {
    let mut way: Vec<_> = std::iter::successors(Some(*met), WalkedTask::before).collect();
    let root = way.len() - 1;
    let mut number = 0;
    way.retain(|met| {
        number += 1;
        number > root || is_shown(met)
    });
    way.windows(2).map(|pair| step(pair[0].task().shared(), comes_after(&pair[0], &pair[1]))).collect()
}

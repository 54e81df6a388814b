//! Tracking of the task whose code runs on the current thread: tasks that this code submits become its children.
//!
//! A task's code consists of its body, the destructors of the captured values and the operation of a reduction. The
//! code runs on the calling thread, and parts of it may run on the other threads of the unit's pool ([`Team`]). Threads
//! that the code starts itself belong to no task.
//!
//! Nothing in this module waits, and a team's lock is held only as long as it takes to clone an `Arc`.

use super::{Ancestry, Group, OwnedTask};
use crate::depend::{Child, Domain};
use crate::ids::TaskId;
pub(crate) use crate::sync::Frames;
use crate::sync::Scope;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::sync::Arc;

/// The body to which the current code belongs, if several threads may run parts of that body. Code in such a part must
/// not wait.
#[derive(Debug, Clone, Default)]
pub(crate) struct Part {
    /// The regions that children of that body must leave alone.
    ancestry: Ancestry,
    /// The domain in which these children are entered; `None` if the task itself provides the domain.
    domain: Option<Arc<Domain>>,
}

impl Part {
    /// Returns the part of the body of this task.
    fn of(task: &OwnedTask) -> Self {
        Self { ancestry: Ancestry::of_children(task), domain: Some(Domain::of(task)) }
    }
}

/// The threads of one unit's pool. Code on these threads counts as part of the body that the unit is currently running.
///
/// If an earlier body spawned code and did not wait for it, that code may still be running; it is also treated as part
/// of the current body.
#[derive(Debug, Default)]
pub(crate) struct Team(Mutex<Part>);

thread_local! {
    /// The tasks whose code is on this thread's stack; each runtime is a separate scope domain.
    static RUNNING: Scope<OwnedTask, Part> = const { Scope::new() };
    /// The team that this thread belongs to, and its runtime.
    static TEAM: OnceCell<(u64, Arc<Team>)> = const { OnceCell::new() };
    /// Whether this thread has a team; read by every submission.
    static IN_TEAM: Cell<bool> = const { Cell::new(false) };
}

/// Calls `code` as a part of `task`.
#[inline(always)] // on the path of every task
pub(crate) fn as_part_of<R>(runtime: u64, task: &OwnedTask, code: impl FnOnce() -> R) -> R {
    Scope::enter(&RUNNING, (runtime, false), Some(task), code)
}

/// Calls `code` as the body of `task`; `waits` says whether the body may wait.
#[inline(always)] // on the path of every task
pub(crate) fn as_body_of<R>(runtime: u64, waits: bool, task: &OwnedTask, code: impl FnOnce() -> R) -> R {
    Scope::enter(&RUNNING, (runtime, waits), Some(task), code)
}

/// Like [`as_body_of`], but the other threads of this thread's team may run parts of the body.
#[cold]
pub(crate) fn as_body_with_team<R>(runtime: u64, waits: bool, task: &OwnedTask, code: impl FnOnce() -> R) -> R {
    let Some(team) = team_of(runtime) else { return as_body_of(runtime, waits, task, code) };
    let part = Part::of(task);
    let before = std::mem::replace(&mut *team.0.lock(), part);
    let ended = as_body_of(runtime, waits, task, code);
    let _own = std::mem::replace(&mut *team.0.lock(), before);
    ended
}

/// Calls `code`, which runs user code without a visible task: either the task is on another thread, or the code
/// consists of destructors at the task's end.
#[inline]
pub(crate) fn inside<R>(runtime: u64, code: impl FnOnce() -> R) -> R {
    Scope::enter(&RUNNING, (runtime, false), None, code)
}

/// Makes this thread a member of `team` from now on.
pub(crate) fn join(runtime: u64, team: Arc<Team>) {
    TEAM.with(|mine| _ = mine.set((runtime, team)));
    IN_TEAM.set(true);
}

/// Whether the current code is the body of one of this runtime's tasks and may wait.
#[inline]
pub(crate) fn may_wait(runtime: u64) -> bool {
    RUNNING.with(|running| running.is_open(runtime))
}

/// Returns the runtime of the body that runs here, if it may wait.
pub(crate) fn waits_in() -> Option<u64> {
    RUNNING.with(Scope::open)
}

/// Returns the runtime of the innermost user code on this thread's stack, and whether the code's task is known.
pub(crate) fn innermost() -> Option<(u64, bool)> {
    RUNNING.with(|running| running.find(|domain, task, _| Some((domain, task.is_some()))))
}

/// Calls `code`, which must not wait, with the part of a body that this thread is running, if any.
pub(crate) fn with_part<R>(runtime: u64, code: impl FnOnce(Option<&Part>) -> R) -> R {
    let mut code = Some(code);
    let made = RUNNING.with(|running| {
        running.find(|domain, task, note| {
            Some(match (task, note.get()) {
                _ if domain != runtime => None,
                (_, Some(part)) if part.domain.is_some() => code.take().map(|code| code(Some(part))),
                (Some(task), _) => {
                    let part = Part::of(task);
                    code.take().map(|code| as_part(runtime, &part, || code(Some(&part))))
                }
                (None, _) => None,
            })
        })
    });
    made.flatten().unwrap_or_else(|| code.take().expect("the code was not called yet")(None))
}

/// Whether this thread is running a part of a body of this runtime.
pub(crate) fn is_part(runtime: u64) -> bool {
    let is_part = |part: &Part| part.domain.is_some();
    let innermost = RUNNING
        .with(|running| running.find(|domain, _, note| Some(domain == runtime && note.get().is_some_and(is_part))));
    innermost == Some(true)
}

/// Calls `code` as this part of a body.
pub(crate) fn as_part<R>(runtime: u64, part: &Part, code: impl FnOnce() -> R) -> R {
    Scope::enter_noted(&RUNNING, runtime, part.clone(), code)
}

/// Calls `look` with the task whose code runs here, if it belongs to this runtime.
pub(crate) fn with_task<R>(runtime: u64, look: impl FnOnce(&OwnedTask) -> R) -> Option<R> {
    let mut look = Some(look);
    let innermost = RUNNING.with(|running| {
        running.find(|domain, task, _| {
            let look = look.take().filter(|_| domain == runtime);
            Some(task.zip(look).map(|(task, look)| look(task)))
        })
    });
    innermost.flatten()
}

/// Returns the task of a frozen graph whose body, or whose descendant's body, is running on this thread.
pub(crate) fn replayed_here(runtime: u64) -> Option<TaskId> {
    let replayed = |task: &OwnedTask| match task.is_in_rounds() {
        true => Some(task.shared().id),
        false => task.owned().child.as_ref().and_then(|child| child.parent().replayed()),
    };
    with_task(runtime, replayed).flatten()
}

/// Calls `look` with all tasks of this runtime whose code is on this stack, innermost first.
pub(crate) fn with_all_tasks<R>(runtime: u64, look: impl FnOnce(&[&OwnedTask]) -> R) -> R {
    RUNNING.with(|running| running.with_all(runtime, look))
}

/// Returns the name of a member of this group whose code is on this thread's stack.
pub(crate) fn member_of(group: &Group) -> Option<Cow<'static, str>> {
    let is_member =
        |task: &OwnedTask| task.body().group().is_some_and(|own| own.line().any(|own| std::ptr::eq(own, group)));
    let name = |task: &OwnedTask| is_member(task).then(|| task.shared().name.clone());
    RUNNING.with(|running| running.find(|_, task, _| task.and_then(name)))
}

/// Whether `task` was submitted, directly or indirectly, from the body that is running on this thread.
pub(crate) fn is_descendant_here(runtime: u64, task: &OwnedTask) -> bool {
    /// Tasks nested deeper than this are not recognized as descendants, which only means that they get a separate
    /// stack.
    const MOST_LEVELS: usize = 64;
    let mut domains =
        std::iter::successors(task.owned().child.as_ref().map(Child::parent).cloned(), |domain| domain.outer())
            .take(MOST_LEVELS);
    let is_of = |own: &OwnedTask| {
        let own = own.shared().domain.get();
        own.is_some_and(|own| domains.any(|domain| Arc::ptr_eq(&domain, own)))
    };
    with_task(runtime, is_of).unwrap_or(false)
}

/// Whether `task` was submitted, directly or indirectly, from the body of this domain's task. The domain's task must
/// not have ended.
pub(crate) fn descends_from(domain: &Arc<Domain>, task: &OwnedTask) -> bool {
    let parent = task.owned().child.as_ref().map(Child::parent).cloned();
    std::iter::successors(parent, |domain| domain.outer()).any(|parent| Arc::ptr_eq(&parent, domain))
}

/// Returns the domain of the task whose body, or a part of it, is running on this thread; the task's children are
/// entered there. Returns `None` for code that runs after the body of a task in rounds has ended, because the task has
/// already waited for its children by then.
pub(crate) fn domain_here(runtime: u64) -> Option<Arc<Domain>> {
    let has_children = |task: &&OwnedTask| !task.is_in_rounds() || may_wait(runtime);
    let here = RUNNING.with(|running| {
        running.find(|domain, task, note| {
            let of_part = || note.get().and_then(|part| part.domain.clone());
            let of_task = || task.filter(has_children).map(Domain::of);
            Some((domain == runtime).then(|| of_task().or_else(of_part)).flatten())
        })
    });
    here.unwrap_or_else(|| team_of(runtime).and_then(|team| team.0.lock().domain.clone()))
}

/// Returns the task whose body, or a part of it, is running on this thread.
pub(crate) fn task_here(runtime: u64) -> Option<TaskId> {
    if RUNNING.with(Scope::is_empty) && !IN_TEAM.get() {
        return None;
    }
    with_task(runtime, |task| task.shared().id).or_else(|| domain_here(runtime).map(|domain| domain.task()))
}

/// Calls `code`, which runs on a separate stack; `frames` are the frames that it had when it was last suspended.
pub(crate) fn apart<R>(frames: &mut Frames, code: impl FnOnce() -> R) -> R {
    Scope::apart(&RUNNING, frames, code)
}

/// Whether this thread's stack contains no task code at all.
pub(crate) fn is_outside() -> bool {
    RUNNING.with(Scope::is_empty)
}

/// Whether this thread's stack contains code of a task of this runtime.
#[inline]
pub(crate) fn is_inside(runtime: u64) -> bool {
    let find = |running: &Scope<_, _>| running.find(|domain, _, _| (domain == runtime).then_some(()));
    !RUNNING.with(Scope::is_empty) && RUNNING.with(find).is_some()
}

/// Returns the ancestors of a task that this thread is about to submit to `runtime`.
///
/// Only the innermost task counts. If it belongs to another runtime, the new task has no ancestors, because tasks of
/// different runtimes have no common order.
#[inline]
pub(crate) fn ancestry(runtime: u64) -> Ancestry {
    if RUNNING.with(Scope::is_empty) && !IN_TEAM.get() {
        return Ancestry::default();
    }
    ancestry_inside(runtime)
}

#[cold]
fn ancestry_inside(runtime: u64) -> Ancestry {
    let innermost = RUNNING.with(|running| {
        running.find(|domain, task, note| {
            let part = |task| Part { ancestry: Ancestry::of_children(task), domain: None };
            match task {
                Some(_) if domain != runtime => Some(Ancestry::default()),
                Some(task) => Some(note.get_or_init(|| part(task)).ancestry.clone()),
                None => {
                    note.get().map(|part| if domain == runtime { part.ancestry.clone() } else { Ancestry::default() })
                }
            }
        })
    });
    innermost.unwrap_or_else(|| team_of(runtime).map(|team| team.0.lock().ancestry.clone()).unwrap_or_default())
}

fn team_of(runtime: u64) -> Option<Arc<Team>> {
    let team = TEAM.try_with(|mine| mine.get().filter(|(of, _)| *of == runtime).map(|(_, team)| team.clone()));
    team.ok().flatten()
}

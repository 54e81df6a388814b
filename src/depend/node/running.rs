//! Whose code runs on this thread: user code is part of a task, and what it submits is a child of that task.
//!
//! A body, the destructors of what it captured and the operation of a reduction all are a task's code. It runs on the
//! thread that called it, and in parts on the other threads of its unit's pool ([`Team`]). Threads that it starts by
//! itself are nobody's.
//!
//! What never happens here: nothing is waited for, and a team's lock is held for as long as it takes to clone an `Arc`.

use super::{Ancestry, Group, OwnedTask};
use crate::depend::{Child, Domain};
use crate::ids::TaskId;
pub(crate) use crate::sync::Frames;
use crate::sync::Scope;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::sync::Arc;

/// What code is part of that several threads may run for one body; it must not wait.
#[derive(Debug, Clone, Default)]
pub(crate) struct Part {
    /// What the children of that body must leave alone.
    ancestry: Ancestry,
    /// Where they are entered; left out where the task itself says so.
    domain: Option<Arc<Domain>>,
}

impl Part {
    /// Of the body of this task.
    fn of(task: &OwnedTask) -> Self {
        Self { ancestry: Ancestry::of_children(task), domain: Some(Domain::of(task)) }
    }
}

/// The threads of one unit's pool. What they run is part of the body that the unit runs at the moment.
///
/// Code that a body spawned and did not wait for may still run then; it is taken for a part of that body too.
#[derive(Debug, Default)]
pub(crate) struct Team(Mutex<Part>);

thread_local! {
    /// The tasks whose code is on this thread's stack; a runtime is a domain.
    static RUNNING: Scope<OwnedTask, Part> = const { Scope::new() };
    /// The team that this thread belongs to, and its runtime.
    static TEAM: OnceCell<(u64, Arc<Team>)> = const { OnceCell::new() };
    /// Whether it has one: looked at by every submission.
    static IN_TEAM: Cell<bool> = const { Cell::new(false) };
}

/// Calls `code` as a part of `task`.
#[inline(always)] // on the way of every task
pub(crate) fn as_part_of<R>(runtime: u64, task: &OwnedTask, code: impl FnOnce() -> R) -> R {
    Scope::enter(&RUNNING, (runtime, false), Some(task), code)
}

/// Calls `code` as the body of `task`; whether it `waits` says whether it may.
#[inline(always)] // on the way of every task
pub(crate) fn as_body_of<R>(runtime: u64, waits: bool, task: &OwnedTask, code: impl FnOnce() -> R) -> R {
    Scope::enter(&RUNNING, (runtime, waits), Some(task), code)
}

/// As [`as_body_of`], with the help of this thread's team.
#[cold]
pub(crate) fn as_body_with_team<R>(runtime: u64, waits: bool, task: &OwnedTask, code: impl FnOnce() -> R) -> R {
    let Some(team) = team_of(runtime) else { return as_body_of(runtime, waits, task, code) };
    let part = Part::of(task);
    let before = std::mem::replace(&mut *team.0.lock(), part);
    let ended = as_body_of(runtime, waits, task, code);
    let _own = std::mem::replace(&mut *team.0.lock(), before);
    ended
}

/// Calls `code`, in which user code runs that is no part of a task that can be seen from here: it is on another thread, or in
/// destructors when the task ends.
#[inline]
pub(crate) fn inside<R>(runtime: u64, code: impl FnOnce() -> R) -> R {
    Scope::enter(&RUNNING, (runtime, false), None, code)
}

/// This thread belongs to `team` from now on.
pub(crate) fn join(runtime: u64, team: Arc<Team>) {
    TEAM.with(|mine| _ = mine.set((runtime, team)));
    IN_TEAM.set(true);
}

/// Whether the code that runs here is the body of a task of this runtime that may wait.
#[inline]
pub(crate) fn may_wait(runtime: u64) -> bool {
    RUNNING.with(|running| running.is_open(runtime))
}

/// The runtime of the body that runs here, if one that may wait does.
pub(crate) fn waits_in() -> Option<u64> {
    RUNNING.with(Scope::open)
}

/// The runtime whose code runs here, at the innermost, and whether a task is known whose code that is.
pub(crate) fn innermost() -> Option<(u64, bool)> {
    RUNNING.with(|running| running.find(|domain, task, _| Some((domain, task.is_some()))))
}

/// Calls `code`, in which nothing is waited for, with the part of a body that runs here, if one does.
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
    made.flatten().unwrap_or_else(|| code.take().expect("it was not called")(None))
}

/// Whether such a part runs here.
pub(crate) fn is_part(runtime: u64) -> bool {
    let is_part = |part: &Part| part.domain.is_some();
    let innermost = RUNNING
        .with(|running| running.find(|domain, _, note| Some(domain == runtime && note.get().is_some_and(is_part))));
    innermost == Some(true)
}

/// Calls `code`, which is such a part.
pub(crate) fn as_part<R>(runtime: u64, part: &Part, code: impl FnOnce() -> R) -> R {
    Scope::enter_noted(&RUNNING, runtime, part.clone(), code)
}

/// Calls `look` with the task whose code runs here, if it is this runtime's.
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

/// The task of a frozen graph whose body runs here, or whose descendant's body does.
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

/// The name of a member of this group whose code is on this thread's stack.
pub(crate) fn member_of(group: &Group) -> Option<Cow<'static, str>> {
    let is_member =
        |task: &OwnedTask| task.body().group().is_some_and(|own| own.line().any(|own| std::ptr::eq(own, group)));
    let name = |task: &OwnedTask| is_member(task).then(|| task.shared().name.clone());
    RUNNING.with(|running| running.find(|_, task, _| task.and_then(name)))
}

/// Whether `task` was submitted, directly or not, in the body that runs here.
pub(crate) fn is_descendant_here(runtime: u64, task: &OwnedTask) -> bool {
    /// Whoever is further down is taken for nobody's child: it gets a stack of its own.
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

/// Whether `task` was submitted, directly or not, in the body of this domain's task, which has not ended.
pub(crate) fn descends_from(domain: &Arc<Domain>, task: &OwnedTask) -> bool {
    let parent = task.owned().child.as_ref().map(Child::parent).cloned();
    std::iter::successors(parent, |domain| domain.outer()).any(|parent| Arc::ptr_eq(&parent, domain))
}

/// The domain of the task whose body, or a part of it, runs here; its children are entered there. A task that runs in rounds
/// has awaited its children when its body has ended, so code that runs for it after that has none.
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

/// The task whose body, or a part of it, runs here.
pub(crate) fn task_here(runtime: u64) -> Option<TaskId> {
    if RUNNING.with(Scope::is_empty) && !IN_TEAM.get() {
        return None;
    }
    with_task(runtime, |task| task.shared().id).or_else(|| domain_here(runtime).map(|domain| domain.task()))
}

/// Calls `code`, which runs on a stack of its own, and left `frames` there the last time.
pub(crate) fn apart<R>(frames: &mut Frames, code: impl FnOnce() -> R) -> R {
    Scope::apart(&RUNNING, frames, code)
}

/// Whether this thread's stack has no code of any task.
pub(crate) fn is_outside() -> bool {
    RUNNING.with(Scope::is_empty)
}

/// Whether a task of this runtime has code on this thread's stack.
#[inline]
pub(crate) fn is_inside(runtime: u64) -> bool {
    let find = |running: &Scope<_, _>| running.find(|domain, _, _| (domain == runtime).then_some(()));
    !RUNNING.with(Scope::is_empty) && RUNNING.with(find).is_some()
}

/// The ancestors of a task that is submitted to `runtime` here and now.
///
/// The innermost task decides. If that is another runtime's, the new one is nobody's child: what belongs to two runtimes
/// has no common order.
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

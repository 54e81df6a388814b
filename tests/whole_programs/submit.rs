//! Submission of a program's task, whose body computes the same as the oracle, whichever form the body has.

use crate::access::{Content, Handles, Returned, lists};
use crate::log::Living;
use crate::oracle::{MISSING, taken, updated};
use crate::program::{Body, Mode, Task, Units};
use crate::run::{At, Run, perform};
use crate::steps::{AsTheProgramSays, End, end, outside};
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use thalweg::error::TaskFailure;
use thalweg::memory::ReadOnly;
use thalweg::prelude::*;

/// State of a body, which is dropped with the body.
pub(crate) struct Work {
    pub(crate) run: Run,
    pub(crate) handles: Handles<'static>,
    pub(crate) task: Task,
    pub(crate) _living: Living,
}

impl Work {
    pub(crate) fn new(run: &Run, handles: &Handles<'_>, task: &Task) -> Self {
        let used = task.mentioned();
        let owned = handles.iter().filter(|(object, _)| used.contains(object));
        let handles = owned.filter_map(|(object, handle)| Some((*object, handle.owned()?))).collect();
        Self { run: run.clone(), handles, task: task.clone(), _living: run.log.living() }
    }

    /// Records that the body begins, and returns its initial hash.
    pub(crate) fn begin(&self) -> u64 {
        self.run.log.begin(self.task.n);
        self.task.n as u64
    }

    /// Performs the body's acts, such as submitting children.
    pub(crate) fn act(&self, at: &Context) {
        if !self.task.acts.is_empty() {
            perform(&self.run, &At::Body(at), &mut self.handles.clone(), &self.task.acts);
        }
    }

    pub(crate) fn end(&self) -> Result<(), AsTheProgramSays> {
        self.run.log.end(self.task.n);
        end(self.task.end)
    }

    /// Folds the value of an outcome into the hash, or records the failure.
    fn look<T>(&self, h: &mut u64, outcome: Result<T, &TaskFailure>, fold: impl FnOnce(&mut u64, T)) {
        match outcome {
            Ok(x) => fold(h, x),
            Err(failure) => {
                self.run.log.outcome(self.task.n, failure.name());
                *h = h.wrapping_add(MISSING);
            }
        }
    }

    fn returned(&self, h: u64) -> Returned {
        Returned(h, self.run.log.living())
    }
}

pub(crate) fn fold<'a>(h: &mut u64, region: impl IntoIterator<Item = &'a u64>) {
    region.into_iter().enumerate().for_each(|(k, x)| *h = h.wrapping_add(taken(*x, k)));
}

pub(crate) fn change<'a>(mode: Mode, h: u64, region: impl IntoIterator<Item = &'a mut u64>) {
    region.into_iter().enumerate().for_each(|(k, x)| *x = updated(mode, *x, h, k));
}

/// Folds the input arrays into the hash.
macro_rules! read {
    ($h:ident, $inputs:expr) => {
        $inputs.0.iter().for_each(|x| fold(&mut $h, x.iter()));
        $inputs.1.iter().for_each(|x| fold(&mut $h, x.iter()));
        $inputs.2.iter().for_each(|x| fold(&mut $h, x.iter()));
    };
}

/// Changes all arrays.
macro_rules! write {
    ($h:ident, $arrays:ident, $($list:tt as $mode:ident),*) => {$(
        $arrays.$list.0.iter_mut().for_each(|x| change(Mode::$mode, $h, x.iter_mut()));
        $arrays.$list.1.iter_mut().for_each(|x| change(Mode::$mode, $h, x.iter_mut()));
        $arrays.$list.2.iter_mut().for_each(|x| change(Mode::$mode, $h, x.iter_mut()));
    )*};
    ($h:ident, $arrays:ident) => {
        write!($h, $arrays, 2 as Out, 3 as Inout, 4 as Commutative, 5 as Sum, 6 as Accumulate)
    };
}

/// Returns all guards.
macro_rules! finish {
    ($arrays:ident: $($list:tt)*) => {$(
        $arrays.$list.0.into_iter().for_each(|guard| guard.finish());
        $arrays.$list.1.into_iter().for_each(|guard| guard.finish());
        $arrays.$list.2.into_iter().for_each(|guard| guard.finish());
    )*};
}

macro_rules! finish_whole {
    ($($lists:ident),*) => {$(
        $lists.0.into_iter().for_each(|guard| guard.finish());
        $lists.1.into_iter().for_each(|guard| guard.finish());
        $lists.2.into_iter().for_each(|guard| guard.finish());
        $lists.3.into_iter().for_each(|guard| guard.finish());
        $lists.4.into_iter().for_each(|guard| guard.finish());
        $lists.5.into_iter().for_each(|guard| guard.finish());
    )*};
}

/// Views of values, grouped by mode.
type OfValues<'a> =
    (Vec<&'a Content>, Vec<()>, Vec<&'a mut Content>, Vec<&'a mut Content>, Vec<&'a mut Content>, Vec<&'a Content>);

/// Guards of values, grouped by mode.
type OfLentValues = (
    Vec<LentValue<Content, ReadOnly>>,
    Vec<Completion>,
    Vec<LentValue<Content>>,
    Vec<LentValue<Content>>,
    Vec<LentValue<Content>>,
    Vec<LentValue<Content, ReadOnly>>,
);

/// Folds the input values and results into the hash.
macro_rules! read_whole {
    ($h:ident, $values:ident, $results:ident) => {
        $values.0.iter().for_each(|x| $h = $h.wrapping_add(taken(x.value.load(Ordering::Relaxed), 0)));
        $results.iter().for_each(|x| $h = $h.wrapping_add(taken(number(x), 0)));
    };
}

/// Folds accesses that may lack a value into the hash.
macro_rules! read_outcomes {
    ($h:ident, $outcomes:ident, $work:ident) => {
        let (arrays, values, tokens) = $outcomes;
        let number = |x: &Content| x.value.load(Ordering::Relaxed);
        arrays.0.into_iter().for_each(|x| $work.look(&mut $h, x, |h, x| fold(h, x)));
        arrays.1.into_iter().for_each(|x| $work.look(&mut $h, x, |h, x| fold(h, x.iter())));
        arrays.2.into_iter().for_each(|x| $work.look(&mut $h, x, |h, x| fold(h, x.iter())));
        values.into_iter().for_each(|x| $work.look(&mut $h, x, |h, x| *h = h.wrapping_add(taken(number(x), 0))));
        tokens.into_iter().for_each(|x| $work.look(&mut $h, x, |_, ()| ()));
    };
}

/// Changes all values.
macro_rules! write_whole {
    ($h:ident, $values:ident, $work:expr) => {
        $values.2.iter_mut().for_each(|x| renew(x, Mode::Out, $h, $work));
        $values.3.iter_mut().for_each(|x| renew(x, Mode::Inout, $h, $work));
        $values.4.iter_mut().for_each(|x| renew(x, Mode::Commutative, $h, $work));
        $values.5.iter().for_each(|x| add(x, $h));
    };
}

fn number(returned: &Returned) -> u64 {
    returned.0
}

fn add(content: &Content, h: u64) {
    content.value.fetch_add(h, Ordering::Relaxed);
}

fn renew(content: &mut Content, mode: Mode, h: u64, work: &Work) {
    let x = updated(mode, content.value.load(Ordering::Relaxed), h, 0);
    if mode == Mode::Out {
        *content = Content { value: AtomicU64::new(x), _living: work.run.log.living() };
    } else {
        content.value.store(x, Ordering::Relaxed);
    }
}

/// A body that receives all its views. `$end` computes the body's result from its hash.
macro_rules! body {
    ($work:ident, |$computed:ident| $end:expr) => {
        move |at: &Context, ((mut arrays, (values, _, results)), (_, _, concurrent, _, _, outcomes))| {
            let mut h = $work.begin();
            let mut values: OfValues<'_> = values;
            read!(h, arrays.0);
            read_whole!(h, values, results);
            read_outcomes!(h, outcomes, $work);
            $work.act(at);
            write!(h, arrays);
            concurrent.iter().for_each(|x| (0..x.len()).for_each(|k| x.update(k, |x| x.wrapping_add(h))));
            write_whole!(h, values, &$work);
            $work.end().map(|()| {
                let $computed = h;
                $end
            })
        }
    };
}

/// Completes when another thread wakes it after `delay`, which may be immediately.
async fn elsewhere(delay: u64) {
    let called = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut asked = false;
    poll_fn(|cx| {
        if !std::mem::replace(&mut asked, true) {
            let (called, waker) = (called.clone(), cx.waker().clone());
            outside(delay, move || {
                called.store(true, Ordering::SeqCst);
                waker.wake();
            });
        }
        if called.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Submits a task. Returns its result or its handle, if the task has one.
pub(crate) fn submit(
    run: &Run,
    at: &At<'_, '_, '_>,
    handles: &Handles<'_>,
    task: &Task,
) -> Result<Submitted, SubmitError> {
    let (lendable, others) = lists(handles, task);
    let (work, name, delay) = (Work::new(run, handles, task), task.name.to_string(), task.n as u64 * 37);
    let watched = task.watched;
    macro_rules! finish_task {
        ($task:expr) => {{
            let task = $task;
            match watched {
                true => task.submit_handle().map(|handle| Submitted { handle: Some(handle), result: None }),
                false => task.submit().map(|_| Submitted::default()),
            }
        }};
    }
    macro_rules! plain {
        ($task:expr) => {
            match task.units {
                Units::Any => finish_task!($task.cpu(body!(work, |_h| ()))),
                Units::Cores => finish_task!($task.host(body!(work, |_h| ()))),
                Units::Devices => finish_task!($task.emulated(body!(work, |_h| ()))),
            }
        };
    }
    macro_rules! begin {
        ($accesses:expr) => {{
            let begun = match at {
                At::Outside(outside) => outside.rt.task(name, $accesses),
                At::Body(at) => at.task(name, $accesses),
                At::Scope(_) => unreachable!("tasks of scopes are submitted above"),
            };
            let begun = if task.urgent { begun.priority(1) } else { begun };
            match (task.group, at) {
                (Some(group), At::Outside(outside)) => begun.group(&outside.groups[group]),
                _ => begun,
            }
        }};
    }
    if let At::Scope(scope) = at {
        return plain!(scope.task(name, (lendable, others)));
    }
    match task.body {
        Body::Plain => plain!(begin!((lendable, others))),
        Body::Returns => {
            let task = begin!((lendable, others)).try_returns(body!(work, |h| work.returned(h)));
            task.submit().map(|result| Submitted { handle: None, result: Some(result) })
        }
        Body::Detached => {
            finish_task!(begin!(lendable).host_detached_until_event(
                move |lending, (mut arrays, (values, tokens, results))| {
                    let mut h = work.begin();
                    let mut values: OfLentValues = values;
                    read!(h, arrays.0);
                    read_whole!(h, values, results);
                    work.act(lending);
                    let done = lending.completion();
                    outside(delay, move || {
                        write!(h, arrays);
                        write_whole!(h, values, &work);
                        finish!(arrays: 0 1 2 3 4 5 6);
                        finish_whole!(values, tokens);
                        results.into_iter().for_each(|guard| guard.finish());
                        let ended = if work.task.end == End::Panics { None } else { Some(work.end()) };
                        drop(work); // everything that belongs to the body must be gone when the task has ended
                        match ended {
                            Some(Ok(())) => done.finish(),
                            Some(Err(error)) => done.fail(error),
                            None => drop(done),
                        }
                    });
                }
            ))
        }
        Body::Async(times) => {
            finish_task!(begin!(lendable).host_async(move |at, (mut arrays, (values, _tokens, results))| async move {
                let mut h = work.begin();
                let mut values: OfLentValues = values;
                read!(h, arrays.0);
                read_whole!(h, values, results);
                work.act(&at);
                for _ in 0..times {
                    elsewhere(delay).await;
                }
                write!(h, arrays);
                write_whole!(h, values, &work);
                work.end()
            }))
        }
    }
}

/// The result or the handle of a submitted task.
#[derive(Default)]
pub(crate) struct Submitted {
    pub(crate) handle: Option<TaskHandle>,
    pub(crate) result: Option<Pending<Returned>>,
}

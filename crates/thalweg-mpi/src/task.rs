//! Building and submitting tasks: the rank that runs a task, the checks, and the steps of its accesses.

use crate::access::{Access, Accesses, Facts, Steps, Use};
use crate::core::{Core, Op, Submission};
use crate::error::{ClusterError, Failure};
use crate::shared::lock;
use std::borrow::Cow;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::rc::Rc;
use thalweg::error::{BoxError, SubmitError};
use thalweg::ids::TaskId;
use thalweg::memory::{AccessList, IntoOutcome};
use thalweg::{Context, TaskBuilder as LocalBuilder};

/// A task that is being described; made by [`Cluster::task`](crate::Cluster::task).
#[must_use = "a task does nothing until it is submitted"]
pub struct TaskBuilder<'c, A> {
    core: &'c Rc<Core>,
    name: Cow<'static, str>,
    accesses: A,
    on: Option<usize>,
    priority: i32,
}

/// A task with its body, which can be submitted.
#[must_use = "a task does nothing until it is submitted"]
pub struct Task<'c, A, F> {
    builder: TaskBuilder<'c, A>,
    body: F,
}

impl<A, F> fmt::Debug for Task<'_, A, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.builder, f)
    }
}

impl<A> fmt::Debug for TaskBuilder<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskBuilder(`{}`)", self.name)
    }
}

impl<'c, A: Accesses> TaskBuilder<'c, A> {
    pub(crate) fn new(core: &'c Rc<Core>, name: Cow<'static, str>, accesses: A) -> Self {
        Self { core, name, accesses, on: None, priority: 0 }
    }

    /// Runs the task on this rank. Regions that it writes are sent to their owners afterwards.
    pub fn on(mut self, rank: usize) -> Self {
        self.on = Some(rank);
        self
    }

    /// Sets the priority, for policies of the rank's runtime that use it.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Submits the task, as [`Task::submit`] does, and describes it by all means of the rank's runtime: bodies for
    /// devices, indices of iteration spaces, groups, counted resources. The rank that runs the task calls `describe`
    /// with its runtime's builder, and `describe` has to submit the task. Messages leave from and arrive in the host's
    /// memory; the runtime copies regions between it and devices.
    ///
    /// ```
    /// # use thalweg::Runtime;
    /// # use thalweg_mpi::{Network, Options};
    /// # let end = Network::new(1).endpoints().remove(0);
    /// let builder = Runtime::builder().compute_units("1:CPU:1,1:EMU:1");
    /// # let cluster = Options::new().over(end, builder)?;
    /// let x = cluster.data(0, vec![1.0; 8]);
    /// cluster.task("double", x.inout()).local(|task| {
    ///     let task = task.host(|_, x| x.iter_mut().for_each(|x| *x *= 2.0));
    ///     task.emulated(|_, x| x.iter_mut().for_each(|x| *x *= 2.0)).cost(8.0).submit()
    /// })?;
    /// assert_eq!(cluster.read(&x)?, [2.0; 8]);
    /// # cluster.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Task::submit`].
    #[track_caller]
    pub fn local<D>(self, describe: D) -> Result<(), ClusterError>
    where
        D: for<'a> FnOnce(LocalBuilder<'a, A::Local<'a>>) -> Result<TaskId, SubmitError>,
    {
        let Self { core, name, accesses, on, priority } = self;
        let local = |cause: &Submission| submit_described(core, cause, &accesses, priority, describe);
        submit(core, (name, Location::caller()), &accesses, on, local).map(drop)
    }

    /// Sets the body, which gets a view of each region, as on one machine.
    pub fn cpu<F, R>(self, body: F) -> Task<'c, A, F>
    where
        F: for<'x, 'a> FnOnce(&'x Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + 'static,
        R: IntoOutcome + 'static,
    {
        Task { builder: self, body }
    }
}

impl<A: Accesses, F> Task<'_, A, F> {
    /// Submits the task, on every rank. It runs on one: the rank given by [`on`](TaskBuilder::on), or else the owner of
    /// the first region that it writes, or else, if it only contributes to reductions, of the first region that it
    /// reads. All other ranks send and receive what the task needs, or do nothing.
    ///
    /// # Errors
    /// The task is refused, on every rank alike, if a region is not inside of its tile, if regions overlap and one is
    /// written, or if no rank follows from the accesses. An error of this rank's runtime ends the cluster.
    #[track_caller]
    pub fn submit<R>(self) -> Result<(), ClusterError>
    where
        F: for<'x, 'a> FnOnce(&'x Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + 'static,
        R: IntoOutcome + 'static,
    {
        let Self { builder: TaskBuilder { core, name, accesses, on, priority }, body } = self;
        let local = |cause: &Submission| submit_local(core, cause, &accesses, priority, body);
        submit(core, (name, Location::caller()), &accesses, on, local).map(drop)
    }
}

/// Submits a task, and returns the rank that runs it and the hash of the submission. That rank calls `local` to submit
/// the task to its runtime.
#[track_caller]
pub(crate) fn submit<A: Accesses>(
    core: &Rc<Core>,
    (name, place): (Cow<'static, str>, &'static Location<'static>),
    accesses: &A,
    on: Option<usize>,
    local: impl FnOnce(&Submission) -> Result<(), SubmitError>,
) -> Result<(u32, u64), ClusterError> {
    core.check()?;
    let facts = facts(accesses);
    let run = match find_rank(core, &facts, on) {
        Ok(run) => run,
        Err(problem) => return Err(ClusterError::Refused { task: name.into_owned(), problem }),
    };
    let content: Vec<_> = facts.iter().map(|fact| (fact.data, fact.tile, fact.block, fact.usage)).collect();
    let cause = core.submission(name, place, (run, content));
    let mut outcome = each(accesses, |access| access.before(run, &cause));
    if run == core.rank && outcome.is_ok() {
        core.note(|_| Op::Body);
        outcome = local(&cause);
    }
    let outcome = outcome.and_then(|()| each(accesses, |access| access.after(run, &cause)));
    check_local(core, outcome)?;
    Ok((run, cause.hash))
}

/// Submits the local task of a submission.
pub(crate) fn submit_local<A, F, R>(
    core: &Core,
    cause: &Submission,
    accesses: &A,
    priority: i32,
    body: F,
) -> Result<(), SubmitError>
where
    A: Accesses,
    F: for<'x, 'a> FnOnce(&'x Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + 'static,
    R: IntoOutcome + 'static,
{
    let (of_body, rank) = (cause.clone(), core.rank);
    let body = move |cx: &Context, views: <A::Stored as AccessList>::Views<'_>| {
        let ended = catch_unwind(AssertUnwindSafe(|| body(cx, views).into_outcome()));
        let reason = match ended {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => match error.downcast::<Failure>() {
                Ok(failure) => return Err(BoxError::from(*failure)),
                Err(error) => format!("failed: {error}"),
            },
            Err(payload) => match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
                (Some(text), _) => format!("panicked: {text}"),
                (_, Some(text)) => format!("panicked: {text}"),
                _ => resume_unwind(payload),
            },
        };
        Err(of_body.failure(rank, reason).into())
    };
    describe_local(core, cause, accesses, priority, |task| task.cpu(body).submit()).map(drop)
}

/// Submits the local task of a submission as `describe` describes it, and notes the submission for its failure.
pub(crate) fn submit_described<A: Accesses>(
    core: &Core,
    cause: &Submission,
    accesses: &A,
    priority: i32,
    describe: impl for<'a> FnOnce(LocalBuilder<'a, A::Local<'a>>) -> Result<TaskId, SubmitError>,
) -> Result<(), SubmitError> {
    let task = describe_local(core, cause, accesses, priority, describe)?;
    lock(&core.shared.origins).push(task, cause.index);
    Ok(())
}

fn describe_local<A: Accesses>(
    core: &Core,
    cause: &Submission,
    accesses: &A,
    priority: i32,
    describe: impl for<'a> FnOnce(LocalBuilder<'a, A::Local<'a>>) -> Result<TaskId, SubmitError>,
) -> Result<TaskId, SubmitError> {
    let held = accesses.hold();
    let task = core.runtime().task(cause.name.clone(), accesses.local(&held));
    describe(task.priority(priority).submitted_at(cause.place.into()))
}

/// Ends the cluster if this rank's runtime has refused a task: the other ranks would wait for its messages.
pub(crate) fn check_local(core: &Core, outcome: Result<(), SubmitError>) -> Result<(), ClusterError> {
    if let Err(error) = &outcome {
        core.fail(format!("its runtime refuses a task: {error}"));
    }
    Ok(outcome?)
}

/// Returns the accesses without their types.
pub(crate) fn facts(accesses: &impl Steps) -> Vec<Facts> {
    let mut facts = Vec::new();
    accesses.visit(&mut |access| facts.push(access.facts()));
    facts
}

fn each<A: Accesses>(accesses: &A, step: impl Fn(&dyn Access) -> Result<(), SubmitError>) -> Result<(), SubmitError> {
    let mut outcome = Ok(());
    accesses.visit(&mut |access| {
        if outcome.is_ok() {
            outcome = step(access);
        }
    });
    outcome
}

/// Checks the accesses and returns the rank that runs the task. The answer is the same on every rank.
pub(crate) fn find_rank(core: &Rc<Core>, facts: &[Facts], on: Option<usize>) -> Result<u32, String> {
    for (at, fact) in facts.iter().enumerate() {
        if !std::ptr::eq(fact.core, Rc::as_ptr(core)) {
            return Err("its data belong to another cluster; try this cluster's data".to_owned());
        }
        if !fact.inside {
            return Err(format!(
                "its region {:?} is not inside of tile {} of data {}; try a smaller one",
                fact.block, fact.tile, fact.data
            ));
        }
        let overlap = facts[..at].iter().find(|other| {
            (fact.data, fact.tile) == (other.data, other.tile)
                && (fact.usage, other.usage) != (Use::Read, Use::Read)
                && fact.block.overlaps(&other.block)
        });
        if overlap.is_some() {
            return Err(format!(
                "two of its regions in tile {} of data {} overlap, and one is written; try one access for both",
                fact.tile, fact.data
            ));
        }
    }
    if let Some(rank) = on {
        return match u32::try_from(rank) {
            Ok(rank) if rank < core.size => Ok(rank),
            _ => Err(format!("there is no rank {rank} among {}; try a smaller one", core.size)),
        };
    }
    let of = |usages: &[Use]| facts.iter().find(|fact| usages.contains(&fact.usage)).map(|fact| fact.owner);
    let reduces = facts.iter().any(|fact| fact.usage == Use::Reduce);
    of(&[Use::Write, Use::Update])
        .or_else(|| of(&[Use::Read]).filter(|_| reduces))
        .or_else(|| of(&[Use::Reduce]))
        .ok_or_else(|| "it writes nothing, so no rank is to run it; try `on`".to_owned())
}

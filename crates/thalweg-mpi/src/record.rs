//! Recordings: tasks that every rank describes once and submits again and again.
//!
//! A replay means the same as submitting the same tasks once more, in the same order. The first replay does exactly
//! that, and notes the actions of this rank for each task: messages, the local task, contributions to combine. These
//! actions are the *plan*. As long as the directory of the tasks' tiles is at the start of a replay as it was when the
//! plan was made, the actions are the same, too, so the plan is repeated: the rank skips the tasks that do not concern
//! it, looks for no missing boxes, and sends each large region by the same request. If the directory differs, the plan
//! is made again.
//!
//! Plans need no agreement between ranks: the plan of a rank only repeats what the rank would derive, so one rank may
//! plan while another repeats.
//!
//! Invariants:
//! 1. A plan ends when the memory of a copy is released or a tile gets another owner ([`Core::end_plans`]). So messages
//!    of a channel always use the same arrays, whose tasks order them.
//! 2. After a replay, the directory is as if the tasks had been submitted.

use crate::access::{Access, Repeated};
use crate::core::{Core, Op, Submission};
use crate::data::{Directories, Directory};
use crate::error::ClusterError;
use crate::task::{check_local, facts, find_rank, submit, submit_described, submit_local};
use crate::{Cluster, access::Use};
use rustc_hash::FxHashSet;
use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use thalweg::error::SubmitError;
use thalweg::ids::TaskId;
use thalweg::memory::{AccessList, IntoOutcome};
use thalweg::{Context, TaskBuilder as LocalBuilder};

/// A recorded task without its types.
trait Step {
    /// Submits the task, and returns the rank that runs it and the hash of the submission.
    fn submit(&self, core: &Rc<Core>) -> Result<(u32, u64), ClusterError>;
    /// Counts the submission, whose hash is known.
    fn count(&self, core: &Core, own: u64) -> Submission;
    fn submit_local(&self, core: &Core, cause: &Submission) -> Result<(), SubmitError>;
    fn visit(&self, see: &mut dyn FnMut(&dyn Access));
}

struct RecordedTask<A, L> {
    name: Cow<'static, str>,
    place: &'static Location<'static>,
    accesses: A,
    on: Option<usize>,
    local: L,
}

impl<A, L> Step for RecordedTask<A, L>
where
    A: Repeated,
    L: Fn(&Core, &Submission, &A) -> Result<(), SubmitError>,
{
    fn submit(&self, core: &Rc<Core>) -> Result<(u32, u64), ClusterError> {
        let local = |cause: &Submission| self.submit_local(core, cause);
        submit(core, (self.name.clone(), self.place), &self.accesses, self.on, local)
    }

    fn count(&self, core: &Core, own: u64) -> Submission {
        core.count(self.name.clone(), self.place, own)
    }

    fn submit_local(&self, core: &Core, cause: &Submission) -> Result<(), SubmitError> {
        (self.local)(core, cause, &self.accesses)
    }

    fn visit(&self, see: &mut dyn FnMut(&dyn Access)) {
        self.accesses.visit(see);
    }
}

/// Collects the tasks of a recording; see [`Cluster::record`].
pub struct Recorder<'c, 'd> {
    core: &'c Rc<Core>,
    steps: RefCell<Vec<Box<dyn Step + 'd>>>,
}

impl fmt::Debug for Recorder<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorder({} tasks)", self.steps.borrow().len())
    }
}

impl<'c, 'd> Recorder<'c, 'd> {
    /// Describes a task, as [`Cluster::task`] does.
    pub fn task<A: Repeated + 'd>(
        &self,
        name: impl Into<Cow<'static, str>>,
        accesses: A,
    ) -> RecordedBuilder<'_, 'c, 'd, A> {
        RecordedBuilder { recorder: self, name: name.into(), accesses, on: None, priority: 0 }
    }
}

/// A recorded task that is being described; made by [`Recorder::task`].
#[must_use = "a task is recorded by `submit`"]
#[derive(Debug)]
pub struct RecordedBuilder<'r, 'c, 'd, A> {
    recorder: &'r Recorder<'c, 'd>,
    name: Cow<'static, str>,
    accesses: A,
    on: Option<usize>,
    priority: i32,
}

/// A recorded task with its body.
#[must_use = "a task is recorded by `submit`"]
pub struct WithBody<'r, 'c, 'd, A, F> {
    builder: RecordedBuilder<'r, 'c, 'd, A>,
    body: F,
}

impl<A: fmt::Debug, F> fmt::Debug for WithBody<'_, '_, '_, A, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.builder.fmt(f)
    }
}

impl<'r, 'c, 'd, A: Repeated + 'd> RecordedBuilder<'r, 'c, 'd, A> {
    /// Runs the task on this rank, as [`TaskBuilder::on`](crate::TaskBuilder::on) does.
    pub fn on(mut self, rank: usize) -> Self {
        self.on = Some(rank);
        self
    }

    /// Sets the priority, for policies of the rank's runtime that use it.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the body, which is called once in each replay.
    pub fn cpu<F, R>(self, body: F) -> WithBody<'r, 'c, 'd, A, F>
    where
        F: for<'x, 'a> Fn(&'x Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + Sync + 'static,
        R: IntoOutcome + 'static,
    {
        WithBody { builder: self, body }
    }

    /// Records the task, and describes it by all means of the rank's runtime, as
    /// [`TaskBuilder::local`](crate::TaskBuilder::local) does. `describe` is called once in each replay.
    ///
    /// # Errors
    /// The task is refused for the same reasons as by [`Task::submit`](crate::Task::submit).
    #[track_caller]
    pub fn local<D>(self, describe: D) -> Result<(), ClusterError>
    where
        D: for<'a> Fn(LocalBuilder<'a, A::Local<'a>>) -> Result<TaskId, SubmitError> + 'd,
    {
        let priority = self.priority;
        self.keep(move |core: &Core, cause: &Submission, accesses: &A| {
            submit_described(core, cause, accesses, priority, &describe)
        })
    }

    #[track_caller]
    fn keep<L>(self, local: L) -> Result<(), ClusterError>
    where
        L: Fn(&Core, &Submission, &A) -> Result<(), SubmitError> + 'd,
    {
        let Self { recorder, name, accesses, on, .. } = self;
        if let Err(problem) = find_rank(recorder.core, &facts(&accesses), on) {
            return Err(ClusterError::Refused { task: name.into_owned(), problem });
        }
        let task = RecordedTask { name, place: Location::caller(), accesses, on, local };
        recorder.steps.borrow_mut().push(Box::new(task));
        Ok(())
    }
}

impl<'d, A: Repeated + 'd, F> WithBody<'_, '_, 'd, A, F> {
    /// Records the task.
    ///
    /// # Errors
    /// The task is refused for the same reasons as by [`Task::submit`](crate::Task::submit).
    #[track_caller]
    pub fn submit<R>(self) -> Result<(), ClusterError>
    where
        F: for<'x, 'a> Fn(&'x Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + Sync + 'static,
        R: IntoOutcome + 'static,
    {
        let (body, priority) = (Arc::new(self.body), self.builder.priority);
        self.builder.keep(move |core: &Core, cause: &Submission, accesses: &A| {
            let body = body.clone();
            submit_local(core, cause, accesses, priority, move |cx: &Context, views| body(cx, views))
        })
    }
}

/// The actions of this rank for one submission.
struct Part {
    /// The number of submissions before this one that do not concern this rank.
    skipped: u64,
    step: usize,
    hash: u64,
    run: u32,
    ops: Vec<Op>,
}

/// A tile's directory before and after a replay.
struct Change {
    object: Rc<dyn Directories>,
    tile: u32,
    before: Directory,
    after: Directory,
}

struct Plan {
    ended: u64,
    parts: Vec<Part>,
    /// The number of submissions after the last part.
    skipped: u64,
    changes: Vec<Change>,
}

impl Plan {
    fn applies(&self, core: &Core) -> bool {
        self.ended == core.plans_ended()
            && self.changes.iter().all(|change| *change.object.directory(change.tile) == change.before)
    }
}

/// Tasks that can be submitted any number of times; made by [`Cluster::record`].
#[must_use = "nothing is submitted before the first replay"]
pub struct Recording<'d> {
    core: Rc<Core>,
    steps: Vec<Box<dyn Step + 'd>>,
    plan: Option<Plan>,
}

impl fmt::Debug for Recording<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recording({} tasks)", self.steps.len())
    }
}

impl Cluster {
    /// Records tasks. Each [replay](Recording::replay) of the recording submits them; this call itself submits none.
    ///
    /// Every rank records the same tasks and replays them at the same places of its program. A replay means the same as
    /// submitting the tasks in the same order, but costs less: a rank spends no time on tasks that do not concern it,
    /// and the messages of a step that repeats are planned once.
    ///
    /// ```
    /// # use thalweg::Runtime;
    /// # use thalweg_mpi::{ClusterData, Network, Options, owners};
    /// # let end = Network::new(1).endpoints().remove(0);
    /// # let cluster = Options::new().over(end, Runtime::builder().compute_units("1:CPU:1"))?;
    /// let x: ClusterData<f64> = cluster.distributed(100, 10, owners::block);
    /// let mut step = cluster.record(|r| {
    ///     for (left, right) in x.tiles().zip(x.tiles().skip(1)) {
    ///         let task = r.task("pass", (left.block(..1).input(), right.inout()));
    ///         task.cpu(|_, (from, to)| to[0] += from[0] + 1.0).submit()?;
    ///     }
    ///     Ok(())
    /// })?;
    /// (0..3).try_for_each(|_| step.replay())?;
    /// assert_eq!(cluster.read(x.nth(2).block(..1))?, [9.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of `program`, which is the refusal of a task.
    pub fn record<'d>(
        &self,
        program: impl FnOnce(&Recorder<'_, 'd>) -> Result<(), ClusterError>,
    ) -> Result<Recording<'d>, ClusterError> {
        let recorder = Recorder { core: &self.core, steps: RefCell::default() };
        program(&recorder)?;
        Ok(Recording { core: self.core.clone(), steps: recorder.steps.into_inner(), plan: None })
    }
}

impl Recording<'_> {
    /// Submits all tasks of the recording, in the order in which they were recorded. Waits for none of them.
    ///
    /// # Errors
    /// A task is refused, because it no longer fits its data, or the cluster cannot continue.
    pub fn replay(&mut self) -> Result<(), ClusterError> {
        self.core.check()?;
        match self.plan.take().filter(|plan| plan.applies(&self.core)) {
            Some(plan) => {
                let repeated = self.repeat(&plan);
                self.plan = Some(plan);
                check_local(&self.core, repeated)
            }
            None => {
                self.plan = Some(self.submit_and_plan()?);
                Ok(())
            }
        }
    }

    /// Returns the number of tasks.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns whether there are no tasks.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the number of messages that this rank sends and receives in each replay of its plan; `None` before the
    /// first replay.
    pub fn planned_messages(&self) -> Option<usize> {
        let ops = self.plan.as_ref()?.parts.iter().flat_map(|part| &part.ops);
        Some(ops.filter(|op| matches!(op, Op::Message(_))).count())
    }

    fn submit_and_plan(&self) -> Result<Plan, ClusterError> {
        let core = &self.core;
        let mut plan = Plan { ended: core.plans_ended(), parts: Vec::new(), skipped: 0, changes: self.directories() };
        for (number, step) in self.steps.iter().enumerate() {
            let (submitted, ops) = core.noting(|| step.submit(core));
            let (run, hash) = submitted?;
            if ops.is_empty() && !core.checks() {
                plan.skipped += 1;
            } else {
                let skipped = std::mem::take(&mut plan.skipped);
                plan.parts.push(Part { skipped, step: number, hash, run, ops });
            }
        }
        plan.changes.iter_mut().for_each(|change| change.after = change.object.directory(change.tile).clone());
        Ok(plan)
    }

    /// Returns the directories of all tiles, as they are now.
    fn directories(&self) -> Vec<Change> {
        let (mut seen, mut changes) = (FxHashSet::default(), Vec::new());
        for step in &self.steps {
            step.visit(&mut |access| {
                let facts = access.facts();
                if seen.insert((facts.data, facts.tile)) {
                    let (object, tile) = access.directory();
                    let before = object.directory(tile).clone();
                    changes.push(Change { object, tile, before, after: Directory::default() });
                }
            });
        }
        changes
    }

    fn repeat(&self, plan: &Plan) -> Result<(), SubmitError> {
        let core = &self.core;
        for Part { skipped, step, hash, run, ops } in &plan.parts {
            core.skip(*skipped);
            let step = &self.steps[*step];
            let cause = step.count(core, *hash);
            let mut combined = 0;
            for op in ops {
                match op {
                    Op::Message(repeat) => repeat(&cause)?,
                    Op::Body => step.submit_local(core, &cause)?,
                    Op::Combine => {
                        combine(&**step, combined, *run, &cause)?;
                        combined += 1;
                    }
                }
            }
        }
        core.skip(plan.skipped);
        plan.changes.iter().for_each(|change| change.object.directory(change.tile).set(&change.after));
        Ok(())
    }
}

/// Combines the contribution to the reduction with this number among the accesses of a step.
fn combine(step: &dyn Step, number: usize, run: u32, cause: &Submission) -> Result<(), SubmitError> {
    let (mut at, mut outcome) = (0, Ok(()));
    step.visit(&mut |access| {
        if access.facts().usage == Use::Reduce {
            if at == number {
                outcome = access.combine(run, cause);
            }
            at += 1;
        }
    });
    outcome
}

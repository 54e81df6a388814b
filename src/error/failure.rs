//! Failures of tasks, and their reasons.

use super::chain::{Chain, Level};
use super::{BoxError, DeviceError};
use crate::ids::{Iteration, TaskId};
use crate::sync::CallSite;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The error that is returned on behalf of a cancelled task's body.
#[derive(Debug, thiserror::Error)]
#[error("cancelled")]
pub(crate) struct Cancelled;

/// The reason why a task failed.
///
/// ```
/// use thalweg::error::FailureReason;
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// rt.task("fails", ()).cpu(|_, ()| panic!("no way")).submit()?;
/// let Err(RunError::Failed(failures)) = rt.wait() else { unreachable!() };
/// assert!(matches!(failures[0].reason(), FailureReason::Panicked(message) if message == "no way"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum FailureReason {
    /// The body panicked, with this message.
    Panicked(String),
    /// The body returned this error.
    Returned(BoxError),
    /// The device failed while it was running the task.
    Device(DeviceError),
    /// The task never started: its group was cancelled, or the runtime was dropped while unwinding.
    Cancelled,
    /// A guard or a completion of the task was dropped without being given back by
    /// [`finish`](crate::memory::Lent::finish).
    Abandoned,
    /// A custom [`Policy`](crate::sched::Policy) broke its contract. No task fails for this reason, because the
    /// scheduler `stealing` has replaced the policy.
    Policy {
        /// The policy's name.
        policy: &'static str,
        /// A description of what the policy did, with which task, and what it should have done.
        problem: String,
    },
}

impl FailureReason {
    /// Returns the reason for a body's error, which is `Cancelled` if the error stands for a cancelled task.
    pub(crate) fn from_returned(error: BoxError) -> Self {
        if error.is::<Cancelled>() { Self::Cancelled } else { Self::Returned(error) }
    }

    /// Returns the reason for a panic, with the panic's message if there is one.
    pub(crate) fn from_panic(payload: Box<dyn std::any::Any + Send>) -> Self {
        let message = match payload.downcast::<String>() {
            Ok(message) => *message,
            Err(payload) => match payload.downcast::<&'static str>() {
                Ok(message) => (*message).to_owned(),
                Err(payload) => {
                    // Dropping a foreign payload may panic again, and that panic must not reach the caller.
                    let drop_it = std::panic::AssertUnwindSafe(|| drop(payload));
                    if let Err(again) = std::panic::catch_unwind(drop_it) {
                        std::mem::forget(again);
                    }
                    "a value that is not a message".to_owned()
                }
            },
        };
        Self::Panicked(message)
    }
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(message) => write!(f, "panicked: {message}"),
            Self::Returned(error) => write!(f, "failed: {error}"),
            Self::Device(error) => write!(f, "failed: {error}"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Abandoned => f.write_str("abandoned: a guard was dropped unfinished; try `finish` or `fail` on each"),
            Self::Policy { policy, problem } => {
                write!(f, "cannot continue with policy `{policy}`: {problem}. `stealing` has replaced it")
            }
        }
    }
}

/// A task that failed: the cause of all tasks that were skipped because of it.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.scalar(1);
/// rt.task("fails", (x.inout(),)).cpu(|_, _| Err("no")).submit()?;
/// rt.task("skipped", (x.inout(),)).cpu(|_, _| ()).submit()?;
/// let Err(RunError::Failed(failures)) = rt.wait() else { unreachable!() };
/// let failure = &failures[0];
/// assert_eq!((failure.task(), failure.name(), failure.skipped()), (TaskId(0), "fails", 1));
/// println!("{}", failure.submitted_at());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TaskFailure {
    task: TaskId,
    name: String,
    submitted_at: CallSite,
    iteration: Iteration,
    reason: FailureReason,
    /// The failures that led to this failure.
    chain: Option<Chain>,
    skipped: AtomicU64,
}

impl TaskFailure {
    pub(crate) fn new(task: TaskId, name: &str, submitted_at: CallSite, reason: FailureReason) -> Self {
        let (reason, chain) = Chain::of(reason);
        let (name, iteration) = (name.to_owned(), Iteration::NONE);
        Self { task, name, submitted_at, iteration, reason, chain, skipped: AtomicU64::new(0) }
    }

    /// Returns the same failure, for an iteration of a loop.
    pub(crate) fn in_iteration(mut self, iteration: Iteration) -> Self {
        self.iteration = iteration;
        self
    }

    #[cfg(test)]
    #[track_caller]
    pub(crate) fn for_tests(name: &str) -> Self {
        Self::new(TaskId(0), name, CallSite::caller(), FailureReason::Cancelled)
    }

    /// Returns the task that failed.
    pub fn task(&self) -> TaskId {
        self.task
    }

    /// Returns the task's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the index of the iteration, counted from 0, if the task is an iteration of a loop
    /// ([`Runtime::for_each`]).
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.data(vec![1.0_f64, 4.0, -9.0]);
    /// rt.for_each("root", x.blocks(1).inout())
    ///     .cpu(|_, x| {
    ///         assert!(x[0] >= 0.0);
    ///         x[0] = x[0].sqrt();
    ///     })
    ///     .submit()?;
    /// let Err(RunError::Failed(failures)) = rt.wait() else { unreachable!() };
    /// assert_eq!(failures[0].iteration(), Some(2));
    /// assert!(failures[0].to_string().starts_with("task 2 `root` (iteration 2), submitted at "));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`Runtime::for_each`]: crate::Runtime::for_each
    pub fn iteration(&self) -> Option<usize> {
        self.iteration.index()
    }

    /// Returns the source location where the task was submitted.
    pub fn submitted_at(&self) -> CallSite {
        self.submitted_at
    }

    /// Returns why the task failed.
    pub fn reason(&self) -> &FailureReason {
        &self.reason
    }

    /// Returns how many tasks have been skipped so far because they would have used something that this task did not
    /// write.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Returns the failures that led to this one.
    pub(super) fn chain(&self) -> Option<&Chain> {
        self.chain.as_ref()
    }

    /// Returns whether this is a failure of the policy, not of a task.
    pub(crate) fn is_the_policys(&self) -> bool {
        matches!(self.reason, FailureReason::Policy { .. })
    }

    pub(crate) fn count_skipped(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for TaskFailure {
    /// If the returned error may own other failures, drops it only after the failures that own this failure.
    fn drop(&mut self) {
        if let FailureReason::Returned(error) = std::mem::replace(&mut self.reason, FailureReason::Cancelled) {
            Chain::drop_error(error);
        }
    }
}

impl fmt::Debug for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("TaskFailure");
        debug.field("task", &self.task).field("name", &self.name).field("submitted_at", &self.submitted_at);
        if let Some(index) = self.iteration() {
            debug.field("iteration", &index);
        }
        let level = Level::enter();
        match &self.chain {
            Some(Chain { first: Some(first), is_cut, .. }) if level.is_last() || *is_cut => debug.field("first", first),
            _ if level.is_beyond() => debug.field("reason", &format_args!("..")),
            _ => debug.field("reason", &self.reason),
        };
        debug.field("skipped", &self.skipped()).finish()
    }
}

impl fmt::Display for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_the_policys() {
            return write!(f, "{}", self.reason);
        }
        write!(f, "{} `{}`", self.task, self.name)?;
        if let Some(index) = self.iteration() {
            write!(f, " (iteration {index})")?;
        }
        write!(f, ", submitted at {}, ", self.submitted_at)?;
        let level = Level::enter();
        match &self.chain {
            Some(Chain { first: Some(first), tasks, is_cut, .. }) if level.is_last() || *is_cut => {
                let left_out = tasks - 1;
                write!(
                    f,
                    "failed: by a chain of {tasks} tasks ({left_out} are omitted here) that begins with {first}"
                )?;
            }
            _ if level.is_beyond() => {
                f.write_str("failed: by errors nested in each other (the innermost are omitted here)")?
            }
            _ => write!(f, "{}", self.reason)?,
        }
        match self.skipped() {
            0 => Ok(()),
            1 => f.write_str(" (1 task that uses its output was skipped)"),
            n => write!(f, " ({n} tasks that use its output were skipped)"),
        }
    }
}

impl std::error::Error for TaskFailure {
    /// Returns the error that the body returned, or the device's error.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.reason {
            FailureReason::Returned(error) => Some(&**error),
            FailureReason::Device(error) => Some(error),
            FailureReason::Panicked(_)
            | FailureReason::Cancelled
            | FailureReason::Abandoned
            | FailureReason::Policy { .. } => None,
        }
    }
}

/// All failures since the last wait, in the order in which they happened. Its text describes the first 20 of them and
/// says how many others there are.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// for name in ["one", "two"] {
///     rt.task(name, ()).cpu(|_, ()| Err("no")).submit()?;
/// }
/// let Err(RunError::Failed(failures)) = rt.wait() else { unreachable!() };
/// assert_eq!(failures.iter().map(|failure| failure.name()).collect::<Vec<_>>(), ["one", "two"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Failures(pub(crate) Vec<Arc<TaskFailure>>);

/// The maximum number of failures that an error's text describes. A million tasks may fail for the same reason.
const MOST_DESCRIBED: usize = 20;

impl Failures {
    /// Returns the heading of the list; it is empty if only a policy failed, because then no task did.
    pub(super) fn heading(&self) -> &'static str {
        if self.iter().all(|failure| failure.is_the_policys()) { "" } else { "tasks failed: " }
    }
}

impl Deref for Failures {
    type Target = [Arc<TaskFailure>];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, failure) in self.0.iter().take(MOST_DESCRIBED).enumerate() {
            let separator = if i > 0 { "; " } else { "" };
            write!(f, "{separator}{failure}")?;
        }
        match self.0.len().saturating_sub(MOST_DESCRIBED) {
            0 => Ok(()),
            others => write!(f, "; and {others} more"),
        }
    }
}

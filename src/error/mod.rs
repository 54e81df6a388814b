//! What can go wrong, in the words of whoever can mend it.
//!
//! Three moments, three types: [`BuildError`] before anything runs, [`SubmitError`] when a task or a request is refused
//! (nothing was changed), [`RunError`] when tasks failed while running. Our own mistakes are assertions, not errors.

mod device;

pub use crate::task::take::TakeError;
pub use device::DeviceError;

use crate::ids::TaskId;
use std::fmt;
use std::ops::Deref;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Any error a body may return.
///
/// ```
/// use thalweg::error::BoxError;
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.scalar(0u32);
/// let parse = |text: &str| -> Result<u32, BoxError> { Ok(text.trim().parse()?) };
/// rt.task("parse", (x.output(),)).cpu(move |_, (x,)| parse(" 42 ").map(|n| x[0] = n)).submit()?;
/// assert_eq!(rt.read_scalar(&x)?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a runtime could not be built.
///
/// ```
/// use thalweg::prelude::*;
/// let error = Runtime::builder().compute_units("4:CPU").build().unwrap_err();
/// assert!(matches!(error, BuildError::Units(_)));
/// println!("{error}");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The unit string or the places make no units.
    #[error("compute units: {0}")]
    Units(#[from] crate::machine::ConfigError),
    /// No scheduler has this name.
    #[error("cannot find scheduler `{name}`; try one of {}", known.join(", "))]
    UnknownScheduler {
        /// What was asked for.
        name: String,
        /// Every name that exists.
        known: Vec<&'static str>,
    },
    /// A scheduler has no such parameter, or the value is out of its range.
    #[error("scheduler `{scheduler}`: {parameter}: {problem}")]
    SchedulerParameter {
        /// The scheduler's name.
        scheduler: String,
        /// The parameter's name.
        parameter: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// A builder argument is out of its range.
    #[error("{argument}: {problem}")]
    Argument {
        /// The builder's method.
        argument: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The machine lacks the devices that the units ask for.
    #[error("compute units: {needed} {kind} device{} needed; {found}. Units that need no accelerator are EMU \
         (emulated in host memory) and, with an OpenCL for CPUs installed, OPENCL",
        if *needed == 1 { " is" } else { "s are" })]
    NoDevice {
        /// The kind of unit.
        kind: crate::machine::UnitKind,
        /// How many devices such units ask for.
        needed: usize,
        /// What was found instead, and why not more.
        found: String,
    },
    /// The operating system gave no thread.
    #[error("cannot start a thread for {what}: {source}; try fewer units")]
    Thread {
        /// What the thread was for.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
}

/// Why a task or a request was refused; nothing was changed.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.data(vec![0u8; 10]).named("x");
/// let error = rt.task("t", (x.slice(5..11).output(),)).cpu(|_, _| ()).submit().unwrap_err();
/// assert!(matches!(error, SubmitError::OutOfBounds { .. }));
/// let words = "cannot submit task `t`: region [5..11] of data `x` is out of bounds; try a region inside [0..10]";
/// assert_eq!(error.to_string(), words);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// A region reaches past its data object.
    #[error("cannot submit task `{task}`: region {region} of {data} is out of bounds; try a region inside {shape}")]
    OutOfBounds {
        /// The task's name, or the request's.
        task: String,
        /// The data object's name.
        data: String,
        /// The region asked for.
        region: String,
        /// The whole of the data object.
        shape: String,
    },
    /// A `concurrent` region has gaps in memory.
    #[error(
        "cannot submit task `{task}`: region {region} of {data} is not contiguous in memory, which a concurrent access \
         needs; try whole rows"
    )]
    NotContiguous {
        /// The task's name, or the request's.
        task: String,
        /// The data object's name.
        data: String,
        /// The region asked for.
        region: String,
    },
    /// Two accesses of one task overlap and one of them writes.
    #[error(
        "cannot submit task `{task}`: its accesses to {first} and {second} of {data} overlap, and one of them writes; \
         try one access that covers both, or regions that do not overlap"
    )]
    OverlappingAccesses {
        /// The task's name.
        task: String,
        /// The data object's name.
        data: String,
        /// The first region with its mode.
        first: String,
        /// The second region with its mode.
        second: String,
    },
    /// The data object belongs to another runtime.
    #[error("cannot submit task `{task}`: {data} is registered with another runtime; try submitting it to that one")]
    ForeignData {
        /// The task's name, or the request's.
        task: String,
        /// The data object's name.
        data: String,
    },
    /// The task was submitted to another runtime.
    #[error("cannot wait for task `{task}`: it was submitted to another runtime; try waiting for it there")]
    ForeignTask {
        /// The task's name.
        task: String,
    },
    /// The task whose result is accessed was submitted to another runtime.
    #[error(
        "cannot submit task `{task}`: it uses the result of task `{producer}`, which was submitted to another runtime; try \
         submitting both to the same, or waiting for the result with `get`"
    )]
    ForeignResult {
        /// The task's name.
        task: String,
        /// The name of the task that returns the result.
        producer: String,
    },
    /// A recorded task uses the result of another task.
    #[error(
        "cannot record task `{task}`: it uses the result of a task, which is there once, and recorded tasks run any number \
         of times; try a value (`rt.value`), or a parameter of the recording"
    )]
    RecordedResult {
        /// The task's name.
        task: String,
    },
    /// A recording has no such parameter.
    #[error("cannot use parameter `{parameter}`: {problem}")]
    Parameter {
        /// The parameter's name.
        parameter: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// The data object was given back by `take`.
    #[error("cannot submit task `{task}`: {data} was taken back from the runtime; try registering it again")]
    Taken {
        /// The task's name, or the request's.
        task: String,
        /// The data object's name.
        data: String,
    },
    /// The task has no body at all.
    #[error("cannot submit task `{task}`: it has no body; try .cpu(..), .host(..), .emulated(..) or .gpu(..)")]
    NoBody {
        /// The task's name.
        task: String,
    },
    /// The task has no body for any unit of the machine.
    #[error(
        "cannot submit task `{task}`: it has bodies for {bodies} only, and the machine's units are {units}; try a body \
         for one of these"
    )]
    NoUnit {
        /// The task's name.
        task: String,
        /// The kinds it has bodies for.
        bodies: String,
        /// The machine's configuration.
        units: String,
    },
    /// The task accesses a value and has bodies for devices alone.
    #[error(
        "cannot submit task `{task}`: it accesses {data}, which lives in host memory, and has no body for CPU units; try \
         .cpu(..) or .host(..), or an array for what devices work on"
    )]
    ValueOnDevice {
        /// The task's name.
        task: String,
        /// The value's name.
        data: String,
    },
    /// The task returns a result and has a body for devices.
    #[error(
        "cannot submit task `{task}`: it returns a result, which bodies for CPU units alone do, and has a body for devices; \
         try two tasks"
    )]
    ResultOnDevice {
        /// The task's name.
        task: String,
    },
    /// No memory that the task could run in is large enough for its data.
    #[error(
        "cannot submit task `{task}`: it needs {needed_bytes} bytes at once, and the largest device memory it could use \
         has {capacity_bytes}; try smaller regions, or a body for units with more memory"
    )]
    WorkingSet {
        /// The task's name.
        task: String,
        /// The sum of its regions' sizes.
        needed_bytes: u64,
        /// The largest capacity among its units' memories.
        capacity_bytes: u64,
    },
    /// An index outside its iteration space.
    #[error("cannot submit task `{task}`: index {index} is outside iteration space `{space}`; try one below {len}")]
    Index {
        /// The task's name.
        task: String,
        /// The space's name.
        space: String,
        /// The index asked for.
        index: usize,
        /// The number of indices.
        len: usize,
    },
    /// Two accesses of a loop have different numbers of iterations.
    #[error(
        "cannot submit loop `{task}`: it would have {first_len} iterations by {first}, and {second_len} by {second}; try \
         parts of matching sizes"
    )]
    Lengths {
        /// The loop's name.
        task: String,
        /// What the first one goes over.
        first: String,
        /// How many parts or numbers that has.
        first_len: usize,
        /// What the second one goes over.
        second: String,
        /// How many parts or numbers that has.
        second_len: usize,
    },
    /// Nothing says how many iterations a loop has.
    #[error(
        "cannot submit loop `{task}`: all its accesses are the same in every iteration, so that nothing says how many \
         there are; try an access to a partition, such as x.blocks(n).inout(), or a range, such as 0..n"
    )]
    NoLength {
        /// The loop's name.
        task: String,
    },
    /// A child accesses what its parent has not declared for its children.
    #[error(
        "cannot submit child `{task}` of `{parent}`: its access to {region} of {data} is outside what `{parent}` has \
         declared for its children ({held}); try declaring the region by `weak_inout` or `weak_input` in `{parent}`"
    )]
    Uncovered {
        /// The child's name.
        task: String,
        /// The parent's name.
        parent: String,
        /// The data object's name.
        data: String,
        /// The region asked for, with its mode.
        region: String,
        /// What the parent has declared of the data object for its children, with its modes.
        held: Box<str>,
    },
    /// A child is submitted where no body of a task of this runtime runs.
    #[error(
        "cannot submit child `{task}`: this thread runs no part of a task's body; try submitting it from the body's own \
         thread, or from rayon's threads in its unit"
    )]
    NoParent {
        /// The child's name.
        task: String,
    },
    /// A task submitted from a body accesses what that body's task holds, or one of its ancestors.
    #[error(
        "cannot submit task `{task}` inside task `{ancestor}`: its access to {region} of {data} conflicts with {held}, \
         which `{ancestor}` holds with all that is submitted inside it; try giving `{task}` data of its own, doing its \
         work in the body, or submitting it as a child (`cx.task`) of a task that declares the region as weak"
    )]
    Nested {
        /// The task's name.
        task: String,
        /// The name of the task whose body submits it, directly or through tasks submitted there.
        ancestor: String,
        /// The data object's name.
        data: String,
        /// The region asked for, with its mode.
        region: String,
        /// The region that the ancestor declared, with its mode.
        held: Box<str>,
    },
    /// A waiting call inside a task's body, which would wait for the very task that calls it.
    #[error(
        "cannot `{call}` inside a task's body: it would wait for the very task that calls it; try calling it outside, or \
         submitting a task that uses the value"
    )]
    InsideTask {
        /// The method.
        call: &'static str,
    },
    /// A body waits for what waits for the end of its own task.
    #[error(
        "cannot `{call}` inside task `{task}`, submitted at {submitted_at}: it would wait for ever, as {way}; try waiting \
         outside, or making what follows a child of `{task}`"
    )]
    Circular {
        /// The method.
        call: String,
        /// The name of the task whose body waits.
        task: String,
        /// Where that was submitted.
        submitted_at: &'static Location<'static>,
        /// Who comes behind it, by which access to which region or by waiting in its turn, and where that was submitted.
        way: Box<str>,
    },
    /// A policy calls the runtime that waits for its answer.
    #[error(
        "cannot `{call}` in a policy's call: the runtime waits for the policy's answer; try deciding from what the \
         policy is told"
    )]
    InsidePolicy {
        /// The method.
        call: &'static str,
    },
    /// The runtime has ended.
    #[error("cannot submit: the runtime was shut down; try calling Runtime::shutdown after the last submission")]
    ShutDown,
    /// A thread of the runtime's own died of an error in the runtime.
    #[error(
        "{problem}; tasks may never finish, so nothing more is accepted or waited for. This is an error in thalweg"
    )]
    Broken {
        /// Which thread it was, and what it died of.
        problem: String,
    },
    /// The task's group was cancelled.
    #[error("cannot submit task `{task}`: its group was cancelled; try a new group")]
    Cancelled {
        /// The task's name.
        task: String,
    },
    /// The task's group belongs to another runtime.
    #[error("cannot submit task `{task}`: its group is another runtime's; try a group of this one")]
    ForeignGroup {
        /// The task's name.
        task: String,
    },
    /// A body waits for a group that its own task is a member of.
    #[error(
        "cannot wait for a group inside task `{task}`, which is a member of it and would wait for itself; try a group of \
         its own for what is waited for"
    )]
    InsideGroup {
        /// The task's name.
        task: String,
    },
    /// The task is to be retried, and what one of its accesses does cannot be done again.
    #[error(
        "cannot submit task `{task}` with retries: what a body that fails has added to {region} of {data} stays there, \
         and others may have seen it; try `inout` or `reduction`, or no retries"
    )]
    Retries {
        /// The task's name.
        task: String,
        /// The data object's name.
        data: String,
        /// The region, with its mode.
        region: String,
    },
    /// An array that is lent to a scope does not lie in memory row by row.
    #[error(
        "cannot borrow an array of shape {shape:?} with strides {strides:?}: {problem}; try borrowing the array that it is \
         a view of, with regions of that, or a copy in standard layout"
    )]
    Layout {
        /// The number of elements along each dimension.
        shape: Vec<usize>,
        /// The number of elements from one index to the next, for each dimension.
        strides: Vec<isize>,
        /// What is in the way.
        problem: &'static str,
    },
    /// The runtime is to end while a scope lasts, which needs it to bring home what it has lent.
    #[error("cannot `{call}` while a scope of the runtime lasts; try calling it after `Runtime::scope` has returned")]
    InsideScope {
        /// The method.
        call: &'static str,
    },
    /// The address space does not exist.
    #[error("cannot copy to {space}: the machine has {count} address spaces; try one that `Machine::spaces` lists")]
    NoSuchSpace {
        /// What was asked for.
        space: String,
        /// How many there are.
        count: usize,
    },
}

impl SubmitError {
    /// Says whose accesses are refused.
    #[cold]
    pub(crate) fn of_task(mut self, name: &str) -> Self {
        if let Self::OutOfBounds { task, .. }
        | Self::NotContiguous { task, .. }
        | Self::ForeignData { task, .. }
        | Self::ForeignResult { task, .. }
        | Self::Taken { task, .. } = &mut self
        {
            *task = name.to_owned();
        }
        self
    }
}

/// What the body of a task returns in its stead that was cancelled.
#[derive(Debug, thiserror::Error)]
#[error("cancelled")]
pub(crate) struct Cancelled;

/// Why a task failed.
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
    /// The device failed while it ran the task.
    Device(DeviceError),
    /// The task never started: its group was cancelled, or the runtime was dropped while unwinding.
    Cancelled,
    /// What the task had lent out, a guard or a completion, was dropped without being given back by
    /// [`finish`](crate::memory::Lent::finish).
    Abandoned,
    /// The user's own [`Policy`](crate::sched::Policy) broke its contract. No task fails by that: `stealing` has taken
    /// the policy's place.
    Policy {
        /// The policy's name.
        policy: &'static str,
        /// What it did with which task, and what it should have done.
        problem: String,
    },
}

impl FailureReason {
    /// Why a body has returned an error, which it may have done for us.
    pub(crate) fn from_returned(error: BoxError) -> Self {
        if error.is::<Cancelled>() { Self::Cancelled } else { Self::Returned(error) }
    }

    /// What a panic said, if it said it in words.
    pub(crate) fn from_panic(payload: Box<dyn std::any::Any + Send>) -> Self {
        let message = match payload.downcast::<String>() {
            Ok(message) => *message,
            Err(payload) => match payload.downcast::<&'static str>() {
                Ok(message) => (*message).to_owned(),
                Err(payload) => {
                    // Dropping a stranger's payload may panic again; that must not reach the caller.
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
                write!(f, "cannot go on with policy `{policy}`: {problem}. `stealing` has taken its place")
            }
        }
    }
}

/// A task that failed: the root of everything that was skipped because of it.
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
#[derive(Debug)]
pub struct TaskFailure {
    task: TaskId,
    name: String,
    submitted_at: &'static Location<'static>,
    reason: FailureReason,
    skipped: AtomicU64,
}

impl TaskFailure {
    pub(crate) fn new(
        task: TaskId,
        name: &str,
        submitted_at: &'static Location<'static>,
        reason: FailureReason,
    ) -> Self {
        Self { task, name: name.to_owned(), submitted_at, reason, skipped: AtomicU64::new(0) }
    }

    #[cfg(test)]
    #[track_caller]
    pub(crate) fn for_tests(name: &str) -> Self {
        Self::new(TaskId(0), name, Location::caller(), FailureReason::Cancelled)
    }

    /// The task that failed.
    pub fn task(&self) -> TaskId {
        self.task
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where in the program it was submitted.
    pub fn submitted_at(&self) -> &'static Location<'static> {
        self.submitted_at
    }

    /// What happened.
    pub fn reason(&self) -> &FailureReason {
        &self.reason
    }

    /// How many tasks were skipped so far because they would have used what this one did not write.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Whether it is no task's failure but the policy's.
    pub(crate) fn is_the_policys(&self) -> bool {
        matches!(self.reason, FailureReason::Policy { .. })
    }

    pub(crate) fn count_skipped(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Display for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_the_policys() {
            return write!(f, "{}", self.reason);
        }
        write!(f, "{} `{}`, submitted at {}, {}", self.task, self.name, self.submitted_at, self.reason)?;
        match self.skipped() {
            0 => Ok(()),
            n => write!(f, " ({n} tasks that use what it should have written were skipped)"),
        }
    }
}

impl std::error::Error for TaskFailure {
    /// The error that the body returned, or the device's.
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

/// Every failure since the last wait, in the order in which they happened.
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

impl Failures {
    /// What the list is a list of: a policy that fails has no task fail.
    fn heading(&self) -> &'static str {
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
        for (i, failure) in self.0.iter().enumerate() {
            let separator = if i > 0 { "; " } else { "" };
            write!(f, "{separator}{failure}")?;
        }
        Ok(())
    }
}

/// What a waiting call reports.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.scalar(1);
/// rt.task("fails", (x.inout(),)).cpu(|_, _| Err("no")).submit()?;
/// assert!(matches!(rt.read_scalar(&x), Err(RunError::Poisoned(cause)) if cause.name() == "fails"));
/// assert!(matches!(rt.wait(), Err(RunError::Failed(_))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Tasks failed, or the scheduler's policy; all others ran.
    #[error("{heading}{0}", heading = .0.heading())]
    Failed(Failures),
    /// The region asked for was not written because of this failure.
    #[error("cannot give the region's value, which was lost: {0}; try overwriting the region, or `clear` or `accept`")]
    Poisoned(Arc<TaskFailure>),
    /// The task that should have returned the result failed, or was skipped because of this failure.
    #[error("cannot give the result of task `{task}`: {failure}")]
    NoResult {
        /// The name of the task that was to return it.
        task: String,
        /// What failed: that task, or one before it.
        #[source]
        failure: Arc<TaskFailure>,
    },
    /// In a simulation no body is run, so there is no result.
    #[error("cannot give the result of task `{task}`: in a simulation no body is run; try `Pending::wait`")]
    NotComputed {
        /// The name of the task that would return it.
        task: String,
    },
    /// The request itself was refused.
    #[error(transparent)]
    Refused(#[from] SubmitError),
}

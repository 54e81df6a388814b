//! Results of tasks: storage for the return value of a body, and accesses of other tasks to that value.
//!
//! A result is written once, by the body that returns it. It is then read by any number of later tasks, and finally
//! moved out or dropped. It needs neither a history nor a directory, because a reader has an edge from the writing task
//! itself.
//!
//! Results are read-only host memory and do not tie a task to any kind of unit: bodies for accelerators, which run on
//! hosting threads, get `&R` too. The edges of a reader are created when its regions are entered. A caller that takes
//! the result waits for its readers (`sync/readers.rs`), as a thread or as a future (`runtime/pending.rs`).
//!
//! The references here are sound because:
//! 1. The [`Producer`] writes while its task runs, and writing consumes it.
//! 2. All other accesses come after the end of the task: readers because of their edges, and the caller that takes the
//!    result because it checks ([`Promise::take`]).
//! 3. A task that mends a missing result writes it only if the first task has failed. It comes after the first task,
//!    and before all tasks that read the mended result. Earlier readers do not read the result: they are skipped, or
//!    get the failure ([`Promise::mend`]).
//! 4. The caller that takes the result owns the only [`Promise`], so no more readers can come. Existing readers are
//!    counted, from their submission until their bodies are gone.

use super::access_list::{AccessList, DeviceSites, Sites, Span};
use super::payload::{Payload, Slot};
use crate::depend::{Context, Kinds, TaskRef};
use crate::error::{BoxError, TaskFailure};
use crate::sealed::{Internal, Sealed};
use crate::sync::{Counted, Readers, drop_quietly};
use std::cell::{OnceCell, UnsafeCell};
use std::fmt;
use std::sync::Arc;
use std::task::Waker;

/// State shared by the two ends. If the result was not taken, the last owner drops it.
struct ResultCell<R> {
    result: UnsafeCell<Option<R>>,
    readers: Readers<Waker>,
}

// SAFETY: the result is written by one thread before several threads read it (rules 1 and 2), which `R: Sync` permits;
// any thread may drop it, which `R: Send` permits.
unsafe impl<R: Send + Sync> Sync for ResultCell<R> {}

/// The end that writes the result.
pub(crate) struct Producer<R>(Counted<ResultCell<R>>);

/// The end that reads or takes the result. Must not be cloned: see rule 4.
pub(crate) struct Promise<R> {
    cell: Counted<ResultCell<R>>,
    task: TaskRef,
}

/// Creates both ends of a result. The returned function completes the second end; it is called with the task that the
/// first end was moved into.
#[inline]
pub(crate) fn result_of_task<R>() -> (Producer<R>, impl FnOnce(TaskRef) -> Promise<R>) {
    let (written, read) = Counted::pair(ResultCell { result: UnsafeCell::new(None), readers: Readers::new() });
    (Producer(written), |task| Promise { cell: read, task })
}

impl<R> Producer<R> {
    /// Writes the result. If nothing can request the result any more, it is dropped, and a panic of its destructor is
    /// caught here.
    #[inline]
    pub(crate) fn set(self, result: R) {
        // SAFETY: this is the only writer, and writing consumes it; nothing reads before its task has ended (rules 1
        // and 2). So nothing else accesses the result now.
        unsafe { *self.0.result.get() = Some(result) };
        drop_quietly(|| drop(self));
    }
}

impl<R> Promise<R> {
    /// Returns the task that writes the result.
    pub(crate) fn task(&self) -> &TaskRef {
        &self.task
    }

    /// Registers a later task as a reader of the result.
    #[inline]
    pub(crate) fn read(&self) -> ReadResult<R> {
        self.cell.readers.enter();
        ReadResult(self.cell.clone())
    }

    /// Registers a later task as a reader of the result or of the failure of its task.
    pub(crate) fn read_outcome(&self) -> ReadOutcome<R> {
        ReadOutcome { result: self.read(), task: self.task.clone(), failure: OnceCell::new() }
    }

    /// Creates the end through which a later task writes the result if the first task has failed.
    pub(crate) fn mend(&self) -> Mending<R> {
        Mending { cell: self.cell.clone(), failed: self.task.clone() }
    }

    /// Makes another task, which has a [`Mending`] of the result, represent the result from now on: later readers, and
    /// the caller that takes the result, wait for that task.
    pub(crate) fn stand_in(&mut self, task: TaskRef) {
        self.task = task;
    }

    /// Returns whether no task that reads the result is pending.
    pub(crate) fn is_unread(&self) -> bool {
        self.cell.readers.is_empty()
    }

    /// Registers a waker to be woken when no task that reads the result is pending any more. Returns `true` if none is
    /// pending now.
    pub(crate) fn wake_when_unread(&self, waker: Waker) -> bool {
        self.cell.readers.wait(waker)
    }

    /// Takes the result, if the task has written it.
    ///
    /// # Panics
    /// Panics if the task, or a task that reads the result, has not ended.
    pub(crate) fn take(self) -> Option<R> {
        assert!(self.task.is_finished() && self.is_unread(), "the result is in use");
        // SAFETY: the task has ended, and so has the writer; all readers have ended too, and no more can come (rule
        // 4). Both facts are asserted, and the effects of the ended tasks are visible.
        unsafe { (*self.cell.result.get()).take() }
    }
}

/// A task's access to another task's result, stored in the reading task.
pub struct ReadResult<R>(Counted<ResultCell<R>>);

impl<R> ReadResult<R> {
    /// # Safety
    /// The task that writes the result has ended.
    #[inline]
    pub(super) unsafe fn result(&self) -> &R {
        // SAFETY: the writer has ended, and no caller takes the result while this reader exists (rules 2 and 4), so the
        // result does not change while it is borrowed.
        let result = unsafe { &*self.0.result.get() };
        result.as_ref().expect("a task that did not fail has left its result")
    }
}

impl<R> Drop for ReadResult<R> {
    fn drop(&mut self) {
        if let Some(waker) = self.0.readers.leave() {
            waker.wake();
        }
    }
}

impl<R> Sealed for ReadResult<R> {}

impl<R: Send + Sync + 'static> AccessList for ReadResult<R> {
    type Views<'a> = &'a R;
    type DeviceViews<'a> = &'a R;

    const COUNT: Option<usize> = Some(0);

    #[inline]
    unsafe fn views<'a>(&'a self, _: &mut Sites<'_>) -> &'a R {
        // SAFETY: the engine runs a body only when everything that its task waits for has ended without failure, so the
        // writer has ended.
        unsafe { self.result() }
    }

    fn device_views<'a>(&'a self, _: &mut DeviceSites<'_>) -> &'a R {
        // SAFETY: as for `views`: a body that enqueues work runs under the same conditions as any other.
        unsafe { self.result() }
    }

    fn again(&self, _: Internal, _: Span) -> Self {
        unreachable!("tasks that use results are not recorded")
    }
}

impl<R> fmt::Debug for ReadResult<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadResult(..)")
    }
}

/// A task's access to the outcome of another task (its result or its failure), stored in the reading task.
pub struct ReadOutcome<R> {
    result: ReadResult<R>,
    task: TaskRef,
    failure: OnceCell<Arc<TaskFailure>>,
}

impl<R> ReadOutcome<R> {
    /// # Safety
    /// The task that writes the result has ended.
    unsafe fn outcome(&self) -> Result<&R, &TaskFailure> {
        if let Some(cause) = self.task.poison() {
            return Err(self.failure.get_or_init(|| cause));
        }
        // SAFETY: the caller upholds the same contract.
        Ok(unsafe { self.result.result() })
    }
}

impl<R> Sealed for ReadOutcome<R> {}

impl<R: Send + Sync + 'static> AccessList for ReadOutcome<R> {
    type Views<'a> = Result<&'a R, &'a TaskFailure>;
    type DeviceViews<'a> = Result<&'a R, &'a TaskFailure>;

    const COUNT: Option<usize> = Some(0);

    unsafe fn views<'a>(&'a self, _: &mut Sites<'_>) -> Self::Views<'a> {
        // SAFETY: the engine runs a body only when everything that its task waits for has ended, which includes the
        // writer.
        unsafe { self.outcome() }
    }

    fn device_views<'a>(&'a self, _: &mut DeviceSites<'_>) -> Self::DeviceViews<'a> {
        // SAFETY: as for `views`: a body that enqueues work runs under the same conditions as any other.
        unsafe { self.outcome() }
    }

    fn again(&self, _: Internal, _: Span) -> Self {
        unreachable!("tasks that use results are not recorded")
    }
}

impl<R> fmt::Debug for ReadOutcome<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadOutcome(..)")
    }
}

/// The end that writes a result if the original task failed to write it.
pub(crate) struct Mending<R> {
    cell: Counted<ResultCell<R>>,
    failed: TaskRef,
}

impl<R> Mending<R> {
    /// Writes the result of `make` if the task that should have written the result has failed.
    ///
    /// # Safety
    /// The original task has ended. Tasks that became readers of the result before this end was created are readers of
    /// the original task, and tasks that become readers later come after the caller.
    pub(crate) unsafe fn mend(self, make: impl FnOnce() -> R) {
        if self.failed.is_poisoned() {
            let result = make();
            // SAFETY: the first writer has ended, and the caller is the only other writer (rule 3). No earlier reader
            // reads the cell, because all of them are readers of a failed task.
            let before = unsafe { (*self.cell.result.get()).replace(result) };
            drop_quietly(|| drop(before));
        }
    }
}

/// The body of the task that mends a result.
pub(crate) struct MendsResult<R, F>(Mending<R>, F);

impl<R, F> Sealed for MendsResult<R, F> {}

impl<R: Send + Sync + 'static, F: FnOnce() -> R + Send + 'static> Slot<()> for MendsResult<R, F> {
    const PRESENT: bool = true;

    fn call(self, _: &Context, (): ()) -> Result<(), BoxError> {
        let Self(mending, make) = self;
        // SAFETY: the engine runs this after the task that should have written the result: `Pending::mend` makes this
        // task wait for it. From then on, this task represents the result, so later readers wait for it.
        unsafe { mending.mend(make) };
        Ok(())
    }
}

impl<R: Send + Sync + 'static, F: FnOnce() -> R + Send + 'static> Payload<(), MendsResult<R, F>> {
    /// Makes an internal task that mends a result.
    pub(crate) fn mending(mending: Mending<R>, make: F) -> Self {
        Self::new((), MendsResult(mending, make), Kinds::CPU)
    }
}

/// The conversion of a body's return value into a result.
///
/// ```
/// use thalweg::memory::{Always, Fallibly, Yields};
/// fn result<K: Yields<O>, O>(returned: O) -> Option<K::Result> {
///     K::outcome(returned).ok()
/// }
/// assert_eq!(result::<Always, _>(Ok::<_, String>(1)), Some(Ok(1)));
/// assert_eq!(result::<Fallibly, _>(Ok::<_, String>(1)), Some(1));
/// ```
pub trait Yields<O>: Sealed + Send + 'static {
    /// The result's type.
    type Result: Send + Sync;

    /// Returns the result, or the error that left it missing.
    fn outcome(returned: O) -> Result<Self::Result, BoxError>;
}

/// The entire return value is the result.
#[derive(Debug)]
pub struct Always;

/// The value in `Ok` is the result; an error fails the task.
#[derive(Debug)]
pub struct Fallibly;

impl Sealed for Always {}
impl Sealed for Fallibly {}

impl<R: Send + Sync> Yields<R> for Always {
    type Result = R;

    #[inline]
    fn outcome(returned: R) -> Result<R, BoxError> {
        Ok(returned)
    }
}

impl<R: Send + Sync, E: Into<BoxError>> Yields<Result<R, E>> for Fallibly {
    type Result = R;

    #[inline]
    fn outcome(returned: Result<R, E>) -> Result<R, BoxError> {
        returned.map_err(Into::into)
    }
}

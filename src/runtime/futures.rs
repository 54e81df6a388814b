//! Asynchronous versions of the calls in [`super::wait`], which work with any executor.
//!
//! The call itself submits the awaited task, or notes the awaited tasks; a poll only checks whether they have ended. A
//! poll executes tasks only in a simulation, because otherwise its time would not pass. A dropped future leaves nothing
//! behind except the task that was meant to notify it.

use super::door::Door;
use super::runtime::Runtime;
use crate::depend::{TaskRef, running};
use crate::driver::inside;
use crate::driver::progress::SoFar;
use crate::driver::waiters::Awaited;
use crate::engine::WaitBegun;
use crate::error::{Called, Failures, RunError, SubmitError};
use crate::ids::SpaceId;
use crate::memory::{Element, Shape};
use crate::sync::drop_quietly;
use crate::task::{AccessSpec, IntoRegion, UntypedAccess};
use parking_lot::Mutex;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};

impl Runtime {
    /// Like [`wait`](Self::wait), but returns a future that works with any executor. The future waits for the tasks
    /// submitted before this call.
    ///
    /// While no thread waits, a unit that is hosted by the submitter
    /// ([`use_current_thread`](crate::Builder::use_current_thread)) executes nothing, and stalls are not reported.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// # let executor = tokio::runtime::Builder::new_current_thread().build()?;
    /// # executor.block_on(async {
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.data(vec![1.0; 100]);
    /// rt.task("double", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2.0)).submit()?;
    /// rt.wait_async().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`wait`](Self::wait). If the future is polled inside a body, it would wait for itself, so the wait is
    /// refused.
    pub fn wait_async(&self) -> impl Future<Output = Result<(), RunError>> + Send + use<> {
        let refused = self.outside_body("wait_async").err();
        let shared = self.shared();
        Everything {
            begun: refused.is_none().then(|| shared.engine.failures().begin()),
            nested: shared.nested.load(Ordering::Acquire),
            round: if refused.is_none() { shared.progress.so_far() } else { Ok(SoFar::none()) },
            seat: Seat::new(&self.door),
            refused,
        }
    }

    /// Like [`read`](Self::read), but returns a future that works with any executor. The future yields the region's
    /// value after the tasks submitted before this call. It also works in a body of
    /// [`host_async`](crate::TaskBuilder::host_async).
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// # let executor = tokio::runtime::Builder::new_current_thread().build()?;
    /// # executor.block_on(async {
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.data(vec![1.0; 3]);
    /// rt.task("double", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2.0)).submit()?;
    /// let doubled = rt.read_async(x.slice(1..));
    /// rt.task("clear", (x.output(),)).cpu(|_, (x,)| x.fill(0.0)).submit()?;
    /// assert_eq!(doubled.await?, [2.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`read`](Self::read). In a body whose task holds the region, the future would wait for itself, so it is
    /// immediately ready with [`SubmitError::Nested`](crate::error::SubmitError::Nested).
    #[track_caller]
    pub fn read_async<'d, T: Element, S: Shape>(&self, region: impl IntoRegion<'d, T, S>) -> Reading<T, S> {
        let (region, seat) = (region.into_region(), Seat::new(&self.door));
        let value: Arc<Mutex<Option<S::Owned<T>>>> = Arc::default();
        let access = region.input();
        let submit = || {
            access.check(self.door.id).map_err(|refusal| refusal.of_task("read_async"))?;
            if running::replayed_here(self.door.id).is_some() {
                return Err(SubmitError::InsideReplay { call: "read_async" });
            }
            let UntypedAccess(record) = access.record();
            running::ancestry(self.door.id).admit("read_async", &[record])?; // it would wait for itself
            let (result, waker) = (value.clone(), seat.waker());
            self.door.internal_read_for(region.input(), "read_async", SpaceId::HOST, Some(waker), move |view| {
                *result.lock() = Some(S::to_owned(&view));
            })
        };
        let task = submit().called_here();
        // All elements of a phantom are zeros.
        let extents = region.block.extents();
        let zeros = region.data.cell.datum.phantom.then(|| extents[..S::NDIM.unwrap_or(1)].to_vec());
        Reading { task, value, zeros, seat }
    }
}

/// Wakes a future, using the waker of its last poll.
#[derive(Default)]
struct Notice(Mutex<Option<Waker>>);

impl Notice {
    fn set(&self, waker: Waker) {
        let before = self.0.lock().replace(waker);
        drop_quietly(|| drop(before));
    }
}

impl Wake for Notice {
    fn wake(self: Arc<Self>) {
        let waker = self.0.lock().take();
        drop_quietly(|| waker.into_iter().for_each(Waker::wake)); // a panic of a foreign waker stays inside
    }
}

/// A future's entry in the list of waiters.
pub(super) struct Seat {
    door: Arc<Door>,
    notice: Arc<Notice>,
    /// The ID of the entry in the list; `None` if the future is not in the list.
    entry: Option<u64>,
}

impl Seat {
    pub(super) fn new(door: &Arc<Door>) -> Self {
        Self { door: door.clone(), notice: Arc::default(), entry: None }
    }

    pub(super) fn door(&self) -> Arc<Door> {
        self.door.clone()
    }

    /// The waker of the future.
    pub(super) fn waker(&self) -> Waker {
        self.notice.clone().into()
    }

    /// Returns `Ready` when nothing is `left`, or when the wait can never end.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        awaited: impl FnOnce() -> Awaited,
        left: impl Fn() -> u64,
    ) -> Poll<()> {
        let shared = self.door.shared();
        let is_over = || left() == 0 || shared.is_broken();
        if self.door.driver.simulated().is_some() && !is_over() {
            self.door.driver.advance(awaited(), left);
            return Poll::Ready(());
        }
        if !is_over() {
            self.notice.set(cx.waker().clone());
            match self.entry {
                Some(entry) => shared.waiters.ask_for(entry, true),
                None => self.entry = Some(shared.waiters.enter_future(self.waker(), awaited())),
            }
            if !is_over() {
                return Poll::Pending;
            }
        }
        self.leave();
        Poll::Ready(())
    }

    fn leave(&mut self) {
        if !self.door.shared().is_in_child() {
            self.entry.take().into_iter().for_each(|entry| self.door.shared().waiters.leave(entry));
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave();
    }
}

/// See [`Runtime::wait_async`].
struct Everything {
    begun: Option<WaitBegun>,
    nested: u64,
    /// The tasks that this round waits for (`Ok`), or the tasks that must finish before those are known (`Err`).
    round: Result<SoFar, SoFar>,
    seat: Seat,
    refused: Option<SubmitError>,
}

impl Future for Everything {
    type Output = Result<(), RunError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { begun, nested, round, seat, refused } = self.get_mut();
        let door = seat.door.clone();
        if inside::in_body(door.id) {
            refused.get_or_insert(SubmitError::InsideTask { call: "wait_async" });
        }
        let shared = door.shared();
        if let Err(forked) = shared.in_own_process() {
            refused.get_or_insert(forked);
        }
        if let Some(refusal) = refused {
            return Poll::Ready(Err(refusal.clone().into()));
        }
        let boundary = loop {
            let (Ok(tasks) | Err(tasks)) = &*round;
            let left = || shared.progress.left(tasks);
            if seat.poll(cx, || Awaited::Tasks(tasks.clone()), left).is_pending() {
                return Poll::Pending;
            }
            // Tasks that bodies submit are also awaited, so each time there are such tasks, another round is needed.
            let again = shared.nested.load(Ordering::Acquire);
            match round {
                _ if shared.is_broken() => break tasks.boundary,
                Ok(tasks) if *nested == again => break tasks.boundary,
                Ok(_) => (*nested, *round) = (again, shared.progress.so_far()),
                Err(_) => *round = shared.progress.so_far(),
            }
        };
        let failures = begun.take().map_or_else(Vec::new, |begun| shared.engine.failures().end(begun, boundary));
        shared.broken()?;
        Poll::Ready(if failures.is_empty() { Ok(()) } else { Err(RunError::Failed(Failures(failures))) })
    }
}

impl Drop for Everything {
    fn drop(&mut self) {
        let shared = self.seat.door.shared();
        if !shared.is_in_child() {
            self.begun.take().into_iter().for_each(|begun| shared.engine.failures().give_up(begun));
        }
    }
}

/// Future that yields a region's value. Made by [`Runtime::read_async`].
#[must_use = "a future does nothing unless it is polled"]
pub struct Reading<T: Element, S: Shape> {
    task: Result<TaskRef, SubmitError>,
    value: Arc<Mutex<Option<S::Owned<T>>>>,
    /// The shape of the region if it has no memory, in which case all elements are zeros; otherwise `None`.
    zeros: Option<Vec<usize>>,
    seat: Seat,
}

impl<T: Element, S: Shape> Future for Reading<T, S> {
    type Output = Result<S::Owned<T>, RunError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { task, value, zeros, seat } = self.get_mut();
        let task = match task {
            Ok(task) => task,
            Err(refusal) => return Poll::Ready(Err(refusal.clone().into())),
        };
        seat.door.shared().in_own_process()?;
        if seat.poll(cx, || Awaited::Told, || u64::from(!task.is_finished())).is_pending() {
            return Poll::Pending;
        }
        if !task.is_finished() {
            seat.door.shared().broken()?;
        }
        seat.door.outcome_of(task)?;
        if let Some(shape) = zeros {
            return Poll::Ready(Ok(S::from_vec(bytemuck::zeroed_vec(shape.iter().product()), shape)));
        }
        Poll::Ready(Ok(value.lock().take().expect("the task that reads the value has run, and is asked once")))
    }
}

impl<T: Element, S: Shape> fmt::Debug for Reading<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_finished = self.task.as_ref().is_ok_and(|task| task.is_finished());
        f.debug_struct("Reading").field("is_finished", &is_finished).finish_non_exhaustive()
    }
}

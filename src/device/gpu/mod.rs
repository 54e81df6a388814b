//! The implementation that all accelerators share: streams and the work in flight on them, compiled kernels, scratch
//! memory.
//!
//! [`Gpu`] turns any [`Backend`] into an [`Accelerator`]. It has several streams for kernels, and one copy stream for
//! each direction: to the device, to the host, and between devices. So copies can overlap with kernels, and independent
//! small kernels can overlap with each other. There are as many streams as the device has hardware queues
//! ([`Backend::queues`]), because work in a queue also waits for the work of other streams before it. Independent tasks
//! go to the streams in turn, so that their first kernels are enqueued before the kernels that follow them. Each kernel
//! is compiled once.
//!
//! Invariants:
//! 1. A stream's flights end in order, so the oldest flight is checked first.
//! 2. A task goes to the stream of one of its predecessors, if nothing else has been enqueued on that stream since, or
//!    if all streams are about equally busy; and it waits for events of its predecessors on other streams. So a chain
//!    of tasks needs neither events nor the host, and branches go to other streams.
//! 3. Scratch memory belongs to a stream ([`scratch`]). It is given to the next task as soon as the previous task has
//!    been enqueued, because the stream executes the two one after the other.
//! 4. No task body is called while a lock is held (see [`streams`]), and no call is made that may block ([`Brief`]).
//! 5. An event is recorded when something needs to wait for it, once for everything that was enqueued before it
//!    ([`streams::Moment`]). A task gets its own event at its end only if that pays off, which is the case if several
//!    tasks wait for this one, or if tasks take long and few of them come before this one on its stream.
//! 6. At most one stream's lock is held at a time. The lock of `tasks` is taken under a stream's lock or alone.
//! 7. While a task is being enqueued, it holds the objects that users keep with its stream. These objects are dropped
//!    before the stream, when nothing is in flight.
//! 8. When something fails, everything in flight on the device is reported as failed: later work may have used
//!    invalid data.

#[cfg(any(feature = "cuda", feature = "hip"))]
mod addressed;
mod backend;
#[cfg(any(feature = "cuda", feature = "hip"))]
mod cache;
mod copies;
mod graph;
mod kernels;
mod scratch;
mod session;
mod slabs;
mod staging;
mod streams;
#[cfg(test)]
mod tests;
mod times;

#[cfg(any(feature = "cuda", feature = "hip"))]
pub(super) use addressed::{
    Api, ApiError, Compiler, Direction, Found, Handle, KernelCall, Pitched, Platform, PoolAccess, RawUnit, Transfer,
    all_are_peers, compile_for, find, survey,
};
pub(super) use backend::{Backend, no_code};
#[cfg(any(feature = "cuda", feature = "hip"))]
use cache::Cache;
#[cfg(any(feature = "cuda", feature = "hip"))]
pub(super) use cache::Recipe;
pub(super) use graph::GraphNode;
pub(super) use slabs::{Pitches, Slab};

use self::kernels::Kernels;
use self::session::Session;
use self::streams::{Flight, Stream};
use self::times::{Begun, Timed, Times};
use super::{
    Accelerator, Buffer, Completion, Copying, Device, DeviceCopy, End, Execution, LastVisit, Mark, TaskSession, Took,
    Waker,
};
use crate::coherence::CopyId;
use crate::error::DeviceError;
use crate::ids::TaskId;
use crate::kernel::DeviceSite;
use crate::machine::UnitKind;
use crate::memory::dlpack::DlDevice;
use crate::sync::{Brief, drop_quietly};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The indices of the copy streams. The streams for kernels follow.
const COPIES_IN: usize = 0;
const COPIES_OUT: usize = 1;
const COPIES_ACROSS: usize = 2;
const COPY_STREAMS: usize = 3;
/// The numbers of streams that a device has at least and at most. No device has more hardware queues.
const FEWEST_STREAMS: usize = COPY_STREAMS + 4;
const MOST_STREAMS: usize = 32;

/// If tasks take at least this many nanoseconds, most get their own event, whose cost is small in comparison.
const LONG_NS: u64 = 10_000;

/// An accelerator on top of a backend.
pub(super) struct Gpu<B: Backend> {
    backend: Arc<B>,
    capacity_bytes: u64,
    streams: Vec<Stream<B>>,
    kernels: Kernels<B>,
    /// The stream of each task in flight, and the number of the task's flight.
    tasks: Brief<FxHashMap<TaskId, (usize, u64)>>,
    /// Streams for copies whose calls block.
    spare: Brief<Vec<B::Stream>>,
    /// The moving average of recent task durations, in nanoseconds.
    mean_ns: AtomicU64,
    /// The device's clock, if a trace is recorded.
    times: Option<Times<B>>,
    /// The last field, so that all others are dropped within one visit.
    visit: LastVisit,
}

impl<B: Backend> Gpu<B> {
    /// Creates an accelerator from a backend. If `is_timed`, it reports when the device begins and ends tasks and
    /// copies.
    ///
    /// # Errors
    /// Returns an error if the backend cannot create streams.
    pub(super) fn new(backend: B, is_timed: bool) -> Result<Self, DeviceError> {
        let streams = backend.queues().clamp(FEWEST_STREAMS, MOST_STREAMS);
        let streams = (0..streams).map(|_| Ok(Stream::new(backend.stream()?)));
        Ok(Self {
            streams: streams.collect::<Result<_, DeviceError>>()?,
            capacity_bytes: backend.free_bytes(),
            kernels: Kernels::default(),
            tasks: Brief::default(),
            spare: Brief::default(),
            mean_ns: AtomicU64::new(LONG_NS),
            times: is_timed.then(|| Times::new(&backend)).transpose()?,
            visit: LastVisit::default(),
            backend: Arc::new(backend),
        })
    }

    /// Chooses the stream for a task that comes after the tasks in `after` and follows those in `later`. Makes the
    /// stream wait for the tasks in `after`, and returns its index.
    fn stream_behind(&self, after: &[TaskId], later: &[TaskId]) -> Result<usize, DeviceError> {
        let before = self.in_flight(after);
        let is_last = |(stream, number): &&(usize, u64)| self.streams[*stream].state.lock().is_last(*number);
        let stream = match before.iter().find(is_last) {
            Some((stream, _)) => *stream,
            None => {
                let (least, stream) = self.least_busy();
                let is_like_others = |(stream, _): &&(usize, u64)| self.flights_on(*stream) <= least + least / 4;
                before.iter().chain(&self.in_flight(later)).find(is_like_others).map_or(stream, |(stream, _)| *stream)
            }
        };
        for (other, number) in before {
            self.wait_for(stream, other, number)?;
        }
        Ok(stream)
    }

    /// Returns the stream and the number of each of these tasks that is in flight, the last submitted first: a stream
    /// that waits for that one often waits for the others by that.
    fn in_flight(&self, tasks: &[TaskId]) -> Vec<(usize, u64)> {
        let known = self.tasks.lock();
        tasks.iter().rev().filter_map(|task| known.get(task).copied()).collect()
    }

    /// Returns the first of the least busy streams, with the number of flights on it. The first one is preferred
    /// because it has probably been used before, and so has scratch memory for the next task.
    fn least_busy(&self) -> (usize, usize) {
        let all = COPY_STREAMS..self.streams.len();
        all.map(|n| (self.flights_on(n), n)).min().expect("there are kernel streams")
    }

    /// Returns the number of flights on a stream.
    fn flights_on(&self, stream: usize) -> usize {
        self.streams[stream].state.lock().flights.len()
    }

    /// Makes a stream wait for a flight of another stream, unless it already does.
    fn wait_for(&self, stream: usize, other: usize, number: u64) -> Result<(), DeviceError> {
        let Stream { stream: waiting, state } = &self.streams[stream];
        if other == stream || state.lock().behind[other] > number {
            return Ok(());
        }
        let (event, mut behind) = {
            let Stream { stream, state } = &self.streams[other];
            let mut state = state.lock();
            let moment = state.moment_of(&self.backend, stream, number)?;
            let mut behind = moment.behind;
            behind[other] = moment.below;
            (moment.event.clone(), behind)
        };
        self.backend.wait(waiting, &event)?;
        let mut state = state.lock();
        behind.iter_mut().zip(state.behind).for_each(|(theirs, ours)| *theirs = ours.max(*theirs));
        state.behind = behind;
        Ok(())
    }

    /// Notes that work begins on a stream, if times are noted.
    fn begin_work(&self, stream: usize) -> Result<Option<Begun<B>>, DeviceError> {
        let stream = &self.streams[stream].stream;
        self.times.as_ref().map(|times| times.begin(&self.backend, stream)).transpose()
    }

    /// Notes that work ends on a stream, and returns its ends.
    fn end_work(&self, stream: &B::Stream, begun: Option<Begun<B>>) -> Result<Option<Timed<B>>, DeviceError> {
        let noted = self.times.as_ref().zip(begun);
        noted.map(|(times, begun)| times.end(&self.backend, stream, begun)).transpose()
    }

    /// Returns whether tasks take so long that each may have its own event.
    fn tasks_are_long(&self) -> bool {
        self.mean_ns.load(Ordering::Relaxed) >= LONG_NS
    }

    /// Allocates device memory. If there is not enough, the scratch memory that streams keep for future tasks is
    /// released first.
    fn allocate_memory(&self, bytes: usize) -> Result<(B::Memory, usize), DeviceError> {
        match self.backend.allocate(bytes) {
            Err(DeviceError::OutOfMemory { .. }) if self.give_up_scratch()? => self.backend.allocate(bytes),
            result => result,
        }
    }

    /// Waits until the scratch memory that streams keep is unused and releases it. Returns whether there was any.
    fn give_up_scratch(&self) -> Result<bool, DeviceError> {
        let mut any = false;
        for Stream { stream, state } in &self.streams {
            let (scratch, end) = {
                let mut state = state.lock();
                let scratch = std::mem::take(&mut state.scratch);
                if scratch.is_empty() {
                    continue;
                }
                let last = state.next.checked_sub(1).filter(|_| !state.flights.is_empty());
                let end = last.map(|last| Ok(state.moment_of(&self.backend, stream, last)?.event.clone()));
                (scratch, end.transpose()?)
            };
            any = true;
            end.map_or(Ok(()), |end| self.backend.synchronize(&end))?;
            drop(scratch);
        }
        Ok(any)
    }

    /// Waits until everything in flight has stopped, and reports all of it as failed.
    fn fail_all(&self, error: &DeviceError, ended: &mut Vec<Completion>) {
        for Stream { stream, state } in &self.streams {
            let stopped = state.lock().take_all(&self.backend, stream);
            let marks = stopped.wait(&self.backend);
            ended.extend(marks.map(|mark| Completion { mark, result: Err(error.clone()) }));
        }
        self.tasks.lock().clear();
    }
}

impl<B: Backend> Device for Gpu<B> {
    fn execution(&self) -> Execution<'_> {
        Execution::Queued(self)
    }

    fn domain(&self) -> (&'static str, usize) {
        (B::API, self.backend.domain())
    }

    fn copies_apart(&self) -> bool {
        self.backend.copies_block()
    }

    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn largest_buffer_bytes(&self) -> u64 {
        self.backend.largest_buffer_bytes()
    }

    fn dlpack(&self) -> Option<DlDevice> {
        self.backend.dlpack()
    }

    fn owns(&self, first: usize, bytes: usize) -> Result<bool, DeviceError> {
        self.backend.owns(first, bytes)
    }

    fn settle(&self) -> Result<(), DeviceError> {
        self.backend.settle()
    }

    fn allocate(&self, bytes: u64, _: usize) -> Result<Buffer, DeviceError> {
        let (memory, base) = self.allocate_memory(usize::try_from(bytes).unwrap_or(usize::MAX).max(1))?;
        let guards = self.backend.guards(&memory);
        Ok(Buffer::new(base, memory).between(guards))
    }

    fn reaches_unified(&self) -> bool {
        self.backend.reaches_unified()
    }

    fn allocate_unified(&self, bytes: usize) -> Result<Buffer, DeviceError> {
        let (owner, base) = self.backend.allocate_unified(bytes)?;
        Ok(Buffer::new(base, owner))
    }

    unsafe fn prefetch(&self, first: usize, bytes: usize, to_host: bool, id: CopyId) -> Result<Copying, DeviceError> {
        let number = if to_host { COPIES_OUT } else { COPIES_IN };
        let Stream { stream, state } = &self.streams[number];
        let mut state = state.lock(); // any thread may call this
        let begun = self.begin_work(number)?;
        // SAFETY: the caller keeps the memory alive until the prefetch has ended.
        match unsafe { self.backend.prefetch(stream, first, bytes, to_host) } {
            Err(error) if error.is_loss() => return Err(error),
            Err(refusal) => {
                log!(debug, "pages move on demand, without prefetching: {refusal}");
                return Ok(Copying::Arrived);
            }
            Ok(()) => {}
        }
        let times = self.end_work(stream, begun)?;
        let end = self.backend.record(stream)?;
        state.add(Flight::new(Mark::Copy(id), Vec::new(), Vec::new(), None, times));
        state.add_moment(end);
        Ok(Copying::Enqueued)
    }

    fn end(&self, site: DeviceSite) -> End {
        End::Device(site)
    }

    fn locks_pages(&self) -> bool {
        self.backend.locks_pages()
    }

    unsafe fn pin_memory(&self, first: *mut u8, bytes: usize) -> Option<Box<dyn Send + Sync>> {
        // SAFETY: the caller keeps the memory valid until the returned lock is dropped.
        unsafe { self.backend.pin_memory(first, bytes) }
    }

    unsafe fn copy(&self, copy: &DeviceCopy, id: CopyId) -> Result<Copying, DeviceError> {
        // SAFETY: the caller keeps both ends valid until the copy has ended (the engine pins their replicas).
        unsafe {
            let Some((staged, copy)) = self.ready_at_once(copy)? else { return Ok(Copying::Apart) };
            self.enqueue(&copy, |state, end, times| {
                state.add(Flight::new(Mark::Copy(id), Vec::new(), staged.into_iter().collect(), None, times));
                state.add_moment(end);
            })?;
        }
        Ok(Copying::Enqueued)
    }

    unsafe fn copy_now(&self, copy: &DeviceCopy) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.make(copy) }
    }
}

impl<B: Backend> Accelerator for Gpu<B> {
    fn interface(&self) -> UnitKind {
        B::KIND
    }

    fn has_loops(&self) -> bool {
        self.backend.has_loops()
    }

    fn open<'a>(
        &'a self,
        task: TaskId,
        after: &[TaskId],
        later: &[TaskId],
    ) -> Result<Box<dyn TaskSession + 'a>, DeviceError> {
        let stream = self.stream_behind(after, later)?;
        let begun = self.begin_work(stream)?;
        Ok(Box::new(Session::open(self, stream, task, begun)))
    }

    fn poll(&self, ended: &mut Vec<Completion>) {
        let in_flight = self.tasks.lock().len();
        let times = self.times.as_ref().inspect(|times| times.look(&self.backend));
        let mut flights = Vec::new();
        for (number, Stream { stream, state }) in (0..).zip(&self.streams) {
            let looked = state.lock().look(&self.backend, stream, in_flight, times, &mut flights);
            if let Err(error) = looked {
                return self.fail_all(&error, ended);
            }
            if flights.is_empty() {
                continue;
            }
            let first = ended.len();
            ended.extend(flights.drain(..).map(|(flight, took)| {
                let took = Took { stream: Some(number), ..took };
                Completion { mark: flight.end(), result: Ok(took) }
            }));
            let mut tasks = self.tasks.lock();
            for completion in &ended[first..] {
                if let Completion { mark: Mark::Task(task), result: Ok(took) } = completion {
                    tasks.remove(task);
                    let mean_ns = self.mean_ns.load(Ordering::Relaxed);
                    self.mean_ns.store((mean_ns * 7 + took.elapsed_ns) / 8, Ordering::Relaxed);
                }
            }
        }
    }

    fn arm(&self, waker: &Waker) -> bool {
        let mut any = false;
        for Stream { stream, state } in &self.streams {
            let mut state = state.lock();
            let asked = match state.oldest(&self.backend, stream) {
                Ok(None) => continue,
                Ok(Some(moment)) if moment.armed.is_some() => Ok(()),
                Ok(Some(moment)) => {
                    let (waker, come) = (waker.clone(), Arc::<AtomicBool>::default());
                    moment.armed = Some(come.clone());
                    let then = move || {
                        come.store(true, Ordering::Release);
                        waker();
                    };
                    let asked = self.backend.notify(&moment.event, Box::new(then));
                    moment.armed = moment.armed.take().filter(|_| asked.is_ok());
                    asked
                }
                Err(error) => Err(error),
            };
            any = true;
            if asked.is_err() {
                drop(state);
                waker(); // the next poll finds the error
            }
        }
        any
    }
}

impl<B: Backend> Drop for Gpu<B> {
    fn drop(&mut self) {
        self.visit.begin();
        let (device, what) = (self.backend.name().to_owned(), "the runtime ended".to_owned());
        self.fail_all(&DeviceError::Lost { device, what }, &mut Vec::new());
        for Stream { stream, state } in &self.streams {
            let mut kept = std::mem::take(&mut state.lock().kept);
            while let Some(one) = kept.pop() {
                // The device is bound anew before each drop, because a destructor may change the thread's binding. On
                // a lost device, binding fails, which is ignored.
                let _ = self.backend.raw(stream);
                drop_quietly(|| drop(one));
                self.backend.after_raw(stream);
            }
        }
    }
}

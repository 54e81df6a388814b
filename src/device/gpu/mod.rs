//! What accelerators share, written once: streams, what is in flight on them, compiled kernels, scratch memory.
//!
//! [`Gpu`] makes an [`Accelerator`] of any [`Backend`]. It has several streams for kernels and one for copies in each
//! direction, so that copies overlap kernels and independent small kernels overlap each other.
//!
//! Invariants:
//! 1. A stream's flights end in order; the oldest is looked at first.
//! 2. A task goes to the stream of one of the tasks it comes after, and waits for events of the others: so a chain of
//!    tasks needs no event at all, and never the host.
//! 3. Scratch memory belongs to a stream. It is given to the next task as soon as the last one is enqueued, because the
//!    stream does one after the other.
//! 4. No body is called under a lock (see [`streams`]).
//! 5. When something fails, everything in flight on the device is reported as failed: what came behind it may have worked
//!    on nonsense.

#[cfg(any(feature = "cuda", feature = "hip"))]
mod addressed;
mod backend;
#[cfg(any(feature = "cuda", feature = "hip"))]
mod cache;
mod kernels;
mod session;
mod slabs;
mod streams;
#[cfg(test)]
mod tests;

#[cfg(any(feature = "cuda", feature = "hip"))]
pub(super) use addressed::{
    Api, ApiError, Compiler, Direction, Found, Handle, Pitched, Platform, RawUnit, Transfer, all_are_peers,
    compile_for, find, survey,
};
pub(super) use backend::Backend;
#[cfg(any(feature = "cuda", feature = "hip"))]
use cache::Cache;
#[cfg(any(feature = "cuda", feature = "hip"))]
pub(super) use cache::Recipe;
pub(super) use slabs::{Pitches, Slab};

use self::kernels::Kernels;
use self::session::Session;
use self::streams::{Flight, Stream};
use super::{Accelerator, Buffer, Completion, Copying, Device, DeviceCopy, End, Execution, Mark, Waker, Work};
use crate::coherence::CopyId;
use crate::error::{BoxError, DeviceError};
use crate::ids::TaskId;
use crate::kernel::DeviceSite;
use crate::region::MAX_DIMS;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::Instant;

/// Streams for kernels; behind them those for copies.
const KERNEL_STREAMS: usize = 4;
const COPIES_IN: usize = KERNEL_STREAMS;
const COPIES_OUT: usize = KERNEL_STREAMS + 1;
const COPIES_ACROSS: usize = KERNEL_STREAMS + 2;
const STREAMS: usize = KERNEL_STREAMS + 3;

/// An accelerator behind a backend.
pub(super) struct Gpu<B: Backend> {
    backend: Arc<B>,
    capacity_bytes: u64,
    streams: Vec<Stream<B>>,
    kernels: Kernels<B>,
    /// The stream and the end of every task in flight.
    tasks: Mutex<FxHashMap<TaskId, (usize, B::Event)>>,
}

impl<B: Backend> Gpu<B> {
    /// The device behind a backend.
    ///
    /// # Errors
    /// If it gives no streams.
    pub(super) fn new(backend: B) -> Result<Self, DeviceError> {
        let streams = (0..STREAMS).map(|_| Ok(Stream::new(backend.stream()?)));
        Ok(Self {
            streams: streams.collect::<Result<_, DeviceError>>()?,
            capacity_bytes: backend.free_bytes(),
            kernels: Kernels::default(),
            tasks: Mutex::default(),
            backend: Arc::new(backend),
        })
    }

    /// The stream for a task, and what it has to wait for there.
    fn stream_behind(&self, after: &[TaskId]) -> (usize, Vec<B::Event>) {
        let tasks = self.tasks.lock();
        let before: Vec<_> = after.iter().filter_map(|task| tasks.get(task)).collect();
        let Some(&&(stream, _)) = before.last() else {
            let least = (0..KERNEL_STREAMS).min_by_key(|n| self.streams[*n].state.lock().flights.len());
            return (least.unwrap_or(0), Vec::new());
        };
        (stream, before.iter().filter(|(other, _)| *other != stream).map(|(_, event)| event.clone()).collect())
    }

    /// Enqueues a copy, and the event of its end.
    ///
    /// # Safety
    /// As for [`Device::copy`].
    unsafe fn enqueue_copy(&self, stream: &Stream<B>, copy: &DeviceCopy) -> Result<B::Event, DeviceError> {
        let slabs = slabs::slabs(&copy.extents, copy.element_bytes, strides(&copy.from), strides(&copy.to));
        for mut slab in slabs {
            slab.from.offset_bytes += offset(&copy.from);
            slab.to.offset_bytes += offset(&copy.to);
            // SAFETY: the slab is a part of the box, whose ends the caller keeps valid until the copy has ended.
            unsafe {
                match (&copy.from, &copy.to) {
                    (End::Host { first, .. }, End::Device(to)) => {
                        self.backend.copy_in(&stream.stream, *first, to.base, &slab)?;
                    }
                    (End::Device(from), End::Host { first, .. }) => {
                        self.backend.copy_out(&stream.stream, from.base, *first, &slab)?;
                    }
                    (End::Device(from), End::Device(to)) => {
                        self.backend.copy_across(&stream.stream, from.base, to.base, &slab)?;
                    }
                    (End::Host { .. }, End::Host { .. }) => unreachable!("a device copies from or to a device"),
                }
            }
        }
        self.backend.record(&stream.stream)
    }

    /// Ends everything in flight as failed, when it has stopped.
    fn fail_all(&self, error: &DeviceError, ended: &mut Vec<Completion>) {
        for stream in &self.streams {
            let flights = std::mem::take(&mut stream.state.lock().flights);
            for flight in flights {
                let _ = self.backend.synchronize(&flight.end); // failed or not, it has stopped
                ended.push(Completion { mark: flight.mark, result: Err(error.clone()) });
            }
        }
        self.tasks.lock().clear();
    }
}

fn strides(end: &End) -> &[usize; MAX_DIMS] {
    match end {
        End::Host { strides, .. } => strides,
        End::Device(site) => &site.strides,
    }
}

fn offset(end: &End) -> usize {
    match end {
        End::Host { .. } => 0,
        End::Device(site) => site.offset_bytes,
    }
}

fn stream_of(copy: &DeviceCopy) -> usize {
    match (&copy.from, &copy.to) {
        (End::Host { .. }, _) => COPIES_IN,
        (_, End::Host { .. }) => COPIES_OUT,
        _ => COPIES_ACROSS,
    }
}

impl<B: Backend> Device for Gpu<B> {
    fn execution(&self) -> Execution<'_> {
        Execution::Queued(self)
    }

    fn domain(&self) -> (&'static str, usize) {
        (B::API, self.backend.domain())
    }

    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn allocate(&self, bytes: u64, _: usize) -> Result<Buffer, DeviceError> {
        let (memory, base) = self.backend.allocate(usize::try_from(bytes).unwrap_or(usize::MAX).max(1))?;
        Ok(Buffer::new(base, memory))
    }

    fn end(&self, site: DeviceSite) -> End {
        End::Device(site)
    }

    unsafe fn page_lock(&self, first: *mut u8, bytes: usize) -> Option<Box<dyn Send + Sync>> {
        // SAFETY: the caller keeps the memory valid until the lock that this makes is dropped.
        unsafe { self.backend.page_lock(first, bytes) }
    }

    unsafe fn copy(&self, copy: &DeviceCopy, id: CopyId) -> Result<Copying, DeviceError> {
        let stream = &self.streams[stream_of(copy)];
        let mut state = stream.state.lock(); // copies come from any thread
        // SAFETY: the caller keeps both ends valid until the copy has ended (the engine pins their replicas).
        let end = unsafe { self.enqueue_copy(stream, copy)? };
        state.flights.push_back(Flight::new(Mark::Copy(id), end, Vec::new()));
        Ok(Copying::Enqueued)
    }

    unsafe fn copy_now(&self, copy: &DeviceCopy) -> Result<(), DeviceError> {
        let stream = &self.streams[stream_of(copy)];
        let end = {
            let _alone = stream.state.lock();
            // SAFETY: the caller keeps both ends valid until the copy has ended: before this returns.
            unsafe { self.enqueue_copy(stream, copy)? }
        };
        self.backend.synchronize(&end)
    }
}

impl<B: Backend> Accelerator for Gpu<B> {
    fn issue(&self, task: TaskId, after: &[TaskId], work: &mut dyn Work) -> Result<(), BoxError> {
        let (number, events) = self.stream_behind(after);
        let stream = &self.streams[number];
        for event in &events {
            self.backend.wait(&stream.stream, event)?;
        }
        let mut session = Session::new(&*self.backend, &self.kernels, stream);
        let result = session.carry_out(work);
        let kept = session.close();
        let mut state = stream.state.lock();
        let end = match result {
            Ok(()) => self.backend.record(&stream.stream)?,
            Err(error) => {
                // What was enqueued before still uses the task's memory.
                let stopped = self.backend.record(&stream.stream).and_then(|end| self.backend.synchronize(&end));
                if let Err(more) = stopped {
                    tracing::warn!("{more}");
                }
                return Err(error);
            }
        };
        self.tasks.lock().insert(task, (number, end.clone()));
        state.flights.push_back(Flight::new(Mark::Task(task), end, kept));
        Ok(())
    }

    fn poll(&self, ended: &mut Vec<Completion>) {
        for stream in &self.streams {
            let mut stream = stream.state.lock();
            let done = match stream.done(&*self.backend) {
                Ok(0) => continue,
                Ok(done) => done,
                Err(error) => {
                    drop(stream);
                    return self.fail_all(&error, ended);
                }
            };
            let now = Instant::now();
            let began = stream.flights[0].enqueued.max(stream.last_end);
            stream.last_end = now;
            // What was seen to have ended together has taken equal parts, as far as anybody can tell.
            let each_ns = (now - began).as_nanos() as u64 / done as u64;
            let mut tasks = self.tasks.lock();
            for Flight { mark, .. } in stream.flights.drain(..done) {
                if let Mark::Task(task) = mark {
                    tasks.remove(&task);
                }
                ended.push(Completion { mark, result: Ok(each_ns) });
            }
        }
    }

    fn arm(&self, waker: &Waker) -> bool {
        let mut any = false;
        for stream in &self.streams {
            let mut stream = stream.state.lock();
            let Some(oldest) = stream.flights.front_mut() else { continue };
            any = true;
            if !std::mem::replace(&mut oldest.armed, true) {
                let waker = waker.clone();
                if self.backend.notify(&oldest.end, Box::new(move || waker())).is_err() {
                    oldest.armed = false;
                }
            }
        }
        any
    }
}

impl<B: Backend> Drop for Gpu<B> {
    fn drop(&mut self) {
        let (device, what) = (self.backend.name().to_owned(), "the runtime ended".to_owned());
        self.fail_all(&DeviceError::Lost { device, what }, &mut Vec::new());
    }
}

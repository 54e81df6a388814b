//! What accelerators share, written once: streams, what is in flight on them, compiled kernels, scratch memory.
//!
//! [`Gpu`] makes an [`Accelerator`] of any [`Driver`]. It has several streams for kernels and one for copies in each
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
#[cfg(any(feature = "cuda", feature = "hip"))]
mod cache;
mod driver;
mod kernels;
mod session;
mod slabs;
mod streams;
#[cfg(test)]
mod tests;

#[cfg(any(feature = "cuda", feature = "hip"))]
pub(super) use addressed::{Addressed, Api, ApiError, Direction, Handle, PEER_ACCESS_ALREADY_ENABLED, Side, Transfer};
#[cfg(any(feature = "cuda", feature = "hip"))]
pub(super) use cache::{Cache, Recipe};
pub(super) use driver::Driver;
pub(super) use slabs::{Pitches, Slab};

use self::kernels::Kernels;
use self::session::Session;
use self::streams::{Flight, Stream};
use super::{Accelerator, Buffer, Completion, DeviceCopy, End, Mark, Waker, Work};
use crate::coherence::CopyId;
use crate::error::{BoxError, DeviceError};
use crate::ids::TaskId;
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

/// An accelerator behind a driver.
pub(super) struct Gpu<D: Driver> {
    driver: Arc<D>,
    capacity_bytes: u64,
    streams: Vec<Stream<D>>,
    kernels: Kernels<D>,
    /// The stream and the end of every task in flight.
    tasks: Mutex<FxHashMap<TaskId, (usize, D::Event)>>,
}

impl<D: Driver> Gpu<D> {
    /// The device behind a driver.
    ///
    /// # Errors
    /// If it gives no streams.
    pub(super) fn new(driver: D) -> Result<Self, DeviceError> {
        let streams = (0..STREAMS).map(|_| Ok(Stream::new(driver.stream()?)));
        Ok(Self {
            streams: streams.collect::<Result<_, DeviceError>>()?,
            capacity_bytes: driver.free_bytes(),
            kernels: Kernels::default(),
            tasks: Mutex::default(),
            driver: Arc::new(driver),
        })
    }

    /// The stream for a task, and what it has to wait for there.
    fn stream_behind(&self, after: &[TaskId]) -> (usize, Vec<D::Event>) {
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
    /// As for [`Accelerator::copy`].
    unsafe fn enqueue_copy(&self, stream: &Stream<D>, copy: &DeviceCopy) -> Result<D::Event, DeviceError> {
        let slabs = slabs::slabs(&copy.extents, copy.element_bytes, strides(&copy.from), strides(&copy.to));
        for mut slab in slabs {
            slab.from.offset_bytes += offset(&copy.from);
            slab.to.offset_bytes += offset(&copy.to);
            // SAFETY: the caller's promise, for a part of the box.
            unsafe {
                match (&copy.from, &copy.to) {
                    (End::Host { first, .. }, End::Device(to)) => {
                        self.driver.copy_in(&stream.stream, *first, to.base, &slab)?;
                    }
                    (End::Device(from), End::Host { first, .. }) => {
                        self.driver.copy_out(&stream.stream, from.base, *first, &slab)?;
                    }
                    (End::Device(from), End::Device(to)) => {
                        self.driver.copy_across(&stream.stream, from.base, to.base, &slab)?;
                    }
                    (End::Host { .. }, End::Host { .. }) => unreachable!("a device copies from or to a device"),
                }
            }
        }
        self.driver.record(&stream.stream)
    }

    /// Ends everything in flight as failed, when it has stopped.
    fn fail_all(&self, error: &DeviceError, ended: &mut Vec<Completion>) {
        for stream in &self.streams {
            let flights = std::mem::take(&mut stream.state.lock().flights);
            for flight in flights {
                let _ = self.driver.synchronize(&flight.end); // failed or not, it has stopped
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

impl<D: Driver> Accelerator for Gpu<D> {
    fn domain(&self) -> (&'static str, usize) {
        (D::API, self.driver.domain())
    }

    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn allocate(&self, bytes: u64) -> Result<Buffer, DeviceError> {
        let (memory, base) = self.driver.allocate(usize::try_from(bytes).unwrap_or(usize::MAX).max(1))?;
        Ok(Buffer::new(base, memory))
    }

    unsafe fn page_lock(&self, first: *mut u8, bytes: usize) -> Option<Box<dyn Send + Sync>> {
        // SAFETY: the caller's promise.
        unsafe { self.driver.page_lock(first, bytes) }
    }

    unsafe fn copy(&self, copy: &DeviceCopy, id: CopyId) -> Result<(), DeviceError> {
        let stream = &self.streams[stream_of(copy)];
        let mut state = stream.state.lock(); // copies come from any thread
        // SAFETY: the caller's promise.
        let end = unsafe { self.enqueue_copy(stream, copy)? };
        state.flights.push_back(Flight::new(Mark::Copy(id), end, Vec::new()));
        Ok(())
    }

    unsafe fn copy_now(&self, copy: &DeviceCopy) -> Result<(), DeviceError> {
        let stream = &self.streams[stream_of(copy)];
        let end = {
            let _alone = stream.state.lock();
            // SAFETY: the caller's promise.
            unsafe { self.enqueue_copy(stream, copy)? }
        };
        self.driver.synchronize(&end)
    }

    fn issue(&self, task: TaskId, after: &[TaskId], work: &mut dyn Work) -> Result<(), BoxError> {
        let (number, events) = self.stream_behind(after);
        let stream = &self.streams[number];
        for event in &events {
            self.driver.wait(&stream.stream, event)?;
        }
        let mut session = Session::new(&*self.driver, &self.kernels, stream);
        let result = session.carry_out(work);
        let kept = session.close();
        let mut state = stream.state.lock();
        let end = match result {
            Ok(()) => self.driver.record(&stream.stream)?,
            Err(error) => {
                // What was enqueued before still uses the task's memory.
                let stopped = self.driver.record(&stream.stream).and_then(|end| self.driver.synchronize(&end));
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
            let done = match stream.done(&*self.driver) {
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
                if self.driver.notify(&oldest.end, Box::new(move || waker())).is_err() {
                    oldest.armed = false;
                }
            }
        }
        any
    }
}

impl<D: Driver> Drop for Gpu<D> {
    fn drop(&mut self) {
        let (device, what) = (self.driver.name().to_owned(), "the runtime ended".to_owned());
        self.fail_all(&DeviceError::Lost { device, what }, &mut Vec::new());
    }
}

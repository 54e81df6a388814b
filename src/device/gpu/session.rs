//! Enqueueing of one task on its stream: copies of private replicas to the device, the kernels that the body
//! launches, and copies of private replicas back to the host.
//!
//! If the body calls the interface itself, the session notifies its backend when the body requests the raw handles
//! (`raw`) and when the body has returned (`after_raw`). Objects that users keep with a stream are stored in the
//! stream's state. While a task is being enqueued, the session holds them.

mod repeat;

use super::graph::{Capture, Known};
use super::scratch::{Block, Scratch};
use super::staging::Staged;
use super::streams::Flight;
use super::times::Begun;
use super::{Backend, Gpu};
use crate::device::{DeviceCopy, End, Mark, TaskSession};
use crate::error::DeviceError;
use crate::ids::TaskId;
use crate::kernel::{ArgumentValue, DeviceSite, Enqueue, Graphs, Groups, Kept, KernelText, Limits, RawHandles, Until};
use crate::machine::UnitKind;
use crate::sync::drop_quietly;
use std::sync::Arc;

/// The parts of a graph use at most this share of the device's capacity as scratch memory: half of the memory that
/// replicas leave free.
const SHARE_OF_SCRATCH: u64 = 6;

/// A task that is being enqueued.
pub(super) struct Session<'a, B: Backend> {
    gpu: &'a Gpu<B>,
    /// The index of the task's stream.
    number: usize,
    task: TaskId,
    /// The scratch memory of the stream, which returns to it at the end.
    scratch: Scratch<B::Memory>,
    /// Objects that users keep with the stream. They return to the stream at the end.
    kept: Kept,
    /// Whether the body calls the interface itself.
    is_raw: bool,
    /// Device memory of private replicas, which is kept until the task has ended, like the staging memory in
    /// `staged`.
    memory: Vec<B::Memory>,
    staged: Vec<Staged<B>>,
    /// The private replicas, each with its handle on the device, its address on the host, and its size in bytes.
    privates: Vec<(usize, *mut u8, usize)>,
    /// The number of threads in the task's largest launch.
    threads: u64,
    /// If present, launches are recorded here instead of being made.
    capture: Option<Capture<B>>,
    /// The graph as part of which the task was launched, if any.
    graph: Option<Arc<B::Graph>>,
    /// The begin of the task, if the device notes times.
    begun: Option<Begun<B>>,
    is_closed: bool,
}

impl<'a, B: Backend> Session<'a, B> {
    pub(super) fn open(gpu: &'a Gpu<B>, number: usize, task: TaskId, begun: Option<Begun<B>>) -> Self {
        let (free, kept) = {
            let mut state = gpu.streams[number].state.lock();
            (std::mem::take(&mut state.scratch), std::mem::take(&mut state.kept))
        };
        let (memory, staged, privates) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            gpu,
            number,
            task,
            scratch: Scratch::new(free),
            kept,
            is_raw: false,
            memory,
            staged,
            privates,
            threads: 0,
            capture: None,
            graph: None,
            begun,
            is_closed: false,
        }
    }

    fn stream(&self) -> &'a B::Stream {
        &self.gpu.streams[self.number].stream
    }

    /// Called when the body has returned. The body may have enqueued work on the stream and bound the thread to
    /// another device.
    fn leave_body(&mut self) {
        if std::mem::take(&mut self.is_raw) {
            self.gpu.backend.after_raw(self.stream());
        }
    }

    /// Waits until everything that was enqueued has stopped, because that work uses the task's memory.
    fn stop(&mut self) -> Result<(), DeviceError> {
        self.leave_body();
        self.is_closed = true;
        let backend = &self.gpu.backend;
        backend.record(self.stream()).and_then(|end| backend.synchronize(&end))
    }

    /// Allocates device memory. If there is not enough, the unused scratch memory that the session holds for this
    /// task is released too, once no earlier work uses it any more.
    fn allocate(&mut self, bytes: usize) -> Result<(B::Memory, usize), DeviceError> {
        match self.gpu.allocate_memory(bytes) {
            Err(error @ DeviceError::OutOfMemory { .. }) => {
                let unused = self.scratch.take_free();
                if unused.is_empty() {
                    return Err(error);
                }
                let backend = &self.gpu.backend;
                backend.synchronize(&backend.record(self.stream())?)?;
                drop(unused);
                self.gpu.allocate_memory(bytes)
            }
            result => result,
        }
    }

    /// Enqueues a copy of a private replica.
    ///
    /// # Safety
    /// Both ends must be valid until the task has ended, and exclusive to the task.
    unsafe fn copy(&mut self, from: End, to: End, bytes: usize) -> Result<(), DeviceError> {
        let copy = DeviceCopy { from, to, extents: [1, 1, 1, bytes], element_bytes: 1 };
        // SAFETY: the caller promises that both ends are valid and exclusive until the task has ended.
        unsafe { self.gpu.enqueue_on(self.stream(), &copy, &mut self.staged) }
    }
}

/// Returns the host and device ends of a contiguous copy.
fn ends(base: usize, first: *mut u8, bytes: usize) -> (End, End) {
    let (extents, strides) = ([1, 1, 1, bytes], [bytes, bytes, bytes, 1]);
    let device = End::Device(DeviceSite { base, offset_bytes: 0, strides, extents });
    (End::Host { first, strides, locked: false }, device)
}

impl<B: Backend> TaskSession for Session<'_, B> {
    fn add_private(&mut self, first: *mut u8, bytes: usize) -> Result<usize, DeviceError> {
        let (memory, base) = self.allocate(bytes.max(1))?;
        self.memory.push(memory);
        let (host, device) = ends(base, first, bytes);
        // SAFETY: until the task has ended, the task owns the host's replica, and this session keeps the device's
        // replica in `memory`.
        unsafe { self.copy(host, device, bytes)? };
        self.privates.push((base, first, bytes));
        Ok(base)
    }

    fn follow(&mut self, after: &[TaskId]) -> Result<(), DeviceError> {
        self.gpu
            .in_flight(after)
            .into_iter()
            .try_for_each(|(other, number)| self.gpu.wait_for(self.number, other, number))
    }

    fn close(mut self: Box<Self>, forks: bool) -> Result<u32, DeviceError> {
        self.leave_body();
        for (base, first, bytes) in std::mem::take(&mut self.privates) {
            let (host, device) = ends(base, first, bytes);
            // SAFETY: both ends exist until the task has ended, because the task owns the host's replica and `memory`
            // holds the device's replica.
            unsafe { self.copy(device, host, bytes)? };
        }
        let Gpu { backend, streams, tasks, .. } = self.gpu;
        let stream = &streams[self.number];
        let times = self.gpu.end_work(&stream.stream, self.begun.take())?;
        let mut state = stream.state.lock();
        // If no event is recorded here, the next poll records one for everything that has been enqueued by then.
        let at_once = forks || self.gpu.tasks_are_long() && state.needs_event(tasks.lock().len());
        let event = if at_once { Some(backend.record(&stream.stream)?) } else { None };
        if event.is_none() {
            backend.flush(&stream.stream)?;
        }
        self.is_closed = true;
        let (memory, staged) = (std::mem::take(&mut self.memory), std::mem::take(&mut self.staged));
        let flight = Flight::new(Mark::Task(self.task), memory, staged, self.graph.take(), times);
        let number = state.add(flight);
        event.into_iter().for_each(|event| state.add_moment(event));
        tasks.lock().insert(self.task, (self.number, number));
        let share = (self.threads * 1000).checked_div(backend.threads_at_once()).unwrap_or(1000);
        Ok(share.clamp(1, 1000) as u32)
    }

    fn abandon(mut self: Box<Self>) -> Result<(), DeviceError> {
        self.stop()
    }
}

impl<B: Backend> Drop for Session<'_, B> {
    fn drop(&mut self) {
        if !self.is_closed
            && let Err(error) = self.stop()
        {
            log!(warn, "{error}");
        }
        let mut twice = {
            let mut state = self.gpu.streams[self.number].state.lock();
            state.scratch.extend(self.scratch.drain());
            state.kept.join(std::mem::take(&mut self.kept))
        };
        // Drop duplicates, which come from another task that was issued on this stream while the body of this task
        // ran.
        while let Some(one) = twice.pop() {
            drop_quietly(|| drop(one));
        }
    }
}

impl<B: Backend> Enqueue for Session<'_, B> {
    fn limits(&self) -> Limits {
        self.gpu.backend.limits()
    }

    fn launch(&mut self, kernel: &KernelText, groups: Groups, arguments: &[ArgumentValue]) -> Result<(), DeviceError> {
        let Gpu { backend, kernels, .. } = self.gpu;
        let function = kernels.get(backend, kernel)?;
        backend.check(&function, kernel, groups)?;
        let threads = (0..3).map(|d| u64::from(groups[d]) * u64::from(kernel.group[d]));
        self.threads = self.threads.max(threads.fold(1, u64::saturating_mul)).min(u64::MAX / 1000);
        if let Some(capture) = &mut self.capture {
            capture.push(function, kernel, groups, arguments);
            return Ok(());
        }
        // SAFETY: the argument types match the kernel's text, and regions and scratch memory belong to the task until
        // the task has ended.
        let launch = || unsafe { backend.launch(self.stream(), &function, kernel.group, groups, arguments) };
        match launch() {
            Err(DeviceError::OutOfMemory { .. }) if self.gpu.give_up_scratch()? => launch(),
            result => result,
        }
    }

    fn scratch(&mut self, bytes: usize) -> Result<usize, DeviceError> {
        if !self.gpu.backend.reuses_memory() {
            let (memory, base) = self.allocate(bytes.max(1))?;
            self.memory.push(memory);
            return Ok(base);
        }
        // A size that has no next power of two exceeds the memory of any device, so the allocation fails.
        let capacity = bytes.max(256).checked_next_power_of_two().unwrap_or(bytes);
        if let Some(base) = self.scratch.take(capacity) {
            return Ok(base);
        }
        let may_grow = self.scratch.may_grow(capacity, self.gpu.capacity_bytes / SHARE_OF_SCRATCH);
        let refused = match may_grow.then(|| self.allocate(capacity)) {
            Some(Ok((memory, base))) => {
                self.scratch.add(Block { capacity, _memory: memory, base });
                return Ok(base);
            }
            Some(Err(error @ DeviceError::OutOfMemory { .. })) => Some(error),
            Some(Err(error)) => return Err(error),
            None => None,
        };
        // Rather than wait for memory, the part runs after another one.
        if let Some(capture) = &mut self.capture
            && let Some((base, part)) = self.scratch.share(capacity)
        {
            capture.run_after(part);
            return Ok(base);
        }
        let (memory, base) = refused.map_or_else(|| self.allocate(capacity), Err)?;
        self.scratch.add(Block { capacity, _memory: memory, base });
        Ok(base)
    }

    fn reach(&mut self, base: usize) -> bool {
        self.gpu.backend.reach(base)
    }

    fn interface(&self) -> UnitKind {
        B::KIND
    }

    fn raw(&mut self) -> Result<RawHandles, DeviceError> {
        self.is_raw = true;
        self.threads = u64::MAX / 1000; // the number is unknown, so assume that the task fills the device
        self.gpu.backend.raw(self.stream())
    }

    fn kept(&mut self) -> &mut Kept {
        &mut self.kept
    }

    fn begin_graph(&mut self) {
        self.scratch.begin_graph();
        self.capture = Some(Capture::default());
    }

    fn begin_part(&mut self, after: &[u32]) {
        self.scratch.begin_part(after);
        if let Some(capture) = &mut self.capture {
            capture.begin_part(after);
        }
    }

    fn continue_part(&mut self, after: &[u32]) {
        self.scratch.continue_part(after);
        if let Some(capture) = &mut self.capture {
            capture.continue_part(after);
        }
    }

    fn drop_part(&mut self) {
        if let Some(capture) = &mut self.capture {
            capture.drop_part();
        }
    }

    fn launch_loop(&mut self, until: &Until) -> Result<(), DeviceError> {
        self.repeat(until)
    }

    fn launch_graph(&mut self, known: &mut Graphs) -> Result<(), DeviceError> {
        let Some(mut capture) = self.capture.take() else { return Ok(()) };
        let backend = &self.gpu.backend;
        let known = known.of(|known: &Known<B>| known.is_of(backend), || Known::new(backend));
        // SAFETY: the same argument as for a single launch holds for each recorded launch.
        let mut launch = || unsafe { known.launch(self.stream(), &mut capture) };
        let launched = match launch() {
            Err(DeviceError::OutOfMemory { .. }) if self.gpu.give_up_scratch()? => launch(),
            result => result,
        };
        match launched {
            Ok(graph) => self.graph = graph,
            Err(error) => {
                self.capture = Some(capture); // to continue when memory is available
                return Err(error);
            }
        }
        Ok(())
    }
}

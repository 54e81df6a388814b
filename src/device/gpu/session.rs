//! One task on its stream: private replicas in, the body's kernels, private replicas out.

use super::staging::Staged;
use super::streams::Flight;
use super::{Backend, Gpu};
use crate::device::{DeviceCopy, End, Mark, TaskSession};
use crate::error::DeviceError;
use crate::ids::TaskId;
use crate::kernel::{ArgumentValue, DeviceSite, Enqueue, KernelText, Limits};

/// A task that is being enqueued.
pub(super) struct Session<'a, B: Backend> {
    gpu: &'a Gpu<B>,
    /// The number of its stream.
    number: usize,
    task: TaskId,
    /// The stream's memory, and what of it this task has: back to the stream at the end.
    free: Vec<(usize, B::Memory, usize)>,
    scratch: Vec<(usize, B::Memory, usize)>,
    /// Memory of private replicas, here and on the way: kept until the task has ended.
    memory: Vec<B::Memory>,
    staged: Vec<Staged<B>>,
    /// Where these lie on the device and on the host, and their bytes.
    privates: Vec<(usize, *mut u8, usize)>,
    /// Of its largest launch.
    threads: u64,
    is_closed: bool,
}

impl<'a, B: Backend> Session<'a, B> {
    pub(super) fn open(gpu: &'a Gpu<B>, number: usize, task: TaskId) -> Self {
        let free = std::mem::take(&mut gpu.streams[number].state.lock().scratch);
        let (scratch, memory, staged, privates) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { gpu, number, task, free, scratch, memory, staged, privates, threads: 0, is_closed: false }
    }

    fn stream(&self) -> &'a B::Stream {
        &self.gpu.streams[self.number].stream
    }

    /// Enqueues a copy of a private replica.
    ///
    /// # Safety
    /// Both ends are valid until the task has ended, and the task's alone.
    unsafe fn copy(&mut self, from: End, to: End, bytes: usize) -> Result<(), DeviceError> {
        let copy = DeviceCopy { from, to, extents: [1, 1, 1, bytes], element_bytes: 1 };
        // SAFETY: the caller promises as much.
        self.staged.extend(unsafe { self.gpu.enqueue_copy(self.stream(), &copy)? });
        Ok(())
    }
}

/// A run of bytes, at either end.
fn ends(base: usize, first: *mut u8, bytes: usize) -> (End, End) {
    let (extents, strides) = ([1, 1, 1, bytes], [bytes, bytes, bytes, 1]);
    let device = End::Device(DeviceSite { base, offset_bytes: 0, strides, extents });
    (End::Host { first, strides, locked: false }, device)
}

impl<B: Backend> TaskSession for Session<'_, B> {
    fn add_private(&mut self, first: *mut u8, bytes: usize) -> Result<usize, DeviceError> {
        let (memory, base) = self.gpu.allocate_memory(bytes.max(1))?;
        self.memory.push(memory);
        let (host, device) = ends(base, first, bytes);
        // SAFETY: the task owns its private replicas until it has ended, and so do we theirs on the device.
        unsafe { self.copy(host, device, bytes)? };
        self.privates.push((base, first, bytes));
        Ok(base)
    }

    fn close(mut self: Box<Self>, forks: bool) -> Result<u32, DeviceError> {
        for (base, first, bytes) in std::mem::take(&mut self.privates) {
            let (host, device) = ends(base, first, bytes);
            // SAFETY: they stay until the task has ended: the host's are the task's, the device's are in `memory`.
            unsafe { self.copy(device, host, bytes)? };
        }
        let Gpu { backend, streams, tasks, .. } = self.gpu;
        let stream = &streams[self.number];
        let mut state = stream.state.lock();
        // Else the next look asks for one moment of all that has been enqueued by then.
        let at_once = forks || self.gpu.tasks_are_long();
        let event = if at_once { Some(backend.record(&stream.stream)?) } else { None };
        if event.is_none() {
            backend.flush(&stream.stream)?;
        }
        self.is_closed = true;
        let flight =
            Flight::new(Mark::Task(self.task), std::mem::take(&mut self.memory), std::mem::take(&mut self.staged));
        let number = state.add(flight);
        event.into_iter().for_each(|event| state.add_moment(event));
        tasks.lock().insert(self.task, (self.number, number));
        let share = (self.threads * 1000).checked_div(backend.threads_at_once()).unwrap_or(1000);
        Ok(share.clamp(1, 1000) as u32)
    }
}

impl<B: Backend> Drop for Session<'_, B> {
    fn drop(&mut self) {
        let Gpu { backend, streams, .. } = self.gpu;
        if !self.is_closed {
            // What was enqueued before still uses the task's memory.
            let stopped = backend.record(self.stream()).and_then(|end| backend.synchronize(&end));
            if let Err(error) = stopped {
                tracing::warn!("{error}");
            }
        }
        streams[self.number].state.lock().scratch.extend(self.free.drain(..).chain(self.scratch.drain(..)));
    }
}

impl<B: Backend> Enqueue for Session<'_, B> {
    fn limits(&self) -> Limits {
        self.gpu.backend.limits()
    }

    fn launch(
        &mut self,
        kernel: &KernelText,
        groups: [u32; 3],
        arguments: &[ArgumentValue],
    ) -> Result<(), DeviceError> {
        let Gpu { backend, kernels, .. } = self.gpu;
        let function = kernels.get(backend, kernel)?;
        let threads = (0..3).map(|d| u64::from(groups[d]) * u64::from(kernel.group[d]));
        self.threads = self.threads.max(threads.fold(1, u64::saturating_mul)).min(u64::MAX / 1000);
        // SAFETY: a kernel's types agree with its text; regions and scratch memory are the task's until it has ended.
        unsafe { backend.launch(self.stream(), &function, kernel, groups, arguments) }
    }

    fn scratch(&mut self, bytes: usize) -> Result<usize, DeviceError> {
        let fits = |(_, (capacity, ..)): &(usize, &(usize, B::Memory, usize))| *capacity >= bytes;
        let free = &mut self.free;
        let tightest = free.iter().enumerate().filter(fits).min_by_key(|(_, (capacity, ..))| *capacity).map(|(n, _)| n);
        let block = match tightest {
            Some(n) => free.swap_remove(n),
            None => {
                // What has no next power of two is more than any device has, and refused by it.
                let capacity = bytes.max(256).checked_next_power_of_two().unwrap_or(bytes);
                let (memory, base) = self.gpu.allocate_memory(capacity)?;
                (capacity, memory, base)
            }
        };
        let base = block.2;
        self.scratch.push(block);
        Ok(base)
    }
}

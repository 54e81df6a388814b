//! One task on its stream: private replicas in, the body's kernels, private replicas out.

use super::kernels::Kernels;
use super::streams::{Flight, Stream};
use super::{Backend, Pitches, Slab};
use crate::device::{Mark, TaskSession};
use crate::error::DeviceError;
use crate::ids::TaskId;
use crate::kernel::{ArgumentValue, Enqueue, KernelText};

/// A task that is being enqueued; `E` is told of the moment of its end.
pub(super) struct Session<'a, B: Backend, E: Fn(B::Event)> {
    backend: &'a B,
    kernels: &'a Kernels<B>,
    stream: &'a Stream<B>,
    task: TaskId,
    record_end: E,
    /// The stream's memory, and what of it this task has: back to the stream at the end.
    free: Vec<(usize, B::Memory, usize)>,
    scratch: Vec<(usize, B::Memory, usize)>,
    /// Memory of private replicas: kept until the task has ended.
    memory: Vec<B::Memory>,
    /// Where these lie on the device and on the host, and their bytes.
    privates: Vec<(usize, *mut u8, usize)>,
    is_closed: bool,
}

impl<'a, B: Backend, E: Fn(B::Event)> Session<'a, B, E> {
    pub(super) fn open(
        backend: &'a B,
        kernels: &'a Kernels<B>,
        stream: &'a Stream<B>,
        task: TaskId,
        record_end: E,
    ) -> Self {
        let free = std::mem::take(&mut stream.state.lock().scratch);
        let (scratch, memory, privates) = (Vec::new(), Vec::new(), Vec::new());
        Self { backend, kernels, stream, task, record_end, free, scratch, memory, privates, is_closed: false }
    }
}

impl<B: Backend, E: Fn(B::Event)> TaskSession for Session<'_, B, E> {
    fn add_private(&mut self, first: *mut u8, bytes: usize) -> Result<usize, DeviceError> {
        let (memory, base) = self.backend.allocate(bytes.max(1))?;
        self.memory.push(memory);
        // SAFETY: the task owns its private replicas until it has ended, and so do we theirs on the device.
        unsafe { self.backend.copy_in(&self.stream.stream, first, base, &flat(bytes))? };
        self.privates.push((base, first, bytes));
        Ok(base)
    }

    fn close(mut self: Box<Self>) -> Result<(), DeviceError> {
        for (base, first, bytes) in std::mem::take(&mut self.privates) {
            // SAFETY: they stay until the task has ended: the host's are the task's, the device's are in `memory`.
            unsafe { self.backend.copy_out(&self.stream.stream, base, first, &flat(bytes))? };
        }
        let mut state = self.stream.state.lock();
        let end = self.backend.record(&self.stream.stream)?;
        self.is_closed = true;
        (self.record_end)(end.clone());
        state.flights.push_back(Flight::new(Mark::Task(self.task), end, std::mem::take(&mut self.memory)));
        Ok(())
    }
}

impl<B: Backend, E: Fn(B::Event)> Drop for Session<'_, B, E> {
    fn drop(&mut self) {
        if !self.is_closed {
            // What was enqueued before still uses the task's memory.
            let stopped = self.backend.record(&self.stream.stream).and_then(|end| self.backend.synchronize(&end));
            if let Err(error) = stopped {
                tracing::warn!("{error}");
            }
        }
        self.stream.state.lock().scratch.extend(self.free.drain(..).chain(self.scratch.drain(..)));
    }
}

fn flat(bytes: usize) -> Slab {
    let end = Pitches { offset_bytes: 0, row_bytes: bytes, slice_bytes: bytes };
    Slab { width_bytes: bytes, rows: 1, slices: 1, from: end, to: end }
}

impl<B: Backend, E: Fn(B::Event)> Enqueue for Session<'_, B, E> {
    fn launch(
        &mut self,
        kernel: &KernelText,
        groups: [u32; 3],
        arguments: &[ArgumentValue],
    ) -> Result<(), DeviceError> {
        let function = self.kernels.get(self.backend, kernel)?;
        // SAFETY: a kernel's types agree with its text; regions and scratch memory are the task's until it has ended.
        unsafe { self.backend.launch(&self.stream.stream, &function, kernel, groups, arguments) }
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
                let (memory, base) = self.backend.allocate(capacity)?;
                (capacity, memory, base)
            }
        };
        let base = block.2;
        self.scratch.push(block);
        Ok(base)
    }
}

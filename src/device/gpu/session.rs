//! One task on its stream: private replicas in, the body's kernels, private replicas out.

use super::kernels::Kernels;
use super::streams::Stream;
use super::{Backend, Pitches, Slab};
use crate::device::Work;
use crate::error::{BoxError, DeviceError};
use crate::kernel::{ArgumentValue, Enqueue, KernelText};

/// A task that is being enqueued.
pub(super) struct Session<'a, B: Backend> {
    backend: &'a B,
    kernels: &'a Kernels<B>,
    stream: &'a Stream<B>,
    /// The stream's memory, and what of it this task has: back to the stream at the end.
    free: Vec<(usize, B::Memory, usize)>,
    scratch: Vec<(usize, B::Memory, usize)>,
    /// Memory of private replicas: kept until the task has ended.
    privates: Vec<B::Memory>,
}

impl<'a, B: Backend> Session<'a, B> {
    pub(super) fn new(backend: &'a B, kernels: &'a Kernels<B>, stream: &'a Stream<B>) -> Self {
        let free = std::mem::take(&mut stream.state.lock().scratch);
        Self { backend, kernels, stream, free, scratch: Vec::new(), privates: Vec::new() }
    }

    /// Enqueues all of the task.
    pub(super) fn carry_out(&mut self, work: &mut dyn Work) -> Result<(), BoxError> {
        let mut handles = Vec::new();
        let privates = work.privates();
        for &(first, bytes) in &privates {
            let (memory, base) = self.backend.allocate(bytes.max(1))?;
            self.privates.push(memory);
            handles.push(base);
            // SAFETY: the task owns its private replicas until it has ended, and so do we theirs on the device.
            unsafe { self.backend.copy_in(&self.stream.stream, first, base, &flat(bytes))? };
        }
        work.enqueue(self, &handles)?;
        for (&(first, bytes), base) in privates.iter().zip(handles) {
            // SAFETY: they stay until the task has ended: the host's are the task's, the device's are in `privates`.
            unsafe { self.backend.copy_out(&self.stream.stream, base, first, &flat(bytes))? };
        }
        Ok(())
    }

    /// Ends the session; what has to be kept until the task has ended.
    pub(super) fn close(mut self) -> Vec<B::Memory> {
        std::mem::take(&mut self.privates)
    }
}

impl<B: Backend> Drop for Session<'_, B> {
    fn drop(&mut self) {
        self.stream.state.lock().scratch.extend(self.free.drain(..).chain(self.scratch.drain(..)));
    }
}

fn flat(bytes: usize) -> Slab {
    let end = Pitches { offset_bytes: 0, row_bytes: bytes, slice_bytes: bytes };
    Slab { width_bytes: bytes, rows: 1, slices: 1, from: end, to: end }
}

impl<B: Backend> Enqueue for Session<'_, B> {
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

//! Page-locked host memory, which is reused for copies to and from GPUs.
//!
//! OpenCL cannot page-lock existing memory. Instead, vendors advise programs to create a buffer that the driver
//! allocates in host memory (`CL_MEM_ALLOC_HOST_PTR`), and to use the address at which the buffer is mapped as the
//! host's end of copies (NVIDIA, *OpenCL Best Practices Guide*, section 3.1.1).
//!
//! Invariants:
//! 1. A block is mapped from its creation until it is freed, which happens when its pool is dropped.
//! 2. A block is either in use or free, never both.

use super::turns::{InTurn, Turns};
use opencl3::command_queue::{CommandQueue, enqueue_map_buffer, enqueue_unmap_mem_object};
use opencl3::context::Context;
use opencl3::device::cl_device_id;
use opencl3::error_codes::ClError;
use opencl3::event::release_event;
use opencl3::memory::{Buffer, CL_MAP_READ, CL_MAP_WRITE, CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE, ClMem};
use opencl3::types::{CL_BLOCKING, cl_mem};
use parking_lot::Mutex;
use std::ptr;
use std::sync::Arc;

/// The minimum size of a block in bytes. Sizes are powers of two.
const LEAST_BYTES: usize = 4096;

/// A device's pool of free blocks, grouped by the power of two that is their size.
pub(super) struct LockedMemory {
    context: Arc<Context>,
    /// The queue that is used only for mapping and unmapping.
    queue: InTurn<CommandQueue>,
    turns: Turns,
    free: Mutex<Vec<Vec<Block>>>,
}

/// A buffer, and the address at which it is mapped.
struct Block {
    buffer: InTurn<Buffer<u8>>,
    first: cl_mem,
}

/// A block in use. Dropping it returns the block to the pool.
pub(in crate::device) struct Locked {
    memory: Arc<LockedMemory>,
    class: usize,
    block: Option<Block>,
}

// SAFETY: OpenCL objects may be used from any thread, and only the holder of a block uses the block's address.
unsafe impl Send for LockedMemory {}
// SAFETY: OpenCL objects may be used from any thread, and the lists of free blocks are protected by a lock.
unsafe impl Sync for LockedMemory {}
// SAFETY: the same argument as for `LockedMemory`.
unsafe impl Send for Locked {}
// SAFETY: a shared reference gives no access to the block's memory.
unsafe impl Sync for Locked {}

impl LockedMemory {
    pub(super) fn new(context: Arc<Context>, device: cl_device_id, turns: Turns) -> Result<Self, ClError> {
        #[allow(deprecated)] // its replacement does not exist in OpenCL 1.2
        // SAFETY: the device belongs to the context.
        let queue = unsafe { CommandQueue::create(&context, device, 0)? };
        Ok(Self { context, queue: InTurn::new(queue, turns), turns, free: Mutex::default() })
    }

    /// Returns a block of at least `bytes` bytes and its address, or `None` if no page-locked memory is left.
    pub(super) fn take(self: &Arc<Self>, bytes: usize) -> Option<(Locked, *mut u8)> {
        let bytes = bytes.max(LEAST_BYTES).checked_next_power_of_two()?;
        let class = bytes.trailing_zeros() as usize;
        let free = self.free.lock().get_mut(class).and_then(Vec::pop);
        let block = match free {
            Some(block) => block,
            None => self.make(bytes)?,
        };
        let first = block.first.cast();
        Some((Locked { memory: self.clone(), class, block: Some(block) }, first))
    }

    fn make(&self, bytes: usize) -> Option<Block> {
        let flags = CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR;
        // SAFETY: no host memory is passed.
        let buffer = unsafe { Buffer::<u8>::create(&self.context, flags, bytes, ptr::null_mut()) }.ok()?;
        let (mut first, access) = (ptr::null_mut(), CL_MAP_READ | CL_MAP_WRITE);
        let (queue, handle) = (self.queue.get(), buffer.get());
        // SAFETY: the queue and the buffer are alive, and the mapped range is the whole buffer.
        let mapped =
            unsafe { enqueue_map_buffer(queue, handle, CL_BLOCKING, access, 0, bytes, &mut first, 0, ptr::null()) };
        // SAFETY: this function owns the event, and nothing waits for it.
        let _ = unsafe { release_event(mapped.ok()?) };
        Some(Block { buffer: InTurn::new(buffer, self.turns), first })
    }
}

impl Drop for LockedMemory {
    fn drop(&mut self) {
        let _turn = self.turns.take();
        for block in self.free.get_mut().drain(..).flatten() {
            let (queue, handle) = (self.queue.get(), block.buffer.get());
            // SAFETY: the buffer is mapped at `first`, nothing uses the block any more, and this function owns the
            // event.
            unsafe {
                if let Ok(event) = enqueue_unmap_mem_object(queue, handle, block.first, 0, ptr::null()) {
                    let _ = release_event(event);
                }
            }
        }
        let _ = self.queue.finish(); // buffers are unmapped before they are freed
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            let mut free = self.memory.free.lock();
            if free.len() <= self.class {
                free.resize_with(self.class + 1, Vec::new);
            }
            free[self.class].push(block);
        }
    }
}

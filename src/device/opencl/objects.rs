//! The objects that the backend hands out: queues, kernels and buffers.

use super::commands::Commands;
use super::turns::InTurn;
use crate::device::guarded::{Guards, Overrun};
use opencl3::command_queue::CommandQueue;
use opencl3::event::Event;
use opencl3::kernel::Kernel;
use opencl3::memory::{Buffer, ClMem};
use parking_lot::Mutex;
use std::ffi::CString;
use std::sync::Arc;

/// An in-order queue, with the event of the most recently enqueued work and, if events have times, of the first command
/// of the work that is being enqueued.
pub(in crate::device) struct Stream {
    pub(super) queue: InTurn<CommandQueue>,
    pub(super) last: Mutex<Option<Arc<InTurn<Event>>>>,
    pub(super) first: Mutex<Option<Arc<InTurn<Event>>>>,
}

/// A kernel object and its name. The lock ensures that only one thread at a time sets the kernel's arguments.
pub(in crate::device) struct Function(pub(super) Mutex<InTurn<Kernel>>, pub(super) CString);

/// Owns a buffer.
pub(in crate::device) struct Memory {
    pub(super) buffer: InTurn<Buffer<u8>>,
    pub(super) guards: Option<Guards>,
    pub(super) commands: Option<Arc<Commands>>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the buffer is alive, so its memory and guard zones still exist.
        if let Some(Overrun { bytes, side }) = self.guards.and_then(|guards| unsafe { guards.overrun() }) {
            log!(
                error,
                "a kernel wrote outside of a freed buffer: {bytes} bytes {side} its memory have changed; try checking the \
                 indices of kernels that used it or its neighbours"
            );
        }
        if let Some(commands) = &self.commands {
            commands.forget(self.buffer.get().expose_provenance());
        }
    }
}

//! Buffers with guard zones, for CPU devices in builds with debug assertions.
//!
//! A kernel on a CPU device can write anywhere in the process. So buffers for these devices are created in host
//! memory with guard zones, because CPU platforms compute directly in the host memory of a buffer
//! (`CL_MEM_USE_HOST_PTR`). On a platform that computes in a copy instead, the zones are never damaged, and overruns
//! are not detected. As with any buffer, the host accesses the memory only through OpenCL calls.
//!
//! Invariant: the host memory of a buffer outlives the buffer. The buffer owns the host memory, which is freed by a
//! callback that OpenCL makes when the buffer is destroyed; this may be later than the release of the buffer.

use crate::device::Buffer as HostMemory;
use crate::device::guarded::Guards;
use opencl3::context::Context;
use opencl3::error_codes::ClError;
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE, CL_MEM_USE_HOST_PTR, ClMem, set_mem_object_destructor_callback};
use opencl3::types::cl_mem;
use std::ffi::c_void;

/// Platforms compute in the host memory itself only if it begins at a page boundary.
const ALIGN: usize = 4096;

/// Creates a buffer of this many bytes, with guard zones.
///
/// # Errors
/// Returns an error if OpenCL cannot create the buffer.
pub(super) fn create(context: &Context, bytes: usize) -> Result<(Buffer<u8>, Option<Guards>), ClError> {
    extern "C" fn destroyed(_: cl_mem, memory: *mut c_void) {
        // SAFETY: the pointer comes from `Box::into_raw` below, and a buffer is destroyed only once, so the box is
        // taken back only once.
        drop(unsafe { Box::from_raw(memory.cast::<HostMemory>()) });
    }
    let memory = Box::new(HostMemory::fenced(bytes, ALIGN));
    let (guards, first) = (memory.guards, std::ptr::with_exposed_provenance_mut(memory.base()));
    let flags = CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR;
    // SAFETY: the host memory has `bytes` bytes, and exists as long as the buffer, because only the buffer's callback
    // frees it.
    let buffer = unsafe { Buffer::<u8>::create(context, flags, bytes, first)? };
    let memory = Box::into_raw(memory);
    // SAFETY: the buffer is alive, and the callback has the signature that OpenCL declares.
    let promised = unsafe { set_mem_object_destructor_callback(buffer.get(), destroyed, memory.cast()) };
    if let Err(code) = promised {
        drop(buffer); // no enqueued work uses it
        // SAFETY: OpenCL refused the callback, so nothing else holds the pointer.
        drop(unsafe { Box::from_raw(memory) });
        return Err(ClError(code));
    }
    Ok((buffer, guards))
}

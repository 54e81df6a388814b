//! Buffers between guard zones, for devices that are CPUs, in builds with debug assertions.
//!
//! A kernel on such a device can write anywhere in the process. So its buffers use host memory with guard zones:
//! platforms for CPUs compute in the host memory of a buffer (`CL_MEM_USE_HOST_PTR`). A platform that computes in a
//! copy neither damages the zones nor reveals anything. The host accesses the memory only by OpenCL's calls, like
//! that of any buffer.
//!
//! Invariant: the host memory of a buffer outlives the buffer. The buffer owns it, through a callback that OpenCL
//! makes when the buffer is destroyed, which may be later than its release.

use crate::device::Buffer as HostMemory;
use crate::device::guarded::Guards;
use opencl3::context::Context;
use opencl3::error_codes::ClError;
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE, CL_MEM_USE_HOST_PTR, ClMem, set_mem_object_destructor_callback};
use opencl3::types::cl_mem;
use std::ffi::c_void;

/// Platforms compute in the memory itself if it begins at a page boundary.
const ALIGN: usize = 4096;

/// Creates a buffer of this many bytes, with guard zones.
///
/// # Errors
/// If OpenCL refuses it.
pub(super) fn create(context: &Context, bytes: usize) -> Result<(Buffer<u8>, Option<Guards>), ClError> {
    extern "C" fn destroyed(_: cl_mem, memory: *mut c_void) {
        // SAFETY: the pointer was made below, and a buffer is destroyed once.
        drop(unsafe { Box::from_raw(memory.cast::<HostMemory>()) });
    }
    let memory = Box::new(HostMemory::fenced(bytes, ALIGN));
    let (guards, first) = (memory.guards, std::ptr::with_exposed_provenance_mut(memory.base()));
    let flags = CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR;
    // SAFETY: the host memory has these bytes, and exists as long as the buffer, because of the callback.
    let buffer = unsafe { Buffer::<u8>::create(context, flags, bytes, first)? };
    let memory = Box::into_raw(memory);
    // SAFETY: the buffer is alive, and the callback has the declared signature.
    let promised = unsafe { set_mem_object_destructor_callback(buffer.get(), destroyed, memory.cast()) };
    if let Err(code) = promised {
        drop(buffer); // no enqueued work uses it
        // SAFETY: the callback was refused, so the pointer has no other holder.
        drop(unsafe { Box::from_raw(memory) });
        return Err(ClError(code));
    }
    Ok((buffer, guards))
}

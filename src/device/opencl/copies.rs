//! Copies of slabs of memory: one call of OpenCL each, which depends on the direction and on whether the slab is flat.
//!
//! All functions enqueue the copy and return its event. They share one contract: both ends stay valid until the copy
//! has ended.

use crate::device::gpu::{Pitches, Slab};
use opencl3::command_queue::{
    CommandQueue, enqueue_copy_buffer, enqueue_copy_buffer_rect, enqueue_read_buffer, enqueue_read_buffer_rect,
    enqueue_write_buffer, enqueue_write_buffer_rect,
};
use opencl3::types::{CL_NON_BLOCKING, cl_event, cl_int, cl_mem};
use std::ffi::c_void;
use std::ptr;

fn origin(end: &Pitches) -> [usize; 3] {
    [end.offset_bytes, 0, 0]
}

fn region(slab: &Slab) -> [usize; 3] {
    [slab.width_bytes, slab.rows, slab.slices]
}

/// Copies from host memory to a buffer.
///
/// # Safety
/// See the module documentation.
pub(super) unsafe fn write(queue: &CommandQueue, from: *const u8, to: cl_mem, slab: &Slab) -> Result<cl_event, cl_int> {
    let (Slab { width_bytes, from: f, to: t, .. }, queue) = (slab, queue.get());
    // SAFETY: the caller keeps both ends valid, and the slab is inside both of them.
    unsafe {
        let first: *const c_void = from.add(f.offset_bytes).cast();
        if slab.is_flat() {
            return enqueue_write_buffer(
                queue,
                to,
                CL_NON_BLOCKING,
                t.offset_bytes,
                *width_bytes,
                first,
                0,
                ptr::null(),
            );
        }
        enqueue_write_buffer_rect(
            queue,
            to,
            CL_NON_BLOCKING,
            origin(t).as_ptr(),
            [0; 3].as_ptr(),
            region(slab).as_ptr(),
            t.row_bytes,
            t.slice_bytes,
            f.row_bytes,
            f.slice_bytes,
            first,
            0,
            ptr::null(),
        )
    }
}

/// Copies from a buffer to host memory.
///
/// # Safety
/// See the module documentation.
pub(super) unsafe fn read(queue: &CommandQueue, from: cl_mem, to: *mut u8, slab: &Slab) -> Result<cl_event, cl_int> {
    let (Slab { width_bytes, from: f, to: t, .. }, queue) = (slab, queue.get());
    // SAFETY: the caller keeps both ends valid, and the slab is inside both of them.
    unsafe {
        let first: *mut c_void = to.add(t.offset_bytes).cast();
        if slab.is_flat() {
            return enqueue_read_buffer(
                queue,
                from,
                CL_NON_BLOCKING,
                f.offset_bytes,
                *width_bytes,
                first,
                0,
                ptr::null(),
            );
        }
        enqueue_read_buffer_rect(
            queue,
            from,
            CL_NON_BLOCKING,
            origin(f).as_ptr(),
            [0; 3].as_ptr(),
            region(slab).as_ptr(),
            f.row_bytes,
            f.slice_bytes,
            t.row_bytes,
            t.slice_bytes,
            first,
            0,
            ptr::null(),
        )
    }
}

/// Copies from one buffer to another.
///
/// # Safety
/// See the module documentation.
pub(super) unsafe fn copy(queue: &CommandQueue, from: cl_mem, to: cl_mem, slab: &Slab) -> Result<cl_event, cl_int> {
    let (Slab { width_bytes, from: f, to: t, .. }, queue) = (slab, queue.get());
    // SAFETY: the caller keeps both ends valid, and the slab is inside both of them.
    unsafe {
        if slab.is_flat() {
            return enqueue_copy_buffer(queue, from, to, f.offset_bytes, t.offset_bytes, *width_bytes, 0, ptr::null());
        }
        enqueue_copy_buffer_rect(
            queue,
            from,
            to,
            origin(f).as_ptr(),
            origin(t).as_ptr(),
            region(slab).as_ptr(),
            f.row_bytes,
            f.slice_bytes,
            t.row_bytes,
            t.slice_bytes,
            0,
            ptr::null(),
        )
    }
}

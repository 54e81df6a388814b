//! Conversion of a launch's geometry and arguments to the form that OpenCL takes.

use super::backend::OpenCl;
use crate::error::DeviceError;
use crate::kernel::{ArgumentValue, Groups, Value};
use opencl3::error_codes::ClError;
use opencl3::kernel::set_kernel_arg;
use opencl3::types::{cl_kernel, cl_mem};
use std::ffi::c_void;
use std::ptr;

impl OpenCl {
    /// Sets a kernel's arguments. No other thread may set arguments of the same kernel at the same time.
    pub(super) fn set_arguments(&self, kernel: cl_kernel, arguments: &[ArgumentValue]) -> Result<(), DeviceError> {
        let mut index = 0;
        let mut set = |size: usize, value: *const c_void| {
            // SAFETY: the value has the given size, and OpenCL copies it during the call.
            let set = unsafe { set_kernel_arg(kernel, index, size, value) };
            index += 1;
            set.map_err(|code| self.failed("clSetKernelArg", ClError(code)))
        };
        for ArgumentValue(value) in arguments {
            match value {
                Value::Scalar { bytes, len } => set(*len, bytes.as_ptr().cast())?,
                Value::Plain { words, len } => set(*len, words.as_ptr().cast())?,
                Value::Memory { base, offset_bytes, element_bytes, .. } => {
                    let first = (offset_bytes / element_bytes) as u64;
                    set(size_of::<cl_mem>(), ptr::from_ref(&mem(*base)).cast())?;
                    set(size_of::<u64>(), ptr::from_ref(&first).cast())?;
                }
            }
        }
        Ok(())
    }
}

pub(super) fn mem(handle: usize) -> cl_mem {
    ptr::with_exposed_provenance_mut(handle)
}

/// Returns the handles of the buffers among the arguments.
pub(super) fn buffers<'a>(arguments: impl IntoIterator<Item = &'a ArgumentValue>) -> Vec<usize> {
    let buffer = |ArgumentValue(value): &ArgumentValue| match value {
        Value::Memory { base, .. } => Some(*base),
        Value::Scalar { .. } | Value::Plain { .. } => None,
    };
    let mut buffers: Vec<_> = arguments.into_iter().filter_map(buffer).collect();
    buffers.sort_unstable();
    buffers.dedup();
    buffers
}

/// Returns the total number of threads and the number of threads per group, in each dimension.
pub(super) fn geometry(group: [u32; 3], groups: Groups) -> ([usize; 3], [usize; 3]) {
    let group = group.map(|n| n as usize);
    (std::array::from_fn(|d| group[d] * groups[d] as usize), group)
}

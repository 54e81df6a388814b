//! Driver types that cudarc declares only for some releases of the headers, so that any release compiles.
//!
//! A test compares them with cudarc's declarations, which are generated from the headers.

use crate::device::gpu::KernelCall;
use crate::kernel::Groups;
use cudarc::driver::sys::{CUcontext, CUfunction, CUgraph, CUstream};
use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

/// `CUDA_KERNEL_NODE_PARAMS_v2`, declared from CUDA 12.0 on.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct KernelNode {
    pub(super) function: CUfunction,
    pub(super) groups: [c_uint; 3],
    pub(super) group: [c_uint; 3],
    pub(super) shared_bytes: c_uint,
    pub(super) values: *mut *mut c_void,
    pub(super) others: *mut *mut c_void,
    /// Unused if a function is given.
    pub(super) kernel: *mut c_void,
    pub(super) context: CUcontext,
}

impl KernelNode {
    pub(super) fn new(KernelCall { function, groups, group, arguments }: KernelCall<'_>) -> Self {
        let Groups { count: groups, shared_bytes, .. } = groups;
        let (values, others) = (arguments.as_mut_ptr(), ptr::null_mut());
        let (kernel, context) = (ptr::null_mut(), ptr::null_mut());
        Self { function: function.as_raw(), groups, group, shared_bytes, values, others, kernel, context }
    }
}

/// `CUgraphNodeParams` with `CUDA_CONDITIONAL_NODE_PARAMS`, declared from CUDA 12.4 on.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct ConditionalNode {
    kind: c_int,
    reserved: [c_int; 3],
    handle: u64,
    of: c_uint,
    size: c_uint,
    /// The graphs that the node executes; set by the driver.
    pub(super) graphs: *mut CUgraph,
    context: CUcontext,
    rest: [i64; 26],
}

impl ConditionalNode {
    /// `CU_GRAPH_NODE_TYPE_CONDITIONAL`
    const KIND: c_int = 13;
    /// `CU_GRAPH_COND_TYPE_WHILE`
    const WHILE: c_uint = 1;

    /// Describes a node that executes a graph as long as the condition is not 0.
    pub(super) fn repeats(handle: u64, context: CUcontext) -> Self {
        let (reserved, graphs, rest) = ([0; 3], ptr::null_mut(), [0; 26]);
        Self { kind: Self::KIND, reserved, handle, of: Self::WHILE, size: 1, graphs, context, rest }
    }
}

/// `CUlaunchConfig`, declared from CUDA 11.8 on.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct LaunchConfig {
    pub(super) groups: [c_uint; 3],
    pub(super) group: [c_uint; 3],
    pub(super) shared_bytes: c_uint,
    pub(super) stream: CUstream,
    pub(super) attributes: *mut LaunchAttribute,
    pub(super) attribute_count: c_uint,
}

/// `CUlaunchAttribute`, declared from CUDA 11.8 on. The value is a union of 64 bytes; those used here are integers.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct LaunchAttribute {
    id: c_uint,
    padding: c_uint,
    value: [c_uint; 16],
}

impl LaunchAttribute {
    /// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`
    pub(super) const COOPERATIVE: Self = Self::new(2, [1, 0, 0]);

    /// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`
    pub(super) const fn cluster(groups: [c_uint; 3]) -> Self {
        Self::new(4, groups)
    }

    const fn new(id: c_uint, [x, y, z]: [c_uint; 3]) -> Self {
        let mut value = [0; 16];
        (value[0], value[1], value[2]) = (x, y, z);
        Self { id, padding: 0, value }
    }
}

/// `CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH`, declared from CUDA 11.8 on.
pub(super) const CLUSTER_LAUNCH: c_uint = 120;

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::driver::sys;
    use std::mem::offset_of;

    #[test]
    fn types_match_the_headers() {
        macro_rules! same {
            ($ours:ident = $theirs:ident: $($field:ident = $their_field:ident),*) => {
                assert_eq!(size_of::<$ours>(), size_of::<sys::$theirs>());
                assert_eq!(align_of::<$ours>(), align_of::<sys::$theirs>());
                $(assert_eq!(offset_of!($ours, $field), offset_of!(sys::$theirs, $their_field));)*
            };
        }
        same!(KernelNode = CUDA_KERNEL_NODE_PARAMS_v2: function = func, groups = gridDimX, group = blockDimX,
            shared_bytes = sharedMemBytes, values = kernelParams, others = extra, kernel = kern, context = ctx);
        same!(LaunchConfig = CUlaunchConfig: groups = gridDimX, group = blockDimX, shared_bytes = sharedMemBytes,
            stream = hStream, attributes = attrs, attribute_count = numAttrs);
        same!(LaunchAttribute = CUlaunchAttribute: id = id, value = value);
        same!(ConditionalNode = CUgraphNodeParams: kind = type_, reserved = reserved0);
        let inside = offset_of!(ConditionalNode, handle);
        macro_rules! inside {
            ($($field:ident = $their_field:ident),*) => {
                $(assert_eq!(
                    offset_of!(ConditionalNode, $field) - inside,
                    offset_of!(sys::CUDA_CONDITIONAL_NODE_PARAMS, $their_field)
                );)*
            };
        }
        inside!(handle = handle, of = type_, size = size, graphs = phGraph_out, context = ctx);
        assert_eq!(ConditionalNode::KIND, sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL as c_int);
        assert_eq!(ConditionalNode::WHILE, sys::CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_WHILE as c_uint);
        use sys::CUlaunchAttributeID::{CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, CU_LAUNCH_ATTRIBUTE_COOPERATIVE};
        assert_eq!(LaunchAttribute::COOPERATIVE.id, CU_LAUNCH_ATTRIBUTE_COOPERATIVE as c_uint);
        assert_eq!(LaunchAttribute::cluster([1; 3]).id, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION as c_uint);
        assert_eq!(CLUSTER_LAUNCH, sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH as c_uint);
    }
}

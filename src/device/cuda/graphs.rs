//! Nodes of graphs that are loops, whose iterations are graphs (conditional nodes, CUDA 12.4 and newer).

use super::driver_types::ConditionalNode;
use super::library::{self, call};
use crate::device::gpu::{ApiError, Handle};
use cudarc::driver::sys::CUcontext;
use std::ffi::c_uint;
use std::ptr;

/// `CU_GRAPH_COND_ASSIGN_DEFAULT`: each launch of the graph gives the condition its default value.
const ASSIGN_DEFAULT: c_uint = 1;

/// Adds a loop to a graph. Returns the handle of its condition, which is 1 when the graph is launched, and the graph of
/// an iteration.
///
/// # Safety
/// The graph must be alive.
pub(super) unsafe fn add_loop(context: CUcontext, graph: Handle) -> Result<(u64, Handle), ApiError> {
    let loops = library::loop_functions().expect("loops are used only if the driver has them");
    let (mut handle, mut node) = (0, ptr::null_mut());
    // SAFETY: the caller keeps the graph alive, the context is retained, and the result pointer is valid.
    call("cuGraphConditionalHandleCreate", unsafe {
        (loops.cuGraphConditionalHandleCreate)(&mut handle, graph.as_raw(), context, 1, ASSIGN_DEFAULT)
    })?;
    let mut described = ConditionalNode::repeats(handle, context);
    // SAFETY: the caller keeps the graph alive. The driver writes the address of its own array of one graph into the
    // description.
    call("cuGraphAddNode", unsafe {
        (loops.cuGraphAddNode)(&mut node, graph.as_raw(), ptr::null(), 0, &mut described)
    })?;
    // SAFETY: the call has succeeded, and so has set the array, which lives as long as the node.
    Ok((handle, Handle::of(unsafe { *described.graphs })))
}

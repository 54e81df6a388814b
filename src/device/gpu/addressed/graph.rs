//! CUDA and HIP graphs of kernels. A graph is built node by node and instantiated once.

use super::arguments::Arguments;
use super::{Addressed, Api, Device, Function, GraphNode, Handle, KernelCall};
use crate::error::DeviceError;
use std::ffi::c_void;
use std::sync::Arc;

/// A graph, with the nodes through which the instance's argument values are changed.
pub(in crate::device) struct Graph<A: Api> {
    device: Arc<Device<A>>,
    raw: Handle,
    nodes: Vec<Handle>,
    /// `None` while the graph is being built.
    instance: Option<Handle>,
}

impl<A: Api> Graph<A> {
    /// # Safety
    /// The arguments must match the kernels' parameters.
    pub(super) unsafe fn new(
        device: &Arc<Device<A>>,
        nodes: &[GraphNode<'_, Addressed<A>>],
        edges: &[Vec<u32>],
    ) -> Result<Self, DeviceError> {
        let raw = device.call(A::create_graph)?;
        let mut graph = Self { device: device.clone(), raw, nodes: Vec::with_capacity(nodes.len()), instance: None };
        for (node, before) in nodes.iter().zip(edges) {
            let before: Vec<_> = before.iter().map(|node| graph.nodes[*node as usize]).collect();
            let mut arguments = Arguments::new(node.arguments);
            // SAFETY: the graph and its nodes are alive, and so is the function, because its module is kept with it.
            // The values match the kernel's parameters, and are read before the call returns.
            let node = device.call_stream(|api| unsafe {
                api.add_kernel(graph.raw, &before, call(node, &mut arguments.pointers()))
            })?;
            graph.nodes.push(node);
        }
        // SAFETY: the graph is alive.
        graph.instance = Some(device.call_stream(|api| unsafe { api.instantiate(graph.raw) })?);
        Ok(graph)
    }

    fn instance(&self) -> Handle {
        self.instance.expect("a finished graph has an instance")
    }

    /// Sets a node's argument values.
    ///
    /// # Safety
    /// The values must match the parameters of the node's kernel, and the graph must not be in flight.
    pub(super) unsafe fn set(&mut self, number: usize, node: &GraphNode<'_, Addressed<A>>) -> Result<(), DeviceError> {
        let mut arguments = Arguments::new(node.arguments);
        // SAFETY: the graph and the function are alive. The values match the kernel's parameters, and are read before
        // the call returns.
        self.device.call_stream(|api| unsafe {
            api.set_kernel(self.instance(), self.nodes[number], call(node, &mut arguments.pointers()))
        })
    }

    /// # Safety
    /// The graph, and the memory that its arguments refer to, must be valid until the graph has ended.
    pub(super) unsafe fn launch(&self, stream: Handle) -> Result<(), DeviceError> {
        // SAFETY: the caller keeps the graph and its memory valid until the graph has ended.
        self.device.call_stream(|api| unsafe { api.launch_graph(self.instance(), stream) })
    }
}

fn call<'a, A: Api>(node: &GraphNode<'_, Addressed<A>>, arguments: &'a mut [*mut c_void]) -> KernelCall<'a> {
    let GraphNode { function: Function { raw, .. }, group, groups, .. } = node;
    KernelCall { function: *raw, groups: *groups, group: *group, arguments }
}

impl<A: Api> Drop for Graph<A> {
    fn drop(&mut self) {
        if let Some(instance) = self.instance {
            // SAFETY: every flight of the graph holds a reference to it, so a graph that is being dropped is not in
            // flight.
            self.device.clean_up(|api| unsafe { api.destroy_instance(instance) });
        }
        // SAFETY: the owner of the raw graph is being dropped, so nothing else uses the graph.
        self.device.clean_up(|api| unsafe { api.destroy_graph(self.raw) });
    }
}

//! Graphs of kernels in CUDA and HIP: built node by node, and instantiated once.

use super::arguments::Arguments;
use super::{Addressed, Api, Device, GraphNode, Handle, KernelCall};
use crate::error::DeviceError;
use std::ffi::c_void;
use std::sync::Arc;

/// A graph and its nodes, by which the instance is given new values.
pub(in crate::device) struct Graph<A: Api> {
    device: Arc<Device<A>>,
    raw: Handle,
    nodes: Vec<Handle>,
    /// `None` while the graph is being built.
    instance: Option<Handle>,
}

impl<A: Api> Graph<A> {
    /// # Safety
    /// The arguments are the kernels'.
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
            // SAFETY: graph, nodes and function are alive, the latter by its module; the values are the kernel's own,
            // and are read before the call returns.
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

    /// Gives a node new values.
    ///
    /// # Safety
    /// The values are its kernel's, and the graph is not in flight.
    pub(super) unsafe fn set(&mut self, number: usize, node: &GraphNode<'_, Addressed<A>>) -> Result<(), DeviceError> {
        let mut arguments = Arguments::new(node.arguments);
        // SAFETY: graph and function are alive; the values are the kernel's own, and are read before the call returns.
        self.device.call_stream(|api| unsafe {
            api.set_kernel(self.instance(), self.nodes[number], call(node, &mut arguments.pointers()))
        })
    }

    /// # Safety
    /// Memory among its arguments, and the graph, are valid until it has ended.
    pub(super) unsafe fn launch(&self, stream: Handle) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        self.device.call_stream(|api| unsafe { api.launch_graph(self.instance(), stream) })
    }
}

fn call<'a, A: Api>(node: &GraphNode<'_, Addressed<A>>, arguments: &'a mut [*mut c_void]) -> KernelCall<'a> {
    let GraphNode { function: (function, _), group, groups, .. } = node;
    KernelCall { function: *function, groups: *groups, group: *group, arguments }
}

impl<A: Api> Drop for Graph<A> {
    fn drop(&mut self) {
        if let Some(instance) = self.instance {
            // SAFETY: the graph is not in flight, since whoever has it in flight holds a reference to it.
            self.device.clean_up(|api| unsafe { api.destroy_instance(instance) });
        }
        // SAFETY: its owner is gone.
        self.device.clean_up(|api| unsafe { api.destroy_graph(self.raw) });
    }
}

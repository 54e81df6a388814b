//! CUDA and HIP graphs of kernels. A graph is built node by node and instantiated once. In CUDA, it may be the
//! iteration of a loop.

use super::arguments::Arguments;
use super::{Addressed, Api, Device, Function, GraphNode, Handle, KernelCall};
use crate::error::DeviceError;
use crate::kernel::{Argument, ArgumentValue};
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
    /// Makes a graph of these nodes or, with `last`, a loop whose iterations consist of them and of `last`, which
    /// follows all others and gets the handle of the loop's condition as its last argument.
    ///
    /// # Safety
    /// The arguments must match the kernels' parameters.
    pub(super) unsafe fn new(
        device: &Arc<Device<A>>,
        nodes: &[GraphNode<'_, Addressed<A>>],
        edges: &[Vec<u32>],
        last: Option<&GraphNode<'_, Addressed<A>>>,
    ) -> Result<Self, DeviceError> {
        let raw = device.call(A::create_graph)?;
        let mut graph = Self { device: device.clone(), raw, nodes: Vec::with_capacity(nodes.len()), instance: None };
        let condition = match last {
            // SAFETY: the graph is alive.
            Some(_) => Some(device.call_stream(|api| unsafe { api.add_loop(raw) })?),
            None => None,
        };
        let inside = condition.map_or(raw, |(_, iteration)| iteration);
        for (node, before) in nodes.iter().zip(edges) {
            // SAFETY: the caller's promise. `inside` is the graph, or belongs to it.
            unsafe { graph.add(inside, node, node.arguments, before)? };
        }
        if let (Some(last), Some((handle, _))) = (last, condition) {
            let mut is_last = vec![true; nodes.len()];
            edges.iter().flatten().for_each(|before| is_last[*before as usize] = false);
            let before: Vec<u32> = (0..).zip(is_last).filter(|(_, is_last)| *is_last).map(|(node, _)| node).collect();
            let mut arguments = last.arguments.to_vec();
            *arguments.last_mut().expect("the handle is an argument") = handle.value();
            // SAFETY: the same argument as for the other nodes; the handle is an integer of 64 bits.
            unsafe { graph.add(inside, last, &arguments, &before)? };
        }
        // SAFETY: the graph is alive.
        graph.instance = Some(device.call_stream(|api| unsafe { api.instantiate(graph.raw) })?);
        Ok(graph)
    }

    /// Adds a node that follows the nodes in `before` to the graph or to its iteration.
    ///
    /// # Safety
    /// The arguments must match the kernel's parameters.
    unsafe fn add(
        &mut self,
        inside: Handle,
        node: &GraphNode<'_, Addressed<A>>,
        arguments: &[ArgumentValue],
        before: &[u32],
    ) -> Result<(), DeviceError> {
        let before: Vec<_> = before.iter().map(|node| self.nodes[*node as usize]).collect();
        let mut arguments = Arguments::new(arguments);
        // SAFETY: the graph and its nodes are alive, and so is the function, because its module is kept with it. The
        // values match the kernel's parameters, and are read before the call returns.
        let node = self
            .device
            .call_stream(|api| unsafe { api.add_kernel(inside, &before, call(node, &mut arguments.pointers())) })?;
        self.nodes.push(node);
        Ok(())
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

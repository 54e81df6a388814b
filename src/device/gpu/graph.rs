//! Launches of several tasks as one graph, which is kept and launched again.
//!
//! While a run of tasks is being enqueued, its launches are only recorded ([`Capture`]), part by part: a part
//! consists of the launches of one task. Then they are compared with earlier launches ([`Known`]). If they are the
//! same, the earlier graph is launched once more; if values differ, its nodes are given the new ones first, if the
//! interface supports that. A graph is made when a run has had the same shape twice, or the same values on interfaces
//! whose nodes keep theirs, since making a graph takes longer than its launches.
//!
//! Invariants:
//! 1. A graph's nodes have the values of the capture stored with it.
//! 2. A graph in flight is neither changed nor destroyed: whoever has it in flight holds a reference to it. A graph
//!    whose memory is gone is not launched, even if the same handles refer to other memory by now.
//! 3. Launches of one part follow each other. A part follows the parts that were declared as its predecessors, and,
//!    if it uses scratch memory, also the last part before it that used some: both may have been given the same.

use super::Backend;
use crate::error::DeviceError;
use crate::kernel::{ArgumentValue, KernelText};
use std::sync::Arc;

/// The number of graphs of one run that are kept, for values that change while others are in flight.
const MOST_KEPT: usize = 4;

/// A kernel in a graph.
pub(crate) struct GraphNode<'a, B: Backend> {
    pub(crate) function: &'a B::Function,
    /// Threads per group, and groups.
    pub(crate) group: [u32; 3],
    pub(crate) groups: [u32; 3],
    pub(crate) arguments: &'a [ArgumentValue],
}

/// Recorded launches.
pub(super) struct Capture<B: Backend> {
    launches: Vec<Launch<B>>,
    arguments: Vec<ArgumentValue>,
    parts: Vec<Part>,
    /// Whether no part of it has failed.
    is_whole: bool,
    /// How many of the launches were made, one by one.
    launched: usize,
}

struct Launch<B: Backend> {
    function: Arc<B::Function>,
    group: [u32; 3],
    groups: [u32; 3],
    /// Where its arguments end and those of the next launch begin.
    arguments_end: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    /// The number of its first launch.
    first: usize,
    uses_scratch: bool,
}

/// The state kept for one run on one device.
pub(super) struct Known<B: Backend> {
    backend: Arc<B>,
    graphs: Vec<Kept<B>>,
    /// The last launches, if they were not made by a graph.
    latest: Option<Capture<B>>,
}

/// A graph and the launches that its nodes make.
struct Kept<B: Backend> {
    graph: Arc<B::Graph>,
    capture: Capture<B>,
}

impl<B: Backend> Default for Capture<B> {
    fn default() -> Self {
        Self { launches: Vec::new(), arguments: Vec::new(), parts: Vec::new(), is_whole: true, launched: 0 }
    }
}

impl<B: Backend> Capture<B> {
    /// Begins a new part, to which the following launches belong.
    pub(super) fn begin_part(&mut self) {
        self.parts.push(Part { first: self.launches.len(), uses_scratch: false });
    }

    /// Marks the part as failed: none of its launches is made.
    pub(super) fn drop_part(&mut self) {
        let first = self.parts.last().map_or(0, |part| part.first);
        self.launches.truncate(first);
        self.arguments.truncate(self.launches.last().map_or(0, |launch| launch.arguments_end));
        self.is_whole = false;
    }

    /// Marks that the part uses scratch memory.
    pub(super) fn use_scratch(&mut self) {
        self.parts.last_mut().expect("launches belong to parts").uses_scratch = true;
    }

    pub(super) fn push(
        &mut self,
        function: Arc<B::Function>,
        kernel: &KernelText,
        groups: [u32; 3],
        arguments: &[ArgumentValue],
    ) {
        self.arguments.extend_from_slice(arguments);
        let arguments_end = self.arguments.len();
        self.launches.push(Launch { function, group: kernel.group, groups, arguments_end });
    }

    fn node(&self, number: usize) -> GraphNode<'_, B> {
        let Launch { function, group, groups, arguments_end } = &self.launches[number];
        let begin = number.checked_sub(1).map_or(0, |before| self.launches[before].arguments_end);
        GraphNode { function, group: *group, groups: *groups, arguments: &self.arguments[begin..*arguments_end] }
    }

    fn nodes(&self) -> impl Iterator<Item = GraphNode<'_, B>> {
        (0..self.launches.len()).map(|number| self.node(number))
    }

    /// Returns the nodes whose values differ in a capture of the same shape.
    fn differences(&self, other: &Self) -> impl Iterator<Item = usize> {
        (0..self.launches.len()).filter(|number| {
            let (ours, theirs) = (self.node(*number), other.node(*number));
            ours.groups != theirs.groups
                || ours.arguments.len() != theirs.arguments.len()
                || !ours.arguments.iter().zip(theirs.arguments).all(|(a, b)| a.is_same(b))
        })
    }

    /// Returns whether both captures have the same launches and values.
    fn is_same_as(&self, other: &Self) -> bool {
        self.is_shaped_as(other) && self.differences(other).next().is_none()
    }

    /// Returns whether both captures launch the same kernels with the same groups in the same order and parts,
    /// whatever their arguments.
    fn is_shaped_as(&self, other: &Self) -> bool {
        let alike = |(a, b): (&Launch<B>, &Launch<B>)| Arc::ptr_eq(&a.function, &b.function) && a.group == b.group;
        self.is_whole
            && other.is_whole
            && self.parts == other.parts
            && self.launches.len() == other.launches.len()
            && self.launches.iter().zip(&other.launches).all(alike)
    }

    /// Returns the predecessors of each node, by their numbers, if each part comes `after` these parts.
    fn edges(&self, after: &[Box<[u32]>]) -> Vec<Vec<u32>> {
        let mut edges = vec![Vec::new(); self.launches.len()];
        // The last nodes of each part; if it has no launches, those of the parts before it.
        let mut ends: Vec<Vec<u32>> = Vec::with_capacity(self.parts.len());
        let mut last_scratch = None;
        for (number, part) in self.parts.iter().enumerate() {
            let mut before: Vec<u32> = after[number].iter().flat_map(|part| ends[*part as usize].clone()).collect();
            if part.uses_scratch {
                let last: Option<usize> = last_scratch.replace(number);
                before.extend(last.into_iter().flat_map(|part| ends[part].clone()));
            }
            before.sort_unstable();
            before.dedup();
            let end = self.parts.get(number + 1).map_or(self.launches.len(), |next| next.first);
            for (node, edges) in (part.first as u32..).zip(&mut edges[part.first..end]) {
                *edges = std::mem::replace(&mut before, vec![node]);
            }
            ends.push(before);
        }
        edges
    }
}

impl<B: Backend> Known<B> {
    pub(super) fn new(backend: &Arc<B>) -> Self {
        Self { backend: backend.clone(), graphs: Vec::new(), latest: None }
    }

    pub(super) fn is_of(&self, backend: &Arc<B>) -> bool {
        Arc::ptr_eq(&self.backend, backend)
    }

    /// Launches a capture, each part of which comes `after` these parts; returns the graph if one was launched. If
    /// the launch was refused for lack of memory, another call continues it.
    ///
    /// # Safety
    /// As for [`Backend::launch`], for each launch.
    pub(super) unsafe fn launch(
        &mut self,
        stream: &B::Stream,
        capture: &mut Capture<B>,
        after: &[Box<[u32]>],
    ) -> Result<Option<Arc<B::Graph>>, DeviceError> {
        if capture.launched == 0
            && let Some(at) = self.graph_of(capture, after)?
        {
            let kept = &mut self.graphs[at];
            // SAFETY: its nodes have the values that were captured, for which the caller vouches.
            if let Err(refused) = unsafe { self.backend.launch_graph(stream, &kept.graph) } {
                self.graphs.remove(at); // another call launches one by one
                return Err(refused);
            }
            kept.capture = std::mem::take(capture);
            return Ok(Some(kept.graph.clone()));
        }
        while capture.launched < capture.launches.len() {
            let GraphNode { function, group, groups, arguments } = capture.node(capture.launched);
            // SAFETY: the caller's promise. Sequential launches satisfy all edges.
            unsafe { self.backend.launch(stream, function, group, groups, arguments)? };
            capture.launched += 1;
        }
        self.latest = self.backend.has_graphs().then(|| std::mem::take(capture));
        Ok(None)
    }

    /// Returns the number of a graph that makes these launches, if it is worth one. The capture is not stored with it
    /// yet.
    fn graph_of(&mut self, capture: &Capture<B>, after: &[Box<[u32]>]) -> Result<Option<usize>, DeviceError> {
        if !self.backend.has_graphs() || !capture.is_whole || capture.launches.len() < 2 {
            return Ok(None);
        }
        let Self { backend, graphs, latest } = self;
        let latest = latest.take();
        graphs.retain(|kept| {
            backend.is_usable(&kept.graph) && (kept.is_in_flight() || kept.capture.is_shaped_as(capture))
        });
        if let Some(same) = graphs.iter().position(|kept| kept.capture.is_same_as(capture)) {
            return Ok(Some(same));
        }
        let is_idle = |kept: &Kept<B>| !kept.is_in_flight() && kept.capture.is_shaped_as(capture);
        let idle = graphs.iter().position(is_idle);
        if let (true, Some(at)) = (B::NODES_CHANGE, idle) {
            let Kept { graph, capture: known } = &mut graphs[at];
            let graph = Arc::get_mut(graph).expect("a graph that is not in flight has no other reference");
            // SAFETY: the graph is not in flight, and the values are the kernel's own, as for a launch.
            let set = |node| unsafe { backend.set_node(graph, node, &capture.node(node)) };
            let changed = known.differences(capture).try_for_each(set);
            if let Err(refused) = changed {
                graphs.remove(at); // its values are now a mix of two captures
                return Err(refused);
            }
            return Ok(Some(at));
        }
        let comes_again = match latest {
            None => false,
            Some(latest) if B::NODES_CHANGE => latest.is_shaped_as(capture),
            Some(latest) => latest.is_same_as(capture),
        };
        let is_worth_one = comes_again || B::NODES_CHANGE && !graphs.is_empty();
        match (is_worth_one, graphs.len() == MOST_KEPT, idle) {
            (false, ..) | (_, true, None) => return Ok(None),
            (true, true, Some(oldest)) => _ = graphs.remove(oldest),
            (true, false, _) => {}
        }
        let nodes: Vec<_> = capture.nodes().collect();
        // SAFETY: the values are the kernels' own, as for launches.
        let graph = unsafe { backend.graph(&nodes, &capture.edges(after))? };
        graphs.push(Kept { graph: Arc::new(graph), capture: Capture::default() });
        Ok(Some(graphs.len() - 1))
    }
}

impl<B: Backend> Kept<B> {
    fn is_in_flight(&self) -> bool {
        Arc::strong_count(&self.graph) > 1
    }
}

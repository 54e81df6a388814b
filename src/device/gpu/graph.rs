//! Launching several tasks as one graph, which is kept so that it can be launched again.
//!
//! While a run of tasks is being enqueued, its launches are only recorded ([`Capture`]). The recording is divided into
//! parts, each with the launches of one task. A task with reductions has two parts: its body, and the combination of
//! its contributions, because only the combination waits for earlier users of the region. Then the recording is
//! compared with earlier recordings of the same run ([`Known`]). If both have the same launches, the earlier graph is
//! launched again. If only argument values differ, the graph's nodes are first given the new values, provided that the
//! interface supports changing them. Making a graph takes longer than the launches themselves, so a graph is made only
//! when a run has had the same shape twice, or, on interfaces whose nodes cannot be changed, the same shape and values
//! twice.
//!
//! Invariants:
//! 1. The nodes of a graph have the values of the capture that is stored with the graph.
//! 2. A graph in flight is neither changed nor destroyed, because every flight holds a reference to its graph. A
//!    graph whose memory is gone is not launched, even if the same handles refer to other memory by now.
//! 3. The launches of one part run one after the other. A part runs after the parts that were declared as its
//!    predecessors, and after the parts with which it shares scratch memory ([`scratch`](super::scratch)).

use super::Backend;
use crate::error::DeviceError;
use crate::kernel::{ArgumentValue, Groups, KernelText};
use std::sync::Arc;

/// The maximum number of graphs that are kept for one run. Several are needed because values may change while earlier
/// graphs are in flight.
const MOST_KEPT: usize = 4;

/// A kernel in a graph.
pub(crate) struct GraphNode<'a, B: Backend> {
    pub(crate) function: &'a B::Function,
    /// The number of threads per group, in each dimension.
    pub(crate) group: [u32; 3],
    pub(crate) groups: Groups,
    pub(crate) arguments: &'a [ArgumentValue],
}

/// Recorded launches.
pub(super) struct Capture<B: Backend> {
    launches: Vec<Launch<B>>,
    arguments: Vec<ArgumentValue>,
    parts: Vec<Part>,
    /// The parts that each part runs after. The lists of all parts follow each other.
    before: Vec<u32>,
    /// Whether the recording is complete and can become a graph, which means that no part has failed and that no
    /// launch has attributes.
    is_whole: bool,
    /// The number of launches that have already been made one by one.
    launched: usize,
}

struct Launch<B: Backend> {
    function: Arc<B::Function>,
    group: [u32; 3],
    groups: Groups,
    /// The position at which the arguments of this launch end and those of the next launch begin.
    arguments_end: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    /// The index of the part's first launch.
    first: usize,
    /// The position at which the part's predecessors end and those of the next part begin.
    before_end: usize,
    /// Whether the part belongs to the same task as the part before it.
    continues: bool,
}

/// The state that is kept for one run on one device.
pub(super) struct Known<B: Backend> {
    backend: Arc<B>,
    graphs: Vec<Kept<B>>,
    /// The most recent capture, if it was not launched as a graph.
    latest: Option<Capture<B>>,
}

/// A graph, with the capture that its nodes launch.
struct Kept<B: Backend> {
    graph: Arc<B::Graph>,
    capture: Capture<B>,
}

impl<B: Backend> Default for Capture<B> {
    fn default() -> Self {
        let (launches, arguments, parts, before) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { launches, arguments, parts, before, is_whole: true, launched: 0 }
    }
}

impl<B: Backend> Capture<B> {
    /// Begins a new part, which runs after the parts in `after`. The following launches belong to it.
    pub(super) fn begin_part(&mut self, after: &[u32]) {
        self.before.extend_from_slice(after);
        self.parts.push(Part { first: self.launches.len(), before_end: self.before.len(), continues: false });
    }

    /// Begins a new part of the same task, which runs after the current part and those in `after`.
    pub(super) fn continue_part(&mut self, after: &[u32]) {
        self.before.extend(self.parts.len().checked_sub(1).map(|part| part as u32));
        self.begin_part(after);
        self.parts.last_mut().expect("the part has begun").continues = true;
    }

    /// Marks the current task as failed, so that none of the launches of its parts are made.
    pub(super) fn drop_part(&mut self) {
        let first = self.parts.iter().rfind(|part| !part.continues).map_or(0, |part| part.first);
        self.launches.truncate(first);
        self.arguments.truncate(self.launches.last().map_or(0, |launch| launch.arguments_end));
        self.is_whole = false;
    }

    /// Makes the current part run after one more part.
    pub(super) fn run_after(&mut self, part: u32) {
        self.before.push(part);
        self.parts.last_mut().expect("there is a current part").before_end = self.before.len();
    }

    pub(super) fn push(
        &mut self,
        function: Arc<B::Function>,
        kernel: &KernelText,
        groups: Groups,
        arguments: &[ArgumentValue],
    ) {
        self.is_whole &= !groups.has_attributes(); // nodes have none, so such launches are made one by one
        self.arguments.extend_from_slice(arguments);
        let arguments_end = self.arguments.len();
        self.launches.push(Launch { function, group: kernel.group, groups, arguments_end });
    }

    fn node(&self, number: usize) -> GraphNode<'_, B> {
        let Launch { function, group, groups, arguments_end } = &self.launches[number];
        let begin = number.checked_sub(1).map_or(0, |before| self.launches[before].arguments_end);
        GraphNode { function, group: *group, groups: *groups, arguments: &self.arguments[begin..*arguments_end] }
    }

    /// Whether nothing was recorded.
    pub(super) fn is_empty(&self) -> bool {
        self.launches.is_empty()
    }

    /// Returns the nodes and edges of the graph, unless the recording cannot become one.
    pub(super) fn as_graph(&self) -> Option<(Vec<GraphNode<'_, B>>, Vec<Vec<u32>>)> {
        self.is_whole.then(|| (self.nodes().collect(), self.edges()))
    }

    fn nodes(&self) -> impl Iterator<Item = GraphNode<'_, B>> {
        (0..self.launches.len()).map(|number| self.node(number))
    }

    /// Returns the indices of the nodes whose values differ from those in another capture of the same shape.
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
    /// regardless of the arguments.
    fn is_shaped_as(&self, other: &Self) -> bool {
        let alike = |(a, b): (&Launch<B>, &Launch<B>)| Arc::ptr_eq(&a.function, &b.function) && a.group == b.group;
        self.is_whole
            && other.is_whole
            && self.parts == other.parts
            && self.before == other.before
            && self.launches.len() == other.launches.len()
            && self.launches.iter().zip(&other.launches).all(alike)
    }

    /// Returns the indices of each node's predecessors.
    fn edges(&self) -> Vec<Vec<u32>> {
        let mut edges = vec![Vec::new(); self.launches.len()];
        // The last nodes of each part. For a part without launches, these are the last nodes of its predecessors.
        let mut ends: Vec<Vec<u32>> = Vec::with_capacity(self.parts.len());
        let mut begin = 0;
        for (number, part) in self.parts.iter().enumerate() {
            let after = &self.before[std::mem::replace(&mut begin, part.before_end)..part.before_end];
            let mut before: Vec<u32> = after.iter().flat_map(|part| ends[*part as usize].clone()).collect();
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

    /// Launches a capture. Returns the graph if a graph was launched. If the launch is refused for lack of memory, it
    /// can be continued with another call.
    ///
    /// # Safety
    /// The same requirements as for [`Backend::launch`], for each launch in the capture.
    pub(super) unsafe fn launch(
        &mut self,
        stream: &B::Stream,
        capture: &mut Capture<B>,
    ) -> Result<Option<Arc<B::Graph>>, DeviceError> {
        if capture.launched == 0
            && let Some(at) = self.graph_of(capture)?
        {
            let kept = &mut self.graphs[at];
            // SAFETY: the graph's nodes have the captured values, and the caller vouches for those.
            if let Err(refused) = unsafe { self.backend.launch_graph(stream, &kept.graph) } {
                self.graphs.remove(at); // so that another call makes the launches one by one
                return Err(refused);
            }
            kept.capture = std::mem::take(capture);
            return Ok(Some(kept.graph.clone()));
        }
        while capture.launched < capture.launches.len() {
            let GraphNode { function, group, groups, arguments } = capture.node(capture.launched);
            // SAFETY: the caller promises this for each launch. Sequential launches satisfy all edges.
            unsafe { self.backend.launch(stream, function, group, groups, arguments)? };
            capture.launched += 1;
        }
        self.latest = self.backend.has_graphs().then(|| std::mem::take(capture));
        Ok(None)
    }

    /// Returns the index of a graph for these launches, or `None` if a graph does not pay off. The capture is not
    /// stored with the graph yet.
    fn graph_of(&mut self, capture: &Capture<B>) -> Result<Option<usize>, DeviceError> {
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
            // SAFETY: the graph is not in flight, and the values match the kernel's parameters, as for a launch.
            let set = |node| unsafe { backend.set_node(graph, node, &capture.node(node)) };
            let changed = known.differences(capture).try_for_each(set);
            if let Err(refused) = changed {
                graphs.remove(at); // the graph's values are now a mix of two captures
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
        // SAFETY: the values match the kernels' parameters, as for launches.
        let graph = unsafe { backend.graph(&nodes, &capture.edges())? };
        graphs.push(Kept { graph: Arc::new(graph), capture: Capture::default() });
        Ok(Some(graphs.len() - 1))
    }
}

impl<B: Backend> Kept<B> {
    fn is_in_flight(&self) -> bool {
        Arc::strong_count(&self.graph) > 1
    }
}

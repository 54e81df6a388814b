//! The launches of several tasks as one graph, which is kept and launched again.
//!
//! While a run of tasks is being enqueued, its launches are only written down ([`Capture`]), part by part: a part is what one
//! task launches. Then they are compared with what was launched before ([`Known`]). If they are the same the graph of
//! that time is launched once more; where values differ its nodes are given these first, if the interface does that. A graph
//! is made when a run has had the same shape twice, or the same values where nodes keep theirs, since making one takes longer
//! than launching what is in it.
//!
//! Invariants:
//! 1. A graph's nodes have the values of the capture beside it.
//! 2. A graph in flight is not changed, and not destroyed: who has it in flight has a share of it. One whose memory is gone is
//!    not launched, even if the same handles stand for other memory by now.
//! 3. Launches of one part follow each other. A part follows those that it was said to come behind, and the one before it
//!    that used scratch memory if it uses such itself: they may have been given the same.

use super::Backend;
use crate::error::DeviceError;
use crate::kernel::{ArgumentValue, KernelText};
use std::sync::Arc;

/// So many graphs of one run are kept, for values that change while others are in flight.
const MOST_KEPT: usize = 4;

/// A kernel in a graph.
pub(crate) struct GraphNode<'a, B: Backend> {
    pub(crate) function: &'a B::Function,
    /// Threads of a group, and groups.
    pub(crate) group: [u32; 3],
    pub(crate) groups: [u32; 3],
    pub(crate) arguments: &'a [ArgumentValue],
}

/// Launches that were written down.
pub(super) struct Capture<B: Backend> {
    launches: Vec<Launch<B>>,
    arguments: Vec<ArgumentValue>,
    parts: Vec<Part>,
    /// No part of it has failed.
    is_whole: bool,
    /// So many of the launches were made, one by one.
    launched: usize,
}

struct Launch<B: Backend> {
    function: Arc<B::Function>,
    group: [u32; 3],
    groups: [u32; 3],
    /// Where its arguments end, and those of the next begin.
    arguments_end: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    /// Where its launches begin.
    first: usize,
    uses_scratch: bool,
}

/// What is known of one run on one device.
pub(super) struct Known<B: Backend> {
    backend: Arc<B>,
    graphs: Vec<Kept<B>>,
    /// What was launched last, if that was not by a graph.
    latest: Option<Capture<B>>,
}

/// A graph, and what its nodes launch.
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
    /// What is launched from here on is another part.
    pub(super) fn begin_part(&mut self) {
        self.parts.push(Part { first: self.launches.len(), uses_scratch: false });
    }

    /// The part has failed: nothing of it is launched.
    pub(super) fn drop_part(&mut self) {
        let first = self.parts.last().map_or(0, |part| part.first);
        self.launches.truncate(first);
        self.arguments.truncate(self.launches.last().map_or(0, |launch| launch.arguments_end));
        self.is_whole = false;
    }

    /// The part uses scratch memory.
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

    /// The nodes that are given other values by a capture of the same shape.
    fn differences(&self, other: &Self) -> impl Iterator<Item = usize> {
        (0..self.launches.len()).filter(|number| {
            let (ours, theirs) = (self.node(*number), other.node(*number));
            ours.groups != theirs.groups
                || ours.arguments.len() != theirs.arguments.len()
                || !ours.arguments.iter().zip(theirs.arguments).all(|(a, b)| a.is_same(b))
        })
    }

    /// Whether it is what another one is.
    fn is_same_as(&self, other: &Self) -> bool {
        self.is_shaped_as(other) && self.differences(other).next().is_none()
    }

    /// Whether it launches the same kernels in the same order and places, whatever their arguments.
    fn is_shaped_as(&self, other: &Self) -> bool {
        let alike = |(a, b): (&Launch<B>, &Launch<B>)| Arc::ptr_eq(&a.function, &b.function) && a.group == b.group;
        self.is_whole
            && other.is_whole
            && self.parts == other.parts
            && self.launches.len() == other.launches.len()
            && self.launches.iter().zip(&other.launches).all(alike)
    }

    /// The nodes that each comes behind, by their numbers, if parts come `after` these parts.
    fn edges(&self, after: &[Box<[u32]>]) -> Vec<Vec<u32>> {
        let mut edges = vec![Vec::new(); self.launches.len()];
        // The nodes that stand at the end of each part; of one without launches, those of the parts before it.
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

    /// Launches what was captured, of which each part comes `after` these parts; the graph that does so, if it is one. Where it
    /// was refused for want of memory, it goes on when it is called again.
    ///
    /// # Safety
    /// As for [`Backend::launch`], of each.
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
            // SAFETY: its nodes have the values that were captured, for which the caller promises.
            if let Err(refused) = unsafe { self.backend.launch_graph(stream, &kept.graph) } {
                self.graphs.remove(at); // who calls again launches one by one
                return Err(refused);
            }
            kept.capture = std::mem::take(capture);
            return Ok(Some(kept.graph.clone()));
        }
        while capture.launched < capture.launches.len() {
            let GraphNode { function, group, groups, arguments } = capture.node(capture.launched);
            // SAFETY: the caller's promise. One behind the other is an order that all edges allow.
            unsafe { self.backend.launch(stream, function, group, groups, arguments)? };
            capture.launched += 1;
        }
        self.latest = self.backend.has_graphs().then(|| std::mem::take(capture));
        Ok(None)
    }

    /// The number of a graph that launches what was captured, if it is worth one; the capture is not beside it yet.
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
            let graph = Arc::get_mut(graph).expect("who had it in flight has no share any more");
            // SAFETY: nobody has it in flight, and the values are the kernel's own, as for a launch.
            let set = |node| unsafe { backend.set_node(graph, node, &capture.node(node)) };
            let changed = known.differences(capture).try_for_each(set);
            if let Err(refused) = changed {
                graphs.remove(at); // its values are of two captures now
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

//! Records of tasks and dependences as they are registered, for the graph of tasks and for a trace.
//!
//! The graph has every dependence, because histories then keep finished tasks. For a trace they do not, or memory would
//! grow with each task. So a trace lacks dependences on tasks that the histories have forgotten; these had ended before
//! their successors were submitted.

use super::datum::Datum;
use super::graph::GraphLog;
#[cfg(feature = "graph")]
use super::graph::TaskGraph;
use super::node::Meta;
use crate::ids::TaskId;
use crate::sync::Flow;
use crate::trace::{Describe, Tracer};
use std::sync::Arc;

/// See the module.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) graph: Option<GraphLog>,
    pub(crate) tracer: Option<Arc<Tracer>>,
}

impl Recorder {
    /// A task of the program was submitted, perhaps in the body of another.
    #[cold]
    pub(crate) fn task(&self, task: &Meta, parent: impl FnOnce() -> Option<TaskId>) {
        if let Some(graph) = &self.graph {
            graph.task(task.id, &task.name);
        }
        if let Some(tracer) = &self.tracer {
            tracer.submitted(task.id, &task.name, task.location, parent());
        }
    }

    /// A task depends on another because of a data object, if that is known.
    #[cold]
    pub(crate) fn edge(&self, from: TaskId, to: TaskId, flow: Flow, datum: Option<&Datum>) {
        if let Some(graph) = &self.graph {
            graph.edge(from, to, flow);
        }
        if let Some(tracer) = &self.tracer {
            let data = datum.map(|datum| (datum.id, datum as &dyn Describe));
            tracer.dependence(from, to, flow == Flow::Value, data);
        }
    }

    /// Whether finished tasks have to stay in the histories.
    pub(super) fn keeps_finished(&self) -> bool {
        self.graph.is_some()
    }

    /// The graph recorded so far, if it is recorded.
    #[cfg(feature = "graph")]
    pub(crate) fn graph(&self) -> Option<TaskGraph> {
        self.graph.as_ref().map(GraphLog::graph)
    }
}

impl Describe for Datum {
    fn describe(&self) -> (String, u64) {
        (self.to_string(), (self.whole().volume() * self.element_bytes) as u64)
    }
}

//! Recorder of tasks and dependences as they are registered, for the task graph, a trace, or both.
//!
//! While the graph is being recorded, the histories keep finished tasks, so that the graph contains every dependence.
//! If only a trace is recorded, the histories do not keep finished tasks, because memory use would grow with each task.
//! So a trace lacks dependences on tasks that the histories have forgotten. All these tasks had ended before their
//! successors were submitted.

use super::datum::{AccessRecord, Datum};
use super::graph::GraphLog;
#[cfg(feature = "graph")]
use super::graph::TaskGraph;
use super::mode::Mode;
use super::node::{Meta, Submitting};
use crate::ids::TaskId;
use crate::sync::Flow;
use crate::trace::{self, BorderPart, Describe, InRecording, Tracer};
use std::sync::Arc;

/// The recorder of one runtime; see the module documentation.
pub(crate) struct Recorder {
    pub(crate) graph: Option<GraphLog>,
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// If present, the tasks are those of a recording.
    recording: Option<InRecording>,
    /// Whether newcomers wait for nothing and only become predecessors of later tasks.
    waits_for_nothing: bool,
}

impl Recorder {
    pub(crate) fn new(graph: Option<GraphLog>, tracer: Option<Arc<Tracer>>) -> Self {
        Self { graph, tracer, recording: None, waits_for_nothing: false }
    }

    /// Returns a recorder for gates at the border of a frozen graph, for a trace.
    pub(super) fn of_gates(tracer: &Arc<Tracer>, waits_for_nothing: bool) -> Self {
        Self { graph: None, tracer: Some(tracer.clone()), recording: None, waits_for_nothing }
    }

    /// Returns a recorder for the tasks of a recording whose first task is `first`, if there is a trace.
    pub(crate) fn of_recording(&self, first: TaskId) -> Option<Self> {
        let recording = InRecording::begin(self.tracer.clone()?, first);
        Some(Self { recording: Some(recording), ..Self::new(None, self.tracer.clone()) })
    }

    /// Records that the program submitted a task, possibly from the body of another task.
    #[cold]
    pub(crate) fn task(&self, task: &Submitting, parent: impl FnOnce() -> Option<TaskId>) {
        let meta = task.shared();
        if let Some(graph) = &self.graph {
            graph.task(meta.id, &meta.name);
        }
        let Some(tracer) = &self.tracer else { return };
        match &self.recording {
            None => tracer.submitted(meta.id, &meta.name, meta.location, parent()),
            Some(recording) => recording.task(&meta.name, meta.location),
        }
        if tracer.wants_accesses() {
            task.body().accesses(&mut |AccessRecord { datum, block, mode }| {
                let describe = || ((block.volume() * datum.element_bytes) as u64, datum.describe(block));
                let (data, mode) = ((datum.id, datum as &dyn Describe), traced(mode));
                match &self.recording {
                    None => tracer.access(meta.id, data, block, mode, describe),
                    Some(recording) => recording.access(data, block, mode, describe),
                }
            });
        }
    }

    /// Records that the task `to` depends on `from`; each may be a join. `datum` is the data object that causes the
    /// dependence, if known. Returns false if `to` need not wait.
    #[cold]
    pub(super) fn edge(&self, from: &Meta, to: &Meta, flow: Flow, datum: Option<&Datum>) -> bool {
        if self.waits_for_nothing {
            return false;
        }
        if let Some(graph) = self.graph.as_ref().filter(|_| !from.join && !to.join) {
            graph.edge(from.id, to.id, flow);
        }
        let (from, to) = (from.id, to.id);
        if let Some(tracer) = &self.tracer {
            let (data, carries_value) = (datum.map(|datum| (datum.id, datum as &dyn Describe)), flow == Flow::Value);
            match &self.recording {
                None => tracer.dependence(from, to, carries_value, data),
                Some(recording) => recording.dependence(from, to, carries_value, data),
            }
        }
        true
    }

    /// Records which tasks of a recording use each part of its border.
    pub(super) fn border<'a>(&self, border: impl Iterator<Item = (BorderPart, &'a Datum)>) {
        if let Some(recording) = &self.recording {
            recording.border(border.map(|(part, datum)| (part, (datum.id, datum as &dyn Describe))));
        }
    }

    /// Whether finished tasks have to stay in the histories.
    pub(super) fn keeps_finished(&self) -> bool {
        self.graph.is_some()
    }

    /// Returns the graph recorded so far, or `None` if the graph is not being recorded.
    #[cfg(feature = "graph")]
    pub(crate) fn graph(&self) -> Option<TaskGraph> {
        self.graph.as_ref().map(GraphLog::graph)
    }
}

/// Returns the tracer if a task belongs in the trace: internal tasks do not.
pub(crate) fn tracer_of<'a>(tracer: &'a Option<Arc<Tracer>>, task: &Meta) -> Option<&'a Tracer> {
    tracer.as_deref().filter(|_| !task.internal)
}

/// Converts an access mode to its representation in traces.
fn traced(mode: Mode) -> trace::Mode {
    match mode {
        Mode::Concurrent => trace::Mode::Concurrent,
        Mode::Commutative => trace::Mode::Commutative,
        Mode::Reduction(_) => trace::Mode::Reduction,
        mode if mode.sees_nothing() => trace::Mode::Order,
        mode => match (mode.reads(), mode.writes()) {
            (true, false) => trace::Mode::Read,
            (false, true) => trace::Mode::Write,
            (true, true) => trace::Mode::Update,
            (false, false) => trace::Mode::Order,
        },
    }
}

impl Describe for Datum {
    fn describe(&self) -> (String, u64) {
        (self.to_string(), (self.whole().volume() * self.element_bytes) as u64)
    }
}

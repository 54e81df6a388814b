//! Events that the driver records in the trace: bodies, and the states of threads between bodies.
//!
//! Recording has no other effects, and without a trace these functions do nothing.

use super::shared::{Ran, Shared};
#[cfg(feature = "spans")]
use crate::depend::{Context, Meta};
use crate::depend::{OwnedTask, Settle, tracer_of};
use crate::device::{OnDevice, Took};
use crate::engine::{CopyTime, Outcome, Span};
use crate::error::FailureReason;
use crate::ids::{DeviceId, TaskId, UnitId};
use crate::trace::{Between, End, Happened, InState};
use std::any::Any;

/// Returns a span of `tracing` for a body: level `TRACE`, target `thalweg::task`, with name, number, unit and call
/// site. Internal tasks have none.
///
/// If the body waits, its thread may run other bodies before the span is left, so spans of one thread need not be
/// nested.
#[cfg(feature = "spans")]
pub(super) fn span(task: &OwnedTask, context: &Context) -> tracing::Span {
    let Meta { name, id, location, internal, .. } = task.shared();
    if *internal {
        return tracing::Span::none();
    }
    let (unit, file, line) = (context.unit().0, location.file(), location.line());
    tracing::trace_span!(target: "thalweg::task", "task", name = %name, task = id.0, unit, file, line)
}

impl Shared {
    /// If tracing is on, returns the time at which a body begins.
    #[inline]
    pub(super) fn trace_begin(&self) -> Option<u64> {
        self.tracer.as_ref().map(|tracer| tracer.now())
    }

    /// If tracing is on, records that this thread is in a state until the returned value is dropped.
    pub(super) fn trace_state(&self, unit: Option<UnitId>, what: Between) -> Option<InState> {
        let tracer = self.tracer.as_ref()?;
        Some(InState { since: tracer.now(), tracer: tracer.clone(), unit, what })
    }

    /// Like [`Self::trace_state`], but for a thread that waits for tasks.
    pub(super) fn trace_wait(&self) -> Option<InState> {
        self.trace_state(None, Between::Wait)
    }

    /// Records how a body that began at `since` returned.
    #[cold]
    pub(super) fn trace_end(
        &self,
        since: u64,
        task: &OwnedTask,
        (unit, device): (UnitId, Option<DeviceId>),
        ran: Result<(), &Ran>,
    ) {
        let Some(tracer) = tracer_of(&self.tracer, task.shared()) else { return };
        let (id, now) = (task.shared().id, tracer.now());
        let end = match ran {
            Ok(()) | Err(Ran::Ended(Outcome::Done(_))) => End::Done,
            Err(Ran::Away(_)) => End::Detached,
            Err(Ran::Ended(Outcome::Skipped)) => return tracer.note(id, Happened::Poisoned),
            Err(Ran::Ended(Outcome::Failed(FailureReason::Cancelled))) => return tracer.note(id, Happened::Cancelled),
            Err(Ran::Ended(_)) => End::Failed,
        };
        tracer.ran(id, Some(unit), device, (now, now.saturating_sub(since)), end);
    }

    /// If tracing is on, returns a closure that also records the begin of a replay. The arguments are the first tasks
    /// of the recording and of the replay.
    pub(super) fn trace_round(&self, recording: TaskId, replay: TaskId, settle: Option<Settle>) -> Option<Settle> {
        let Some(tracer) = self.tracer.clone() else { return settle };
        Some(Box::new(move |idle| {
            tracer.begun(recording, replay);
            settle.map_or_else(|| Box::new(()) as Box<dyn Any + Send>, |settle| settle(idle))
        }))
    }

    /// Records the run of a task whose time was measured: the time on the device if known, and otherwise the time in
    /// `outcome`. A run without a time ended now.
    pub(super) fn trace_measured(
        &self,
        task: &OwnedTask,
        unit: UnitId,
        (device, on_device, stream): (Option<DeviceId>, Option<OnDevice>, Option<u16>),
        outcome: &Outcome,
    ) {
        let Some(tracer) = tracer_of(&self.tracer, task.shared()) else { return };
        let id = task.shared().id;
        match (outcome, on_device) {
            (Outcome::Done(_), Some(OnDevice { begun, ended, .. })) => {
                let (begun, ended) = (tracer.at_host(begun), tracer.at_host(ended));
                tracer.ran_in(id, Some(unit), (device, stream), (ended, ended.saturating_sub(begun)), End::Done);
            }
            (Outcome::Done(Span { elapsed_ns, ended_ns }), None) => {
                let span = (tracer.at_ns(*ended_ns), tracer.ticks(*elapsed_ns));
                tracer.ran_in(id, Some(unit), (device, stream), span, End::Done);
            }
            (Outcome::Skipped, _) => tracer.note(id, Happened::Poisoned),
            _ => tracer.ran(id, Some(unit), device, (tracer.now(), 0), End::Failed),
        }
    }

    /// Returns the time of a copy that a device made.
    pub(super) fn time_of_copy(&self, took: Took) -> CopyTime {
        let on_device = self.tracer.as_ref().zip(took.on_device).map(|(tracer, times)| {
            let OnDevice { enqueued, begun, ended } = times;
            [enqueued, begun, ended].map(|time| tracer.at_host(time))
        });
        CopyTime { on_device, stream: took.stream, ..CopyTime::alone(took.elapsed_ns) }
    }
}

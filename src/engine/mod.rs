//! The engine: events in, commands out.
//!
//! Dependences, placement and coherence put together into one state machine. It does no I/O, owns no thread and reads no
//! clock: a driver reports what happened ([`Event`], or a submission) and carries out what follows ([`Command`]), on threads or in
//! simulation. All may be called from any thread.
//!
//! *The short way.* On a machine with host memory only, under a policy that leaves ready tasks to whoever is free, there
//! is no placement at all: a ready task is a [`Command::Run`], and nothing is locked but the data it declared.
//!
//! Invariants:
//! 1. Every submitted task is reported finished exactly once, whether it ran, failed, or was skipped.
//! 2. A task is handed out for running at most once, after all its predecessors are finished.
//! 3. A poisoned task is never run: its body is dropped, and it finishes as skipped.

mod assign;
mod bring;
mod command;
mod placement;
mod reserve;

pub(crate) use assign::Needs;
pub(crate) use command::{Command, CopyOrder, Launch, Where};
pub(crate) use placement::Link;
pub(crate) use placement::Placement;

use crate::coherence::CopyId;
use crate::depend::{self, AccessRecord, Arbiter, OwnedTask, Recorder, Submitting, TaskGraph};
use crate::error::{FailureReason, SubmitError, TaskFailure};
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Nanoseconds on the driver's clock.
pub(crate) type Nanos = u64;

/// What happened.
pub(crate) enum Event {
    /// A task that was handed out has ended.
    Finished(OwnedTask, Outcome),
    /// A copy has arrived.
    Copied(CopyId),
}

/// How a task ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The body ran, for so long on the driver's clock.
    Done { elapsed_ns: Nanos },
    /// The body ran and failed.
    Failed(FailureReason),
    /// The body was not run, because of the poison that the task carries.
    Skipped,
}

/// The state machine behind a runtime.
pub(crate) struct Engine {
    arbiter: Arbiter,
    recorder: Option<Recorder>,
    failures: Mutex<Vec<Arc<TaskFailure>>>,
    placement: Option<Mutex<Placement>>,
}

impl Engine {
    pub(crate) fn new(placement: Option<Placement>, record_graph: bool) -> Self {
        Self {
            arbiter: Arbiter::default(),
            recorder: record_graph.then(Recorder::default),
            failures: Mutex::default(),
            placement: placement.map(Mutex::new),
        }
    }

    /// Takes a task that was submitted with these accesses, appends what follows to `out`.
    ///
    /// # Errors
    /// If one of the data was taken meanwhile; then the task is gone.
    #[inline]
    pub(crate) fn submitted(
        &self,
        mut task: Submitting,
        accesses: &[AccessRecord<'_>],
        out: &mut Vec<Command>,
    ) -> Result<(), SubmitError> {
        depend::register(&mut task, accesses, self.recorder.as_ref())?;
        if let Some(recorder) = self.recorder.as_ref().filter(|_| !task.shared().internal) {
            recorder.task(task.shared().id, &task.shared().name);
        }
        if let Some(task) = task.commit() {
            self.ready(task, out);
        }
        Ok(())
    }

    /// Takes an event, appends what follows to `out`.
    #[inline]
    pub(crate) fn on(&self, event: Event, out: &mut Vec<Command>) {
        match event {
            Event::Finished(task, outcome) => {
                if let Some(placement) = &self.placement {
                    placement.lock().finished(&task, &outcome, out);
                }
                self.finished(task, outcome, out);
            }
            Event::Copied(copy) => {
                if let Some(placement) = &self.placement {
                    placement.lock().copied(copy, out);
                }
            }
        }
    }

    /// The failures since the last call.
    pub(crate) fn take_failures(&self) -> Vec<Arc<TaskFailure>> {
        std::mem::take(&mut self.failures.lock())
    }

    /// The graph recorded so far, if it is recorded.
    pub(crate) fn graph(&self) -> Option<TaskGraph> {
        self.recorder.as_ref().map(Recorder::graph)
    }

    /// The placement, for queries.
    pub(crate) fn placement(&self) -> Option<&Mutex<Placement>> {
        self.placement.as_ref()
    }

    /// Nothing is left to wait for but a turn among commutative tasks, and a place.
    #[inline]
    fn ready(&self, task: OwnedTask, out: &mut Vec<Command>) {
        let task = if task.shared().commutative {
            let Some(task) = self.arbiter.acquire(task) else { return };
            task
        } else {
            task
        };
        self.place(task, out);
    }

    #[inline]
    fn finished(&self, mut task: OwnedTask, outcome: Outcome, out: &mut Vec<Command>) {
        match outcome {
            Outcome::Done { .. } => {}
            Outcome::Failed(reason) => self.fail(&task, reason),
            Outcome::Skipped => {
                if let Some(cause) = task.poison().filter(|_| !task.shared().internal) {
                    cause.count_skipped();
                }
            }
        }
        if task.shared().commutative {
            self.arbiter.release(&task, |next| self.place(next, out));
        }
        if task.owned_mut().as_ref().is_none_or(|side| side.tickets.is_empty()) {
            task.finish(|successor| self.ready(successor, out));
            return;
        }
        let combine = |task: &mut OwnedTask, access: usize, block: &_| {
            let combined = catch_unwind(AssertUnwindSafe(|| task.body_mut().combine(access, block)));
            if let Err(payload) = combined {
                self.fail(task, FailureReason::from_panic(payload));
            }
        };
        depend::combine_in_turn(task, combine, |task| task.finish(|successor| self.ready(successor, out)));
    }

    #[inline]
    fn place(&self, task: OwnedTask, out: &mut Vec<Command>) {
        match &self.placement {
            Some(_) if task.poison().is_some() => out.push(Command::Skip(task)),
            None => out.push(Command::Run(task)),
            Some(placement) => placement.lock().ready(task, out),
        }
    }

    #[cold]
    fn fail(&self, task: &OwnedTask, reason: FailureReason) {
        let meta = task.shared();
        let failure = Arc::new(TaskFailure::new(meta.id, &meta.name, meta.location, reason));
        self.failures.lock().push(failure.clone());
        task.set_poison(failure);
    }
}

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
mod loss;
mod placement;
mod reserve;
mod stages;

pub(crate) use assign::Needs;
pub(crate) use command::{Command, CopyOrder, Launch, Where};
pub(crate) use placement::Link;
pub(crate) use placement::Placement;

use crate::coherence::CopyId;
use crate::depend::{self, AccessRecord, Arbiter, Mode, OwnedTask, Recorder, Submitting, TaskGraph, running};
use crate::error::{DeviceError, FailureReason, SubmitError, TaskFailure};
use crate::ids::{DeviceId, TaskId};
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;

/// Nanoseconds on the driver's clock.
pub(crate) type Nanos = u64;

/// What happened.
pub(crate) enum Event {
    /// A task that was handed out has ended.
    Finished(OwnedTask, Outcome),
    /// A copy has arrived.
    Copied(CopyId),
    /// A copy could not be made, by this device.
    CopyFailed(CopyId, DeviceId, DeviceError),
    /// A launched task comes back: its device is gone.
    Returned(OwnedTask),
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
    /// The runtime's id.
    runtime: u64,
    arbiter: Arbiter,
    recorder: Option<Recorder>,
    failures: Mutex<Vec<Arc<TaskFailure>>>,
    placement: Option<Mutex<Placement>>,
}

impl Engine {
    pub(crate) fn new(runtime: u64, placement: Option<Placement>, record_graph: bool) -> Self {
        Self {
            runtime,
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
                let mut device_lost = None;
                let elapsed_ns = match outcome {
                    Outcome::Done { elapsed_ns } => Some(elapsed_ns),
                    Outcome::Failed(reason) => {
                        let is_loss = matches!(&reason, FailureReason::Device(error) if error.is_loss());
                        let failure = self.fail(&task, reason);
                        device_lost = is_loss.then_some(failure);
                        None
                    }
                    Outcome::Skipped => {
                        let others =
                            |cause: &Arc<TaskFailure>| !task.shared().internal && cause.task() != task.shared().id;
                        if let Some(cause) = task.poison().filter(others) {
                            cause.count_skipped();
                        }
                        None
                    }
                };
                if let Some(placement) = &self.placement {
                    placement.lock().finished(&task, elapsed_ns, device_lost.as_ref(), out);
                }
                self.finished(task, out);
            }
            Event::Copied(copy) => {
                if let Some(placement) = &self.placement {
                    placement.lock().copied(copy, out);
                }
            }
            Event::CopyFailed(copy, device, error) => {
                if let Some(placement) = &self.placement {
                    let lost_device = error.is_loss().then_some(device);
                    let fail = |task: Option<&OwnedTask>| self.fail_copy(task, FailureReason::Device(error.clone()));
                    placement.lock().copy_failed(copy, &fail, lost_device, out);
                }
            }
            Event::Returned(task) => {
                if let Some(placement) = &self.placement {
                    placement.lock().returned(task, out);
                }
            }
        }
    }

    /// A task's work is enqueued on its device, which will do it in order: whoever waits for the task need not wait until
    /// it is done. Tasks that will run elsewhere wait for the bytes instead; see [`Placement`].
    ///
    /// Not for commutative tasks and reductions: their end is a matter of the host. Nor for tasks that come after others
    /// without touching what these wrote: who writes it next finds no trace of them on the device.
    pub(crate) fn issued(&self, task: &OwnedTask, out: &mut Vec<Command>) {
        let has_tickets = task.owned().as_ref().is_some_and(|side| !side.tickets.is_empty());
        let mut ends_here = task.shared().commutative || has_tickets;
        task.body().accesses(&mut |access| ends_here |= access.mode == Mode::After);
        if let Some(placement) = self.placement.as_ref().filter(|_| !ends_here) {
            placement.lock().issued(task, out);
            task.release(|successor| self.ready(successor, out));
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
    fn finished(&self, mut task: OwnedTask, out: &mut Vec<Command>) {
        if task.shared().commutative {
            self.arbiter.release(&task, |next| self.place(next, out));
        }
        if task.owned_mut().as_ref().is_none_or(|side| side.tickets.is_empty()) {
            task.finish(|successor| self.ready(successor, out));
            return;
        }
        let combine = |task: &mut OwnedTask, access: usize, block: &_| {
            let combine = || catch_unwind(AssertUnwindSafe(|| task.body().combine(access, block)));
            if let Err(payload) = running::as_part_of(self.runtime, task, combine) {
                let _ = self.fail(task, FailureReason::from_panic(payload));
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
    fn fail(&self, task: &OwnedTask, reason: FailureReason) -> Arc<TaskFailure> {
        let meta = task.shared();
        let failure = Arc::new(TaskFailure::new(meta.id, &meta.name, meta.location, reason));
        self.failures.lock().push(failure.clone());
        task.set_poison(failure.clone());
        failure
    }

    /// A copy could not be made, for a task or to make room.
    #[cold]
    fn fail_copy(&self, task: Option<&OwnedTask>, reason: FailureReason) -> Arc<TaskFailure> {
        let (id, name, location) = match task.map(|task| task.shared()) {
            Some(meta) => (meta.id, format!("a copy for {}", meta.name), meta.location),
            None => (TaskId(u64::MAX), "a copy to make room".to_owned(), Location::caller()),
        };
        let failure = Arc::new(TaskFailure::new(id, &name, location, reason));
        self.failures.lock().push(failure.clone());
        failure
    }
}

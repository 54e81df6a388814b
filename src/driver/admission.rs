//! Admission of tasks: each task is counted, gets its block, and is announced to the body that submits it. If the task
//! is refused, all of these steps are undone.
//!
//! [`Shared::admit`] is compiled for each task type, so its type-independent parts are separate functions.

use super::inside;
use super::shared::Shared;
use crate::depend::{AccessRecord, Body, Child, Domain, Group, Lane, Meta, Own, Side, Submitting, running};
use crate::engine::is_asked_by;
use crate::error::SubmitError;
use crate::ids::TaskId;
use crate::sync::CallSite;
use crate::sync::Pooled;
use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// The description of a task at submission.
pub(crate) struct Description {
    pub(crate) name: Cow<'static, str>,
    pub(crate) location: CallSite,
    pub(crate) priority: i32,
    pub(crate) internal: bool,
    pub(crate) side: Option<Pooled<Side>>,
    /// Set if the task is the child of another task.
    pub(crate) child: Option<Child>,
}

impl Description {
    /// Makes this the description of a member of `group`.
    #[cold]
    pub(crate) fn of_member(mut self, group: &Arc<Group>) -> Self {
        self.side.get_or_insert_default().membership = Some(group.enter());
        self
    }
}

impl Shared {
    /// Creates a task, and counts it as submitted.
    ///
    /// # Errors
    /// Fails if the runtime is shutting down.
    #[inline]
    pub(crate) fn admit<P: Body + 'static>(
        &self,
        description: Description,
        payload: P,
        accesses: &[AccessRecord<'_>],
    ) -> Result<Submitting, SubmitError> {
        let (mut queues, mut is_weak) = (false, false);
        for access in accesses {
            (queues, is_weak) = (queues | access.mode.queues(), is_weak | access.mode.is_weak());
        }
        let Description { name, location, priority, internal, side, child } = description;
        queues |= side.as_ref().is_some_and(|side| !side.turns.is_empty());
        let mut open = true;
        // The task is counted only after its memory has been allocated, so a task whose submission panics before that
        // does not exist.
        let meta = || {
            let (id, lane) = self.count(&mut open);
            Meta { id, name, location, priority, internal, queues, join: false, lane, domain: OnceLock::new() }
        };
        // Usually every access leaves one reference, in one fragment.
        let shares = accesses.len() as u16; // truncation is harmless: each further access costs an increment
        let own = Own { side, child };
        let task = Submitting::new(meta, own, payload, shares, |payload| payload as *mut (dyn Body + 'static));
        if !open || is_weak { self.admit_rare(task, open, is_weak, accesses) } else { Ok(task) }
    }

    /// Counts a task, and stores in `open` whether the runtime admits all tasks.
    #[inline]
    fn count(&self, open: &mut bool) -> (TaskId, Lane) {
        let admission = self.progress.admit();
        *open = admission.open;
        (admission.task, Lane::new(admission.lane))
    }

    /// Admits a task while the runtime does not admit all tasks, or a task whose children have their own regions.
    #[cold]
    fn admit_rare(
        &self,
        task: Submitting,
        open: bool,
        is_weak: bool,
        accesses: &[AccessRecord<'_>],
    ) -> Result<Submitting, SubmitError> {
        let Meta { lane, internal, .. } = task.shared();
        if !open && let Err(refusal) = self.admit_late(lane.get(), *internal) {
            if self.is_in_child() {
                std::mem::forget(task); // the lock of its group may be held forever
            }
            return Err(refusal);
        }
        if is_weak {
            let visit = |visit: &mut dyn FnMut(AccessRecord<'_>)| accesses.iter().copied().for_each(visit);
            let domain = Domain::new(task.shared(), task.owned().child.as_ref(), visit);
            let _first = task.shared().domain.set(Arc::new(domain));
        }
        Ok(task)
    }

    /// Registers a task that is submitted inside a body, before that body ends.
    ///
    /// # Errors
    /// Fails if a policy submits the task while the engine is calling that policy.
    #[inline]
    pub(crate) fn announce(&self, task: &Submitting) -> Result<(), SubmitError> {
        if running::is_inside(self.id) {
            if is_asked_by(self.id) {
                return Err(self.uncount(task.shared().lane.get(), SubmitError::InsidePolicy { call: "submit" }));
            }
            self.nested.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }

    /// Rejects a task that arrives while the runtime is shutting down, unless it belongs to a task that was submitted
    /// earlier.
    #[cold]
    fn admit_late(&self, lane: u8, internal: bool) -> Result<(), SubmitError> {
        if self.stays_open(internal) {
            return Ok(());
        }
        Err(self.uncount(lane, self.broken().err().unwrap_or(SubmitError::ShutDown)))
    }

    /// Returns whether a task is still admitted although not all tasks are. Notifies a replay that is under way.
    #[cold]
    pub(super) fn stays_open(&self, internal: bool) -> bool {
        if self.is_in_child() {
            return false;
        }
        if self.progress.is_replaying()
            && let Some(interrupt) = self.interrupt.get()
        {
            interrupt();
        }
        let belongs = internal || inside::in_body(self.id);
        !self.progress.is_closing() || belongs && !self.progress.is_closed()
    }

    /// Undoes the counting of a task.
    #[cold]
    pub(crate) fn uncount(&self, lane: u8, error: SubmitError) -> SubmitError {
        self.progress.finish(None, lane, false);
        self.tell_waiters();
        error
    }

    /// Undoes the counting of tasks.
    #[cold]
    pub(super) fn uncount_all(&self, lane: u8, tasks: usize) {
        (0..tasks).for_each(|_| self.progress.finish(None, lane, false));
        self.tell_waiters();
    }

    /// Counts a task that the engine has refused as finished.
    #[cold]
    pub(crate) fn refused(&self, (error, task): (SubmitError, Submitting)) -> SubmitError {
        let error = self.uncount(task.shared().lane.get(), error);
        drop(task); // nothing waits for the task, but its captured values may wait for other tasks
        error
    }
}

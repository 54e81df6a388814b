//! Batched submission on the fast path: work common to all tasks that are submitted together is done once per batch.
//!
//! A batch gets its IDs with one addition. Its tasks are entered while their data objects are locked, at most 32 tasks
//! at a time (`depend/batch.rs`), then queued, and announced by a single wake-up. After that, the submitter checks the
//! window. So tasks of other submitters can come between two batches.

use super::host::Host;
use super::state::Threads;
use crate::depend::{AccessRecord, Batch, Body, Lane, MOST_TOGETHER, Meta, Own, Submitting, Together};
use crate::driver::admission::Description;
use crate::driver::progress::Admission;
use crate::driver::shared::{BreakOnUnwind, Shared};
use crate::error::SubmitError;
use crate::ids::TaskId;
use std::mem::forget;
use std::ops::Range;
use std::sync::OnceLock;

/// Tasks that were counted as submitted. Those that are not entered are counted as finished when this is dropped.
struct Counted<'a> {
    shared: &'a Shared,
    tasks: usize,
    lane: u8,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.shared.uncount_all(self.lane, self.tasks);
    }
}

impl Threads {
    /// Submits one task for each of these numbers, in order, all with the same description. The caller must not be
    /// inside a body, the tasks must not have children, and every check that is possible before the tasks are entered
    /// must have been made.
    ///
    /// # Errors
    /// Fails if one of the data objects was taken meanwhile or if the runtime is shutting down. Tasks earlier in the
    /// order may already have been submitted.
    pub(crate) fn submit_together<P: Body + 'static>(
        &self,
        numbers: Range<usize>,
        description: &Description,
        accesses: &impl Together,
        mut payload: impl FnMut(usize) -> P,
    ) -> Result<(), SubmitError> {
        debug_assert!(self.on_fast_path(), "placed tasks are entered one by one");
        if numbers.is_empty() {
            return Ok(());
        }
        // User code (operations of reductions) runs here and in `payload`. At these points every counted task has been
        // entered, so that code may wait for all of them.
        accesses.model(numbers.start, |model| {
            let (queues, shares) = (model.iter().any(|access| access.mode.queues()), model.len() as u16);
            let meta = |id, lane| {
                let &Description { ref name, location, priority, internal, .. } = description;
                let (id, name, lane) = (TaskId(id), name.clone(), Lane::new(lane));
                Meta { id, name, location, priority, internal, queues, join: false, lane, domain: OnceLock::new() }
            };
            let most = self.shared.window.stride().min(MOST_TOGETHER);
            let (mut first, mut batch) = (numbers.start, Batch::new());
            let mut payloads = Vec::with_capacity(most.min(numbers.len()));
            while first < numbers.end {
                let tasks = most.min(numbers.end - first);
                payloads.extend((first..first + tasks).map(&mut payload));
                let Admission { task: TaskId(id), lane, open } = self.shared.progress.admit_many(tasks as u64);
                let counted = Counted { shared: &self.shared, tasks, lane };
                if !open && !self.shared.stays_open(description.internal) {
                    drop(counted);
                    return Err(self.shared.broken().err().unwrap_or(SubmitError::ShutDown));
                }
                for (id, payload) in (id..).zip(payloads.drain(..)) {
                    let unsize = |payload| payload as *mut (dyn Body + 'static);
                    batch.push(Submitting::new(|| meta(id, lane), Own::default(), payload, shares, unsize));
                }
                let unless_entered = BreakOnUnwind { shared: &self.shared, during: "a submission" };
                let entered =
                    Host::with(self.shared.id, |host| self.enter_together(&mut batch, first, (model, accesses), host));
                forget(unless_entered);
                if let Err(error) = entered {
                    drop(counted);
                    drop(batch); // nothing waits for these tasks, but their captured values may wait for others
                    return Err(error);
                }
                forget(counted);
                first += tasks;
            }
            Ok(())
        })
    }

    fn enter_together(
        &self,
        batch: &mut Batch,
        first: usize,
        accesses: (&[AccessRecord<'_>], &impl Together),
        host: Option<&Host>,
    ) -> Result<(), SubmitError> {
        let (queue, mut ready) = (host.map(|host| &host.queue), 0);
        self.shared.engine.submitted_together(batch, first, accesses, |task| {
            self.ready.push_submitted(task, queue);
            ready += 1;
        })?;
        if ready > 0 {
            self.shared.idle.wake(ready);
        }
        self.respect_window(host);
        Ok(())
    }
}

//! The engine: takes events and returns commands.
//!
//! This state machine combines dependences, placement and coherence. It does no I/O, owns no thread and reads no
//! clock: a driver reports what has happened ([`Event`], or a submission) and carries out the resulting [`Command`]s,
//! either on threads or in simulation. All functions may be called from any thread.
//!
//! *The fast path* ([`fast_path`]). If the machine has only host memory and the policy leaves ready tasks to any free
//! unit, there is no placement and there are no commands: ready tasks are handed over as soon as they are found.
//!
//! Invariants:
//! 1. Every submitted task is reported finished exactly once, whether it ran, failed, or was skipped.
//! 2. A task is handed out for running at most once, after all its predecessors are finished.
//! 3. A poisoned task is never run: its body is dropped, and it finishes as skipped.
//! 4. Any value whose drop may run a user's destructor is dropped while no lock is held: bodies by their owners,
//!    failures by [`failures`].

mod combining;
mod command;
mod event;
pub(crate) mod failures;
mod fast_path;
#[cfg(test)]
mod issued_tests;
mod lock;
#[cfg(test)]
mod memory_tests;
mod placement;
mod queries;
mod replay;
mod scheduler;

pub(crate) use command::{Command, CopyOrder, Launch, Release, ReplicaRef};
pub(crate) use event::{CopyTime, Event, Nanos, Outcome, Span};
pub(crate) use failures::{FailureLog, WaitBegun};
pub(crate) use lock::PlacementLock;
pub(crate) use placement::{Across, CopyWait, Hope, MemoryWait, Needs, Placement, Traffic, Whereabouts, bytes_in_each};
pub(crate) use queries::Counts;
pub(crate) use scheduler::{Scheduler, is_asked_by};

use crate::coherence::ReplicaId;
use crate::depend::{self, AccessRecord, Datum, Leftover, Mode, OwnedTask, Recorder, Residence, Submitting, running};
use crate::error::{FailureReason, SubmitError, TaskFailure};
use crate::ids::{Iteration, SpaceId, TaskId};
use crate::sched::{RegionUse, SubmittedTask};
use crate::sync::CallSite;
use crate::sync::drop_quietly;
use crate::trace::Happened;
use combining::Combining;
use smallvec::SmallVec;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// Number of old failures that are inspected for possible dropping on each new failure. Greater than 1, so that the
/// inspection keeps up with new failures.
const SWEEP_AT_FAILURE: usize = 2;

/// Approximate number of tasks that each unit holds at a time if tasks are placed; used for reductions.
const MOST_GIVEN: usize = 4;

/// A task that was refused on entry, because one of its data objects was taken after the task had been checked.
pub(crate) type Refused = Box<(SubmitError, Submitting)>;

/// The entered task if it waits for nothing, and the work that registration has left to do.
type Entered = (Option<OwnedTask>, Option<Box<Leftover>>);

/// The state machine of a runtime.
pub(crate) struct Engine {
    /// ID of the runtime.
    runtime: u64,
    /// Number of tasks that can run concurrently.
    width: usize,
    recorder: Option<Recorder>,
    /// Number of threads at the border of a replay, which may have many gates.
    at_borders: AtomicUsize,
    failures: Arc<FailureLog>,
    placement: Option<PlacementLock>,
    /// Whether the policy is notified of tasks at submission.
    looks_ahead: bool,
}

/// Returns whether a task releases its successors as soon as its work is enqueued on its device. The device executes
/// its queue in order, so successors on the device need not wait until the work is done. Tasks that will run elsewhere
/// wait for the bytes instead; see [`Placement`].
///
/// Does not apply to commutative tasks, tasks that may be awaited, and reductions that the host combines, because the
/// host handles their ends. Nor does it apply to tasks that a token orders or that come after other tasks without
/// touching the data those tasks wrote, because their successors would find no trace of them on the device.
pub(crate) fn releases_early(task: &OwnedTask) -> bool {
    let awaited = |side: &depend::Side| side.awaited;
    let mut ends_here = task.owned().as_deref().is_some_and(awaited);
    let ends_with_it = |access: &AccessRecord<'_>| match access.mode {
        Mode::Commutative => true,
        Mode::Reduction(_) => !access.is_reduced_in_place(),
        mode => mode.sees_nothing(),
    };
    task.body().accesses(&mut |access| {
        ends_here |= ends_with_it(&access) || access.datum.residence == Residence::Nowhere;
    });
    !ends_here
}

impl Engine {
    /// Creates the engine of a runtime with this number of units.
    pub(crate) fn new(runtime: u64, units: usize, placement: Option<Placement>, recorder: Option<Recorder>) -> Self {
        let width = if placement.is_some() { units * MOST_GIVEN } else { units };
        let failures = Arc::default();
        let looks_ahead = placement.as_ref().is_some_and(Placement::looks_ahead);
        let placement = placement.map(|placement| PlacementLock::new(runtime, placement, &failures));
        Self { runtime, width, recorder, at_borders: AtomicUsize::new(0), failures, placement, looks_ahead }
    }

    /// Takes a task that was submitted with these accesses. Appends the resulting commands to `out`.
    ///
    /// # Errors
    /// Returns the task in the error if one of its data objects was taken meanwhile.
    pub(crate) fn submitted(
        &self,
        task: Submitting,
        accesses: &[AccessRecord<'_>],
        out: &mut Vec<Command>,
    ) -> Result<(), Refused> {
        let (task, leftover) = self.enter(task, accesses)?;
        if let Some(leftover) = leftover {
            self.clear_up(*leftover, out);
        }
        if let Some(task) = task {
            self.ready(task, false, out);
        }
        Ok(())
    }

    /// Enters a task into the dependence histories. Returns the task if it waits for nothing, and the work that is
    /// left to do.
    #[inline]
    fn enter(&self, mut task: Submitting, accesses: &[AccessRecord<'_>]) -> Result<Entered, Refused> {
        let mut after = self.looks_ahead.then(Vec::new);
        let leftover = match depend::register(&mut task, accesses, self.recorder.as_ref(), after.as_mut()) {
            Ok(leftover) => leftover,
            Err(error) => return Err(Box::new((error, task))),
        };
        if let Some(recorder) = self.recorder.as_ref().filter(|_| !task.shared().internal) {
            recorder.task(&task, || running::task_here(self.runtime));
        }
        if let Some(after) = after {
            self.announce(&task, accesses, &after);
        }
        Ok((task.commit(), leftover))
    }

    /// Notifies the policy of an entered task, before the task can be ready.
    #[cold]
    fn announce(&self, task: &Submitting, accesses: &[AccessRecord<'_>], after: &[TaskId]) {
        let Some(placement) = self.placement.as_ref().filter(|_| !task.shared().internal) else { return };
        let (meta, side) = (task.shared(), task.owned().as_ref());
        let regions: SmallVec<[RegionUse; 8]> = accesses.iter().filter_map(region_use).collect();
        placement.lock().submitted(&SubmittedTask {
            id: meta.id,
            name: &meta.name,
            bytes: Needs::of(accesses).bytes,
            cost: side.and_then(|side| side.cost),
            position: side.and_then(|side| side.position.as_ref()),
            near: side.and_then(|side| side.near),
            regions: &regions,
            after,
        });
    }

    /// Handles the end of a task whose body has run. Appends the resulting commands to `out`.
    #[inline]
    pub(crate) fn done(&self, task: OwnedTask, span: Span, out: &mut Vec<Command>) {
        if let Some(placement) = &self.placement {
            self.note_parts(&task);
            placement.lock().finished(&task, true, Some(span), None, out);
        }
        self.finished(task, out);
    }

    /// Records the failures of the individual parts of a task that stands for several tasks.
    fn note_parts(&self, task: &OwnedTask) {
        if let Some(parts) = task.body().parts() {
            parts.failures().into_iter().for_each(|failure| self.failures.push(failure));
            self.failures.sweep(SWEEP_AT_FAILURE);
            self.failures.tell();
        }
    }

    /// Handles the end of a task that may have failed or may not have run at all.
    #[cold]
    fn ended(&self, task: OwnedTask, outcome: Outcome, out: &mut Vec<Command>) {
        if let Outcome::Done(span) = outcome {
            return self.done(task, span, out);
        }
        let began = !matches!(outcome, Outcome::Skipped);
        let device_lost = self.note(&task, outcome);
        if let Some(placement) = &self.placement {
            placement.lock().finished(&task, began, None, device_lost.as_ref(), out);
        }
        self.failures.tell();
        self.finished(task, out);
    }

    /// Records how a task ended. Returns the failure if it is the loss of a device.
    #[cold]
    fn note(&self, task: &OwnedTask, outcome: Outcome) -> Option<Arc<TaskFailure>> {
        match outcome {
            Outcome::Done(_) | Outcome::PartFailed => None,
            Outcome::Failed(reason) => {
                let is_loss = matches!(&reason, FailureReason::Device(error) if error.is_loss());
                let failure = self.fail(task, reason);
                self.failures.sweep(SWEEP_AT_FAILURE);
                is_loss.then_some(failure)
            }
            Outcome::FailedAndLost(reason) => {
                let failure = self.fail(task, reason);
                self.failures.sweep(SWEEP_AT_FAILURE);
                Some(failure)
            }
            Outcome::Skipped => {
                // A replayed task may have failed itself in an earlier replay, so the cause may have the same task ID.
                let is_other = |cause: &TaskFailure| cause.task() != task.shared().id || task.is_in_rounds();
                let others = |cause: &Arc<TaskFailure>| !task.shared().internal && is_other(cause);
                if let Some(cause) = task.poison().filter(others) {
                    cause.count_skipped();
                    task.body().failed(&cause);
                }
                None
            }
        }
    }

    /// Handles an event. Appends the resulting commands to `out`.
    pub(crate) fn on(&self, event: Event<'_>, out: &mut Vec<Command>) {
        match event {
            Event::Finished(task, Outcome::Done(span)) => self.done(task, span, out),
            Event::Finished(task, outcome) => self.ended(task, outcome, out),
            event => {
                if let Some(placement) = &self.placement {
                    self.on_placed(event, placement, out);
                }
            }
        }
    }

    /// Records what has happened to a task, if there is a trace.
    fn note_in_trace(&self, task: &OwnedTask, what: Happened) {
        let recorder = self.recorder.as_ref();
        if let Some(tracer) = recorder.and_then(|recorder| depend::tracer_of(&recorder.tracer, task.shared())) {
            tracer.note(task.shared().id, what);
        }
    }

    /// Gives a unit a ready task for which `wanted` returns true, if there is such a task, regardless of the policy
    /// and of the unit's other tasks.
    pub(crate) fn claim(&self, unit: usize, wanted: &dyn Fn(&OwnedTask) -> bool, out: &mut Vec<Command>) {
        self.placement.iter().for_each(|placement| placement.lock().claim(unit, wanted, out));
    }

    /// Handles an event that concerns placed tasks, copies or memory.
    fn on_placed(&self, event: Event<'_>, placement: &PlacementLock, out: &mut Vec<Command>) {
        match event {
            Event::Issuing(task) => {
                let cause = placement.lock().lost_since_launch(task);
                cause.into_iter().for_each(|cause| task.set_poison(cause));
            }
            Event::Issued(task, share) => self.issued(task, share, placement, out),
            Event::PartFailed(task, lost, reason) => {
                let known = task.poison();
                let cause = known.unwrap_or_else(|| {
                    self.failures.sweep(SWEEP_AT_FAILURE);
                    self.fail(task, reason)
                });
                let mut placement = placement.lock();
                lost.iter().for_each(|device| placement.device_lost(device.space(), &cause, out));
            }
            Event::Suspended(task) => placement.lock().suspended(task, out),
            Event::Resumed(task) => placement.lock().resumed(task),
            Event::Returned(task) => {
                self.note_in_trace(&task, Happened::Returned);
                placement.lock().returned(task, out);
            }
            Event::Copied(copy, time) => placement.lock().copied(copy, time, out),
            Event::Refused(task, error) => {
                self.note_in_trace(&task, Happened::Refused);
                let refusal = error.as_ref().and_then(|(device, error)| Some((device.space(), error.refused_bytes()?)));
                let fail = |task: &OwnedTask, in_use| {
                    let (_, error) = error.clone().expect("a task returned without an error does not fail");
                    self.fail(task, FailureReason::Device(error.with_in_use(in_use)))
                };
                placement.lock().refused(task, refusal, &fail, out);
            }
            Event::CopyFailed(copy, device, error) => {
                if let Some(bytes) = error.refused_bytes() {
                    let reason = |in_use| FailureReason::Device(error.clone().with_in_use(in_use));
                    let fail = |task: &OwnedTask, in_use| self.fail(task, reason(in_use));
                    if placement.lock().copy_refused(copy, bytes, &fail, out) {
                        return;
                    }
                }
                let lost_device = error.is_loss().then_some(device);
                let fail = |task: Option<&OwnedTask>| self.fail_copy(task, FailureReason::Device(error.clone()));
                placement.lock().copy_failed(copy, &fail, lost_device, out);
            }
            Event::Released(release) => placement.lock().released(&release, out),
            Event::Finished(..) => unreachable!("the caller handles `Finished`"),
        }
    }

    /// Returns an ID for a new replica.
    pub(crate) fn new_replica(&self) -> ReplicaId {
        self.placed().lock().new_replica()
    }

    /// Notes that a new data object starts out in foreign memory, as the given replica in a device's space.
    pub(crate) fn adopt(&self, datum: &Datum, replica: ReplicaId, space: SpaceId, out: &mut Vec<Command>) {
        self.placed().lock().adopt(datum, replica, space, out);
    }

    /// Notes that devices use a new data object directly in its home memory, each device through the given replica.
    pub(crate) fn alias(&self, datum: &Datum, aliases: &[(ReplicaId, SpaceId)], out: &mut Vec<Command>) {
        self.placed().lock().alias(datum, aliases, out);
    }

    /// Notes that a new data object has a home that can leave for the disk.
    pub(crate) fn add_home(&self, datum: &Datum, is_resident: bool, out: &mut Vec<Command>) {
        self.placed().lock().add_home(datum, is_resident, out);
    }

    fn placed(&self) -> &PlacementLock {
        self.placement.as_ref().expect("a machine with devices has placement")
    }

    /// Frees idle replicas after a device has refused to allocate `bytes` bytes for a task that is being enqueued.
    pub(crate) fn make_room(&self, space: SpaceId, bytes: u64, out: &mut Vec<Command>) -> Hope {
        self.placed().lock().make_room(space, bytes, out)
    }

    /// Handles a task whose work is enqueued on its device, and releases its successors if they need not wait for its
    /// end ([`releases_early`]).
    fn issued(&self, task: &OwnedTask, share: u32, placement: &PlacementLock, out: &mut Vec<Command>) {
        self.note_parts(task);
        let releases = releases_early(task);
        placement.lock().enqueued(task, share, releases, out);
        if releases {
            task.release(|successor| self.ready(successor, true, out));
        }
    }

    /// Handles a task that waits for nothing except a turn in its groups and a place to run. `follows` tells whether
    /// the end of another task made this task ready; otherwise it was ready at submission.
    #[inline]
    fn ready(&self, task: OwnedTask, follows: bool, out: &mut Vec<Command>) {
        if task.shared().join {
            return self.pass(task, out);
        }
        if let Some(task) = self.in_turn(task) {
            self.place(task, follows, out);
        }
    }

    /// Returns the task if it is its turn in all of its groups. Otherwise the task waits in a group, and is placed
    /// after the turns of the tasks ahead of it.
    #[inline]
    fn in_turn(&self, task: OwnedTask) -> Option<OwnedTask> {
        if task.shared().queues { depend::take_turns(depend::let_in(task, self.width)?) } else { Some(task) }
    }

    /// Does the work that registration has left to do.
    #[cold]
    fn clear_up(&self, leftover: Leftover, out: &mut Vec<Command>) {
        let Leftover { joins, groups } = leftover;
        joins.into_iter().for_each(|join| self.pass(join, out));
        running::inside(self.runtime, || drop_quietly(|| drop(groups)));
    }

    /// Finishes a ready join after it has combined its contributions. Its successors may be joins too. A loop handles
    /// those, because a chain of joins can be too long for recursion.
    #[cold]
    fn pass(&self, join: OwnedTask, out: &mut Vec<Command>) {
        let mut joins = vec![join];
        while let Some(join) = joins.pop() {
            let Some(join) = self.arrived(join, &mut joins, out) else { continue };
            let successors = |successor: OwnedTask| match successor.shared().join {
                true => joins.push(successor),
                false => self.ready(successor, true, out),
            };
            if join.drops_body() {
                self.complete(&join);
                running::inside(self.runtime, || join.finish(successors));
            } else {
                join.finish(successors);
            }
        }
    }

    /// Lets a join do its work, unless one of its predecessors has failed.
    fn complete(&self, join: &OwnedTask) {
        let complete = || catch_unwind(AssertUnwindSafe(|| join.body().complete()));
        if !join.is_poisoned()
            && let Err(payload) = running::as_part_of(self.runtime, join, complete)
        {
            let _ = self.fail(join, FailureReason::from_panic(payload));
        }
    }

    fn finished(&self, mut task: OwnedTask, out: &mut Vec<Command>) {
        if task.shared().queues {
            depend::give_up_turns(&mut task, |next| self.place(next, true, out));
        }
        if !has_contributions(&task) {
            return self.let_go(task, out);
        }
        depend::combine_in_turn(task, &mut Combining { engine: self, out });
    }

    /// Releases the successors of a task that has left all of its contributions.
    #[inline]
    fn let_go(&self, task: OwnedTask, out: &mut Vec<Command>) {
        match task.is_in_rounds() {
            true => self.done_round(task, &mut |task| out.push(Command::Run(task))),
            false => depend::finish(task, |successor| self.ready(successor, true, out)),
        }
    }

    #[inline]
    fn place(&self, task: OwnedTask, follows: bool, out: &mut Vec<Command>) {
        match &self.placement {
            Some(_) if task.is_poisoned() => out.push(Command::Skip(task)),
            None => out.push(Command::Run(task)),
            Some(placement) => placement.lock().ready(task, follows, out),
        }
    }

    #[cold]
    fn fail(&self, task: &OwnedTask, reason: FailureReason) -> Arc<TaskFailure> {
        let meta = task.shared();
        let failure = TaskFailure::new(meta.id, &meta.name, meta.location, reason);
        let failure = Arc::new(failure.in_iteration(task.body().iteration()));
        self.failures.push(failure.clone());
        task.body().failed(&failure);
        task.set_poison(failure.clone());
        failure
    }

    /// Records a failed copy, which was made either for a task or to make room.
    #[cold]
    fn fail_copy(&self, task: Option<&OwnedTask>, reason: FailureReason) -> Arc<TaskFailure> {
        let (id, name, location) = match task.map(|task| task.shared()) {
            Some(meta) => (meta.id, format!("a copy for {}", meta.name), meta.location),
            None => (failures::NO_TASK, "a copy to make room".to_owned(), CallSite::caller()),
        };
        let iteration = task.map_or(Iteration::NONE, |task| task.body().iteration());
        let failure = Arc::new(TaskFailure::new(id, &name, location, reason).in_iteration(iteration));
        self.failures.push(failure.clone());
        task.into_iter().for_each(|task| task.body().failed(&failure));
        failure
    }
}

/// Returns a policy's view of an access; `None` if the access moves no bytes.
fn region_use(access: &AccessRecord<'_>) -> Option<RegionUse> {
    let &AccessRecord { datum, block, mode } = access;
    let moves = datum.residence == Residence::Anywhere && !mode.sees_nothing() && !block.is_empty();
    moves.then(|| RegionUse {
        data: datum.id,
        block: *block,
        bytes: access.bytes(),
        reads: mode.reads(),
        writes: mode.writes(),
    })
}

/// Returns whether a task has private replicas to combine after it has run.
#[inline]
fn has_contributions(task: &OwnedTask) -> bool {
    task.owned().as_ref().is_some_and(|side| side.has_contributions())
}

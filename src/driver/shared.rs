//! State that all threads of a runtime share under either driver: the engine, the counters, and the lists of waiting
//! and sleeping threads. Also contains the steps that every task goes through wherever it runs: it is counted, run
//! under a guard, and reported.
//!
//! This is a part of the driver ([`super::Driver::shared`]), but it does not depend on the driver: nothing is queued,
//! launched or copied here.
//!
//! Invariant: every admitted task is counted as finished exactly once, by [`Shared::end`] or one of its variants.

use super::conflict::{ConflictDetector, Entered};
use super::detached::Away;
use super::inside;
use super::progress::Progress;
use super::reasons::{Queues, explain_all};
use super::replays::Session;
use super::sightings::Sightings;
use super::waiters::Waiters;
use super::watch::{Stall, Watch, begun_tasks};
use super::window::Window;
use crate::depend::{
    Body, Context, Env, ExposedTask, Leaving, Meta, OwnedTask, Stop, SuspendedTasks, running, tracer_of,
};
use crate::engine::{Command, Engine, Event, Outcome, Span};
use crate::error::{FailureReason, SubmitError};
use crate::ids::UnitId;
use crate::machine::{Machine, UnitKind};
use crate::memory::{DataCell, Home, sanitize};
use crate::sync::{Sleep, drop_quietly};
use crate::trace::{Happened, Tracer};
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

/// State shared by all threads of a runtime; see the module documentation.
pub(crate) struct Shared {
    /// Process-wide unique ID of this runtime.
    pub(crate) id: u64,
    pub(crate) machine: Machine,
    pub(crate) engine: Engine,
    /// The sleeping threads that execute tasks, indexed by their unit.
    pub(crate) idle: Arc<Sleep>,
    pub(crate) waiters: Waiters,
    pub(crate) window: Window,
    pub(crate) progress: Progress,
    /// Number of tasks submitted in bodies. A wait for the tasks of those bodies includes these submitted tasks.
    pub(crate) nested: CachePadded<AtomicU64>,
    /// Number of bytes that loop fusion has saved from being read again.
    pub(crate) spared: AtomicU64,
    /// Number of tasks that hosting threads of device units have run in host memory because there is no CPU unit.
    pub(crate) on_hosts: AtomicU64,
    /// The task that each unit's host is running, and last the task of a guest that stands in for unit 0's host.
    pub(super) running: Box<[CachePadded<ExposedTask>]>,
    pub(crate) conflicts: Option<ConflictDetector>,
    /// Whether bodies run on guarded copies of their regions.
    pub(crate) sanitizes: bool,
    /// Tasks that continue without occupying a thread.
    pub(super) away: Away,
    /// Suspended tasks: their bodies wait, and their stacks have nothing else to run.
    pub(super) suspended: SuspendedTasks,
    /// Set when no further body may run, because the program is unwinding.
    cancelled: AtomicBool,
    /// Set when this process is a forked child of the process that has the runtime's threads.
    is_in_child: AtomicBool,
    /// The graph being replayed, and the function to call when another thread submits during the replay.
    pub(super) session: Session,
    pub(super) interrupt: OnceLock<Box<dyn Fn() + Send + Sync>>,
    watch: Watch,
    /// Callback that a thread of the program calls after a wait, when nothing is pending.
    pub(crate) on_rest: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// For running tasks, the times at which they were first seen running.
    pub(super) sightings: Sightings,
    /// Context of the runtime's internal tasks, which run in host memory.
    home: Context,
    /// Internal failure of the runtime itself, after which tasks may never finish.
    broken: OnceLock<String>,
    /// Whether the program has abandoned the runtime, which then counts as broken, too.
    abandoned: AtomicBool,
    /// The trace recorder, if tracing is on.
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// Memory that could not be freed while the threads were still running.
    kept: Mutex<Vec<Arc<DataCell>>>,
}

/// The result of a body that did not complete its task successfully.
pub(crate) enum Ran {
    /// The task has ended.
    Ended(Outcome),
    /// The task continues without occupying a thread.
    Away(Leaving),
}

impl Shared {
    pub(crate) fn new(
        id: u64,
        machine: Machine,
        engine: Engine,
        conflicts: Option<ConflictDetector>,
        window: Window,
        watch: Watch,
        tracer: Option<Arc<Tracer>>,
    ) -> Self {
        Self {
            id,
            engine,
            idle: Arc::new(Sleep::new()),
            waiters: Waiters::default(),
            window,
            progress: Progress::new(machine.num_units()),
            nested: CachePadded::default(),
            spared: AtomicU64::new(0),
            on_hosts: AtomicU64::new(0),
            running: (0..machine.num_units() + 1).map(|_| CachePadded::default()).collect(),
            conflicts,
            sanitizes: false,
            away: Away::new(machine.num_units()),
            suspended: SuspendedTasks::default(),
            cancelled: AtomicBool::new(false),
            is_in_child: AtomicBool::new(false),
            session: Session::default(),
            interrupt: OnceLock::new(),
            watch,
            on_rest: OnceLock::new(),
            sightings: Sightings::default(),
            home: Context {
                runtime: id,
                entrance: Weak::new(),
                unit: UnitId(0),
                kind: UnitKind::Cpu,
                device: None,
                inner_cores: 1,
                group: None,
            },
            broken: OnceLock::new(),
            abandoned: AtomicBool::new(false),
            kept: Mutex::default(),
            tracer,
            machine,
        }
    }

    /// Sets whether bodies run on guarded copies of their regions.
    pub(crate) fn sanitized(self, sanitizes: bool) -> Self {
        Self { sanitizes, ..self }
    }

    /// Returns, for each unit, the number of user tasks that the unit has finished.
    pub(crate) fn finished_by_unit(&self) -> Vec<u64> {
        let mut counts = self.progress.finished_by_slot();
        counts[0] += counts[self.machine.num_units()]; // a guest's tasks are counted for unit 0
        counts.iter_mut().zip(self.away.ended_by_unit()).for_each(|(count, away)| *count += away);
        counts.truncate(self.machine.num_units());
        counts
    }

    /// Runs a task's body, or drops it if the task is poisoned. A panic in the body does not propagate. If a host's
    /// slot is given, other threads can see which task is running.
    ///
    /// # Errors
    /// Returns the outcome if the task did not run to its end, or reports that the task continues without a thread.
    #[inline]
    pub(crate) fn run_body(&self, task: &mut OwnedTask, env: &Env<'_>, slot: Option<usize>) -> Result<(), Ran> {
        if let Some(outcome) = self.refusal(task) {
            return Err(Ran::Ended(outcome));
        }
        let running = self.conflicts.as_ref().map(|detector| detector.enter(task));
        let task: &OwnedTask = task;
        let run = || {
            let run = |body: &(dyn Body + 'static)| {
                let caught = |env: &Env<'_>| {
                    catch_unwind(AssertUnwindSafe(|| {
                        #[cfg(feature = "spans")]
                        let _entered = super::traced::span(task, env.context).entered();
                        body.run(env)
                    }))
                };
                let on_copies = self.sanitizes && !task.shared().internal;
                if on_copies { sanitize::run_on_copies(body, env, caught) } else { caught(env) }
            };
            match slot {
                Some(slot) => self.running[slot].during(task, run),
                None => run(task.body()),
            }
        };
        // A body on a device must not wait, because it would occupy memory that other tasks need.
        let waits = env.context.kind == UnitKind::Cpu;
        let ran = match env.context.inner_cores {
            1 => running::as_body_of(self.id, waits, task, run),
            _ => running::as_body_with_team(self.id, waits, task, run),
        };
        if self.is_in_child() {
            self.end_child(task);
        }
        match ran {
            Ok(Ok(())) => Ok(()),
            Ok(Err(stop)) => Err(Self::stopped(*stop, running)),
            Err(payload) => Err(Self::panicked(payload)),
        }
    }

    #[cold]
    fn stopped(stop: Stop, running: Option<Entered<'_>>) -> Ran {
        match stop {
            Stop::Failed(error) => Ran::Ended(Outcome::Failed(FailureReason::from_returned(error))),
            Stop::Detached(leaving) => {
                std::mem::forget(running); // the accesses stay recorded until the task ends
                Ran::Away(leaving)
            }
        }
    }

    #[cold]
    fn panicked(payload: Box<dyn Any + Send>) -> Ran {
        Ran::Ended(Outcome::Failed(FailureReason::from_panic(payload)))
    }

    /// Prevents further bodies from running. Bodies that have already begun, including futures, run to completion.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns whether no further bodies may run.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// If a task must not run, drops its body and returns its outcome.
    #[inline]
    pub(super) fn refusal(&self, task: &OwnedTask) -> Option<Outcome> {
        let is_refused = task.is_poisoned() || self.is_cancelled();
        if is_refused { self.refuse(task) } else { None }
    }

    #[cold]
    fn refuse(&self, task: &OwnedTask) -> Option<Outcome> {
        if task.body().has_begun() {
            return None; // otherwise its exported regions would lose their task
        }
        let outcome = match task.is_poisoned() {
            true => Outcome::Skipped,
            false if task.shared().internal => return None, // the runtime needs its internal tasks until it ends
            false => Outcome::Failed(FailureReason::Cancelled),
        };
        self.discard(task);
        Some(outcome)
    }

    /// Drops a task's body without running it.
    pub(super) fn discard(&self, task: &OwnedTask) {
        running::as_part_of(self.id, task, || drop_quietly(|| task.body().discard()));
    }

    /// Runs one of the runtime's internal tasks immediately on this thread. Returns the task if it continues without a
    /// body.
    pub(super) fn run_at_home(&self, mut task: OwnedTask, out: &mut Vec<Command>) -> Option<(OwnedTask, Leaving)> {
        let side = task.owned().as_ref();
        let bound_to_device = side.is_some_and(|side| side.space.is_some_and(|s| !s.is_host()) && !side.lends);
        let mut phantom = false;
        task.body().accesses(&mut |access| phantom |= access.datum.phantom);
        let outcome = if bound_to_device || phantom {
            self.discard(&task); // only the copy was wanted, or there is no memory to access
            Outcome::Done(Span::default())
        } else {
            match self.run_body(&mut task, &Env { context: &self.home, sites: None }, None) {
                Ok(()) => Outcome::Done(Span::default()),
                Err(Ran::Ended(outcome)) => outcome,
                Err(Ran::Away(leaving)) => return Some((task, leaving)),
            }
        };
        self.end(task, outcome, None, out);
        self.tell_waiters(); // as for skipped tasks
        None
    }

    /// Ends a task that must not run.
    pub(super) fn skip(&self, task: OwnedTask, out: &mut Vec<Command>) {
        self.discard(&task);
        if let Some(tracer) = tracer_of(&self.tracer, task.shared()) {
            tracer.note(task.shared().id, Happened::Poisoned);
        }
        self.end(task, Outcome::Skipped, None, out);
        self.tell_waiters(); // this thread may be a submitter or a copy engine, which never takes further tasks
    }

    /// Runs one of the runtime's internal tasks on this thread, in a runtime without placement. Passes the tasks that
    /// become ready to `ready`.
    pub(super) fn run_here(&self, mut task: OwnedTask, ready: impl FnMut(OwnedTask)) {
        drop(Self::awaited_by(&mut task)); // the waiter is this thread, which is awake
        let outcome = match self.run_body(&mut task, &Env { context: &self.home, sites: None }, None) {
            Ok(()) => Outcome::Done(Span::default()),
            Err(Ran::Ended(outcome)) => outcome,
            Err(Ran::Away(_)) => unreachable!("a task that runs here is not detached"),
        };
        self.end_anywhere(task, outcome, None, ready);
    }

    /// Reports a task as ended and counts it, in a host's slot or in the slot for all other threads. Appends the
    /// resulting commands to `out`.
    pub(super) fn end(&self, task: OwnedTask, outcome: Outcome, slot: Option<usize>, out: &mut Vec<Command>) {
        self.end_by(task, slot, |task| self.engine.on(Event::Finished(task, outcome), out));
    }

    /// Like [`Self::end`], but for a runtime without placement: passes the tasks that can run now to `ready`.
    #[inline(never)]
    pub(super) fn end_anywhere(
        &self,
        task: OwnedTask,
        outcome: Outcome,
        slot: Option<usize>,
        ready: impl FnMut(OwnedTask),
    ) {
        self.end_by(task, slot, |task| self.engine.ended_anywhere(task, outcome, ready));
    }

    /// Ends a task. The `report` may drop the task's captured values, and their destructors count as part of the
    /// task's body.
    fn end_by(&self, mut task: OwnedTask, slot: Option<usize>, report: impl FnOnce(OwnedTask)) {
        let (lane, internal) = (task.shared().lane.get(), task.shared().internal);
        let waits = if internal { Self::awaited_by(&mut task) } else { None };
        let counted = internal && task.owned().as_ref().is_some_and(|side| side.counted);
        running::inside(self.id, || report(task));
        if !counted {
            self.progress.finish(slot, lane, internal);
        }
        if let Some(waker) = waits {
            waker.wake();
        }
    }

    /// Takes the waker of the thread or future that waits for one of the runtime's internal tasks.
    #[cold]
    fn awaited_by(task: &mut OwnedTask) -> Option<Waker> {
        task.owned_mut().as_mut().and_then(|side| side.awaited_by.take())
    }

    /// Notifies threads that wait for a certain number of tasks to finish. Must be called by every thread that has
    /// ended tasks and might end no more of them.
    pub(super) fn tell_waiters(&self) {
        fence(Ordering::SeqCst);
        if self.waiters.attention() != 0 && !self.is_in_child() {
            self.waiters.look(&self.progress);
        }
    }

    /// Checks for a stall. A waiting thread must call this before it sleeps; see [`Watch::look`].
    pub(super) fn watch(&self, first: bool, queues: &dyn Queues) -> Option<Duration> {
        let overdue = self.watch.overdue(|| self.sight(), |late, since| self.overdue(late, since, queues));
        let stalled = self.watch.look(&self.progress, first, |duration| self.stall(duration, queues));
        overdue.into_iter().chain(stalled).min()
    }

    /// Describes what runs and what waits, after nothing has finished for this long.
    pub(super) fn stall(&self, duration: Duration, queues: &dyn Queues) -> Stall {
        let (running, waiting) = begun_tasks(&self.running, &self.machine);
        let (pending, outside) = (self.progress.pending(), self.away.tasks());
        let (runtime, placed) = (self.watch.name.clone(), self.engine.stall().unwrap_or_default());
        let reasons = explain_all(self, queues);
        Stall { runtime, duration, pending, running, waiting, outside, overdue: vec![], placed, reasons }
    }

    /// Runs the at-rest callback if nothing is pending. A thread of the program must call this at the end of a wait.
    pub(super) fn rest(&self) {
        if let Some(on_rest) = self.on_rest.get()
            && self.progress.pending() == 0
            && !self.is_in_child()
        {
            on_rest();
        }
    }

    /// Returns whether the thread of a unit seems to be busy running a body.
    pub(crate) fn seems_busy(&self, unit: usize) -> bool {
        // A guest may stand in for unit 0's host.
        self.running[unit].seems_busy() || unit == 0 && self.running[self.machine.num_units()].seems_busy()
    }

    /// Returns the runtime's name, if it has one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.watch.name.as_deref()
    }

    /// Wakes every waiting or idle thread so that it checks its condition again.
    pub(super) fn wake_everybody(&self) {
        self.waiters.wake_all();
        self.idle.wake_all();
    }

    /// Marks the runtime as broken: all waits end, and no more tasks are accepted.
    #[cold]
    pub(super) fn break_down(&self, problem: String) {
        log!(error, "{problem}");
        let _ = self.broken.set(problem); // only the first problem is kept
        self.progress.close();
        self.wake_everybody();
    }

    /// Ends all waits, although bodies may still run: they keep the memory that they use, and none of it is freed.
    #[cold]
    pub(crate) fn abandon(&self) {
        self.cancel();
        self.abandoned.store(true, Ordering::SeqCst);
        self.break_down("the program abandoned the runtime".to_owned());
    }

    /// Returns whether bodies may run for as long as they like, so that nothing may wait for them or free their data.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::SeqCst)
    }

    /// Returns whether the runtime is broken, so that tasks may never finish.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_in_child() || self.broken.get().is_some()
    }

    /// Returns whether this process is a child created by `fork`. In such a child the runtime has no threads, and
    /// locks may stay locked forever.
    #[inline]
    pub(crate) fn is_in_child(&self) -> bool {
        self.is_in_child.load(Ordering::Relaxed)
    }

    /// Makes the runtime refuse all requests from now on; see [`crate::sync::InChild`].
    pub(crate) fn enter_child(&self) {
        self.is_in_child.store(true, Ordering::SeqCst);
        self.progress.close();
    }

    /// Returns an error if this process is a forked child.
    pub(crate) fn in_own_process(&self) -> Result<(), SubmitError> {
        if self.is_in_child() { Err(SubmitError::Forked) } else { Ok(()) }
    }

    /// Terminates a child process that was forked inside a body and has reached the end of that body, where it cannot
    /// continue.
    #[cold]
    fn end_child(&self, task: &OwnedTask) -> ! {
        let Meta { name, location, .. } = task.shared();
        inside::end_child(&format!("return from the body of task `{name}`, submitted at {location},"))
    }

    /// Returns an error if the runtime is broken, with the reason why tasks may never finish.
    pub(crate) fn broken(&self) -> Result<(), SubmitError> {
        self.in_own_process()?;
        if self.is_abandoned() {
            return Err(SubmitError::Abandoned);
        }
        self.broken.get().map_or(Ok(()), |problem| Err(SubmitError::Broken { problem: problem.clone() }))
    }

    /// Keeps the memory of a data object until it can no longer be in use. Called for an object that was released too
    /// late for a task to free it.
    #[cold]
    pub(crate) fn keep(&self, cell: Arc<DataCell>) {
        if self.is_in_child() {
            return std::mem::forget(cell); // a body that has forked may still have views of the memory
        }
        if self.progress.is_closed() && self.progress.pending() == 0 && !self.is_abandoned() {
            self.drop_home(cell.take_home()); // no task uses the home now or later
        } else {
            self.kept.lock().push(cell);
        }
    }

    /// Frees the memory that was kept. Called after all threads have ended, unless they were abandoned.
    pub(crate) fn drop_kept(&self) {
        if self.is_abandoned() {
            return;
        }
        let homes: Vec<_> = self.kept.lock().iter().map(|cell| cell.take_home()).collect();
        homes.into_iter().for_each(|home| self.drop_home(home));
    }

    /// Drops a home. Destructors of its values count as part of a body, just as when the data object is released.
    fn drop_home(&self, home: Option<Home>) {
        running::inside(self.id, || drop_quietly(|| drop(home)));
    }
}

/// Guard that marks the runtime as broken if a thread unwinds out of the runtime's own code. The guard must be
/// forgotten on normal exit.
pub(crate) struct BreakOnUnwind<'a> {
    pub(crate) shared: &'a Shared,
    /// What the thread was doing, for the error message.
    pub(crate) during: &'static str,
}

impl Drop for BreakOnUnwind<'_> {
    fn drop(&mut self) {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        self.shared.break_down(format!("the runtime panicked during {} on thread `{name}`", self.during));
    }
}

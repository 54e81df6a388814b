//! What all threads of a runtime share, whichever driver it has: the engine, the counters, who waits and where they
//! sleep; and what happens to every task on its way, wherever it runs: it is counted, run under a guard, and reported.
//!
//! A part of the driver ([`super::Driver::shared`]), which is not known here: nothing is queued, launched or copied.
//!
//! Invariant: every task that is admitted is counted as finished exactly once, by [`Shared::end`] or one of its kin.

use super::conflict::{ConflictDetector, Entered};
use super::detached::Away;
use super::inside;
use super::progress::Progress;
use super::replays::Session;
use super::waiters::Waiters;
use super::watch::{Stall, Watch, begun_tasks};
use super::window::Window;
use crate::depend::{Body, Context, Env, ExposedTask, Leaving, Meta, OwnedTask, Stop, SuspendedTasks, running};
use crate::engine::{Command, Engine, Event, Outcome, Span};
use crate::error::{FailureReason, SubmitError};
use crate::ids::{DeviceId, UnitId};
use crate::machine::{Machine, UnitKind};
use crate::memory::{DataCell, Home};
use crate::sync::{Sleep, drop_quietly};
use crate::trace::{Between, End, Happened, InState, Tracer};
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

/// What all threads of a runtime share; see the module.
pub(crate) struct Shared {
    /// Tells this runtime from others in the process.
    pub(crate) id: u64,
    pub(crate) machine: Machine,
    pub(crate) engine: Engine,
    /// Where threads sleep that execute tasks; each at its unit's place.
    pub(crate) idle: Arc<Sleep>,
    pub(crate) waiters: Waiters,
    pub(crate) window: Window,
    pub(crate) progress: Progress,
    /// How many tasks were submitted in bodies: who waits for those waits for these too.
    pub(crate) nested: CachePadded<AtomicU64>,
    /// Bytes that fused loops do not read again.
    pub(crate) spared: AtomicU64,
    /// Tasks that the hosting threads of device units have run in host memory, because there is no CPU unit.
    pub(crate) on_hosts: AtomicU64,
    /// What each unit's host is running, and a guest in the place of unit 0's.
    pub(super) running: Box<[CachePadded<ExposedTask>]>,
    pub(crate) conflicts: Option<ConflictDetector>,
    /// Tasks that go on without a thread.
    pub(super) away: Away,
    /// Tasks whose bodies wait and have nothing else to do.
    pub(super) suspended: SuspendedTasks,
    /// No further body is run: the program is unwinding.
    cancelled: AtomicBool,
    /// This process is a child of the one that has the runtime's threads.
    is_in_child: AtomicBool,
    /// The graph that is replayed, and what to call when somebody submits meanwhile.
    pub(super) session: Session,
    pub(super) interrupt: OnceLock<Box<dyn Fn() + Send + Sync>>,
    watch: Watch,
    /// The context of what the runtime runs at home for itself.
    home: Context,
    /// What went wrong in the runtime itself, so that tasks may never finish.
    broken: OnceLock<String>,
    /// Who records what happens, if it is traced.
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// What could not be freed before the threads ended.
    kept: Mutex<Vec<Arc<DataCell>>>,
}

/// How a body has returned that did not bring its task to a good end.
pub(crate) enum Ran {
    /// The task has ended.
    Ended(Outcome),
    /// It goes on without a thread.
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
        crate::sync::prepare_fences();
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
            away: Away::new(machine.num_units()),
            suspended: SuspendedTasks::default(),
            cancelled: AtomicBool::new(false),
            is_in_child: AtomicBool::new(false),
            session: Session::default(),
            interrupt: OnceLock::new(),
            watch,
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
            kept: Mutex::default(),
            tracer,
            machine,
        }
    }

    /// Tasks of the user's that each unit has finished.
    pub(crate) fn finished_by_unit(&self) -> Vec<u64> {
        let mut counts = self.progress.finished_by_slot();
        counts[0] += counts[self.machine.num_units()]; // a guest's tasks are unit 0's
        counts.iter_mut().zip(self.away.ended_by_unit()).for_each(|(count, away)| *count += away);
        counts.truncate(self.machine.num_units());
        counts
    }

    /// Runs a body, or drops it if the task is poisoned; whatever the body does, it stays here. In a host's slot others
    /// can see what is running.
    ///
    /// # Errors
    /// How the task has ended otherwise than by running to its end, or that it has not.
    #[inline]
    pub(crate) fn run_body(&self, task: &mut OwnedTask, env: &Env<'_>, slot: Option<usize>) -> Result<(), Ran> {
        if let Some(outcome) = self.refusal(task) {
            return Err(Ran::Ended(outcome));
        }
        let running = self.conflicts.as_ref().map(|detector| detector.enter(task));
        let task: &OwnedTask = task;
        let run = || {
            let run = |body: &(dyn Body + 'static)| catch_unwind(AssertUnwindSafe(|| body.run(env)));
            match slot {
                Some(slot) => self.running[slot].during(task, run),
                None => run(task.body()),
            }
        };
        // On a device a body would wait with the memory that others need.
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
                std::mem::forget(running); // until the task ends
                Ran::Away(leaving)
            }
        }
    }

    #[cold]
    fn panicked(payload: Box<dyn Any + Send>) -> Ran {
        Ran::Ended(Outcome::Failed(FailureReason::from_panic(payload)))
    }

    /// Runs no further body. Those that have begun run to their ends, futures too.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether no further body is run.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// How a task ends that must not run; its body is dropped.
    #[inline]
    pub(super) fn refusal(&self, task: &OwnedTask) -> Option<Outcome> {
        let is_refused = task.is_poisoned() || self.is_cancelled();
        if is_refused { self.refuse(task) } else { None }
    }

    #[cold]
    fn refuse(&self, task: &OwnedTask) -> Option<Outcome> {
        if task.body().has_begun() {
            return None; // what it has lent out would be left without its task
        }
        let outcome = match task.is_poisoned() {
            true => Outcome::Skipped,
            false if task.shared().internal => return None, // the runtime needs its own to the end
            false => Outcome::Failed(FailureReason::Cancelled),
        };
        self.discard(task);
        Some(outcome)
    }

    /// Drops a task's body, which is not run.
    pub(super) fn discard(&self, task: &OwnedTask) {
        running::as_part_of(self.id, task, || drop_quietly(|| task.body().discard()));
    }

    /// Runs one of the runtime's own tasks on this thread, now; it comes back if it goes on without a body.
    pub(super) fn run_at_home(&self, mut task: OwnedTask, out: &mut Vec<Command>) -> Option<(OwnedTask, Leaving)> {
        let side = task.owned().as_ref();
        let bound_to_device = side.is_some_and(|side| side.space.is_some_and(|s| !s.is_host()) && !side.lends);
        let mut phantom = false;
        task.body().accesses(&mut |access| phantom |= access.datum.phantom);
        let outcome = if bound_to_device || phantom {
            self.discard(&task); // the copy was all that was wanted, or there is nothing to see
            Outcome::Done(Span::default())
        } else {
            match self.run_body(&mut task, &Env { context: &self.home, sites: None }, None) {
                Ok(()) => Outcome::Done(Span::default()),
                Err(Ran::Ended(outcome)) => outcome,
                Err(Ran::Away(leaving)) => return Some((task, leaving)),
            }
        };
        self.end(task, outcome, None, out);
        self.tell_waiters(); // as for what is skipped
        None
    }

    /// Ends a task that is not to be run.
    pub(super) fn skip(&self, task: OwnedTask, out: &mut Vec<Command>) {
        self.discard(&task);
        if let Some(tracer) = self.tracer.as_ref().filter(|_| !task.shared().internal) {
            tracer.note(task.shared().id, Happened::Poisoned);
        }
        self.end(task, Outcome::Skipped, None, out);
        self.tell_waiters(); // this thread may be a submitter or a copy engine, which never asks for more tasks
    }

    /// Runs one of the runtime's own tasks on this thread where there is no placement; hands the tasks that become
    /// ready to `ready`.
    pub(super) fn run_here(&self, mut task: OwnedTask, ready: impl FnMut(OwnedTask)) {
        drop(Self::awaited_by(&mut task)); // by this thread, which is awake
        let outcome = match self.run_body(&mut task, &Env { context: &self.home, sites: None }, None) {
            Ok(()) => Outcome::Done(Span::default()),
            Err(Ran::Ended(outcome)) => outcome,
            Err(Ran::Away(_)) => unreachable!("a task that runs here lends nothing out"),
        };
        self.end_anywhere(task, outcome, None, ready);
    }

    /// When a body begins, if it is traced.
    #[inline]
    pub(super) fn trace_begin(&self) -> Option<u64> {
        self.tracer.as_ref().map(|tracer| tracer.now())
    }

    /// Records, if there is a trace, that this thread is in a state until the value is dropped.
    pub(super) fn trace_state(&self, unit: Option<UnitId>, what: Between) -> Option<InState> {
        let tracer = self.tracer.as_ref()?;
        Some(InState { since: tracer.now(), tracer: tracer.clone(), unit, what })
    }

    /// The same for a thread that waits for tasks.
    pub(super) fn trace_wait(&self) -> Option<InState> {
        self.trace_state(None, Between::Wait)
    }

    /// Records how a body has returned that began then.
    #[cold]
    pub(super) fn trace_end(
        &self,
        since: u64,
        task: &OwnedTask,
        (unit, device): (UnitId, Option<DeviceId>),
        ran: Result<(), &Ran>,
    ) {
        let Some(tracer) = self.tracer.as_ref().filter(|_| !task.shared().internal) else { return };
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

    /// Records what a task did that was measured: it ended now, or when the outcome says.
    pub(super) fn trace_measured(&self, task: &OwnedTask, unit: UnitId, device: Option<DeviceId>, outcome: &Outcome) {
        let Some(tracer) = self.tracer.as_ref().filter(|_| !task.shared().internal) else { return };
        let id = task.shared().id;
        match outcome {
            Outcome::Done(Span { elapsed_ns, ended_ns }) => {
                let span = (tracer.at_ns(*ended_ns), tracer.ticks(*elapsed_ns));
                tracer.ran(id, Some(unit), device, span, End::Done);
            }
            Outcome::Skipped => tracer.note(id, Happened::Poisoned),
            _ => tracer.ran(id, Some(unit), device, (tracer.now(), 0), End::Failed),
        }
    }

    /// Reports a task as ended and counts it, in a host's slot or that of strangers; appends what follows to `out`.
    pub(super) fn end(&self, task: OwnedTask, outcome: Outcome, slot: Option<usize>, out: &mut Vec<Command>) {
        self.end_by(task, slot, |task| self.engine.on(Event::Finished(task, outcome), out));
    }

    /// As [`Self::end`] where there is no placement: hands what can run now to `ready`.
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

    /// What the task captured may be dropped by the `report`: that is still inside its body.
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

    /// Who waits for one of the runtime's own tasks.
    #[cold]
    fn awaited_by(task: &mut OwnedTask) -> Option<Waker> {
        task.owned_mut().as_mut().and_then(|side| side.awaited_by.take())
    }

    /// Tells those who wait for a number of tasks. To be called by a thread that has ended tasks and may end no more.
    pub(super) fn tell_waiters(&self) {
        fence(Ordering::SeqCst);
        if self.waiters.attention() != 0 && !self.is_in_child() {
            self.waiters.look(&self.progress);
        }
    }

    /// To be called by a waiting thread before it sleeps, see [`Watch::look`].
    pub(super) fn watch(&self, first: bool) -> Option<Duration> {
        let stall = |duration| {
            let (running, waiting) = begun_tasks(&self.running, &self.machine);
            let (pending, outside) = (self.progress.pending(), self.away.tasks());
            let (runtime, placed) = (self.watch.name.clone(), self.engine.stall().unwrap_or_default());
            Stall { runtime, duration, pending, running, waiting, outside, placed }
        };
        self.watch.look(&self.progress, first, stall)
    }

    /// Lets everybody look again, whatever they wait for.
    pub(super) fn wake_everybody(&self) {
        self.waiters.wake_all();
        self.idle.wake_all();
    }

    /// The runtime cannot be relied on any more: nobody waits any longer, and nothing more is accepted.
    #[cold]
    pub(super) fn break_down(&self, problem: String) {
        log!(error, "{problem}");
        let _ = self.broken.set(problem); // the first one counts
        self.progress.close();
        self.wake_everybody();
    }

    /// Whether tasks may never finish.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_in_child() || self.broken.get().is_some()
    }

    /// Whether this process is a child made by `fork`, in which the runtime has no threads, and locks may stay locked.
    #[inline]
    pub(crate) fn is_in_child(&self) -> bool {
        self.is_in_child.load(Ordering::Relaxed)
    }

    /// From here on the runtime refuses everything: see [`crate::sync::InChild`].
    pub(crate) fn enter_child(&self) {
        self.is_in_child.store(true, Ordering::SeqCst);
        self.progress.close();
    }

    /// Refuses what a child of `fork` asks for.
    pub(crate) fn in_own_process(&self) -> Result<(), SubmitError> {
        if self.is_in_child() { Err(SubmitError::Forked) } else { Ok(()) }
    }

    /// A body has forked, and its child process has come to the body's end, where there is nothing to go on with.
    #[cold]
    fn end_child(&self, task: &OwnedTask) -> ! {
        let Meta { name, location, .. } = task.shared();
        inside::end_child(&format!("return from the body of task `{name}`, submitted at {location},"))
    }

    /// Why tasks may never finish, if so.
    pub(crate) fn broken(&self) -> Result<(), SubmitError> {
        self.in_own_process()?;
        self.broken.get().map_or(Ok(()), |problem| Err(SubmitError::Broken { problem: problem.clone() }))
    }

    /// Keeps the memory of a data object that was released too late for a task to free it, until nobody can be using
    /// it.
    #[cold]
    pub(crate) fn keep(&self, cell: Arc<DataCell>) {
        if self.is_in_child() {
            return std::mem::forget(cell); // a body that has forked may have views of it
        }
        if self.progress.is_closed() && self.progress.pending() == 0 {
            self.drop_home(cell.take_home()); // nobody does, or will
        } else {
            self.kept.lock().push(cell);
        }
    }

    /// Frees the memory that was kept, when all threads have ended.
    pub(crate) fn drop_kept(&self) {
        let homes: Vec<_> = self.kept.lock().iter().map(|cell| cell.take_home()).collect();
        homes.into_iter().for_each(|home| self.drop_home(home));
    }

    /// A value's destructor is part of a body, as in its release.
    fn drop_home(&self, home: Option<Home>) {
        running::inside(self.id, || drop_quietly(|| drop(home)));
    }
}

/// Tells everybody if a thread unwinds out of the runtime's own code. To be forgotten where it does not.
pub(crate) struct BreakOnUnwind<'a> {
    pub(crate) shared: &'a Shared,
    /// What the thread was doing.
    pub(crate) during: &'static str,
}

impl Drop for BreakOnUnwind<'_> {
    fn drop(&mut self) {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        self.shared.break_down(format!("the runtime panicked during {} on thread `{name}`", self.during));
    }
}

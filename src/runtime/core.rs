//! What all threads of a runtime share, and how commands of the engine are carried out.

use super::conflict::ConflictDetector;
use super::devices::Devices;
use super::host::Host;
use super::progress::Progress;
use super::ready::ReadyQueues;
use super::threads::Hosting;
use super::waiters::Waiters;
use super::watch::Watch;
use super::window::Window;
use crate::depend::running;
use crate::depend::{AccessRecord, Body, Env, ExposedTask, Meta, OwnedTask, Side, Submitting};
use crate::engine::{Command, Engine, Event, Outcome, Refused, is_asked_by};
use crate::error::{BoxError, FailureReason, SubmitError};
use crate::machine::Machine;
use crate::memory::DataCell;
use crate::sim::Simulation;
use crate::sync::{Sleep, drop_quietly};
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Who carries commands out.
pub(crate) enum Driver {
    /// Threads of CPU units; any of them may run any task (the fast path).
    Threads,
    /// Threads of all units, and devices; tasks come with a unit.
    Devices(Devices),
    /// Nobody: a virtual clock.
    Simulated(Box<Simulation>),
}

/// The shared part of a runtime.
pub(crate) struct Core {
    /// Tells this runtime from others in the process.
    pub(crate) id: u64,
    pub(crate) machine: Machine,
    pub(crate) engine: Engine,
    pub(crate) ready: ReadyQueues,
    pub(crate) driver: Driver,
    /// When the runtime was built.
    pub(crate) built: Instant,
    /// Where threads sleep that execute tasks; each at its unit's place.
    pub(crate) idle: Sleep,
    pub(super) waiters: Waiters,
    pub(super) watch: Watch,
    pub(super) window: Window,
    pub(super) progress: Progress,
    /// How many tasks were submitted in bodies: who waits for those waits for these too.
    pub(super) nested: CachePadded<AtomicU64>,
    /// What each unit's host is running, and a guest in the place of unit 0's.
    pub(super) running: Box<[CachePadded<ExposedTask>]>,
    /// The threads that run it.
    pub(super) hosting: Box<[Hosting]>,
    pub(crate) conflicts: Option<ConflictDetector>,
    pub(crate) shutdown: AtomicBool,
    /// No further body is run: the program is unwinding.
    pub(crate) cancelled: AtomicBool,
    /// What went wrong in the runtime itself, so that tasks may never finish.
    broken: OnceLock<String>,
    /// What could not be freed before the threads ended.
    kept: Mutex<Vec<Arc<DataCell>>>,
    /// The slot whose thread is to die.
    #[cfg(test)]
    pub(super) doomed: std::sync::atomic::AtomicUsize,
}

thread_local! {
    /// A vector for a thread that hosts nothing to reuse; empty while somebody up the stack has it.
    static COMMANDS: Cell<Vec<Command>> = const { Cell::new(Vec::new()) };
    /// How many submissions of this thread are left until it looks at the window.
    static UNTIL_LOOK: Cell<u32> = const { Cell::new(0) };
}

/// How a task is described at submission.
pub(crate) struct Description {
    pub(crate) name: Cow<'static, str>,
    pub(crate) location: &'static Location<'static>,
    pub(crate) priority: i32,
    pub(crate) internal: bool,
    pub(crate) side: Option<Box<Side>>,
}

impl Core {
    #[allow(clippy::too_many_arguments)] // called once, by the builder
    pub(crate) fn new(
        id: u64,
        engine: Engine,
        ready: ReadyQueues,
        driver: Driver,
        conflicts: Option<ConflictDetector>,
        window: Window,
        watch: Watch,
        machine: Machine,
    ) -> Self {
        crate::sync::prepare_fences();
        Self {
            id,
            engine,
            ready,
            driver,
            built: Instant::now(),
            idle: Sleep::new(),
            waiters: Waiters::default(),
            watch,
            window,
            progress: Progress::new(machine.num_units()),
            nested: CachePadded::default(),
            running: (0..machine.num_units() + 1).map(|_| CachePadded::default()).collect(),
            hosting: (0..machine.num_units() + 1).map(|slot| Hosting::new(slot < machine.num_units())).collect(),
            conflicts,
            shutdown: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            broken: OnceLock::new(),
            kept: Mutex::default(),
            #[cfg(test)]
            doomed: std::sync::atomic::AtomicUsize::new(usize::MAX),
            machine,
        }
    }

    /// Whether any thread may run any task.
    #[inline]
    pub(crate) fn on_fast_path(&self) -> bool {
        matches!(self.driver, Driver::Threads)
    }

    /// The devices, if tasks run in other memories than their home.
    #[inline]
    pub(crate) fn devices(&self) -> Option<&Devices> {
        if let Driver::Devices(devices) = &self.driver { Some(devices) } else { None }
    }

    /// Whether there may be devices that run bodies.
    #[inline]
    pub(super) fn runs_on_devices(&self) -> bool {
        matches!(self.driver, Driver::Devices(_))
    }

    /// The virtual clock, if there is no real one.
    pub(crate) fn simulation(&self) -> Option<&Simulation> {
        if let Driver::Simulated(simulation) = &self.driver { Some(simulation) } else { None }
    }

    /// Tasks of the user's that each unit has finished.
    pub(crate) fn finished_by_unit(&self) -> Vec<u64> {
        let mut counts = self.progress.finished_by_slot();
        counts[0] += counts[self.machine.num_units()]; // a guest's tasks are unit 0's
        counts.truncate(self.machine.num_units());
        counts
    }

    /// Submits a task; the caller has checked its accesses. `watch` makes what is returned of it.
    ///
    /// # Errors
    /// If one of its data was taken since.
    #[inline]
    pub(crate) fn submit<P: Body + 'static, W>(
        &self,
        description: Description,
        payload: P,
        accesses: &[AccessRecord<'_>],
        watch: impl FnOnce(&mut Submitting) -> W,
    ) -> Result<W, SubmitError> {
        let queues = accesses.iter().any(|access| access.mode.queues());
        let Description { name, location, priority, internal, side } = description;
        let mut open = true;
        // Counted when it has its memory: a task that panics before that is none.
        let meta = || {
            let admission = self.progress.admit();
            open = admission.open;
            let (id, lane) = (admission.task, admission.lane);
            Meta { id, name, location, priority, internal, queues, join: false, lane }
        };
        // As a rule every access leaves one reference behind, in one fragment.
        let shares = accesses.len() as u32;
        let mut task = Submitting::new(meta, side, payload, shares, |payload| payload as *mut (dyn Body + 'static));
        let lane = task.shared().lane;
        if !open {
            self.admit_late(lane, internal)?;
        }
        let is_inside = running::is_inside(self.id);
        if is_inside && is_asked_by(self.id) {
            return Err(self.uncount(lane, SubmitError::InsidePolicy { call: "submit" }));
        }
        let unless_entered = BreakOnUnwind { core: self, during: "a submission" };
        if is_inside {
            self.nested.fetch_add(1, Ordering::Release); // before the body ends
        }
        let watched = watch(&mut task);
        let entered = Host::with(self.id, |host| {
            let entered = match self.on_fast_path() {
                true => self.engine.submitted_anywhere(task, accesses, |ready| self.run_anywhere(ready, host)),
                false => self.submit_to_placement(task, accesses, host),
            };
            let until_look = |left: u32| left.checked_sub(1).unwrap_or(self.window.look_every - 1);
            let left = match host {
                Some(host) => host.until_look.replace(until_look(host.until_look.get())),
                None => UNTIL_LOOK.replace(until_look(UNTIL_LOOK.get())),
            };
            if left == 0 {
                self.respect_window(host);
            }
            entered
        });
        std::mem::forget(unless_entered);
        if let Err(refusal) = entered {
            let (error, refused) = *refusal;
            self.progress.finish(None, lane, false);
            self.tell_waiters();
            drop(refused); // nothing waits for it: what it captured may wait for the rest
            return Err(error);
        }
        Ok(watched)
    }

    /// Enters a task, and carries out what follows from that.
    fn submit_to_placement(
        &self,
        task: Submitting,
        accesses: &[AccessRecord<'_>],
        host: Option<&Host>,
    ) -> Result<(), Refused> {
        let commands = |out| match host {
            Some(host) => host.commands.replace(out),
            None => COMMANDS.replace(out),
        };
        let mut out = commands(Vec::new());
        let entered = self.engine.submitted(task, accesses, &mut out);
        self.carry_out(host, &mut out);
        commands(out);
        entered
    }

    /// Carries out what the engine asked for, and what follows from that at once.
    #[inline]
    pub(crate) fn carry_out(&self, host: Option<&Host>, out: &mut Vec<Command>) {
        if !out.is_empty() {
            self.carry_out_all(host, out);
        }
    }

    fn carry_out_all(&self, host: Option<&Host>, out: &mut Vec<Command>) {
        let mut next = 0;
        while next < out.len() {
            let batch: &mut Vec<Command> = out;
            match std::mem::replace(&mut batch[next], Command::Nothing) {
                Command::Nothing => {}
                Command::Run(task) if self.on_fast_path() => self.run_anywhere(task, host),
                Command::Run(task) => self.run_at_home(task, out),
                Command::Skip(task) => self.skip(task, out),
                command => match (&self.driver, command) {
                    (Driver::Simulated(_), Command::Release(released)) => {
                        self.engine.on(Event::Released(released.space, released.bytes), out);
                    }
                    (Driver::Simulated(simulation), command) => simulation.carry_out(command),
                    (_, Command::Launch(launch)) => {
                        let unit = launch.unit.index();
                        self.ready.push_launch(launch);
                        self.idle.wake_at(unit);
                    }
                    (Driver::Devices(devices), command) => {
                        devices.carry_out(command, |event| self.engine.on(event, out));
                    }
                    (Driver::Threads, _) => unreachable!("all is at home where there is no device"),
                },
            }
            next += 1;
        }
        out.clear();
    }

    /// Queues a task for whichever unit comes first.
    #[inline]
    pub(super) fn run_anywhere(&self, task: OwnedTask, host: Option<&Host>) {
        self.ready.push(task, host);
        self.idle.wake(1);
    }

    /// Runs one of the runtime's own tasks on this thread, now.
    fn run_at_home(&self, mut task: OwnedTask, out: &mut Vec<Command>) {
        let bound_to_device = task.owned().as_ref().is_some_and(|side| side.space.is_some_and(|s| !s.is_host()));
        let mut phantom = false;
        task.body().accesses(&mut |access| phantom |= access.datum.phantom);
        let outcome = if bound_to_device || phantom {
            self.discard(&task); // the copy was all that was wanted, or there is nothing to see
            Outcome::Done { elapsed_ns: 0 }
        } else {
            self.run_body(&mut task, &Env { context: self.ready.home_context(), sites: None }, None)
        };
        self.end(task, outcome, None, out);
        self.tell_waiters(); // as for what is skipped
    }

    fn skip(&self, task: OwnedTask, out: &mut Vec<Command>) {
        self.discard(&task);
        self.end(task, Outcome::Skipped, None, out);
        self.tell_waiters(); // this thread may be a submitter or a copy engine, which never asks for more tasks
    }

    /// Reports a task as ended and counts it in a host's slot; that host calls it as from inside a body.
    pub(crate) fn end(&self, task: OwnedTask, outcome: Outcome, slot: Option<usize>, out: &mut Vec<Command>) {
        if task.shared().internal {
            return self.end_internal(task, outcome, slot, out);
        }
        let lane = task.shared().lane;
        self.report_end(task, outcome, slot, out);
        self.progress.finish(slot, lane, false);
    }

    fn report_end(&self, task: OwnedTask, outcome: Outcome, slot: Option<usize>, out: &mut Vec<Command>) {
        let ended = Event::Finished(task, outcome);
        match slot {
            Some(_) => self.engine.on(ended, out),
            None => running::inside(self.id, || self.engine.on(ended, out)),
        }
    }

    /// As [`Self::end`], for the runtime's own tasks; tells the thread that waits for it.
    #[cold]
    fn end_internal(&self, mut task: OwnedTask, outcome: Outcome, slot: Option<usize>, out: &mut Vec<Command>) {
        let waits = task.owned_mut().as_mut().and_then(|side| side.awaited_by.take());
        let lane = task.shared().lane;
        self.report_end(task, outcome, slot, out);
        self.progress.finish(slot, lane, true);
        if let Some(parker) = waits {
            parker.unpark();
        }
    }

    /// Runs a body, or drops it if the task is poisoned; whatever the body does, it stays here. In a host's slot others
    /// can see what is running.
    #[inline]
    pub(crate) fn run_body(&self, task: &mut OwnedTask, env: &Env<'_>, slot: Option<usize>) -> Outcome {
        if let Some(outcome) = self.refusal(task) {
            return outcome;
        }
        let _running = self.conflicts.as_ref().map(|detector| detector.enter(task));
        let task: &OwnedTask = task;
        let run = || {
            let run = |body: &(dyn Body + 'static)| catch_unwind(AssertUnwindSafe(|| body.run(env)));
            match slot {
                Some(slot) => self.running[slot].during(task, run),
                None => run(task.body()),
            }
        };
        let start = (!self.on_fast_path()).then(Instant::now);
        let ran = match env.context.inner_cores {
            1 => running::as_part_of(self.id, task, run),
            _ => running::as_part_of_with_team(self.id, task, run),
        };
        match ran {
            Ok(Ok(())) => Outcome::Done { elapsed_ns: start.map_or(0, |start| start.elapsed().as_nanos() as u64) },
            failed => Self::failed(failed),
        }
    }

    #[cold]
    fn failed(ran: std::thread::Result<Result<(), BoxError>>) -> Outcome {
        Outcome::Failed(match ran {
            Ok(Ok(())) => unreachable!("it has not failed"),
            Ok(Err(error)) => FailureReason::Returned(error),
            Err(payload) => FailureReason::from_panic(payload),
        })
    }

    /// How a task ends that must not run; its body is dropped.
    #[inline]
    pub(super) fn refusal(&self, task: &OwnedTask) -> Option<Outcome> {
        let is_refused = task.is_poisoned() || self.cancelled.load(Ordering::Relaxed);
        if is_refused { self.refuse(task) } else { None }
    }

    #[cold]
    fn refuse(&self, task: &OwnedTask) -> Option<Outcome> {
        let outcome = match task.is_poisoned() {
            true => Outcome::Skipped,
            false if task.shared().internal => return None, // the runtime needs its own to the end
            false => Outcome::Failed(FailureReason::Cancelled),
        };
        self.discard(task);
        Some(outcome)
    }

    pub(super) fn discard(&self, task: &OwnedTask) {
        running::as_part_of(self.id, task, || drop_quietly(|| task.body().discard()));
    }

    /// Tells those who wait for a number of tasks. To be called by a thread that has ended tasks and may end no more.
    pub(crate) fn tell_waiters(&self) {
        fence(Ordering::SeqCst);
        if self.waiters.attention() != 0 {
            self.waiters.look(&self.progress);
        }
    }

    /// Lets everybody look again, whatever they wait for.
    pub(super) fn wake_everybody(&self) {
        self.waiters.wake_all();
        self.idle.wake_all();
    }

    /// Ends the units' threads; those of them that have tasks to run finish these first.
    pub(super) fn shut_down(&self) {
        self.shutdown.store(true, Ordering::SeqCst);
        self.wake_everybody();
    }

    /// The runtime can not be relied on any more: nobody waits any longer, and nothing more is accepted.
    #[cold]
    pub(super) fn break_down(&self, problem: String) {
        tracing::error!("{problem}");
        let _ = self.broken.set(problem); // the first one counts
        self.progress.close();
        self.wake_everybody();
    }

    /// Whether tasks may never finish.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.get().is_some()
    }

    /// Why tasks may never finish, if so.
    pub(super) fn broken(&self) -> Result<(), SubmitError> {
        self.broken.get().map_or(Ok(()), |problem| Err(SubmitError::Broken { problem: problem.clone() }))
    }

    /// Refuses a task that comes when the runtime is ending, unless it belongs to one that came before.
    #[cold]
    fn admit_late(&self, lane: u8, internal: bool) -> Result<(), SubmitError> {
        let belongs = internal || Host::in_body(self.id);
        if belongs && !self.progress.is_closed() {
            return Ok(());
        }
        Err(self.uncount(lane, self.broken().err().unwrap_or(SubmitError::ShutDown)))
    }

    /// Takes back that a task was counted.
    #[cold]
    fn uncount(&self, lane: u8, error: SubmitError) -> SubmitError {
        self.progress.finish(None, lane, false);
        self.tell_waiters();
        error
    }

    /// Keeps the memory of a data object that was released too late for a task to free it, until nobody can be using
    /// it.
    pub(super) fn keep(&self, cell: Arc<DataCell>) {
        self.kept.lock().push(cell);
    }
}

/// Tells everybody if a thread unwinds out of the runtime's own code. To be forgotten where it does not.
pub(super) struct BreakOnUnwind<'a> {
    pub(super) core: &'a Core,
    /// What the thread was doing.
    pub(super) during: &'static str,
}

impl Drop for BreakOnUnwind<'_> {
    fn drop(&mut self) {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        self.core.break_down(format!("the runtime panicked during {} on thread `{name}`", self.during));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::depend::Kinds;
    use crate::memory::{Payload, With};
    use crate::runtime::Runtime;
    use crate::task::{AccessSpec, Recorded};
    use std::marker::PhantomData;
    use std::sync::Arc;
    use std::sync::mpsc::{Sender, channel};

    /// Waits in its destructor, and sends what that says.
    struct Waits(Arc<Runtime>, Sender<bool>);

    impl Drop for Waits {
        fn drop(&mut self) {
            self.1.send(self.0.wait().is_ok()).unwrap();
        }
    }

    #[test]
    fn what_a_task_captured_that_is_refused_at_last_may_wait_for_the_others() {
        let rt = Arc::new(Runtime::builder().compute_units("1:CPU:1").build().unwrap());
        let x = rt.data(vec![0u64; 10]);
        let access = x.inout();
        access.check(rt.core.id).unwrap();
        x.cell.datum.set_taken(true); // as by another thread, just now
        let (said, heard) = channel();
        let captured = Waits(rt.clone(), said);
        let body = move |_: &crate::Context, _: (&mut [u64],)| drop(captured);
        let payload = Payload::new((access.store(crate::sealed::INTERNAL),), With(body, PhantomData), Kinds::CPU);
        let Recorded(record) = access.record();
        let (name, location) = (Cow::Borrowed("late"), Location::caller());
        let description = Description { name, location, priority: 0, internal: false, side: None };
        let refused = rt.core.submit(description, payload, &[record], |_| ());
        assert!(matches!(refused, Err(SubmitError::Taken { .. })));
        assert_eq!(heard.try_recv(), Ok(true), "its destructor has run, and did not wait for its own task");
        x.cell.datum.set_taken(false);
    }
}

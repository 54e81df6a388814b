//! What all threads of a runtime share, and how commands of the engine are carried out.

use super::conflict::ConflictDetector;
use super::devices::Devices;
use super::host::Host;
use super::ready::ReadyQueues;
use super::thief::Tally;
use crate::depend::{AccessRecord, Body, Env, Meta, OwnedTask, Side, Submitting};
use crate::engine::{Command, Engine, Event, Outcome};
use crate::error::{FailureReason, SubmitError};
use crate::ids::TaskId;
use crate::machine::Machine;
use crate::sim::Simulation;
use crate::sync::{Sleep, drop_quietly};
use crossbeam_utils::CachePadded;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::Instant;

/// Who carries commands out.
pub(crate) enum Driver {
    /// Threads of CPU units; any of them may run any task (the short way).
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
    /// Where threads sleep that execute tasks.
    pub(crate) idle: Sleep,
    /// Where threads sleep that wait for something and execute nothing.
    pub(crate) waiters: Sleep,
    pub(crate) conflicts: Option<ConflictDetector>,
    pub(crate) window: u64,
    pub(crate) shutdown: AtomicBool,
    /// No further body is run: the program is unwinding.
    pub(crate) cancelled: AtomicBool,
    submitted: CachePadded<AtomicU64>,
    /// Tasks finished by each unit's host, by a guest in the place of unit 0's, and by threads that are no unit's; but
    /// for the last, each counter has one writer at a time.
    finished: Box<[CachePadded<AtomicU64>]>,
    /// Of `finished`, how many were the runtime's own.
    internal: Box<[CachePadded<AtomicU64>]>,
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
        window: u64,
        machine: Machine,
    ) -> Self {
        let counters = || (0..machine.num_units() + 2).map(|_| CachePadded::default()).collect();
        Self {
            id,
            engine,
            ready,
            driver,
            built: Instant::now(),
            idle: Sleep::new(),
            waiters: Sleep::new(),
            conflicts,
            window,
            shutdown: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            submitted: CachePadded::default(),
            finished: counters(),
            internal: counters(),
            machine,
        }
    }

    /// Whether any thread may run any task.
    #[inline]
    pub(crate) fn on_short_way(&self) -> bool {
        matches!(self.driver, Driver::Threads)
    }

    /// The devices, if tasks run in other memories than their home.
    #[inline]
    pub(crate) fn devices(&self) -> Option<&Devices> {
        if let Driver::Devices(devices) = &self.driver { Some(devices) } else { None }
    }

    /// The virtual clock, if there is no real one.
    pub(crate) fn simulation(&self) -> Option<&Simulation> {
        if let Driver::Simulated(simulation) = &self.driver { Some(simulation) } else { None }
    }

    /// Tasks submitted and not yet finished.
    pub(crate) fn pending(&self) -> u64 {
        // Finished before submitted: if the two are equal now, nothing was pending at the first reading.
        let finished: u64 = self.finished.iter().map(|count| count.load(Ordering::Acquire)).sum();
        self.submitted.load(Ordering::Acquire) - finished
    }

    /// What the host of a slot, and everybody else, have done so far.
    pub(crate) fn tally(&self, slot: usize) -> Tally {
        let own = self.finished[slot].load(Ordering::Relaxed);
        let finished: u64 = self.finished.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        Tally { own, others: self.submitted.load(Ordering::Relaxed) + finished - own }
    }

    /// Tasks of the user's that each unit has finished.
    pub(crate) fn finished_by_unit(&self) -> Vec<u64> {
        let both = self.finished.iter().zip(&self.internal);
        let mut counts: Vec<u64> =
            both.map(|(all, own)| all.load(Ordering::Acquire).saturating_sub(own.load(Ordering::Acquire))).collect();
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
        let commutative = accesses.iter().any(|access| access.mode == crate::depend::Mode::Commutative);
        let Description { name, location, priority, internal, side } = description;
        let meta = || {
            let id = TaskId(self.submitted.fetch_add(1, Ordering::Relaxed));
            Meta { id, name, location, priority, internal, commutative, join: false }
        };
        // As a rule every access leaves one reference behind, in one fragment.
        let shares = accesses.len() as u32;
        let mut task = Submitting::new(meta, side, payload, shares, |payload| payload as *mut (dyn Body + 'static));
        let id = task.shared().id;
        let watched = watch(&mut task);
        let entered = Host::with(self.id, |host| match host {
            Some(host) => {
                let mut out = host.commands.take();
                let entered = self.engine.submitted(task, accesses, &mut out);
                self.carry_out(Some(host), &mut out);
                host.commands.set(out);
                if id.0.is_multiple_of(super::host::CHECK_WINDOW_EVERY) {
                    host.help_beyond_window(self);
                }
                entered
            }
            None => {
                let mut out = Vec::new();
                let entered = self.engine.submitted(task, accesses, &mut out);
                self.carry_out(None, &mut out);
                if id.0.is_multiple_of(super::host::CHECK_WINDOW_EVERY) {
                    self.simulate_beyond_window();
                }
                entered
            }
        });
        if let Err((error, refused)) = entered {
            self.finished[self.finished.len() - 1].fetch_add(1, Ordering::AcqRel);
            self.notify_if_quiescent();
            drop(refused); // nothing waits for it: what it captured may wait for the rest
            return Err(error);
        }
        Ok(watched)
    }

    /// Carries out what the engine asked for, and what follows from that at once.
    #[inline]
    pub(crate) fn carry_out(&self, host: Option<&Host>, out: &mut Vec<Command>) {
        let mut next = 0;
        while next < out.len() {
            let batch: &mut Vec<Command> = out;
            match std::mem::replace(&mut batch[next], Command::Nothing) {
                Command::Nothing => {}
                Command::Run(task) if self.on_short_way() => {
                    self.ready.push(task, host);
                    self.idle.wake(1);
                }
                Command::Run(task) => self.run_at_home(task, out),
                Command::Skip(task) => self.skip(task, out),
                command => match (&self.driver, command) {
                    (Driver::Simulated(_), Command::Release(released)) => {
                        self.engine.on(Event::Released(released.space, released.bytes), out);
                    }
                    (Driver::Simulated(simulation), command) => simulation.carry_out(command),
                    (_, Command::Launch(launch)) => {
                        self.ready.push_launch(launch);
                        self.idle.wake_all();
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

    /// Runs one of the runtime's own tasks on this thread, now.
    fn run_at_home(&self, mut task: OwnedTask, out: &mut Vec<Command>) {
        let bound_to_device = task.owned().as_ref().is_some_and(|side| side.space.is_some_and(|s| !s.is_host()));
        let mut phantom = false;
        task.body().accesses(&mut |access| phantom |= access.datum.phantom);
        let outcome = if bound_to_device || phantom {
            self.discard(&mut task); // the copy was all that was wanted, or there is nothing to see
            Outcome::Done { elapsed_ns: 0 }
        } else {
            self.run_body(&mut task, &Env { context: self.ready.home_context(), sites: None })
        };
        self.end(task, outcome, None, out);
    }

    fn skip(&self, mut task: OwnedTask, out: &mut Vec<Command>) {
        self.discard(&mut task);
        self.end(task, Outcome::Skipped, None, out);
        self.notify_if_quiescent(); // this thread may be a submitter or a copy engine, which never asks for more tasks
    }

    /// Reports a task as ended and counts it in a host's slot; that host calls it as from inside a body.
    #[inline]
    pub(crate) fn end(&self, task: OwnedTask, outcome: Outcome, slot: Option<usize>, out: &mut Vec<Command>) {
        let internal = task.shared().internal;
        let ended = Event::Finished(task, outcome);
        match slot {
            Some(_) => self.engine.on(ended, out),
            None => Host::as_inside(self.id, || self.engine.on(ended, out)),
        }
        let of_host = slot.is_some();
        let slot = slot.unwrap_or(self.finished.len() - 1);
        let count = |counter: &AtomicU64| match of_host {
            // One writer: no need for a locked instruction.
            true => counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Release),
            false => drop(counter.fetch_add(1, Ordering::AcqRel)),
        };
        if internal {
            count(&self.internal[slot]);
        }
        count(&self.finished[slot]);
        if internal {
            self.wake_those_who_wait(); // somebody may wait for it
        }
    }

    /// Runs a body, or drops it if the task is poisoned; whatever the body does, it stays here.
    #[inline]
    pub(crate) fn run_body(&self, task: &mut OwnedTask, env: &Env<'_>) -> Outcome {
        if let Some(outcome) = self.refusal(task) {
            return outcome;
        }
        let start = (!self.on_short_way()).then(Instant::now);
        let _running = self.conflicts.as_ref().map(|detector| detector.enter(task));
        match catch_unwind(AssertUnwindSafe(|| task.body().run(env))) {
            Ok(Ok(())) => Outcome::Done { elapsed_ns: start.map_or(0, |start| start.elapsed().as_nanos() as u64) },
            Ok(Err(error)) => Outcome::Failed(FailureReason::Returned(error)),
            Err(payload) => Outcome::Failed(FailureReason::from_panic(payload)),
        }
    }

    /// How a task ends that must not run; its body is dropped.
    #[inline]
    pub(super) fn refusal(&self, task: &mut OwnedTask) -> Option<Outcome> {
        if task.poison().is_some() {
            self.discard(task);
            return Some(Outcome::Skipped);
        }
        if self.cancelled.load(Ordering::Relaxed) && !task.shared().internal {
            self.discard(task);
            return Some(Outcome::Failed(FailureReason::Cancelled));
        }
        None
    }

    pub(super) fn discard(&self, task: &mut OwnedTask) {
        Host::as_inside(self.id, || drop_quietly(|| task.body().discard()));
    }

    /// To be called by a thread that has ended tasks and may end no more: wakes those who wait for the end.
    pub(crate) fn notify_if_quiescent(&self) {
        fence(Ordering::SeqCst);
        if self.pending() == 0 {
            self.wake_those_who_wait();
        }
    }

    /// Lets everybody who waits look again; some of them execute tasks meanwhile.
    pub(crate) fn wake_those_who_wait(&self) {
        self.waiters.wake_all();
        self.idle.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{NoBody, Payload, With};
    use crate::runtime::Runtime;
    use crate::task::{AccessSpec, Recorded};
    use std::cell::Cell;
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
        let cpu = Cell::new(Some(With(body, PhantomData)));
        let (emulated, gpu) = (Cell::new(Some(NoBody)), Cell::new(Some(NoBody)));
        let payload = Payload { accesses: (access.store(),), cpu, emulated, gpu, host_only: false };
        let Recorded(record) = access.record();
        let (name, location) = (Cow::Borrowed("late"), Location::caller());
        let description = Description { name, location, priority: 0, internal: false, side: None };
        let refused = rt.core.submit(description, payload, &[record], |_| ());
        assert!(matches!(refused, Err(SubmitError::Taken { .. })));
        assert_eq!(heard.try_recv(), Ok(true), "its destructor has run, and did not wait for its own task");
        x.cell.datum.set_taken(false);
    }
}

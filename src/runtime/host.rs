//! Hosting threads: each leads one compute unit and executes its tasks.
//!
//! A finishing task's first ready successor is executed next, without a queue: its data are in the cache. An idle thread
//! looks around for a while, ever less often, and then sleeps ([`crate::sync::Sleep`]).
//!
//! The thread that builds a runtime can host unit 0: it then executes tasks whenever it waits, and when too many are
//! pending. While it does neither, tasks in its deque are there for others to steal.

use super::core::Core;
use super::thief::Thief;
use crate::depend::{Context, Env, OwnedTask, Site};
use crate::engine::{Command, Event, Launch, Outcome};
use crate::error::FailureReason;
use crate::ids::DeviceId;
use crate::machine::UnitKind;
use crossbeam_deque::Worker;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How many submissions pass between two looks at the window.
pub(super) const CHECK_WINDOW_EVERY: u64 = 32;
/// How long an idle thread looks around before it sleeps.
const LOOK_AROUND: Duration = Duration::from_micros(60);
/// After so many launches in a row, a device's hosting thread looks what has ended.
const LOOK_AFTER_LAUNCHES: u32 = 8;
/// How long a submitter waits for progress before it exceeds the window.
const AWAIT_PROGRESS: Duration = Duration::from_micros(200);

/// A thread's part in a runtime.
pub(crate) struct Host {
    runtime: u64,
    pub(super) unit: usize,
    /// Its deque among all, and its counter: of a unit's host the unit, of a guest the one after all units.
    pub(super) slot: usize,
    pub(super) deque: Worker<OwnedTask>,
    /// A vector to reuse; empty while somebody up the stack has it.
    pub(super) commands: Cell<Vec<Command>>,
    /// Whether it is worth while to steal.
    pub(super) thief: Thief,
    context: Context,
    /// The unit's devices.
    pub(super) devices: Vec<DeviceId>,
    /// Launches since it looked what has ended on them.
    unwatched: Cell<u32>,
    /// For a unit with several cores whose thread is not itself in the pool.
    pool: Option<rayon::ThreadPool>,
    /// How many pending tasks the submitter puts up with at the moment.
    patience: Cell<u64>,
    /// How many bodies of this runtime are on this thread's stack.
    depth: Cell<u32>,
}

thread_local! {
    /// The runtimes in which this thread hosts a unit; one, as a rule.
    static HOSTS: RefCell<Vec<Rc<Host>>> = const { RefCell::new(Vec::new()) };
    /// The runtimes whose bodies alone bring user code to this thread: it is theirs, or a guest.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

impl Host {
    pub(super) fn new(
        core: &Core,
        unit: usize,
        slot: usize,
        deque: Worker<OwnedTask>,
        pool: Option<rayon::ThreadPool>,
    ) -> Rc<Self> {
        let machine_unit = &core.machine.units()[unit];
        let context = Context {
            unit: machine_unit.id,
            kind: machine_unit.kind,
            device: machine_unit.devices.first().copied(),
            inner_cores: machine_unit.inner_cores(),
        };
        Rc::new(Self {
            runtime: core.id,
            unit,
            slot,
            deque,
            commands: Cell::default(),
            thief: Thief::default(),
            context,
            devices: machine_unit.devices.clone(),
            unwatched: Cell::new(0),
            pool,
            patience: Cell::new(core.window),
            depth: Cell::new(0),
        })
    }

    /// Makes this thread the host.
    pub(super) fn enter(self: Rc<Self>) {
        HOSTS.with(|hosts| hosts.borrow_mut().push(self));
    }

    /// This thread hosts nothing in that runtime any more.
    pub(super) fn leave(runtime: u64) {
        let _ = HOSTS.try_with(|hosts| hosts.borrow_mut().retain(|host| host.runtime != runtime));
    }

    /// Calls `f` with this thread's part in that runtime, if it has one.
    #[inline]
    pub(super) fn with<R>(runtime: u64, f: impl FnOnce(Option<&Host>) -> R) -> R {
        let host = HOSTS.try_with(|hosts| hosts.borrow().iter().find(|host| host.runtime == runtime).cloned());
        f(host.ok().flatten().as_deref())
    }

    /// From now on, user code on this thread is that runtime's bodies'.
    pub(super) fn enter_inside(runtime: u64) {
        INSIDE.with(|inside| inside.borrow_mut().push(runtime));
    }

    /// Takes the last [`Self::enter_inside`] back.
    pub(super) fn leave_inside() {
        let _ = INSIDE.try_with(|inside| inside.borrow_mut().pop());
    }

    /// Whether user code on this thread is part of a body of this runtime, so that it must not wait for it.
    pub(super) fn in_body(runtime: u64) -> bool {
        let inside = INSIDE.try_with(|inside| inside.borrow().contains(&runtime)).unwrap_or(false);
        inside || Self::with(runtime, |host| host.is_some_and(|host| host.depth.get() > 0))
    }

    /// The life of a unit's own thread.
    pub(super) fn work(&self, core: &Core) {
        self.run_until(core, || core.shutdown.load(Ordering::Acquire) && core.pending() == 0);
    }

    /// Executes tasks until `done`; sleeps while there are none.
    pub(super) fn run_until(&self, core: &Core, done: impl Fn() -> bool) {
        let mut executed = false;
        let mut idle_since: Option<Instant> = None;
        let mut pauses = 1;
        while !done() {
            if self.step(core) {
                (executed, idle_since, pauses) = (true, None, 1);
                continue;
            }
            if std::mem::take(&mut executed) {
                core.notify_if_quiescent();
            }
            let since = *idle_since.get_or_insert_with(Instant::now);
            if since.elapsed() < LOOK_AROUND {
                (0..pauses).for_each(|_| std::hint::spin_loop());
                pauses = (pauses * 2).min(256);
                if pauses == 256 {
                    std::thread::yield_now();
                }
            } else {
                let devices = core.devices().filter(|_| !self.devices.is_empty());
                if let Some(devices) = devices {
                    devices.arm(&self.devices);
                }
                let news = || devices.is_some_and(|devices| devices.have_news(&self.devices));
                core.idle.sleep_unless(|| done() || core.ready.in_sight(self.unit) || news());
                (idle_since, pauses) = (None, 1);
            }
        }
        if executed {
            core.notify_if_quiescent();
        }
        if core.ready.in_sight(self.unit) {
            core.idle.wake(1); // this thread may have been woken for a task that it does not stay for
        }
    }

    /// The submitter's contribution when many tasks are pending: executes some, so that memory and caches stay small.
    ///
    /// If nothing can be executed and nothing finishes either, everything may be waiting for what this thread has yet
    /// to submit: then it goes on submitting, with twice the patience.
    #[inline]
    pub(super) fn help_beyond_window(&self, core: &Core) {
        let pending = core.pending();
        if pending > self.patience.get() {
            self.help(core, pending);
        } else if pending < core.window / 2 {
            self.patience.set(core.window);
        }
    }

    #[cold]
    fn help(&self, core: &Core, pending: u64) {
        if Self::in_body(core.id) {
            return; // a body or an operation that submits must end before anything else runs on this thread
        }
        let target = self.patience.get() / 2;
        let (mut last, mut since) = (pending, Instant::now());
        let mut executed = false;
        loop {
            let pending = core.pending();
            if pending <= target {
                break;
            }
            if self.step(core) {
                executed = true;
                continue;
            }
            if pending < last {
                (last, since) = (pending, Instant::now());
            } else if since.elapsed() > AWAIT_PROGRESS {
                self.patience.set(self.patience.get().max(pending) * 2);
                break;
            }
            std::hint::spin_loop();
        }
        if executed {
            core.notify_if_quiescent();
        }
    }

    /// Executes one task and the chain of first successors behind it; false if there was none.
    #[inline]
    fn step(&self, core: &Core) -> bool {
        if !core.on_short_way() {
            let devices = core.devices().filter(|_| !self.devices.is_empty());
            let launch = core.ready.pop_launch(self.unit);
            let look = launch.is_none() || self.unwatched.get() >= LOOK_AFTER_LAUNCHES;
            self.unwatched.set(if look { 0 } else { self.unwatched.get() + 1 });
            let polled = devices.filter(|_| look).is_some_and(|devices| self.poll(core, devices));
            let Some(launch) = launch else { return polled };
            let lost = |device: DeviceId| devices.is_some_and(|devices| devices.is_lost(device));
            match (devices, launch.device) {
                (_, Some(device)) if lost(device) => self.give_back(core, launch.task),
                (Some(devices), Some(device)) if devices.emulated(device).is_none() => {
                    self.issue(core, devices, device, *launch);
                }
                _ => self.execute_launch(core, *launch),
            }
            return true;
        }
        let Some(mut task) = core.ready.pop(self, || core.tally(self.slot)) else { return false };
        loop {
            match self.execute(core, task) {
                Some(next) => task = next,
                None => return true,
            }
        }
    }

    /// Runs a task the short way; returns the successor to run next.
    #[inline]
    fn execute(&self, core: &Core, mut task: OwnedTask) -> Option<OwnedTask> {
        let env = Env { context: &self.context, sites: None };
        let outcome = self.inside(|| core.run_body(&mut task, &env));
        let mut out = self.commands.take();
        core.end(task, outcome, Some(self.slot), &mut out);
        let next = match out.pop() {
            // The successor submitted first comes last.
            Some(Command::Run(next)) if next.shared().priority == 0 && !core.ready.has_urgent() => Some(next),
            Some(other) => {
                out.push(other);
                None
            }
            None => None,
        };
        core.carry_out(Some(self), &mut out);
        self.commands.set(out);
        next
    }

    /// Runs a placed task on its replicas.
    fn execute_launch(&self, core: &Core, launch: Launch) {
        let Launch { mut task, device, places, .. } = launch;
        // Without a device the hosting thread of a device unit stands in for a core.
        let kind = if device.is_some() { self.context.kind } else { UnitKind::Cpu };
        let context = Context { device, kind, ..self.context.clone() };
        let emulated =
            core.devices().zip(device).and_then(|(devices, device)| Some((devices, devices.emulated(device)?)));
        let outcome = match emulated {
            Some((devices, emulated)) => {
                let sites: Vec<Site> = devices.sites(&task, &places);
                let mut outcome = None;
                let start = Instant::now();
                let ran = emulated.run(&mut || {
                    let env = Env { context: &context, sites: Some(&sites) };
                    outcome = Some(self.inside(|| core.run_body(&mut task, &env)));
                });
                match (ran, outcome) {
                    // What the device's speed adds to the body is part of its time.
                    (Ok(()), Some(Outcome::Done { .. })) => {
                        Outcome::Done { elapsed_ns: start.elapsed().as_nanos() as u64 }
                    }
                    (Ok(()), outcome) => outcome.expect("a device runs the body it is given"),
                    (Err(error), _) => {
                        devices.lose(device, &error);
                        core.discard(&mut task);
                        Outcome::Failed(FailureReason::Device(error))
                    }
                }
            }
            None => self.inside(|| core.run_body(&mut task, &Env { context: &context, sites: None })),
        };
        let mut out = self.commands.take();
        core.end(task, outcome, Some(self.slot), &mut out);
        core.carry_out(Some(self), &mut out);
        self.commands.set(out);
    }

    /// Gives a task back that was to run on a device that is gone.
    fn give_back(&self, core: &Core, task: OwnedTask) {
        let mut out = self.commands.take();
        core.engine.on(Event::Returned(task), &mut out);
        core.carry_out(Some(self), &mut out);
        self.commands.set(out);
    }

    /// Runs `body` as this unit: with its cores, and marked as inside a body.
    #[inline]
    pub(super) fn inside<R: Send>(&self, body: impl FnOnce() -> R + Send) -> R {
        self.depth.set(self.depth.get() + 1);
        let result = match &self.pool {
            None => body(),
            Some(pool) => pool.install(body),
        };
        self.depth.set(self.depth.get() - 1);
        result
    }
}

//! Hosting threads: each leads one compute unit and executes its tasks.
//!
//! A finishing task's first ready successor is executed next, without a queue: its data are in the cache. An idle
//! thread looks around for a while, ever less often, and then sleeps ([`crate::sync::Sleep`]).
//!
//! The thread that builds a runtime can host unit 0: it then executes tasks whenever it waits, and when too many are
//! pending. While it does neither, tasks in its deque are there for others to steal.

use super::thief::Thief;
use crate::depend::running;
use crate::depend::{Context, Env, OwnedTask, Site};
use crate::driver::shared::Core;
use crate::driver::waiters::{Waiting, own_parker};
use crate::engine::{Command, Event, Launch, Outcome};
use crate::error::FailureReason;
use crate::ids::DeviceId;
use crate::machine::UnitKind;
use crate::sync::Parker;
use crossbeam_deque::Worker;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long an idle thread looks around before it sleeps.
const LOOK_AROUND: Duration = Duration::from_micros(60);
/// After so many launches in a row, a device's hosting thread looks what has ended.
const LOOK_AFTER_LAUNCHES: u32 = 8;
/// After so many tasks a host runs one that has been ready for long, so that none waits for a chain of others to end.
const OLDEST_AFTER: u32 = 32;
/// The same while it waits for a value, which is likely to come from tasks that have been ready for long.
const OLDEST_AFTER_TO_VALUE: u32 = 2;
/// Between two looks whether it is done waiting, a host runs at most so many tasks while many are left.
const MOST_WITHOUT_LOOK: u64 = 31;

/// A thread's part in a runtime.
pub(crate) struct Host {
    runtime: u64,
    pub(crate) unit: usize,
    /// Its deque among all, and its counter: of a unit's host the unit, of a guest the one after all units.
    pub(crate) slot: usize,
    pub(crate) deque: Worker<OwnedTask>,
    /// A vector to reuse; empty while somebody up the stack has it.
    pub(crate) commands: Cell<Vec<Command>>,
    /// Tasks run since the last one that had been ready for long.
    in_row: Cell<u32>,
    /// How many that may be.
    oldest_after: Cell<u32>,
    /// Whether it is worth while to steal.
    pub(crate) thief: Thief,
    context: Context,
    /// The unit's devices.
    pub(crate) devices: Vec<DeviceId>,
    /// Launches since it looked what has ended on them.
    unwatched: Cell<u32>,
    /// For a unit with several cores whose thread is not itself in the pool, which is the runtime's.
    pool: Weak<rayon::ThreadPool>,
    has_pool: bool,
    /// Whether the runtime is still there.
    alive: Weak<Core>,
    /// How many submissions are left until it looks at the window.
    pub(crate) until_look: Cell<u32>,
    /// How many finished tasks are left until it looks whether others wait for no more, and what it saw of them last.
    until_told: Cell<u64>,
    attention: Cell<u32>,
}

thread_local! {
    /// The runtimes in which this thread hosts a unit; one, as a rule.
    static HOSTS: RefCell<Vec<Rc<Host>>> = const { RefCell::new(Vec::new()) };
    /// The runtimes whose bodies alone bring user code to this thread: it is theirs, or a guest.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

impl Host {
    pub(crate) fn new(
        core: &Arc<Core>,
        unit: usize,
        slot: usize,
        deque: Worker<OwnedTask>,
        pool: Option<&Arc<rayon::ThreadPool>>,
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
            in_row: Cell::new(0),
            oldest_after: Cell::new(OLDEST_AFTER),
            thief: Thief::default(),
            context,
            devices: machine_unit.devices.clone(),
            unwatched: Cell::new(0),
            pool: pool.map_or_else(Weak::new, Arc::downgrade),
            has_pool: pool.is_some(),
            alive: Arc::downgrade(core),
            until_look: Cell::new(0),
            until_told: Cell::new(0),
            attention: Cell::new(0),
        })
    }

    /// Makes this thread the host. What is left of runtimes that ended on other threads goes.
    pub(crate) fn enter(self: Rc<Self>) {
        let ended = HOSTS.with(|hosts| {
            let mut hosts = hosts.borrow_mut();
            hosts.push(self);
            hosts.extract_if(.., |host| host.alive.strong_count() == 0).collect::<Vec<_>>()
        });
        drop(ended);
    }

    /// This thread hosts nothing in that runtime any more.
    pub(crate) fn leave(runtime: u64) {
        let _ = HOSTS.try_with(|hosts| hosts.borrow_mut().retain(|host| host.runtime != runtime));
    }

    /// Calls `f` with this thread's part in that runtime, if it has one.
    #[inline]
    pub(crate) fn with<R>(runtime: u64, f: impl FnOnce(Option<&Host>) -> R) -> R {
        let host = HOSTS.try_with(|hosts| hosts.borrow().iter().find(|host| host.runtime == runtime).cloned());
        f(host.ok().flatten().as_deref())
    }

    /// From now on, user code on this thread is that runtime's bodies'.
    pub(crate) fn enter_inside(runtime: u64) {
        let _ = INSIDE.try_with(|inside| inside.borrow_mut().push(runtime)); // a thread that ends hosts nothing
    }

    /// Takes the last [`Self::enter_inside`] back.
    pub(crate) fn leave_inside() {
        let _ = INSIDE.try_with(|inside| inside.borrow_mut().pop());
    }

    /// Whether user code on this thread is part of a body of this runtime, so that it must not wait for it.
    pub(crate) fn in_body(runtime: u64) -> bool {
        let inside = INSIDE.try_with(|inside| inside.borrow().contains(&runtime)).unwrap_or(false);
        inside || running::is_inside(runtime)
    }

    /// The life of a unit's own thread.
    pub(crate) fn work(&self, core: &Core) {
        // Nothing is pending then. Not a look at the counters: what is refused late is counted for a moment.
        let left = || u64::from(!core.shutdown.load(Ordering::Acquire));
        self.run_until(core, &own_parker(), None, left, || None);
    }

    /// Executes tasks until none is `left` to wait for; sleeps while there are none, no longer than `nap` says.
    ///
    /// `left` says how many tasks have to finish first, at least. Whoever is `waiting` for something is told of it
    /// while asleep.
    pub(crate) fn run_until(
        &self,
        core: &Core,
        parker: &Arc<Parker>,
        waiting: Option<&Waiting<'_>>,
        left: impl Fn() -> u64,
        nap: impl Fn() -> Option<Duration>,
    ) {
        core.hosting[self.slot].is_this_thread();
        let to_value = waiting.is_some_and(|waiting| waiting.to_value());
        let oldest_after = self.oldest_after.replace(if to_value { OLDEST_AFTER_TO_VALUE } else { OLDEST_AFTER });
        let mut executed = false;
        let mut idle_since: Option<Instant> = None;
        let mut pauses = 1;
        // To know what is left, a thread has to look at every unit's counter. While it runs tasks and many are left, it
        // looks less often than they can become none.
        let without_look = Cell::new(0);
        let goes_on = || match without_look.get() {
            0 => {
                let left = left();
                without_look.set((left / (2 * core.machine.num_units() as u64)).min(MOST_WITHOUT_LOOK));
                left > 0
            }
            more => {
                without_look.set(more - 1);
                true
            }
        };
        while goes_on() {
            if self.step(core, goes_on) {
                (executed, idle_since, pauses) = (true, None, 1);
                continue;
            }
            without_look.set(0);
            if std::mem::take(&mut executed) {
                core.tell_waiters();
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
                let awake = || left() == 0 || core.ready.in_sight(self.unit) || news();
                let ask = |asks| waiting.into_iter().for_each(|waiting| waiting.ask(asks));
                ask(true);
                core.idle.sleep_unless(self.unit, parker, nap(), awake);
                ask(false);
                (idle_since, pauses) = (None, 1);
            }
        }
        self.oldest_after.set(oldest_after);
        core.hosting[self.slot].is_nobody();
        if executed {
            core.tell_waiters();
        }
        if core.ready.in_sight(self.unit) {
            // This thread may have been woken for a task that it does not stay for.
            if core.on_fast_path() { core.idle.wake(1) } else { core.idle.wake_at(self.unit) }
        }
    }

    /// After a task: tells those who wait for a number of tasks, if there may be news for them.
    #[inline]
    pub(crate) fn tell_waiters(&self, core: &Core) {
        let attention = core.waiters.attention();
        if attention != 0 {
            self.look_after_waiters(core, attention);
        }
    }

    #[cold]
    fn look_after_waiters(&self, core: &Core, attention: u32) {
        if self.attention.replace(attention) == attention && self.until_told.get() > 0 {
            return self.until_told.set(self.until_told.get() - 1);
        }
        let left = core.waiters.look(&core.progress);
        self.until_told.set((left / (2 * core.machine.num_units() as u64)).min(MOST_WITHOUT_LOOK));
    }

    /// Executes one task and the chain of first successors behind it, as long as it `goes_on`; false if there was none.
    #[inline]
    fn step(&self, core: &Core, goes_on: impl Fn() -> bool) -> bool {
        #[cfg(test)]
        assert!(core.doomed.load(Ordering::Relaxed) != self.slot, "doomed by a test");
        if !core.on_fast_path() {
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
        let popped = self.oldest(core).or_else(|| core.ready.pop(self, || core.progress.tally(self.slot)));
        let Some(mut task) = popped else { return false };
        loop {
            match self.execute(core, task) {
                // What somebody waits for goes first: behind others, who waits might be in the body that they wait for.
                Some(next) if next.shared().internal && goes_on() => task = next,
                Some(next) if goes_on() => match self.oldest(core) {
                    None => task = next,
                    Some(oldest) => {
                        core.run_anywhere(next, Some(self));
                        task = oldest;
                    }
                },
                Some(next) => {
                    core.ready.push(next, Some(self)); // for whoever stays; this thread wakes somebody before it goes
                    return true;
                }
                None => return true,
            }
        }
    }

    /// From time to time, the task that has been ready longest.
    #[inline]
    fn oldest(&self, core: &Core) -> Option<OwnedTask> {
        let in_row = self.in_row.get() + 1;
        self.in_row.set(in_row);
        if in_row < self.oldest_after.get() { None } else { self.turn_to_oldest(core) }
    }

    #[cold]
    fn turn_to_oldest(&self, core: &Core) -> Option<OwnedTask> {
        self.in_row.set(0);
        core.ready.pop_oldest(self)
    }

    /// Runs a task the fast path; returns the successor to run next.
    #[inline]
    fn execute(&self, core: &Core, mut task: OwnedTask) -> Option<OwnedTask> {
        let (env, slot) = (Env { context: &self.context, sites: None }, Some(self.slot));
        let outcome = self.inside(|| core.run_body(&mut task, &env, slot));
        let mut next = None;
        let ready = |task| {
            if let Some(before) = next.replace(task) {
                core.run_anywhere(before, Some(self));
            }
        };
        match outcome {
            Outcome::Done { .. } if !task.drops_body() && !task.shared().internal => {
                let lane = task.shared().lane;
                core.engine.done_anywhere(task, ready);
                core.progress.finish(slot, lane, false);
            }
            outcome => self.end_anywhere(core, task, outcome, ready),
        }
        self.tell_waiters(core);
        match next {
            Some(next) if next.shared().priority != 0 || core.ready.has_urgent() => {
                core.run_anywhere(next, Some(self));
                None
            }
            next => next,
        }
    }

    /// Reports a task as ended that any unit could run, whatever is to be done then.
    fn end_anywhere(&self, core: &Core, task: OwnedTask, outcome: Outcome, mut ready: impl FnMut(OwnedTask)) {
        let mut out = self.commands.take();
        self.end(core, task, outcome, &mut out);
        // The successor submitted first comes last.
        let next = out.pop_if(|command| matches!(command, Command::Run(_)));
        core.carry_out(Some(self), &mut out);
        self.commands.set(out);
        if let Some(Command::Run(next)) = next {
            ready(next);
        }
    }

    /// Runs a placed task on its replicas.
    fn execute_launch(&self, core: &Core, launch: Launch) {
        let Launch { mut task, device, places, .. } = launch;
        let slot = Some(self.slot);
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
                    outcome = Some(self.inside(|| core.run_body(&mut task, &env, slot)));
                });
                match (ran, outcome) {
                    // What the device's speed adds to the body is part of its time.
                    (Ok(()), Some(Outcome::Done { .. })) => {
                        Outcome::Done { elapsed_ns: start.elapsed().as_nanos() as u64 }
                    }
                    (Ok(()), outcome) => outcome.expect("a device runs the body it is given"),
                    (Err(error), _) => {
                        devices.lose(device, &error);
                        core.discard(&task);
                        Outcome::Failed(FailureReason::Device(error))
                    }
                }
            }
            None => {
                let env = Env { context: &context, sites: None };
                self.inside(|| core.run_body(&mut task, &env, slot))
            }
        };
        let mut out = self.commands.take();
        self.end(core, task, outcome, &mut out);
        core.carry_out(Some(self), &mut out);
        self.tell_waiters(core);
        self.commands.set(out);
    }

    /// Reports a task as ended, whose captured values may be dropped then: that is still inside its body.
    #[inline]
    pub(crate) fn end(&self, core: &Core, task: OwnedTask, outcome: Outcome, out: &mut Vec<Command>) {
        running::inside(core.id, || core.end(task, outcome, Some(self.slot), out));
    }

    /// Gives a task back that was to run on a device that is gone.
    fn give_back(&self, core: &Core, task: OwnedTask) {
        let mut out = self.commands.take();
        core.engine.on(Event::Returned(task), &mut out);
        core.carry_out(Some(self), &mut out);
        self.commands.set(out);
    }

    /// Runs `body` as this unit, with its cores.
    #[inline]
    pub(crate) fn inside<R: Send>(&self, body: impl FnOnce() -> R + Send) -> R {
        match self.has_pool.then(|| self.pool.upgrade()).flatten() {
            None => body(),
            Some(pool) => running::inside(self.runtime, || pool.install(body)),
        }
    }
}

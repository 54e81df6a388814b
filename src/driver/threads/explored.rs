//! Exploration: one thread plays all units and copy engines, and asks for each step what happens next.
//!
//! The thread that built the runtime hosts all units. While it waits, and between its submissions, it collects
//! everything that could happen next: ready tasks, tasks placed on any unit, copies under way, and bodies whose waits
//! are over. [`Choices`] decides which of these steps happens. Every task begins on a fiber, so a body that waits
//! leaves the thread to all others, and it continues in a later step.
//!
//! All other code is the same as without an exploration, so the schedules are ones that threads could produce. This
//! module decides nothing, and reads no clock except to notice that a program waits forever.
//!
//! Invariants:
//! 1. A collected task or copy is in [`Explored`] until its step happens. The threads' queues are empty meanwhile.
//! 2. The runtime's internal tasks run as soon as they are ready, without a decision: they never wait, and no other
//!    task observes when they run.

use super::devices::CopyJob;
use super::host::Host;
use super::state::Threads;
use super::waiting::Work;
use crate::depend::{Context, OwnedTask};
use crate::driver::{Driver, inside};
use crate::explore::{Choices, Step};
use crate::ids::{DeviceId, UnitId};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// How long the thread sleeps at once while there are no steps.
const NAP: Duration = Duration::from_millis(10);
/// If there is no step for this long, no other thread of the program is expected to cause one.
const PATIENCE: Duration = Duration::from_secs(3);

/// State of an exploration.
pub(super) struct Explored {
    choices: Arc<Choices>,
    held: Mutex<Held>,
}

/// Everything that could happen next, except resumptions of bodies.
struct Held {
    works: Vec<Work>,
    copies: Vec<(DeviceId, CopyJob)>,
    engines: Vec<(DeviceId, Receiver<CopyJob>)>,
}

/// A step that was decided on.
enum Decided {
    Resumption(usize),
    Arrival(DeviceId, CopyJob),
    Work(Work),
}

impl Explored {
    pub(super) fn new(choices: Arc<Choices>, engines: Vec<(DeviceId, Receiver<CopyJob>)>) -> Self {
        Self { choices, held: Mutex::new(Held { works: Vec::new(), copies: Vec::new(), engines }) }
    }

    /// Calls `see` with each collected task and, if the task was placed, its unit.
    pub(super) fn visit(&self, see: &mut dyn FnMut(&OwnedTask, Option<UnitId>)) {
        for work in &self.held.lock().works {
            match work {
                Work::Anywhere(task) => see(task, None),
                Work::Placed(launch) => see(&launch.task, Some(launch.unit)),
            }
        }
    }
}

impl Held {
    fn collect(&mut self, threads: &Threads) {
        let before = self.works.len();
        self.works.extend(threads.ready.take_all().into_iter().map(Work::Anywhere));
        for unit in 0..threads.shared.machine.num_units() {
            self.works.extend(std::iter::from_fn(|| threads.ready.pop_launch(unit)).map(Work::Placed));
        }
        if self.works.len() > before {
            let is_child = |task: &OwnedTask| task.owned().child.is_some();
            self.works.sort_by_key(|work| (!is_child(work.task()), work.task().shared().id));
        }
        for (device, jobs) in &self.engines {
            self.copies.extend(jobs.try_iter().map(|job| (*device, job)));
        }
    }
}

impl Threads {
    /// Performs steps until `left` returns 0.
    ///
    /// # Panics
    /// Panics if no step is possible for a while, because then the wait never ends.
    pub(super) fn explore_until(&self, host: &Host, explored: &Explored, left: impl Fn() -> u64) {
        let mut idle_since = None;
        while left() > 0 {
            if self.explore(host, explored, false) {
                idle_since = None;
                continue;
            }
            self.shared.tell_waiters();
            if left() == 0 {
                break;
            }
            let since = *idle_since.get_or_insert_with(Instant::now);
            if since.elapsed() > PATIENCE {
                let stall = self.shared.stall(since.elapsed(), self);
                explored.choices.note(format_args!("the program waits, and nothing can happen"));
                panic!("the program waits forever: {stall}");
            }
            crate::driver::waiters::own_parker().park(Some(NAP));
        }
        self.shared.tell_waiters();
    }

    /// Performs the steps that happen before the program's thread submits its next task.
    pub(super) fn explore_at_submission(&self, host: &Host, explored: &Explored) {
        if inside::in_body(self.shared.id) {
            return;
        }
        host.begin_stack(false);
        while self.explore(host, explored, true) {}
        if self.shared.window.stops_submission(self.shared.progress.pending()) {
            let target = self.shared.window.size() / 2;
            let _room_or_nothing =
                std::iter::repeat(()).take_while(|()| self.shared.progress.pending() > target).all(|()| {
                    // While all tasks wait for later submissions, nothing happens.
                    self.explore(host, explored, false)
                });
        }
        self.shared.tell_waiters();
    }

    /// Performs one step. Returns whether there was one. If the program `submits`, it may continue instead.
    pub(super) fn explore(&self, host: &Host, explored: &Explored, submits: bool) -> bool {
        if self.shared.is_broken() {
            return self.resume_woken(host);
        }
        let decided = self.decide(host, explored, submits, false);
        match decided.or_else(|| if host.is_isolated() { self.decide_isolated(host, explored) } else { None }) {
            None => return false,
            Some(Decided::Resumption(fiber)) => {
                let exposed = &self.shared.running[host.slot()];
                host.aside.resume(fiber, &host.own, exposed);
            }
            Some(Decided::Arrival(device, job)) => {
                let devices = self.placed();
                if let Some(event) = devices.serve(device, &job) {
                    self.react(|out| self.shared.engine.on(event, out));
                    devices.copied();
                }
            }
            Some(Decided::Work(work)) if work.task().shared().internal => self.run_work(host, work),
            Some(Decided::Work(work)) => self.begin_explored(host, explored, work),
        }
        true
    }

    /// Decides on a step during an isolated wait in which no descendant of the waiting body is ready. As on threads,
    /// the waiting unit takes descendants from the policy. If there are none, other units run other tasks.
    fn decide_isolated(&self, host: &Host, explored: &Explored) -> Option<Decided> {
        let claimed = |task: &OwnedTask| !task.shared().internal && host.allows(task);
        self.react(|out| self.shared.engine.claim(host.unit, &claimed, out));
        let others = || (self.shared.machine.num_units() > 1).then(|| self.decide(host, explored, false, true));
        self.decide(host, explored, false, false).or_else(|| others().flatten())
    }

    /// Decides on a step. In an isolated wait, the task is one of the waiting body's descendants, unless `all` is set.
    fn decide(&self, host: &Host, explored: &Explored, submits: bool, all: bool) -> Option<Decided> {
        let mut held = explored.held.lock();
        held.collect(self);
        if let Some(internal) = held.works.iter().position(|work| work.task().shared().internal) {
            return Some(Decided::Work(held.works.remove(internal)));
        }
        let Explored { choices, .. } = explored;
        let fibers = host.aside.woken(host.isolation_level());
        let is_allowed = |n: &usize| all || host.allows(held.works[*n].task());
        let allowed: Vec<usize> = (0..held.works.len()).filter(is_allowed).collect();
        let resumptions = fibers.iter().map(|fiber| Step::Resumption(*fiber));
        let arrivals = held.copies.iter().map(|(_, job)| Step::Arrival(job.number()));
        let tasks = allowed.iter().map(|n| Step::Task(held.works[*n].task().shared().id.0));
        let steps: Vec<Step> = resumptions.chain(arrivals).chain(tasks).collect();
        let chosen = match submits {
            true => choices.before_submission(&steps)?,
            false if steps.is_empty() => return None,
            false => choices.next(&steps),
        };
        if let Some(fiber) = fibers.get(chosen) {
            choices.note(format_args!("resume body {fiber}"));
            return Some(Decided::Resumption(*fiber));
        }
        let chosen = chosen - fibers.len();
        if chosen < held.copies.len() {
            let (device, job) = held.copies.remove(chosen);
            choices.note(format_args!("copy {} arrives at {device}", job.number()));
            return Some(Decided::Arrival(device, job));
        }
        let chosen = chosen - held.copies.len();
        Some(Decided::Work(held.works.remove(allowed[chosen])))
    }

    /// Begins a task on a fiber, or on this stack if there is no memory for a fiber.
    fn begin_explored(&self, host: &Host, explored: &Explored, work: Work) {
        let Explored { choices, .. } = explored;
        let mut bytes = 0;
        work.task().body().accesses(&mut |access| bytes += access.bytes());
        choices.note_bytes(bytes);
        let unit = match &work {
            Work::Anywhere(_) => UnitId(choices.pick(self.shared.machine.num_cpu_units()) as u16),
            Work::Placed(launch) => launch.unit,
        };
        let meta = work.task().shared();
        choices.note(format_args!("{} `{}` on {unit}", meta.id, meta.name));
        let run = move |threads: &Self, host: &Host| match work {
            Work::Anywhere(task) => {
                if let Some(next) = threads.execute_in(host, &threads.context_of(host, unit), task) {
                    threads.run_anywhere(next, Some(host));
                }
            }
            Work::Placed(launch) => threads.run_placed(host, launch),
        };
        match self.separate_stack(host) {
            Some(stack) => self.begin_on(stack, host, run),
            None => run(self, host),
        }
    }

    /// Returns the context of a body that the host runs for this unit.
    pub(super) fn context_of(&self, host: &Host, unit: UnitId) -> Context {
        let unit = self.shared.machine.unit(unit);
        Context {
            unit: unit.id,
            kind: unit.kind,
            device: unit.devices.first().copied(),
            inner_cores: unit.inner_cores(),
            ..host.context.clone()
        }
    }
}

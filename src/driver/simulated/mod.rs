//! The simulated driver: the units and links of a machine, which need not exist, on a virtual clock.
//!
//! This driver carries out the engine's commands in place of threads and devices. A waiting thread advances virtual
//! time event by event, one thread at a time, until its condition holds. Submitting takes no virtual time. No body
//! runs, no data are copied, and no thread is started. [`world`] contains the model.
//!
//! Placement, dependences and everything else up to a task's launch use the same code as with threads. `Launch` and
//! `Copy` become events on the virtual clock. A thread that waits, or that has submitted more tasks than the window
//! allows, advances the clock. A body is dropped at the virtual time when its task ends. The units that can run a task
//! are determined at submission (`Side::kinds`): with a portable body, these are all unit kinds for which the machine
//! file specifies a time.
//!
//! Data created with `Runtime::zeros` are phantoms: a `DataCell` without memory. Internal tasks (`read`, `take`,
//! releases) run as usual on other data, and do not run on phantoms. The runtime's own time, the combining of
//! reductions, and the work of a device's hosting core are not simulated.

mod links;
mod progress;
mod world;

use self::world::World;
use super::reasons::{Queues, Spot};
use super::shared::Shared;
use super::waiters::Awaited;
use super::{Driver, inside};
use crate::depend::{AccessRecord, Kinds, OwnedTask, Submitting};
use crate::engine::{Command, CopyOrder, Event, Launch, Refused, Release};
use crate::ids::DataId;
use crate::memory::DataCell;
use crate::sim::SimulatedMachine;
use crate::sync::Share;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a thread waits for other threads to submit the tasks that it needs, before it marks the runtime as broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// Driver that advances virtual time.
pub(crate) struct Simulated {
    shared: Shared,
    world: Mutex<World>,
    /// Held while an event and all its consequences are processed.
    turn: Mutex<()>,
}

impl Simulated {
    /// Creates a simulation of `model` with the runtime's units, all of which `model` must contain.
    pub(crate) fn new(shared: Shared, model: SimulatedMachine) -> Arc<Self> {
        let world = Mutex::new(World::new(model, &shared.machine));
        Arc::new(Self { shared, world, turn: Mutex::default() })
    }

    /// Locks the world. Returns `None` in a forked child if another thread had locked the world at the time of the
    /// fork.
    fn world(&self) -> Option<MutexGuard<'_, World>> {
        if self.shared.is_in_child() { self.world.try_lock() } else { Some(self.world.lock()) }
    }

    /// Returns the unit kinds that can run a task with this name and these bodies. With a `portable` body, these are
    /// all kinds for which the machine file specifies a time.
    pub(crate) fn kinds(&self, name: &str, bodies: Kinds, portable: bool) -> Kinds {
        self.world().map_or(bodies, |mut world| world.kinds(name, bodies, portable)) // refused in a child anyway
    }

    /// Advances time until another task that allocates this many bytes fits into the window in bytes, or until nothing
    /// can happen. Returns the task's share; `None` if there is no such window.
    pub(crate) fn wait_to_allocate(&self, bytes: u64) -> Option<Share> {
        let quota = self.shared.window.bytes()?;
        let waits = self.shared.window.is_kept_by_submissions();
        loop {
            if let Some(share) = quota.try_take(bytes) {
                return Some(share);
            }
            let turn = self.turn.try_lock().filter(|_| waits);
            if turn.and_then(|turn| self.step(turn)).is_none() {
                return Some(quota.take(bytes));
            }
        }
    }

    /// If more tasks are pending than the window allows, advances time until fewer are pending.
    fn respect_window(&self) {
        let Shared { progress, window, .. } = &self.shared;
        if !window.stops_submission(progress.pending()) {
            return;
        }
        while progress.pending() > window.size() / 2 {
            // This thread may already have the turn further down its stack, where it drops a body that holds data.
            let Some(turn) = self.turn.try_lock() else { return };
            if self.step(turn).is_none() {
                return;
            }
        }
    }

    /// Processes the next event. Returns whether the event may have ended a task, or `None` if there is no event.
    fn step(&self, _turn: MutexGuard<'_, ()>) -> Option<bool> {
        let (event, unit) = {
            let mut world = self.world.lock();
            let next = world.next();
            if let Some(tracer) = &self.shared.tracer {
                tracer.set_clock(world.now());
            }
            next?
        };
        inside::enter(self.shared.id); // captured values of bodies are dropped here, and must not wait
        let may_end = self.react(|out| match event {
            Event::Finished(task, outcome) => {
                if let Some(unit) = unit {
                    self.shared.trace_measured(&task, unit, (None, None, None), &outcome);
                }
                self.shared.discard(&task);
                self.shared.end(task, outcome, unit.map(|unit| unit.index()), out);
                true
            }
            event => {
                self.shared.engine.on(event, out);
                !out.iter().all(|command| matches!(command, Command::Launch(_) | Command::Copy(_)))
            }
        });
        inside::leave();
        Some(may_end)
    }
}

impl Queues for Simulated {
    fn visit(&self, see: &mut dyn FnMut(&OwnedTask, Spot)) {
        let Some(world) = self.world() else { return };
        world.visit(&mut |task, unit, running_ns| {
            let simulated = |ns| Spot::Simulated(unit, Duration::from_nanos(ns));
            see(task, running_ns.map_or(Spot::Given(unit), simulated));
        });
    }
}

impl Driver for Simulated {
    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn now(&self) -> Duration {
        self.world().map_or(Duration::ZERO, |world| Duration::from_nanos(world.now()))
    }

    fn enter(&self, task: Submitting, accesses: &[AccessRecord<'_>]) -> Result<(), Refused> {
        let entered = self.react(|out| self.shared.engine.submitted(task, accesses, out));
        if self.shared.window.is_time_to_look_outside() {
            self.respect_window();
        }
        entered
    }

    /// # Panics
    /// Panics if nothing can make progress any more, because the scheduler withholds a task or the engine has lost
    /// one.
    fn advance(&self, _: Awaited, left: impl Fn() -> u64) {
        let mut stuck_since: Option<Instant> = None;
        // The condition is only checked when it may have changed, because checking it reads one counter per unit.
        let mut may_be_there = true;
        let waits = self.shared.trace_wait();
        while !may_be_there || left() > 0 {
            if let Some(may_end) = self.step(self.turn.lock()) {
                (stuck_since, may_be_there) = (None, may_end);
                continue;
            }
            may_be_there = true;
            // Another thread may be about to submit the tasks that this thread waits for.
            if stuck_since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                panic!("the simulation makes no progress: {}", self.shared.engine.stall().unwrap_or_default());
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        drop(waits);
        self.shared.rest();
    }

    fn launch(&self, launch: Box<Launch>) {
        self.world.lock().launch(*launch);
    }

    fn copy(&self, order: &CopyOrder) -> Option<Event<'static>> {
        self.world.lock().copy(order);
        None
    }

    // The simulation has no memory other than the homes.
    fn register(&self, _: &DataCell) {}

    fn unregister(&self, _: DataId) {}

    fn release(&self, _: &Release) {}

    // The simulation has no threads either.
    fn stop(&self) {}
}

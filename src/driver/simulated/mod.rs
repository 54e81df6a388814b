//! The simulated driver: units and links of a machine that need not exist, on a virtual clock.
//!
//! It carries out the engine's commands instead of threads and devices. A waiting thread lets virtual time pass, event
//! by event and one thread at a time, until its condition holds. Submitting takes no time. No body is run, no data is
//! copied, no thread is started. [`world`] contains the model.
//!
//! Placement, dependences and everything else up to a task's launch is the same code as with threads. `Launch` and
//! `Copy` become events on the virtual clock. A thread that waits, or has submitted more than the window holds,
//! advances the clock. Bodies are dropped when their task would have ended. The units that can run a task are
//! determined at submission (`Side::kinds`): with a portable body, every kind of unit for which the machine file has a
//! time.
//!
//! Data made with `Runtime::zeros` are phantoms: a `DataCell` without memory. Internal tasks (`read`, `take`, releases)
//! run as usual on other data, and not at all on phantoms. Not simulated are the runtime's own time, the combining of
//! reductions, and the work of a device's hosting core.

mod links;
mod progress;
mod world;

use self::world::World;
use super::reasons::{Queues, Spot};
use super::shared::Shared;
use super::waiters::Awaited;
use super::{Driver, inside};
use crate::coherence::ReplicaId;
use crate::depend::{AccessRecord, Kinds, OwnedTask, Submitting};
use crate::engine::{Command, CopyOrder, Event, Launch, Refused};
use crate::ids::DataId;
use crate::memory::DataCell;
use crate::sim::SimulatedMachine;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a thread waits for other threads to submit the tasks it needs, before it treats the runtime as broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// The driver that lets virtual time pass.
pub(crate) struct Simulated {
    shared: Shared,
    world: Mutex<World>,
    /// Held while an event and all its consequences are processed.
    turn: Mutex<()>,
}

impl Simulated {
    /// Creates a simulation of `model` with the runtime's units, which `model` must have.
    pub(crate) fn new(shared: Shared, model: SimulatedMachine) -> Arc<Self> {
        let world = Mutex::new(World::new(model, &shared.machine));
        Arc::new(Self { shared, world, turn: Mutex::default() })
    }

    /// Locks the world. Returns `None` in a child of `fork` if another thread had locked it at that moment.
    fn world(&self) -> Option<MutexGuard<'_, World>> {
        if self.shared.is_in_child() { self.world.try_lock() } else { Some(self.world.lock()) }
    }

    /// Returns the kinds of unit that can run a task of this name with these bodies; with a `portable` body, all kinds
    /// for which the machine file has a time.
    pub(crate) fn kinds(&self, name: &str, bodies: Kinds, portable: bool) -> Kinds {
        self.world().map_or(bodies, |mut world| world.kinds(name, bodies, portable)) // a child is refused anyway
    }

    /// Lets time pass until fewer tasks are pending, if they exceed the window.
    fn respect_window(&self) {
        let Shared { progress, window, .. } = &self.shared;
        if progress.pending() <= window.size() {
            return;
        }
        while progress.pending() > window.size() / 2 {
            // This thread may already have the turn, further down its stack, where it drops a body that holds data.
            let Some(turn) = self.turn.try_lock() else { return };
            if self.step(turn).is_none() {
                return;
            }
        }
    }

    /// Processes the next event. Returns whether that may have ended a task, or `None` if there is no event.
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
                    self.shared.trace_measured(&task, unit, None, &outcome);
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
    /// If nothing moves any more: then the scheduler withholds a task, or the engine has lost one.
    fn advance(&self, _: Awaited, left: impl Fn() -> u64) {
        let mut stuck_since: Option<Instant> = None;
        // The condition is only checked when it may have changed, since that reads a counter per unit.
        let mut may_be_there = true;
        let waits = self.shared.trace_wait();
        while !may_be_there || left() > 0 {
            if let Some(may_end) = self.step(self.turn.lock()) {
                (stuck_since, may_be_there) = (None, may_end);
                continue;
            }
            may_be_there = true;
            // Another thread may be about to submit the tasks that this one waits for.
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

    // There is no memory other than the homes.
    fn register(&self, _: &DataCell) {}

    fn unregister(&self, _: DataId) {}

    fn release(&self, _: ReplicaId) {}

    // There are no threads either.
    fn stop(&self) {}
}

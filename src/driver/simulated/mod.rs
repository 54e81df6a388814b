//! The simulated driver: units and links of a machine that need not exist, on a virtual clock.
//!
//! It takes the engine's commands in the place of threads and devices; whoever waits lets virtual time pass, event by
//! event and one thread at a time, until what it waits for is there. Submitting takes no time. No body is run, no data is
//! copied, no thread is started. What it models is in [`world`].

mod links;
mod progress;
mod world;

use self::world::World;
use super::shared::Shared;
use super::waiters::Awaited;
use super::{Driver, inside};
use crate::coherence::ReplicaId;
use crate::depend::{AccessRecord, Kinds, Submitting};
use crate::engine::{Command, CopyOrder, Event, Launch, Refused};
use crate::ids::DataId;
use crate::memory::DataCell;
use crate::sim::SimulatedMachine;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a thread waits for others to submit what it waits for, before it takes the runtime for broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// The driver that lets virtual time pass.
pub(crate) struct Simulated {
    shared: Shared,
    world: Mutex<World>,
    /// Held while an event and all that follows from it is worked off.
    turn: Mutex<()>,
}

impl Simulated {
    /// A simulation of `model` with the runtime's units, which it has.
    pub(crate) fn new(shared: Shared, model: SimulatedMachine) -> Arc<Self> {
        let world = Mutex::new(World::new(model, &shared.machine));
        Arc::new(Self { shared, world, turn: Mutex::default() })
    }

    /// The world; none in a child of `fork` if another thread had it at that moment.
    fn world(&self) -> Option<MutexGuard<'_, World>> {
        if self.shared.is_in_child() { self.world.try_lock() } else { Some(self.world.lock()) }
    }

    /// The kinds of unit that a task of this name can run on, if it has these bodies; with a `portable` one, on all that
    /// there is a time for.
    pub(crate) fn kinds(&self, name: &str, bodies: Kinds, portable: bool) -> Kinds {
        self.world().map_or(bodies, |mut world| world.kinds(name, bodies, portable)) // refused in a child all the same
    }

    /// Lets time pass until fewer tasks are pending, if they are more than the window.
    fn respect_window(&self) {
        let Shared { progress, window, .. } = &self.shared;
        if progress.pending() <= window.size() {
            return;
        }
        while progress.pending() > window.size() / 2 {
            // The turn may be taken further up this thread's stack, where a body is dropped that holds data.
            let Some(turn) = self.turn.try_lock() else { return };
            if self.step(turn).is_none() {
                return;
            }
        }
    }

    /// Works off the next event; whether a task may have ended by it, or nothing if there is none.
    fn step(&self, _turn: MutexGuard<'_, ()>) -> Option<bool> {
        let (event, unit) = {
            let mut world = self.world.lock();
            let next = world.next();
            if let Some(tracer) = &self.shared.tracer {
                tracer.set_clock(world.now());
            }
            next?
        };
        inside::enter(self.shared.id); // what bodies captured is dropped here, and must not wait
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
    /// If nothing moves any more: then the scheduler keeps a task for itself, or the engine has lost one.
    fn advance(&self, _: Awaited, left: impl Fn() -> u64) {
        let mut stuck_since: Option<Instant> = None;
        // Who waits is asked only when it may matter: a counter per unit is looked at for that.
        let mut may_be_there = true;
        let waits = self.shared.trace_wait();
        while !may_be_there || left() > 0 {
            if let Some(may_end) = self.step(self.turn.lock()) {
                (stuck_since, may_be_there) = (None, may_end);
                continue;
            }
            may_be_there = true;
            // Another thread may be about to submit what this one waits for.
            if stuck_since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                panic!("nothing moves in the simulation: {}", self.shared.engine.stall().unwrap_or_default());
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        drop(waits);
    }

    fn launch(&self, launch: Box<Launch>) {
        self.world.lock().launch(*launch);
    }

    fn copy(&self, order: &CopyOrder) -> Option<Event<'static>> {
        self.world.lock().copy(order);
        None
    }

    // There is no memory but the homes.
    fn register(&self, _: &DataCell) {}

    fn unregister(&self, _: DataId) {}

    fn release(&self, _: ReplicaId) {}

    // There is no thread either.
    fn stop(&self) {}
}

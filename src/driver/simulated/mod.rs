//! A runtime without threads: whoever waits lets virtual time pass.
//!
//! The simulated driver ([`crate::sim`]) says what happens next; here it is told to the engine, and what the engine asks for
//! goes back. One thread at a time does this, event by event.

#[cfg(feature = "sim")]
mod links;
#[cfg(feature = "sim")]
mod progress;
#[cfg(feature = "sim")]
mod world;
#[cfg(not(feature = "sim"))]
#[path = "absent.rs"]
mod world;

use crate::driver::shared::Core;
use crate::driver::threads::host::Host;
use crate::engine::{Command, Event, Outcome};
use parking_lot::MutexGuard;
use std::time::{Duration, Instant};
use world::Happened;
pub(crate) use world::Simulation;

/// How long a thread waits for others to submit what it waits for, before it takes the runtime for broken.
const PATIENCE: Duration = Duration::from_secs(20);

impl Core {
    /// Lets time pass until `done`.
    ///
    /// # Panics
    /// If nothing moves any more: then the scheduler keeps a task for itself, or the engine has lost one.
    pub(crate) fn simulate_until(&self, simulation: &Simulation, done: impl Fn() -> bool) {
        let mut stuck_since: Option<Instant> = None;
        while !done() {
            if self.advance(simulation, simulation.turn()) {
                stuck_since = None;
                continue;
            }
            // Another thread may be about to submit what this one waits for.
            if stuck_since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                let placed = self.engine.placement().map(|placement| placement.lock().stall());
                panic!("nothing moves in the simulation: {}", placed.unwrap_or_default());
            }
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// Lets time pass until fewer tasks are pending, if they are more than the window.
    pub(crate) fn simulate_beyond_window(&self, simulation: &Simulation) {
        if self.progress.pending() <= self.window.size() {
            return;
        }
        while self.progress.pending() > self.window.size() / 2 {
            // The turn may be taken further up this thread's stack, where a body is dropped that holds data.
            let Some(turn) = simulation.try_turn() else { return };
            if !self.advance(simulation, turn) {
                return;
            }
        }
    }

    /// Works off the next event; false if there is none.
    fn advance(&self, simulation: &Simulation, mut turn: MutexGuard<'_, Vec<Command>>) -> bool {
        let Some(happened) = simulation.next(&turn) else { return false };
        let mut out = std::mem::take(&mut *turn);
        Host::enter_inside(self.id); // what bodies captured is dropped here, and must not wait
        match happened {
            Happened::Ran(task, unit, elapsed_ns) => {
                self.discard(&task);
                self.end(task, Outcome::Done { elapsed_ns }, Some(unit.index()), &mut out);
            }
            Happened::Copied(copy) => self.engine.on(Event::Copied(copy), &mut out),
        }
        self.carry_out(None, &mut out);
        Host::leave_inside();
        *turn = out;
        true
    }
}

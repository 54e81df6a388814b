//! A runtime without threads: whoever waits lets virtual time pass.
//!
//! The simulated driver ([`crate::sim`]) says what happens next; here it is told to the engine, and what the engine asks for
//! goes back. One thread at a time does this, event by event.

use super::Runtime;
use super::builder::{Builder, places_error};
use super::core::{Core, Driver};
use super::host::Host;
use crate::engine::{Command, Event, Outcome, Placement};
use crate::error::BuildError;
use crate::machine::{Machine, Places, Topology, UnitConfig, UnitKind};
use crate::sim::{Happened, SimulatedMachine, Simulation};
use parking_lot::MutexGuard;
use std::time::{Duration, Instant};

/// How long a thread waits for others to submit what it waits for, before it takes the runtime for broken.
const PATIENCE: Duration = Duration::from_secs(20);

impl Builder {
    pub(super) fn build_simulated(mut self, model: SimulatedMachine) -> Result<Runtime, BuildError> {
        let config: UnitConfig = self.units.clone().unwrap_or_else(|| model.default_units()).parse()?;
        for kind in UnitKind::ALL {
            let terms = config.terms().iter().filter(|term| term.kind == kind);
            let asked: usize = terms.map(|term| term.count * term.size).sum();
            let (there, parts) = (model.count(kind), if kind.is_device() { "devices" } else { "cores" });
            // More units than cores share them, as on a real machine; there is no sharing of what does not exist.
            if asked > there && (kind.is_device() || there == 0) {
                let name = model.name();
                let problem = format!("{config} asks for {asked} {kind} {parts}, and `{name}` has {there}");
                return Err(BuildError::Argument { argument: "simulate", problem });
            }
        }
        let hosting: usize = config.num_devices();
        let topology = Topology::with_cores((model.count(UnitKind::Cpu)).max(hosting));
        let places: Option<Places> = self.places.as_deref().map(str::parse).transpose().map_err(places_error)?;
        let (machine, warnings) = Machine::plan(&config, places.as_ref(), &topology)?;
        let mut capacities_bytes = vec![u64::MAX];
        let of_device =
            |unit: &crate::machine::ComputeUnit| std::iter::repeat_n(model.memory_bytes(unit.kind), unit.devices.len());
        capacities_bytes.extend(machine.device_units().flat_map(of_device));
        let placement = Placement::new(&machine, &capacities_bytes, self.policy(&machine, &config)?);
        let simulation = Simulation::new(model, &machine);
        let mut runtime =
            self.assemble(machine, Some(placement), Driver::Simulated(Box::new(simulation)), Vec::new())?;
        (runtime.configuration, runtime.warnings) = (config.to_string(), warnings);
        runtime.set_capacities(capacities_bytes);
        Ok(runtime)
    }
}

impl Core {
    /// Lets time pass until `done`.
    ///
    /// # Panics
    /// If nothing moves any more: then the scheduler keeps a task for itself, or the engine has lost one.
    pub(super) fn simulate_until(&self, simulation: &Simulation, done: impl Fn() -> bool) {
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
    pub(super) fn simulate_beyond_window(&self, simulation: &Simulation) {
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

//! Construction of a runtime that simulates a machine.

use super::super::builder::Builder;
use super::super::runtime::Runtime;
use super::parts::{dynamic_w, places_error};
use crate::driver::simulated::Simulated;
use crate::energy::Account;
use crate::engine::Placement;
use crate::error::BuildError;
use crate::machine::{ComputeUnit, Machine, Places, Topology, UnitConfig, UnitKind};
use crate::runtime::any_driver::AnyDriver;
use crate::sim::SimulatedMachine;

impl Builder {
    pub(super) fn build_simulated(mut self, model: SimulatedMachine) -> Result<Runtime, BuildError> {
        let config: UnitConfig = self.units.clone().unwrap_or_else(|| model.default_units()).parse()?;
        for kind in UnitKind::ALL {
            let terms = config.terms().iter().filter(|term| term.kind == kind);
            let asked: usize = terms.map(|term| term.count * term.size).sum();
            let (there, parts) = (model.count(kind), if kind.is_device() { "devices" } else { "cores" });
            // If there are more units than cores, they share the cores, as on a real machine. A device or core that
            // does not exist cannot be shared.
            if asked > there && (kind.is_device() || there == 0) {
                let name = model.name();
                let problem = format!("{config} requests {asked} {kind} {parts}, but `{name}` has {there}");
                return Err(BuildError::Argument { argument: "simulate", problem });
            }
        }
        let hosting: usize = config.num_devices();
        let topology = Topology::with_cores((model.count(UnitKind::Cpu)).max(hosting));
        let places: Option<Places> = self.places.as_deref().map(str::parse).transpose().map_err(places_error)?;
        let mut machine = Machine::plan(&config, places.as_ref(), &topology)?;
        let mut capacities_bytes = vec![u64::MAX];
        let of_device = |unit: &ComputeUnit| std::iter::repeat_n(model.memory_bytes(unit.kind), unit.devices.len());
        capacities_bytes.extend(machine.device_units().flat_map(of_device));
        machine.set_simulated();
        machine.set_capacities(capacities_bytes);
        let powers = self.powers(&machine, |kind| model.power(kind))?;
        let rest_w = model.rest_w(&machine);
        let meters = self.meters(&machine)?;
        let placement = Placement::new(&machine, machine.capacities_bytes(), self.take_scheduler(&machine, &config)?)
            .with_power(dynamic_w(&powers))
            .evicting(self.eviction);
        let shared = self.shared(machine, Some(placement))?;
        let driver = AnyDriver::Simulated(Simulated::new(shared, model));
        Ok(self.finish(driver, Account::new(powers, rest_w, meters)))
    }
}

//! Planning a machine from a configuration: assigns IDs to units and devices, and uses `assign` to choose their
//! cores.
//!
//! CPU units get the first IDs, regardless of their position in the text, as in González-Tallada & Morancho 2023,
//! §3.1.1.
//!
//! This module does not search for devices. Whether they exist is determined when a runtime is built.
//!
//! Invariant: a plan that is merely wasteful, such as one with units that share cores, causes a [`Warning`]. Only a
//! plan that contradicts itself or cannot exist is an error.

use super::assign::{Cores, UnitRequest, consecutive_cores, ids, num_cores, over_quota, placed_cores};
use super::{ComputeUnit, ConfigError, Machine, Places, Topology, UnitConfig, UnitTerm, Warning};
use crate::ids::{DeviceId, UnitId};

impl Machine {
    /// Plans the machine that a configuration describes, on the cores of `topology`.
    ///
    /// A term `N:CPU:M` creates N units of M cores; a term `D:EMU:G` creates D units with one hosting core and G
    /// emulated devices each. If `places` is given, unit `i` gets exactly the cores of the `i`-th place; spare places
    /// are not used. Otherwise, device units whose accelerators are on the PCI bus get cores near the accelerators,
    /// and CPU units get the remaining cores ([`Topology::places_near`]). If there are no such device units, or too
    /// few cores, units get consecutive cores, round robin.
    ///
    /// The machine's [warnings](Self::warnings) are in a fixed order, with at most one for each core and unit.
    ///
    /// # Errors
    ///
    /// - [`ConfigError::NoCores`]: the topology is empty.
    /// - [`ConfigError::TooFewPlaces`], [`ConfigError::PlaceSize`]: the places don't fit the units.
    ///
    /// ```
    /// use thalweg::ids::UnitId;
    /// use thalweg::machine::{ConfigError, Machine, Topology};
    ///
    /// let topology = Topology::from_cores(vec![2, 3, 8, 9, 10]);
    /// let places = "{8,9},{2,3},10".parse().unwrap();
    /// let machine = Machine::plan(&"2:CPU:2,1:EMU:1".parse()?, Some(&places), &topology)?;
    /// assert_eq!(machine.unit(UnitId(0)).hosting_core(), 8);
    ///
    /// let refused = Machine::plan(&"4:CPU:2".parse()?, Some(&places), &topology);
    /// assert!(matches!(refused, Err(ConfigError::TooFewPlaces { .. })));
    /// # Ok::<(), ConfigError>(())
    /// ```
    pub fn plan(config: &UnitConfig, places: Option<&Places>, topology: &Topology) -> Result<Self, ConfigError> {
        let requests = units_in_order(config);
        let (cores, mut warnings) = match places {
            Some(places) => placed_cores(&requests, places, topology)?,
            None if num_cores(&requests) <= topology.cores().len() && topology.serves_any(&requests) => {
                (topology.cores_near(&requests), Vec::new())
            }
            None => consecutive_cores(&requests, topology)?,
        };
        warnings.extend(over_quota(&cores, topology));
        Ok(assemble(config, &requests, cores, warnings))
    }
}

/// Returns one request per unit, ordered by unit ID.
pub(super) fn units_in_order(config: &UnitConfig) -> Vec<UnitRequest> {
    let units = |&UnitTerm { count, kind, size }: &UnitTerm| vec![UnitRequest { kind, size }; count];
    let mut requests: Vec<UnitRequest> = config.terms().iter().flat_map(units).collect();
    requests.sort_by_key(|request| request.kind.is_device());
    requests
}

fn assemble(config: &UnitConfig, requests: &[UnitRequest], cores: Cores, warnings: Vec<Warning>) -> Machine {
    // `MAX_DEVICES` is far below `u16::MAX`.
    let mut next_device = (0..=u16::MAX).map(DeviceId);
    let units: Vec<ComputeUnit> = ids()
        .zip(requests)
        .zip(cores)
        .map(|((id, &UnitRequest { kind, size }), cores)| {
            let num_devices = if kind.is_device() { size } else { 0 };
            let devices = next_device.by_ref().take(num_devices).collect();
            ComputeUnit { id, kind, cores, devices }
        })
        .collect();
    let device_units: Vec<UnitId> = units.iter().flat_map(|u| u.devices.iter().map(|_| u.id)).collect();
    Machine {
        num_cpu_units: units.iter().filter(|unit| unit.is_cpu()).count(),
        configuration: config.to_string(),
        warnings,
        capacities_bytes: vec![u64::MAX; device_units.len() + 1],
        is_simulated: false,
        device_units,
        units,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::UnitKind;

    fn plan(config: &str, cores: usize) -> Result<Machine, ConfigError> {
        let config = config.parse().unwrap();
        let machine = Machine::plan(&config, None, &Topology::with_cores(cores))?;
        assert_eq!(machine.warnings(), []);
        Ok(machine)
    }

    /// "Evaluation of work distribution schedulers", Figure 5: 8 units on 20 cores.
    #[test]
    fn units_of_figure_5_get_their_cores() {
        let machine = plan("4:EMU:1,4:CPU:4", 20).unwrap();
        for (i, unit) in machine.units().iter().enumerate() {
            assert_eq!(unit.id.index(), i);
            assert_eq!(unit.is_cpu(), i < 4);
            let expected: Vec<usize> = if i < 4 { (4 * i..4 * i + 4).collect() } else { vec![12 + i] };
            assert_eq!(unit.cores, expected);
            assert_eq!(unit.devices.len(), usize::from(i >= 4));
        }
        assert_eq!(machine.unit(UnitId(6)).devices, [DeviceId(2)]);
    }

    #[test]
    fn terms_of_a_kind_keep_their_order() {
        let machine = plan("1:EMU:2,1:CPU:3,2:EMU:1,1:CPU:1", 7).unwrap();
        let units: Vec<_> = machine.units().iter().map(|u| (u.kind, u.inner_cores(), &u.devices[..])).collect();
        let emu = UnitKind::Emulated;
        assert_eq!(
            units,
            [
                (UnitKind::Cpu, 3, &[][..]),
                (UnitKind::Cpu, 1, &[]),
                (emu, 1, &[DeviceId(0), DeviceId(1)]),
                (emu, 1, &[DeviceId(2)]),
                (emu, 1, &[DeviceId(3)]),
            ]
        );
    }
}

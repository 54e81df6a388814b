//! The machine that a program runs on: its compute units, address spaces and cores.
//!
//! The user describes units ([`UnitConfig`]) and optionally places them ([`Places`], from `OMP_PLACES`);
//! [`Machine::plan`] then maps the units to the available cores ([`Topology`]). The result is a plain table that the
//! other layers use for lookups. This module never starts or binds threads, opens devices or reads the environment.
//! Its only state is the table of cores that the runtimes in this process have taken.
//!
//! Invariants of a [`Machine`]: unit `i` has ID `i`; CPU units come first; every unit has at least one core, and the
//! first core is that of the hosting thread; CPU units work in host memory and have no devices; each device belongs
//! to exactly one device unit; devices are numbered in the order of their units; and device `d` has address space
//! `d + 1`.

mod assign;
mod binding;
mod claim;
mod config;
mod config_parse;
mod cursor;
mod error;
mod hosting;
mod kind;
mod mapping;
mod pci;
mod places;
mod places_parse;
mod plan;
mod taken;
mod topology;

pub(crate) use binding::{AbstractPlaces, Granule};
pub use config::{UnitConfig, UnitTerm};
pub use error::{ConfigError, Warning};
#[cfg(feature = "sim")]
pub(crate) use kind::MAX_DEVICES;
pub use kind::UnitKind;
pub use mapping::MappingScheme;
pub use pci::{AcceleratorKind, PciAccelerator};
pub(crate) use places::MAX_CORES;
pub use places::{Places, PlacesError};
pub(crate) use taken::CoresTaken;
pub use topology::{Core, Topology};

use crate::ids::{DeviceId, SpaceId, UnitId};

/// An executor of tasks: either several cores that work together, or a hosting core that leads one or more devices.
///
/// González-Tallada & Morancho 2023, §3.1.1.
///
/// ```
/// use thalweg::machine::{Machine, Topology};
/// let machine = Machine::plan(&"1:CPU:4,1:EMU:2".parse()?, None, &Topology::with_cores(5))?;
/// let [cpu, device] = machine.units() else { unreachable!() };
/// assert!(cpu.is_cpu() && device.is_device());
/// assert_eq!((cpu.hosting_core(), cpu.inner_cores(), device.devices.len()), (0, 4, 2));
/// # Ok::<(), thalweg::machine::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputeUnit {
    /// The unit's ID, which is its index in the machine.
    pub id: UnitId,
    /// The kind of resource that executes the unit's tasks.
    pub kind: UnitKind,
    /// The unit's cores, as numbered by the system. The hosting thread's core comes first. A core may occur twice if
    /// there are too few cores.
    pub cores: Vec<usize>,
    /// The unit's devices; empty for a CPU unit.
    pub devices: Vec<DeviceId>,
}

impl ComputeUnit {
    /// Returns the core of the unit's hosting thread.
    pub fn hosting_core(&self) -> usize {
        self.cores[0]
    }

    /// Returns the number of cores that work on one task of a CPU unit, or that lead a device unit (one, unless the
    /// unit's place has more).
    pub fn inner_cores(&self) -> usize {
        self.cores.len()
    }

    /// Returns whether the unit's tasks run on cores, in host memory.
    pub fn is_cpu(&self) -> bool {
        !self.is_device()
    }

    /// Returns whether the unit's tasks run on devices, in device memory.
    pub fn is_device(&self) -> bool {
        self.kind.is_device()
    }
}

/// The compute units and address spaces of a run.
///
/// ```
/// use thalweg::ids::{UnitId, DeviceId, SpaceId};
/// use thalweg::machine::{Machine, Topology};
///
/// let machine = Machine::plan(&"1:EMU:2,2:CPU:4".parse()?, None, &Topology::with_cores(9))?;
/// assert!(machine.warnings().is_empty());
/// assert_eq!((machine.num_cpu_units(), machine.num_device_units()), (2, 1));
/// assert_eq!(machine.unit(UnitId(1)).cores, [4, 5, 6, 7]);
/// assert_eq!(machine.unit(UnitId(2)).cores, [8]);
/// assert_eq!(machine.spaces().collect::<Vec<_>>(), [SpaceId::HOST, SpaceId(1), SpaceId(2)]);
/// assert_eq!(machine.space_of(UnitId(0)), SpaceId::HOST);
/// assert_eq!(machine.spaces_of(UnitId(2)).collect::<Vec<_>>(), [SpaceId(1), SpaceId(2)]);
/// assert_eq!(machine.unit_of_device(DeviceId(1)), UnitId(2));
/// # Ok::<(), thalweg::machine::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    units: Vec<ComputeUnit>,
    num_cpu_units: usize,
    /// The unit of each device.
    device_units: Vec<UnitId>,
    configuration: String,
    warnings: Vec<Warning>,
    /// The capacity of each address space; `u64::MAX` for a device that has not been opened.
    capacities_bytes: Vec<u64>,
    is_simulated: bool,
}

impl Machine {
    /// Returns the units as a configuration string.
    pub fn configuration(&self) -> &str {
        &self.configuration
    }

    /// Returns what could not be set up as requested, such as fewer cores than units.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns whether this is a simulated machine (`Builder::simulate`). If so, its runtime runs no bodies and
    /// computes no results.
    pub fn is_simulated(&self) -> bool {
        self.is_simulated
    }

    /// Returns the number of bytes that a runtime may use in an address space, or 0 if the machine has no such space.
    /// Host memory is not counted, and neither is the memory of devices of a machine that is only planned: their
    /// capacity is `u64::MAX`.
    pub fn capacity_bytes(&self, space: SpaceId) -> u64 {
        self.capacities_bytes.get(space.index()).copied().unwrap_or(0)
    }

    /// Adds a warning after all others.
    pub(crate) fn warn(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }

    /// Returns the capacity of each address space.
    pub(crate) fn capacities_bytes(&self) -> &[u64] {
        &self.capacities_bytes
    }

    /// Sets the capacity of each address space.
    pub(crate) fn set_capacities(&mut self, bytes: Vec<u64>) {
        self.capacities_bytes = bytes;
    }

    /// Declares that the machine is simulated.
    pub(crate) fn set_simulated(&mut self) {
        self.is_simulated = true;
    }

    /// Returns all units, ordered by ID.
    pub fn units(&self) -> &[ComputeUnit] {
        &self.units
    }

    /// Returns the unit with this ID.
    ///
    /// # Panics
    ///
    /// Panics if this machine has no such unit.
    #[track_caller]
    pub fn unit(&self, id: UnitId) -> &ComputeUnit {
        match self.units.get(id.index()) {
            Some(unit) => unit,
            None => panic!("{id} is out of bounds: the machine has {} units", self.num_units()),
        }
    }

    /// Returns the CPU units, which have the IDs `0..NCPU`.
    pub fn cpu_units(&self) -> impl ExactSizeIterator<Item = &ComputeUnit> {
        self.units[..self.num_cpu_units].iter()
    }

    /// Returns the device units, which have the IDs `NCPU..NCU`.
    pub fn device_units(&self) -> impl ExactSizeIterator<Item = &ComputeUnit> {
        self.units[self.num_cpu_units..].iter()
    }

    /// Returns the number of units (NCU).
    pub fn num_units(&self) -> usize {
        self.units.len()
    }

    /// Returns the number of CPU units (NCPU).
    pub fn num_cpu_units(&self) -> usize {
        self.num_cpu_units
    }

    /// Returns the number of device units.
    pub fn num_device_units(&self) -> usize {
        self.units.len() - self.num_cpu_units
    }

    /// Returns the total number of devices in all units.
    pub fn num_devices(&self) -> usize {
        self.device_units.len()
    }

    /// Returns the number of address spaces: one for the host, and one per device.
    pub fn num_spaces(&self) -> usize {
        self.num_devices() + 1
    }

    /// Returns all address spaces: the host's, then one per device.
    pub fn spaces(&self) -> impl Iterator<Item = SpaceId> + use<> {
        // Planning limits the number of devices to `MAX_DEVICES`, so it fits into `u16`.
        (0..=self.device_units.len() as u16).map(SpaceId)
    }

    /// Returns the address space that a unit's tasks work in: host memory, or the memory of the unit's first device.
    ///
    /// # Panics
    ///
    /// Panics if this machine has no such unit.
    #[track_caller]
    pub fn space_of(&self, id: UnitId) -> SpaceId {
        let first = self.unit(id).devices.first();
        first.map_or(SpaceId::HOST, |device| device.space())
    }

    /// Returns all address spaces that a unit's tasks can work in: host memory, or the memory of each of the unit's
    /// devices.
    ///
    /// # Panics
    ///
    /// Panics if this machine has no such unit.
    #[track_caller]
    pub fn spaces_of(&self, id: UnitId) -> impl Iterator<Item = SpaceId> + '_ {
        let unit = self.unit(id);
        let host = unit.is_cpu().then_some(SpaceId::HOST);
        host.into_iter().chain(unit.devices.iter().map(|device| device.space()))
    }

    /// Returns the unit that leads a device.
    ///
    /// # Panics
    ///
    /// Panics if this machine has no such device.
    #[track_caller]
    pub fn unit_of_device(&self, id: DeviceId) -> UnitId {
        match self.device_units.get(id.index()) {
            Some(unit) => *unit,
            None => panic!("{id} is out of bounds: the machine has {} devices", self.num_devices()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(config: &str) -> Machine {
        let topology = Topology::with_cores(64);
        Machine::plan(&config.parse().unwrap(), None, &topology).unwrap()
    }

    #[test]
    fn machine_with_cpu_units_only_has_no_devices() {
        let m = machine("2:CPU:1");
        assert_eq!((m.num_units(), m.num_cpu_units(), m.num_device_units()), (2, 2, 0));
        assert_eq!((m.num_devices(), m.num_spaces()), (0, 1));
        assert_eq!(m.spaces().collect::<Vec<_>>(), [SpaceId::HOST]);
        assert_eq!(m.device_units().len(), 0);
        assert!(m.cpu_units().all(|unit| unit.is_cpu() && !unit.is_device()));
    }

    #[test]
    fn machine_with_device_units_only_has_no_cpu_units() {
        let m = machine("2:EMU:1");
        assert_eq!(m.cpu_units().len(), 0);
        assert!(m.device_units().all(|unit| unit.is_device() && unit.inner_cores() == 1));
        assert_eq!(m.space_of(UnitId(1)), SpaceId(2));
        assert_eq!(m.unit_of_device(DeviceId(1)), UnitId(1));
    }

    #[test]
    fn every_device_and_space_belongs_to_one_unit() {
        let m = machine("2:EMU:3,3:CPU:2,1:EMU:1");
        assert_eq!((m.num_devices(), m.num_spaces()), (7, 8));
        let mut reached: Vec<SpaceId> = m.device_units().flat_map(|u| m.spaces_of(u.id)).collect();
        reached.insert(0, SpaceId::HOST);
        assert_eq!(reached, m.spaces().collect::<Vec<_>>());
        for unit in m.units() {
            assert_eq!(m.unit(unit.id), unit);
            assert_eq!(Some(m.space_of(unit.id)), m.spaces_of(unit.id).next());
            for &device in &unit.devices {
                assert_eq!(m.unit_of_device(device), unit.id);
            }
        }
        assert!(m.cpu_units().all(|unit| m.spaces_of(unit.id).eq([SpaceId::HOST])));
    }

    #[test]
    #[should_panic(expected = "out of bounds")]
    fn unit_of_another_machine_panics() {
        machine("2:CPU:1").unit(UnitId(2));
    }
}

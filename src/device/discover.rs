//! Opening the devices that a machine's units need.
//!
//! Emulated devices are created; for accelerators, each interface is searched once. A `GPU` unit gets a CUDA or HIP
//! device, and an OpenCL device only if neither interface has a device, because the same physical device may be
//! visible through several interfaces.

use super::interfaces::InterfaceId;
use super::{Device, Emulated, EmulatedDevice};
use crate::energy::{EnergyMeter, MeterError};
use crate::error::BuildError;
use crate::machine::{Machine, UnitKind};

/// An open device, and a function that returns its energy meter.
pub(crate) struct Opened {
    pub(crate) device: Box<dyn Device>,
    pub(crate) meter: MeterOf,
}

/// Returns the energy meter, the reason why it cannot be read, or `None` if devices of this sort have no meter. The
/// meter is looked up only when the function is called.
pub(crate) type MeterOf = Box<dyn Fn() -> Option<Result<Box<dyn EnergyMeter>, MeterError>>>;

/// Opens the machine's devices, in the order of their IDs. `emulated` describes the emulated devices. If `is_timed`,
/// accelerators report when they begin and end tasks and copies.
pub(crate) fn open(
    machine: &Machine,
    emulated: impl Fn(usize) -> EmulatedDevice,
    is_timed: bool,
) -> Result<Vec<Opened>, BuildError> {
    let mut search = Search::default();
    let mut devices: Vec<Opened> = Vec::new();
    for unit in machine.device_units() {
        for number in &unit.devices {
            devices.push(match unit.kind {
                UnitKind::Cpu => unreachable!("a CPU unit has no device"),
                UnitKind::Emulated => {
                    let device = emulated(number.index());
                    if let Some(problem) = device.problem() {
                        return Err(BuildError::Argument { argument: "emulated_devices", problem });
                    }
                    let device = Box::new(Emulated::new(device, format!("emulated device {}", number.index())));
                    Opened { device, meter: Box::new(|| None) }
                }
                kind => {
                    let needed = machine.device_units().filter(|u| u.kind == kind).map(|u| u.devices.len()).sum();
                    let found = search.next(kind, is_timed);
                    found.map_err(|found| BuildError::NoDevice { kind, needed, found })?
                }
            });
        }
    }
    Ok(devices)
}

/// The accelerators of each interface that are already in use, by index.
#[derive(Default)]
struct Search {
    taken: Vec<(InterfaceId, usize)>,
}

impl Search {
    /// Opens the next accelerator for a kind of unit. The error lists the reason for each interface that was tried.
    fn next(&mut self, kind: UnitKind, is_timed: bool) -> Result<Opened, String> {
        let interfaces: &[InterfaceId] = match kind {
            UnitKind::Cuda => &[InterfaceId::Cuda],
            UnitKind::Hip => &[InterfaceId::Hip],
            UnitKind::Gpu if self.taken.iter().any(|(interface, _)| *interface != InterfaceId::OpenCl) => {
                &[InterfaceId::Cuda, InterfaceId::Hip]
            }
            UnitKind::Gpu => &[InterfaceId::Cuda, InterfaceId::Hip, InterfaceId::OpenCl],
            _ => &[InterfaceId::OpenCl],
        };
        let mut reasons = Vec::new();
        for interface in interfaces {
            match self.open(*interface, kind, is_timed) {
                Ok(device) => return Ok(device),
                Err(why) => reasons.push(format!("{}: {why}", interface.name())),
            }
        }
        Err(reasons.join("; "))
    }

    fn open(&mut self, interface: InterfaceId, kind: UnitKind, is_timed: bool) -> Result<Opened, String> {
        let all = interface.find()?;
        let names: Vec<_> = all.iter().map(|found| found.name()).collect();
        let what = match (interface, kind) {
            (InterfaceId::Cuda, _) => "CUDA device",
            (InterfaceId::Hip, _) => "HIP device",
            (InterfaceId::OpenCl, UnitKind::Fpga) => "accelerator",
            (InterfaceId::OpenCl, UnitKind::Gpu) => "GPU",
            (InterfaceId::OpenCl, _) => "OpenCL device",
        };
        let n = self.pick(interface, &names, what, |n| all[n].serves(kind))?;
        let found = all[n];
        let device = found.open(is_timed).map_err(|error| error.to_string())?;
        Ok(Opened { device, meter: Box::new(move || found.meter()) })
    }

    /// Picks the index of an interface's first suitable free device, and marks the device as used.
    fn pick(
        &mut self,
        interface: InterfaceId,
        names: &[String],
        what: &str,
        fits: impl Fn(usize) -> bool,
    ) -> Result<usize, String> {
        let fitting: Vec<usize> = (0..names.len()).filter(|n| fits(*n)).collect();
        if let Some(n) = fitting.iter().find(|n| !self.taken.contains(&(interface, **n))) {
            self.taken.push((interface, *n));
            return Ok(*n);
        }
        let devices = if names.len() == 1 { "device" } else { "devices" };
        let state = match (fitting.len(), names.len()) {
            (0, 1) => format!("no {what}"),
            (0, _) => format!("no {what} among them"),
            (fitting, all) if fitting == all => "in use by others of these units".to_owned(),
            _ => format!("and each {what} is in use by another of these units"),
        };
        Err(format!("{} {devices}, {state} ({})", names.len(), names.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_is_picked_once() {
        let mut search = Search::default();
        let names = ["a (GPU)".to_owned(), "b (CPU)".to_owned()];
        let mut pick = |interface, what, n: usize| search.pick(interface, &names, what, |number| number < n);
        assert_eq!(pick(InterfaceId::Cuda, "GPU", 1), Ok(0));
        let taken = "2 devices, and each GPU is in use by another of these units (a (GPU), b (CPU))";
        assert_eq!(pick(InterfaceId::Cuda, "GPU", 1), Err(taken.to_owned()));
        assert_eq!(pick(InterfaceId::OpenCl, "GPU", 2), Ok(0), "each interface counts separately");
        assert_eq!(pick(InterfaceId::OpenCl, "GPU", 2), Ok(1));
        assert_eq!(pick(InterfaceId::Hip, "GPU", 0), Err("2 devices, no GPU among them (a (GPU), b (CPU))".to_owned()));
    }
}

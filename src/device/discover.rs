//! Opens the devices that a machine's units ask for.
//!
//! Emulated devices are made; accelerators are looked for, each interface once. `GPU` is CUDA's, else HIP's, else OpenCL's.

use super::gpu::Gpu;
use super::opencl::{self, OpenCl};
use super::{Accelerator, Device, Emulated, EmulatedDevice};
use crate::error::{BuildError, DeviceError};
use crate::machine::{Machine, UnitKind};
use opencl3::device::{CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_GPU};

/// The machine's devices, by number. `emulated` describes the emulated ones.
pub(crate) fn open(machine: &Machine, emulated: impl Fn(usize) -> EmulatedDevice) -> Result<Vec<Device>, BuildError> {
    let mut search = Search::default();
    let mut devices = Vec::new();
    for unit in machine.device_units() {
        for number in &unit.devices {
            devices.push(match unit.kind {
                UnitKind::Cpu => unreachable!("a CPU unit has no device"),
                UnitKind::Emulated => {
                    let device = emulated(number.index());
                    if let Some(problem) = device.problem() {
                        return Err(BuildError::Argument { argument: "emulated_devices", problem });
                    }
                    Device::Emulated(Emulated::new(device, format!("emulated device {}", number.index())))
                }
                kind => {
                    let needed = machine.device_units().filter(|u| u.kind == kind).map(|u| u.devices.len()).sum();
                    Device::Accelerator(search.next(kind, needed)?)
                }
            });
        }
    }
    Ok(devices)
}

/// Accelerators that are there, and how many of them have been given out.
#[derive(Default)]
struct Search {
    taken: Vec<(&'static str, usize)>,
}

impl Search {
    fn next(&mut self, kind: UnitKind, needed: usize) -> Result<Box<dyn Accelerator>, BuildError> {
        let fits = |found: &opencl::Found| match kind {
            UnitKind::Fpga => found.kind & CL_DEVICE_TYPE_ACCELERATOR != 0,
            UnitKind::Gpu => found.kind & CL_DEVICE_TYPE_GPU != 0,
            _ => true,
        };
        let missing = |found: String| BuildError::NoDevice { kind, needed, found };
        if matches!(kind, UnitKind::Cuda | UnitKind::Hip) {
            return Err(missing(format!("this build has no {kind}")));
        }
        let all = opencl::find().map_err(|why| missing(why.to_owned()))?;
        let free = |n: &usize| fits(&all[*n]) && !self.taken.contains(&(OPENCL, *n));
        let Some(n) = (0..all.len()).find(free) else {
            let names: Vec<_> = all.iter().map(opencl::Found::describe).collect();
            let fitting = all.iter().filter(|found| fits(found)).count();
            return Err(missing(format!("OpenCL has {fitting} such among its {}: {}", all.len(), names.join(", "))));
        };
        let opened = OpenCl::open(&all[n]).and_then(Gpu::new);
        let opened = opened.map_err(|error: DeviceError| missing(error.to_string()))?;
        self.taken.push((OPENCL, n));
        Ok(Box::new(opened))
    }
}

const OPENCL: &str = "OpenCL";

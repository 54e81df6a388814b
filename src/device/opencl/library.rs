//! Discovery of OpenCL devices.

use super::turns::Turns;
use crate::device::survey::{DeviceFacts, Interface};
use crate::machine::UnitKind;
use opencl3::context::Context;
use opencl3::device::{
    CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_GPU, Device, cl_device_id,
    device_type_text,
};
use opencl3::platform::get_platforms;
use opencl3::types::cl_device_type;
use std::sync::{Arc, OnceLock};

/// A discovered device that is not open yet.
pub(in crate::device) struct Found {
    pub(super) id: cl_device_id,
    pub(super) context: Arc<Context>,
    /// The index of the device's platform. Devices on the same platform can copy to each other.
    pub(super) platform: usize,
    pub(super) name: String,
    pub(super) turns: Turns,
    kind: cl_device_type,
    driver: String,
}

// SAFETY: a device ID is an opaque value that any thread may use.
unsafe impl Send for Found {}
// SAFETY: a shared reference gives access only to copies of the opaque ID.
unsafe impl Sync for Found {}

impl Found {
    /// Returns the device's name and type in words: GPU, CPU or accelerator.
    pub(super) fn description(&self) -> String {
        format!("{} ({})", self.name, device_type_text(self.kind).trim_start_matches("CL_DEVICE_TYPE_"))
    }

    /// Returns whether the device is a CPU, which means that its kernels run in this process.
    pub(super) fn is_cpu(&self) -> bool {
        self.kind & CL_DEVICE_TYPE_CPU != 0
    }

    /// Returns whether units of this kind may use the device.
    pub(super) fn suits(&self, kind: UnitKind) -> bool {
        match kind {
            UnitKind::Fpga => self.kind & CL_DEVICE_TYPE_ACCELERATOR != 0,
            UnitKind::Gpu => self.kind & CL_DEVICE_TYPE_GPU != 0,
            _ => true,
        }
    }
}

/// Returns all devices that support double precision. The search runs once per process, because some platforms do not
/// support two searches at the same time.
///
/// # Errors
/// Returns the reason why there are no devices.
pub(in crate::device) fn find() -> Result<&'static [Found], &'static str> {
    static FOUND: OnceLock<Result<Vec<Found>, String>> = OnceLock::new();
    FOUND.get_or_init(look).as_deref().map_err(String::as_str)
}

fn look() -> Result<Vec<Found>, String> {
    if !cl3::is_opencl_runtime_available() {
        return Err("no OpenCL library (libOpenCL.so) is installed".to_owned());
    }
    let platforms = get_platforms().map_err(|error| format!("no OpenCL platform is installed (error {})", error.0))?;
    let mut found = Vec::new();
    for (number, platform) in platforms.iter().enumerate() {
        let Ok(ids) = platform.get_devices(CL_DEVICE_TYPE_ALL) else { continue };
        let usable = |id: &cl_device_id| {
            let device = Device::new(*id);
            device.available().unwrap_or(false)
                && device.compiler_available().unwrap_or(false)
                && device.double_fp_config().is_ok_and(|config| config != 0)
        };
        let ids: Vec<cl_device_id> = ids.into_iter().filter(usable).collect();
        if ids.is_empty() {
            continue;
        }
        let context = match Context::from_devices(&ids, &[], None, std::ptr::null_mut()) {
            Ok(context) => Arc::new(context),
            Err(error) => {
                log!(warn, "an OpenCL platform creates no context (error {})", error.0);
                continue;
            }
        };
        for id in ids {
            let device = Device::new(id);
            found.push(Found {
                id,
                context: context.clone(),
                platform: number,
                name: device.name().unwrap_or_default().trim().to_owned(),
                turns: Turns::of(platform),
                kind: device.dev_type().unwrap_or(0),
                driver: device.driver_version().unwrap_or_default(),
            });
        }
    }
    if found.is_empty() { Err("no OpenCL device computes with doubles".to_owned()) } else { Ok(found) }
}

/// Describes OpenCL and its devices for display.
pub(in crate::device) fn survey() -> Interface {
    let all = match find() {
        Ok(all) => all,
        Err(why) => {
            return Interface { name: "OpenCL", version: None, absent: Some(why.to_owned()), devices: Vec::new() };
        }
    };
    let facts = |found: &Found| {
        let device = Device::new(found.id);
        let units = [UnitKind::OpenCl, UnitKind::Fpga, UnitKind::Gpu];
        DeviceFacts {
            name: found.description(),
            units: units.into_iter().filter(|kind| found.suits(*kind)).collect(),
            memory_bytes: device.global_mem_size().unwrap_or(0),
            driver: found.driver.clone(),
            architecture: device.opencl_c_version().unwrap_or_default().trim().to_owned(),
            processors: device.max_compute_units().unwrap_or(0),
            pci: None, // OpenCL 1.2 does not report the PCI address
            peers: all.iter().map(|other| other.platform == found.platform).collect(),
        }
    };
    let names = get_platforms()
        .unwrap_or_default()
        .into_iter()
        .filter_map(|platform| Some(format!("{} ({})", platform.name().ok()?.trim(), platform.version().ok()?.trim())));
    Interface {
        name: "OpenCL",
        version: Some(names.collect::<Vec<_>>().join(", ")),
        absent: None,
        devices: all.iter().map(facts).collect(),
    }
}

//! Descriptions of the accelerators that exist, and of why others do not, as shown by `thalweg doctor`.

use crate::machine::UnitKind;

/// One interface, and its devices if it is available.
///
/// ```
/// let interfaces = thalweg::devices::interfaces();
/// assert!(interfaces.iter().all(|interface| interface.absent.is_none() || interface.devices.is_empty()));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Interface {
    /// CUDA, HIP or OpenCL.
    pub name: &'static str,
    /// The libraries and their versions, for display, if the interface is available.
    pub version: Option<String>,
    /// The reason why there is no device, if there is none.
    pub absent: Option<String>,
    /// Its devices.
    pub devices: Vec<DeviceFacts>,
}

/// One device, as its interface describes it.
///
/// ```
/// let interfaces = thalweg::devices::interfaces();
/// for device in interfaces.iter().flat_map(|interface| &interface.devices) {
///     println!("{}: {} MiB, {}", device.name, device.memory_bytes >> 20, device.architecture);
/// }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeviceFacts {
    /// Its name.
    pub name: String,
    /// The kinds that include it in a unit string, such as [`UnitKind::Cuda`] and [`UnitKind::Gpu`].
    pub units: Vec<UnitKind>,
    /// All of its memory, in bytes.
    pub memory_bytes: u64,
    /// The version of its driver.
    pub driver: String,
    /// The target of compiled code: `sm_90`, `gfx90a`, `OpenCL C 1.2`.
    pub architecture: String,
    /// The number of multiprocessors, or of the interface's equivalent.
    pub processors: u32,
    /// Its address on the PCI bus (`0000:3b:00.0`), if it has one.
    pub pci: Option<String>,
    /// For each device of the interface, whether this one reaches its memory directly.
    pub peers: Vec<bool>,
}

//! Descriptions of the available accelerators, and reasons why others are not available, as shown by
//! `thalweg doctor`.

use crate::machine::UnitKind;

/// An interface, with its devices if it is available.
///
/// ```
/// let interfaces = thalweg::devices::interfaces();
/// assert!(interfaces.iter().all(|interface| interface.absent.is_none() || interface.devices.is_empty()));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Interface {
    /// The name of the interface: CUDA, HIP or OpenCL.
    pub name: &'static str,
    /// The libraries and their versions, for display; `None` if the interface is not available.
    pub version: Option<String>,
    /// The reason why there are no devices; `None` if there is a device.
    pub absent: Option<String>,
    /// The interface's devices.
    pub devices: Vec<DeviceFacts>,
}

/// A device, as described by its interface.
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
    /// The device's name.
    pub name: String,
    /// The kinds that select the device in a unit string, such as [`UnitKind::Cuda`] and [`UnitKind::Gpu`].
    pub units: Vec<UnitKind>,
    /// The total size of the device's memory, in bytes.
    pub memory_bytes: u64,
    /// The version of the device's driver.
    pub driver: String,
    /// The compilation target, such as `sm_90`, `gfx90a` or `OpenCL C 1.2`.
    pub architecture: String,
    /// The number of multiprocessors, or of the interface's equivalent.
    pub processors: u32,
    /// The device's address on the PCI bus, such as `0000:3b:00.0`; `None` if it has no address there or the
    /// interface does not report it.
    pub pci: Option<String>,
    /// For each device of the interface, whether this device can access that device's memory directly.
    pub peers: Vec<bool>,
}

//! What accelerators there are, and why others are not: what `thalweg doctor` shows.

use super::cuda::{self, Cuda};
use super::hip::{self, Hip};
use super::measure::{Measurement, measure};
use super::opencl::{self, OpenCl};
use crate::error::DeviceError;
use crate::machine::UnitKind;
use serde::Serialize;

/// One interface, and its devices if it is there.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Interface {
    /// CUDA, HIP or OpenCL.
    pub name: &'static str,
    /// Libraries and their versions, in words, if the interface is there.
    pub version: Option<String>,
    /// Why there is no device, if there is none.
    pub absent: Option<String>,
    /// Its devices.
    pub devices: Vec<DeviceFacts>,
}

/// One device, as its interface describes it.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct DeviceFacts {
    /// Its name.
    pub name: String,
    /// What may stand for it in a unit string: [`UnitKind::Cuda`] and [`UnitKind::Gpu`], for instance.
    #[serde(serialize_with = "keywords")]
    pub units: Vec<UnitKind>,
    /// All of its memory, in bytes.
    pub memory_bytes: u64,
    /// The version of its driver.
    pub driver: String,
    /// What code is compiled for: `sm_90`, `gfx90a`, `OpenCL C 1.2`.
    pub architecture: String,
    /// Multiprocessors, or what the interface counts instead.
    pub processors: u32,
    /// Its address on the PCI bus (`0000:3b:00.0`), if it has one.
    pub pci: Option<String>,
    /// For each device of the interface, whether this one reaches its memory directly.
    pub peers: Vec<bool>,
}

/// The interfaces that Thalweg knows, with their devices.
///
/// ```
/// for interface in thalweg::devices::interfaces() {
///     match &interface.absent {
///         Some(why) => println!("no {}: {why}", interface.name),
///         None => println!("{}: {} devices", interface.name, interface.devices.len()),
///     }
/// }
/// ```
pub fn interfaces() -> Vec<Interface> {
    vec![cuda::survey(), hip::survey(), opencl::survey()]
}

/// Measures how fast a device is reached: the `number`-th of an interface.
///
/// # Errors
/// If there is none, or it fails.
pub fn measurement(interface: &str, number: usize) -> Result<Measurement, DeviceError> {
    let missing =
        || DeviceError::Lost { device: format!("{interface} device {number}"), what: "it is not there".to_owned() };
    let device = match interface {
        "CUDA" => numbered(cuda::find(), number).map(Cuda::open),
        "HIP" => numbered(hip::find(), number).map(Hip::open),
        "OpenCL" => numbered(opencl::find(), number).map(OpenCl::open),
        _ => None,
    };
    measure(&*device.ok_or_else(missing)??)
}

fn numbered<T>(found: Result<&'static [T], &str>, number: usize) -> Option<&'static T> {
    found.ok()?.get(number)
}

fn keywords<S: serde::Serializer>(units: &[UnitKind], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(units.iter().map(|unit| unit.keyword()))
}

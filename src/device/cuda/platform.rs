//! Device properties that the driver reports before any device is opened.

use super::Cuda;
use super::library::{self, attribute, call, functions};
use super::nvml;
use super::nvrtc::Nvrtc;
use crate::device::gpu::{ApiError, Found, Platform};
use crate::energy::{EnergyMeter, MeterError};
use crate::machine::UnitKind;
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

impl Platform for Cuda {
    const NAME: &'static str = "CUDA";
    const LAYER: &'static str = "the driver";
    const KIND: UnitKind = UnitKind::Cuda;
    const ARCHITECTURES: &'static str = "sm_";
    const QUEUES: (&'static str, usize) = ("CUDA_DEVICE_MAX_CONNECTIONS", 8);

    type Compiler = Nvrtc;

    fn load() -> Result<(), &'static str> {
        library::load()
    }

    fn version() -> String {
        let mut version = 0;
        // SAFETY: the result pointer is valid.
        match unsafe { (functions().cuDriverGetVersion)(&mut version) } {
            0 => format!("{}.{}", version / 1000, version % 1000 / 10),
            _ => "of an unknown version".to_owned(),
        }
    }

    fn found() -> &'static OnceLock<Result<Vec<Found>, String>> {
        static FOUND: OnceLock<Result<Vec<Found>, String>> = OnceLock::new();
        &FOUND
    }

    fn describe(code: i32) -> String {
        library::describe(code)
    }

    fn count() -> Result<c_int, ApiError> {
        let mut count = 0;
        // SAFETY: the result pointer is valid.
        call("cuDeviceGetCount", unsafe { (functions().cuDeviceGetCount)(&mut count) })?;
        Ok(count)
    }

    fn name_of(number: c_int, name: &mut [c_char]) -> Result<(), ApiError> {
        let device = library::device(number)?;
        // SAFETY: the driver just returned the device, and the buffer has the size that is passed.
        call("cuDeviceGetName", unsafe {
            (functions().cuDeviceGetName)(name.as_mut_ptr(), name.len() as c_int, device)
        })
    }

    /// Returns the device's compute capability.
    fn architecture_of(number: c_int) -> Result<String, ApiError> {
        let major = attribute(number, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(number, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Ok(format!("{}{major}{minor}", Self::ARCHITECTURES))
    }

    fn bytes_of(number: c_int) -> Result<usize, ApiError> {
        let (device, mut bytes) = (library::device(number)?, 0);
        // SAFETY: the driver just returned the device, and the result pointer is valid.
        call("cuDeviceTotalMem", unsafe { (functions().cuDeviceTotalMem_v2)(&mut bytes, device) })?;
        Ok(bytes)
    }

    fn processors_of(number: c_int) -> Result<c_int, ApiError> {
        attribute(number, Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
    }

    fn pci_of(number: c_int, address: &mut [c_char]) -> Result<(), ApiError> {
        let (device, size) = (library::device(number)?, address.len() as c_int);
        // SAFETY: the driver just returned the device, and the buffer has the size that is passed.
        call("cuDeviceGetPCIBusId", unsafe { (functions().cuDeviceGetPCIBusId)(address.as_mut_ptr(), size, device) })
    }

    fn meter(pci: &str) -> Result<Box<dyn EnergyMeter>, MeterError> {
        nvml::meter(pci)
    }

    fn reaches(number: c_int, peer: c_int) -> Result<bool, ApiError> {
        let (one, other, mut reaches) = (library::device(number)?, library::device(peer)?, 0);
        // SAFETY: the driver just returned both devices, and the result pointer is valid.
        call("cuDeviceCanAccessPeer", unsafe { (functions().cuDeviceCanAccessPeer)(&mut reaches, one, other) })?;
        Ok(reaches != 0)
    }
}

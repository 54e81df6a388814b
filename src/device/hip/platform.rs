//! Device properties that the HIP runtime reports before any device is opened.

use super::Hip;
use super::hiprtc::HipRtc;
use super::library::{self, call, loaded};
use super::rocm_smi;
use super::types::{ARCHITECTURE_BYTES, MULTIPROCESSOR_COUNT, Properties};
use crate::device::gpu::{ApiError, Found, Platform};
use crate::energy::{EnergyMeter, MeterError};
use crate::machine::UnitKind;
use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

impl Platform for Hip {
    const NAME: &'static str = "HIP";
    const LAYER: &'static str = "the runtime";
    const KIND: UnitKind = UnitKind::Hip;
    const ARCHITECTURES: &'static str = "gfx";
    const QUEUES: (&'static str, usize) = ("GPU_MAX_HW_QUEUES", 4);

    type Compiler = HipRtc;

    fn load() -> Result<(), &'static str> {
        library::load().map(|_| ())
    }

    fn version() -> String {
        let [major, minor, patch] = loaded().version;
        format!("{major}.{minor}.{patch}")
    }

    fn found() -> &'static OnceLock<Result<Vec<Found>, String>> {
        static FOUND: OnceLock<Result<Vec<Found>, String>> = OnceLock::new();
        &FOUND
    }

    fn describe(code: i32) -> String {
        loaded().describe(code)
    }

    fn count() -> Result<c_int, ApiError> {
        let mut count = 0;
        // SAFETY: 0 is the only defined flag, and the result pointer is valid.
        unsafe {
            call("hipInit", (loaded().functions.hipInit)(0))?;
            call("hipGetDeviceCount", (loaded().functions.hipGetDeviceCount)(&mut count))?;
        }
        Ok(count)
    }

    fn name_of(number: c_int, name: &mut [c_char]) -> Result<(), ApiError> {
        let size = name.len() as c_int;
        // SAFETY: the index is that of an existing device, and the buffer has the size that is passed.
        call("hipDeviceGetName", unsafe { (loaded().functions.hipDeviceGetName)(name.as_mut_ptr(), size, number) })
    }

    /// Returns hipRTC's name for the architecture, such as `gfx90a:sramecc+:xnack-`.
    fn architecture_of(number: c_int) -> Result<String, ApiError> {
        let (library, mut properties) = (loaded(), Properties::ZERO);
        // SAFETY: the index is that of an existing device, and the buffer is large enough for the structure of every
        // release.
        call("hipGetDeviceProperties", unsafe { (library.properties)(&mut properties, number) })?;
        let bytes = &properties.0[library.architecture_at..][..ARCHITECTURE_BYTES];
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Ok(String::from_utf8_lossy(&bytes[..end]).trim().to_owned())
    }

    fn bytes_of(number: c_int) -> Result<usize, ApiError> {
        let mut bytes = 0;
        // SAFETY: the index is that of an existing device, and the result pointer is valid.
        call("hipDeviceTotalMem", unsafe { (loaded().functions.hipDeviceTotalMem)(&mut bytes, number) })?;
        Ok(bytes)
    }

    fn processors_of(number: c_int) -> Result<c_int, ApiError> {
        let mut processors = 0;
        // SAFETY: the index is that of an existing device, and the result pointer is valid.
        call("hipDeviceGetAttribute", unsafe {
            (loaded().functions.hipDeviceGetAttribute)(&mut processors, MULTIPROCESSOR_COUNT, number)
        })?;
        Ok(processors)
    }

    fn pci_of(number: c_int, address: &mut [c_char]) -> Result<(), ApiError> {
        let size = address.len() as c_int;
        // SAFETY: the index is that of an existing device, and the buffer has the size that is passed.
        call("hipDeviceGetPCIBusId", unsafe {
            (loaded().functions.hipDeviceGetPCIBusId)(address.as_mut_ptr(), size, number)
        })
    }

    fn meter(pci: &str) -> Result<Box<dyn EnergyMeter>, MeterError> {
        rocm_smi::meter(pci)
    }

    fn reaches(number: c_int, peer: c_int) -> Result<bool, ApiError> {
        let mut reaches = 0;
        // SAFETY: both indices are those of existing devices, and the result pointer is valid.
        call("hipDeviceCanAccessPeer", unsafe {
            (loaded().functions.hipDeviceCanAccessPeer)(&mut reaches, number, peer)
        })?;
        Ok(reaches != 0)
    }
}

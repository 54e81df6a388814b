//! The driver's library, and what it says of its devices.

use super::Cuda;
use super::nvrtc::Nvrtc;
use crate::device::gpu::{ApiError, Found, Platform};
use crate::machine::UnitKind;
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUdevice, CUdevice_attribute as Attribute, CUresult};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// All that is called of the driver's library. `cudarc` panics if one is missing, so they are looked for first.
const SYMBOLS: &[&str] = &[
    "cuCtxEnablePeerAccess",
    "cuCtxSetCurrent",
    "cuDeviceCanAccessPeer",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetPCIBusId",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuGetErrorString",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemcpy3DAsync_v2",
    "cuMemcpy3DPeerAsync",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyPeerAsync",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuPointerGetAttribute",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamWaitEvent",
];

/// Opens the library and starts it.
fn start() -> Result<(), String> {
    // SAFETY: the library's own initialization is NVIDIA's matter.
    if !unsafe { sys::is_culib_present() } {
        return Err("the driver's library (libcuda.so.1) is not installed".to_owned());
    }
    // SAFETY: the library is there; the symbols are looked at, not called.
    let missing = |symbol: &&&str| unsafe { sys::culib().get::<*const c_void>(symbol.as_bytes()).is_err() };
    if let Some(symbol) = SYMBOLS.iter().find(missing) {
        return Err(format!("the driver is too old: its library has no {symbol}"));
    }
    result::init().map_err(|error| match error.0 {
        CUresult::CUDA_ERROR_NO_DEVICE => "the driver is installed and finds no device".to_owned(),
        CUresult::CUDA_ERROR_STUB_LIBRARY => {
            "the library found is the toolkit's stub, not the driver's: look at LD_LIBRARY_PATH".to_owned()
        }
        _ => format!("the driver does not start: {}", describe(error.0 as i32)),
    })
}

pub(super) fn call(name: &'static str, result: CUresult) -> Result<(), ApiError> {
    ApiError::unless_success(name, result as i32)
}

/// The device of this number.
pub(super) fn device(number: c_int) -> Result<CUdevice, ApiError> {
    let mut device = 0;
    // SAFETY: the result has a place.
    call("cuDeviceGet", unsafe { sys::cuDeviceGet(&mut device, number) })?;
    Ok(device)
}

fn attribute(number: c_int, attribute: Attribute) -> Result<c_int, ApiError> {
    let (device, mut value) = (device(number)?, 0);
    // SAFETY: the device was just returned; the result has a place.
    call("cuDeviceGetAttribute", unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) })?;
    Ok(value)
}

impl Platform for Cuda {
    const NAME: &'static str = "CUDA";
    const LAYER: &'static str = "the driver";
    const KIND: UnitKind = UnitKind::Cuda;
    const ARCHITECTURES: &'static str = "sm_";

    type Compiler = Nvrtc;

    fn load() -> Result<(), &'static str> {
        static LOADED: OnceLock<Result<(), String>> = OnceLock::new();
        LOADED.get_or_init(start).as_ref().copied().map_err(String::as_str)
    }

    fn version() -> String {
        let mut version = 0;
        // SAFETY: the result has a place.
        match unsafe { sys::cuDriverGetVersion(&mut version) }.result() {
            Ok(()) => format!("{}.{}", version / 1000, version % 1000 / 10),
            Err(_) => "of an unknown version".to_owned(),
        }
    }

    fn found() -> &'static OnceLock<Result<Vec<Found>, String>> {
        static FOUND: OnceLock<Result<Vec<Found>, String>> = OnceLock::new();
        &FOUND
    }

    fn describe(code: i32) -> String {
        describe(code)
    }

    fn count() -> Result<c_int, ApiError> {
        let mut count = 0;
        // SAFETY: the result has a place.
        call("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut count) })?;
        Ok(count)
    }

    fn name_of(number: c_int, name: &mut [c_char]) -> Result<(), ApiError> {
        let device = device(number)?;
        // SAFETY: the device was just returned; the text has a place of the size that is given.
        call("cuDeviceGetName", unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), name.len() as c_int, device) })
    }

    /// Its compute capability.
    fn architecture_of(number: c_int) -> Result<String, ApiError> {
        let major = attribute(number, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(number, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Ok(format!("{}{major}{minor}", Self::ARCHITECTURES))
    }

    fn bytes_of(number: c_int) -> Result<usize, ApiError> {
        let (device, mut bytes) = (device(number)?, 0);
        // SAFETY: the device was just returned; the result has a place.
        call("cuDeviceTotalMem", unsafe { sys::cuDeviceTotalMem_v2(&mut bytes, device) })?;
        Ok(bytes)
    }

    fn processors_of(number: c_int) -> Result<c_int, ApiError> {
        attribute(number, Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
    }

    fn pci_of(number: c_int, address: &mut [c_char]) -> Result<(), ApiError> {
        let (device, size) = (device(number)?, address.len() as c_int);
        // SAFETY: the device was just returned; the text has a place of the size that is given.
        call("cuDeviceGetPCIBusId", unsafe { sys::cuDeviceGetPCIBusId(address.as_mut_ptr(), size, device) })
    }

    fn reaches(number: c_int, peer: c_int) -> Result<bool, ApiError> {
        let (one, other, mut reaches) = (device(number)?, device(peer)?, 0);
        // SAFETY: both devices were just returned; the result has a place.
        call("cuDeviceCanAccessPeer", unsafe { sys::cuDeviceCanAccessPeer(&mut reaches, one, other) })?;
        Ok(reaches != 0)
    }
}

/// A code of the driver, in words.
pub(super) fn describe(code: i32) -> String {
    type Describe = unsafe extern "C" fn(c_int, *mut *const std::ffi::c_char) -> c_int;
    let mut text = std::ptr::null();
    // SAFETY: the library is loaded where there are codes. Of this function the type is stated here and not taken from
    // the bindings, whose enumeration a code that is newer than they are would not fit.
    let known = unsafe {
        sys::culib().get::<Describe>(b"cuGetErrorString").is_ok_and(|describe| describe(code, &mut text) == 0)
    };
    if !known || text.is_null() {
        return format!("error {code}");
    }
    // SAFETY: the driver's own constant text.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

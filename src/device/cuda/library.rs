//! The driver's library.

use crate::device::gpu::ApiError;
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUdevice, CUdevice_attribute as Attribute, CUresult};
use std::ffi::{CStr, c_int, c_void};
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
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
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

/// The library, opened and started once.
///
/// # Errors
/// Why it can't be used.
pub(super) fn load() -> Result<(), &'static str> {
    static LOADED: OnceLock<Result<(), String>> = OnceLock::new();
    LOADED.get_or_init(start).as_ref().copied().map_err(String::as_str)
}

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

/// An attribute of the device of this number.
pub(super) fn attribute(number: c_int, attribute: Attribute) -> Result<c_int, ApiError> {
    let (device, mut value) = (device(number)?, 0);
    // SAFETY: the device was just returned; the result has a place.
    call("cuDeviceGetAttribute", unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) })?;
    Ok(value)
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

//! Which CUDA devices there are, if there is CUDA at all.

use super::compiler;
use crate::device::Accelerator;
use crate::device::interfaces::Discovered;
use crate::device::survey::{DeviceFacts, Interface};
use crate::error::DeviceError;
use crate::machine::UnitKind;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUdevice, CUdevice_attribute, CUresult};
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

/// A device that is there, not yet opened.
#[derive(Debug)]
pub(in crate::device) struct Found {
    pub(super) device: CUdevice,
    /// Compute capability, as one number: 90 for 9.0.
    pub(super) architecture: u32,
    pub(super) facts: DeviceFacts,
}

impl Discovered for Found {
    fn name(&self) -> String {
        self.facts.name.clone()
    }

    fn open(&self) -> Result<Box<dyn Accelerator>, DeviceError> {
        super::Cuda::open(self)
    }
}

/// All devices. They are looked for once in a process.
///
/// # Errors
/// Why there is none.
pub(in crate::device) fn find() -> Result<&'static [Found], &'static str> {
    static FOUND: OnceLock<Result<Vec<Found>, String>> = OnceLock::new();
    FOUND.get_or_init(look).as_deref().map_err(String::as_str)
}

/// What there is of CUDA.
pub(in crate::device) fn survey() -> Interface {
    let found = find();
    let compiler = match compiler::version() {
        Ok(version) => version.to_string(),
        Err(why) => why.to_owned(),
    };
    let version = load().is_ok().then(|| format!("CUDA {}, {compiler}", driver_version()));
    Interface {
        name: "CUDA",
        version,
        absent: found.err().map(str::to_owned),
        devices: found.unwrap_or_default().iter().map(|found| found.facts.clone()).collect(),
    }
}

/// Opens the library and starts it, once.
fn load() -> Result<(), &'static str> {
    static LOADED: OnceLock<Result<(), String>> = OnceLock::new();
    let load = || {
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
    };
    LOADED.get_or_init(load).as_ref().copied().map_err(String::as_str)
}

fn look() -> Result<Vec<Found>, String> {
    load()?;
    let failed = |error: DriverError| format!("the driver answers: {}", describe(error.0 as i32));
    let count = result::device::get_count().map_err(failed)?;
    let found = (0..count).map(|number| look_at(number, count)).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    if found.is_empty() { Err("the driver is installed and finds no device".to_owned()) } else { Ok(found) }
}

fn look_at(number: c_int, count: c_int) -> Result<Found, DriverError> {
    use CUdevice_attribute as Attribute;
    let device = result::device::get(number)?;
    // SAFETY: the device was just returned.
    let attribute = |attribute| unsafe { result::device::get_attribute(device, attribute) };
    let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    let processors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    let reaches = |peer: c_int| {
        let mut reaches = 0;
        // SAFETY: numbers below the count are devices; the result has a place.
        let asked = unsafe { sys::cuDeviceCanAccessPeer(&mut reaches, device, result::device::get(peer)?) };
        Ok(peer == number || (asked.result().is_ok() && reaches != 0))
    };
    let architecture = (major * 10 + minor) as u32;
    let facts = DeviceFacts {
        name: result::device::get_name(device)?,
        units: vec![UnitKind::Cuda, UnitKind::Gpu],
        // SAFETY: the device was just returned.
        memory_bytes: unsafe { result::device::total_mem(device)? } as u64,
        driver: format!("CUDA {}", driver_version()),
        architecture: format!("sm_{architecture}"),
        processors: processors as u32,
        pci: pci_address(device),
        peers: (0..count).map(reaches).collect::<Result<_, DriverError>>()?,
    };
    Ok(Found { device, architecture, facts })
}

fn pci_address(device: CUdevice) -> Option<String> {
    let mut text = [0; 32];
    // SAFETY: the device exists; the text has a place of the size that is given.
    let asked = unsafe { sys::cuDeviceGetPCIBusId(text.as_mut_ptr(), text.len() as c_int, device) };
    let bytes = text.map(|c| c as u8);
    let text = CStr::from_bytes_until_nul(&bytes).ok()?.to_str().ok()?;
    asked.result().is_ok().then(|| text.to_lowercase())
}

/// The newest CUDA that the driver can do, once it is loaded.
fn driver_version() -> String {
    let mut version = 0;
    // SAFETY: the result has a place.
    match unsafe { sys::cuDriverGetVersion(&mut version) }.result() {
        Ok(()) => format!("{}.{}", version / 1000, version % 1000 / 10),
        Err(_) => "of an unknown version".to_owned(),
    }
}

/// A code of the driver, in words.
pub(super) fn describe(code: i32) -> String {
    type Describe = unsafe extern "C" fn(c_int, *mut *const std::ffi::c_char) -> c_int;
    let mut text = std::ptr::null();
    // SAFETY: the library is loaded where there are codes. Of this function the type is stated here and not taken from the
    // bindings, whose enumeration a code that is newer than they are would not fit.
    let known = unsafe {
        sys::culib().get::<Describe>(b"cuGetErrorString").is_ok_and(|describe| describe(code, &mut text) == 0)
    };
    if !known || text.is_null() {
        return format!("error {code}");
    }
    // SAFETY: the driver's own constant text.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

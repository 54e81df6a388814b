//! GPU energy meter based on NVIDIA's management library (NVML), whose counter starts when the driver is loaded.

use crate::energy::{EnergyMeter, MeterError};
use std::ffi::{CStr, CString, c_char, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

/// The library functions in use; all of them return an error code, or 0 for success.
pub(super) struct Functions {
    init: unsafe extern "C" fn() -> c_uint,
    device_at: unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> c_uint,
    energy_of: unsafe extern "C" fn(*mut c_void, *mut c_ulonglong) -> c_uint,
    describe: unsafe extern "C" fn(c_uint) -> *const c_char,
}

impl Functions {
    /// Opens the library on the first call; the library then stays open.
    fn load() -> Result<&'static Self, String> {
        static LOADED: OnceLock<Result<Functions, String>> = OnceLock::new();
        LOADED.get_or_init(Self::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Self, String> {
        // SAFETY: loading runs the library's initialisation code, whose soundness is NVIDIA's responsibility.
        let raw = unsafe { libloading::Library::new("libnvidia-ml.so.1") }
            .map_err(|_| "NVIDIA's management library (libnvidia-ml.so.1) is not installed".to_owned())?;
        let lacks = |name: &'static str| move |_| format!("NVIDIA's management library has no {name}");
        // SAFETY: the types match the library's manual, and the suffix `_v2` of a name identifies the version of the
        // function's type. The library is never closed, so the functions stay valid.
        let functions = unsafe {
            Self {
                init: *raw.get("nvmlInit_v2").map_err(lacks("nvmlInit_v2"))?,
                device_at: *raw
                    .get("nvmlDeviceGetHandleByPciBusId_v2")
                    .map_err(lacks("nvmlDeviceGetHandleByPciBusId_v2"))?,
                energy_of: *raw
                    .get("nvmlDeviceGetTotalEnergyConsumption")
                    .map_err(lacks("nvmlDeviceGetTotalEnergyConsumption"))?,
                describe: *raw.get("nvmlErrorString").map_err(lacks("nvmlErrorString"))?,
            }
        };
        std::mem::forget(raw);
        functions.check("nvmlInit_v2", || {
            // SAFETY: `nvmlInit` may be called at any time, and more than once.
            unsafe { (functions.init)() }
        })?;
        Ok(functions)
    }

    fn check(&self, name: &str, call: impl FnOnce() -> c_uint) -> Result<(), String> {
        match call() {
            0 => Ok(()),
            code => {
                // SAFETY: the library returns a null-terminated text for any code, and the text lives as long as the
                // library.
                let text = unsafe { CStr::from_ptr((self.describe)(code)) };
                Err(format!("{name}: error {code}: {}", text.to_string_lossy()))
            }
        }
    }
}

/// The energy counter of a GPU.
struct NvmlMeter {
    functions: &'static Functions,
    device: *mut c_void,
    name: String,
}

// SAFETY: the library may be called from any thread, and a device handle stays valid until the library is shut down,
// which never happens.
unsafe impl Send for NvmlMeter {}

/// Returns the energy counter of the GPU at this address on the PCI bus.
pub(super) fn meter(pci: &str) -> Result<Box<dyn EnergyMeter>, MeterError> {
    let error = |problem| MeterError { meter: name(pci), problem };
    meter_by(Functions::load().map_err(error)?, pci)
}

fn name(pci: &str) -> String {
    format!("NVML {pci}")
}

fn meter_by(functions: &'static Functions, pci: &str) -> Result<Box<dyn EnergyMeter>, MeterError> {
    let error = |problem| MeterError { meter: name(pci), problem };
    let address = CString::new(pci).map_err(|problem| error(problem.to_string()))?;
    let mut device = std::ptr::null_mut();
    // SAFETY: the address is null-terminated, and the result pointer is valid.
    let call = || unsafe { (functions.device_at)(address.as_ptr(), &mut device) };
    functions.check("nvmlDeviceGetHandleByPciBusId_v2", call).map_err(error)?;
    Ok(Box::new(NvmlMeter { functions, device, name: name(pci) }))
}

impl EnergyMeter for NvmlMeter {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn joules(&mut self) -> Result<f64, MeterError> {
        let mut millijoules = 0;
        // SAFETY: the device handle comes from the library, and the result pointer is valid.
        let call = || unsafe { (self.functions.energy_of)(self.device, &mut millijoules) };
        let read = self.functions.check("nvmlDeviceGetTotalEnergyConsumption", call);
        read.map_err(|problem| MeterError { meter: self.name(), problem })?;
        Ok(millijoules as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn init() -> c_uint {
        0
    }

    /// Fake of the library's function: there is one device, at one address.
    unsafe extern "C" fn device_at(address: *const c_char, device: *mut *mut c_void) -> c_uint {
        // SAFETY: the caller passes a null-terminated text and a valid pointer.
        let (address, device) = unsafe { (CStr::from_ptr(address), &mut *device) };
        *device = std::ptr::without_provenance_mut(7);
        if address == c"0000:3b:00.0" { 0 } else { 6 }
    }

    unsafe extern "C" fn energy_of(device: *mut c_void, millijoules: *mut c_ulonglong) -> c_uint {
        // SAFETY: the caller passes a valid pointer.
        unsafe { *millijoules = 1500 * device.addr() as c_ulonglong }
        0
    }

    extern "C" fn describe(_: c_uint) -> *const c_char {
        c"Not Found".as_ptr()
    }

    static STAND_IN: Functions = Functions { init, device_at, energy_of, describe };

    #[test]
    fn counter_is_found_by_address_and_counts_millijoules() {
        let mut meter = meter_by(&STAND_IN, "0000:3b:00.0").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((meter.name().as_str(), meter.joules()), ("NVML 0000:3b:00.0", Ok(10.5)));
        let error = meter_by(&STAND_IN, "0000:99:00.0").err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("NVML 0000:99:00.0") && error.contains("error 6: Not Found"), "{error}");
        assert!(meter_by(&STAND_IN, "a\0b").is_err());
    }
}

//! GPU energy meter based on AMD's management library (ROCm SMI), whose counter starts when the driver is loaded.

use crate::device::functions::open_first;
use crate::energy::{EnergyMeter, MeterError};
use std::ffi::c_uint;
use std::sync::OnceLock;

/// The library functions in use; all of them return an error code, or 0 for success.
pub(super) struct Functions {
    init: unsafe extern "C" fn(u64) -> c_uint,
    count: unsafe extern "C" fn(*mut u32) -> c_uint,
    address_of: unsafe extern "C" fn(u32, *mut u64) -> c_uint,
    /// Returns the counter value, the counter's unit in microjoules, and the time of the reading.
    energy_of: unsafe extern "C" fn(u32, *mut u64, *mut f32, *mut u64) -> c_uint,
}

impl Functions {
    /// Opens the library on the first call; the library then stays open.
    fn load() -> Result<&'static Self, String> {
        static LOADED: OnceLock<Result<Functions, String>> = OnceLock::new();
        LOADED.get_or_init(Self::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Self, String> {
        let releases = (5..=9).rev().map(|release| format!("librocm_smi64.so.{release}"));
        let names: Vec<String> = releases.chain(["librocm_smi64.so".to_owned()]).collect();
        let raw = open_first(&names.iter().map(String::as_str).collect::<Vec<_>>())
            .ok_or("AMD's management library (librocm_smi64.so) is not installed")?;
        let lacks = |name: &'static str| move |_| format!("AMD's management library has no {name}");
        // SAFETY: the types match the library's manual, and the library is never closed.
        let functions = unsafe {
            Self {
                init: *raw.get("rsmi_init").map_err(lacks("rsmi_init"))?,
                count: *raw.get("rsmi_num_monitor_devices").map_err(lacks("rsmi_num_monitor_devices"))?,
                address_of: *raw.get("rsmi_dev_pci_id_get").map_err(lacks("rsmi_dev_pci_id_get"))?,
                energy_of: *raw.get("rsmi_dev_energy_count_get").map_err(lacks("rsmi_dev_energy_count_get"))?,
            }
        };
        std::mem::forget(raw);
        // SAFETY: no flag is passed, and `rsmi_init` may be called more than once.
        check("rsmi_init", unsafe { (functions.init)(0) })?;
        Ok(functions)
    }
}

fn check(name: &str, code: c_uint) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("{name}: error {code}")) }
}

/// The energy counter of a GPU.
struct SmiMeter {
    functions: &'static Functions,
    device: u32,
    name: String,
}

/// Returns the energy counter of the GPU at this address on the PCI bus.
pub(super) fn meter(pci: &str) -> Result<Box<dyn EnergyMeter>, MeterError> {
    let error = |problem| MeterError { meter: name(pci), problem };
    meter_by(Functions::load().map_err(error)?, pci).map_err(error)
}

fn name(pci: &str) -> String {
    format!("ROCm SMI {pci}")
}

fn meter_by(functions: &'static Functions, pci: &str) -> Result<Box<dyn EnergyMeter>, String> {
    let wanted = number_of(pci).ok_or("this is not an address on the PCI bus")?;
    let mut count = 0;
    // SAFETY: the result pointer is valid.
    check("rsmi_num_monitor_devices", unsafe { (functions.count)(&mut count) })?;
    let is_there = |device: &u32| {
        let mut address = 0;
        // SAFETY: the index is less than the number of devices, and the result pointer is valid. Bits 16 to 31 of the
        // address may be set.
        unsafe { (functions.address_of)(*device, &mut address) == 0 && address & 0xffff_ffff_0000_ffff == wanted }
    };
    let device = (0..count).find(is_there).ok_or_else(|| format!("it is not one of the library's {count} devices"))?;
    Ok(Box::new(SmiMeter { functions, device, name: name(pci) }))
}

/// Converts an address such as `0000:3b:00.0` to the library's format: the domain is in the upper 32 bits; bus,
/// device and function are in the lower 32 bits.
fn number_of(pci: &str) -> Option<u64> {
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let (rest, function) = pci.rsplit_once('.')?;
    let [domain, bus, device] = rest.split(':').collect::<Vec<_>>().try_into().ok()?;
    Some(hexadecimal(domain)? << 32 | hexadecimal(bus)? << 8 | hexadecimal(device)? << 3 | hexadecimal(function)?)
}

impl EnergyMeter for SmiMeter {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn joules(&mut self) -> Result<f64, MeterError> {
        let (mut counter, mut microjoules, mut timestamp) = (0, 0.0, 0);
        // SAFETY: the index is that of an existing device, and the result pointers are valid.
        let code = unsafe { (self.functions.energy_of)(self.device, &mut counter, &mut microjoules, &mut timestamp) };
        let read = check("rsmi_dev_energy_count_get", code);
        read.map_err(|problem| MeterError { meter: self.name(), problem })?;
        Ok(counter as f64 * f64::from(microjoules) / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn init(_: u64) -> c_uint {
        0
    }

    unsafe extern "C" fn count(devices: *mut u32) -> c_uint {
        // SAFETY: the caller passes a valid pointer.
        unsafe { *devices = 2 }
        0
    }

    unsafe extern "C" fn address_of(device: u32, address: *mut u64) -> c_uint {
        // SAFETY: the caller passes a valid pointer.
        unsafe { *address = (0x3b + u64::from(device)) << 8 }
        0
    }

    unsafe extern "C" fn energy_of(device: u32, counter: *mut u64, microjoules: *mut f32, _: *mut u64) -> c_uint {
        // SAFETY: the caller passes valid pointers.
        unsafe { (*counter, *microjoules) = (1_000_000 * u64::from(device), 15.5) }
        0
    }

    static STAND_IN: Functions = Functions { init, count, address_of, energy_of };

    #[test]
    fn counter_is_found_by_address_and_counts_in_its_unit() {
        let mut meter = meter_by(&STAND_IN, "0000:3c:00.0").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((meter.name().as_str(), meter.joules()), ("ROCm SMI 0000:3c:00.0", Ok(15.5)));
        let error = meter_by(&STAND_IN, "0000:99:00.0").err().unwrap_or_default();
        assert!(error.contains("not one of the library's 2 devices"), "{error}");
        assert_eq!(number_of("0001:3b:1f.2"), Some(0x1_0000_3bfa));
        assert_eq!(number_of("3b:00.0"), None);
    }
}

//! What CUDA and HIP say before any of their devices is open: one call each.

use super::compiler::Compiler;
use super::error::ApiError;
use crate::device::Accelerator;
use crate::device::discovered::Discovered;
use crate::device::survey::DeviceFacts;
use crate::energy::{EnergyMeter, MeterError};
use crate::error::DeviceError;
use crate::machine::UnitKind;
use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

/// What an interface says before any of its devices is open.
///
/// But for [`Self::load`] and [`Self::version`], all is asked of a library that is loaded; numbers are below
/// [`Self::count`].
pub(in crate::device) trait Platform: Send + Sync + Sized + 'static {
    /// What people call the interface.
    const NAME: &'static str;
    /// What answers: its driver or its runtime.
    const LAYER: &'static str;
    /// The kind of unit that its devices are, besides [`UnitKind::Gpu`].
    const KIND: UnitKind;
    /// How the names of its architectures begin.
    const ARCHITECTURES: &'static str;

    /// Its compiler.
    type Compiler: Compiler;

    /// Opens the library, once.
    ///
    /// # Errors
    /// Why it can't be used.
    fn load() -> Result<(), &'static str>;
    /// The newest release that the library is for: `12.4`.
    fn version() -> String;
    /// What was found, once it was looked for.
    fn found() -> &'static OnceLock<Result<Vec<Found>, String>>;
    /// A code, in words.
    fn describe(code: i32) -> String;

    /// A refused call as an error of a device.
    fn error(refusal: ApiError, device: &str) -> DeviceError {
        let (ApiError { call, code }, device, what) = (refusal, device.to_owned(), Self::describe(refusal.code));
        if refusal.is_loss() {
            return DeviceError::Lost { device, what: format!("{call}: {} error {code}: {what}", Self::NAME) };
        }
        DeviceError::Call { device, call, api: Self::NAME, code, what }
    }

    /// How many devices there are.
    fn count() -> Result<c_int, ApiError>;
    /// Writes a device's name, and a zero behind it.
    fn name_of(number: c_int, name: &mut [c_char]) -> Result<(), ApiError>;
    /// As its compiler calls it.
    fn architecture_of(number: c_int) -> Result<String, ApiError>;
    /// All of its memory.
    fn bytes_of(number: c_int) -> Result<usize, ApiError>;
    /// How many multiprocessors it has.
    fn processors_of(number: c_int) -> Result<c_int, ApiError>;
    /// Writes its address on the PCI bus, and a zero behind it.
    fn pci_of(number: c_int, address: &mut [c_char]) -> Result<(), ApiError>;
    /// The meter of the device at this address.
    ///
    /// # Errors
    /// If it has none, or none that can be read.
    fn meter(pci: &str) -> Result<Box<dyn EnergyMeter>, MeterError> {
        Err(MeterError { meter: pci.to_owned(), problem: format!("{} has none", Self::NAME) })
    }
    /// Whether it reaches another one's memory directly.
    fn reaches(number: c_int, peer: c_int) -> Result<bool, ApiError>;
}

/// A device that is there, not yet opened.
#[derive(Debug)]
pub(in crate::device) struct Found {
    pub(super) number: c_int,
    pub(super) facts: DeviceFacts,
    pub(super) open: fn(&Self) -> Result<Box<dyn Accelerator>, DeviceError>,
    pub(super) meter: fn(&str) -> Result<Box<dyn EnergyMeter>, MeterError>,
}

impl Discovered for Found {
    fn name(&self) -> String {
        self.facts.name.clone()
    }

    fn meter(&self) -> Option<Result<Box<dyn EnergyMeter>, MeterError>> {
        self.facts.pci.as_deref().map(self.meter)
    }

    fn open(&self) -> Result<Box<dyn Accelerator>, DeviceError> {
        (self.open)(self)
    }
}

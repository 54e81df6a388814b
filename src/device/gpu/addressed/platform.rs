//! Queries of CUDA and HIP before any of their devices is open, one method each.

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

/// Queries of an interface before any of its devices is open.
///
/// All except [`Self::load`] and [`Self::version`] require that the library is loaded; device numbers are below
/// [`Self::count`].
pub(in crate::device) trait Platform: Send + Sync + Sized + 'static {
    /// The name of the interface in messages.
    const NAME: &'static str;
    /// The layer that answers: its driver or its runtime.
    const LAYER: &'static str;
    /// The kind of unit that its devices serve, in addition to [`UnitKind::Gpu`].
    const KIND: UnitKind;
    /// The prefix of its architectures' names.
    const ARCHITECTURES: &'static str;

    /// Its compiler.
    type Compiler: Compiler;

    /// Opens the library, once.
    ///
    /// # Errors
    /// Returns the reason why it can't be used.
    fn load() -> Result<(), &'static str>;
    /// Returns the newest release that the library supports, such as `12.4`.
    fn version() -> String;
    /// Returns the devices that were found, once the search is done.
    fn found() -> &'static OnceLock<Result<Vec<Found>, String>>;
    /// Returns the text for a code.
    fn describe(code: i32) -> String;

    /// Converts a refused call into an error of a device.
    fn error(refusal: ApiError, device: &str) -> DeviceError {
        let (ApiError { call, code }, device, what) = (refusal, device.to_owned(), Self::describe(refusal.code));
        if refusal.is_loss() {
            return DeviceError::Lost { device, what: format!("{call}: {} error {code}: {what}", Self::NAME) };
        }
        DeviceError::Call { device, call, api: Self::NAME, code, what }
    }

    /// Returns the number of devices.
    fn count() -> Result<c_int, ApiError>;
    /// Writes a device's name, followed by a zero.
    fn name_of(number: c_int, name: &mut [c_char]) -> Result<(), ApiError>;
    /// Returns the architecture, by its compiler's name for it.
    fn architecture_of(number: c_int) -> Result<String, ApiError>;
    /// Returns the size of its memory.
    fn bytes_of(number: c_int) -> Result<usize, ApiError>;
    /// Returns the number of its multiprocessors.
    fn processors_of(number: c_int) -> Result<c_int, ApiError>;
    /// Writes its address on the PCI bus, followed by a zero.
    fn pci_of(number: c_int, address: &mut [c_char]) -> Result<(), ApiError>;
    /// Returns the meter of the device at this address.
    ///
    /// # Errors
    /// If it has none, or none that can be read.
    fn meter(pci: &str) -> Result<Box<dyn EnergyMeter>, MeterError> {
        Err(MeterError { meter: pci.to_owned(), problem: format!("{} has none", Self::NAME) })
    }
    /// Returns whether it reaches another one's memory directly.
    fn reaches(number: c_int, peer: c_int) -> Result<bool, ApiError>;
}

/// A device that was found, not yet opened.
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

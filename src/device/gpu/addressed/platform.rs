//! Queries that CUDA and HIP answer before any device is open, one method per query.

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

/// Queries that an interface answers before any of its devices is open.
///
/// All queries except [`Self::load`] and [`Self::version`] require that the library is loaded. Device indices must be
/// less than [`Self::count`].
pub(in crate::device) trait Platform: Send + Sync + Sized + 'static {
    /// The name of the interface in messages.
    const NAME: &'static str;
    /// The layer that answers the queries: the interface's driver or its runtime.
    const LAYER: &'static str;
    /// The kind of unit that the interface's devices serve, in addition to [`UnitKind::Gpu`].
    const KIND: UnitKind;
    /// The prefix of the names of the interface's architectures.
    const ARCHITECTURES: &'static str;
    /// The environment variable from which the interface takes the number of hardware queues of each device, and the
    /// number without the variable.
    const QUEUES: (&'static str, usize);

    /// The interface's compiler.
    type Compiler: Compiler;

    /// Opens the library on the first call.
    ///
    /// # Errors
    /// Returns the reason why the library cannot be used.
    fn load() -> Result<(), &'static str>;
    /// Returns the newest release that the library supports, such as `12.4`.
    fn version() -> String;
    /// Returns the storage for the result of the device search.
    fn found() -> &'static OnceLock<Result<Vec<Found>, String>>;
    /// Returns a description of an error code.
    fn describe(code: i32) -> String;

    /// Converts a failed call into a device error.
    fn error(refusal: ApiError, device: &str) -> DeviceError {
        let (ApiError { call, code }, device, what) = (refusal, device.to_owned(), Self::describe(refusal.code));
        if refusal.is_loss() {
            return DeviceError::Lost { device, what: format!("{call}: {} error {code}: {what}", Self::NAME) };
        }
        DeviceError::Call { device, call, api: Self::NAME, code, what }
    }

    /// Returns the number of devices.
    fn count() -> Result<c_int, ApiError>;
    /// Writes a device's null-terminated name to `name`.
    fn name_of(number: c_int, name: &mut [c_char]) -> Result<(), ApiError>;
    /// Returns the device's architecture, as named by the interface's compiler.
    fn architecture_of(number: c_int) -> Result<String, ApiError>;
    /// Returns the size of the device's memory, in bytes.
    fn bytes_of(number: c_int) -> Result<usize, ApiError>;
    /// Returns the number of multiprocessors on the device.
    fn processors_of(number: c_int) -> Result<c_int, ApiError>;
    /// Writes the device's null-terminated address on the PCI bus to `address`.
    fn pci_of(number: c_int, address: &mut [c_char]) -> Result<(), ApiError>;
    /// Returns the energy meter of the device at this PCI address.
    ///
    /// # Errors
    /// Returns an error if the device has no meter, or if the meter cannot be read.
    fn meter(pci: &str) -> Result<Box<dyn EnergyMeter>, MeterError> {
        Err(MeterError { meter: pci.to_owned(), problem: format!("{} has none", Self::NAME) })
    }
    /// Returns whether the device can reach the memory of the device `peer` directly.
    fn reaches(number: c_int, peer: c_int) -> Result<bool, ApiError>;
}

/// A discovered device that is not open yet.
#[derive(Debug)]
pub(in crate::device) struct Found {
    pub(super) number: c_int,
    pub(super) facts: DeviceFacts,
    pub(super) open: fn(&Self, bool) -> Result<Box<dyn Accelerator>, DeviceError>,
    pub(super) meter: fn(&str) -> Result<Box<dyn EnergyMeter>, MeterError>,
}

impl Discovered for Found {
    fn name(&self) -> String {
        self.facts.name.clone()
    }

    fn meter(&self) -> Option<Result<Box<dyn EnergyMeter>, MeterError>> {
        self.facts.pci.as_deref().map(self.meter)
    }

    fn open(&self, is_timed: bool) -> Result<Box<dyn Accelerator>, DeviceError> {
        (self.open)(self, is_timed)
    }
}

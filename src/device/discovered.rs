//! Devices that an interface has found and not yet opened.

use super::Accelerator;
use crate::energy::{EnergyMeter, MeterError};
use crate::error::DeviceError;
use crate::machine::UnitKind;

/// A device that an interface has found, not yet opened.
pub(super) trait Discovered {
    /// Returns the device's name for display.
    fn name(&self) -> String;

    /// Returns whether units of this kind may use the device. Called only with kinds that are searched for on this
    /// interface.
    fn serves(&self, _kind: UnitKind) -> bool {
        true
    }

    /// Returns the device's energy meter, or the reason why it cannot be read; `None` if devices of this sort have no
    /// meter.
    fn meter(&self) -> Option<Result<Box<dyn EnergyMeter>, MeterError>> {
        None
    }

    /// Opens the device. If `is_timed`, it reports when it begins and ends tasks and copies.
    ///
    /// # Errors
    /// Returns an error if the device cannot be used.
    fn open(&self, is_timed: bool) -> Result<Box<dyn Accelerator>, DeviceError>;
}

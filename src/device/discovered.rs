//! Devices that an interface has found, before they are opened.

use super::Accelerator;
use crate::energy::{EnergyMeter, MeterError};
use crate::error::DeviceError;
use crate::machine::UnitKind;

/// A device that an interface has found, not yet opened.
pub(super) trait Discovered {
    /// Returns its name for display.
    fn name(&self) -> String;

    /// Returns whether units of this kind may have it. `kind` is one that is searched for on this interface.
    fn serves(&self, _kind: UnitKind) -> bool {
        true
    }

    /// Returns its energy meter, or why it cannot be read; `None` if devices of this sort have none.
    fn meter(&self) -> Option<Result<Box<dyn EnergyMeter>, MeterError>> {
        None
    }

    /// Opens it.
    ///
    /// # Errors
    /// If it cannot be used.
    fn open(&self) -> Result<Box<dyn Accelerator>, DeviceError>;
}

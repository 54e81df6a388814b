//! Energy consumption, computed from the units' power or read from the machine's energy meters.
//!
//! *Static* energy is the energy that a machine uses while nothing runs. *Dynamic* energy is the energy that a program
//! adds, and the part that work distribution can influence (Farrelly et al. 2024, §VI-D). If the power of units is
//! known, from a machine file or from the user, dynamic energy is computed from the busy times of the units, task by
//! task. Meters measure the whole consumption of a processor, a device or the machine, regardless of which program
//! causes it.
//!
//! This module makes no decisions, and a missing meter never causes a failure: an unknown value is `None`, and is
//! logged once.

mod account;
mod file;
mod find;
#[cfg(feature = "profile")]
mod measure;
mod rapl;

pub(crate) use account::{Account, Metered};
pub use file::FileMeter;
pub use find::{Meters, meters};
#[cfg(feature = "profile")]
pub(crate) use measure::measure_energy;
use rapl::RaplMeter;

use crate::ids::UnitId;
use crate::machine::ComputeUnit;

/// Power of one core or one device.
///
/// ```
/// use thalweg::energy::Power;
/// use thalweg::prelude::*;
/// let power = Power { idle_w: 1.0, busy_w: 4.0 };
/// let rt = Runtime::builder().compute_units("1:CPU:2,1:EMU:1").power(UnitKind::Cpu, power).build()?;
/// rt.task("t", ()).cpu(|_, ()| ()).submit()?;
/// rt.wait()?;
/// let energy = &rt.statistics().energy;
/// assert_eq!(energy.len(), 1, "of the emulated device nothing is known");
/// assert_eq!(energy[0].units, [UnitId(0)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Power {
    /// Power in watts while the core or device is idle.
    pub idle_w: f64,
    /// Power in watts while the core or device is busy.
    pub busy_w: f64,
}

impl Power {
    /// Returns the power in watts that load adds.
    pub(crate) fn dynamic_w(self) -> f64 {
        self.busy_w - self.idle_w
    }

    pub(crate) fn is_sane(self) -> bool {
        self.idle_w >= 0.0 && self.busy_w >= self.idle_w && self.busy_w.is_finite()
    }

    /// Returns the total power of all cores or devices of a unit.
    pub(crate) fn of_unit(self, unit: &ComputeUnit) -> Self {
        let parts = if unit.is_cpu() { unit.inner_cores() } else { unit.devices.len() } as f64;
        Self { idle_w: self.idle_w * parts, busy_w: self.busy_w * parts }
    }
}

/// A meter that counts joules.
///
/// ```
/// use thalweg::energy::{EnergyMeter, MeterError};
///
/// /// A meter that a person reads off a display.
/// struct Display(f64);
///
/// impl EnergyMeter for Display {
///     fn name(&self) -> String {
///         "display".to_owned()
///     }
///     fn joules(&mut self) -> Result<f64, MeterError> {
///         self.0 += 5.0;
///         Ok(self.0)
///     }
/// }
///
/// let mut meter = Display(100.0);
/// assert_eq!(meter.joules()?, 105.0);
/// # Ok::<(), MeterError>(())
/// ```
pub trait EnergyMeter: Send {
    /// Returns the meter's name, for reports.
    fn name(&self) -> String;

    /// Returns the energy in joules used since a fixed moment in the past, which is the same for all readings.
    ///
    /// # Errors
    /// Fails if the meter cannot be read. The runtime does not read the meter again after a failure, and treats the
    /// energy that it measures as unknown.
    fn joules(&mut self) -> Result<f64, MeterError>;

    /// Returns whether the meter measures the energy of this unit. Always false for a meter of the whole machine.
    fn covers(&self, _unit: &ComputeUnit) -> bool {
        false
    }
}

/// A device's meter. It measures the whole unit only if the unit has no other devices.
pub(crate) struct OfUnit {
    pub(crate) meter: Box<dyn EnergyMeter>,
    pub(crate) unit: UnitId,
}

impl EnergyMeter for OfUnit {
    fn name(&self) -> String {
        self.meter.name()
    }

    fn joules(&mut self) -> Result<f64, MeterError> {
        self.meter.joules()
    }

    fn covers(&self, unit: &ComputeUnit) -> bool {
        unit.id == self.unit
    }
}

/// Error of a meter that could not be read.
///
/// ```
/// use thalweg::energy::{EnergyMeter, FileMeter};
/// let error = FileMeter::new("no/such/file").joules().unwrap_err();
/// assert!(error.to_string().starts_with("cannot read the energy meter no/such/file: "));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the energy meter {meter}: {problem}")]
pub struct MeterError {
    /// Name of the meter.
    pub meter: String,
    /// Reason why the meter could not be read.
    pub problem: String,
}

/// Energy that some units, or the rest of the machine, have used since the runtime was built.
///
/// ```
/// # use thalweg::prelude::*;
/// let machine: SimulatedMachine = r#"
///     name = "one core"
///     static_w = 100
///     [units.CPU]
///     count = 1
///     bytes_per_s = 1e9
///     busy_w = 20
///     [[tasks]]
///     name = "t"
///     time_ns = { CPU = { 1 = 500_000_000 } }
/// "#.parse()?;
/// let rt = Runtime::builder().simulate(machine).build()?;
/// rt.task("t", ()).cpu(|_, ()| ()).submit()?;
/// rt.wait()?;
/// let [unit, rest] = &rt.statistics().energy[..] else { unreachable!() };
/// assert_eq!((unit.units.as_slice(), unit.dynamic_j), (&[UnitId(0)][..], Some(10.0)));
/// assert_eq!((rest.units.is_empty(), rest.total_j), (true, Some(50.0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct EnergyStatistics {
    /// Source of the figures: a meter's name, or `power` if they are computed from times.
    pub source: String,
    /// The units that the figures cover; empty for the rest of the machine or for the whole machine.
    pub units: Vec<UnitId>,
    /// Total energy in joules; `None` if unknown.
    pub total_j: Option<f64>,
    /// Energy in joules beyond what the units use while nothing runs; `None` if unknown.
    pub dynamic_j: Option<f64>,
}

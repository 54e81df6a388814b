//! Measurement of the energy of a section of a program.

use super::{EnergyMeter, MeterError};
use std::time::{Duration, Instant};

/// Duration and energy of a run between two meter readings.
///
/// ```
/// use std::time::Duration;
/// use thalweg::energy::Measured;
/// let measured = Measured::new(Duration::from_secs(2), 500.0, 146.0);
/// assert_eq!((measured.total_j, measured.dynamic_j), (500.0, 208.0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Measured {
    /// Duration of the run.
    pub elapsed: Duration,
    /// Total energy in joules.
    pub total_j: f64,
    /// Energy in joules beyond what the machine would have used while idle.
    pub dynamic_j: f64,
}

impl Measured {
    /// Computes the dynamic energy from the total energy and the machine's static power in watts.
    pub fn new(elapsed: Duration, total_j: f64, static_w: f64) -> Self {
        Self { elapsed, total_j, dynamic_j: total_j - static_w * elapsed.as_secs_f64() }
    }
}

/// Runs `f` between two meter readings. `static_w` is the power in watts that the meter shows while nothing runs.
///
/// Even if the meter cannot be read, `f` runs and its result is returned.
///
/// ```
/// use thalweg::energy::{FileMeter, measure_energy};
/// let (sum, energy) = measure_energy(&mut FileMeter::new("no/such/file"), 146.0, || (1..=10).sum::<i32>());
/// assert_eq!(sum, 55);
/// assert!(energy.is_err(), "the run goes on, and its energy is unknown");
/// ```
pub fn measure_energy<R>(
    meter: &mut (impl EnergyMeter + ?Sized),
    static_w: f64,
    f: impl FnOnce() -> R,
) -> (R, Result<Measured, MeterError>) {
    let before = meter.joules();
    let start = Instant::now();
    let result = f();
    let elapsed = start.elapsed();
    let energy = before.and_then(|before| Ok(Measured::new(elapsed, meter.joules()? - before, static_w)));
    (result, energy)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A meter that counts 7 J per reading and fails after a limited number of readings.
    struct Counts(u32, u32);

    impl EnergyMeter for Counts {
        fn name(&self) -> String {
            "counts".to_owned()
        }
        fn joules(&mut self) -> Result<f64, MeterError> {
            self.0 += 1;
            let problem = "stopped".to_owned();
            if self.0 <= self.1 { Ok(f64::from(self.0) * 7.0) } else { Err(MeterError { meter: self.name(), problem }) }
        }
    }

    #[test]
    fn failing_meter_does_not_affect_the_result() {
        let (result, energy) = measure_energy(&mut Counts(0, 2), 0.0, || 3);
        assert_eq!((result, energy.unwrap().dynamic_j), (3, 7.0));
        let (result, energy) = measure_energy(&mut Counts(0, 1), 0.0, || 4);
        assert_eq!(result, 4);
        assert_eq!(energy.unwrap_err().to_string(), "cannot read the energy meter counts: stopped");
    }
}

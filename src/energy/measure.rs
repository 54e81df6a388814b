//! Measurement of the energy of a section of a program.

use super::{EnergyMeter, MeterError};
use std::time::Instant;

/// Runs `f` between two meter readings. Returns the energy in joules beyond what the machine would have used while
/// idle; `static_w` is the power in watts that the meter shows then.
///
/// Even if the meter cannot be read, `f` runs and its result is returned.
pub(crate) fn measure_energy<R>(
    meter: &mut (impl EnergyMeter + ?Sized),
    static_w: f64,
    f: impl FnOnce() -> R,
) -> (R, Result<f64, MeterError>) {
    let before = meter.joules();
    let start = Instant::now();
    let result = f();
    let idle_j = static_w * start.elapsed().as_secs_f64();
    let dynamic_j = before.and_then(|before| Ok(meter.joules()? - before - idle_j));
    (result, dynamic_j)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

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
    fn static_energy_is_subtracted() {
        let (_, energy) = measure_energy(&mut Counts(0, 2), 1000.0, || std::thread::sleep(Duration::from_millis(1)));
        assert!(energy.unwrap() <= 6.0);
    }

    #[test]
    fn failing_meter_does_not_affect_the_result() {
        let (result, energy) = measure_energy(&mut Counts(0, 2), 0.0, || 3);
        assert_eq!((result, energy.unwrap()), (3, 7.0));
        let (result, energy) = measure_energy(&mut Counts(0, 1), 0.0, || 4);
        assert_eq!(result, 4);
        assert_eq!(energy.unwrap_err().to_string(), "cannot read the energy meter counts: stopped");
    }
}

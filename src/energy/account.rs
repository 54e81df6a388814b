//! A runtime's energy information: the power of its units, and its meters.
//!
//! Meters may be user code, so they are read while no lock is held. While one thread reads the meters, other threads
//! get the previous readings.

use super::{EnergyMeter, EnergyStatistics, Power};
use crate::ids::UnitId;
use crate::machine::Machine;
use parking_lot::Mutex;
use std::time::Duration;

/// Energy account of a runtime; see the module documentation.
pub(crate) struct Account {
    /// Power of each unit, including all of its cores or devices; `None` if unknown.
    powers: Vec<Option<Power>>,
    /// Constant power in watts of the rest of the machine; `None` if unknown.
    rest_w: Option<f64>,
    meters: Mutex<Option<Vec<Metered>>>,
    last_read: Mutex<Vec<EnergyStatistics>>,
}

/// A meter together with the data needed to interpret its readings.
pub(crate) struct Metered {
    meter: Box<dyn EnergyMeter>,
    static_w: Option<f64>,
    units: Vec<UnitId>,
    /// Reading at the time the runtime was built; `None` if the meter has failed since.
    start: Option<f64>,
}

impl Metered {
    /// Starts measuring now. `static_w` is the power that the meter shows while nothing runs, if it is known.
    pub(crate) fn new(mut meter: Box<dyn EnergyMeter>, static_w: Option<f64>, machine: &Machine) -> Self {
        let units = machine.units().iter().filter(|unit| meter.covers(unit)).map(|unit| unit.id).collect();
        let start = reading(&mut *meter);
        Self { meter, static_w, units, start }
    }

    fn read(&mut self, elapsed: Duration) -> EnergyStatistics {
        let total_j = self.start.and_then(|start| Some(reading(&mut *self.meter)? - start));
        if total_j.is_none() {
            self.start = None; // the meter is not read again
        }
        let dynamic_j = total_j.zip(self.static_w).map(|(total, static_w)| total - static_w * elapsed.as_secs_f64());
        EnergyStatistics { source: self.meter.name(), units: self.units.clone(), total_j, dynamic_j }
    }
}

fn reading(meter: &mut dyn EnergyMeter) -> Option<f64> {
    meter.joules().inspect_err(|error| log!(warn, "{error}; its energy is unknown from now on")).ok()
}

impl Account {
    pub(crate) fn new(powers: Vec<Option<Power>>, rest_w: Option<f64>, meters: Vec<Metered>) -> Self {
        Self { powers, rest_w, meters: Mutex::new(Some(meters)), last_read: Mutex::default() }
    }

    /// Returns the energy used so far: the energy of units whose power is known, the energy of the rest of a simulated
    /// machine, and the energy measured by meters.
    pub(crate) fn statistics(&self, elapsed: Duration, busy: &[(UnitId, Duration)]) -> Vec<EnergyStatistics> {
        let seconds = elapsed.as_secs_f64();
        let mut all: Vec<EnergyStatistics> = Vec::new();
        for (unit, power) in self.powers.iter().enumerate() {
            let Some(power) = power else { continue };
            let busy = busy.get(unit).map(|(_, busy)| busy.as_secs_f64());
            let dynamic_j = busy.map(|busy| power.dynamic_w() * busy);
            let total_j = dynamic_j.map(|dynamic| power.idle_w * seconds + dynamic);
            all.push(EnergyStatistics {
                source: "power".to_owned(),
                units: vec![UnitId(unit as u16)],
                total_j,
                dynamic_j,
            });
        }
        if let Some(rest_w) = self.rest_w {
            let (source, total_j) = ("power".to_owned(), Some(rest_w * seconds));
            all.push(EnergyStatistics { source, units: Vec::new(), total_j, dynamic_j: Some(0.0) });
        }
        all.extend(self.read_meters(elapsed));
        all
    }

    fn read_meters(&self, elapsed: Duration) -> Vec<EnergyStatistics> {
        let taken = self.meters.lock().take();
        let Some(mut meters) = taken else { return self.last_read.lock().clone() };
        let read: Vec<EnergyStatistics> = meters.iter_mut().map(|meter| meter.read(elapsed)).collect();
        self.last_read.lock().clone_from(&read);
        *self.meters.lock() = Some(meters);
        read
    }
}

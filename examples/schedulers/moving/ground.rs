//! Changes of a machine during a run: units that become slower or faster, and noise.

use thalweg::SimulatedMachine;
use toml::{Table, Value};

use crate::common::Result;

/// Standard deviation of a task's time, as a fraction of its mean, unless the noise is the subject.
const DEVIATION: f64 = 0.02;

/// From a time on, the speed of the cores or GPUs, or of one of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Change {
    pub(super) at_ns: f64,
    pub(super) gpu: bool,
    /// The number of the unit among those of its kind; `None` for all of them.
    pub(super) unit: Option<usize>,
    pub(super) speed: f64,
}

/// The changes, with times from the start of the part that is measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ground {
    pub(super) name: &'static str,
    /// In the order of their times.
    pub(super) changes: Vec<Change>,
    pub(super) deviation: f64,
}

impl Ground {
    /// Returns all grounds, for a program that takes about `steady_ns` if nothing changes.
    pub(super) fn all(steady_ns: f64) -> Vec<Self> {
        let gpu = |part: f64, speed| Change { at_ns: part * steady_ns, gpu: true, unit: Some(0), speed };
        let cores = |part: f64, speed| Change { at_ns: part * steady_ns, gpu: false, unit: None, speed };
        let turns = (0..20).map(|turn| gpu(f64::from(turn) / 10.0, if turn % 2 == 0 { 0.25 } else { 1.0 }));
        let ground = |name, changes| Self { name, changes, deviation: DEVIATION };
        vec![
            ground("steady", Vec::new()),
            ground("a GPU slows down", vec![gpu(0.3, 0.25)]),
            ground("a GPU speeds up", vec![gpu(0.0, 0.25), gpu(0.3, 1.0)]),
            ground("a GPU alternates", turns.collect()),
            ground("cores slow down", vec![cores(0.3, 0.5)]),
            Self { deviation: 0.3, ..ground("noise of 30 %", Vec::new()) },
        ]
    }

    /// Returns when a unit ends work that takes `work_ns` at full speed.
    pub(super) fn end_ns(&self, (gpu, unit): (bool, usize), start: f64, work_ns: f64) -> f64 {
        let (mut now, mut speed, mut left) = (start, 1.0, work_ns);
        let affects = |change: &&Change| change.gpu == gpu && change.unit.is_none_or(|only| only == unit);
        for change in self.changes.iter().filter(affects) {
            let until = (change.at_ns - now).max(0.0);
            if left <= until * speed {
                break;
            }
            left -= until * speed;
            (now, speed) = (now + until, change.speed);
        }
        now + left / speed
    }

    /// Returns the machine of a file on which the changes are counted from `start_ns` on; without it, nothing changes.
    pub(super) fn machine(&self, file: &Table, start_ns: Option<f64>, seed: u64) -> Result<SimulatedMachine> {
        let table = |change: &Change, start_ns: f64| {
            let kind = if change.gpu { "GPU" } else { "CPU" };
            let mut table = Table::from_iter([
                ("at_ns".to_owned(), Value::Float((start_ns + change.at_ns).round())),
                ("kind".to_owned(), Value::String(kind.to_owned())),
                ("speed".to_owned(), Value::Float(change.speed)),
            ]);
            table.extend(change.unit.map(|unit| ("unit".to_owned(), Value::Integer(unit as i64))));
            Value::Table(table)
        };
        let mut file = file.clone();
        if let Some(start_ns) = start_ns {
            let speeds = self.changes.iter().map(|change| table(change, start_ns)).collect();
            file.insert("speeds".to_owned(), Value::Array(speeds));
        }
        let machine: SimulatedMachine = toml::to_string(&file)?.parse()?;
        Ok(machine.with_noise(seed, self.deviation))
    }
}

#[cfg(test)]
impl Ground {
    /// Returns the work that a unit can do until a time, as its time at full speed.
    pub(super) fn work_ns(&self, unit: (bool, usize), until: f64) -> f64 {
        let (mut low, mut high) = (0.0, until);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if self.end_ns(unit, 0.0, middle) <= until { low = middle } else { high = middle }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_divided_among_the_speeds_that_it_meets() {
        let ground = Ground::all(100.0).remove(2);
        assert_eq!(ground.name, "a GPU speeds up");
        assert_eq!(ground.end_ns((true, 0), 0.0, 5.0), 20.0, "at a quarter");
        assert_eq!(ground.end_ns((true, 0), 10.0, 15.0), 40.0, "5 until 30, then 10");
        assert_eq!(ground.end_ns((true, 0), 50.0, 15.0), 65.0, "at full speed");
        assert_eq!(ground.end_ns((true, 1), 10.0, 15.0), 25.0, "another GPU");
        assert_eq!(ground.end_ns((false, 0), 10.0, 15.0), 25.0, "a core");
    }
}

//! A program with time steps on moving ground: independent zones, whose work can change from step to step.

use thalweg::prelude::*;
use thalweg::task::IterationSpace;
use thalweg::{Builder, Runtime};
use toml::Table;

use super::ground::Ground;
use super::recorder::Recorder;
use super::{APART, ORACLE, SEEDS, Took};
use crate::common::Result;
use crate::rivals::list::Schedule;
use crate::rivals::planned::Planned;
use crate::suite::SCHEDULERS;

const ZONES: usize = 96;
const ZONE_BYTES: usize = 100_000;
/// Number of steps in which a scheduler can settle, and of steps that count.
const SEARCH: usize = 40;
const COUNTED: usize = 40;
const CPUS: usize = 14;
const GPUS: usize = 2;
/// Time of a zone on a core and on a GPU.
const TIMES_NS: [f64; 2] = [1_000_000.0, 100_000.0];

const MACHINE: &str = r#"
name = "sixteen cores and two GPUs"
[units.CPU]
count = 16
bytes_per_s = 4e9
[units.GPU]
count = 2
bytes_per_s = 100e9
[[links]]
between = ["host", "GPU"]
latency_ns = 2_000
bytes_per_s = 10e9
[[tasks]]
name = "solve"
cost = 1
time_ns = { CPU = { 1 = 1_000_000 }, GPU = { 1 = 100_000 } }
"#;

/// A program, by the work of its zones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Program {
    /// The same in all zones and steps.
    Equal,
    /// Twelve zones have six times the work, from the first step that counts on: the next two zones in each step.
    HotSpot,
}

impl Program {
    pub(super) const ALL: [Self; 2] = [Self::Equal, Self::HotSpot];

    /// Returns the work of a zone in a step.
    fn cost(self, step: usize, zone: usize) -> f64 {
        let begins = 2 * step.saturating_sub(SEARCH);
        let is_hot = self == Self::HotSpot && step >= SEARCH && (zone + ZONES - begins % ZONES) % ZONES < 12;
        if is_hot { 6.0 } else { 1.0 }
    }

    /// Runs the cases whose names contain `only`.
    pub(super) fn run(self, only: &str) -> Result<Vec<Took>> {
        let file: Table = MACHINE.parse()?;
        let rate = CPUS as f64 / TIMES_NS[0] + GPUS as f64 / TIMES_NS[1];
        let steady_ns = (COUNTED * ZONES) as f64 / rate;
        let mut rows = Vec::new();
        for ground in Ground::all(steady_ns) {
            let name = match self {
                Self::Equal => format!("zones, {}", ground.name),
                Self::HotSpot if ground.changes.is_empty() && ground.deviation < 0.1 => {
                    "zones, a hot spot moves".into()
                }
                Self::HotSpot => continue,
            };
            if !name.contains(only) {
                continue;
            }
            for seed in 0..SEEDS {
                let oracle = self.oracle(&ground, &file, seed)?;
                let planned = |builder: Builder| builder.policy(Planned::new("planned", &oracle, CPUS + GPUS));
                let mut times = vec![(ORACLE, self.time_ns(&ground, &file, seed, planned)?)];
                for scheduler in SCHEDULERS {
                    times
                        .push((scheduler, self.time_ns(&ground, &file, seed, |builder| builder.scheduler(scheduler))?));
                }
                rows.extend(Took::over_shortest("steps", &name, seed, &times));
            }
        }
        Ok(rows)
    }

    /// Runs the steps in this range.
    fn steps(
        self,
        rt: &Runtime,
        data: &[Data<u8>],
        space: &IterationSpace,
        steps: std::ops::Range<usize>,
    ) -> Result<()> {
        for step in steps {
            space.begin();
            for (zone, data) in data.iter().enumerate() {
                let task = rt.task("solve", data.inout()).cost(self.cost(step, zone));
                task.cpu(|_, _| ()).at(space, zone).submit()?;
            }
            rt.wait()?;
        }
        Ok(())
    }

    /// Returns the time of the steps that count.
    fn time_ns(self, ground: &Ground, file: &Table, seed: u64, with: impl Fn(Builder) -> Builder) -> Result<f64> {
        let run = |start_ns| -> Result<[f64; 2]> {
            let units = format!("{CPUS}:CPU:1,{GPUS}:GPU:1");
            let machine = ground.machine(file, start_ns, seed)?;
            let rt = with(Runtime::builder().compute_units(units).simulate(machine)).build()?;
            let data: Vec<Data<u8>> = (0..ZONES).map(|_| rt.zeros(ZONE_BYTES)).collect();
            let space = IterationSpace::new("zones", vec![1.0; ZONES]);
            self.steps(&rt, &data, &space, 0..SEARCH)?;
            let start = rt.now().as_nanos() as f64;
            self.steps(&rt, &data, &space, SEARCH..SEARCH + COUNTED)?;
            Ok([start, rt.now().as_nanos() as f64])
        };
        let [start, end] = run(None)?;
        if ground.changes.is_empty() {
            return Ok(end - start);
        }
        let [again, end] = run(Some(start))?;
        assert_eq!(start, again, "nothing changes before the steps that count");
        Ok(end - start)
    }

    /// Returns the schedule of all steps: in each, the longest zones first, each where it truly ends first.
    fn oracle(self, ground: &Ground, file: &Table, seed: u64) -> Result<Schedule> {
        let recorder = Recorder::default();
        let recorded = recorder.took.clone();
        let machine = ground.machine(file, None, seed)?;
        let rt = Runtime::builder().compute_units("1:GPU:1").simulate(machine).policy(recorder).build()?;
        let data: Vec<Data<u8>> = (0..ZONES).map(|_| rt.zeros(ZONE_BYTES)).collect();
        let space = IterationSpace::new("zones", vec![1.0; ZONES]);
        self.steps(&rt, &data, &space, 0..SEARCH + COUNTED)?;
        let took = recorded.lock().map_err(|error| error.to_string())?;
        let mut schedule = vec![(0, 0.0, 0.0); took.len()];
        // The steps before those that count are in the far past.
        let mut now = -APART;
        for (step, took) in took.chunks(ZONES).enumerate() {
            now = if step == SEARCH { 0.0 } else { now };
            let mut order: Vec<usize> = (0..ZONES).collect();
            order.sort_by(|one, other| took[*other].total_cmp(&took[*one]).then(one.cmp(other)));
            let mut free = [now; CPUS + GPUS];
            for zone in order {
                let work = took[zone] / TIMES_NS[1];
                let end = |unit: usize| match unit.checked_sub(CPUS) {
                    None => ground.end_ns((false, unit), free[unit], work * TIMES_NS[0]),
                    Some(gpu) => ground.end_ns((true, gpu), free[unit], work * TIMES_NS[1]),
                };
                let ends = (0..free.len()).map(|unit| (end(unit), unit));
                let (end, unit) = ends.min_by(|one, other| one.0.total_cmp(&other.0)).unwrap_or_default();
                schedule[step * ZONES + zone] = (unit, free[unit], end);
                free[unit] = end;
            }
            now = free.into_iter().fold(now, f64::max);
        }
        Ok(schedule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_is_close_to_the_work_over_the_speeds_that_it_meets() {
        let file: Table = MACHINE.parse().unwrap();
        for ground in Ground::all(100e6) {
            let oracle = Program::Equal.oracle(&ground, &file, 0).unwrap();
            let planned = |builder: Builder| builder.policy(Planned::new("planned", &oracle, CPUS + GPUS));
            let took = Program::Equal.time_ns(&ground, &file, 0, planned).unwrap();
            // The work that all units can do in this time.
            let kinds = (0..CPUS).map(|unit| (false, unit)).chain((0..GPUS).map(|unit| (true, unit)));
            let done: f64 = kinds.map(|unit| ground.work_ns(unit, took) / TIMES_NS[usize::from(unit.0)]).sum();
            let zones = (COUNTED * ZONES) as f64;
            assert!(0.98 * zones < done && done < 1.25 * zones, "{}: {done} of {zones}", ground.name);
        }
    }
}

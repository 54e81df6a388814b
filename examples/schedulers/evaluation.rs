//! One run of one benchmark under one scheduler, and what it measured.

use std::time::Duration;

use npb::mz::{Benchmark, Class, Fuse, Norms, Periods, Program, Settings, Verdict};
use serde::Serialize;
use thalweg::{EmulatedDevice, Runtime, SimulatedMachine};

use crate::common::Result;
use crate::configurations::Configuration;

/// Steps at the end of a run that count: by then distributions have found their answer.
const COUNTED: usize = 8;

/// Where the runs take place.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// On a machine of a file.
    Simulated(SimulatedMachine),
    /// On this machine: CPU units, and emulated devices of this speed.
    Real { speed: f64 },
}

/// The mean periods of a step.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Measured {
    /// Seconds.
    pub(crate) computation: f64,
    /// Seconds.
    pub(crate) communication: f64,
}

impl Measured {
    /// Both periods.
    pub(crate) fn overall(self) -> f64 {
        self.computation + self.communication
    }

    fn mean(steps: &[Periods]) -> Self {
        let mean = |period: fn(&Periods) -> Duration| {
            steps.iter().map(|step| period(step).as_secs_f64()).sum::<f64>() / steps.len() as f64
        };
        Self { computation: mean(|step| step.computation), communication: mean(|step| step.communication) }
    }
}

/// Runs so many steps of a benchmark; the last ones count. A real run's results are compared with `expected`.
///
/// # Errors
/// If the runtime has one, or the results are not those expected.
pub(crate) fn run(
    place: &Place,
    benchmark: Benchmark,
    class: Class,
    units: &str,
    scheduler: &str,
    steps: usize,
    expected: Option<&Norms>,
) -> Result<Measured> {
    let builder = Runtime::builder().compute_units(units).scheduler(scheduler).submitter_hosts_unit(true);
    let builder = match place {
        Place::Simulated(machine) => builder.simulate(machine.clone()),
        Place::Real { speed } => {
            let speed = *speed;
            builder.emulated_devices(move |_| EmulatedDevice::new().speed(speed))
        }
    };
    let rt = builder.build()?;
    let settings = Settings { steps, fuse: Fuse::Step, periods: true };
    let program = Program::new(&rt, benchmark, &benchmark.problem(class), settings);
    let (times, norms) = program.run(|| ())?;
    if let Some(&Norms { residual, error, surface }) = expected {
        let mut problem = benchmark.problem(class);
        (problem.residual, problem.error, problem.surface) = (residual, error, surface);
        let verdict = Verdict::new(&problem, &norms);
        if !verdict.verified() {
            return Err(format!("{scheduler}: the results are not those of the plain loop:\n{verdict}").into());
        }
    }
    Ok(Measured::mean(&times.periods[steps.saturating_sub(COUNTED)..]))
}

/// A configuration under a scheduler, beside what it is compared with.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) configuration: Configuration,
    pub(crate) scheduler: &'static str,
    pub(crate) measured: Measured,
    /// One core.
    pub(crate) serial: Measured,
    /// As many GPUs without CPU units, zones spread evenly; absent without GPUs.
    pub(crate) gpus_alone: Option<Measured>,
}

impl Row {
    /// Of one of the periods, over one core.
    pub(crate) fn speed_up(&self, period: Period) -> f64 {
        period.of(self.serial) / period.of(self.measured)
    }

    /// Overall, over as many GPUs alone.
    pub(crate) fn over_gpus(&self) -> Option<f64> {
        self.gpus_alone.map(|alone| alone.overall() / self.measured.overall())
    }
}

/// What of a step is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Period {
    Computation,
    Communication,
    Overall,
}

impl Period {
    fn of(self, measured: Measured) -> f64 {
        match self {
            Self::Computation => measured.computation,
            Self::Communication => measured.communication,
            Self::Overall => measured.overall(),
        }
    }
}

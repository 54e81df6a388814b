//! One run of one benchmark under one scheduler, and its measurements.
//!
//! A run continues until its scheduler has settled, that is, until no zone has changed its unit for [`COUNTED`] steps,
//! or until a limit is reached. Then [`COUNTED`] steps are measured in which zones exchange one after the other, as in
//! the article's programs, and as many again with parallel exchanges. The steps of the search count for the overall
//! time, as in the article's §5.2: a whole run consists of them, and of as many steps like the measured ones as the
//! benchmark's class has left.

use std::time::Duration;

use npb::mz::{Benchmark, Class, Exchange, Fuse, Norms, Periods, Program, Settings, Verdict};
use thalweg::{EmulatedDevice, Runtime, SimulatedMachine};

use crate::common::Result;
use crate::configurations::{Configuration, ONLINE};

/// Number of measured steps, and number of steps for which a map must stay unchanged to count as settled.
const COUNTED: usize = 5;

/// Where the runs take place.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// On the machine of a file.
    Simulated(SimulatedMachine),
    /// On this machine: CPU units, and emulated devices of this speed.
    Real { speed: f64 },
}

/// The mean periods of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    /// Seconds.
    pub(crate) computation: f64,
    /// Time of the communication period in seconds, with zones exchanging one after the other.
    pub(crate) communication: f64,
    /// Time of the communication period in seconds, with all zones exchanging in parallel.
    pub(crate) side_by_side: f64,
    /// Number of steps after which the map had settled; `None` if it never did.
    pub(crate) settled: Option<usize>,
    /// Seconds of computation per step in a whole run, which includes the search for a map.
    pub(crate) whole_run: f64,
}

impl Measured {
    /// Returns both periods together, with the exchange of the article's programs.
    pub(crate) fn step(self) -> f64 {
        self.computation + self.communication
    }

    /// Computes the means of a run whose scheduler has not settled. A whole run has `all` steps, and begins with
    /// those of the `search`.
    fn new(search: &[Periods], one_by_one: &[Periods], together: &[Periods], all: usize) -> Self {
        let sum = |steps: &[Periods], period: fn(&Periods) -> Duration| {
            steps.iter().map(|step| period(step).as_secs_f64()).sum::<f64>()
        };
        let mean = |steps: &[Periods], period| sum(steps, period) / steps.len() as f64;
        let computation = mean(&[one_by_one, together].concat(), |step| step.computation);
        let search = &search[..search.len().min(all)];
        let rest = (all - search.len()) as f64 * computation;
        Self {
            computation,
            communication: mean(one_by_one, |step| step.communication),
            side_by_side: mean(together, |step| step.communication),
            settled: None,
            whole_run: (sum(search, |step| step.computation) + rest) / all.max(1) as f64,
        }
    }
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    pub(crate) benchmark: Benchmark,
    pub(crate) class: Class,
    pub(crate) units: &'a str,
    pub(crate) scheduler: &'a str,
    /// Maximum number of steps before those that count.
    pub(crate) steps: usize,
}

/// Builds the runtime of a run.
pub(crate) fn runtime(place: &Place, Task { units, scheduler, .. }: Task<'_>) -> Result<Runtime> {
    let builder = Runtime::builder().compute_units(units).scheduler(scheduler).use_current_thread(true);
    let builder = match place {
        Place::Simulated(machine) => builder.simulate(machine.clone()),
        Place::Real { speed } => {
            let speed = *speed;
            builder.emulated_devices(move |_| EmulatedDevice::new().speed(speed))
        }
    };
    Ok(builder.build()?)
}

/// Returns the settings of a run of this many steps, whose periods are timed.
pub(crate) fn settings(steps: usize) -> Settings {
    Settings { steps, fuse: Fuse::Step, periods: true, replay: false }
}

/// Runs a benchmark and measures it. A real run executes all steps, and compares the results with `expected`.
///
/// # Errors
/// If the runtime fails, or the results are not those expected.
pub(crate) fn run(place: &Place, task: Task<'_>, expected: Option<&Norms>) -> Result<Measured> {
    let Task { benchmark, class, scheduler, steps, .. } = task;
    let rt = runtime(place, task)?;
    let settings = settings(steps);
    let program = Program::new(&rt, benchmark, &benchmark.problem(class), settings);
    program.prepare()?;
    let migrations = || rt.statistics().affinity.map_or(u64::MAX, |counts| counts.migrations);
    let (mut last, mut unchanged, mut search) = (migrations(), 0, Vec::new());
    while search.len() < steps && (unchanged < COUNTED || expected.is_some()) {
        search.extend(program.step(Exchange::Together)?);
        let now = migrations();
        unchanged = if now == last && now != u64::MAX { unchanged + 1 } else { 0 };
        last = now;
    }
    let settled = (unchanged >= COUNTED).then_some(search.len() - unchanged.min(search.len()));
    let count = |exchange| -> Result<Vec<Periods>> {
        let mut counted = Vec::new();
        for _ in 0..COUNTED {
            counted.extend(program.step(exchange)?);
        }
        Ok(counted)
    };
    let (one_by_one, together) = (count(Exchange::OneByOne)?, count(Exchange::Together)?);
    if let Some(&Norms { residual, error, surface }) = expected {
        let norms = program.norms()?;
        let mut problem = benchmark.problem(class);
        (problem.residual, problem.error, problem.surface) = (residual, error, surface);
        let verdict = Verdict::new(&problem, &norms);
        if !verdict.verified() {
            return Err(format!("{scheduler}: the results differ from the plain loop's:\n{verdict}").into());
        }
    }
    let measured = Measured::new(&search, &one_by_one, &together, benchmark.problem(class).steps);
    Ok(Measured { settled, ..measured })
}

/// Returns the total number of steps of a real run.
pub(crate) fn all_steps(steps: usize) -> usize {
    steps + 2 * COUNTED
}

/// A configuration under a scheduler, with its baselines.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) configuration: Configuration,
    pub(crate) scheduler: &'static str,
    pub(crate) measured: Measured,
    /// On one core.
    pub(crate) serial: Measured,
    /// On the same number of GPUs without CPU units, with zones spread evenly; `None` if there are no GPUs.
    pub(crate) gpus_alone: Option<Measured>,
    /// Upper bound on the speed-up of the computation period; `None` if the machine is not known.
    pub(crate) bound: Option<f64>,
}

impl Row {
    /// Combines runs, each with its bound, with their baselines; runs without a baseline are left out.
    pub(crate) fn all(runs: &[(Configuration, &'static str, Measured, Option<f64>)]) -> Vec<Self> {
        let of = |wanted: Configuration| {
            runs.iter().find(|run| run.0 == wanted && run.1 == "static").map(|(_, _, measured, _)| *measured)
        };
        let row =
            |&(configuration, scheduler, measured, bound): &(Configuration, &'static str, Measured, Option<f64>)| {
                let serial = of(Configuration::serial(configuration.benchmark))?;
                let gpus_alone = (configuration.gpus > 0).then(|| of(configuration.gpus_alone())).flatten();
                Some(Self { configuration, scheduler, measured, serial, gpus_alone, bound })
            };
        runs.iter().filter_map(row).collect()
    }

    /// Returns whether the scheduler still moved zones when its last step was measured, although it should settle.
    pub(crate) fn still_searches(&self) -> bool {
        self.measured.settled.is_none() && !ONLINE.contains(&self.scheduler)
    }

    /// Returns the seconds of a period. A computation period of a scheduler that still searches differs from step to
    /// step, so it is the mean over a whole run.
    pub(crate) fn seconds(&self, period: Period) -> f64 {
        match period {
            Period::Computation if self.still_searches() => self.measured.whole_run,
            _ => period.of(self.measured),
        }
    }

    /// Returns the speed-up of a period over one core.
    pub(crate) fn speed_up(&self, period: Period) -> f64 {
        period.of(self.serial) / self.seconds(period)
    }

    /// Returns the speed-up of a period over as many GPUs alone.
    pub(crate) fn over_gpus(&self, period: Period) -> Option<f64> {
        self.gpus_alone.map(|alone| period.of(alone) / self.seconds(period))
    }
}

/// The measured part of a step.
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
            Self::Overall => measured.whole_run + measured.communication,
        }
    }
}

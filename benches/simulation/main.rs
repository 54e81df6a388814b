//! Accuracy and speed of simulations. One program is run for real on two CPU units and two emulated devices of half the
//! speed, and simulated with a machine file that describes these units.
//!
//! `cargo bench --bench simulation` prints both times of each repetition. The task times of the simulated machine are
//! calibrated with the real run, because on a busy machine tasks take longer than requested. Everything else has to
//! agree: which unit runs which task at what time, and the copies. With `--check`, the bench fails if not even the best
//! repetition agrees to within 10 %.
//!
//! With `--speed`, it instead measures how fast simulations are: tasks and events per second under several schedulers,
//! the time that a distribution needs to decide for 10 000 indices and 72 units, and the cost of a task in a policy
//! that has 100 000 ready tasks. A task has three events (submission, start and end), a copy has two (request and
//! arrival). The best repetition counts in each row; `--only` selects rows. The goals are a million events per second
//! on one core, and a microsecond for a task in a policy.

#[path = "../../tests/common/emulated.rs"]
mod emulated;
#[path = "../harness/report.rs"]
#[allow(dead_code)] // this bench writes no JSON
mod report;

use clap::Parser;
use report::Table;
use std::borrow::Cow;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg::prelude::*;
use thalweg::sched::{
    Adjacency, Auto, BottomLevel, Certified, ClusteredGuided, Distributed, Distribution, Eft, GuidedRuntime,
    LinkEstimate, Model, Neighbour, Policy, Position, Priority, ReadyTask, Sample, Stealing, SubmittedTask, Team,
    Times, UnitView, View, Workload,
};

const UNITS: &str = "2:CPU:1,2:EMU:1";
/// Largest relative difference between the simulated time and the real one.
const ALLOWED: f64 = 0.1;

/// Compares a simulated run with a real one
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of real runs and of simulated runs
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Fail if no repetition agrees to within 10 %
    #[arg(long)]
    check: bool,
    /// Measure the speed of simulations and decisions
    #[arg(long)]
    speed: bool,
    /// Measure only schedulers whose names contain one of these, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "speed")]
    only: Vec<String>,
    /// Passed by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

/// Runs chains of tasks that sleep for a known time, on twelve data objects. Returns the wall-clock time, and the total
/// time in milliseconds that the tasks on CPU units and the tasks on devices were supposed to sleep.
fn sleepers(rt: &Runtime) -> Result<(Duration, [u64; 2]), Box<dyn std::error::Error>> {
    let asked: Arc<[AtomicU64; 2]> = Arc::default();
    let data: Vec<Data<u8>> = (0..12).map(|_| rt.zeros(2_000_000)).collect();
    let start = Instant::now();
    for round in 0..12 {
        for (i, x) in data.iter().enumerate() {
            let (ms, asked) = (4 + ((i + round) % 4) as u64, asked.clone());
            let body = move |unit: &Context, _: (&mut [u8],)| {
                std::thread::sleep(Duration::from_millis(ms));
                asked[usize::from(!unit.is_cpu())].fetch_add(ms, Ordering::Relaxed);
            };
            rt.task("sleep", (x.inout(),)).cost(ms as f64).cpu(body).submit()?;
        }
    }
    rt.wait()?;
    Ok((start.elapsed(), [0, 1].map(|kind| asked[kind].load(Ordering::Relaxed))))
}

/// Runs both, and returns the real and the simulated time.
fn both() -> Result<[Duration; 2], Box<dyn std::error::Error>> {
    let device = EmulatedDevice::new().capacity_bytes(100_000_000).speed(0.5);
    let device = device.copy_delay(Duration::from_micros(500), 2e9);
    let builder = Runtime::builder().compute_units(UNITS).scheduler("dynamic");
    let rt = builder.emulated_devices(move |_| device.clone()).build()?;
    let (real, asked) = sleepers(&rt)?;
    let busy = rt.statistics().busy;
    let ratio = |units: &[(UnitId, Duration)], asked: u64| {
        units.iter().map(|(_, busy)| busy.as_secs_f64()).sum::<f64>() * 1e3 / asked as f64
    };
    let ms_in_ns = [ratio(&busy[..2], asked[0]), ratio(&busy[2..], asked[1])].map(|ms| ms * 1e6);
    let model = emulated::machine(4, 2, "sleep", ms_in_ns);
    let rt = Runtime::builder().compute_units(UNITS).scheduler("dynamic").simulate(model).build()?;
    sleepers(&rt)?;
    Ok([real, rt.now()])
}

/// Runs zones that exchange with two neighbours and then compute, step after step. Returns tasks and events per
/// second.
fn per_second(scheduler: &str) -> Result<[f64; 2], Box<dyn std::error::Error>> {
    const ZONES: usize = 256;
    const STEPS: usize = 40;
    let machine = emulated::machine(64, 2, "step", [1e6, 1e5]);
    let rt = Runtime::builder().compute_units("16:CPU:1,2:EMU:1").scheduler(scheduler).simulate(machine).build()?;
    let data: Vec<Data<u8>> = (0..ZONES).map(|_| rt.zeros(1000)).collect();
    let zones = IterationSpace::new("zones", vec![1.0; ZONES]);
    let start = Instant::now();
    for _ in 0..STEPS {
        zones.begin();
        for zone in 0..ZONES {
            let [west, own, east] = [zone + ZONES - 1, zone, zone + 1].map(|zone| &data[zone % ZONES]);
            let faces = (west.slice(900..1000).input(), own.slice(0..100).output(), east.slice(100..200).input());
            rt.task("exchange", faces).cpu(|_, _| ()).near(&zones, zone).submit()?;
        }
        for (zone, x) in data.iter().enumerate() {
            rt.task("step", (x.inout(),)).cpu(|_, _| ()).at(&zones, zone).submit()?;
        }
    }
    rt.wait()?;
    let (seconds, tasks) = (start.elapsed().as_secs_f64(), (2 * ZONES * STEPS) as f64);
    let copies: u64 = rt.statistics().links.iter().map(|link| link.copies).sum();
    Ok([tasks, 3.0 * tasks + 2.0 * copies as f64].map(|count| count / seconds))
}

/// Returns the time of the longest decision that a distribution makes before it settles, for zones of unequal sizes.
fn longest_decision(mut distribution: impl Distribution) -> Duration {
    const INDICES: usize = 10_000;
    let team = Team { cpus: 64, devices: 8 };
    let weights: Vec<f64> = (0..INDICES).map(|at| 20f64.powf((at % 100 + at / 100) as f64 / 198.0)).collect();
    let beside = |at: usize| [at + 1, at + 100].map(|other| (other % INDICES).into()).into();
    let neighbours: Vec<Vec<Neighbour>> = (0..INDICES).map(beside).collect();
    let workload = Workload { team, weights: &weights, neighbours: Some(&neighbours) };
    let mut longest = Duration::ZERO;
    let mut times: Option<Times> = None;
    for _ in 0..200 {
        let start = Instant::now();
        let assignment = distribution.assign(&workload, times.as_ref());
        longest = longest.max(start.elapsed());
        if distribution.is_steady() {
            break;
        }
        let ns = |(weight, slot): (&f64, &usize)| 1e6 * weight / if team.is_device(*slot) { 12.0 } else { 1.0 };
        let ns = weights.iter().zip(assignment.slots()).map(ns).collect();
        times = Some(Times::of(&assignment, team.len(), ns));
    }
    longest
}

/// Number of indices of the iteration space under [`cost_per_task`].
const INDICES: u64 = 1000;

/// Returns the time that a policy spends on a task, from submission to end, while 100 000 other tasks are ready. `at`
/// says which tasks belong to an iteration space: a task's number among those, if it is one of them.
fn cost_per_task(policy: &mut dyn Policy, at: fn(u64) -> Option<u64>) -> Duration {
    const LEARNED: u64 = 20 * INDICES;
    const READY: u64 = 100_000;
    const MEASURED: u64 = 100_000;
    let unit = |id: u16| {
        let (kind, space) = if id < 64 { (UnitKind::Cpu, 0) } else { (UnitKind::Gpu, id - 63) };
        UnitView { id: UnitId(id), kind, spaces: vec![SpaceId(space)], in_flight: 0 }
    };
    let units: Vec<UnitView> = (0..72).map(unit).collect();
    let (view, on): (_, Arc<[bool]>) = (View::new(&units, &|_, _| 0), vec![true; 72].into());
    let names: Vec<Cow<'static, str>> = ["potrf", "trsm", "syrk", "gemm"].map(Cow::Borrowed).into();
    let weights: Arc<[f64]> = vec![1.0; INDICES as usize].into();
    let position = |id: u64| {
        let (space, neighbours, weights) = (0, None, weights.clone());
        at(id).map(|n| Position { space, index: (n % INDICES) as usize, instance: n / INDICES, weights, neighbours })
    };
    let arrive = |policy: &mut dyn Policy, id: u64| {
        let (name, position, id) = (&names[(id % 4) as usize], position(id), TaskId(id));
        if policy.looks_ahead() {
            let position = position.as_ref();
            policy.submitted(&SubmittedTask { bytes: 8000, position, ..SubmittedTask::new(id, name) });
        }
        let mut task = ReadyTask::new(id, name.clone(), on.clone());
        (task.bytes, task.position) = (8000, position);
        policy.ready(task, &view);
    };
    let ends = |policy: &mut dyn Policy, turn: u64| {
        let unit = UnitId((turn % 72) as u16);
        let Some(task) = policy.next(unit, &view) else { return false };
        policy.in_flight(unit, 1);
        // No two runs of a task take the same time.
        let elapsed_ns = if unit.index() < 64 { 20_000 } else { 1000 } * (90 + turn * 7919 % 21) / 100;
        let name = names[(task.0 % 4) as usize].clone();
        policy.finished(&Sample {
            task,
            name,
            bytes: 8000,
            unit,
            elapsed_ns,
            ended_ns: 0,
            energy_j: None,
            position: position(task.0),
        });
        policy.in_flight(unit, 0);
        true
    };
    // One instance after the other, so that policies learn and maps settle.
    for id in 0..LEARNED {
        arrive(policy, id);
        while (id + 1) % INDICES == 0 && (0..72).filter(|turn| ends(policy, id + turn)).count() > 0 {}
    }
    (0..READY).for_each(|id| arrive(policy, LEARNED + id));
    let start = Instant::now();
    for turn in 0..MEASURED {
        arrive(policy, LEARNED + READY + turn);
        ends(policy, turn);
    }
    start.elapsed() / MEASURED as u32
}

impl Arguments {
    /// Returns the selected rows.
    fn rows<'a, T>(&self, rows: &'a [(&'static str, T)]) -> impl Iterator<Item = &'a (&'static str, T)> {
        rows.iter().filter(|(name, _)| self.only.is_empty() || self.only.iter().any(|part| name.contains(part)))
    }

    fn speed(&self) -> Result<(), Box<dyn std::error::Error>> {
        let mut table = Table::new("scheduler", &["tasks a second", "events a second"]);
        let names = ["static", "dynamic", "clustered-guided", "certified", "eft", "stealing", "bottom-level"];
        for (name, ()) in self.rows(&names.map(|name| (name, ()))) {
            let mut best = [0f64; 2];
            for _ in 0..self.repetitions {
                best.iter_mut().zip(per_second(name)?).for_each(|(best, count)| *best = best.max(count));
            }
            table.row(name, best.map(|count| Some(format!("{count:.0}"))));
        }
        table.print("Simulation");
        let mut table = Table::new("policy", &["ns a task"]);
        let [none, all, half]: [fn(u64) -> Option<u64>; 3] =
            [|_| None, Some, |id| id.is_multiple_of(2).then_some(id / 2)];
        let policies: [(_, (fn() -> Box<dyn Policy>, _)); 6] = [
            ("bottom-level", (|| Box::new(BottomLevel::new(Model::default(), LinkEstimate::default())), none)),
            ("eft", (|| Box::new(Eft::new(Model::default(), LinkEstimate::default())), all)),
            ("auto", (|| Box::new(Auto::new(&Model::default(), LinkEstimate::default())), half)),
            ("certified", (|| Box::new(Distributed::new(Certified::default())), all)),
            ("stealing", (|| Box::new(Stealing::new(72)), none)),
            ("priority", (|| Box::new(Priority::new()), none)),
        ];
        for (name, (policy, at)) in self.rows(&policies) {
            let costs = (0..self.repetitions).map(|_| cost_per_task(&mut *policy(), *at));
            let cost = costs.min().unwrap_or_default();
            table.row(name, [Some(format!("{:.0}", cost.as_secs_f64() * 1e9))]);
        }
        table.print("A task in a policy with 100 000 ready tasks and 72 units (goal: at most 1000)");
        let mut table = Table::new("distribution", &["longest decision, ms"]);
        let decisions: [(_, fn() -> Duration); 4] = [
            ("clustered-guided", || longest_decision(ClusteredGuided::default())),
            ("guided-runtime", || longest_decision(GuidedRuntime::default())),
            ("adjacency", || longest_decision(Adjacency::default())),
            ("certified", || longest_decision(Certified::default())),
        ];
        for (name, decision) in self.rows(&decisions) {
            let decision = (0..self.repetitions).map(|_| decision()).min().unwrap_or_default();
            table.row(name, [Some(format!("{:.2}", decision.as_secs_f64() * 1e3))]);
        }
        table.print("Decisions for 10 000 indices and 72 units");
        Ok(())
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.speed {
        return match arguments.speed() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let mut table = Table::new("repetition", &["real, ms", "simulated, ms", "difference"]);
    let mut least = f64::INFINITY;
    for repetition in 1..=arguments.repetitions {
        let [real, simulated] = match both() {
            Ok(times) => times,
            Err(error) => {
                eprintln!("error: {error}");
                return ExitCode::FAILURE;
            }
        };
        let difference = simulated.as_secs_f64() / real.as_secs_f64() - 1.0;
        least = least.min(difference.abs());
        let ms = |time: Duration| Some(format!("{:.1}", time.as_secs_f64() * 1e3));
        table.row(&repetition.to_string(), [ms(real), ms(simulated), Some(format!("{:+.1} %", difference * 100.0))]);
    }
    table.print("Simulated and real");
    if arguments.check && least > ALLOWED {
        println!("no repetition agrees to {:.0} %", ALLOWED * 100.0);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

//! Common parts of BT, SP and LU: the stages that are identical in all three, and the measurement of all stages.

use std::error::Error;

use npb::mz::{
    Benchmark, Exchange, Fuse, PlainLoop, Problem, Program, Settings, Shape, Stopwatch, Zones, plain_stages,
};

use super::{Effort, Measured, Shares, Work, bt, lu, runtime, sp, timed, timed_tasks};
use crate::class::Class;
use crate::crew::Crew;

/// Bytes per point in each array, which holds five numbers per point.
pub(super) const FIELD: f64 = 40.0;

/// Returns the number of points of a zone.
pub(super) fn points(Shape { nx, ny, nz }: Shape) -> f64 {
    (nx * ny * nz) as f64
}

/// Returns the number of points that are solved for.
pub(super) fn interior(Shape { nx, ny, nz }: Shape) -> f64 {
    ((nx - 2) * (ny - 2) * (nz - 2)) as f64
}

/// Returns the work of the spatial operator. The fluxes at a point are computed once for all sums that use them.
///
/// | operations | at | for |
/// | --- | --- | --- |
/// | 16 | every point | 1/ρ, velocities, pressure, and the energy whose second difference conducts heat |
/// | 28 | interior points | the point's contribution to its own sums: 11 dissipation, 14 viscosity, 3 heat |
/// | 10 | and each direction | the same contribution to both neighbours: 3 of the flux, 3 viscosity, 4 heat |
/// | 2 · 12 | and each direction | each neighbour's own part: 1 density, 7 momenta, 3 energy, 1 their common factor |
/// | 20 + 25 | interior points | dissipation of the points two away, in x and in y and z |
/// | 25 | interior points | adding up six neighbours' parts |
/// | 10 | interior points | the forcing, and the factor |
///
/// The state is read at all points, the forcing at interior points; the result is written at interior points.
pub(super) fn residual(shape: Shape) -> Work {
    let operations = 28.0 + 3.0 * (10.0 + 2.0 * 12.0) + 20.0 + 25.0 + 25.0 + 10.0;
    let bytes = FIELD * (points(shape) + 2.0 * interior(shape));
    Work::new(16.0 * points(shape) + operations * interior(shape), bytes)
}

/// Returns the work of u ← u + r at interior points: one addition for each of five numbers; u and r are read, u is
/// written.
pub(super) fn add(shape: Shape) -> Work {
    Work::new(5.0, 3.0 * FIELD) * interior(shape)
}

/// Returns the work of the exchange: four faces without their edges, each read from a neighbour and written.
pub(super) fn exchange(Shape { nx, ny, nz }: Shape) -> Work {
    Work::new(0.0, 2.0 * FIELD * (2 * (nx - 2 + ny - 2) * (nz - 2)) as f64)
}

/// Returns the total work of a stage in all zones.
fn work(benchmark: Benchmark, stage: &str, zones: &Zones) -> Work {
    let of_zone = |shape| match benchmark {
        Benchmark::Bt => bt::work(stage, shape),
        Benchmark::Sp => sp::work(stage, shape),
        Benchmark::Lu => lu::work(stage, shape),
    };
    zones.zones().iter().map(|zone| of_zone(zone.shape())).sum()
}

/// Measures all stages of a benchmark and whole steps.
pub(crate) fn measure(
    crew: &Crew,
    benchmark: Benchmark,
    class: Class,
    effort: Effort,
) -> Result<Vec<Measured>, Box<dyn Error>> {
    let problem = benchmark.problem(class.mz());
    let mut zones = crew.run(|| {
        let mut zones = Zones::dealt(benchmark, &problem, crew.units());
        zones.begin();
        zones.in_loop().step(Fuse::Stages, 1);
        zones
    });
    let passes = crew.run(|| passes(benchmark, zones.in_loop(), effort));
    let stages = shares(crew, benchmark, &problem, Fuse::Stages, effort)?;
    let step = shares(crew, benchmark, &problem, Fuse::Whole, effort)?;
    let arrays = if benchmark == Benchmark::Lu { 4.0 } else { 3.0 };
    let resident: f64 = zones.zones().iter().map(|zone| arrays * FIELD * points(zone.shape())).sum();
    let measured = |(stage, passes)| Measured {
        program: match benchmark {
            Benchmark::Bt => "BT-MZ",
            Benchmark::Sp => "SP-MZ",
            Benchmark::Lu => "LU-MZ",
        },
        class: class.letter(),
        units: crew.units(),
        stage,
        work: work(benchmark, stage, &zones),
        resident,
        gathered: 0.0,
        passes,
        shares: if stage == "step" { step.total } else { stages.of(stage) },
    };
    Ok(passes.into_iter().map(measured).collect())
}

/// Returns the times, in seconds, of the passes of each stage over all zones and of whole steps.
fn passes(benchmark: Benchmark, mut zones: PlainLoop<'_>, effort: Effort) -> Vec<(&'static str, Vec<f64>)> {
    let stages = plain_stages(benchmark, Fuse::Stages);
    let mut seconds = vec![("exchange", Vec::new())];
    seconds.extend(stages.iter().map(|stage| (stage.name, Vec::new())));
    seconds.push(("step", Vec::new()));
    let first = timed(|| drop(zones.step(Fuse::Whole, 1)));
    for _ in 0..effort.times(effort.passes, 2.0 * first) {
        seconds[0].1.push(timed(|| zones.exchange()));
        for (stage, (_, seconds)) in stages.iter().zip(&mut seconds[1..]) {
            seconds.push(timed(|| zones.each(|zone| stage.run(zone, 1))));
        }
        zones.send();
        let last = seconds.len() - 1;
        seconds[last].1.push(timed(|| drop(zones.step(Fuse::Whole, 1))));
    }
    seconds
}

/// Unit seconds per step, for each stage and in total.
struct OfStep {
    stages: Vec<(&'static str, Shares)>,
    total: Option<Shares>,
}

impl OfStep {
    fn of(&self, stage: &str) -> Option<Shares> {
        self.stages.iter().find(|(name, _)| *name == stage).map(|(_, shares)| *shares)
    }
}

/// Measures steps in a plain loop and as tasks, interleaved, on the same arrays.
fn shares(
    crew: &Crew,
    benchmark: Benchmark,
    problem: &Problem,
    fuse: Fuse,
    effort: Effort,
) -> Result<OfStep, Box<dyn Error>> {
    let units = crew.units();
    let rt = runtime(crew)?;
    let program = Program::new(&rt, benchmark, problem, Settings { steps: 1, fuse, periods: false, replay: false });
    program.prepare()?;
    let in_loop = |steps: usize| {
        program.in_loop(units, |mut zones| {
            crew.run(|| {
                let mut plain = Stopwatch::default();
                let seconds = timed(|| (0..steps).for_each(|_| plain += &zones.step(fuse, 1)));
                (seconds, plain)
            })
        })
    };
    let (turns, steps) = effort.turns(in_loop(1)?.0);
    let mut recorded = program.record(steps)?;
    let steps = steps.next_multiple_of(recorded.steps());
    let (mut total, mut stages) = (Vec::new(), Vec::<(Stopwatch, Stopwatch)>::new());
    for _ in 0..turns {
        let (in_loop, plain) = in_loop(steps)?;
        program.log().clear();
        let as_tasks = timed_tasks(&rt, steps, |_| program.step(Exchange::Together).map(drop))?;
        stages.push((plain, program.log().stages().clone()));
        let replayed = timed_tasks(&rt, steps / recorded.steps(), |_| recorded.replay())?;
        total.push([in_loop, as_tasks, replayed].map(|seconds| seconds * units as f64 / steps as f64));
    }
    let names: Vec<&'static str> =
        stages.first().map(|(plain, _)| plain.0.keys().copied().collect()).unwrap_or_default();
    let of_stage = |name| {
        let of = |watch: &Stopwatch| watch.0.get(name).copied().unwrap_or_default() / steps as f64;
        let both: Vec<_> = stages.iter().map(|(plain, tasks)| (of(plain), of(tasks))).collect();
        (name, Shares::of(&both))
    };
    Ok(OfStep { stages: names.into_iter().map(of_stage).collect(), total: Some(Shares::with_replays(&total)) })
}

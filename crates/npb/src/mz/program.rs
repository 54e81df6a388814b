//! A run as dependent tasks.
//!
//! Every zone's arrays are data objects of the runtime, and every stage of a zone's step is a task on these arrays.
//! A zone's exchange reads the inner faces of its four neighbours and overwrites the zone's own outer faces, both
//! as regions of the zones' arrays. So the runtime lets a zone continue as soon as its own neighbours are done. As
//! long as zones stay where they are, only faces move between address spaces. There are no barriers unless
//! [`Settings::periods`] adds two per step, to time the computation period and the communication period separately
//! (González Tallada and Morancho, "Compute units in OpenMP", section 5).

use std::sync::Arc;
use std::time::Duration;

use ndarray::{ArrayView4, ArrayViewMut4};
use thalweg::prelude::*;
use thalweg::task::IterationSpace;

use crate::Result;
use crate::front::{Front, Hints, Place};
use crate::mz::batch::Batches;
use crate::mz::classes::{Benchmark, Fuse, Problem};
use crate::mz::exchange::{Side, inner_face, outer_face, receive};
use crate::mz::faces::Sent;
use crate::mz::gpu;
use crate::mz::initial::initialise;
use crate::mz::log::Log;
use crate::mz::norms::{error_norms, residual_norms, surface_integral};
use crate::mz::operator;
use crate::mz::physics::{COMPONENTS, Mesh};
use crate::mz::plain_loop::{self, PlainLoop, ZoneMut};
use crate::mz::stages::{RESIDUAL, Writes};
use crate::mz::verify::Norms;
use crate::mz::whole::Faces;
use crate::mz::zones::Neighbours;
use crate::platform::Platform;

/// A field with five components on a zone, of shape `[5, nz, ny, nx]`.
pub type Field = Data<f64, Ix4>;

/// Number of sums in a run's norms: residual, error, surface integral, side by side.
const SUMS: usize = 2 * COMPONENTS + 1;

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Number of time steps.
    pub steps: usize,
    /// How a zone's step is divided into tasks.
    pub fuse: Fuse,
    /// Whether to wait for all tasks between the two halves of a step, so that each half can be timed.
    pub periods: bool,
    /// Whether steps are recorded once and then replayed, which rules out waits within a step.
    pub replay: bool,
}

/// The order in which zones exchange their faces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exchange {
    /// Zones exchange as soon as their dependences allow, many of them at the same time.
    #[default]
    Together,
    /// Zones exchange one after the other, as in the sources (González Tallada & Morancho 2024, §2.2.3).
    OneByOne,
}

/// Times of a run, in wall-clock time or in simulated time.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Total time of all steps.
    pub total: Duration,
    /// Times of the two halves of each step; empty if they were not timed.
    pub periods: Vec<Periods>,
}

/// The two halves of a step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Periods {
    /// The time in which zones compute.
    pub computation: Duration,
    /// The time in which faces are exchanged.
    pub communication: Duration,
}

impl Times {
    /// Returns the sums over all steps; `None` if the halves of steps were not timed.
    pub fn periods(&self) -> Option<Periods> {
        (!self.periods.is_empty()).then(|| Periods {
            computation: self.periods.iter().map(|step| step.computation).sum(),
            communication: self.periods.iter().map(|step| step.communication).sum(),
        })
    }
}

/// One zone's mesh and data.
#[derive(Clone)]
pub struct Zone {
    pub(super) number: usize,
    pub(super) mesh: Mesh,
    pub u: Field,
    pub(super) forcing: Field,
    /// The right-hand side.
    pub(super) r: Field,
    /// LU's correction; `None` unless LU's sweeps are separate tasks.
    pub(super) w: Option<Field>,
}

impl Zone {
    fn fields(&self) -> impl Iterator<Item = &Field> {
        [&self.u, &self.forcing, &self.r].into_iter().chain(&self.w)
    }
}

/// Recorded steps of all zones.
pub struct RecordedSteps<'p, P: Platform = Runtime> {
    program: &'p Program<'p, P>,
    recording: Recording,
    steps: usize,
    /// With whole steps, the set of faces that the first step reads.
    from: Option<usize>,
}

impl<P: Platform> RecordedSteps<'_, P> {
    /// Returns how many steps a replay performs: an even number of whole steps, otherwise one.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Replays the steps.
    ///
    /// # Errors
    /// Returns the same errors as [`Recording::replay`].
    pub fn replay(&mut self) -> Result<()> {
        let Some(from) = self.from else { return Ok(self.recording.replay()?) };
        let sent = self.program.faces.sent().set();
        if sent != Some(from) {
            self.program.send(from)?;
        }
        self.recording.replay()?;
        *self.program.faces.sent() = Sent::Stepped(from);
        Ok(())
    }
}

/// All zones of a run, and the platform that runs it.
pub struct Program<'rt, P: Platform = Runtime> {
    pub(super) rt: &'rt P,
    pub(super) benchmark: Benchmark,
    pub(super) settings: Settings,
    /// The zones, in zone order; none if they are in batches.
    #[doc(hidden)]
    pub zones: Vec<Zone>,
    pub(super) batches: Batches,
    pub(super) faces: Faces,
    pub(super) neighbours: Vec<Neighbours>,
    pub(super) space: IterationSpace,
    pub(super) log: Arc<Log>,
}

impl<'rt, P: Platform> Program<'rt, P> {
    /// Registers the zones' data; computes nothing yet.
    pub fn new(rt: &'rt P, benchmark: Benchmark, problem: &Problem, settings: Settings) -> Self {
        let has_correction = benchmark == Benchmark::Lu && settings.fuse == Fuse::Stages;
        let (meshes, neighbours) = (problem.meshes(benchmark), problem.neighbours());
        let (meshes, batched) = match settings.fuse {
            Fuse::Batch => (Vec::new(), meshes),
            _ => (meshes, Vec::new()),
        };
        let runtime = rt.runtime();
        let batches = Batches::new(runtime, &batched, &neighbours, runtime.machine().units().len());
        let of_zone = if has_correction { 4 } else { 3 };
        let shapes = meshes.iter().flat_map(|mesh| std::iter::repeat_n(mesh.shape.array(), of_zone));
        let mut fields = runtime.zeros_together(shapes).into_iter();
        let zone = |(number, mesh): (usize, Mesh)| {
            let mut field = |name| {
                let field = fields.next().expect("a field for each shape");
                field.named(format!("{name} of zone {number}"))
            };
            let (u, forcing, r) = (field("u"), field("forcing"), field("r"));
            Zone { number, mesh, u, forcing, r, w: has_correction.then(|| field("w")) }
        };
        let zones: Vec<Zone> = meshes.into_iter().enumerate().map(zone).collect();
        let faces = Faces::new(runtime, &zones);
        zones.iter().for_each(|zone| zone.fields().for_each(|field| rt.own(field, zone.number)));
        faces.of_zones().for_each(|(zone, face)| rt.own(face, zone));
        let space = match settings.fuse {
            Fuse::Batch => IterationSpace::new("batches", batches.weights()),
            _ => {
                let (weights, exchange) = problem.zones_to_share(benchmark);
                IterationSpace::new("zones", weights).with_exchange(exchange)
            }
        };
        let log = Arc::new(Log::new(space.len()));
        Self { rt, benchmark, settings, zones, batches, faces, neighbours, space, log }
    }

    /// Runs all steps after a warm-up step, and returns their times and the norms of the result. Calls `stepped`
    /// whenever a step has been submitted.
    ///
    /// # Errors
    /// Returns an error if a task is refused or fails, or if the settings combine [`Settings::periods`] with replay
    /// or whole steps.
    pub fn run(&self, stepped: impl Fn()) -> Result<(Times, Norms)> {
        let Settings { steps, fuse, periods: waits, replay } = self.settings;
        if waits && replay {
            return Err(
                "cannot time the periods of replayed steps: a replay contains no waits; try without replay".into()
            );
        }
        if waits && fuse.is_whole() {
            return Err(
                "cannot time the periods of whole steps: the exchange is part of each; try the fusion `step`".into()
            );
        }
        self.prepare()?;
        let mut recorded = if replay { Some(self.record(steps)?) } else { None };
        let mut periods = Vec::new();
        let start = self.rt.runtime().now();
        let mut done = 0;
        while done < steps {
            let steps = match &mut recorded {
                Some(recorded) if recorded.steps() <= steps - done => {
                    recorded.replay()?;
                    recorded.steps()
                }
                _ => {
                    periods.extend(self.step(Exchange::Together)?);
                    1
                }
            };
            (0..steps).for_each(|_| stepped());
            done += steps;
        }
        self.rt.wait()?;
        let mut total = self.rt.runtime().now() - start;
        self.log.close();
        let norms = self.norms()?;
        if self.benchmark == Benchmark::Lu {
            total = self.rt.runtime().now() - start; // LU's official time includes the norms
        }
        Ok((Times { total, periods }, norms))
    }

    /// Does the work that precedes the steps: computes the forcing terms, performs a warm-up step, and sets the
    /// initial state.
    ///
    /// # Errors
    /// Returns an error if a task is refused or fails.
    pub fn prepare(&self) -> Result<()> {
        for zone in &self.zones {
            self.force(zone)?;
        }
        self.batches.all.iter().try_for_each(|batch| self.force_batch(batch))?;
        self.begin()?;
        self.step(Exchange::Together)?;
        self.begin()?;
        if self.settings.fuse.is_whole() {
            self.sent()?;
        }
        self.rt.wait()?;
        self.log.clear();
        Ok(())
    }

    /// Returns the log of the tasks, with the time per stage and the number of zones that moved.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Sets the initial state. LU carries a residual from step to step, so it also needs a residual before the
    /// first step.
    fn begin(&self) -> Result<()> {
        *self.faces.sent() = Sent::Nothing;
        for zone in &self.zones {
            let mesh = zone.mesh;
            self.rt
                .on_cores("initialise", (zone.u.output(),), Hints::default(), move |_, (u,)| initialise(&mesh, u))?;
            if self.benchmark == Benchmark::Lu {
                self.residual(self.rt, zone, RESIDUAL)?;
            }
        }
        Ok(self.batches.all.iter().try_for_each(|batch| self.begin_batch(batch))?)
    }

    fn force(&self, zone: &Zone) -> Result<()> {
        let mesh = zone.mesh;
        let accesses = (zone.forcing.inout(),);
        self.rt.on_cores("force", accesses, Hints::default(), move |_, (forcing,)| operator::force(&mesh, forcing))?;
        Ok(())
    }

    /// Submits one step of all zones: the exchange, and then every zone's own step. If the settings ask to wait for
    /// these halves ([`Settings::periods`]), returns their times.
    ///
    /// # Errors
    /// Returns an error if a task is refused or fails, or if zones are to exchange their faces one by one with
    /// whole steps.
    pub fn step(&self, exchange: Exchange) -> Result<Option<Periods>> {
        if self.settings.fuse.is_whole() {
            if exchange == Exchange::OneByOne {
                return Err("cannot exchange faces zone by zone: steps are whole; try the fusion `step`".into());
            }
            Front::begin(self.rt, &self.space);
            self.whole_step()?;
            return Ok(None);
        }
        let wait = || if self.settings.periods { self.rt.wait() } else { Ok(()) };
        Front::begin(self.rt, &self.space);
        let start = self.rt.runtime().now();
        for zone in &self.zones {
            self.exchange(self.rt, zone)?;
            if exchange == Exchange::OneByOne {
                self.rt.wait()?;
            }
        }
        wait()?;
        let exchanged = self.rt.runtime().now();
        for zone in &self.zones {
            self.advance(self.rt, zone)?;
        }
        wait()?;
        let periods = Periods { computation: self.rt.runtime().now() - exchanged, communication: exchanged - start };
        Ok(self.settings.periods.then_some(periods))
    }

    /// Records one step of all zones, or several whole steps. A replay computes the same results as
    /// [`step`](Self::step). `steps` is the number of steps of the run. No more steps than that are recorded,
    /// except that at least two whole steps are.
    ///
    /// # Errors
    /// Returns an error if a task is refused, or if the platform is more than one runtime.
    pub fn record(&self, steps: usize) -> Result<RecordedSteps<'_, P>> {
        let rt = self.rt.single().ok_or("cannot record steps of several ranks; try without replay")?;
        let (steps, from) = match self.settings.fuse {
            Fuse::Whole | Fuse::Batch => (self.whole_steps_recorded(steps), Some(self.sent()?)),
            _ => (1, None),
        };
        let recording = rt.record(|recorder| {
            if let Some(from) = from {
                return self.whole_steps(recorder, steps, from);
            }
            Front::begin(recorder, &self.space);
            self.zones.iter().try_for_each(|zone| self.exchange(recorder, zone))?;
            self.zones.iter().try_for_each(|zone| self.advance(recorder, zone))
        })?;
        Ok(RecordedSteps { program: self, recording, steps, from })
    }

    /// Runs `work` on the zones' arrays in a plain loop, distributed to `units` units as in
    /// [`Zones::dealt`](super::Zones::dealt). The loop runs inside a single task, on one unit, that accesses all
    /// arrays. It serves as the baseline that steps on the same arrays are compared with. The task runs after all
    /// previously submitted tasks.
    ///
    /// # Errors
    /// Returns an error if the task is refused or fails, or is only simulated, or if the zones are in batches.
    pub fn in_loop<R: Send>(&self, units: usize, work: impl FnOnce(PlainLoop<'_>) -> R + Send) -> Result<R> {
        if self.settings.fuse == Fuse::Batch {
            return Err("cannot run a plain loop: the zones are in batches; try the fusion `whole`".into());
        }
        let rt = self.rt.single().ok_or("cannot run a plain loop on several ranks; try a single runtime")?;
        let Self { benchmark, zones, faces, neighbours, .. } = self;
        let all_faces = faces.of_zones().map(|(_, face)| face);
        let accesses: Vec<_> =
            zones.iter().flat_map(Zone::fields).chain(all_faces).map(|field| field.inout()).collect();
        let mut result = None;
        let body = |arrays: Vec<ArrayViewMut4<'_, f64>>| {
            let mut arrays = arrays.into_iter();
            let mut next = || arrays.next().expect("the task accesses every field of every zone");
            let zone = |Zone { mesh, w, .. }: &Zone| ZoneMut {
                mesh: *mesh,
                u: next(),
                forcing: next(),
                r: next(),
                w: w.is_some().then(&mut next),
            };
            let arrays_of_zones = zones.iter().map(zone).collect();
            let mut next = || arrays.next().expect("the task accesses every face of every zone");
            let mut set = || zones.iter().map(|_| [next(), next(), next(), next()]).collect();
            let (sets, mut sent) = ([set(), set()], faces.sent());
            let faces = plain_loop::Faces { sets, sent: &mut sent };
            result = Some(work(PlainLoop::new(*benchmark, arrays_of_zones, faces, neighbours, units)));
        };
        rt.scope(|scope| scope.task("loop", accesses).host(move |_, arrays| body(arrays)).submit().map(drop))??;
        Ok(result
            .ok_or("cannot run a plain loop: the task was only simulated; try a runtime without a simulated machine")?)
    }

    /// Returns the hints for a task that runs where the zone resides, and is not itself distributed.
    pub(super) fn beside(&self, zone: &Zone) -> Hints<'_> {
        Hints { place: Some(Place::Beside(&self.space, zone.number)), ..Hints::default() }
    }

    /// Copies the neighbours' inner faces to a zone's outer faces, on the unit where the zone resides, because only
    /// the computation is distributed and measured (González-Tallada & Morancho 2023, figures 11 and 14; González
    /// Tallada & Morancho 2024, §4.4).
    fn exchange<F: Front>(&self, front: &F, zone: &Zone) -> std::result::Result<(), F::Error> {
        let Neighbours { west, east, south, north } = self.neighbours[zone.number];
        let from = |neighbour: usize, side| {
            let Zone { u, mesh, .. } = &self.zones[neighbour];
            u.block(inner_face(mesh.shape, side)).input()
        };
        let to = |side| zone.u.block(outer_face(zone.mesh.shape, side)).output();
        let [w, e, s, n] = Side::ALL;
        let accesses = (from(west, w), from(east, e), from(south, s), from(north, n), to(w), to(e), to(s), to(n));
        let (log, number) = (self.log.clone(), zone.number);
        front.task(
            "exchange",
            accesses,
            self.beside(zone),
            move |unit, (west, east, south, north, to_west, to_east, to_south, to_north)| {
                log.timed("exchange", unit, number, || {
                    receive([to_west, to_east, to_south, to_north], [west, east, south, north]);
                });
            },
            |k, (west, east, south, north, to_west, to_east, to_south, to_north)| {
                let faces = [(to_west, west), (to_east, east), (to_south, south), (to_north, north)];
                faces.into_iter().try_for_each(|(mut to, from)| gpu::copy(k, &from, &mut to))
            },
        )
    }

    /// Returns the norms of the result, summed in zone order, without performing another exchange first.
    ///
    /// # Errors
    /// Returns an error if a task is refused or fails.
    pub fn norms(&self) -> Result<Norms> {
        self.settle()?;
        let mut parts = Vec::new();
        let mut part = |zone| {
            let part = self.rt.runtime().zeros([SUMS, 1, 1, 1]).named("norms");
            self.rt.own(&part, zone);
            parts.push(part.clone());
            part
        };
        for zone in &self.zones {
            let (mesh, benchmark) = (zone.mesh, self.benchmark);
            let part = part(zone.number);
            let accesses = (zone.u.input(), zone.forcing.input(), zone.r.inout(), part.output());
            self.rt.on_cores("norms", accesses, Hints::default(), move |unit, (u, forcing, r, mut part)| {
                part.fill(0.0);
                add_norms(benchmark, &mesh, &u, &forcing, r, part, unit.inner_cores());
            })?;
        }
        self.batches.all.iter().try_for_each(|batch| self.norms_of_batch(batch, &part(batch.number)))?;
        let mut sums = [0.0; SUMS];
        for part in &parts {
            sums.iter_mut().zip(self.rt.read(part)?).for_each(|(sum, part)| *sum += part);
        }
        self.rt.wait()?;
        Ok(Norms {
            residual: std::array::from_fn(|m| sums[m]),
            error: std::array::from_fn(|m| sums[COMPONENTS + m]),
            surface: (self.benchmark == Benchmark::Lu).then_some(sums[2 * COMPONENTS]),
        })
    }
}

/// Adds the norms of a zone to `sums`, and replaces `r` by the residual.
pub(super) fn add_norms(
    benchmark: Benchmark,
    mesh: &Mesh,
    u: &ArrayView4<'_, f64>,
    forcing: &ArrayView4<'_, f64>,
    mut r: ArrayViewMut4<'_, f64>,
    mut sums: Writes<'_>,
    threads: usize,
) {
    operator::residual(mesh, u, forcing, r.view_mut(), threads);
    let surface = if benchmark == Benchmark::Lu { surface_integral(mesh, u) } else { 0.0 };
    let norms = residual_norms(mesh, &r.view(), 1.0).into_iter().chain(error_norms(mesh, u)).chain([surface]);
    sums.iter_mut().zip(norms).for_each(|(sum, norm)| *sum += norm);
}

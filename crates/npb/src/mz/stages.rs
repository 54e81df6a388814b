//! The stages of a zone's step as tasks, for each of the three benchmarks.
//!
//! [`crate::mz::bt`], [`crate::mz::sp`] and [`crate::mz::lu`] define the computations of the stages; this module
//! defines the data that they read and write.

use std::sync::Arc;

use ndarray::{ArrayView4, ArrayViewMut4};
use thalweg::Context;

use crate::front::{Front, Hints, Place};
use crate::mz::classes::{Benchmark, Fuse};
use crate::mz::log::Log;
use crate::mz::operator::{residual, scaled_residual};
use crate::mz::physics::Mesh;
use crate::mz::program::{Field, Program, Zone};
use crate::mz::serial::step;
use crate::mz::{bt, gpu, lu, sp};
use crate::platform::Platform;

pub(super) type Reads<'a> = ArrayView4<'a, f64>;
pub(super) type Writes<'a> = ArrayViewMut4<'a, f64>;
/// Computes the right-hand side from u and forcing.
type Residual = fn(&Mesh, &Reads<'_>, &Reads<'_>, Writes<'_>, usize);
/// Reads u and updates the right-hand side.
type Sweep = fn(&Mesh, &Reads<'_>, Writes<'_>, usize);
/// The result of submitting a task.
type Result<F> = std::result::Result<(), <F as Front>::Error>;
/// Adds a change to u.
type Add = fn(Writes<'_>, &Reads<'_>, usize);

/// The stages that turn the right-hand side into the change of u, each with its name and its functions for cores
/// and for accelerators.
type Sweeps<const N: usize> = [(&'static str, Sweep, gpu::Sweep); N];

const BT_SWEEPS: Sweeps<3> = [
    ("x sweep", bt::x_sweep, |mesh, k, u, r| gpu::bt::sweep(mesh, 0, k, u, r)),
    ("y sweep", bt::y_sweep, |mesh, k, u, r| gpu::bt::sweep(mesh, 1, k, u, r)),
    ("z sweep", bt::z_sweep, |mesh, k, u, r| gpu::bt::sweep(mesh, 2, k, u, r)),
];
const SP_SWEEPS: Sweeps<4> = [
    ("txinvr", sp::transform, |mesh, k, u, r| gpu::sp::transform(mesh, k, u, r)),
    ("x sweep", sp::x_sweep, |mesh, k, u, r| gpu::sp::sweep(mesh, 0, k, u, r)),
    ("y sweep", sp::y_sweep, |mesh, k, u, r| gpu::sp::sweep(mesh, 1, k, u, r)),
    ("z sweep", sp::z_sweep, |mesh, k, u, r| gpu::sp::sweep(mesh, 2, k, u, r)),
];

/// Stage that computes S(u) + forcing, and variant that multiplies the result by Δt.
pub(super) const RESIDUAL: (Residual, gpu::Residual) = (residual, |mesh, k, u, f, r| gpu::residual(mesh, k, u, f, r));
const SCALED_RESIDUAL: (Residual, gpu::Residual) =
    (scaled_residual, |mesh, k, u, f, r| gpu::scaled_residual(mesh, k, u, f, r));

/// For every stage, the name of its task and its share of a step's operations. The name includes the benchmark,
/// because the same stage is different work in each benchmark. NPB counts operations of whole steps only, so the
/// shares are derived from the time that each stage takes on one core in class A.
static STAGES: [(Benchmark, &str, &str, f64); 23] = [
    (Benchmark::Bt, "step", "bt step", 1.0),
    (Benchmark::Bt, "planes", "bt planes", 0.61),
    (Benchmark::Bt, "rows", "bt rows", 0.39),
    (Benchmark::Bt, "residual", "bt residual", 0.24),
    (Benchmark::Bt, "x sweep", "bt x sweep", 0.18),
    (Benchmark::Bt, "y sweep", "bt y sweep", 0.19),
    (Benchmark::Bt, "z sweep", "bt z sweep", 0.3),
    (Benchmark::Bt, "add", "bt add", 0.09),
    (Benchmark::Sp, "step", "sp step", 1.0),
    (Benchmark::Sp, "planes", "sp planes", 0.58),
    (Benchmark::Sp, "rows", "sp rows", 0.42),
    (Benchmark::Sp, "residual", "sp residual", 0.34),
    (Benchmark::Sp, "txinvr", "sp txinvr", 0.02),
    (Benchmark::Sp, "x sweep", "sp x sweep", 0.12),
    (Benchmark::Sp, "y sweep", "sp y sweep", 0.1),
    (Benchmark::Sp, "z sweep", "sp z sweep", 0.38),
    (Benchmark::Sp, "add", "sp add", 0.04),
    (Benchmark::Lu, "step", "lu step", 1.0),
    (Benchmark::Lu, "relax", "lu relax", 0.72),
    (Benchmark::Lu, "forward", "lu forward", 0.26),
    (Benchmark::Lu, "backward", "lu backward", 0.43),
    (Benchmark::Lu, "add", "lu add", 0.03),
    (Benchmark::Lu, "residual", "lu residual", 0.28),
];

/// Returns the name of a stage's task, and the number of the stage's operations in a zone, in millions.
pub fn described(benchmark: Benchmark, stage: &str, mesh: &Mesh) -> (&'static str, f64) {
    let of_stage = |(of, name, ..): &&(Benchmark, &str, &str, f64)| (*of, *name) == (benchmark, stage);
    let (.., name, share) = STAGES.iter().find(of_stage).expect("every stage is in the table");
    (name, share * benchmark.operations(mesh.shape))
}

/// A stage of a zone, as seen by the body of its task.
pub(super) struct Stage {
    pub(super) name: &'static str,
    pub(super) zone: usize,
    pub(super) mesh: Mesh,
    pub(super) log: Arc<Log>,
}

impl Stage {
    /// Does the stage's work on the unit's own cores.
    pub(super) fn run(&self, unit: &Context, work: impl FnOnce(&Mesh, usize)) {
        self.log.timed(self.name, unit, self.zone, || work(&self.mesh, unit.inner_cores()));
    }
}

/// Returns the step of a benchmark on accelerators.
pub(super) fn gpu_step(benchmark: Benchmark) -> gpu::Step {
    match benchmark {
        Benchmark::Bt => gpu::bt::step,
        Benchmark::Sp => gpu::sp::step,
        Benchmark::Lu => gpu::lu::step,
    }
}

impl<P: Platform> Program<'_, P> {
    /// Submits, or records, a zone's step after the exchange.
    pub(super) fn advance<F: Front>(&self, front: &F, zone: &Zone) -> Result<F> {
        match (self.benchmark, self.settings.fuse) {
            (_, Fuse::Whole | Fuse::Batch) => unreachable!("a whole step contains its exchange"),
            (_, Fuse::Step) => self.rest(front, zone),
            (Benchmark::Bt, Fuse::Stages) => self.factored(front, zone, &BT_SWEEPS, bt::add),
            (Benchmark::Sp, Fuse::Stages) => self.factored(front, zone, &SP_SWEEPS, sp::add),
            (Benchmark::Lu, Fuse::Stages) => self.lu_stages(front, zone),
            (_, Fuse::Planes) => self.nested(front, zone),
        }
    }

    /// Returns a stage of a zone, with the name and hints of its task.
    pub(super) fn stage(&self, zone: &Zone, name: &'static str) -> (Stage, &'static str, Hints<'_>) {
        let (title, cost) = described(self.benchmark, name, &zone.mesh);
        let hints = Hints { cost: Some(cost), place: Some(Place::At(&self.space, zone.number)) };
        (Stage { name, zone: zone.number, mesh: zone.mesh, log: self.log.clone() }, title, hints)
    }

    /// Submits or records everything in a zone's step after the exchange as one task.
    fn rest<F: Front>(&self, front: &F, zone: &Zone) -> Result<F> {
        let (mesh, step, gpu_step) = (zone.mesh, step(self.benchmark), gpu_step(self.benchmark));
        let (stage, name, hints) = self.stage(zone, "step");
        front.task(
            name,
            (zone.u.inout(), zone.forcing.input(), zone.r.inout()),
            hints,
            move |unit, (u, forcing, r)| stage.run(unit, |mesh, threads| step(mesh, u, None, &forcing, r, threads)),
            move |k, (mut u, forcing, mut r)| gpu_step(&mesh, k, &mut u, &forcing, &mut r),
        )
    }

    /// Submits, or records, the stages of BT and SP: the residual, the stages that turn it into the change of u,
    /// the update.
    fn factored<F: Front>(
        &self,
        front: &F,
        zone: &Zone,
        sweeps: &[(&'static str, Sweep, gpu::Sweep)],
        add: Add,
    ) -> Result<F> {
        let mesh = zone.mesh;
        self.residual(front, zone, SCALED_RESIDUAL)?;
        for &(sweep_name, sweep, gpu_sweep) in sweeps {
            let (stage, name, hints) = self.stage(zone, sweep_name);
            front.task(
                name,
                (zone.u.input(), zone.r.inout()),
                hints,
                move |unit, (u, r)| stage.run(unit, |mesh, threads| sweep(mesh, &u, r, threads)),
                move |k, (u, mut r)| gpu_sweep(&mesh, k, &u, &mut r),
            )?;
        }
        self.add(front, zone, &zone.r, add, |mesh, k, u, r| gpu::add(mesh, k, u, r))
    }

    /// Submits, or records, the stages of LU: both sweeps, the update, and the residual that the next step begins
    /// with.
    fn lu_stages<F: Front>(&self, front: &F, zone: &Zone) -> Result<F> {
        let w = zone.w.as_ref().expect("LU in stages has a correction");
        let mesh = zone.mesh;
        let (stage, name, hints) = self.stage(zone, "forward");
        front.task(
            name,
            (zone.u.input(), zone.r.input(), w.output()),
            hints,
            move |unit, (u, r, w)| stage.run(unit, |mesh, threads| lu::forward(mesh, &u, &r, w, threads)),
            move |k, (u, r, mut w)| gpu::lu::forward(&mesh, k, &u, &r, &mut w),
        )?;
        let (stage, name, hints) = self.stage(zone, "backward");
        front.task(
            name,
            (zone.u.input(), w.inout()),
            hints,
            move |unit, (u, w)| stage.run(unit, |mesh, threads| lu::backward(mesh, &u, w, threads)),
            move |k, (u, mut w)| gpu::lu::backward(&mesh, k, &u, &mut w),
        )?;
        let add = |u: Writes<'_>, w: &Reads<'_>, threads| lu::add(w, u, threads);
        self.add(front, zone, w, add, |mesh, k, u, w| gpu::lu::add(mesh, k, u, w))?;
        self.residual(front, zone, RESIDUAL)
    }

    pub(super) fn residual<F: Front>(
        &self,
        front: &F,
        zone: &Zone,
        (residual, gpu_residual): (Residual, gpu::Residual),
    ) -> Result<F> {
        let mesh = zone.mesh;
        let (stage, name, hints) = self.stage(zone, "residual");
        front.task(
            name,
            (zone.u.input(), zone.forcing.input(), zone.r.inout()),
            hints,
            move |unit, (u, forcing, r)| stage.run(unit, |mesh, threads| residual(mesh, &u, &forcing, r, threads)),
            move |k, (u, forcing, mut r)| gpu_residual(&mesh, k, &u, &forcing, &mut r),
        )
    }

    fn add<F: Front>(&self, front: &F, zone: &Zone, change: &Field, add: Add, gpu_add: gpu::Add) -> Result<F> {
        let mesh = zone.mesh;
        let (stage, name, hints) = self.stage(zone, "add");
        front.task(
            name,
            (zone.u.inout(), change.input()),
            hints,
            move |unit, (u, change)| stage.run(unit, |_, threads| add(u, &change, threads)),
            move |k, (mut u, change)| gpu_add(&mesh, k, &mut u, &change),
        )
    }
}

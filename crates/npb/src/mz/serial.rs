//! A run as a plain loop over the zones, without the runtime.

use std::time::Instant;

use ndarray::{ArrayView4, ArrayViewMut4, s};

use super::classes::{Benchmark, Fuse, Problem};
use super::faces::Halo;
use super::operator::{residual, scaled_residual};
use super::physics::Mesh;
use super::plain::Zones;
use super::plain_loop::ZoneMut;
use super::stopwatch::Stopwatch;
use super::verify::Norms;
use super::zones::Shape;
use super::{bt, lu, sp};

/// A piece of a zone's step, as a plain function of the zone and the number of threads.
#[derive(Clone, Copy, Debug)]
pub struct PlainStage {
    /// The stage's name, as in the tasks' log.
    pub name: &'static str,
    work: fn(&mut ZoneMut<'_>, usize),
}

impl PlainStage {
    /// Does the stage's work on a zone, on `threads` threads.
    pub fn run(&self, zone: &mut ZoneMut<'_>, threads: usize) {
        (self.work)(zone, threads);
    }
}

/// A function that performs a whole step of a zone. The parameters are the mesh, u (updated), the received faces
/// unless they are in u, the forcing term, the right-hand side (updated in LU only), and the number of threads.
pub(super) type Step =
    fn(&Mesh, ArrayViewMut4<'_, f64>, Option<Halo<'_>>, &ArrayView4<'_, f64>, ArrayViewMut4<'_, f64>, usize);

/// Returns the step of a benchmark.
pub(super) fn step(benchmark: Benchmark) -> Step {
    match benchmark {
        Benchmark::Bt => |mesh, u, halo, forcing, _, threads| bt::step(mesh, u, halo, forcing, threads),
        Benchmark::Sp => |mesh, u, halo, forcing, _, threads| sp::step(mesh, u, halo, forcing, threads),
        Benchmark::Lu => lu::step,
    }
}

const fn stage(name: &'static str, work: fn(&mut ZoneMut<'_>, usize)) -> PlainStage {
    PlainStage { name, work }
}

/// Returns the pieces of a zone's step after the exchange, in order.
pub fn plain_stages(benchmark: Benchmark, fuse: Fuse) -> &'static [PlainStage] {
    use Benchmark::{Bt, Lu, Sp};
    match (benchmark, fuse) {
        (Bt, Fuse::Whole | Fuse::Batch | Fuse::Step) => {
            &const { [stage("step", |z, threads| bt::step(&z.mesh, z.u.view_mut(), None, &z.forcing.view(), threads))] }
        }
        (Bt, Fuse::Planes) => {
            &const {
                [
                    stage("planes", |z, threads| in_planes(z, bt::in_planes, threads)),
                    stage("rows", |z, threads| in_rows(z, bt::in_rows, threads)),
                ]
            }
        }
        (Bt, Fuse::Stages) => {
            &const {
                [
                    SCALED_RESIDUAL,
                    stage("x sweep", |z, threads| bt::x_sweep(&z.mesh, &z.u.view(), z.r.view_mut(), threads)),
                    stage("y sweep", |z, threads| bt::y_sweep(&z.mesh, &z.u.view(), z.r.view_mut(), threads)),
                    stage("z sweep", |z, threads| bt::z_sweep(&z.mesh, &z.u.view(), z.r.view_mut(), threads)),
                    stage("add", |z, threads| bt::add(z.u.view_mut(), &z.r.view(), threads)),
                ]
            }
        }
        (Sp, Fuse::Whole | Fuse::Batch | Fuse::Step) => {
            &const { [stage("step", |z, threads| sp::step(&z.mesh, z.u.view_mut(), None, &z.forcing.view(), threads))] }
        }
        (Sp, Fuse::Planes) => {
            &const {
                [
                    stage("planes", |z, threads| in_planes(z, sp::in_planes, threads)),
                    stage("rows", |z, threads| in_rows(z, sp::in_rows, threads)),
                ]
            }
        }
        (Sp, Fuse::Stages) => {
            &const {
                [
                    SCALED_RESIDUAL,
                    stage("txinvr", |z, threads| sp::transform(&z.mesh, &z.u.view(), z.r.view_mut(), threads)),
                    stage("x sweep", |z, threads| sp::x_sweep(&z.mesh, &z.u.view(), z.r.view_mut(), threads)),
                    stage("y sweep", |z, threads| sp::y_sweep(&z.mesh, &z.u.view(), z.r.view_mut(), threads)),
                    stage("z sweep", |z, threads| sp::z_sweep(&z.mesh, &z.u.view(), z.r.view_mut(), threads)),
                    stage("add", |z, threads| sp::add(z.u.view_mut(), &z.r.view(), threads)),
                ]
            }
        }
        (Lu, Fuse::Whole | Fuse::Batch | Fuse::Step) => {
            &const {
                [stage("step", |z, threads| {
                    lu::step(&z.mesh, z.u.view_mut(), None, &z.forcing.view(), z.r.view_mut(), threads)
                })]
            }
        }
        (Lu, Fuse::Planes) => {
            &const { [stage("relax", |z, threads| lu::relax(&z.mesh, z.u.view_mut(), &z.r.view(), threads)), RESIDUAL] }
        }
        (Lu, Fuse::Stages) => {
            &const {
                [
                    stage("forward", |z, threads| {
                        let w = z.w.as_mut().expect(HAS_CORRECTION);
                        lu::forward(&z.mesh, &z.u.view(), &z.r.view(), w.view_mut(), threads);
                    }),
                    stage("backward", |z, threads| {
                        let w = z.w.as_mut().expect(HAS_CORRECTION);
                        lu::backward(&z.mesh, &z.u.view(), w.view_mut(), threads);
                    }),
                    stage("add", |z, threads| {
                        let w = z.w.as_ref().expect(HAS_CORRECTION);
                        lu::add(&w.view(), z.u.view_mut(), threads);
                    }),
                    RESIDUAL,
                ]
            }
        }
    }
}

const HAS_CORRECTION: &str = "LU's zones have room for its correction";

const RESIDUAL: PlainStage = stage("residual", |z, threads| {
    residual(&z.mesh, &z.u.view(), &z.forcing.view(), z.r.view_mut(), threads);
});

const SCALED_RESIDUAL: PlainStage = stage("residual", |z, threads| {
    scaled_residual(&z.mesh, &z.u.view(), &z.forcing.view(), z.r.view_mut(), threads);
});

/// Runs `work`, which stays within planes, on all interior planes.
fn in_planes(ZoneMut { mesh, u, forcing, r, .. }: &mut ZoneMut<'_>, work: super::passes::InPlanes, threads: usize) {
    let interior = s![.., 1..-1, .., ..];
    let planes = 1..mesh.shape.nz - 1;
    work(mesh, planes, &(&u.view()).into(), &forcing.slice(interior), r.slice_mut(interior), threads);
}

/// Runs `work`, which stays within rows, on all interior rows.
fn in_rows(ZoneMut { mesh, u, r, .. }: &mut ZoneMut<'_>, work: super::passes::InRows, threads: usize) {
    let Shape { ny, .. } = mesh.shape;
    let (u, r) = (u.slice_mut(s![.., 1..-1, 1..-1, ..]), r.slice(s![.., 1..-1, .., ..]));
    work(mesh, 1..ny - 1, u, &r, threads);
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Wall-clock time of the steps.
    pub seconds: f64,
    /// The norms that verify the run.
    pub norms: Norms,
    /// Seconds per stage.
    pub stages: Stopwatch,
}

/// Runs `steps` steps after a warm-up step, each zone on `threads` threads, and times each piece of the steps.
pub fn run(benchmark: Benchmark, problem: &Problem, steps: usize, threads: usize, fuse: Fuse) -> Run {
    let mut zones = Zones::new(benchmark, problem);
    zones.begin();
    zones.in_loop().step(fuse, threads);
    zones.initialise();
    zones.begin();
    let mut stages = Stopwatch::default();
    let mut plain = zones.in_loop();
    let start = Instant::now();
    for _ in 0..steps {
        stages += &plain.step(fuse, threads);
    }
    let mut seconds = start.elapsed().as_secs_f64();
    let norms = zones.norms();
    if benchmark == Benchmark::Lu {
        seconds = start.elapsed().as_secs_f64(); // LU's official time includes the norms
    }
    Run { seconds, norms, stages }
}

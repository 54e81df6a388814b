//! A run as a plain loop over the zones, without the runtime: what tasks are measured against, and tested by.

use std::time::Instant;

use ndarray::{Array1, Array4, s};

use super::classes::{Benchmark, Fuse, Problem};
use super::exchange::{Side, copy, inner_face, outer_face};
use super::initial::initialise;
use super::norms::{error_norms, residual_norms, surface_integral};
use super::operator::{force, residual, scaled_residual};
use super::physics::Mesh;
use super::stopwatch::Stopwatch;
use super::verify::Norms;
use super::zones::{Neighbours, Shape};
use super::{bt, lu, sp};

/// Zeros that begin where the `number`-th array of a [`Runtime`](thalweg::Runtime) does: large ones at a cache line, each at
/// another line of its page. What tasks are measured against must not lose, or win, by how its arrays lie.
fn placed_zeros(shape: [usize; 4], number: usize) -> Array4<f64> {
    const LINE: usize = 64;
    const LINES: usize = 64;
    const LARGE_BYTES: usize = 16 * LINES * LINE;
    let len: usize = shape.iter().product();
    if len * size_of::<f64>() < LARGE_BYTES {
        return Array4::zeros(shape);
    }
    let per_line = LINE / size_of::<f64>();
    let memory = Array1::<f64>::zeros(len + LINES * per_line);
    let to_line = memory.as_ptr().addr().next_multiple_of(LINE) - memory.as_ptr().addr();
    let first = to_line / size_of::<f64>() + number * 17 % (LINES - 1) * per_line;
    let array = memory.slice_move(s![first..first + len]).into_shape_with_order(shape);
    array.expect("an interval of an array has its elements side by side")
}

/// A zone and its arrays, all of shape `[5, nz, ny, nx]`.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    /// Its mesh.
    pub(crate) mesh: Mesh,
    /// The state.
    pub(crate) u: Array4<f64>,
    /// The forcing term.
    pub(crate) forcing: Array4<f64>,
    /// The right-hand side; zero on the boundary.
    pub(crate) r: Array4<f64>,
}

/// All zones of a run.
#[derive(Clone, Debug)]
pub(crate) struct Zones {
    /// In the order of their numbers.
    pub(crate) zones: Vec<Zone>,
    neighbours: Vec<Neighbours>,
}

impl Zones {
    /// The zones of a problem in their initial state.
    pub(crate) fn new(benchmark: Benchmark, problem: &Problem) -> Self {
        let mut placed = 0;
        let zone = |mesh: Mesh| {
            let mut field = || {
                placed += 1;
                placed_zeros(mesh.shape.array(), placed - 1)
            };
            let mut zone = Zone { mesh, u: field(), forcing: field(), r: field() };
            initialise(&mesh, zone.u.view_mut());
            force(&mesh, zone.forcing.view_mut());
            zone
        };
        let zones = problem.meshes(benchmark).into_iter().map(zone).collect();
        Self { zones, neighbours: problem.neighbours() }
    }

    /// Sets the state of all zones to the initial one.
    pub(crate) fn initialise(&mut self) {
        for zone in &mut self.zones {
            initialise(&zone.mesh, zone.u.view_mut());
        }
    }

    /// Copies the outer faces of all zones from their neighbours.
    pub(crate) fn exchange(&mut self) {
        for (number, &Neighbours { west, east, south, north }) in self.neighbours.iter().enumerate() {
            let mut u = std::mem::take(&mut self.zones[number].u);
            for (side, neighbour) in Side::ALL.into_iter().zip([west, east, south, north]) {
                let Zone { mesh, u: from, .. } = &self.zones[neighbour];
                let (components, z, y, x) = inner_face(mesh.shape, side);
                let inner = from.slice(s![components, z, y, x]);
                let (components, z, y, x) = outer_face(self.zones[number].mesh.shape, side);
                copy(u.slice_mut(s![components, z, y, x]), &inner);
            }
            self.zones[number].u = u;
        }
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Wall-clock time of the steps.
    pub seconds: f64,
    /// What it is judged by.
    pub norms: Norms,
    /// Seconds per stage, if these were asked for.
    pub stages: Stopwatch,
}

/// Runs `steps` steps after one to warm up, each zone on `threads` threads; the time of each piece
/// that steps are cut into is taken.
pub fn run(benchmark: Benchmark, problem: &Problem, steps: usize, threads: usize, fuse: Fuse) -> Run {
    let mut zones = Zones::new(benchmark, problem);
    let mut stages = Stopwatch::default();
    zones.begin(benchmark);
    zones.step(benchmark, threads, fuse, &mut stages);
    zones.initialise();
    zones.begin(benchmark);
    stages = Stopwatch::default();
    let start = Instant::now();
    for _ in 0..steps {
        zones.step(benchmark, threads, fuse, &mut stages);
    }
    let mut seconds = start.elapsed().as_secs_f64();
    let norms = zones.norms(benchmark);
    if benchmark == Benchmark::Lu {
        seconds = start.elapsed().as_secs_f64(); // its clock also contains the norms
    }
    Run { seconds, norms, stages }
}

impl Zones {
    /// What comes before the first step: LU keeps a residual from step to step.
    pub(crate) fn begin(&mut self, benchmark: Benchmark) {
        if benchmark == Benchmark::Lu {
            for Zone { mesh, u, forcing, r } in &mut self.zones {
                residual(mesh, &u.view(), &forcing.view(), r.view_mut(), 1);
            }
        }
    }

    /// One step: the exchange, then every zone's own step.
    fn step(&mut self, benchmark: Benchmark, threads: usize, fuse: Fuse, watch: &mut Stopwatch) {
        watch.time("exchange", || self.exchange());
        for zone in &mut self.zones {
            match benchmark {
                Benchmark::Bt => zone.step_bt(threads, fuse, watch),
                Benchmark::Lu => zone.step_lu(threads, fuse, watch),
                Benchmark::Sp => zone.step_sp(threads, fuse, watch),
            }
        }
    }

    /// The norms after a run, summed over the zones. There is no exchange before.
    fn norms(&mut self, benchmark: Benchmark) -> Norms {
        let mut sum = Norms::default();
        for Zone { mesh, u, forcing, r } in &mut self.zones {
            let u = u.view();
            residual(mesh, &u, &forcing.view(), r.view_mut(), 1);
            sum += Norms {
                residual: residual_norms(mesh, &r.view(), 1.0),
                error: error_norms(mesh, &u),
                surface: (benchmark == Benchmark::Lu).then(|| surface_integral(mesh, &u)),
            };
        }
        sum
    }
}

impl Zone {
    /// A step of SP after the exchange.
    fn step_sp(&mut self, threads: usize, fuse: Fuse, watch: &mut Stopwatch) {
        let Self { mesh, u, forcing, r } = self;
        let forcing = &forcing.view();
        match fuse {
            Fuse::Step => watch.time("step", || sp::step(mesh, u.view_mut(), forcing, r.view_mut(), threads)),
            Fuse::Planes => {
                let interior = s![.., 1..-1, .., ..];
                let Shape { ny, nz, .. } = mesh.shape;
                let (forcing, mut r) = (&forcing.slice(interior), r.slice_mut(interior));
                watch.time("planes", || sp::in_planes(mesh, 1..nz - 1, &u.view(), forcing, r.view_mut(), threads));
                let u = u.slice_mut(s![.., 1..-1, 1..-1, ..]);
                watch.time("rows", || sp::in_rows(mesh, 1..ny - 1, u, &r.view(), threads));
            }
            Fuse::Stages => {
                watch.time("rhs", || scaled_residual(mesh, &u.view(), forcing, r.view_mut(), threads));
                watch.time("txinvr", || sp::transform(mesh, &u.view(), r.view_mut(), threads));
                watch.time("x sweep", || sp::x_sweep(mesh, &u.view(), r.view_mut(), threads));
                watch.time("y sweep", || sp::y_sweep(mesh, &u.view(), r.view_mut(), threads));
                watch.time("z sweep", || sp::z_sweep(mesh, &u.view(), r.view_mut(), threads));
                watch.time("add", || sp::add(u.view_mut(), &r.view(), threads));
            }
        }
    }

    /// A step of LU after the exchange.
    fn step_lu(&mut self, threads: usize, fuse: Fuse, watch: &mut Stopwatch) {
        let Self { mesh, u, forcing, r } = self;
        let forcing = &forcing.view();
        match fuse {
            Fuse::Step => watch.time("step", || lu::step(mesh, u.view_mut(), forcing, r.view_mut(), threads)),
            Fuse::Planes => {
                watch.time("relax", || lu::relax(mesh, u.view_mut(), &r.view(), threads));
                watch.time("residual", || residual(mesh, &u.view(), forcing, r.view_mut(), threads));
            }
            Fuse::Stages => {
                let mut w = Array4::zeros(r.raw_dim());
                watch.time("forward", || lu::forward(mesh, &u.view(), &r.view(), w.view_mut(), threads));
                watch.time("backward", || lu::backward(mesh, &u.view(), w.view_mut(), threads));
                watch.time("add", || lu::add(&w.view(), u.view_mut(), threads));
                watch.time("rhs", || residual(mesh, &u.view(), forcing, r.view_mut(), threads));
            }
        }
    }

    /// A step of BT after the exchange.
    fn step_bt(&mut self, threads: usize, fuse: Fuse, watch: &mut Stopwatch) {
        let Self { mesh, u, forcing, r } = self;
        let (mut u, forcing, mut r) = (u.view_mut(), forcing.view(), r.view_mut());
        match fuse {
            Fuse::Step => watch.time("step", || bt::step(mesh, u, &forcing, r, threads)),
            Fuse::Planes => {
                let interior = s![.., 1..-1, .., ..];
                let Shape { ny, nz, .. } = mesh.shape;
                let (forcing, mut r) = (&forcing.slice(interior), r.slice_mut(interior));
                watch.time("planes", || bt::in_planes(mesh, 1..nz - 1, &u.view(), forcing, r.view_mut(), threads));
                let u = u.slice_mut(s![.., 1..-1, 1..-1, ..]);
                watch.time("rows", || bt::in_rows(mesh, 1..ny - 1, u, &r.view(), threads));
            }
            Fuse::Stages => {
                watch.time("residual", || scaled_residual(mesh, &u.view(), &forcing, r.view_mut(), threads));
                watch.time("x sweep", || bt::x_sweep(mesh, &u.view(), r.view_mut(), threads));
                watch.time("y sweep", || bt::y_sweep(mesh, &u.view(), r.view_mut(), threads));
                watch.time("z sweep", || bt::z_sweep(mesh, &u.view(), r.view_mut(), threads));
                watch.time("add", || bt::add(u.view_mut(), &r.view(), threads));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg::prelude::*;

    /// Where arrays begin in a page is a matter of the allocator too; that they begin at lines, and spread, is ours.
    #[test]
    fn the_plain_loops_arrays_lie_as_those_of_tasks() {
        const SHAPE: [usize; 4] = [5, 13, 17, 19];
        const PAGE: usize = 4096;
        let rt = Runtime::builder().compute_units("1:CPU:1").submitter_hosts_unit(true).build().unwrap();
        let [mut of_tasks, mut of_loop] = [(); 2].map(|()| std::collections::BTreeSet::new());
        for number in 0..70 {
            let x: Data<f64, Ix4> = rt.zeros(SHAPE);
            let (tell, place) = std::sync::mpsc::channel();
            let body = move |_: &Context, (x,): (ndarray::ArrayView4<'_, f64>,)| {
                tell.send(x.as_ptr().addr() % PAGE).unwrap();
            };
            rt.task("where", (x.input(),)).cpu(body).submit().unwrap();
            rt.wait().unwrap();
            let own = placed_zeros(SHAPE, number);
            assert_eq!((own.shape(), own.sum()), (&SHAPE[..], 0.0));
            let (theirs, ours) = (place.recv().unwrap(), own.as_ptr().addr() % PAGE);
            assert!(theirs.is_multiple_of(64) && ours.is_multiple_of(64), "array {number}: {theirs} and {ours}");
            of_tasks.insert(theirs);
            of_loop.insert(ours);
        }
        assert!(of_tasks.len() > 16 && of_loop.len() > 16, "{} and {} lines", of_tasks.len(), of_loop.len());
    }
}

//! The zones of a run as plain arrays, without the runtime. Tests compare tasks with this reference.
//!
//! Each unit's thread is the first to touch its zones' arrays. The arrays are placed in memory as a runtime would
//! place them.

use ndarray::Array4;

use super::classes::{Benchmark, Problem};
use super::faces::{Sent, shapes};
use super::initial::initialise;
use super::norms::{error_norms, residual_norms, surface_integral};
use super::operator::{force, residual};
use super::physics::Mesh;
use super::placement::placed_zeros;
use super::plain_loop::{Faces, PlainLoop, ZoneMut};
use super::verify::Norms;
use super::zones::{Neighbours, Shape};

/// A zone and its arrays, all of shape `[5, nz, ny, nx]`.
#[derive(Clone, Debug)]
pub struct Zone {
    /// The zone's mesh.
    pub mesh: Mesh,
    /// The state.
    pub u: Array4<f64>,
    /// The forcing term.
    pub forcing: Array4<f64>,
    /// The right-hand side; zero on the boundary.
    pub r: Array4<f64>,
    /// LU's correction; `None` unless LU's sweeps are separate stages.
    pub(crate) w: Option<Array4<f64>>,
}

impl Zone {
    /// Returns the zone's points.
    pub fn shape(&self) -> Shape {
        self.mesh.shape
    }

    fn arrays(&mut self) -> ZoneMut<'_> {
        let Self { mesh, u, forcing, r, w } = self;
        let [u, forcing, r] = [u, forcing, r].map(|array| array.view_mut());
        ZoneMut { mesh: *mesh, u, forcing, r, w: w.as_mut().map(|array| array.view_mut()) }
    }
}

/// All zones of a run.
///
/// ```
/// use npb::mz::{Benchmark, Class, Fuse, Zones};
///
/// let mut zones = Zones::new(Benchmark::Sp, &Benchmark::Sp.problem(Class::S));
/// zones.begin();
/// for _ in 0..3 {
///     zones.in_loop().step(Fuse::Whole, 1);
/// }
/// assert!(zones.norms().residual[0] > 0.0);
/// ```
#[derive(Clone, Debug)]
pub struct Zones {
    benchmark: Benchmark,
    /// The zones, in zone order.
    pub zones: Vec<Zone>,
    /// Both sets of the faces that zones send each other.
    faces: [Vec<[Array4<f64>; 4]>; 2],
    sent: Sent,
    neighbours: Vec<Neighbours>,
    units: usize,
}

impl Zones {
    /// Creates the zones of a problem in their initial state, for one thread.
    pub fn new(benchmark: Benchmark, problem: &Problem) -> Self {
        Self::dealt(benchmark, problem, 1)
    }

    /// Creates the zones of a problem in their initial state, distributed to `units` units by size. Each unit's
    /// work is an item of a rayon parallel iterator, so call this within a pool of `units` threads.
    pub fn dealt(benchmark: Benchmark, problem: &Problem, units: usize) -> Self {
        let has_correction = benchmark == Benchmark::Lu;
        let fields = if has_correction { 4 } else { 3 };
        let zone = |(number, mesh): (usize, Mesh)| {
            let field = |field| placed_zeros(mesh.shape.array(), fields * number + field);
            Zone { mesh, u: field(0), forcing: field(1), r: field(2), w: has_correction.then(|| field(3)) }
        };
        let zones: Vec<Zone> = problem.meshes(benchmark).into_iter().enumerate().map(zone).collect();
        let faces = [(); 2].map(|()| zones.iter().map(|zone| shapes(zone.shape()).map(Array4::zeros)).collect());
        let (sent, neighbours) = (Sent::default(), problem.neighbours());
        let mut zones = Self { benchmark, zones, faces, sent, neighbours, units };
        zones.initialise();
        zones.in_loop().each(|zone| force(&zone.mesh, zone.forcing.view_mut()));
        zones
    }

    /// Returns the zones, in zone order.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// Sets the state of all zones to the initial state.
    pub fn initialise(&mut self) {
        self.in_loop().each(|zone| initialise(&zone.mesh, zone.u.view_mut()));
    }

    /// Does the work that precedes the first step: LU carries a residual from step to step, so it needs an initial
    /// one.
    pub fn begin(&mut self) {
        if self.benchmark == Benchmark::Lu {
            let first = |ZoneMut { mesh, u, forcing, r, .. }: &mut ZoneMut<'_>| {
                residual(mesh, &u.view(), &forcing.view(), r.view_mut(), 1);
            };
            self.in_loop().each(first);
        }
    }

    /// Returns a loop over all zones.
    pub fn in_loop(&mut self) -> PlainLoop<'_> {
        let Self { benchmark, zones, faces, sent, neighbours, units } = self;
        let zones = zones.iter_mut().map(Zone::arrays).collect();
        let sets = faces
            .each_mut()
            .map(|set| set.iter_mut().map(|faces| faces.each_mut().map(|face| face.view_mut())).collect());
        PlainLoop::new(*benchmark, zones, Faces { sets, sent }, neighbours, *units)
    }

    /// Returns the norms after a run, summed over the zones, without performing another exchange first.
    pub fn norms(&mut self) -> Norms {
        self.in_loop().settle();
        let mut sum = Norms::default();
        for Zone { mesh, u, forcing, r, .. } in &mut self.zones {
            let u = u.view();
            residual(mesh, &u, &forcing.view(), r.view_mut(), 1);
            sum += Norms {
                residual: residual_norms(mesh, &r.view(), 1.0),
                error: error_norms(mesh, &u),
                surface: (self.benchmark == Benchmark::Lu).then(|| surface_integral(mesh, &u)),
            };
        }
        sum
    }
}

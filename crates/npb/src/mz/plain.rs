//! The zones of a run as plain arrays, and the functions of the tasks on them, without the runtime.
//!
//! What tasks are measured against, and tested by. Zones are dealt to units once and stay there: a unit's thread touches its
//! zones' arrays first, and does all their stages. Nothing is ever taken over from a unit that is late.
//!
//! Invariant: whatever the number of units, every function is given the same numbers; so results agree to the last bit.

use ndarray::{Array4, ArrayView4, s};
use rayon::prelude::*;

use super::classes::{Benchmark, Problem};
use super::exchange::receive;
use super::initial::initialise;
use super::norms::{error_norms, residual_norms, surface_integral};
use super::operator::{force, residual};
use super::physics::Mesh;
use super::placement::placed_zeros;
use super::verify::Norms;
use super::zones::{Neighbours, Shape};

/// A zone and its arrays, all of shape `[5, nz, ny, nx]`.
#[derive(Clone, Debug)]
pub struct Zone {
    /// Its mesh.
    pub(crate) mesh: Mesh,
    /// The state.
    pub(crate) u: Array4<f64>,
    /// The forcing term.
    pub(crate) forcing: Array4<f64>,
    /// The right-hand side; zero on the boundary.
    pub(crate) r: Array4<f64>,
    /// LU's correction, once its sweeps have run as stages of their own.
    pub(crate) w: Option<Array4<f64>>,
}

impl Zone {
    /// The zone's points.
    pub fn shape(&self) -> Shape {
        self.mesh.shape
    }
}

/// All zones of a run.
///
/// ```
/// use npb::mz::{Benchmark, Class, Fuse, Zones, plain_stages};
///
/// let mut zones = Zones::new(Benchmark::Sp, &Benchmark::Sp.problem(Class::S));
/// zones.begin();
/// zones.exchange();
/// for stage in plain_stages(Benchmark::Sp, Fuse::Stages) {
///     zones.each(|zone| stage.run(zone, 1));
/// }
/// assert!(zones.norms().residual[0] > 0.0);
/// ```
#[derive(Clone, Debug)]
pub struct Zones {
    benchmark: Benchmark,
    /// In the order of their numbers.
    pub(crate) zones: Vec<Zone>,
    neighbours: Vec<Neighbours>,
    /// The zones' units.
    owners: Vec<usize>,
    units: usize,
}

impl Zones {
    /// The zones of a problem in their initial state, for one thread.
    pub fn new(benchmark: Benchmark, problem: &Problem) -> Self {
        Self::dealt(benchmark, problem, 1)
    }

    /// The zones of a problem in their initial state, dealt to `units` units by their size. Each unit's work is an item of a
    /// parallel iterator of rayon's: call from within a pool of as many threads.
    pub fn dealt(benchmark: Benchmark, problem: &Problem, units: usize) -> Self {
        let zone = |(number, mesh): (usize, Mesh)| {
            let field = |field| placed_zeros(mesh.shape.array(), 3 * number + field);
            Zone { mesh, u: field(0), forcing: field(1), r: field(2), w: None }
        };
        let meshes = problem.meshes(benchmark);
        let owners = deal(&meshes, units);
        let zones = meshes.into_iter().enumerate().map(zone).collect();
        let mut zones = Self { benchmark, zones, neighbours: problem.neighbours(), owners, units };
        zones.initialise();
        zones.each(|zone| force(&zone.mesh, zone.forcing.view_mut()));
        zones
    }

    /// Which of the three they are of.
    pub fn benchmark(&self) -> Benchmark {
        self.benchmark
    }

    /// How many units they are dealt to.
    pub fn units(&self) -> usize {
        self.units
    }

    /// The zones, in the order of their numbers.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// Sets the state of all zones to the initial one.
    pub fn initialise(&mut self) {
        self.each(|zone| initialise(&zone.mesh, zone.u.view_mut()));
    }

    /// What comes before the first step: LU keeps a residual from step to step.
    pub fn begin(&mut self) {
        if self.benchmark == Benchmark::Lu {
            self.each(|Zone { mesh, u, forcing, r, .. }| residual(mesh, &u.view(), &forcing.view(), r.view_mut(), 1));
        }
    }

    /// Does `work` on every zone, each unit on its own ones.
    pub fn each(&mut self, work: impl Fn(&mut Zone) + Sync) {
        share(&self.owners, self.units, self.zones.iter_mut(), |_, zone| work(zone));
    }

    /// Copies the outer faces of all zones from their neighbours.
    pub fn exchange(&mut self) {
        self.exchange_with(|copies| copies());
    }

    /// [`Zones::exchange`], the copies to each zone done by `each`.
    pub(crate) fn exchange_with(&mut self, each: impl Fn(&mut dyn FnMut()) + Sync) {
        let mut faces = Vec::with_capacity(self.zones.len());
        let mut interiors = Vec::with_capacity(self.zones.len());
        for Zone { u, .. } in &mut self.zones {
            let (west, east, south, north, interior) = u.multi_slice_mut((
                s![.., 1..-1, 1..-1, ..1],
                s![.., 1..-1, 1..-1, -1..],
                s![.., 1..-1, ..1, 1..-1],
                s![.., 1..-1, -1.., 1..-1],
                s![.., 1..-1, 1..-1, 1..-1],
            ));
            faces.push([west, east, south, north]);
            interiors.push(interior);
        }
        let interiors: Vec<ArrayView4<'_, f64>> = interiors.iter().map(|interior| interior.view()).collect();
        let neighbours = &self.neighbours;
        share(&self.owners, self.units, faces, |number, [to_west, to_east, to_south, to_north]| {
            let Neighbours { west, east, south, north } = neighbours[number];
            each(&mut || {
                let to = [to_west.view_mut(), to_east.view_mut(), to_south.view_mut(), to_north.view_mut()];
                let west = interiors[west].slice(s![.., .., .., -1..]);
                let east = interiors[east].slice(s![.., .., .., ..1]);
                let south = interiors[south].slice(s![.., .., -1.., ..]);
                receive(to, [west, east, south, interiors[north].slice(s![.., .., ..1, ..])]);
            });
        });
    }

    /// The norms after a run, summed over the zones. There is no exchange before.
    pub fn norms(&mut self) -> Norms {
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

/// A unit for each zone: the largest first, to the unit that has least.
fn deal(meshes: &[Mesh], units: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..meshes.len()).collect();
    order.sort_by_key(|&zone| std::cmp::Reverse(meshes[zone].shape.points()));
    let (mut points, mut owners) = (vec![0; units.max(1)], vec![0; meshes.len()]);
    for zone in order {
        let least = (0..points.len()).min_by_key(|&unit| points[unit]).unwrap_or(0);
        owners[zone] = least;
        points[least] += meshes[zone].shape.points();
    }
    owners
}

/// Does `work` on every item, each unit on its own ones, in the order of their numbers.
fn share<T: Send>(
    owners: &[usize],
    units: usize,
    items: impl IntoIterator<Item = T>,
    work: impl Fn(usize, &mut T) + Sync,
) {
    if units <= 1 {
        items.into_iter().enumerate().for_each(|(number, mut item)| work(number, &mut item));
        return;
    }
    let mut shares: Vec<Vec<(usize, T)>> = (0..units).map(|_| Vec::new()).collect();
    for (number, item) in items.into_iter().enumerate() {
        shares[owners[number]].push((number, item));
    }
    shares.into_par_iter().with_max_len(1).for_each(|share| {
        share.into_iter().for_each(|(number, mut item)| work(number, &mut item));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mz::classes::{Class, Fuse};
    use crate::mz::serial::run;

    #[test]
    fn zones_that_are_dealt_give_the_same_bits() {
        for benchmark in [Benchmark::Bt, Benchmark::Sp, Benchmark::Lu] {
            let problem = benchmark.problem(Class::S);
            let one = run(benchmark, &problem, 2, 1, Fuse::Step).norms;
            for units in [2, 3, 7] {
                let mut zones = Zones::dealt(benchmark, &problem, units);
                zones.begin();
                for _ in 0..2 {
                    zones.step(Fuse::Stages, 1);
                }
                assert_eq!(zones.norms(), one, "{benchmark:?}, {units} units");
            }
        }
    }

    #[test]
    fn units_have_about_as_many_points() {
        let meshes = Benchmark::Bt.problem(Class::W).meshes(Benchmark::Bt);
        let owners = deal(&meshes, 2);
        let points = |unit| -> usize {
            let of_unit = meshes.iter().zip(&owners).filter(|(_, owner)| **owner == unit);
            of_unit.map(|(mesh, _)| mesh.shape.points()).sum()
        };
        let (one, other) = (points(0), points(1));
        assert!(one.abs_diff(other) * 50 < one + other, "{one} and {other}");
        assert_eq!(deal(&[], 3), []);
    }
}

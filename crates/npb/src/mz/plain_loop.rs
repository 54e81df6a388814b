//! The steps of a run as a plain loop over the zones, which calls the tasks' functions without the runtime.
//!
//! The loop borrows its arrays, so that a loop and tasks can be measured on the same arrays. This is important
//! because array placement in memory affects times more than the runtime's overhead does. Zones are assigned to
//! units once and stay there; a unit never takes over work from a slower unit.
//!
//! Invariant: every function receives the same numbers for any number of units, so results agree to the last bit.

use std::sync::Mutex;
use std::time::Instant;

use ndarray::{ArrayView4, ArrayViewMut4, s};
use rayon::prelude::*;

use super::classes::{Benchmark, Fuse};
use super::exchange;
use super::faces::{Halo, Sent, receive, received, send};
use super::physics::Mesh;
use super::serial::{plain_stages, step};
use super::stopwatch::Stopwatch;
use super::zones::{Neighbours, Shape};

/// A zone and its borrowed arrays, all of shape `[5, nz, ny, nx]`.
#[derive(Debug)]
pub struct ZoneMut<'a> {
    pub(crate) mesh: Mesh,
    /// The state.
    pub(crate) u: ArrayViewMut4<'a, f64>,
    /// The forcing term.
    pub(crate) forcing: ArrayViewMut4<'a, f64>,
    /// The right-hand side; zero on the boundary.
    pub(crate) r: ArrayViewMut4<'a, f64>,
    /// LU's correction; `None` unless LU's sweeps are separate stages.
    pub(crate) w: Option<ArrayViewMut4<'a, f64>>,
}

impl ZoneMut<'_> {
    /// Returns the zone's points.
    pub fn shape(&self) -> Shape {
        self.mesh.shape
    }
}

/// The borrowed faces that zones send each other.
#[derive(Debug)]
pub(crate) struct Faces<'a> {
    /// Both sets of faces.
    pub(crate) sets: [Vec<[ArrayViewMut4<'a, f64>; 4]>; 2],
    pub(crate) sent: &'a mut Sent,
}

/// All zones of a run, for a loop over them.
///
/// ```
/// use npb::mz::{Benchmark, Class, Fuse, Zones, plain_stages};
///
/// let mut zones = Zones::new(Benchmark::Sp, &Benchmark::Sp.problem(Class::S));
/// zones.begin();
/// let mut plain = zones.in_loop();
/// plain.exchange();
/// for stage in plain_stages(Benchmark::Sp, Fuse::Stages) {
///     plain.each(|zone| stage.run(zone, 1));
/// }
/// assert!(zones.norms().residual[0] > 0.0);
/// ```
#[derive(Debug)]
pub struct PlainLoop<'a> {
    benchmark: Benchmark,
    /// The zones, in zone order.
    pub zones: Vec<ZoneMut<'a>>,
    faces: Faces<'a>,
    neighbours: &'a [Neighbours],
    /// The unit of each zone.
    pub owners: Vec<usize>,
    units: usize,
}

impl<'a> PlainLoop<'a> {
    /// Creates a loop over these zones, distributed to `units` units by size. Each unit's work is an item of a
    /// rayon parallel iterator, so use the loop within a pool of `units` threads.
    pub(crate) fn new(
        benchmark: Benchmark,
        zones: Vec<ZoneMut<'a>>,
        faces: Faces<'a>,
        neighbours: &'a [Neighbours],
        units: usize,
    ) -> Self {
        let owners = deal(&zones, units);
        Self { benchmark, zones, faces, neighbours, owners, units }
    }

    /// Calls `work` on every zone. Each unit handles its own zones.
    pub fn each(&mut self, work: impl Fn(&mut ZoneMut<'a>) + Sync) {
        self.settle();
        *self.faces.sent = Sent::Nothing;
        share(&self.owners, self.units, self.zones.iter_mut(), |_, zone| work(zone));
    }

    /// Copies the outer faces of all zones from their neighbours.
    pub fn exchange(&mut self) {
        self.exchange_with(|copies| copies());
    }

    /// Variant of [`exchange`](Self::exchange) that runs the copies to each zone through `each`.
    fn exchange_with(&mut self, each: impl Fn(&mut dyn FnMut()) + Sync) {
        if let Sent::Stepped(set) = *self.faces.sent {
            // The exchange overwrites the outer faces, so the received faces need not be copied to the arrays.
            *self.faces.sent = Sent::Set(set);
        }
        let mut faces = Vec::with_capacity(self.zones.len());
        let mut interiors = Vec::with_capacity(self.zones.len());
        for ZoneMut { u, .. } in &mut self.zones {
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
        let neighbours = self.neighbours;
        share(&self.owners, self.units, faces, |number, [to_west, to_east, to_south, to_north]| {
            let Neighbours { west, east, south, north } = neighbours[number];
            each(&mut || {
                let to = [to_west.view_mut(), to_east.view_mut(), to_south.view_mut(), to_north.view_mut()];
                let west = interiors[west].slice(s![.., .., .., -1..]);
                let east = interiors[east].slice(s![.., .., .., ..1]);
                let south = interiors[south].slice(s![.., .., -1.., ..]);
                exchange::receive(to, [west, east, south, interiors[north].slice(s![.., .., ..1, ..])]);
            });
        });
    }

    /// Performs one step: the exchange, and then every zone's own step, each on `threads` threads. With
    /// [`Fuse::Whole`], the two are combined. Returns the seconds spent in each piece, summed over all units.
    pub fn step(&mut self, fuse: Fuse, threads: usize) -> Stopwatch {
        let watch = Mutex::new(Stopwatch::default());
        let timed = |name, work: &mut dyn FnMut()| {
            let start = Instant::now();
            work();
            let time = start.elapsed();
            watch.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).add(name, time);
        };
        if fuse.is_whole() {
            let step = step(self.benchmark);
            self.whole_step(|ZoneMut { mesh, u, forcing, r, .. }, halo, send| {
                timed("step", &mut || {
                    step(mesh, u.view_mut(), Some(halo), &forcing.view(), r.view_mut(), threads);
                    send(&u.view());
                });
            });
        } else {
            self.exchange_with(|copies| timed("exchange", copies));
            let stages = plain_stages(self.benchmark, fuse);
            self.each(|zone| stages.iter().for_each(|stage| timed(stage.name, &mut || stage.run(zone, threads))));
        }
        watch.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Performs a step of every zone that uses the faces received from the zone's neighbours and sends the zone's
    /// own faces to them.
    fn whole_step(&mut self, work: impl Fn(&mut ZoneMut<'a>, Halo<'_>, &mut dyn FnMut(&ArrayView4<'_, f64>)) + Sync) {
        let from = self.sent();
        let neighbours = self.neighbours;
        let [first, second] = &mut self.faces.sets;
        let (from_set, to) = if from == 0 { (&*first, second) } else { (&*second, first) };
        share(&self.owners, self.units, self.zones.iter_mut().zip(to), |number, (zone, faces)| {
            let halo = halo(zone.shape(), &neighbours[number], from_set);
            work(zone, halo, &mut |u| send(u, faces.each_mut().map(|face| face.view_mut())));
        });
        *self.faces.sent = Sent::Stepped(1 - from);
    }

    /// Sends the faces that the next whole step is to receive, unless the previous step has already sent them.
    /// Without this call, the next whole step starts by sending them.
    pub fn send(&mut self) {
        self.sent();
    }

    /// Returns the set that holds the zones' inner faces. Sends the faces first if neither set holds them.
    fn sent(&mut self) -> usize {
        if let Some(set) = self.faces.sent.set() {
            return set;
        }
        let zones = self.zones.iter().zip(&mut self.faces.sets[0]);
        share(&self.owners, self.units, zones, |_, (zone, faces)| {
            send(&zone.u.view(), faces.each_mut().map(|face| face.view_mut()));
        });
        *self.faces.sent = Sent::Set(0);
        0
    }

    /// Copies the faces that the last step received to the zones' arrays, if that step read the faces from the face
    /// arrays.
    pub(crate) fn settle(&mut self) {
        let Sent::Stepped(set) = *self.faces.sent else { return };
        let (neighbours, received) = (self.neighbours, &self.faces.sets[1 - set]);
        share(&self.owners, self.units, &mut self.zones, |number, zone| {
            let halo = halo(zone.shape(), &neighbours[number], received);
            receive(zone.u.view_mut(), halo);
        });
        *self.faces.sent = Sent::Set(set);
    }
}

/// Selects the faces that a zone receives from a set of all zones' faces.
fn halo<'a>(shape: Shape, neighbours: &Neighbours, set: &'a [[ArrayViewMut4<'_, f64>; 4]]) -> Halo<'a> {
    Halo::new(shape, received(neighbours, set).map(|face| face.view()))
}

/// Assigns each zone to a unit. Zones are taken in order of decreasing size, and each goes to the unit with the
/// fewest points so far.
pub fn deal(zones: &[ZoneMut<'_>], units: usize) -> Vec<usize> {
    let size = |zone: usize| zones[zone].shape().points();
    let mut order: Vec<usize> = (0..zones.len()).collect();
    order.sort_by_key(|&zone| std::cmp::Reverse(size(zone)));
    let (mut points, mut owners) = (vec![0; units.max(1)], vec![0; zones.len()]);
    for zone in order {
        let least = (0..points.len()).min_by_key(|&unit| points[unit]).unwrap_or(0);
        owners[zone] = least;
        points[least] += size(zone);
    }
    owners
}

/// Calls `work` on every item. Each unit handles its own items, in order of their numbers.
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

//! Zones in batches: the whole steps of many zones as one task, for accelerators.
//!
//! A zone alone cannot occupy a GPU. With [`Fuse::Batch`](crate::mz::Fuse::Batch), there is one batch of zones for each
//! compute unit, and a step of a batch is a task that includes the exchange, as in [`whole`](crate::mz::whole). An
//! accelerator computes each stage of all zones in one launch ([`gpu::batch`]); cores take the zones one by one.
//!
//! Invariant: the zones of a batch follow each other in zone order, in the batch's arrays and in the sets of faces. So
//! a batch's arrays are data objects without gaps, and the faces that it sends are one region.

use std::mem::take;
use std::ops::Range;
use std::sync::Arc;

use ndarray::{ArrayView4, ArrayViewMut4};
use thalweg::prelude::*;

use crate::front::{Front, Hints, Place};
use crate::mz::classes::Benchmark;
use crate::mz::exchange::Side;
use crate::mz::faces::{Halo, receive, send, shapes};
use crate::mz::gpu;
use crate::mz::gpu::batch::{Batch as Launches, faces_of};
use crate::mz::initial::initialise;
use crate::mz::operator;
use crate::mz::physics::Mesh;
use crate::mz::program::{Field, Program, add_norms};
use crate::mz::serial::step;
use crate::mz::stages::described;
use crate::mz::zones::Neighbours;
use crate::platform::Platform;

type Result<F> = std::result::Result<(), <F as Front>::Error>;

/// Zones that are advanced together.
pub(super) struct Batch {
    pub(super) number: usize,
    places: Arc<[gpu::batch::Place]>,
    launches: Arc<Launches>,
    u: Data<f64>,
    forcing: Data<f64>,
    r: Data<f64>,
    /// The tables that kernels find zones in.
    zones: Data<i64>,
    groups: Data<i32>,
    /// The faces that the batch sends, in a set of faces.
    sent: Range<usize>,
}

/// All batches of a run, and both sets of their faces.
pub(super) struct Batches {
    pub(super) all: Vec<Batch>,
    sets: [Data<f64>; 2],
}

impl Batches {
    /// Registers the data of at most `count` batches of about equally many points.
    pub(super) fn new(rt: &Runtime, meshes: &[Mesh], neighbours: &[Neighbours], count: usize) -> Self {
        let mut first_faces = vec![0];
        first_faces.extend(meshes.iter().scan(0, |sum, mesh| {
            *sum += faces_of(mesh);
            Some(*sum)
        }));
        let face = |zone: usize, side: usize| {
            let before = shapes(meshes[zone].shape).into_iter().take(side);
            first_faces[zone] + before.map(|shape| shape.iter().product::<usize>()).sum::<usize>()
        };
        let batch = |(number, zones): (usize, Range<usize>)| {
            let sent = first_faces[zones.start]..first_faces[zones.end];
            let place = |zone: usize| {
                let Neighbours { west, east, south, north } = neighbours[zone];
                let received = [face(west, 0), face(east, 1), face(south, 2), face(north, 3)];
                gpu::batch::Place { mesh: meshes[zone], received, sent: first_faces[zone] - sent.start }
            };
            let places: Arc<[_]> = zones.clone().map(place).collect();
            let (launches, tables) = Launches::new(&places);
            let numbers: usize = places.iter().map(|place| 5 * place.mesh.shape.points()).sum();
            let field = |name| rt.zeros::<f64, _>(numbers).named(format!("{name} of zones {zones:?}"));
            Batch {
                number,
                launches: Arc::new(launches),
                u: field("u"),
                forcing: field("forcing"),
                r: field("r"),
                zones: rt.data(tables.zones).named(format!("table of zones {zones:?}")),
                groups: rt.data(tables.groups).named(format!("thread groups of zones {zones:?}")),
                sent,
                places,
            }
        };
        let all = divide(meshes, count).into_iter().enumerate().map(batch).collect();
        let all_faces = first_faces[meshes.len()];
        Self { all, sets: [0, 1].map(|set| rt.zeros(all_faces).named(format!("face set {set}"))) }
    }

    /// Returns the points of each batch.
    pub(super) fn weights(&self) -> Vec<f64> {
        let points = |place: &gpu::batch::Place| place.mesh.shape.points() as f64;
        self.all.iter().map(|batch| batch.places.iter().map(points).sum()).collect()
    }
}

/// Divides zones into at most `count` ranges with about equally many points.
fn divide(meshes: &[Mesh], count: usize) -> Vec<Range<usize>> {
    let points: usize = meshes.iter().map(|mesh| mesh.shape.points()).sum();
    let (mut ranges, mut start, mut sum) = (Vec::new(), 0, 0);
    for (zone, mesh) in meshes.iter().enumerate() {
        sum += mesh.shape.points();
        if sum * count >= points * (ranges.len() + 1) {
            ranges.push(start..zone + 1);
            start = zone + 1;
        }
    }
    ranges
}

/// Returns the zones' fields in an array of a batch.
fn fields<'a>(places: &'a [gpu::batch::Place], array: &'a [f64]) -> impl Iterator<Item = ArrayView4<'a, f64>> {
    let mut rest = array;
    places.iter().map(move |place| {
        let (field, after) = rest.split_at(5 * place.mesh.shape.points());
        rest = after;
        ArrayView4::from_shape(place.mesh.shape.array(), field).expect("the array has the fields of all zones")
    })
}

/// Returns the zones' fields in an array of a batch, to be written.
fn fields_mut<'a>(
    places: &'a [gpu::batch::Place],
    array: &'a mut [f64],
) -> impl Iterator<Item = (&'a gpu::batch::Place, ArrayViewMut4<'a, f64>)> {
    let mut rest = array;
    places.iter().map(move |place| {
        let (field, after) = take(&mut rest).split_at_mut(5 * place.mesh.shape.points());
        rest = after;
        let field = ArrayViewMut4::from_shape(place.mesh.shape.array(), field);
        (place, field.expect("the array has the fields of all zones"))
    })
}

/// Returns the faces that a zone receives, in a set of faces.
fn halo<'a>(place: &gpu::batch::Place, faces: &'a [f64]) -> Halo<'a> {
    let shapes = shapes(place.mesh.shape);
    let face = |side: usize| {
        let len = shapes[side].iter().product::<usize>();
        let face = &faces[place.received[side]..][..len];
        ArrayView4::from_shape(shapes[side], face).expect("a set has the faces of all zones")
    };
    Halo::new(place.mesh.shape, [0, 1, 2, 3].map(face))
}

/// Sets the faces that a zone sends, in the faces of its batch.
fn send_faces(place: &gpu::batch::Place, u: &ArrayView4<'_, f64>, faces: &mut [f64]) {
    let mut rest = &mut faces[place.sent..];
    let mut shapes = shapes(place.mesh.shape).into_iter();
    let faces = Side::ALL.map(|_| {
        let shape = shapes.next().expect("a shape for each side");
        let (face, after) = take(&mut rest).split_at_mut(shape.iter().product());
        rest = after;
        ArrayViewMut4::from_shape(shape, face).expect("a batch has the faces of its zones")
    });
    send(u, faces);
}

impl<P: Platform> Program<'_, P> {
    /// Computes the forcing terms of a batch.
    pub(super) fn force_batch(&self, batch: &Batch) -> Result<P> {
        let places = batch.places.clone();
        self.rt.on_cores("force", (batch.forcing.inout(),), Hints::default(), move |_, (forcing,)| {
            fields_mut(&places, forcing).for_each(|(place, forcing)| operator::force(&place.mesh, forcing));
        })
    }

    /// Sets the initial state of a batch, and for LU its residual.
    pub(super) fn begin_batch(&self, batch: &Batch) -> Result<P> {
        let (places, has_residual) = (batch.places.clone(), self.benchmark == Benchmark::Lu);
        let accesses = (batch.u.output(), batch.forcing.input(), batch.r.inout());
        self.rt.on_cores("initialise", accesses, Hints::default(), move |unit, (u, forcing, r)| {
            let zones = fields_mut(&places, u).zip(fields(&places, forcing)).zip(fields_mut(&places, r));
            for (((place, mut u), forcing), (_, r)) in zones {
                initialise(&place.mesh, u.view_mut());
                if has_residual {
                    operator::residual(&place.mesh, &u.view(), &forcing, r, unit.inner_cores());
                }
            }
        })
    }

    /// Submits or records a batch's step, which reads set `from` and writes the other set.
    pub(super) fn whole_batch<F: Front>(&self, front: &F, batch: &Batch, from: usize) -> Result<F> {
        let (benchmark, log, number) = (self.benchmark, self.log.clone(), batch.number);
        let (places, launches, step) = (batch.places.clone(), batch.launches.clone(), step(benchmark));
        let title = described(benchmark, "step", &places[0].mesh).0;
        let cost = places.iter().map(|place| described(benchmark, "step", &place.mesh).1).sum();
        let hints = Hints { cost: Some(cost), place: Some(Place::At(&self.space, number)) };
        let own = (batch.u.inout(), batch.forcing.input(), batch.r.inout());
        let [from, to] = [from, 1 - from].map(|set| &self.batches.sets[set]);
        let faces = (from.input(), to.slice(batch.sent.clone()).output());
        front.task(
            title,
            (own, faces, (batch.zones.input(), batch.groups.input())),
            hints,
            move |unit, ((u, forcing, r), (from, to), _)| {
                log.timed("step", unit, number, || {
                    let zones = fields_mut(&places, u).zip(fields(&places, forcing)).zip(fields_mut(&places, r));
                    for (((place, mut u), forcing), (_, r)) in zones {
                        let halo = Some(halo(place, from));
                        step(&place.mesh, u.view_mut(), halo, &forcing, r, unit.inner_cores());
                        send_faces(place, &u.view(), to);
                    }
                });
            },
            move |k, ((mut u, forcing, mut r), (from, mut to), (zones, groups))| {
                let tables = (&zones, &groups);
                let fields = gpu::batch::Fields { u: &mut u, forcing: &forcing, r: &mut r };
                launches.step(benchmark, k, fields, (&from, &mut to), tables)
            },
        )
    }

    /// Submits the task that sends a batch's faces as set `set`.
    pub(super) fn send_batch(&self, batch: &Batch, set: usize) -> Result<P> {
        let (places, launches) = (batch.places.clone(), batch.launches.clone());
        let to = self.batches.sets[set].slice(batch.sent.clone()).output();
        Front::task(
            self.rt,
            "send",
            (batch.u.input(), to, batch.zones.input(), batch.groups.input()),
            self.beside_batch(batch),
            move |_, (u, to, ..)| {
                places.iter().zip(fields(&places, u)).for_each(|(place, u)| send_faces(place, &u, to));
            },
            move |k, (u, mut to, zones, groups)| launches.send(k, &u, &mut to, (&zones, &groups)),
        )
    }

    /// Copies the faces in set `set` to a batch's arrays.
    pub(super) fn settle_batch(&self, batch: &Batch, set: usize) -> Result<P> {
        let (places, launches) = (batch.places.clone(), batch.launches.clone());
        Front::task(
            self.rt,
            "receive",
            (batch.u.inout(), self.batches.sets[set].input(), batch.zones.input(), batch.groups.input()),
            self.beside_batch(batch),
            move |_, (u, from, ..)| fields_mut(&places, u).for_each(|(place, u)| receive(u, halo(place, from))),
            move |k, (mut u, from, zones, groups)| launches.receive(k, &from, &mut u, (&zones, &groups)),
        )
    }

    /// Sets `sums` to the norms of a batch's zones.
    pub(super) fn norms_of_batch(&self, batch: &Batch, sums: &Field) -> Result<P> {
        let (places, benchmark) = (batch.places.clone(), self.benchmark);
        let accesses = (batch.u.input(), batch.forcing.input(), batch.r.inout(), sums.output());
        self.rt.on_cores("norms", accesses, Hints::default(), move |unit, (u, forcing, r, mut sums)| {
            sums.fill(0.0);
            let zones = fields(&places, u).zip(fields(&places, forcing)).zip(fields_mut(&places, r));
            for ((u, forcing), (place, r)) in zones {
                add_norms(benchmark, &place.mesh, &u, &forcing, r, sums.view_mut(), unit.inner_cores());
            }
        })
    }

    fn beside_batch(&self, batch: &Batch) -> Hints<'_> {
        Hints { place: Some(Place::Beside(&self.space, batch.number)), ..Hints::default() }
    }
}

//! A zone's step as one task, the exchange included.
//!
//! The task reads the faces that its neighbours sent in the step before, and writes those that they are to read in the next
//! ([`faces`](crate::mz::faces)): so zones depend on each other by their faces alone, and by nothing within a step. A zone's other arrays
//! are its own, and stay where its steps run.
//!
//! Invariant: steps take turns with the two sets of faces. What is recorded is therefore two steps, so that a replay ends with
//! the set that it began with.

use std::sync::{Mutex, MutexGuard, PoisonError};

use thalweg::prelude::*;
use thalweg::task::Input;

use crate::front::Front;
use crate::mz::faces::{Halo, Sent, receive, send, shapes, sources};
use crate::mz::gpu;
use crate::mz::program::{Field, Program, Zone};
use crate::mz::serial::step;
use crate::mz::stages::gpu_step;

type Result<T = ()> = std::result::Result<T, SubmitError>;

/// The faces that zones send each other.
pub(super) struct Faces {
    /// Both sets: of each zone those across x and those across y.
    pub(super) sets: [Vec<[Field; 2]>; 2],
    sent: Mutex<Sent>,
}

impl Faces {
    /// Faces for some zones. Nothing is sent yet.
    pub(super) fn new(rt: &Runtime, zones: &[Zone]) -> Self {
        let set = |set: usize| {
            let of_zone = |zone: &Zone| {
                let [x, y] = shapes(zone.mesh.shape);
                [(x, "x"), (y, "y")].map(|(shape, axis)| {
                    rt.zeros(shape).named(format!("faces across {axis} of zone {}, set {set}", zone.number))
                })
            };
            zones.iter().map(of_zone).collect()
        };
        Self { sets: [0, 1].map(set), sent: Mutex::default() }
    }

    /// Which set is current.
    pub(super) fn sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Program<'_> {
    /// Submits a whole step of all zones.
    pub(super) fn whole_step(&self) -> Result {
        let from = self.sent()?;
        self.zones.iter().try_for_each(|zone| self.whole(self.rt, zone, from))?;
        *self.faces.sent() = Sent::Stepped(1 - from);
        Ok(())
    }

    /// Records two whole steps of all zones, the first from set `from`.
    pub(super) fn whole_steps(&self, recorder: &Recorder<'_>, from: usize) -> Result {
        for from in [from, 1 - from] {
            recorder.begin(&self.space);
            self.zones.iter().try_for_each(|zone| self.whole(recorder, zone, from))?;
        }
        Ok(())
    }

    /// The set that has the zones' inner faces; first sends them, if neither has.
    pub(super) fn sent(&self) -> Result<usize> {
        match *self.faces.sent() {
            Sent::Set(set) | Sent::Stepped(set) => return Ok(set),
            Sent::Nothing => (),
        }
        self.send(0)?;
        Ok(0)
    }

    /// Sends all zones' inner faces as set `set`.
    pub(super) fn send(&self, set: usize) -> Result {
        for zone in &self.zones {
            let mesh = zone.mesh;
            let [x, y] = &self.faces.sets[set][zone.number];
            Front::task(
                self.rt,
                "send",
                (zone.u.input(), x.output(), y.output()),
                self.beside(zone),
                |_, (u, x, y)| send(&u, [x, y]),
                move |k, (u, mut x, mut y)| gpu::faces::send(&mesh, k, &u, [&mut x, &mut y]),
            )?;
        }
        *self.faces.sent() = Sent::Set(set);
        Ok(())
    }

    /// Copies to the zones' arrays what the last step received and read where it was.
    pub(super) fn settle(&self) -> Result {
        let Sent::Stepped(set) = *self.faces.sent() else { return Ok(()) };
        for zone in &self.zones {
            let mesh = zone.mesh;
            let [west, east, south, north] = self.received(zone, 1 - set);
            Front::task(
                self.rt,
                "receive",
                (zone.u.inout(), west, east, south, north),
                self.beside(zone),
                move |_, (u, west, east, south, north)| receive(u, Halo::new(mesh.shape, [west, east, south, north])),
                move |k, (mut u, west, east, south, north)| {
                    gpu::faces::receive(&mesh, k, [&west, &east, &south, &north], &mut u)
                },
            )?;
        }
        *self.faces.sent() = Sent::Set(set);
        Ok(())
    }

    /// Submits, or records, a zone's whole step, which reads set `from` and writes the other.
    fn whole(&self, front: &impl Front, zone: &Zone, from: usize) -> Result {
        let (mesh, step, gpu_step) = (zone.mesh, step(self.benchmark), gpu_step(self.benchmark));
        let (stage, name, hints) = self.stage(zone, "step");
        let [west, east, south, north] = self.received(zone, from);
        let [x, y] = &self.faces.sets[1 - from][zone.number];
        let own = (zone.u.inout(), zone.forcing.input(), zone.r.inout());
        front.task(
            name,
            (own, (west, east, south, north), (x.output(), y.output())),
            hints,
            move |unit, ((mut u, forcing, r), (west, east, south, north), (x, y))| {
                let halo = Halo::new(mesh.shape, [west, east, south, north]);
                stage.run(unit, |mesh, threads| {
                    step(mesh, u.view_mut(), Some(halo), &forcing, r, threads);
                    send(&u.view(), [x, y]);
                });
            },
            move |k, ((mut u, forcing, mut r), (west, east, south, north), (mut x, mut y))| {
                gpu::faces::receive(&mesh, k, [&west, &east, &south, &north], &mut u)?;
                gpu_step(&mesh, k, &mut u, &forcing, &mut r)?;
                gpu::faces::send(&mesh, k, &u, [&mut x, &mut y])
            },
        )
    }

    /// What a zone receives of a set of faces.
    fn received(&self, zone: &Zone, set: usize) -> [Input<'_, f64, Ix4>; 4] {
        sources(&self.neighbours[zone.number]).map(|(number, axis, components)| {
            self.faces.sets[set][number][axis].block((components, .., .., ..)).input()
        })
    }
}

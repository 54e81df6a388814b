//! A zone's step as one task that includes the exchange.
//!
//! The task reads the faces that the zone's neighbours sent in the previous step, and writes the faces that they
//! will read in the next step ([`faces`](crate::mz::faces)). So zones depend on each other only through their
//! faces, and never within a step. All other arrays are used only by their own zone, and stay where the zone's
//! steps run.
//!
//! Invariant: steps alternate between the two sets of faces. Therefore, a recording has an even number of steps, so
//! that a replay ends with the set with which it began.

use std::sync::{Mutex, MutexGuard, PoisonError};

use thalweg::prelude::*;
use thalweg::task::Input;

use crate::front::Front;
use crate::mz::exchange::Side;
use crate::mz::faces::{Halo, Sent, receive, received, send, shapes};
use crate::mz::gpu;
use crate::mz::program::{Field, Program, Zone};
use crate::mz::serial::step;
use crate::mz::stages::gpu_step;
use crate::platform::Platform;

/// Minimum number of tasks in a recording. Replays do not overlap, so units idle at the end of each replay, and
/// short recordings would be inefficient.
const RECORDED: usize = 128;

type Result<F, T = ()> = std::result::Result<T, <F as Front>::Error>;

/// The faces that zones send each other.
pub(super) struct Faces {
    /// Both sets of faces.
    pub(super) sets: [Vec<[Field; 4]>; 2],
    sent: Mutex<Sent>,
}

impl Faces {
    /// Creates the faces of some zones. Nothing is sent yet.
    pub(super) fn new(rt: &Runtime, zones: &[Zone]) -> Self {
        let set = |set: usize| {
            let mut faces = rt.zeros_together(zones.iter().flat_map(|zone| shapes(zone.mesh.shape))).into_iter();
            let of_zone = |zone: &Zone| {
                Side::ALL.map(|side| {
                    let face = faces.next().expect("a face for each shape");
                    face.named(format!("face {set} of zone {} for a neighbour's {side:?}", zone.number))
                })
            };
            zones.iter().map(of_zone).collect()
        };
        Self { sets: [0, 1].map(set), sent: Mutex::default() }
    }

    /// Returns all faces, each with the zone that sends it.
    pub(super) fn of_zones(&self) -> impl Iterator<Item = (usize, &Field)> {
        self.sets
            .iter()
            .flat_map(|set| set.iter().enumerate().flat_map(|(zone, faces)| faces.iter().map(move |face| (zone, face))))
    }

    /// Locks and returns the state that says which set is current.
    pub(super) fn sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Platform> Program<'_, P> {
    /// Submits a whole step of all zones.
    pub(super) fn whole_step(&self) -> Result<P> {
        let from = self.sent()?;
        self.all_whole(self.rt, from)?;
        *self.faces.sent() = Sent::Stepped(1 - from);
        Ok(())
    }

    /// Returns the number of whole steps, always even, to record for a run of `steps` steps.
    pub(super) fn whole_steps_recorded(&self, steps: usize) -> usize {
        let enough = RECORDED.div_ceil(self.space.len());
        2 * (enough.min(steps) / 2).max(1)
    }

    /// Records `steps` whole steps of all zones, the first of which reads set `from`.
    pub(super) fn whole_steps(
        &self,
        recorder: &Recorder<'_>,
        steps: usize,
        from: usize,
    ) -> std::result::Result<(), SubmitError> {
        for from in [from, 1 - from].into_iter().cycle().take(steps) {
            recorder.begin(&self.space);
            self.all_whole(recorder, from)?;
        }
        Ok(())
    }

    /// Submits or records a whole step of all zones, which reads set `from`.
    fn all_whole<F: Front>(&self, front: &F, from: usize) -> Result<F> {
        self.zones.iter().try_for_each(|zone| self.whole(front, zone, from))?;
        self.batches.all.iter().try_for_each(|batch| self.whole_batch(front, batch, from))
    }

    /// Returns the set that holds the zones' inner faces. Submits tasks that send the faces first if neither set
    /// holds them.
    pub(super) fn sent(&self) -> Result<P, usize> {
        let sent = self.faces.sent().set();
        match sent {
            Some(set) => Ok(set),
            None => self.send(0).map(|()| 0),
        }
    }

    /// Submits tasks that send all zones' inner faces as set `set`.
    pub(super) fn send(&self, set: usize) -> Result<P> {
        for zone in &self.zones {
            let mesh = zone.mesh;
            let [west, east, south, north] = self.faces.sets[set][zone.number].each_ref().map(Data::output);
            Front::task(
                self.rt,
                "send",
                (zone.u.input(), west, east, south, north),
                self.beside(zone),
                |_, (u, west, east, south, north)| send(&u, [west, east, south, north]),
                move |k, (u, mut west, mut east, mut south, mut north)| {
                    gpu::faces::send(&mesh, k, &u, [&mut west, &mut east, &mut south, &mut north])
                },
            )?;
        }
        self.batches.all.iter().try_for_each(|batch| self.send_batch(batch, set))?;
        *self.faces.sent() = Sent::Set(set);
        Ok(())
    }

    /// Copies the faces that the last step received to the zones' arrays, if that step read them from the face
    /// arrays.
    pub(super) fn settle(&self) -> Result<P> {
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
        self.batches.all.iter().try_for_each(|batch| self.settle_batch(batch, 1 - set))?;
        *self.faces.sent() = Sent::Set(set);
        Ok(())
    }

    /// Submits or records a zone's whole step, which reads set `from` and writes the other set.
    fn whole<F: Front>(&self, front: &F, zone: &Zone, from: usize) -> Result<F> {
        let (mesh, step, gpu_step) = (zone.mesh, step(self.benchmark), gpu_step(self.benchmark));
        let (stage, name, hints) = self.stage(zone, "step");
        let [west, east, south, north] = self.received(zone, from);
        let to = self.faces.sets[1 - from][zone.number].each_ref().map(Data::output);
        let [to_west, to_east, to_south, to_north] = to;
        let own = (zone.u.inout(), zone.forcing.input(), zone.r.inout());
        front.task(
            name,
            (own, (west, east, south, north), (to_west, to_east, to_south, to_north)),
            hints,
            move |unit, ((mut u, forcing, r), (west, east, south, north), to)| {
                let halo = Halo::new(mesh.shape, [west, east, south, north]);
                stage.run(unit, |mesh, threads| {
                    step(mesh, u.view_mut(), Some(halo), &forcing, r, threads);
                    send(&u.view(), [to.0, to.1, to.2, to.3]);
                });
            },
            move |k, ((mut u, forcing, mut r), (west, east, south, north), mut to)| {
                gpu::faces::receive(&mesh, k, [&west, &east, &south, &north], &mut u)?;
                gpu_step(&mesh, k, &mut u, &forcing, &mut r)?;
                gpu::faces::send(&mesh, k, &u, [&mut to.0, &mut to.1, &mut to.2, &mut to.3])
            },
        )
    }

    /// Selects the faces that a zone receives from a set of faces.
    fn received(&self, zone: &Zone, set: usize) -> [Input<'_, f64, Ix4>; 4] {
        received(&self.neighbours[zone.number], &self.faces.sets[set]).map(Data::input)
    }
}

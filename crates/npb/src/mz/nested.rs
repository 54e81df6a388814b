//! A zone's step as a task whose children do the work, first by chunks of planes and then by chunks of rows.
//!
//! Zones differ in size, and there may be fewer zones than units, but there are many planes to distribute. The
//! zone's task accesses its arrays weakly, so it waits neither for its predecessors nor for its children. A chunk
//! of planes begins as soon as the exchange and the previous chunks of rows have written the data that the chunk
//! reads.
//!
//! Lines in x and y lie in planes, so one pass processes planes, from the residual to the sweep in y. Lines in z
//! lie in rows, so another pass processes rows, from the sweep in z to the new state. LU's sweeps proceed from
//! plane to plane and from row to row, so they form a single child, and only the residual is divided.
//!
//! Invariant: the children perform the same arithmetic as the whole step, so results agree to the last bit.

use std::ops::Range;
use std::sync::Arc;

use thalweg::Context;
use thalweg::error::SubmitError;

use crate::front::Front;
use crate::mz::classes::Benchmark;
use crate::mz::log::Log;
use crate::mz::operator::residual_in_planes;
use crate::mz::passes::{InPlanes, InRows};
use crate::mz::program::{Program, Zone};
use crate::mz::rows::divide;
use crate::mz::stages::{Stage, described};
use crate::mz::{bt, lu, sp};
use crate::platform::Platform;

/// Minimum work of a chunk, in millions of operations. This takes a core some 100 µs.
pub const WORTH: f64 = 0.5;
/// Maximum number of chunks per zone. Each chunk of rows depends on all chunks of planes, so the overhead grows
/// with the square of the number of chunks.
const MOST: usize = 16;

/// Divides `all` planes or rows, whose total work is `operations` million operations, into chunks.
pub fn chunks(all: Range<usize>, operations: f64) -> Vec<Range<usize>> {
    divide(all, ((operations / WORTH) as usize).clamp(1, MOST), 1)
}

impl<P: Platform> Program<'_, P> {
    /// Submits, or records, a zone's step after the exchange as a task with children.
    pub(super) fn nested<F: Front>(&self, front: &F, zone: &Zone) -> Result<(), F::Error> {
        let step = ZoneStep { benchmark: self.benchmark, zone: zone.clone(), log: self.log.clone() };
        let (name, _) = described(self.benchmark, "step", &zone.mesh);
        let accesses = (zone.u.weak_inout(), zone.forcing.weak_input(), zone.r.weak_inout());
        front.parent(name, accesses, move |at, _| step.submit(at))
    }
}

/// The step of one zone, in the body of its task.
struct ZoneStep {
    benchmark: Benchmark,
    zone: Zone,
    log: Arc<Log>,
}

impl ZoneStep {
    fn submit(&self, at: &Context) -> Result<(), SubmitError> {
        match self.benchmark {
            Benchmark::Bt => {
                self.planes(at, "planes", bt::in_planes)?;
                self.rows(at, "rows", bt::in_rows)
            }
            Benchmark::Sp => {
                self.planes(at, "planes", sp::in_planes)?;
                self.rows(at, "rows", sp::in_rows)
            }
            Benchmark::Lu => {
                self.relax(at, "relax")?;
                self.planes(at, "residual", residual_in_planes)
            }
        }
    }

    fn stage(&self, name: &'static str) -> Stage {
        Stage { name, zone: self.zone.number, mesh: self.zone.mesh, log: self.log.clone() }
    }

    /// Submits the work that stays within planes of constant z. A chunk also reads two planes of u on either side.
    /// Because it depends on all chunks of rows anyway, it declares an access to the whole of u, which fragments
    /// the region less.
    fn planes(&self, at: &Context, stage: &'static str, work: InPlanes) -> Result<(), SubmitError> {
        let Zone { mesh, u, forcing, r, .. } = &self.zone;
        let (name, cost) = described(self.benchmark, stage, mesh);
        let interior = 1..mesh.shape.nz - 1;
        for planes in chunks(interior.clone(), cost) {
            let forcing = forcing.block((.., planes.clone(), .., ..)).input();
            let r = r.block((.., planes.clone(), .., ..)).inout();
            let share = planes.len() as f64 / interior.len() as f64;
            let stage = self.stage(stage);
            at.task(name, (u.input(), forcing, r))
                .cost(cost * share)
                .cpu(move |unit, (u, forcing, r)| {
                    stage.run(unit, |mesh, threads| work(mesh, planes, &(&u).into(), &forcing, r, threads));
                })
                .submit()?;
        }
        Ok(())
    }

    /// Submits the work that passes through all planes, within rows of constant y.
    fn rows(&self, at: &Context, stage: &'static str, work: InRows) -> Result<(), SubmitError> {
        let Zone { mesh, u, r, .. } = &self.zone;
        let (name, cost) = described(self.benchmark, stage, mesh);
        let (interior, planes) = (1..mesh.shape.ny - 1, 1..mesh.shape.nz - 1);
        for rows in chunks(interior.clone(), cost) {
            let u = u.block((.., planes.clone(), rows.clone(), ..)).inout();
            let r = r.block((.., planes.clone(), .., ..)).input();
            let share = rows.len() as f64 / interior.len() as f64;
            let stage = self.stage(stage);
            at.task(name, (u, r))
                .cost(cost * share)
                .cpu(move |unit, (u, r)| stage.run(unit, |mesh, threads| work(mesh, rows, u, &r, threads)))
                .submit()?;
        }
        Ok(())
    }

    /// Submits LU's sweeps, which cannot be divided, and the update of u.
    fn relax(&self, at: &Context, stage: &'static str) -> Result<(), SubmitError> {
        let Zone { mesh, u, r, .. } = &self.zone;
        let (name, cost) = described(self.benchmark, stage, mesh);
        let stage = self.stage(stage);
        at.task(name, (u.inout(), r.input()))
            .cost(cost)
            .cpu(move |unit, (u, r)| stage.run(unit, |mesh, threads| lu::relax(mesh, u, &r, threads)))
            .submit()?;
        Ok(())
    }
}

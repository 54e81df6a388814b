//! A zone's step as a task that computes nothing: its children do, by chunks of planes and then of rows.
//!
//! Zones differ in size, and there may be fewer of them than units; their planes are plenty. The zone's task holds its
//! arrays weakly, so it waits for nobody, and neither does it wait for its children: a chunk of planes begins as soon as
//! the exchange and the chunks of rows before it have written what it reads.
//!
//! Lines in x and y lie in planes, which one pass takes from the residual to the sweep in y; lines in z lie in rows, which
//! another pass takes from the sweep in z to the new state. LU's sweeps go from plane to plane and from row to row: they
//! are one child, and the residual alone is cut.
//!
//! Invariant: children do the arithmetic of the whole step, with the same results to the last bit.

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

/// What a chunk is worth at least, in millions of operations: some 100 µs of a core.
const WORTH: f64 = 0.5;
/// Chunks of a zone at most: each chunk of rows comes after all chunks of planes, so their number counts squared.
const MOST: usize = 16;

/// Cuts `all` planes or rows, of so many millions of operations, into chunks.
fn chunks(all: Range<usize>, operations: f64) -> Vec<Range<usize>> {
    divide(all, ((operations / WORTH) as usize).clamp(1, MOST), 1)
}

impl Program<'_> {
    /// Submits, or records, a zone's step after the exchange as a task with children.
    pub(super) fn nested(&self, front: &impl Front, zone: &Zone) -> Result<(), SubmitError> {
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

    /// What lies within planes of constant z. A chunk reads two planes more than its own on either side, but comes after all
    /// chunks of rows: it declares u as a whole, which is kept in fewer pieces.
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

    /// What goes through all planes, within rows of constant y.
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

    /// LU's sweeps, which nothing cuts, and the update of u.
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

#[cfg(test)]
mod tests {
    use ndarray::{Array4, s};
    use thalweg::Runtime;

    use super::*;
    use crate::mz::classes::{Class, Fuse};
    use crate::mz::faces::Halo;
    use crate::mz::physics::Mesh;
    use crate::mz::plain::{Zone, Zones};
    use crate::mz::program::{Exchange, Settings};
    use crate::mz::stages::{Reads, Writes};

    const ALL: [Benchmark; 3] = [Benchmark::Bt, Benchmark::Sp, Benchmark::Lu];

    /// The states of all zones after some steps.
    fn states(units: &str, benchmark: Benchmark, class: Class, steps: usize, fuse: Fuse) -> Vec<Vec<f64>> {
        let rt = Runtime::builder().compute_units(units).build().unwrap();
        let program = Program::new(
            &rt,
            benchmark,
            &benchmark.problem(class),
            Settings { steps, fuse, periods: false, replay: false },
        );
        program.prepare().unwrap();
        for _ in 0..steps {
            program.step(Exchange::Together).unwrap();
        }
        program.zones.iter().map(|zone| rt.read(&zone.u).unwrap().into_iter().collect()).collect()
    }

    #[test]
    fn children_compute_what_the_whole_step_does_on_any_units() {
        for (class, steps, all_units) in [
            (Class::S, 2, &["1:CPU:1", "1:CPU:2", "1:CPU:1,2:EMU:1"][..]),
            // Planes and rows of each are cut here.
            (Class::W, 1, &["2:CPU:1"]),
        ] {
            for benchmark in ALL {
                let whole = states("1:CPU:1", benchmark, class, steps, Fuse::Step);
                for units in all_units {
                    let nested = states(units, benchmark, class, steps, Fuse::Planes);
                    assert!(nested == whole, "{benchmark:?}, class {class:?}, {units}");
                }
            }
        }
    }

    /// A step of a zone: from u and forcing to u.
    type Whole = fn(&Mesh, Writes<'_>, Option<Halo<'_>>, &Reads<'_>, usize);

    /// Chunks of any size, in arrays of their own or within a zone's.
    #[test]
    fn chunks_of_any_size_compute_what_the_whole_does() {
        for (benchmark, step, in_planes, in_rows) in [
            (Benchmark::Bt, bt::step as Whole, bt::in_planes as InPlanes, bt::in_rows as InRows),
            (Benchmark::Sp, sp::step, sp::in_planes, sp::in_rows),
        ] {
            let mut zones = Zones::new(benchmark, &benchmark.problem(Class::W));
            zones.in_loop().exchange();
            let zone = zones.zones.remove(5);
            let mesh = zone.mesh;
            let (interior, all_rows) = (1..mesh.shape.nz - 1, 1..mesh.shape.ny - 1);
            let mut whole = zone.u.clone();
            step(&mesh, whole.view_mut(), None, &zone.forcing.view(), 1);
            for size in [1, 2, 3, 5] {
                let Zone { u: mut state, forcing, mut r, .. } = zone.clone();
                for planes in interior.clone().step_by(size).map(|k| k..(k + size).min(interior.end)) {
                    let forcing = forcing.slice(s![.., planes.clone(), .., ..]);
                    let target = r.slice_mut(s![.., planes.clone(), .., ..]);
                    in_planes(&mesh, planes, &(&state.view()).into(), &forcing, target, 1 + size % 2);
                }
                let r = r.slice(s![.., 1..-1, .., ..]);
                for rows in all_rows.clone().step_by(size).map(|j| j..(j + size).min(all_rows.end)) {
                    let place = s![.., 1..-1, rows.clone(), ..];
                    let mut own: Array4<f64> = state.slice(place).as_standard_layout().into_owned();
                    in_rows(&mesh, rows.clone(), own.view_mut(), &r, 1);
                    in_rows(&mesh, rows.clone(), state.slice_mut(place), &r, 1 + size % 2);
                    assert!(state.slice(place) == own, "{benchmark:?}, rows {rows:?}");
                }
                assert!(state == whole, "{benchmark:?}, chunks of {size}");
            }
        }
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init)] // chunks are ranges
    fn chunks_are_worth_their_tasks_and_bounded_in_number() {
        assert_eq!(chunks(1..5, 0.0), [1..5]);
        assert_eq!(chunks(1..5, -1.0), [1..5]);
        assert_eq!(chunks(1..8, 2.5 * WORTH), [1..5, 5..8]);
        assert_eq!(chunks(1..4, 1e9), [1..2, 2..3, 3..4]);
        assert_eq!(chunks(1..251, 1e9).len(), 16);
        for benchmark in ALL {
            let mesh = benchmark.problem(Class::A).meshes(benchmark)[15];
            let (_, operations) =
                described(benchmark, if benchmark == Benchmark::Lu { "residual" } else { "planes" }, &mesh);
            let interior = 1..mesh.shape.nz - 1;
            let cut = chunks(interior.clone(), operations);
            assert!(cut.len() > 1, "{benchmark:?}: {operations}");
            let least = cut.first().unwrap().len() as f64 / interior.len() as f64 * operations;
            assert!(least >= WORTH, "{benchmark:?}: {least}");
        }
    }
}

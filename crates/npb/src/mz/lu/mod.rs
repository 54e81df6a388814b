//! LU-MZ: symmetric successive over-relaxation, performed per zone and step.
//!
//! After the exchange of faces, a step consists of a forward sweep, a backward sweep, an update of u, and the
//! residual that the *next* step begins with (NASA report RNR-94-007, section 3.3; over-relaxation 1.2). The stages
//! can run one by one, or as a single [`step`] that keeps the forward sweep's results in vector order for the
//! backward sweep. A sweep takes one strip of rows through all planes before it starts the next strip, so the
//! contributions from plane to plane stay in a near cache.
//!
//! With several threads, a sweep is a wavefront over blocks of rows, in which each block is one slab of planes
//! behind the previous block. Results are identical to the last bit for any number of threads.

mod access;
pub mod jacobian;
mod pack;
mod ssor;
mod turn;
mod unpack;
pub mod wavefront;

use std::cell::Cell;
use std::ops::Range;

use ndarray::{ArrayView4, ArrayViewMut4};
use rayon::prelude::*;

use crate::mz::components::components;
use crate::mz::faces::{Halo, State};
use crate::mz::lanes::MAX_LANES;
use crate::mz::operator::residual_of;
use crate::mz::physics::Mesh;
use crate::mz::rows::{blocks, divide};
use crate::mz::update;
use access::{Gather, Scatter, Stage};
use jacobian::OMEGA;
use ssor::{Access, Direction, Front, Slabs};

/// The factor of w in the update of u.
pub(crate) const UPDATE: f64 = 1.0 / (OMEGA * (2.0 - OMEGA));

/// Number of slabs of planes per block of rows, large enough that blocks rarely wait for one another.
const SLABS_PER_BLOCK: usize = 4;

/// A zone's blocks of rows, with scratch memory that is reused from step to step.
#[derive(Debug, Default)]
struct Fronts(Vec<Front>);

impl Fronts {
    /// Runs `work` with this thread's fronts.
    fn with(work: impl FnOnce(&mut Fronts)) {
        thread_local!(static FRONTS: Cell<Fronts> = const { Cell::new(Fronts(Vec::new())) });
        let mut fronts = FRONTS.take();
        work(&mut fronts);
        FRONTS.set(fronts);
    }

    /// Returns the blocks of rows of a zone, at most one per thread.
    fn rows(mesh: &Mesh, threads: usize) -> Vec<Range<usize>> {
        divide(1..mesh.shape.ny - 1, threads, MAX_LANES)
    }

    /// Sweeps a zone that is divided into the blocks `rows`, each with its own access.
    fn sweep<A: Access + Send>(
        &mut self,
        mesh: &Mesh,
        direction: Direction,
        rows: &[Range<usize>],
        mut accesses: Vec<A>,
    ) {
        let planes = 1..mesh.shape.nz - 1;
        let blocks = rows.len();
        let share = if blocks == 1 { planes.len() } else { planes.len().div_ceil(SLABS_PER_BLOCK * blocks) };
        let slabs = Slabs::new(planes, share);
        self.0.resize_with(blocks, Front::default);
        for (front, rows) in self.0.iter_mut().zip(rows) {
            front.prepare(mesh.shape.nx, rows.clone(), &slabs);
        }

        // Both fronts and slabs are in sweep order.
        let mut fronts: Vec<(&mut Front, &mut A)> = self.0.iter_mut().zip(&mut accesses).collect();
        if direction == Direction::Backward {
            fronts.reverse();
        }
        let mut waves = move || {
            let slabs = slabs.count();
            for wave in 0..slabs + blocks - 1 {
                if wave > 0 {
                    // Each block's edge moves to the next block. Nothing enters the first block.
                    for block in (1..blocks).rev() {
                        let (before, after) = fronts.split_at_mut(block);
                        std::mem::swap(&mut before[block - 1].0.edge, &mut after[0].0.edge);
                    }
                    fronts[0].0.edge.fill(0.0);
                }
                let one = |(block, (front, access)): (usize, &mut (&mut Front, &mut A))| {
                    let Some(number) = wave.checked_sub(block).filter(|&number| number < slabs) else { return };
                    let slab = match direction {
                        Direction::Forward => number,
                        Direction::Backward => slabs - 1 - number,
                    };
                    front.sweep(mesh, direction, slab, *access);
                };
                if blocks == 1 {
                    fronts.iter_mut().enumerate().for_each(one);
                } else {
                    fronts.par_iter_mut().enumerate().for_each(one);
                }
            }
        };
        if blocks == 1 {
            waves();
        } else {
            // Run on one of the pool's threads, because a pool thread need not sleep and wake up between waves.
            rayon::scope(move |_| waves());
        }
    }
}

/// Performs the forward sweep, which computes w from the residual `r` (not scaled by Δt); w is 0 on the boundary.
///
/// # Panics
/// Panics if an array does not have the shape of the mesh, or a component of it is not contiguous.
pub fn forward(
    mesh: &Mesh,
    u: &ArrayView4<'_, f64>,
    r: &ArrayView4<'_, f64>,
    mut w: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    w.fill(0.0);
    let (u, r) = (components(u), components(r));
    let rows = Fronts::rows(mesh, threads);
    let blocks = blocks(w, &rows);
    let stage = |(rows, block): (&Range<usize>, _)| Stage { mesh, u, r: Some(r), first: rows.start, block };
    let accesses = rows.iter().zip(blocks).map(stage).collect();
    Fronts::with(|fronts| fronts.sweep(mesh, Direction::Forward, &rows, accesses));
}

/// Performs the backward sweep, which turns the `w` of the forward sweep into the correction.
///
/// # Panics
/// Panics under the same conditions as [`forward`].
pub fn backward(mesh: &Mesh, u: &ArrayView4<'_, f64>, w: ArrayViewMut4<'_, f64>, threads: usize) {
    let u = components(u);
    let rows = Fronts::rows(mesh, threads);
    let blocks = blocks(w, &rows);
    let stage = |(rows, block): (&Range<usize>, _)| Stage { mesh, u, r: None, first: rows.start, block };
    let accesses = rows.iter().zip(blocks).map(stage).collect();
    Fronts::with(|fronts| fronts.sweep(mesh, Direction::Backward, &rows, accesses));
}

/// Computes u ← u + w / ω(2 − ω) in the interior; w is 0 on the boundary.
///
/// # Panics
/// Panics under the same conditions as [`update::add`].
pub fn add(w: &ArrayView4<'_, f64>, u: ArrayViewMut4<'_, f64>, threads: usize) {
    update::add(UPDATE, w, u, threads);
}

/// Performs both sweeps and the update of u: combines [`forward`], [`backward`] and [`add`] without needing the
/// array w.
///
/// # Panics
/// Panics under the same conditions as [`forward`].
pub fn relax(mesh: &Mesh, mut u: ArrayViewMut4<'_, f64>, r: &ArrayView4<'_, f64>, threads: usize) {
    let rows = Fronts::rows(mesh, threads);
    Fronts::with(|fronts| {
        let state = u.view();
        let gather = Gather { mesh, u: components(&state), r: components(r) };
        fronts.sweep(mesh, Direction::Forward, &rows, vec![gather; rows.len()]);
        let blocks = blocks(u.view_mut(), &rows);
        let scatter = |(rows, block): (&Range<usize>, _)| Scatter { first: rows.start, block };
        fronts.sweep(mesh, Direction::Backward, &rows, rows.iter().zip(blocks).map(scatter).collect());
    });
}

/// Performs a whole step of a zone whose outer faces are in `halo`, or have been exchanged. It starts from the
/// residual `r` that the previous step left, and leaves the residual for the next step.
///
/// # Panics
/// Panics under the same conditions as [`forward`].
pub fn step(
    mesh: &Mesh,
    mut u: ArrayViewMut4<'_, f64>,
    halo: Option<Halo<'_>>,
    forcing: &ArrayView4<'_, f64>,
    r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    relax(mesh, u.view_mut(), &r.view(), threads);
    residual_of(mesh, &State::new(u.view(), halo), forcing, r, threads);
}

//! Sources and destinations of the numbers in LU's sweeps: arrays if the sweeps are separate stages, or bundles
//! kept from the forward to the backward sweep.

use pulp::Simd;

use super::UPDATE;
use super::ssor::Access;
use super::wavefront::{Rows, Strip, Turn};
use crate::mz::components::{Components, ComponentsMut, reborrow};
use crate::mz::lanes::Lane;
use crate::mz::physics::{COMPONENTS, Mesh};
use crate::mz::prefetch::prefetch;
use crate::mz::rows::Block;

/// Packs a turn's rows of an array.
#[inline(always)]
fn pack<S: Simd>(
    simd: S,
    (mesh, array): (&Mesh, &Components<'_>),
    (strip, turn): (Strip, Turn<usize>),
    bundle: &mut [S::f64s],
) {
    let points = mesh.shape.nx * mesh.shape.ny;
    let rows = turn.map(
        #[inline(always)]
        |k| Rows { numbers: *array, first: k * points + strip.begin(0) },
    );
    strip.pack(simd, rows, bundle, (0, COMPONENTS));
}

/// Packs a turn's rows of a block whose first row is `first`.
#[inline(always)]
fn pack_block<S: Simd>(
    simd: S,
    (block, first): (&Block<'_>, usize),
    (strip, turn): (Strip, Turn<usize>),
    bundle: &mut [S::f64s],
) {
    let rows = turn.map(
        #[inline(always)]
        |k| Rows { numbers: tabulate!(|m| &*block[k][m]), first: strip.begin(first) },
    );
    strip.pack::<S, COMPONENTS>(simd, rows, bundle, (0, COMPONENTS));
}

/// Returns a turn's rows of a block whose first row is `first`.
#[inline(always)]
fn rows_of<'a>(
    (block, first): (&'a mut Block<'_>, usize),
    (strip, turn): (Strip, Turn<usize>),
) -> Turn<Rows<ComponentsMut<'a>>> {
    let first = strip.begin(first);
    let above = turn.begins.unwrap_or(block.len());
    let (below, from) = block.split_at_mut(above);
    Turn {
        ends: turn.ends.map(
            #[inline(always)]
            |k| Rows { numbers: reborrow(&mut below[k]), first },
        ),
        begins: turn.begins.map(
            #[inline(always)]
            |_| Rows { numbers: reborrow(&mut from[0]), first },
        ),
    }
}

/// Prefetches one step's share of a strip's rows in a plane of an array.
#[inline(always)]
fn ask<S: Simd>((mesh, array): (&Mesh, &Components<'_>), (strip, plane): (Strip, usize), step: usize) {
    let point = plane * mesh.shape.nx * mesh.shape.ny + strip.begin(0) + step * S::F64_LANES;
    for component in array {
        prefetch(component, point);
    }
}

/// Prefetches one step's share of a strip's rows in a plane of a block whose first row is `first`.
#[inline(always)]
fn ask_block<S: Simd>((block, first): (&Block<'_>, usize), (strip, plane): (Strip, usize), step: usize) {
    for component in &block[plane] {
        prefetch(component, strip.begin(first) + step * S::F64_LANES);
    }
}

/// A sweep that reads and writes the array w, as a separate stage.
pub(crate) struct Stage<'a> {
    pub(crate) mesh: &'a Mesh,
    pub(crate) u: Components<'a>,
    /// The array from which the sweep reads w. If `None`, it reads from w itself.
    pub(crate) r: Option<Components<'a>>,
    /// Index of the block's first row.
    pub(crate) first: usize,
    /// The block of w.
    pub(crate) block: Block<'a>,
}

impl Access for Stage<'_> {
    const KEPT: bool = false;

    #[inline(always)]
    fn prefetch<S: Simd>(&self, at: (Strip, usize), step: usize) {
        ask::<S>((self.mesh, &self.u), at, step);
        match &self.r {
            Some(r) => ask::<S>((self.mesh, r), at, step),
            None => ask_block::<S>((&self.block, self.first), at, step),
        }
    }

    #[inline(always)]
    fn pack<S: Simd>(&self, simd: S, at: (Strip, Turn<usize>), state: &mut [S::f64s], w: &mut [S::f64s]) {
        pack(simd, (self.mesh, &self.u), at, state);
        match &self.r {
            Some(r) => pack(simd, (self.mesh, r), at, w),
            None => pack_block(simd, (&self.block, self.first), at, w),
        }
    }

    #[inline(always)]
    fn unpack<S: Simd>(&mut self, simd: S, at: (Strip, Turn<usize>), w: &[S::f64s]) {
        at.0.unpack(simd, rows_of((&mut self.block, self.first), at), w, (0, COMPONENTS));
    }
}

/// A forward sweep that keeps its w in bundles.
#[derive(Clone)]
pub(crate) struct Gather<'a> {
    pub(crate) mesh: &'a Mesh,
    pub(crate) u: Components<'a>,
    pub(crate) r: Components<'a>,
}

impl Access for Gather<'_> {
    const KEPT: bool = true;

    #[inline(always)]
    fn prefetch<S: Simd>(&self, at: (Strip, usize), step: usize) {
        ask::<S>((self.mesh, &self.u), at, step);
        ask::<S>((self.mesh, &self.r), at, step);
    }

    #[inline(always)]
    fn pack<S: Simd>(&self, simd: S, at: (Strip, Turn<usize>), state: &mut [S::f64s], w: &mut [S::f64s]) {
        pack(simd, (self.mesh, &self.u), at, state);
        pack(simd, (self.mesh, &self.r), at, w);
    }

    #[inline(always)]
    fn unpack<S: Simd>(&mut self, _: S, _: (Strip, Turn<usize>), _: &[S::f64s]) {}
}

/// A backward sweep that reads w from bundles and updates u.
pub(crate) struct Scatter<'a> {
    /// Index of the block's first row.
    pub(crate) first: usize,
    /// The block of u.
    pub(crate) block: Block<'a>,
}

impl Access for Scatter<'_> {
    const KEPT: bool = true;

    #[inline(always)]
    fn prefetch<S: Simd>(&self, at: (Strip, usize), step: usize) {
        ask_block::<S>((&self.block, self.first), at, step);
    }

    #[inline(always)]
    fn pack<S: Simd>(&self, simd: S, at: (Strip, Turn<usize>), state: &mut [S::f64s], _: &mut [S::f64s]) {
        pack_block(simd, (&self.block, self.first), at, state);
    }

    #[inline(always)]
    fn unpack<S: Simd>(&mut self, simd: S, at: (Strip, Turn<usize>), w: &[S::f64s]) {
        let rows = rows_of((&mut self.block, self.first), at);
        at.0.add(Lane::splat(simd, UPDATE), rows, w, (0, COMPONENTS));
    }
}

//! Where the numbers of LU's sweeps come from and go to: arrays stage by stage, or bundles kept in between.

use pulp::Simd;

use super::ssor::Access;
use super::wavefront::Strip;
use super::{UPDATE, update};
use crate::mz::components::{Components, ComponentsMut};
use crate::mz::lanes::Lane;
use crate::mz::physics::{COMPONENTS, Mesh};
use crate::mz::prefetch::prefetch;
use crate::mz::rows::Block;

/// The points of one plane of constant z.
#[inline(always)]
fn plane<'a>(mesh: &Mesh, component: &'a [f64], k: usize) -> &'a [f64] {
    let points = mesh.shape.nx * mesh.shape.ny;
    &component[k * points..(k + 1) * points]
}

/// Packs a plane's rows of an array.
#[inline(always)]
fn pack<S: Simd>(simd: S, (mesh, array, k): (&Mesh, &Components<'_>, usize), strip: Strip, bundle: &mut [S::f64s]) {
    for (m, component) in array.iter().enumerate() {
        strip.pack(simd, plane(mesh, component, k), bundle, (m, COMPONENTS));
    }
}

/// Packs a strip's rows of a plane of a block.
#[inline(always)]
fn pack_block<S: Simd>(simd: S, plane: &ComponentsMut<'_>, strip: Strip, bundle: &mut [S::f64s]) {
    for (m, component) in plane.iter().enumerate() {
        strip.pack(simd, component, bundle, (m, COMPONENTS));
    }
}

/// Asks for a plane of an array at one of its points.
#[inline(always)]
fn ask(mesh: &Mesh, array: &Components<'_>, k: usize, point: usize) {
    for component in array {
        prefetch(plane(mesh, component, k), point);
    }
}

/// Asks for a plane of a block at one of its points.
#[inline(always)]
fn ask_block(plane: &ComponentsMut<'_>, point: usize) {
    for component in plane {
        prefetch(component, point);
    }
}

/// A sweep that reads and writes the array w, a stage of its own.
pub(crate) struct Stage<'a> {
    pub(crate) mesh: &'a Mesh,
    pub(crate) u: Components<'a>,
    /// Where w comes from; none: from w.
    pub(crate) r: Option<Components<'a>>,
    /// The first row of the block.
    pub(crate) first: usize,
    /// Of w.
    pub(crate) block: Block<'a>,
}

impl Access for Stage<'_> {
    const KEPT: bool = false;

    #[inline(always)]
    fn prefetch<S: Simd>(&self, at: usize, strip: Strip, step: usize) {
        let point = strip.share::<S>(step);
        ask(self.mesh, &self.u, at, point);
        match &self.r {
            Some(r) => ask(self.mesh, r, at, point),
            None => ask_block(&self.block[at], strip.within(self.first).share::<S>(step)),
        }
    }

    #[inline(always)]
    fn pack<S: Simd>(&self, simd: S, at: usize, strip: Strip, state: &mut [S::f64s], w: &mut [S::f64s]) {
        pack(simd, (self.mesh, &self.u, at), strip, state);
        match &self.r {
            Some(r) => pack(simd, (self.mesh, r, at), strip, w),
            None => pack_block(simd, &self.block[at], strip.within(self.first), w),
        }
    }

    #[inline(always)]
    fn unpack<S: Simd>(&mut self, simd: S, at: usize, strip: Strip, w: &[S::f64s]) {
        for (m, component) in self.block[at].iter_mut().enumerate() {
            strip.within(self.first).unpack(
                simd,
                component,
                w,
                (m, COMPONENTS),
                #[inline(always)]
                |_, new| new,
            );
        }
    }
}

/// The forward sweep that leaves its w in its bundles.
#[derive(Clone)]
pub(crate) struct Gather<'a> {
    pub(crate) mesh: &'a Mesh,
    pub(crate) u: Components<'a>,
    pub(crate) r: Components<'a>,
}

impl Access for Gather<'_> {
    const KEPT: bool = true;

    #[inline(always)]
    fn prefetch<S: Simd>(&self, at: usize, strip: Strip, step: usize) {
        let point = strip.share::<S>(step);
        ask(self.mesh, &self.u, at, point);
        ask(self.mesh, &self.r, at, point);
    }

    #[inline(always)]
    fn pack<S: Simd>(&self, simd: S, at: usize, strip: Strip, state: &mut [S::f64s], w: &mut [S::f64s]) {
        pack(simd, (self.mesh, &self.u, at), strip, state);
        pack(simd, (self.mesh, &self.r, at), strip, w);
    }

    #[inline(always)]
    fn unpack<S: Simd>(&mut self, _: S, _: usize, _: Strip, _: &[S::f64s]) {}
}

/// The backward sweep that finds w in its bundles, and updates u.
pub(crate) struct Scatter<'a> {
    /// The first row of the block.
    pub(crate) first: usize,
    /// Of u.
    pub(crate) block: Block<'a>,
}

impl Access for Scatter<'_> {
    const KEPT: bool = true;

    #[inline(always)]
    fn prefetch<S: Simd>(&self, at: usize, strip: Strip, step: usize) {
        ask_block(&self.block[at], strip.within(self.first).share::<S>(step));
    }

    #[inline(always)]
    fn pack<S: Simd>(&self, simd: S, at: usize, strip: Strip, state: &mut [S::f64s], _: &mut [S::f64s]) {
        pack_block(simd, &self.block[at], strip.within(self.first), state);
    }

    #[inline(always)]
    fn unpack<S: Simd>(&mut self, simd: S, at: usize, strip: Strip, w: &[S::f64s]) {
        let factor = Lane::splat(simd, UPDATE);
        for (m, u) in self.block[at].iter_mut().enumerate() {
            strip.within(self.first).unpack(
                simd,
                u,
                w,
                (m, COMPONENTS),
                #[inline(always)]
                |u, w| update(factor, w, u),
            );
        }
    }
}

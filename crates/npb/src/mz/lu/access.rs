//! Where the numbers of LU's sweeps come from and go to: arrays stage by stage, or bundles kept in between.

use pulp::Simd;

use super::UPDATE;
use super::ssor::{Access, FIELDS, W};
use super::wavefront::Strip;
use crate::mz::components::Components;
use crate::mz::lanes::Lane;
use crate::mz::physics::Mesh;
use crate::mz::rows::Block;

/// The points of one plane of constant z.
#[inline(always)]
fn plane<'a>(mesh: &Mesh, component: &'a [f64], k: usize) -> &'a [f64] {
    let points = mesh.shape.nx * mesh.shape.ny;
    &component[k * points..(k + 1) * points]
}

/// Packs a plane's rows of an array into the fields from `field` on.
#[inline(always)]
fn pack<S: Simd>(
    simd: S,
    (mesh, array, k): (&Mesh, &Components<'_>, usize),
    strip: Strip,
    bundle: &mut [S::f64s],
    field: usize,
) {
    for (m, component) in array.iter().enumerate() {
        strip.pack(simd, plane(mesh, component, k), bundle, (field + m, FIELDS));
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
    fn pack<S: Simd>(&self, simd: S, at: usize, strip: Strip, bundle: &mut [S::f64s]) {
        pack(simd, (self.mesh, &self.u, at), strip, bundle, 0);
        match &self.r {
            Some(r) => pack(simd, (self.mesh, r, at), strip, bundle, W),
            None => {
                for (m, w) in self.block[at].iter().enumerate() {
                    strip.within(self.first).pack(simd, w, bundle, (W + m, FIELDS));
                }
            }
        }
    }

    #[inline(always)]
    fn unpack<S: Simd>(&mut self, simd: S, at: usize, strip: Strip, bundle: &[S::f64s]) {
        for (m, w) in self.block[at].iter_mut().enumerate() {
            strip.within(self.first).unpack(
                simd,
                w,
                bundle,
                (W + m, FIELDS),
                #[inline(always)]
                |_, new| new,
            );
        }
    }
}

/// The forward sweep that leaves its w in the bundles.
#[derive(Clone)]
pub(crate) struct Gather<'a> {
    pub(crate) mesh: &'a Mesh,
    pub(crate) u: Components<'a>,
    pub(crate) r: Components<'a>,
}

impl Access for Gather<'_> {
    const KEPT: bool = true;

    #[inline(always)]
    fn pack<S: Simd>(&self, simd: S, at: usize, strip: Strip, bundle: &mut [S::f64s]) {
        pack(simd, (self.mesh, &self.u, at), strip, bundle, 0);
        pack(simd, (self.mesh, &self.r, at), strip, bundle, W);
    }

    #[inline(always)]
    fn unpack<S: Simd>(&mut self, _: S, _: usize, _: Strip, _: &[S::f64s]) {}
}

/// The backward sweep that finds u and w in the bundles, and updates the array u.
pub(crate) struct Scatter<'a> {
    /// The first row of the block.
    pub(crate) first: usize,
    /// Of u.
    pub(crate) block: Block<'a>,
}

impl Access for Scatter<'_> {
    const KEPT: bool = true;

    #[inline(always)]
    fn pack<S: Simd>(&self, _: S, _: usize, _: Strip, _: &mut [S::f64s]) {}

    #[inline(always)]
    fn unpack<S: Simd>(&mut self, simd: S, at: usize, strip: Strip, bundle: &[S::f64s]) {
        let factor = Lane::splat(simd, UPDATE);
        for (m, u) in self.block[at].iter_mut().enumerate() {
            strip.within(self.first).unpack(
                simd,
                u,
                bundle,
                (W + m, FIELDS),
                #[inline(always)]
                |u, w| factor.mul_add(w, u),
            );
        }
    }
}

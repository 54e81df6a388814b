//! SP's sweep in z, within rows of constant y, with one line per lane.
//!
//! Lines are solved in place, in whole rows that include the lines at the rows' ends, whose solution is zero.
//! Planes that are far apart tend to evict each other from the cache. So elimination keeps the values that it reads
//! from the planes for use in substitution.

use pulp::Simd;

use super::penta::{Weights, eliminate, prepare, stored, substitute};
use super::sweep::vectors;
use super::transforms::{Constants, Flow, State, leave};
use crate::mz::columns::{Columns, Few, Together};
use crate::mz::components::{Components, ComponentsMut};
use crate::mz::in_z::{InZ, Rows};
use crate::mz::lanes::{Lane, Scratch};
use crate::mz::physics::{COMPONENTS, Mesh};
use crate::mz::prefetch::{asks_for_line, prefetch_far};
use crate::mz::zones::Shape;

/// Number of vectors that elimination keeps per point for substitution: the state, 1/ρ and 1/a.
const KEPT: usize = COMPONENTS + 2;
/// Prefetch distance, in bundles of lines.
const AHEAD: usize = 1;

/// The sweep in z, which also transforms the solution back to the conserved quantities.
#[derive(Clone, Copy)]
pub(crate) struct LinesInZ;

impl InZ for LinesInZ {
    #[inline(always)]
    fn sweep<S: Simd>(self, simd: S, mesh: &Mesh, rows: usize, planes: &mut Rows<'_, '_>, scratch: &mut Scratch) {
        let Shape { nx, ny, nz } = mesh.shape;
        let (plane, length) = (nx * ny, nz - 2);
        // All components have the same length, so one bounds check is enough.
        let far = (length - 1) * plane + rows * nx;
        let lines = Lines { weights: Weights::new(simd, mesh, 2), constants: Constants::new(simd), length };
        match planes {
            Rows::Replace { u, r } => {
                let far = tabulate!(|m| &u[m][..far]);
                lines.solve(simd, rows * nx, &mut Planes::<false> { near: r, far, plane }, scratch);
            }
            Rows::Add { u, r } => {
                let far = tabulate!(|m| &r[m][..far]);
                lines.solve(simd, rows * nx, &mut Planes::<true> { near: u, far, plane }, scratch);
            }
        }
    }
}

/// The arrays that a sweep reads and writes: [`Rows`] whose variant is known at compile time, because a branch at
/// every number would cost more than the access itself.
struct Planes<'p, 'a, 'r, const ADD: bool> {
    /// The array to write, plane by plane: the state if the solution is added to it, otherwise the right-hand side.
    near: &'p mut [ComponentsMut<'r>],
    /// The other of the two arrays, whose planes are `plane` points apart.
    far: Components<'a>,
    plane: usize,
}

impl<const ADD: bool> Planes<'_, '_, '_, ADD> {
    /// Prefetches plane `k` at a point, if the vector there issues prefetches ([`asks_for_line`]).
    #[inline(always)]
    fn prefetch<S: Simd>(&self, k: usize, point: usize) {
        if !asks_for_line::<S>(point) {
            return;
        }
        unroll!(COMPONENTS, |m| prefetch_far(self.near[k][m], point));
        unroll!(COMPONENTS, |m| prefetch_far(self.far[m], k * self.plane + point));
    }

    /// Loads the state of columns in plane `k`.
    #[inline(always)]
    fn state<S: Simd>(&self, simd: S, columns: impl Columns, k: usize) -> State<S> {
        if ADD { self.near(simd, columns, k) } else { self.far(simd, columns, k) }
    }

    /// Loads the right-hand side of columns in plane `k`.
    #[inline(always)]
    fn right<S: Simd>(&self, simd: S, columns: impl Columns, k: usize) -> State<S> {
        if ADD { self.far(simd, columns, k) } else { self.near(simd, columns, k) }
    }

    /// Stores the solution of columns in plane `k`, where the state is `u`.
    #[inline(always)]
    fn take<S: Simd>(&mut self, columns: impl Columns, k: usize, u: State<S>, solution: State<S>) {
        let near = &mut self.near[k];
        unroll!(COMPONENTS, |m| columns.store(if ADD { u[m] + solution[m] } else { solution[m] }, near[m], 0));
    }

    #[inline(always)]
    fn near<S: Simd>(&self, simd: S, columns: impl Columns, k: usize) -> State<S> {
        let near = &self.near[k];
        tabulate!(|m| columns.load(simd, near[m], 0))
    }

    #[inline(always)]
    fn far<S: Simd>(&self, simd: S, columns: impl Columns, k: usize) -> State<S> {
        tabulate!(|m| columns.load(simd, self.far[m], k * self.plane))
    }
}

/// Parameters that the lines of a zone share.
struct Lines<S: Simd> {
    weights: Weights<S>,
    constants: Constants<S>,
    /// Number of interior points in a line.
    length: usize,
}

impl<S: Simd> Lines<S> {
    /// Solves `columns` lines, bundle by bundle.
    #[inline(always)]
    fn solve<const ADD: bool>(
        &self,
        simd: S,
        columns: usize,
        planes: &mut Planes<'_, '_, '_, ADD>,
        scratch: &mut Scratch,
    ) {
        let vectors = scratch.vectors::<S>(KEPT * self.length + stored(self.length));
        prepare(simd, &mut vectors[KEPT * self.length..]);
        for first in (0..columns).step_by(S::F64_LANES) {
            match columns - first {
                count if count < S::F64_LANES => self.bundle(simd, Few { first, count }, first, planes, vectors),
                _ => self.bundle(simd, Together { first }, first, planes, vectors),
            }
        }
    }

    /// Solves a bundle of lines, whose first line has index `first`.
    #[inline(always)]
    fn bundle<const ADD: bool>(
        &self,
        simd: S,
        columns: impl Columns,
        first: usize,
        planes: &mut Planes<'_, '_, '_, ADD>,
        scratch: &mut [S::f64s],
    ) {
        let Self { weights, constants, length } = self;
        let (kept, stored) = scratch.split_at_mut(KEPT * length);
        let read = &*planes;
        eliminate(
            simd,
            weights,
            *length,
            stored,
            #[inline(always)]
            |k| {
                // Each plane has one cache line per component here, a pattern that no hardware prefetcher predicts.
                read.prefetch::<S>(k, first + (AHEAD + 1) * S::F64_LANES - 1);
                let u = read.state(simd, columns, k);
                let flow = Flow::new(constants, u);
                let kept = &mut kept[k * KEPT..][..KEPT];
                unroll!(COMPONENTS, |m| kept[m] = u[m].value());
                (kept[COMPONENTS], kept[COMPONENTS + 1]) = (flow.volume.value(), flow.slowness.value());
                weights.point(flow.volume, u[3], flow.sound())
            },
            #[inline(always)]
            |k| read.right(simd, columns, k),
        );
        substitute(
            simd,
            *length,
            stored,
            #[inline(always)]
            |k, solution| {
                let kept = &kept[k * KEPT..][..KEPT];
                let u: State<S> = vectors(simd, kept, 0);
                let [volume, slowness] = tabulate!(|n| Lane::new(simd, kept[COMPONENTS + n]));
                let solution = leave(constants, &Flow::known(constants, u, volume, slowness), solution);
                planes.take(columns, k, u, solution);
            },
        );
    }
}

//! The operator's upward sweep through the planes of a zone.
//!
//! Each plane contributes to the sums of its own points, including those in adjacent rows, and to the planes below
//! and above. After that, the sums of the plane below are complete and become r.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::AHEAD;
use super::blocks::{Five, POINTS, add, each_vector, load, row, store, two_away};
use super::planes::{Around, Planes};
use super::residual::Residual;
use super::stencil::{Constants, DissipationWeights, Point};
use super::sums::{Sums, SumsOfRow};
use crate::mz::components::{Components, ComponentsMut, Slab, cut, cut_mut};
use crate::mz::faces::{StatePlane, StatePlanes};
use crate::mz::lanes::{Lane, vectorize};
use crate::mz::physics::{COMPONENTS, Mesh};
use crate::mz::prefetch::prefetch;
use crate::mz::zones::Shape;

/// The operator during its upward sweep through the planes of a zone.
pub struct Operator<'a, S: Simd> {
    simd: S,
    mesh: &'a Mesh,
    u: StatePlanes<'a>,
    forcing: Slab<'a>,
    constants: Constants<S>,
    weights: DissipationWeights,
    planes: Planes<'a>,
    sums: Sums<'a>,
    /// The index one past the last plane to compute.
    end: usize,
}

impl<'a, S: Simd> Operator<'a, S> {
    /// Returns the size of the scratch memory needed, in numbers. The scratch memory must begin at a cache line.
    pub fn numbers(shape: Shape) -> usize {
        Planes::numbers(shape) + Sums::numbers(shape)
    }

    /// Creates an operator that will compute the planes `planes`. `scratch` must have [`Operator::numbers`]
    /// numbers.
    ///
    /// # Panics
    /// Panics if a line of points is too short for the fourth differences near its ends.
    #[inline(always)]
    pub fn new(
        simd: S,
        mesh: &'a Mesh,
        (u, forcing): (StatePlanes<'a>, Slab<'a>),
        scale: f64,
        planes: Range<usize>,
        scratch: &'a mut [f64],
    ) -> Self {
        let Shape { nx, ny, nz } = mesh.shape;
        assert!(
            nx.min(ny).min(nz) >= 6,
            "cannot take fourth differences of a zone of {nx} x {ny} x {nz} points; try 6 or more in each direction"
        );
        let (of_planes, of_sums) = scratch.split_at_mut(Planes::numbers(mesh.shape));
        let mut operator = Self {
            simd,
            mesh,
            u,
            forcing,
            constants: Constants::new(simd, mesh, scale),
            weights: DissipationWeights::new(mesh),
            planes: Planes::new(mesh.shape, of_planes),
            sums: Sums::new(mesh.shape, of_sums),
            end: planes.end,
        };
        vectorize(simd, Begin { operator: &mut operator, first: planes.start });
        operator
    }

    /// Computes the interior of plane `k` of r, which must be the plane above the one computed last. Sets the ends
    /// of the plane's rows to 0.
    #[inline(always)]
    pub fn plane(&mut self, k: usize, r: ComponentsMut<'_>) {
        vectorize(self.simd, Plane { operator: self, k, r });
    }

    /// Adds plane `k`'s contributions to all sums, and copies the plane two above. If `COMPLETE`, this completes
    /// the sums of the plane below, which become `residual`.
    #[inline(always)]
    fn contribute<const COMPLETE: bool>(&mut self, k: usize, mut residual: Residual<'_>) {
        let Shape { nx, ny, nz } = self.mesh.shape;
        // A local copy cannot alias the writes below, so it need not be reloaded after them.
        let constants = self.constants;
        let here = self.u.plane(k);
        let above = (k + 2 < nz - 1).then(
            #[inline(always)]
            || {
                let StatePlane { u, halo } = self.u.plane(k + 2);
                StatePlane { u: cut(u, nx * ny), halo }
            },
        );
        self.outer_row(&here, k, 0);
        for j in 1..ny - 1 {
            self.inner_row::<COMPLETE>(k, j, &constants, above.as_ref(), &mut residual);
            if let Some(above) = &above {
                self.planes.copy_ends(above, k + 2, j);
            }
        }
        self.outer_row(&here, k, ny - 1);
    }

    /// Adds the contributions of an inner row.
    #[inline(always)]
    fn inner_row<const COMPLETE: bool>(
        &mut self,
        k: usize,
        j: usize,
        constants: &Constants<S>,
        above: Option<&StatePlane<'_>>,
        residual: &mut Residual<'_>,
    ) {
        let (simd, nx) = (self.simd, self.mesh.shape.nx);
        let weights = self.weights.row(simd, j, k);
        let zeros = self.planes.zeros();
        let over: [&[[f64; POINTS]]; COMPONENTS] = tabulate!(|m| match above {
            Some(above) => row(above.u[m], nx, j),
            None => zeros,
        });
        let Around { here, y: [south, north], below, above } = self.planes.around(k, j, self.weights.outer(j, k));
        let SumsOfRow { across, own, before, ahead, mut behind } = self.sums.row(k, j);
        let mut residual = residual.row::<COMPLETE>(nx, j);
        let pitch = above.len();
        let zero = Lane::splat(simd, 0.0);
        let mut from_before = [zero; COMPONENTS];
        for b in 0..pitch {
            each_vector::<S>(
                #[inline(always)]
                |l| {
                    let state: Five<S> = load(simd, &here[b + 1], l);
                    let point = Point::new(constants, state);
                    let weights_x = weights.x(b, l);
                    if l == 0 {
                        unroll!(COMPONENTS, |m| prefetch(over[m], b + AHEAD));
                    }

                    let [to_below, to_above] = point.beside(constants, 2, weights.z);
                    if COMPLETE {
                        residual.complete(constants, (b, l), add(load(simd, &across[b], l), to_below));
                    }
                    store(to_above, &mut across[b], l);

                    let [to_before, to_after] = point.beside(constants, 1, weights.y);
                    store(add(behind.get(simd, (b, l)), to_before), &mut before[b], l);
                    let sums = add(load(simd, &own[b], l), load(simd, &ahead[b], l));
                    store(to_after, &mut ahead[b], l);

                    let sums = point.to_itself(constants, weights_x.here, sums);
                    let next_above: Five<S> = tabulate!(|m| Lane::load(simd, &over[m][b], l));
                    store(next_above, &mut above[b], l);
                    let two_away: [Five<S>; 2] = two_away(here, (b, l), state);
                    let [first, last] = weights_x.outer;
                    let sums: Five<S> = tabulate!(|m| {
                        let [before, after] = [two_away[0][m], two_away[1][m]];
                        let sum = last.mul_add(after, first.mul_add(before, sums[m]));
                        let in_y = Lane::load(simd, &south[b][m], l) + Lane::load(simd, &north[b][m], l);
                        let in_z = Lane::load(simd, &below[b][m], l) + next_above[m];
                        constants.outer.mul_add(in_y + in_z, sum)
                    });

                    let [to_before, to_after] = point.beside(constants, 0, weights_x.beside);
                    let sums =
                        tabulate!(|m| sums[m] + to_after[m].one_before(from_before[m]) + to_before[m].one_after(zero));
                    behind.set((b, l), sums, to_before);
                    from_before = to_after;
                },
            );
        }
    }

    /// Adds the contributions of the first or the last row of plane `k`, which is a boundary row, to the adjacent
    /// inner row.
    #[inline(always)]
    fn outer_row(&mut self, plane: &StatePlane<'_>, k: usize, j: usize) {
        let nx = self.mesh.shape.nx;
        let (simd, constants) = (self.simd, &self.constants);
        let weights = self.weights.y(simd, j);
        let points: Components<'_> = match &plane.halo {
            Some([_, _, south, north]) => [*south, *north][usize::from(j > 0)],
            None => tabulate!(|m| &plane.u[m][j * nx..][..nx]),
        };
        let SumsOfRow { before, ahead, behind, .. } = self.sums.row(k, j);
        for (b, before) in before.iter_mut().enumerate() {
            each_vector::<S>(
                #[inline(always)]
                |l| {
                    let i = (b * POINTS + l).min(nx);
                    let point = Point::new(constants, tabulate!(|m| Lane::load_some(simd, points[m], i)));
                    let [to_before, to_after] = point.beside(constants, 1, weights);
                    if j == 0 {
                        store(to_after, &mut ahead[b], l);
                    } else {
                        store(add(behind.get(simd, (b, l)), to_before), before, l);
                    }
                },
            );
        }
    }

    /// Adds plane `k`'s contributions to one adjacent plane. If `COMPLETE`, that is the plane below, whose sums are
    /// then complete and become `residual`; otherwise it is the plane above.
    #[inline(always)]
    fn contribute_across<const COMPLETE: bool>(&mut self, k: usize, mut residual: Residual<'_>) {
        let Shape { nx, ny, .. } = self.mesh.shape;
        let (simd, constants, plane) = (self.simd, &self.constants, self.u.plane(k).u);
        let weights = self.weights.z(simd, k);
        for j in 1..ny - 1 {
            let points: [_; COMPONENTS] = tabulate!(|m| row(plane[m], nx, j));
            let mut residual = residual.row::<COMPLETE>(nx, j);
            for (b, across) in self.sums.row(k, j).across.iter_mut().enumerate() {
                each_vector::<S>(
                    #[inline(always)]
                    |l| {
                        let point = Point::new(constants, tabulate!(|m| Lane::load(simd, &points[m][b], l)));
                        let [to_below, to_above] = point.beside(constants, 2, weights);
                        if COMPLETE {
                            residual.complete(constants, (b, l), add(load(simd, across, l), to_below));
                        } else {
                            store(to_above, across, l);
                        }
                    },
                );
            }
        }
    }
}

/// The start of the sweep, which adds everything that the sums need before the first plane can be completed.
struct Begin<'o, 'a, S: Simd> {
    operator: &'o mut Operator<'a, S>,
    first: usize,
}

impl<V: Simd> WithSimd for Begin<'_, '_, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { operator, first } = self;
        let last = operator.mesh.shape.nz - 2;
        for k in first.saturating_sub(2).max(1)..=(first + 1).min(last) {
            operator.planes.copy(operator.simd, &operator.u, k);
        }
        operator.contribute_across::<false>(first - 1, Residual::default());
        operator.contribute::<false>(first, Residual::default());
    }
}

/// One call of [`Operator::plane`], as a separate function because registers are scarce and the caller needs some
/// for its own values.
struct Plane<'o, 'a, 'r, S: Simd> {
    operator: &'o mut Operator<'a, S>,
    k: usize,
    r: ComponentsMut<'r>,
}

impl<V: Simd> WithSimd for Plane<'_, '_, '_, V> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { operator, k, r } = self;
        let Shape { nx, ny, .. } = operator.mesh.shape;
        let forcing = cut(operator.forcing.plane(k), nx * ny);
        let residual = Residual { forcing, r: cut_mut(r, nx * ny) };
        if k + 1 < operator.end {
            operator.contribute::<true>(k + 1, residual);
        } else {
            operator.contribute_across::<true>(k + 1, residual);
        }
    }
}

//! The spatial operator: r = scale · (S(u) + forcing) at the interior points of a zone.
//!
//! S(u) is the sum over the three directions of central differences of the inviscid fluxes, the viscous terms, and
//! second and fourth differences of u as artificial dissipation (NASA report RNR-94-007, sections 3.2 and 4.2). Its
//! stencil is a star: no point on an edge of the zone is ever read to effect.
//!
//! Planes of constant z are swept upwards. Those around are kept as blocks, each row of the topmost one read just before it is
//! needed; then a row is one loop along x, in vectors, of which the first and the last may reach beyond the row's interior. Each
//! point's fluxes are computed once, and added to the sums of its neighbours: so r is complete a plane behind the one that
//! contributes.
//! Of r, the interior is written, and zeros at the ends of its rows, where r is 0 in all that uses it.

use std::ops::Range;

use ndarray::{ArrayView4, ArrayViewMut4, s};
use pulp::{Simd, WithSimd};

use super::blocks::{Block, Five, POINTS, add, load, row, row_mut, store};
use super::components::{Components, ComponentsMut, Slab, components_mut, for_planes, over_planes};
use super::faces::{State, StatePlane, StatePlanes};
use super::initial::exact_state;
use super::lanes::{Lane, dispatch, vectorize, with_scratch};
use super::physics::{COMPONENTS, Mesh};
use super::planes::{Around, Planes};
use super::prefetch::prefetch;
use super::stencil::{Constants, DissipationWeights, Point};
use super::sums::{Sums, SumsOfRow};
use super::zones::Shape;

/// Sets the interior of `r` to S(u) + forcing, on `threads` threads; of its boundary nothing is changed but to 0. All arrays are
/// `[5, nz, ny, nx]`.
///
/// # Panics
/// If an array does not have the shape of the mesh, or a component of it is not contiguous.
pub(crate) fn residual(
    mesh: &Mesh,
    u: &ArrayView4<'_, f64>,
    forcing: &ArrayView4<'_, f64>,
    r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    residual_of(mesh, &u.into(), forcing, r, threads);
}

/// [`residual`] of a state whose outer faces may be elsewhere.
///
/// # Panics
/// As [`residual`].
pub(crate) fn residual_of(
    mesh: &Mesh,
    u: &State<'_>,
    forcing: &ArrayView4<'_, f64>,
    r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    apply(mesh, u, forcing, 1.0, r, threads);
}

/// [`residual`] in the interior planes `planes` alone: `u` is given whole, `forcing` and `r` in these planes.
///
/// # Panics
/// If an array does not have this shape, or a component of it is not contiguous.
pub(crate) fn residual_in_planes(
    mesh: &Mesh,
    planes: Range<usize>,
    u: &State<'_>,
    forcing: &ArrayView4<'_, f64>,
    r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    apply_in_planes(mesh, planes, u, forcing, 1.0, r, threads);
}

/// Asserts that arrays have the shapes that [`residual_in_planes`] asks for.
pub(crate) fn assert_shapes(mesh: &Mesh, planes: &Range<usize>, [u, forcing, r]: [&[usize]; 3]) {
    let Shape { nx, ny, .. } = mesh.shape;
    let part = [COMPONENTS, planes.len(), ny, nx];
    assert_eq!([u, forcing, r], [mesh.shape.array(), part, part], "shapes in planes {planes:?}");
}

/// Sets the interior of `r` to Δt · (S(u) + forcing): the right-hand side of a step of BT and of SP.
///
/// # Panics
/// As [`residual`].
pub(crate) fn scaled_residual(
    mesh: &Mesh,
    u: &ArrayView4<'_, f64>,
    forcing: &ArrayView4<'_, f64>,
    r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    apply(mesh, &u.into(), forcing, mesh.dt, r, threads);
}

fn apply(
    mesh: &Mesh,
    u: &State<'_>,
    forcing: &ArrayView4<'_, f64>,
    scale: f64,
    mut r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    let interior = s![.., 1..-1, .., ..];
    let planes = 1..mesh.shape.nz - 1;
    apply_in_planes(mesh, planes, u, &forcing.slice(interior), scale, r.slice_mut(interior), threads);
}

fn apply_in_planes(
    mesh: &Mesh,
    planes: Range<usize>,
    u: &State<'_>,
    forcing: &ArrayView4<'_, f64>,
    scale: f64,
    r: ArrayViewMut4<'_, f64>,
    threads: usize,
) {
    assert_shapes(mesh, &planes, [u.u.shape(), forcing.shape(), r.shape()]);
    let Shape { nx, ny, .. } = mesh.shape;
    let (u, forcing) = (u.planes(), Slab::new(planes.start, forcing));
    over_planes(threads, components_mut(r), nx * ny, 0..planes.len(), |share, r| {
        dispatch(nx - 2, InPlanes { mesh, u, forcing, scale, first: planes.start + share.start, r });
    });
}

/// Sets `forcing` to what makes the exact solution a steady state: −S(u) of the exact solution, 0 on the boundary.
///
/// # Panics
/// As [`residual`].
pub(crate) fn force(mesh: &Mesh, mut forcing: ArrayViewMut4<'_, f64>) {
    forcing.fill(0.0);
    let none = forcing.to_owned();
    apply(mesh, &(&exact_state(mesh).view()).into(), &none.view(), -1.0, forcing, 1);
}

/// The planes of `r` from `first` on.
struct InPlanes<'a> {
    mesh: &'a Mesh,
    u: StatePlanes<'a>,
    forcing: Slab<'a>,
    scale: f64,
    first: usize,
    r: ComponentsMut<'a>,
}

impl WithSimd for InPlanes<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { mesh, u, forcing, scale, first, r } = self;
        let plane = mesh.shape.nx * mesh.shape.ny;
        with_scratch(
            #[inline(always)]
            |scratch| {
                let scratch = scratch.numbers(Operator::<S>::numbers(mesh.shape));
                let planes = first..first + r[0].len() / plane;
                let mut operator = Operator::new(simd, mesh, (u, forcing), scale, planes, scratch);
                for_planes(
                    plane,
                    first,
                    r,
                    #[inline(always)]
                    |k, r| operator.plane(k, r),
                );
            },
        );
    }
}

/// How far ahead, in blocks, what is read next is asked for.
const AHEAD: usize = 4;

/// The operator on its way up through the planes of a zone.
pub(crate) struct Operator<'a, S: Simd> {
    simd: S,
    mesh: &'a Mesh,
    u: StatePlanes<'a>,
    forcing: Slab<'a>,
    constants: Constants<S>,
    weights: DissipationWeights,
    planes: Planes<'a>,
    sums: Sums<'a>,
    /// The plane after the last one to be computed.
    end: usize,
}

impl<'a, S: Simd> Operator<'a, S> {
    /// How much scratch is needed, which has to begin at a cache line.
    pub(crate) fn numbers(shape: Shape) -> usize {
        Planes::numbers(shape) + Sums::numbers(shape)
    }

    /// An operator about to compute the planes `planes`, with scratch of [`Operator::numbers`].
    ///
    /// # Panics
    /// If a line of points is shorter than the fourth differences beside its ends are long.
    #[inline(always)]
    pub(crate) fn new(
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
            "a zone of {nx} x {ny} x {nz} points is too thin: there must be 6 in each direction"
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

    /// Sets the interior of plane `k` of r, the plane above the last one computed, and the ends of its rows to 0.
    #[inline(always)]
    pub(crate) fn plane(&mut self, k: usize, r: ComponentsMut<'_>) {
        vectorize(self.simd, Plane { operator: self, k, r });
    }

    /// Adds what plane `k` contributes to all sums that it has part in, and copies the one two above. If there is a `RESULT`, it is
    /// that of the plane below.
    #[inline(always)]
    fn contribute<const RESULT: bool>(&mut self, k: usize, mut result: Result<'_>) {
        let Shape { ny, nz, .. } = self.mesh.shape;
        // A copy, which what is written cannot change: so it need not be read again.
        let constants = self.constants;
        let here = self.u.plane(k);
        let above = (k + 2 < nz - 1).then(
            #[inline(always)]
            || self.u.plane(k + 2),
        );
        self.outer_row(&here, k, 0);
        for j in 1..ny - 1 {
            self.inner_row::<RESULT>(k, j, &constants, above.as_ref(), &mut result);
            if let Some(above) = &above {
                self.planes.copy_ends(above, k + 2, j);
            }
        }
        self.outer_row(&here, k, ny - 1);
    }

    /// The contributions of an inner row.
    #[inline(always)]
    fn inner_row<const RESULT: bool>(
        &mut self,
        k: usize,
        j: usize,
        constants: &Constants<S>,
        above: Option<&StatePlane<'_>>,
        result: &mut Result<'_>,
    ) {
        let (simd, nx) = (self.simd, self.mesh.shape.nx);
        let weights = self.weights.row(simd, j, k);
        let zeros = self.planes.zeros();
        let over: [&[[f64; POINTS]]; COMPONENTS] = tabulate!(|m| match above {
            Some(above) => row(above.u[m], nx, j),
            None => zeros,
        });
        let Around { here, y: [south, north], below, above } = self.planes.around(k, j, self.weights.outer(j, k));
        let SumsOfRow { across, own, before, ahead, behind } = self.sums.row(k, j);
        let mut result = result.row::<RESULT>(nx, j);
        let pitch = above.len();
        let zero = Lane::splat(simd, 0.0);
        let mut from_before = [zero; COMPONENTS];
        for b in 0..pitch {
            for l in (0..POINTS).step_by(S::F64_LANES) {
                let state: Five<S> = load(simd, &here[b + 1], l);
                let point = Point::new(constants, state);
                let weights_x = weights.x(b, l);
                unroll!(COMPONENTS, |m| prefetch(over[m], b + AHEAD));

                let [to_below, to_above] = point.beside(constants, 2, weights.z);
                if RESULT {
                    result.complete(constants, (b, l), add(load(simd, &across[b], l), to_below));
                }
                store(to_above, &mut across[b], l);

                let [to_before, to_after] = point.beside(constants, 1, weights.y);
                store(add(load(simd, &behind[b + 1], l), to_before), &mut before[b], l);
                let sums = add(load(simd, &own[b], l), load(simd, &ahead[b], l));
                store(to_after, &mut ahead[b], l);

                let sums = point.to_itself(constants, weights_x.here, sums);
                let next_above: Five<S> = tabulate!(|m| Lane::load(simd, &over[m][b], l));
                store(next_above, &mut above[b], l);
                let two_away: [Five<S>; 2] = two_away(simd, here, (b, l), state);
                let [first, last] = weights_x.outer;
                let sums: Five<S> = tabulate!(|m| {
                    let [before, after] = [two_away[0][m], two_away[1][m]];
                    let sum = last.mul_add(after, first.mul_add(before, sums[m]));
                    let in_y = Lane::load(simd, &south[b][m], l) + Lane::load(simd, &north[b][m], l);
                    let in_z = Lane::load(simd, &below[b][m], l) + next_above[m];
                    constants.outer.mul_add(in_y + in_z, sum)
                });

                let [to_before, to_after] = point.beside(constants, 0, weights_x.beside);
                // The last lane's sum still lacks what the next vector contributes, and gets it then.
                let (block, lane) = if l == 0 { (b, POINTS - 1) } else { (b + 1, l - 1) };
                unroll!(COMPONENTS, |m| behind[block][m][lane] += to_before[m].first());
                let sums =
                    tabulate!(|m| { sums[m] + to_after[m].one_before(from_before[m]) + to_before[m].one_after(zero) });
                store(sums, &mut behind[b + 1], l);
                from_before = to_after;
            }
        }
    }

    /// What the first or the last row of plane `k`, which are boundary, contributes to the next one inside.
    #[inline(always)]
    fn outer_row(&mut self, plane: &StatePlane<'_>, k: usize, j: usize) {
        let Shape { nx, ny, .. } = self.mesh.shape;
        let (simd, constants) = (self.simd, &self.constants);
        let weights = self.weights.y(simd, j);
        let points: Components<'_> = match &plane.halo {
            Some([_, _, south, north]) => {
                if j == 0 {
                    *south
                } else {
                    *north
                }
            }
            None => tabulate!(|m| &plane.u[m][j * nx..][..nx]),
        };
        let SumsOfRow { before, ahead, behind, .. } = self.sums.row(k, j);
        for (b, before) in before.iter_mut().enumerate() {
            for l in (0..POINTS).step_by(S::F64_LANES) {
                let i = (b * POINTS + l).min(nx);
                let point = Point::new(constants, tabulate!(|m| Lane::load_some(simd, points[m], i)));
                let [to_before, to_after] = point.beside(constants, 1, weights);
                if j == 0 {
                    store(to_after, &mut ahead[b], l);
                } else {
                    debug_assert_eq!(j, ny - 1);
                    store(add(load(simd, &behind[b + 1], l), to_before), before, l);
                }
            }
        }
    }

    /// What plane `k` contributes to the one below, which is `result`, or if there is no `RESULT`, to the one above.
    #[inline(always)]
    fn contribute_across<const RESULT: bool>(&mut self, k: usize, mut result: Result<'_>) {
        let Shape { nx, ny, .. } = self.mesh.shape;
        let (simd, constants, plane) = (self.simd, &self.constants, self.u.plane(k).u);
        let weights = self.weights.z(simd, k);
        for j in 1..ny - 1 {
            let points: [_; COMPONENTS] = tabulate!(|m| row(plane[m], nx, j));
            let mut result = result.row::<RESULT>(nx, j);
            for (b, across) in self.sums.row(k, j).across.iter_mut().enumerate() {
                for l in (0..POINTS).step_by(S::F64_LANES) {
                    let point = Point::new(constants, tabulate!(|m| Lane::load(simd, &points[m][b], l)));
                    let [to_below, to_above] = point.beside(constants, 2, weights);
                    if RESULT {
                        result.complete(constants, (b, l), add(load(simd, across, l), to_below));
                    } else {
                        store(to_above, across, l);
                    }
                }
            }
        }
    }
}

/// The states two before and two after those from the `l`-th point of block `b` on, which are `state`; `here` has a block before
/// the first one.
#[inline(always)]
fn two_away<S: Simd>(simd: S, here: &[Block], (b, l): (usize, usize), state: Five<S>) -> [Five<S>; 2] {
    let lanes = S::F64_LANES;
    let before = if l == 0 { (b, POINTS - lanes) } else { (b + 1, l - lanes) };
    let after = if l + lanes == POINTS { (b + 2, 0) } else { (b + 1, l + lanes) };
    let [before, after]: [Five<S>; 2] = tabulate!(|side| {
        let (block, l) = [before, after][side];
        load(simd, &here[block], l)
    });
    let mut two_away = [state; 2];
    unroll!(COMPONENTS, |m| {
        if let Some([first, .., last]) = Lane::sides([before[m], state[m], after[m]]) {
            (two_away[0][m], two_away[1][m]) = (first, last);
        } else {
            let at = {
                #[inline(always)]
                |first: usize| {
                    let numbers: [f64; POINTS] = tabulate!(|lane| {
                        let at = first + lane % lanes;
                        here[at / POINTS][m][at % POINTS]
                    });
                    Lane::load(simd, &numbers, 0)
                }
            };
            let i = (b + 1) * POINTS + l;
            (two_away[0][m], two_away[1][m]) = (at(i - 2), at(i + 2));
        }
    });
    two_away
}

/// A plane of r, and what belongs to it.
#[derive(Default)]
struct Result<'a> {
    forcing: Components<'a>,
    r: ComponentsMut<'a>,
}

/// A row of it, eight points at a time.
struct ResultRow<'a> {
    nx: usize,
    forcing: [&'a [[f64; POINTS]]; COMPONENTS],
    r: [&'a mut [[f64; POINTS]]; COMPONENTS],
}

impl Result<'_> {
    /// Row `j` of `nx` points, if there is a `RESULT`.
    #[inline(always)]
    fn row<const RESULT: bool>(&mut self, nx: usize, j: usize) -> ResultRow<'_> {
        if !RESULT {
            return ResultRow { nx, forcing: Default::default(), r: Default::default() };
        }
        let forcing = tabulate!(|m| row(self.forcing[m], nx, j));
        let r = self.r.each_mut().map(
            #[inline(always)]
            |r| row_mut(r, nx, j),
        );
        ResultRow { nx, forcing, r }
    }
}

impl ResultRow<'_> {
    /// Sets r from the `l`-th point of block `b` on, and to 0 at the ends of the row.
    #[inline(always)]
    fn complete<S: Simd>(&mut self, constants: &Constants<S>, (b, l): (usize, usize), sums: Five<S>) {
        let scale = constants.scale;
        let simd = scale.simd();
        let i = b * POINTS + l;
        let end = (self.nx - 1).saturating_sub(i).min(S::F64_LANES);
        let interior = simd.mask_between_m64s(u64::from(i == 0), end as u64).mask();
        unroll!(COMPONENTS, |m| prefetch(self.forcing[m], b + AHEAD));
        unroll!(COMPONENTS, |m| prefetch(self.r[m], b + AHEAD));
        let r: Five<S> = tabulate!(|m| (sums[m] + Lane::load(simd, &self.forcing[m][b], l)) * scale);
        unroll!(COMPONENTS, |m| {
            let r = simd.select_f64s(interior, r[m].value(), simd.splat_f64s(0.0));
            Lane::new(simd, r).store(&mut self.r[m][b], l);
        });
    }
}

/// The beginning: what is in the sums before the first plane is complete.
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
        operator.contribute_across::<false>(first - 1, Result::default());
        operator.contribute::<false>(first, Result::default());
    }
}

/// One call of [`Operator::plane`], a function of its own: registers are few, and its caller's numbers want some too.
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
        let result = Result { forcing: operator.forcing.plane(k), r };
        if k + 1 < operator.end {
            operator.contribute::<true>(k + 1, result);
        } else {
            operator.contribute_across::<true>(k + 1, result);
        }
    }
}

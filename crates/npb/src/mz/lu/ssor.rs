//! One sweep of symmetric successive over-relaxation through a block of rows, plane after plane.
//!
//! Forward, w ← D⁻¹ (Δt r + contributions of the points before); backward, w ← w + D⁻¹ (contributions of the points
//! after). A plane is swept strip by strip (see [`super::wavefront`]). When a strip's w is found, its
//! contributions to the three next points are computed at once, since they share most of the work: in x they stay in
//! registers; in y they shift by a lane, and leave the strip through the `edge`; in z they wait in `ahead` for
//! the next plane, whose strips have the same steps.
//!
//! Invariant: at lanes outside the interior w is exactly 0, so they contribute exactly 0.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::jacobian::{Coefficients, Flow, State};
use super::wavefront::{Shift, Strip};
use crate::mz::lanes::{Lane, MAX_LANES, Scratch, dispatch};
use crate::mz::physics::{COMPONENTS, Mesh};

/// Fields of a bundle: the state u, then w.
pub(crate) const FIELDS: usize = 2 * COMPONENTS;
/// Where w begins among them.
pub(crate) const W: usize = COMPONENTS;

/// From where to where a sweep goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From small to large indices, with the lower matrices.
    Forward,
    /// From large to small indices, with the upper matrices.
    Backward,
}

/// A block of rows during a step, with its scratch memory.
#[derive(Debug, Default)]
pub(crate) struct Front {
    /// Points of a row, its boundary points included.
    nx: usize,
    /// The rows of the block.
    rows: Range<usize>,
    /// Bundles of one strip, or of all strips of all planes.
    bundles: Scratch,
    /// Per strip: what the plane before contributes, `[step][component]`.
    ahead: Scratch,
    /// Where lanes are at interior points, of the first strip and of the last one, which may have fewer rows.
    masks: Scratch,
    /// Per plane of a slab: what enters from the block before, and later what leaves for the one after.
    pub(crate) edge: Vec<f64>,
}

/// Where a sweep's numbers come from and go to; `at` is the number of the plane.
pub(crate) trait Access: Sync {
    /// Whether bundles of all strips are kept from the forward to the backward sweep.
    const KEPT: bool;

    /// Packs a strip before its sweep.
    fn pack<S: Simd>(&self, simd: S, at: usize, strip: Strip, bundle: &mut [S::f64s]);

    /// Unpacks a strip after its sweep.
    fn unpack<S: Simd>(&mut self, simd: S, at: usize, strip: Strip, bundle: &[S::f64s]);
}

impl Front {
    /// Makes ready to sweep `rows` of rows of `nx` points, with the edges of slabs of `slab` planes.
    pub(crate) fn prepare(&mut self, nx: usize, rows: Range<usize>, slab: usize) {
        (self.nx, self.rows) = (nx, rows);
        self.edge.clear();
        self.edge.resize(slab * edge_len(nx), 0.0);
    }

    /// Sweeps the planes `planes`; `first` if they are the sweep's first ones. `scale` is the factor of w on entry.
    pub(crate) fn sweep<A: Access>(
        &mut self,
        mesh: &Mesh,
        direction: Direction,
        planes: Range<usize>,
        first: bool,
        access: &mut A,
    ) {
        dispatch(self.nx - 2, Sweep { front: self, mesh, direction, planes, first, access });
    }
}

/// Numbers of the edge of one plane, for any number of lanes: a vector per step and component, and some steps
/// before and after.
fn edge_len(nx: usize) -> usize {
    (nx + 3 * MAX_LANES) * COMPONENTS * MAX_LANES
}

/// One call of [`Front::sweep`].
struct Sweep<'a, A> {
    front: &'a mut Front,
    mesh: &'a Mesh,
    direction: Direction,
    planes: Range<usize>,
    first: bool,
    access: &'a mut A,
}

impl<A: Access> WithSimd for Sweep<'_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.direction {
            Direction::Forward => self.run::<S, false>(simd),
            Direction::Backward => self.run::<S, true>(simd),
        }
    }
}

impl<A: Access> Sweep<'_, A> {
    #[inline(always)]
    fn run<S: Simd, const BACKWARD: bool>(self, simd: S) {
        let Self { front: Front { nx, rows, bundles, ahead, masks, edge }, mesh, planes, first, access, .. } = self;
        let steps = Strip::steps::<S>(*nx);
        let strips = rows.len().div_ceil(S::F64_LANES);

        let interior = mesh.shape.nz - 2;
        let kept = if A::KEPT { interior * strips } else { 1 };
        let bundles = bundles.vectors::<S>(kept * steps * FIELDS);
        let ahead = ahead.vectors::<S>(strips * steps * COMPONENTS);
        let masks = masks.vectors::<S>(2 * steps);
        if first {
            ahead.fill(simd.splat_f64s(0.0));
            strip_of::<S>(rows, 0, *nx).mask::<S>(&mut masks[..steps]);
            strip_of::<S>(rows, strips - 1, *nx).mask::<S>(&mut masks[steps..]);
        }

        let c = Coefficients::new(simd, mesh, BACKWARD);
        let dt = Lane::splat(simd, mesh.dt);
        for (n, edge) in edge.chunks_exact_mut(edge_len(*nx)).enumerate().take(planes.len()) {
            let plane = if BACKWARD { planes.end - 1 - n } else { planes.start + n };
            for n in 0..strips {
                let number = if BACKWARD { strips - 1 - n } else { n };
                let slot = if A::KEPT { (plane - 1) * strips + number } else { 0 };
                let bundle = &mut bundles[slot * steps * FIELDS..][..steps * FIELDS];
                let mask = if number + 1 == strips { &masks[steps..] } else { &masks[..steps] };
                let ahead = &mut ahead[number * steps * COMPONENTS..][..steps * COMPONENTS];
                let strip = strip_of::<S>(rows, number, *nx);
                access.pack(simd, plane, strip, bundle);
                sweep_strip::<S, BACKWARD>(simd, &c, dt, bundle, mask, ahead, edge);
                access.unpack(simd, plane, strip, bundle);
            }
        }
    }
}

/// The strip with number `number` of a block of rows.
#[inline(always)]
fn strip_of<S: Simd>(rows: &Range<usize>, number: usize, nx: usize) -> Strip {
    let begin = rows.start + number * S::F64_LANES;
    Strip::new(begin..(begin + S::F64_LANES).min(rows.end), nx)
}

/// Sweeps one strip.
#[inline(always)]
fn sweep_strip<S: Simd, const BACKWARD: bool>(
    simd: S,
    c: &Coefficients<S>,
    dt: Lane<S>,
    bundle: &mut [S::f64s],
    mask: &[S::f64s],
    ahead: &mut [S::f64s],
    edge: &mut [f64],
) {
    let lanes = S::F64_LANES;
    let steps = mask.len();
    let zero = [Lane::splat(simd, 0.0); COMPONENTS];
    let shift = Shift::new(simd);
    let (mut along_x, mut along_y) = (zero, zero);
    for n in 0..steps {
        let step = if BACKWARD { steps - 1 - n } else { n };
        let fields = &mut bundle[step * FIELDS..][..FIELDS];
        let ahead = &mut ahead[step * COMPONENTS..][..COMPONENTS];
        let valid = Lane::new(simd, mask[step]);

        // The strip before left its edge in the same steps, but its last row is as many steps late as there are lanes
        // between; the edge begins that many steps before the strip.
        let own = (step + lanes - 1) * COMPONENTS * lanes;
        let entering = if BACKWARD { step } else { step + 2 * (lanes - 1) } * COMPONENTS * lanes;
        let entering = &edge[entering..][..COMPONENTS * lanes];
        let contributed: State<S> = tabulate!(|m| {
            let along_y = if BACKWARD {
                shift.down(along_y[m], entering[m * lanes])
            } else {
                shift.up(along_y[m], entering[m * lanes + lanes - 1])
            };
            along_x[m] + (along_y + Lane::new(simd, ahead[m]))
        });

        let flow = Flow::new(c, tabulate!(|m| Lane::new(simd, fields[m])));
        let w: State<S> = tabulate!(|m| Lane::new(simd, fields[W + m]));
        let w = if BACKWARD {
            let correction = flow.solve(c, tabulate!(|m| valid * contributed[m]));
            tabulate!(|m| valid.mul_add(w[m], correction[m]))
        } else {
            flow.solve(c, tabulate!(|m| valid * dt.mul_add(w[m], contributed[m])))
        };

        let along_z;
        [along_x, along_y, along_z] = flow.contributions(c, w);
        let own = &mut edge[own..][..COMPONENTS * lanes];
        unroll!(COMPONENTS, |m| {
            fields[W + m] = w[m].value();
            ahead[m] = along_z[m].value();
            along_y[m].store(own, m * lanes);
        });
    }
}

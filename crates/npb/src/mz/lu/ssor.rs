//! One sweep of symmetric successive over-relaxation through a block of rows, strip after strip.
//!
//! Forward, w ← D⁻¹ (Δt r + contributions of the points before); backward, w ← w + D⁻¹ (contributions of the points
//! after). A strip (see [`super::wavefront`]) goes through all planes before the next one does. When a point's w is found,
//! its contributions to the three next points are computed at once, since they share most of the work: in x they stay in
//! registers; in y they shift by a lane, and leave the strip through its plane's `edge`; in z they wait in `ahead` for
//! the next plane, where the strip has the same steps.
//!
//! Invariant: at lanes outside the interior w is exactly 0, so they contribute exactly 0.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::jacobian::{Coefficients, Flow, State};
use super::wavefront::{Shift, Strip};
use crate::mz::lanes::{Lane, MAX_LANES, Scratch, dispatch};
use crate::mz::physics::{COMPONENTS, Mesh};
use crate::mz::prefetch::prefetch;

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
    /// The state in one strip of one plane.
    state: Scratch,
    /// w in one strip of one plane, or in all strips of all planes.
    w: Scratch,
    /// Per strip: what the plane before contributes, `[step][component]`.
    ahead: Scratch,
    /// Where lanes are at interior points, of the first strip and of the last one, which may have fewer rows.
    masks: Scratch,
    /// Per plane of a slab: what enters from the block before, and later what leaves for the one after.
    pub(crate) edge: Vec<f64>,
}

/// Where a sweep's numbers come from and go to; `at` is the number of the plane.
pub(crate) trait Access: Sync {
    /// Whether the bundles of w of all strips are kept from the forward to the backward sweep.
    const KEPT: bool;

    /// Asks for a step's share of what [`Access::pack`] reads.
    fn prefetch<S: Simd>(&self, at: usize, strip: Strip, step: usize);

    /// Packs the state, and w unless it is there already, before the sweep of a strip.
    fn pack<S: Simd>(&self, simd: S, at: usize, strip: Strip, state: &mut [S::f64s], w: &mut [S::f64s]);

    /// Unpacks w after the sweep of a strip.
    fn unpack<S: Simd>(&mut self, simd: S, at: usize, strip: Strip, w: &[S::f64s]);
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

/// Numbers of the edge of one plane, for any number of lanes: one per step and component, and some steps before and after.
fn edge_len(nx: usize) -> usize {
    (nx + 3 * MAX_LANES) * COMPONENTS
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
        let Self { front: Front { nx, rows, state, w, ahead, masks, edge }, mesh, planes, first, access, .. } = self;
        let (steps, stored) = (Strip::steps::<S>(*nx), Strip::stored::<S>(*nx) * COMPONENTS);
        let strips = rows.len().div_ceil(S::F64_LANES);

        let interior = mesh.shape.nz - 2;
        let state = state.vectors::<S>(stored);
        let w = w.vectors::<S>(if A::KEPT { interior * strips * stored } else { stored });
        let ahead = ahead.vectors::<S>(strips * steps * COMPONENTS);
        let masks = masks.vectors::<S>(2 * steps);
        if first {
            ahead.fill(simd.splat_f64s(0.0));
            strip_of::<S>(rows, 0, *nx).mask::<S>(&mut masks[..steps]);
            strip_of::<S>(rows, strips - 1, *nx).mask::<S>(&mut masks[steps..]);
        }

        let c = Coefficients::new(simd, mesh, BACKWARD);
        let dt = Lane::splat(simd, mesh.dt);
        // The m-th plane of the n-th strip that the sweep comes to.
        let turn = {
            #[inline(always)]
            |n: usize, m: usize| match BACKWARD {
                true => (strips - 1 - n, planes.end - 1 - m),
                false => (n, planes.start + m),
            }
        };
        for n in 0..strips {
            for (m, edge) in edge.chunks_exact_mut(edge_len(*nx)).enumerate().take(planes.len()) {
                let (number, plane) = turn(n, m);
                let strip = strip_of::<S>(rows, number, *nx);
                let next =
                    if m + 1 < planes.len() { Some(turn(n, m + 1)) } else { (n + 1 < strips).then(|| turn(n + 1, 0)) };
                let next = next.map(|(number, plane)| (strip_of::<S>(rows, number, *nx), plane));

                let mask = if number + 1 == strips { &masks[steps..] } else { &masks[..steps] };
                let ahead = &mut ahead[number * steps * COMPONENTS..][..steps * COMPONENTS];
                let slot = if A::KEPT { number * interior + plane - 1 } else { 0 };
                let (before, from) = w.split_at_mut(slot * stored);
                let (w, after) = from.split_at_mut(stored);
                // What is kept of the next plane, or will be.
                let next_w = if BACKWARD { &before[before.len().saturating_sub(stored)..] } else { &*after };
                access.pack(simd, plane, strip, state, w);
                let ask = {
                    #[inline(always)]
                    |step| {
                        if let Some((strip, plane)) = next {
                            access.prefetch::<S>(plane, strip, step);
                        }
                        if A::KEPT {
                            unroll!(COMPONENTS, |c| prefetch(next_w, step * COMPONENTS + c));
                        }
                    }
                };
                sweep_strip::<S, BACKWARD>(&c, dt, (state, w, mask, ahead, edge), ask);
                access.unpack(simd, plane, strip, w);
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

/// Sweeps one strip; at each step, `ask` asks for what comes later.
#[inline(always)]
fn sweep_strip<S: Simd, const BACKWARD: bool>(
    c: &Coefficients<S>,
    dt: Lane<S>,
    (state, w, mask, ahead, edge): (&[S::f64s], &mut [S::f64s], &[S::f64s], &mut [S::f64s], &mut [f64]),
    ask: impl Fn(usize),
) {
    let (simd, lanes) = (dt.simd(), S::F64_LANES);
    let steps = mask.len();
    let zero = [Lane::splat(simd, 0.0); COMPONENTS];
    let shift = Shift::new(simd);
    let (mut along_x, mut along_y) = (zero, zero);
    for n in 0..steps {
        let step = if BACKWARD { steps - 1 - n } else { n };
        ask(step);
        let (state, fields) = (&state[step * COMPONENTS..][..COMPONENTS], &mut w[step * COMPONENTS..][..COMPONENTS]);
        let ahead = &mut ahead[step * COMPONENTS..][..COMPONENTS];
        let valid = simd.less_than_f64s(simd.splat_f64s(0.0), mask[step]);
        let inside = {
            #[inline(always)]
            |number: Lane<S>| Lane::new(simd, simd.select_f64s(valid, number.value(), simd.splat_f64s(0.0)))
        };

        // The strip before left its edge in the same steps, but its last row is as many steps late as there are lanes
        // between; the edge begins that many steps before the strip.
        let own = (step + lanes - 1) * COMPONENTS;
        let entering = if BACKWARD { step } else { step + 2 * (lanes - 1) } * COMPONENTS;
        let entering = &edge[entering..][..COMPONENTS];
        let flow = Flow::new(c, tabulate!(|m| Lane::new(simd, state[m])));
        let w: State<S> = tabulate!(|m| Lane::new(simd, fields[m]));
        // What comes from the step before comes last: the other sums do not wait for it.
        let contributed: State<S> = tabulate!(|m| {
            let along_z = Lane::new(simd, ahead[m]);
            let other = if BACKWARD { along_z } else { dt.mul_add(w[m], along_z) };
            let along_y = if BACKWARD {
                shift.enter_last(entering[m], along_y[m])
            } else {
                shift.enter_first(entering[m], along_y[m])
            };
            inside(along_x[m] + (along_y + other))
        });
        let mut change = flow.solve(c, contributed);
        if BACKWARD {
            change = change + flow.change(tabulate!(|m| inside(w[m])));
        }
        let w = flow.vector(&change);

        let along_z;
        [along_x, along_y, along_z] = flow.contributions(c, w, &change);
        let own = &mut edge[own..][..COMPONENTS];
        unroll!(COMPONENTS, |m| {
            fields[m] = w[m].value();
            ahead[m] = along_z[m].value();
            // Forward the last lane leaves the strip, and has come to the first one by then; backward the first leaves.
            let shifted = if BACKWARD { shift.down(along_y[m]) } else { shift.up(along_y[m]) };
            own[m] = if BACKWARD { along_y[m] } else { shifted }.first();
            along_y[m] = shifted;
        });
    }
}

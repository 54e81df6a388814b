//! A sweep of symmetric successive over-relaxation through a block of rows, strip by strip.
//!
//! The forward sweep computes w ← D⁻¹ (Δt r + contributions of the points before), and the backward sweep w ← w +
//! D⁻¹ (contributions of the points after). A strip (see [`super::wavefront`]) passes through all planes of a slab
//! before the next strip does. As soon as a point's w is known, its contributions to the next points in x, y and z
//! are computed together, because they share most of the work. Contributions in x stay in registers. Contributions
//! in y shift by a lane, and leave the strip through the slab's `edge`. Contributions in z wait in `ahead` for the
//! next turn, whose steps visit the same points in the next plane.
//!
//! Invariant: w is exactly 0 in lanes outside the interior, so these lanes contribute exactly 0.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::jacobian::Coefficients;
use super::turn::Turning;
use super::wavefront::{Strip, Turn, turn_len};
use crate::mz::lanes::{Choice, Lane, MAX_LANES, Scratch, dispatch, vectorize};
use crate::mz::physics::{COMPONENTS, Mesh};
use crate::mz::prefetch::{asks_for_line, prefetch};

/// Direction of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From small to large indices, with the lower matrices.
    Forward,
    /// From large to small indices, with the upper matrices.
    Backward,
}

/// The division of planes into slabs, which a zone's blocks of rows sweep one at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slabs {
    /// All planes.
    planes: Range<usize>,
    /// Number of planes per slab. The last slab may have fewer.
    share: usize,
}

impl Slabs {
    /// Divides planes into slabs of `share` planes.
    pub(crate) fn new(planes: Range<usize>, share: usize) -> Self {
        Self { planes, share }
    }

    /// Returns the number of slabs.
    pub(crate) fn count(&self) -> usize {
        self.planes.len().div_ceil(self.share)
    }

    /// Returns the planes of a slab, whose index `number` counts from below.
    fn planes(&self, number: usize) -> Range<usize> {
        let first = self.planes.start + number * self.share;
        first..(first + self.share).min(self.planes.end)
    }

    /// Returns how many steps a strip takes through all slabs below slab `number`, if rows have `nx` points.
    fn steps_below<S: Simd>(&self, number: usize, nx: usize) -> usize {
        (number * self.share).min(self.planes.len()) * turn_len::<S>(nx) + number * S::F64_LANES
    }
}

/// A block of rows during a step, with its scratch memory.
#[derive(Debug, Default)]
pub(crate) struct Front {
    /// Number of points in a row, including boundary points.
    nx: usize,
    /// The rows of the block.
    rows: Range<usize>,
    slabs: Slabs,
    /// The packed state for one turn of one strip.
    state: Scratch,
    /// The packed w for one turn of one strip, or for all turns of all strips.
    w: Scratch,
    /// Per strip, the contributions from the previous plane, as `[step][component]`.
    ahead: Scratch,
    /// Masks of the lanes that are at interior points, in three kinds: for a slab's first turn, its last turn, and
    /// all other turns. They are kept for the first strip and for the last strip, which may have fewer rows.
    masks: Scratch,
    /// The edge of a slab: at first the contributions that enter from the previous block, and later those that
    /// leave for the next block.
    pub(crate) edge: Vec<f64>,
}

/// Source and destination of a sweep's numbers.
pub(crate) trait Access: Sync {
    /// Whether all strips' bundles of w are kept from the forward to the backward sweep.
    const KEPT: bool;

    /// Prefetches one step's share of the numbers that [`Access::pack`] will read for a strip in a plane.
    fn prefetch<S: Simd>(&self, at: (Strip, usize), step: usize);

    /// Packs the state before a strip's turn is swept, and also w unless it is already packed.
    fn pack<S: Simd>(&self, simd: S, at: (Strip, Turn<usize>), state: &mut [S::f64s], w: &mut [S::f64s]);

    /// Unpacks w after a strip's turn was swept.
    fn unpack<S: Simd>(&mut self, simd: S, at: (Strip, Turn<usize>), w: &[S::f64s]);
}

impl Front {
    /// Prepares to sweep `rows`, which have `nx` points each.
    pub(crate) fn prepare(&mut self, nx: usize, rows: Range<usize>, slabs: &Slabs) {
        /// Total number of extra steps by which an edge extends before and after its strip.
        const MARGIN: usize = 4 * MAX_LANES;
        (self.nx, self.rows, self.slabs) = (nx, rows, slabs.clone());
        self.edge.clear();
        self.edge.resize((slabs.share * (nx - 1).next_multiple_of(MAX_LANES) + MARGIN) * COMPONENTS, 0.0);
    }

    /// Sweeps slab `slab`, counted from below. In sweep direction, this must be the first slab or the successor of
    /// the slab swept last.
    pub(crate) fn sweep<A: Access>(&mut self, mesh: &Mesh, direction: Direction, slab: usize, access: &mut A) {
        dispatch(self.nx - 2, Sweep { front: self, mesh, direction, slab, access });
    }
}

/// One call of [`Front::sweep`].
struct Sweep<'a, A> {
    front: &'a mut Front,
    mesh: &'a Mesh,
    direction: Direction,
    slab: usize,
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
        let Self { front: Front { nx, rows, slabs, state, w, ahead, masks, edge }, mesh, slab, access, .. } = self;
        let (nx, lanes, len) = (*nx, S::F64_LANES, turn_len::<S>(*nx));
        let planes = slabs.planes(slab);
        let (below, all) = (slabs.steps_below::<S>(slab, nx), slabs.steps_below::<S>(slabs.count(), nx));
        let strips = rows.len().div_ceil(lanes);
        let strip_of = {
            #[inline(always)]
            |number: usize| {
                let begin = rows.start + number * lanes;
                Strip::new(begin..(begin + lanes).min(rows.end), nx)
            }
        };
        // Index of the n-th strip in sweep order.
        let number_of = {
            #[inline(always)]
            |n: usize| if BACKWARD { strips - 1 - n } else { n }
        };

        let state = state.vectors::<S>(len * COMPONENTS);
        let w = w.vectors::<S>(if A::KEPT { strips * all } else { len } * COMPONENTS);
        let ahead = ahead.vectors::<S>(strips * len * COMPONENTS);
        let masks = masks.vectors::<S>(2 * masks_len::<S>(nx));
        let (whole, last) = masks.split_at_mut(masks_len::<S>(nx));
        if slab == if BACKWARD { slabs.count() - 1 } else { 0 } {
            ahead.fill(simd.splat_f64s(0.0));
            for (number, masks) in [(0, &mut *whole), (strips - 1, &mut *last)] {
                for (ends, begins) in [(false, true), (true, true), (true, false)] {
                    let turn = Turn { ends: ends.then_some(()), begins: begins.then_some(()) };
                    strip_of(number).mask::<S>(turn, &mut masks[mask_of::<S, _>(&turn, nx)]);
                }
            }
        }

        let c = Coefficients::new(simd, mesh, BACKWARD);
        let dt = Lane::splat(simd, mesh.dt);
        for n in 0..strips {
            let number = number_of(n);
            let strip = strip_of(number);
            let masks = if number + 1 == strips { &*last } else { &*whole };
            let ahead = &mut ahead[number * len * COMPONENTS..][..len * COMPONENTS];
            let mut carried = [[Lane::splat(simd, 0.0); COMPONENTS]; 2];
            for i in 0..=planes.len() {
                let m = if BACKWARD { planes.len() - i } else { i };
                let turn = Turn::new(&planes, m);
                let steps = turn.steps::<S>(nx) * COMPONENTS;

                // The plane that the next turn enters, either in this strip or in the next strip.
                let (next, plane) = (n + (i + 1) / planes.len(), (i + 1) % planes.len());
                let plane = if BACKWARD { planes.end - 1 - plane } else { planes.start + plane };
                let next = (next < strips).then(
                    #[inline(always)]
                    || (strip_of(number_of(next)), plane),
                );

                let at = if A::KEPT { number * all + below + m * len } else { 0 } * COMPONENTS;
                let (before, from) = w.split_at_mut(at);
                let (w, after) = from.split_at_mut(steps);
                // The part of w that the next turn will keep, or has kept.
                let next_w = if BACKWARD { &before[before.len().saturating_sub(len * COMPONENTS)..] } else { &*after };
                access.pack(simd, (strip, turn), &mut state[..steps], w);
                let ask = {
                    #[inline(always)]
                    |step| {
                        if let Some(next) = next
                            && asks_for_line::<S>(step * S::F64_LANES)
                        {
                            access.prefetch::<S>(next, step);
                        }
                        if A::KEPT {
                            unroll!(COMPONENTS, |c| {
                                let vector = step * COMPONENTS + c;
                                if asks_for_line::<S>(vector * S::F64_LANES) {
                                    prefetch(next_w, vector);
                                }
                            });
                        }
                    }
                };
                let mask = &masks[mask_of::<S, _>(&turn, nx)];
                let edge = &mut edge[m * len * COMPONENTS..];
                if BACKWARD && !A::KEPT {
                    clear(simd, mask, w);
                }
                let others = Others::of(&turn, slabs, ahead);
                let (state, ahead, carried) = (&state[..steps], &mut *ahead, &mut carried);
                let turning =
                    Turning::<S, _, BACKWARD> { coefficients: &c, dt, mask, state, w, ahead, edge, carried, ask };
                vectorize(simd, turning);
                if let Some(others) = others {
                    others.put_back(simd, mask, ahead);
                }
                access.unpack(simd, (strip, turn), w);
            }
        }
    }
}

/// Sets w to 0 at the points of a turn that are not in the interior.
#[inline(always)]
fn clear<S: Simd>(simd: S, mask: &[S::f64s], w: &mut [S::f64s]) {
    for (w, mask) in w.as_chunks_mut::<COMPONENTS>().0.iter_mut().zip(mask) {
        unroll!(COMPONENTS, |m| w[m] = simd.mul_f64s(w[m], *mask));
    }
}

/// Saved contributions that, in some lanes, belong to another slab's turn. They occur in the first block of a
/// slab's first turn and of its last turn.
struct Others<S: Simd>([[S::f64s; COMPONENTS]; MAX_LANES]);

impl<S: Simd> Others<S> {
    /// Saves the contributions before a turn; `None` if the turn cannot overwrite any of them.
    #[inline(always)]
    fn of<T>(turn: &Turn<T>, slabs: &Slabs, ahead: &[S::f64s]) -> Option<Self> {
        let shared = slabs.count() > 1 && (turn.ends.is_none() || turn.begins.is_none());
        shared.then(
            #[inline(always)]
            || {
                let block = &ahead.as_chunks::<COMPONENTS>().0[..S::F64_LANES];
                Self(tabulate!(|step| block[step % S::F64_LANES]))
            },
        )
    }

    /// Restores the contributions in lanes where the turn had no point.
    #[inline(always)]
    fn put_back(&self, simd: S, mask: &[S::f64s], ahead: &mut [S::f64s]) {
        let block = ahead.as_chunks_mut::<COMPONENTS>().0.iter_mut();
        for ((waiting, kept), mask) in block.zip(&self.0).zip(mask).take(S::F64_LANES) {
            let here = Choice::new(simd, simd.less_than_f64s(simd.splat_f64s(0.0), *mask));
            unroll!(COMPONENTS, |m| {
                let [new, kept] = [waiting[m], kept[m]].map(
                    #[inline(always)]
                    |value| Lane::new(simd, value),
                );
                waiting[m] = here.of(new, kept).value();
            });
        }
    }
}

/// Returns the number of masks of a strip, which holds the masks of the three kinds of turns one after the other.
#[inline(always)]
fn masks_len<S: Simd>(nx: usize) -> usize {
    2 * turn_len::<S>(nx) + S::F64_LANES
}

/// Returns the range of a turn's masks within the strip's masks, depending on whether the turn is the first, an
/// intermediate, or the last one.
#[inline(always)]
fn mask_of<S: Simd, T>(turn: &Turn<T>, nx: usize) -> Range<usize> {
    let len = turn_len::<S>(nx);
    match turn {
        Turn { ends: None, .. } => 0..len,
        Turn { begins: Some(_), .. } => len..2 * len,
        Turn { begins: None, .. } => 2 * len..masks_len::<S>(nx),
    }
}

//! SP's pentadiagonal systems, solved with one line per lane and all three matrices of a line at once.
//!
//! Components 1, 2, 3 share a matrix, in which convection has the speed of the flow. In the matrices of components
//! 4 and 5, convection is faster or slower by the speed of sound. Everything else is common to the three matrices
//! (NASA report RNR-94-007, section 4.4). Rows are eliminated in order, without pivoting, and the values needed for
//! substitution are stored per point.
//!
//! The unknowns are the interior points of a line. The boundary values at its ends are zero, so couplings to them
//! vanish: in elimination because nothing precedes the first row, and in substitution because it begins with zeros.

use pulp::Simd;

use super::transforms::State;
use crate::mz::lanes::Lane;
use crate::mz::physics::{C1C5, C34, COMPONENTS, DISSIPATION, EPS4, Mesh};

/// Number of matrices per line.
const MATRICES: usize = 3;
/// Number of vectors stored per point: each matrix's two upper diagonals, and the right-hand sides.
const STORED: usize = 2 * MATRICES + COMPONENTS;

/// Index of the matrix for each component.
const MATRIX: [usize; COMPONENTS] = [0, 0, 0, 1, 2];

/// Coefficients of the matrices of a direction, which are the same at all points of a zone.
#[derive(Clone, Copy)]
pub struct Weights<S: Simd> {
    /// Δt/2h.
    convection: Lane<S>,
    /// For the two diagonals next to the main diagonal, the constant part and the factor of 1/ρ.
    beside: Lane<S>,
    viscosity: Lane<S>,
    /// The outermost diagonals.
    outer: Lane<S>,
    /// For the main diagonal, the constant part in most rows, and in the first and last rows.
    inside: Lane<S>,
    at_end: Lane<S>,
    zero: Lane<S>,
}

impl<S: Simd> Weights<S> {
    /// Returns the coefficients in direction `d`.
    #[inline(always)]
    pub fn new(simd: S, mesh: &Mesh, d: usize) -> Self {
        let (dt, h) = (mesh.dt, mesh.h[d]);
        let diffusion = dt / (h * h);
        let outer = dt * EPS4;
        Self {
            convection: Lane::splat(simd, dt / (2.0 * h)),
            beside: Lane::splat(simd, -diffusion * DISSIPATION[d] - 4.0 * outer),
            viscosity: Lane::splat(simd, -diffusion * C1C5 * C34),
            outer: Lane::splat(simd, outer),
            // 1 + twice the diffusion + 6 (5) outer, given twice (beside + viscosity/ρ).
            inside: Lane::splat(simd, 1.0 - 2.0 * outer),
            at_end: Lane::splat(simd, 1.0 - 3.0 * outer),
            zero: Lane::splat(simd, 0.0),
        }
    }

    /// Returns a point's entries in the matrices, from 1/ρ, the momentum along the line and the speed of sound.
    #[inline(always)]
    pub fn point(&self, volume: Lane<S>, momentum: Lane<S>, sound: Lane<S>) -> Point<S> {
        let flow = self.convection * momentum * volume;
        let beside = self.viscosity.mul_add(volume, self.beside);
        let (above, below) = (beside + flow, beside - flow);
        Point {
            beside,
            above: [above, self.convection.mul_add(sound, above), self.convection.mul_sub_from(sound, above)],
            below: [below, self.convection.mul_sub_from(sound, below), self.convection.mul_add(sound, below)],
        }
    }
}

/// A point's entries in its own row and in those of its neighbours.
#[derive(Clone, Copy)]
pub struct Point<S: Simd> {
    /// The even part of the diagonals next to the main one.
    beside: Lane<S>,
    /// Per matrix, the coupling of the previous row to this point, and of the next row to this point.
    above: [Lane<S>; MATRICES],
    below: [Lane<S>; MATRICES],
}

/// Returns the number of vectors stored for a line of `length` points.
pub const fn stored(length: usize) -> usize {
    // Two empty rows precede the first row, so that the first row needs no special case.
    (length + 2) * STORED
}

/// Prepares the storage of a line for [`eliminate`]. Elimination leaves the prepared part intact, so one call is
/// enough for many lines.
#[inline(always)]
pub fn prepare<S: Simd>(simd: S, rows: &mut [S::f64s]) {
    rows[..2 * STORED].fill(simd.splat_f64s(0.0));
}

/// Eliminates a line of `length` interior points. `point` returns the entries of the points 0 .. `length` − 1, and
/// `right` their right-hand sides; both are called once per point in ascending order. `rows` must have been
/// [`prepare`]d.
///
/// # Panics
/// Panics if the length of `rows` is not [`stored`]`(length)`.
#[inline(always)]
pub fn eliminate<S: Simd>(
    simd: S,
    weights: &Weights<S>,
    length: usize,
    rows: &mut [S::f64s],
    mut point: impl FnMut(usize) -> Point<S>,
    mut right: impl FnMut(usize) -> State<S>,
) {
    let Weights { outer, zero, .. } = *weights;
    assert_eq!(rows.len(), stored(length), "vectors for the rows of a line");
    let (mut next, mut after) = ([zero; MATRICES], [zero; MATRICES]);
    let mut before = [zero; MATRICES];
    let mut here = point(0);
    for l in 0..length {
        let there = if l + 1 < length { point(l + 1) } else { here };
        let constant = if l == 0 || l + 1 == length { weights.at_end } else { weights.inside };
        let diagonal = constant - (here.beside + here.beside);
        let right = right(l);

        let (done, row) = rows[l * STORED..][..3 * STORED].split_at_mut(2 * STORED);
        let (second, first) = done.split_at(STORED);
        let mut lower = [zero; MATRICES];
        let mut inverse = [zero; MATRICES];
        unroll!(MATRICES, |m| {
            lower[m] = outer.mul_sub_from(Lane::new(simd, second[m]), before[m]);
            let diagonal = outer.mul_sub_from(Lane::new(simd, second[MATRICES + m]), diagonal);
            let upper = lower[m].mul_sub_from(after[m], there.above[m]);
            inverse[m] = lower[m].mul_sub_from(next[m], diagonal).recip();
            next[m] = upper * inverse[m];
            after[m] = outer * inverse[m];
            row[m] = next[m].value();
            row[MATRICES + m] = after[m].value();
        });
        unroll!(COMPONENTS, |c| {
            let (m, field) = (MATRIX[c], 2 * MATRICES + c);
            let right = outer.mul_sub_from(Lane::new(simd, second[field]), right[c]);
            let right = lower[m].mul_sub_from(Lane::new(simd, first[field]), right);
            row[field] = (right * inverse[m]).value();
        });
        before = here.below;
        here = there;
    }
}

/// Computes the solution of an eliminated line, and passes it to `give` point by point, in descending order.
#[inline(always)]
pub fn substitute<S: Simd>(simd: S, length: usize, rows: &[S::f64s], mut give: impl FnMut(usize, State<S>)) {
    let zero = [Lane::splat(simd, 0.0); COMPONENTS];
    let (mut next, mut after) = (zero, zero);
    let mut rows = &rows[..stored(length)];
    for l in (0..length).rev() {
        let (before, row) = rows.split_last_chunk::<STORED>().expect("a row for each point");
        rows = before;
        let here: State<S> = tabulate!(|c| {
            let m = MATRIX[c];
            let [to_next, to_after, right] = [row[m], row[MATRICES + m], row[2 * MATRICES + c]];
            let right = Lane::new(simd, to_after).mul_sub_from(after[c], Lane::new(simd, right));
            Lane::new(simd, to_next).mul_sub_from(next[c], right)
        });
        give(l, here);
        (next, after) = (here, next);
    }
}

//! One turn of a strip, in which each point needs the contributions of the previous point.
//!
//! The flow and the diagonal block of a point depend only on its own state. They are computed one step ahead, which
//! gives the processor work while it waits for the results of the previous step. A turn is a separate function, so
//! that the compiler can use all registers for it instead of keeping addresses that only packing and unpacking
//! need.

use pulp::{Simd, WithSimd};

use super::jacobian::{Change, Coefficients, Flow, State};
use super::wavefront::Shift;
use crate::mz::lanes::Lane;
use crate::mz::physics::COMPONENTS;

/// A forward or backward turn through a strip. At each step, `ask` prefetches later data.
pub(super) struct Turning<'a, S: Simd, Ask, const BACKWARD: bool> {
    pub(super) coefficients: &'a Coefficients<S>,
    pub(super) dt: Lane<S>,
    /// Per step, 1 in lanes that are at an interior point, else 0.
    pub(super) mask: &'a [S::f64s],
    /// The state, as `[step][component]`.
    pub(super) state: &'a [S::f64s],
    /// w, as `[step][component]`. In a backward turn, w must be 0 where `mask` is 0.
    pub(super) w: &'a mut [S::f64s],
    /// On entry, the contributions of the previous plane, as `[step][component]`; on exit, those of this plane.
    pub(super) ahead: &'a mut [S::f64s],
    /// On entry, the contributions of the previous strip in y, five numbers per step; on exit, those of this strip.
    pub(super) edge: &'a mut [f64],
    /// On entry, the contributions of the previous turn in x and y; on exit, those of this turn.
    pub(super) carried: &'a mut [State<S>; 2],
    pub(super) ask: Ask,
}

/// The values that depend only on a point's own state.
#[derive(Clone, Copy)]
struct Place<S: Simd> {
    flow: Flow<S>,
    /// The inverse of the point's diagonal block. It is 0 in lanes that are not at an interior point, so that w is
    /// 0 there.
    inverse: Change<S>,
}

impl<S: Simd, Ask: Fn(usize), const BACKWARD: bool> WithSimd for Turning<'_, S, Ask, BACKWARD> {
    type Output = ();

    #[inline(always)]
    fn with_simd<Same: Simd>(self, _: Same) {
        let Self { coefficients, dt, mask, state, w, ahead, edge, carried, ask } = self;
        sweep::<S, BACKWARD>(coefficients, dt, mask, state, w, ahead, edge, carried, ask);
    }
}

/// Performs the turn described by [`Turning`], step by step.
#[expect(clippy::too_many_arguments, reason = "the compiler knows that arguments, unlike fields, do not alias")]
#[inline(always)]
fn sweep<S: Simd, const BACKWARD: bool>(
    c: &Coefficients<S>,
    dt: Lane<S>,
    mask: &[S::f64s],
    state: &[S::f64s],
    w: &mut [S::f64s],
    ahead: &mut [S::f64s],
    edge: &mut [f64],
    carried: &mut [State<S>; 2],
    ask: impl Fn(usize),
) {
    let (simd, lanes) = (dt.simd(), S::F64_LANES);
    let steps = mask.len();
    // All operands are slices of equal length of arrays of five vectors, so hardly any index needs a bounds check.
    let state = &state.as_chunks::<COMPONENTS>().0[..steps];
    let w = &mut w.as_chunks_mut::<COMPONENTS>().0[..steps];
    let ahead = &mut ahead.as_chunks_mut::<COMPONENTS>().0[..steps];
    let edge = &mut edge.as_chunks_mut::<COMPONENTS>().0[..steps + 2 * (lanes - 1)];
    let shift = Shift::new(simd);
    let place = {
        #[inline(always)]
        |step: usize| {
            let flow = Flow::new(c, tabulate!(|m| Lane::new(simd, state[step][m])));
            Place { flow, inverse: flow.inverse(c, Lane::new(simd, mask[step])) }
        }
    };

    let [mut along_x, mut along_y] = *carried;
    let mut next = place(if BACKWARD { steps - 1 } else { 0 });
    for n in 0..steps {
        let step = if BACKWARD { steps - 1 - n } else { n };
        ask(step);
        let Place { flow, inverse } = next;

        // The previous strip stored its edge in the same steps. But its last row lags by one step for each lane
        // after the first, so the edge begins that many steps before the strip.
        let entering = &edge[if BACKWARD { step } else { step + 2 * (lanes - 1) }];
        let (fields, ahead) = (&mut w[step], &mut ahead[step]);
        let w: State<S> = tabulate!(|m| Lane::new(simd, fields[m]));
        // The contribution of the previous step is added last, so that the other sums need not wait for that step.
        let contributed: State<S> = tabulate!(|m| {
            let along_z = Lane::new(simd, ahead[m]);
            let other = if BACKWARD { along_z } else { dt.mul_add(w[m], along_z) };
            let along_y = if BACKWARD {
                shift.enter_last(entering[m], along_y[m])
            } else {
                shift.enter_first(entering[m], along_y[m])
            };
            along_x[m] + (along_y + other)
        });
        let change = flow.change(contributed);
        let change = if BACKWARD { change.mul_add(&inverse, &flow.change(w)) } else { change.mul(&inverse) };
        let w = flow.vector(&change);

        // After the last point, the last point is computed again, which is faster than a branch.
        next = place(if BACKWARD { step.saturating_sub(1) } else { (step + 1).min(steps - 1) });
        let along_z;
        [along_x, along_y, along_z] = flow.contributions(c, w, &change);
        let own = &mut edge[step + lanes - 1];
        unroll!(COMPONENTS, |m| {
            fields[m] = w[m].value();
            ahead[m] = along_z[m].value();
            // In a forward turn, the last lane leaves the strip, and after the shift it is the first lane. In a
            // backward turn, the first lane leaves.
            let shifted = if BACKWARD { along_y[m].down() } else { along_y[m].up() };
            own[m] = if BACKWARD { along_y[m] } else { shifted }.first();
            along_y[m] = shifted;
        });
    }
    *carried = [along_x, along_y];
}

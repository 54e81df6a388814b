//! Completion of a plane of r, which adds the forcing, applies the factor, and sets the ends of rows to 0.

use pulp::Simd;

use super::AHEAD;
use super::blocks::{Five, POINTS, row, row_mut};
use super::stencil::Constants;
use crate::mz::components::{Components, ComponentsMut, each_mut};
use crate::mz::lanes::Lane;
use crate::mz::physics::COMPONENTS;
use crate::mz::prefetch::prefetch;

/// A plane of r, with the corresponding plane of the forcing.
#[derive(Default)]
pub(super) struct Residual<'a> {
    pub(super) forcing: Components<'a>,
    pub(super) r: ComponentsMut<'a>,
}

/// A row of such a plane, eight points at a time.
pub(super) struct ResidualRow<'a> {
    nx: usize,
    forcing: [&'a [[f64; POINTS]]; COMPONENTS],
    r: [&'a mut [[f64; POINTS]]; COMPONENTS],
}

impl Residual<'_> {
    /// Returns inner row `j`, which has `nx` points, or an empty row unless r is to be `COMPLETE`.
    #[inline(always)]
    pub(super) fn row<const COMPLETE: bool>(&mut self, nx: usize, j: usize) -> ResidualRow<'_> {
        if !COMPLETE {
            return ResidualRow { nx, forcing: Default::default(), r: Default::default() };
        }
        let forcing = tabulate!(|m| row(self.forcing[m], nx, j));
        let r = each_mut(
            &mut self.r,
            #[inline(always)]
            |r| row_mut(r, nx, j),
        );
        ResidualRow { nx, forcing, r }
    }
}

impl ResidualRow<'_> {
    /// Sets r starting at point `l` of block `b`. At the ends of the row, r is set to 0.
    #[inline(always)]
    pub(super) fn complete<S: Simd>(&mut self, constants: &Constants<S>, (b, l): (usize, usize), sums: Five<S>) {
        let scale = constants.scale;
        let simd = scale.simd();
        let i = b * POINTS + l;
        let end = (self.nx - 1).saturating_sub(i).min(S::F64_LANES);
        if l == 0 {
            unroll!(COMPONENTS, |m| prefetch(self.forcing[m], b + AHEAD));
            unroll!(COMPONENTS, |m| prefetch(self.r[m], b + AHEAD));
        }
        let r: Five<S> = tabulate!(|m| (sums[m] + Lane::load(simd, &self.forcing[m][b], l)) * scale);
        // On processors without mask registers, masking takes more time than a branch.
        if S::F64_LANES < POINTS && i > 0 && end == S::F64_LANES {
            unroll!(COMPONENTS, |m| r[m].store(&mut self.r[m][b], l));
            return;
        }
        let interior = simd.mask_between_m64s(u64::from(i == 0), end as u64).mask();
        unroll!(COMPONENTS, |m| {
            let r = simd.select_f64s(interior, r[m].value(), simd.splat_f64s(0.0));
            Lane::new(simd, r).store(&mut self.r[m][b], l);
        });
    }
}

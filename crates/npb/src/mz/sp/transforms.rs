//! The similarity transforms between SP's sweeps, which diagonalise the flux Jacobians.
//!
//! In the eigenvectors of every direction, the three waves that move with the flow are components 1, 2, 3, and the
//! sound waves are components 4 and 5 (NASA report NAS-03-010 names the transforms; Pulliam and Chaussee, J.
//! Comput. Phys. 39, 1981, derive them). Each transform is applied at one point, to all lanes.

use pulp::Simd;

use crate::mz::lanes::Lane;
use crate::mz::physics::{C1, C2, COMPONENTS};

/// A vector of the five components.
pub(crate) type State<S> = [Lane<S>; COMPONENTS];

/// √½ and other constants.
#[derive(Clone, Copy)]
pub(crate) struct Constants<S: Simd> {
    half: Lane<S>,
    root: Lane<S>,
    c2: Lane<S>,
    c1c2: Lane<S>,
    /// 1/c₂, the factor of a² in the energy.
    sound: Lane<S>,
}

impl<S: Simd> Constants<S> {
    /// Creates the constants for vectors of `simd`.
    #[inline(always)]
    pub(crate) fn new(simd: S) -> Self {
        Self {
            half: Lane::splat(simd, 0.5),
            root: Lane::splat(simd, std::f64::consts::FRAC_1_SQRT_2),
            c2: Lane::splat(simd, C2),
            c1c2: Lane::splat(simd, C1 * C2),
            sound: Lane::splat(simd, 1.0 / C2),
        }
    }
}

/// The flow at a point, in the quantities that the transforms need.
#[derive(Clone, Copy)]
pub(crate) struct Flow<S: Simd> {
    density: Lane<S>,
    /// 1/ρ.
    pub(crate) volume: Lane<S>,
    pub(crate) velocity: [Lane<S>; 3],
    /// Half the square of the speed.
    kinetic: Lane<S>,
    /// The square of the speed of sound, a², and 1/a.
    sound_squared: Lane<S>,
    pub(crate) slowness: Lane<S>,
}

impl<S: Simd> Flow<S> {
    /// Computes the flow from the state `u`.
    #[inline(always)]
    pub(crate) fn new(c: &Constants<S>, u: State<S>) -> Self {
        let volume = u[0].recip();
        let mut flow = Self::known(c, u, volume, volume);
        flow.slowness = flow.sound_squared.recip_sqrt();
        flow
    }

    /// Returns the speed of sound.
    #[inline(always)]
    pub(crate) fn sound(&self) -> Lane<S> {
        self.sound_squared * self.slowness
    }

    /// Computes the flow from the state `u` and the known values of 1/ρ and 1/a.
    #[inline(always)]
    pub(crate) fn known(c: &Constants<S>, u: State<S>, volume: Lane<S>, slowness: Lane<S>) -> Self {
        let velocity: [Lane<S>; 3] = tabulate!(|d| u[d + 1] * volume);
        let kinetic = c.half * velocity[0].mul_add(u[1], velocity[1].mul_add(u[2], velocity[2] * u[3]));
        Self {
            density: u[0],
            volume,
            velocity,
            kinetic: kinetic * volume,
            sound_squared: c.c1c2 * (u[4] - kinetic) * volume,
            slowness,
        }
    }
}

/// Transforms the conserved quantities to the waves in x ("txinvr").
#[inline(always)]
pub(crate) fn enter<S: Simd>(c: &Constants<S>, flow: &Flow<S>, r: State<S>) -> State<S> {
    let [v1, v2, v3] = flow.velocity;
    let compressibility = c.c2 * flow.slowness * flow.slowness;
    let energy = flow.kinetic.mul_add(r[0], r[4]);
    let energy = v1.mul_sub_from(r[1], v2.mul_sub_from(r[2], v3.mul_sub_from(r[3], energy)));
    let t1 = compressibility * energy;
    let weight = c.root * flow.volume;
    let t2 = weight * v1.mul_add(r[0], -r[1]);
    let t3 = weight * flow.sound() * t1;
    [r[0] - t1, flow.volume * v3.mul_sub_from(r[0], r[3]), flow.volume * v2.mul_add(r[0], -r[2]), t3 - t2, t3 + t2]
}

/// Transforms the waves in x to those in y ("ninvr").
#[inline(always)]
pub(crate) fn x_to_y<S: Simd>(c: &Constants<S>, r: State<S>) -> State<S> {
    let across = c.root * r[2];
    let mean = c.half * (r[3] + r[4]);
    [-r[1], r[0], c.root * (r[3] - r[4]), mean - across, mean + across]
}

/// Transforms the waves in y to those in z ("pinvr").
#[inline(always)]
pub(crate) fn y_to_z<S: Simd>(c: &Constants<S>, r: State<S>) -> State<S> {
    let across = c.root * r[0];
    let mean = c.half * (r[3] + r[4]);
    [c.root * (r[3] - r[4]), -r[2], r[1], mean - across, mean + across]
}

/// Transforms the waves in z back to the conserved quantities ("tzetar").
#[inline(always)]
pub(crate) fn leave<S: Simd>(c: &Constants<S>, flow: &Flow<S>, r: State<S>) -> State<S> {
    let [v1, v2, v3] = flow.velocity;
    let weight = c.root * flow.density;
    let t1 = weight * (r[3] + r[4]) * flow.slowness;
    let t2 = r[2] + t1;
    let t3 = weight * (r[3] - r[4]);
    let turn = flow.density * v1.mul_sub_from(r[1], v2 * r[0]);
    let energy = flow.kinetic.mul_add(t2, v3.mul_add(t3, turn));
    [
        t2,
        flow.density.mul_sub_from(r[1], v1 * t2),
        flow.density.mul_add(r[0], v2 * t2),
        v3.mul_add(t2, t3),
        (c.sound * flow.sound_squared).mul_add(t1, energy),
    ]
}

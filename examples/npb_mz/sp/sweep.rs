//! The sweeps of SP within planes of constant z and within rows of constant y, as many lines at once as there are lanes.
//!
//! What all lines of a plane need of the flow, 1/ρ and the speed of sound, is found once per plane. The transform that
//! follows a sweep is applied to each point of the solution on its way out.
//!
//! Invariant: the right-hand side is 0 on the boundary. So a line through the boundary, which fills a vector that
//! would have lanes to spare, is solved by zero.

use pulp::Simd;

use super::penta::{STORED, Weights, eliminate, substitute};
use super::transforms::{Constants, Flow, State, enter, leave, x_to_y, y_to_z};
use crate::components::{Components, ComponentsMut};
use crate::lanes::{Lane, Scratch, tabulate, unroll};
use crate::lines::Lines;
use crate::physics::{COMPONENTS, Mesh};
use crate::zones::Shape;

/// Fields of a bundle within a plane: 1/ρ, the momentum along the lines, the speed of sound, the right-hand side.
const IN_PLANE: usize = 3 + COMPONENTS;
/// Fields of a bundle in z: the state and the right-hand side.
const IN_ROWS: usize = 2 * COMPONENTS;

/// The flow in a plane, one slice each.
pub(crate) struct FlowPlane<'a> {
    /// 1/ρ.
    pub(crate) volume: &'a mut [f64],
    /// The speed of sound.
    pub(crate) sound: &'a mut [f64],
}

/// A vector of numbers from `at` on, or as many as there are.
#[inline(always)]
fn load<S: Simd>(simd: S, from: &[f64], at: usize) -> Lane<S> {
    if at + S::F64_LANES <= from.len() {
        Lane::load(simd, from, at)
    } else {
        Lane::new(simd, simd.partial_load_f64s(&from[at..]))
    }
}

/// Stores a vector from `at` on, or as many of it as there is room for.
#[inline(always)]
fn store<S: Simd>(simd: S, value: Lane<S>, to: &mut [f64], at: usize) {
    if at + S::F64_LANES <= to.len() {
        value.store(to, at);
    } else {
        simd.partial_store_f64s(&mut to[at..], value.value());
    }
}

/// The state at the points from `at` on.
#[inline(always)]
fn state<S: Simd>(simd: S, u: &Components<'_>, at: usize) -> State<S> {
    tabulate(
        #[inline(always)]
        |m| load(simd, u[m], at),
    )
}

/// Finds the flow in a plane of the state.
#[inline(always)]
pub(crate) fn find_flow<S: Simd>(simd: S, u: Components<'_>, flow: &mut FlowPlane<'_>) {
    let c = Constants::new(simd);
    for at in (0..u[0].len()).step_by(S::F64_LANES) {
        let point = Flow::new(&c, state(simd, &u, at));
        store(simd, point.volume, flow.volume, at);
        store(simd, point.sound, flow.sound, at);
    }
}

/// Transforms the right-hand side in a plane into waves in x, and finds the flow on the way.
#[inline(always)]
pub(crate) fn enter_plane<S: Simd>(simd: S, u: Components<'_>, r: &mut ComponentsMut<'_>, flow: &mut FlowPlane<'_>) {
    let c = Constants::new(simd);
    for at in (0..u[0].len()).step_by(S::F64_LANES) {
        let point = Flow::new(&c, state(simd, &u, at));
        store(simd, point.volume, flow.volume, at);
        store(simd, point.sound, flow.sound, at);
        let right: State<S> = tabulate(
            #[inline(always)]
            |m| load(simd, r[m], at),
        );
        let right = enter(&c, &point, right);
        unroll::<COMPONENTS>(
            #[inline(always)]
            |m| store(simd, right[m], r[m], at),
        );
    }
}

/// Solves the lines in direction `D`, x or y, of one plane, and transforms the solution for the next direction.
#[inline(always)]
pub(crate) fn sweep_plane<S: Simd, const D: usize>(
    simd: S,
    mesh: &Mesh,
    u: Components<'_>,
    flow: &FlowPlane<'_>,
    r: &mut ComponentsMut<'_>,
    scratch: &mut Scratch,
) {
    let Shape { nx, ny, .. } = mesh.shape;
    let weights = Weights::new(simd, mesh, D);
    let c = Constants::new(simd);
    // A row is packed with its ends, the length of which suits vectors better; they are left as they are.
    let (first, total, packed) = if D == 0 { (1, ny - 2, nx) } else { columns::<S>(nx) };
    let (apart, stride, skip, length) = if D == 0 { (nx, 1, 1, nx - 2) } else { (1, nx, 0, ny - 2) };
    let packed = if D == 0 { packed } else { length };
    let (points, stored) = scratch.vectors::<S>(IN_PLANE * packed + STORED * length).split_at_mut(IN_PLANE * packed);
    for begin in (0..total).step_by(S::F64_LANES) {
        let count = S::F64_LANES.min(total - begin);
        let start = if D == 0 { (first + begin) * nx } else { nx + first + begin };
        let lines = Lines::apart(start, apart, count, stride, packed);
        lines.pack(simd, flow.volume, points, (0, IN_PLANE));
        lines.pack(simd, u[D + 1], points, (1, IN_PLANE));
        lines.pack(simd, flow.sound, points, (2, IN_PLANE));
        unroll::<COMPONENTS>(
            #[inline(always)]
            |m| lines.pack(simd, r[m], points, (3 + m, IN_PLANE)),
        );
        let inner = &mut points[skip * IN_PLANE..][..length * IN_PLANE];
        eliminate(
            &weights,
            length,
            stored,
            #[inline(always)]
            |l| {
                let point = &inner[l * IN_PLANE..][..IN_PLANE];
                weights.point(Lane::new(simd, point[0]), Lane::new(simd, point[1]), Lane::new(simd, point[2]))
            },
            #[inline(always)]
            |l| vectors(simd, &inner[l * IN_PLANE..][..IN_PLANE], 3),
        );
        substitute(
            simd,
            length,
            stored,
            #[inline(always)]
            |l, solution| {
                let solution = if D == 0 { x_to_y(&c, solution) } else { y_to_z(&c, solution) };
                let point = &mut inner[l * IN_PLANE..][..IN_PLANE];
                unroll::<COMPONENTS>(
                    #[inline(always)]
                    |m| point[3 + m] = solution[m].value(),
                );
            },
        );
        unroll::<COMPONENTS>(
            #[inline(always)]
            |m| lines.unpack(simd, r[m], points, (3 + m, IN_PLANE)),
        );
    }
}

/// Where the columns of a plane begin that are solved, how many there are, and nothing: with those at the boundary if
/// that makes them fill vectors.
#[inline(always)]
fn columns<S: Simd>(nx: usize) -> (usize, usize, usize) {
    let whole = (nx - 2).next_multiple_of(S::F64_LANES);
    if (nx - 1..=nx).contains(&whole) { (0, whole, 0) } else { (1, nx - 2, 0) }
}

/// Five vectors of a bundle's point from `field` on.
#[inline(always)]
fn vectors<S: Simd>(simd: S, point: &[S::f64s], field: usize) -> State<S> {
    tabulate(
        #[inline(always)]
        |m| Lane::new(simd, point[field + m]),
    )
}

/// Where the sweep in z reads and writes, per plane from the first interior one on.
pub(crate) enum Planes<'a, 'r> {
    /// The state is read, the right-hand side replaced: a stage of its own.
    Replace {
        /// The state's points from the first row on, planes a plane of the zone apart.
        u: Components<'a>,
        /// The right-hand side.
        r: &'a mut [ComponentsMut<'r>],
    },
    /// The right-hand side is read, and the solution added to the state: the end of a step.
    Add {
        /// The state.
        u: &'a mut [ComponentsMut<'r>],
        /// The right-hand side's points from the first row on, planes a plane of the zone apart.
        r: Components<'a>,
    },
}

/// Solves the lines in z of `rows` rows, and transforms the solution back to the conserved quantities.
#[inline(always)]
pub(crate) fn sweep_rows<S: Simd>(
    simd: S,
    mesh: &Mesh,
    rows: usize,
    planes: &mut Planes<'_, '_>,
    scratch: &mut Scratch,
) {
    let Shape { nx, ny, nz } = mesh.shape;
    let weights = Weights::new(simd, mesh, 2);
    let c = Constants::new(simd);
    let (plane, length, total) = (nx * ny, nz - 2, rows * nx);
    let (points, stored) = scratch.vectors::<S>((IN_ROWS + STORED) * length).split_at_mut(IN_ROWS * length);
    for begin in (0..total).step_by(S::F64_LANES) {
        let count = S::F64_LANES.min(total - begin);
        let lines = Lines::apart(begin, 1, count, plane, length);
        unroll::<COMPONENTS>(
            #[inline(always)]
            |m| match planes {
                Planes::Replace { u, r } => {
                    lines.pack(simd, u[m], points, (m, IN_ROWS));
                    lines.pack_planes::<S>(r, m, points, (COMPONENTS + m, IN_ROWS));
                }
                Planes::Add { u, r } => {
                    lines.pack_planes::<S>(u, m, points, (m, IN_ROWS));
                    lines.pack(simd, r[m], points, (COMPONENTS + m, IN_ROWS));
                }
            },
        );
        eliminate(
            &weights,
            length,
            stored,
            #[inline(always)]
            |l| {
                let u: State<S> = vectors(simd, &points[l * IN_ROWS..][..IN_ROWS], 0);
                let flow = Flow::new(&c, u);
                weights.point(flow.volume, u[3], flow.sound)
            },
            #[inline(always)]
            |l| vectors(simd, &points[l * IN_ROWS..][..IN_ROWS], COMPONENTS),
        );
        let add = matches!(planes, Planes::Add { .. });
        substitute(
            simd,
            length,
            stored,
            #[inline(always)]
            |l, solution| {
                let point = &mut points[l * IN_ROWS..][..IN_ROWS];
                let u: State<S> = vectors(simd, point, 0);
                let solution = leave(&c, &Flow::new(&c, u), solution);
                unroll::<COMPONENTS>(
                    #[inline(always)]
                    |m| point[m] = if add { u[m] + solution[m] } else { solution[m] }.value(),
                );
            },
        );
        unroll::<COMPONENTS>(
            #[inline(always)]
            |m| match planes {
                Planes::Replace { r, .. } => lines.unpack_planes::<S>(r, m, points, (m, IN_ROWS)),
                Planes::Add { u, .. } => lines.unpack_planes::<S>(u, m, points, (m, IN_ROWS)),
            },
        );
    }
}

//! The sweeps of SP within planes of constant z and within rows of constant y, as many lines at once as there are lanes.
//!
//! What all lines of a plane need of the flow, 1/ρ and the speed of sound, is found once per plane. The transform that
//! follows a sweep is applied to each point of the solution on its way out.
//!
//! Invariant: the right-hand side is 0 on the boundary. So a line through the boundary, which fills a vector that
//! would have lanes to spare, is solved by zero.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::penta::{Weights, eliminate, stored, substitute};
use super::transforms::{Constants, Flow, State, enter, leave, x_to_y, y_to_z};
use crate::mz::components::{Components, ComponentsMut};
use crate::mz::lanes::{Lane, Scratch};
use crate::mz::lines::Lines;
use crate::mz::physics::{COMPONENTS, Mesh};
use crate::mz::prefetch::prefetch;
use crate::mz::zones::Shape;

/// Fields of a bundle within a plane: 1/ρ, the momentum along the lines, the speed of sound, the right-hand side.
const FIELDS: usize = RIGHT + COMPONENTS;
const VOLUME: usize = 0;
const MOMENTUM: usize = 1;
const SOUND: usize = 2;
const RIGHT: usize = 3;
/// Fields of a bundle in z: the state and the right-hand side.
const IN_ROWS: usize = 2 * COMPONENTS;
/// Bundles of lines across rows that are packed together, so that a cache line is used while it is there: planes far
/// apart tend to displace each other.
const BUNDLES: usize = 4;

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
    tabulate!(|m| load(simd, u[m], at))
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
        let right: State<S> = tabulate!(|m| load(simd, r[m], at));
        let right = enter(&c, &point, right);
        unroll!(COMPONENTS, |m| store(simd, right[m], r[m], at));
    }
}

/// Solves the lines in x of one plane, and transforms the solution into waves in y.
pub(crate) struct SweepX<'a, 'r> {
    pub(crate) mesh: &'a Mesh,
    pub(crate) u: Components<'a>,
    pub(crate) flow: &'a FlowPlane<'a>,
    pub(crate) r: &'a mut ComponentsMut<'r>,
    pub(crate) scratch: &'a mut Scratch,
}

impl WithSimd for SweepX<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { mesh, u, flow, r, scratch } = self;
        let Shape { nx, ny, .. } = mesh.shape;
        let weights = Weights::new(simd, mesh, 0);
        let c = Constants::new(simd);
        let (lines, length) = (ny - 2, nx - 2);
        // Rows are packed with their ends, since whole rows suit vectors better; the ends are left as they are.
        let (points, rows) = scratch.vectors::<S>(FIELDS * nx + stored(length)).split_at_mut(FIELDS * nx);
        for begin in (0..lines).step_by(S::F64_LANES) {
            let lines = Lines::apart((1 + begin) * nx, nx, S::F64_LANES.min(lines - begin), 1, nx);
            lines.pack(simd, flow.volume, points, (VOLUME, FIELDS));
            lines.pack(simd, u[1], points, (MOMENTUM, FIELDS));
            lines.pack(simd, flow.sound, points, (SOUND, FIELDS));
            unroll!(COMPONENTS, |m| lines.pack(simd, r[m], points, (RIGHT + m, FIELDS)));
            let inner = &mut points[FIELDS..][..length * FIELDS];
            solve(
                simd,
                &weights,
                inner,
                rows,
                #[inline(always)]
                |solution| x_to_y(&c, solution),
            );
            unroll!(COMPONENTS, |m| lines.unpack(simd, r[m], points, (RIGHT + m, FIELDS)));
        }
    }
}

/// Solves the lines in y of one plane, and transforms the solution into waves in z.
pub(crate) struct SweepY<'a, 'r> {
    pub(crate) mesh: &'a Mesh,
    pub(crate) u: Components<'a>,
    pub(crate) flow: &'a FlowPlane<'a>,
    pub(crate) r: &'a mut ComponentsMut<'r>,
    pub(crate) scratch: &'a mut Scratch,
}

impl WithSimd for SweepY<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { mesh, u, flow, r, scratch } = self;
        let Shape { nx, ny, .. } = mesh.shape;
        let weights = Weights::new(simd, mesh, 1);
        let c = Constants::new(simd);
        let length = ny - 2;
        let bundle = FIELDS * length;
        let (points, rows) = scratch.vectors::<S>(BUNDLES * bundle + stored(length)).split_at_mut(BUNDLES * bundle);
        for columns in columns::<S>(nx) {
            let part = |j: usize| (j + 1) * nx + columns.start..(j + 1) * nx + columns.end;
            for j in 0..length {
                pack(simd, &flow.volume[part(j)], points, bundle, FIELDS * j + VOLUME);
                pack(simd, &u[2][part(j)], points, bundle, FIELDS * j + MOMENTUM);
                pack(simd, &flow.sound[part(j)], points, bundle, FIELDS * j + SOUND);
                unroll!(COMPONENTS, |m| pack(simd, &r[m][part(j)], points, bundle, FIELDS * j + RIGHT + m));
            }
            for points in points.chunks_exact_mut(bundle).take(columns.len().div_ceil(S::F64_LANES)) {
                solve(
                    simd,
                    &weights,
                    points,
                    rows,
                    #[inline(always)]
                    |solution| y_to_z(&c, solution),
                );
            }
            for j in 0..length {
                unroll!(COMPONENTS, |m| unpack(simd, &mut r[m][part(j)], points, bundle, FIELDS * j + RIGHT + m));
            }
        }
    }
}

/// The columns of a row that are solved, in ranges of some bundles: with those at the boundary if that makes them fill
/// vectors.
#[inline(always)]
fn columns<S: Simd>(nx: usize) -> impl Iterator<Item = Range<usize>> {
    let whole = (nx - 2).next_multiple_of(S::F64_LANES);
    let all = if (nx - 1..=nx).contains(&whole) { 0..whole } else { 1..nx - 1 };
    ranges::<S>(all)
}

/// Ranges of [`BUNDLES`] bundles.
#[inline(always)]
fn ranges<S: Simd>(all: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = all.end;
    all.step_by(BUNDLES * S::F64_LANES).map(move |begin| begin..(begin + BUNDLES * S::F64_LANES).min(end))
}

/// Copies part of a row to the vectors `at` of neighbouring bundles, each of `bundle` vectors.
#[inline(always)]
fn pack<S: Simd>(simd: S, row: &[f64], points: &mut [S::f64s], bundle: usize, at: usize) {
    for (n, begin) in (0..row.len()).step_by(S::F64_LANES).enumerate() {
        points[n * bundle + at] = load(simd, row, begin).value();
    }
}

/// Copies part of a row back from neighbouring bundles.
#[inline(always)]
fn unpack<S: Simd>(simd: S, row: &mut [f64], points: &[S::f64s], bundle: usize, at: usize) {
    for (n, begin) in (0..row.len()).step_by(S::F64_LANES).enumerate() {
        store(simd, Lane::new(simd, points[n * bundle + at]), row, begin);
    }
}

/// Solves the lines of a bundle. The right-hand side is replaced by what `transform` makes of the solution at each
/// point.
#[inline(always)]
fn solve<S: Simd>(
    simd: S,
    weights: &Weights<S>,
    points: &mut [S::f64s],
    rows: &mut [S::f64s],
    transform: impl Fn(State<S>) -> State<S>,
) {
    let length = points.len() / FIELDS;
    eliminate(
        simd,
        weights,
        length,
        rows,
        #[inline(always)]
        |l| {
            let point = &points[l * FIELDS..][..FIELDS];
            let [volume, momentum, sound] =
                [Lane::new(simd, point[VOLUME]), Lane::new(simd, point[MOMENTUM]), Lane::new(simd, point[SOUND])];
            weights.point(volume, momentum, sound)
        },
        #[inline(always)]
        |l| vectors(simd, &points[l * FIELDS..][..FIELDS], RIGHT),
    );
    substitute(
        simd,
        length,
        rows,
        #[inline(always)]
        |l, solution| {
            let point = &mut points[l * FIELDS..][..FIELDS];
            let solution = transform(solution);
            unroll!(COMPONENTS, |m| point[RIGHT + m] = solution[m].value());
        },
    );
}

/// Five vectors of a bundle's point from `field` on.
#[inline(always)]
fn vectors<S: Simd>(simd: S, point: &[S::f64s], field: usize) -> State<S> {
    tabulate!(|m| Lane::new(simd, point[field + m]))
}

/// Where the sweep in z reads and writes, per plane from the first interior one on.
pub(crate) enum Rows<'a, 'r> {
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

impl Rows<'_, '_> {
    /// Asks for the columns that are solved next, in `length` planes of `points` points: in each a few lines, which no processor
    /// foresees.
    #[inline(always)]
    fn prefetch(&self, points: usize, length: usize, columns: &Range<usize>) {
        let (near, far) = match self {
            Rows::Replace { u, r } => (&r[..], u),
            Rows::Add { u, r } => (&u[..], r),
        };
        for (k, near) in near.iter().enumerate().take(length) {
            for (near, far) in near.iter().zip(far) {
                prefetch(&near[columns.clone()]);
                prefetch(&far[k * points..][columns.clone()]);
            }
        }
    }
}

/// Solves the lines in z of `rows` rows, and transforms the solution back to the conserved quantities.
#[inline(always)]
pub(crate) fn sweep_rows<S: Simd>(simd: S, mesh: &Mesh, rows: usize, planes: &mut Rows<'_, '_>, scratch: &mut Scratch) {
    let Shape { nx, ny, nz } = mesh.shape;
    let weights = Weights::new(simd, mesh, 2);
    let c = Constants::new(simd);
    let (plane, length) = (nx * ny, nz - 2);
    let bundle = IN_ROWS * length;
    let vectors_needed = BUNDLES * bundle + 2 * length + stored(length);
    let (points, rest) = scratch.vectors::<S>(vectors_needed).split_at_mut(BUNDLES * bundle);
    let (flows, stored) = rest.split_at_mut(2 * length);
    let mut all = ranges::<S>(0..rows * nx).peekable();
    while let Some(columns) = all.next() {
        for k in 0..length {
            let far = k * plane + columns.start..k * plane + columns.end;
            unroll!(COMPONENTS, |m| {
                let (u, r) = match planes {
                    Rows::Replace { u, r } => (&u[m][far.clone()], &r[k][m][columns.clone()]),
                    Rows::Add { u, r } => (&u[k][m][columns.clone()], &r[m][far.clone()]),
                };
                pack(simd, u, points, bundle, IN_ROWS * k + m);
                pack(simd, r, points, bundle, IN_ROWS * k + COMPONENTS + m);
            });
        }
        if let Some(next) = all.peek() {
            planes.prefetch(plane, length, next);
        }
        let add = matches!(planes, Rows::Add { .. });
        for points in points.chunks_exact_mut(bundle).take(columns.len().div_ceil(S::F64_LANES)) {
            eliminate(
                simd,
                &weights,
                length,
                stored,
                #[inline(always)]
                |l| {
                    let u: State<S> = vectors(simd, &points[l * IN_ROWS..][..IN_ROWS], 0);
                    let flow = Flow::new(&c, u);
                    (flows[2 * l], flows[2 * l + 1]) = (flow.volume.value(), flow.sound.value());
                    weights.point(flow.volume, u[3], flow.sound)
                },
                #[inline(always)]
                |l| vectors(simd, &points[l * IN_ROWS..][..IN_ROWS], COMPONENTS),
            );
            substitute(
                simd,
                length,
                stored,
                #[inline(always)]
                |l, solution| {
                    let point = &mut points[l * IN_ROWS..][..IN_ROWS];
                    let u: State<S> = vectors(simd, point, 0);
                    let [volume, sound] = [Lane::new(simd, flows[2 * l]), Lane::new(simd, flows[2 * l + 1])];
                    let solution = leave(&c, &Flow::known(&c, u, volume, sound), solution);
                    unroll!(COMPONENTS, |m| point[m] = if add { u[m] + solution[m] } else { solution[m] }.value());
                },
            );
        }
        for k in 0..length {
            let target = match planes {
                Rows::Replace { r, .. } => &mut r[k],
                Rows::Add { u, .. } => &mut u[k],
            };
            unroll!(COMPONENTS, |m| unpack(simd, &mut target[m][columns.clone()], points, bundle, IN_ROWS * k + m));
        }
    }
}

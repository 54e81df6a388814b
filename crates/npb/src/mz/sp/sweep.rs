//! SP's sweeps within planes of constant z, with one line per lane.
//!
//! 1/ρ and the speed of sound, which all lines of a plane need, are computed once per plane. In both x and y, lines
//! of several planes are solved together if the lines of one plane would leave lanes idle. The transform that
//! follows a sweep is applied to each point of the solution before it is stored.
//!
//! Invariant: the right-hand side is 0 on the boundary. So a line on the boundary may be included to fill a
//! vector's spare lanes: its solution is zero.

use pulp::{Simd, WithSimd};

use super::penta::{Weights, eliminate, prepare, stored, substitute};
use super::transforms::{Constants, Flow, State, enter, x_to_y, y_to_z};
use crate::mz::columns::{Columns, bundles, solved};
use crate::mz::components::{Components, ComponentsMut, cut, cut_mut, reborrow};
use crate::mz::lanes::Lane;
use crate::mz::lines::Lines;
use crate::mz::physics::{COMPONENTS, Mesh};
use crate::mz::prefetch::{asks_for_line, prefetch_far};
use crate::mz::zones::Shape;
use crate::with_columns;

/// Number of fields in a bundle within a plane: 1/ρ, the momentum along the lines, the speed of sound, and the
/// right-hand side.
const FIELDS: usize = RIGHT + COMPONENTS;
const VOLUME: usize = 0;
const MOMENTUM: usize = 1;
const SOUND: usize = 2;
const RIGHT: usize = 3;

/// Prefetch distance, in points.
const AHEAD: usize = 256;

/// The flow in one plane or several consecutive planes, as one slice per quantity.
pub(crate) struct FlowPlane<'a> {
    /// 1/ρ.
    pub(crate) volume: &'a mut [f64],
    /// The speed of sound.
    pub(crate) sound: &'a mut [f64],
}

/// Loads the state at the points starting at `at`.
#[inline(always)]
fn state<S: Simd>(simd: S, u: &Components<'_>, at: usize) -> State<S> {
    tabulate!(|m| Lane::load_some(simd, u[m], at))
}

/// Computes the flow in a plane of the state, and prefetches the right-hand side there.
#[inline(always)]
pub(crate) fn find_flow<S: Simd>(simd: S, u: Components<'_>, r: &ComponentsMut<'_>, flow: &mut FlowPlane<'_>) {
    let c = Constants::new(simd);
    for at in (0..u[0].len()).step_by(S::F64_LANES) {
        if asks_for_line::<S>(at) {
            unroll!(COMPONENTS, |m| prefetch_far(u[m], at + AHEAD));
            unroll!(COMPONENTS, |m| prefetch_far(r[m], at));
        }
        let point = Flow::new(&c, state(simd, &u, at));
        point.volume.store_some(flow.volume, at);
        point.sound().store_some(flow.sound, at);
    }
}

/// Transforms the right-hand side in a plane into waves in x, and computes the flow at the same time. If
/// `is_alone`, both the state and the right-hand side come from memory, so the following points are prefetched.
#[inline(always)]
pub(crate) fn enter_plane<S: Simd>(
    simd: S,
    u: Components<'_>,
    r: &mut ComponentsMut<'_>,
    flow: &mut FlowPlane<'_>,
    is_alone: bool,
) {
    let c = Constants::new(simd);
    let points = u[0].len();
    let (u, mut r) = (cut(u, points), cut_mut(reborrow(r), points));
    let (volume, sound) = (&mut flow.volume[..points], &mut flow.sound[..points]);
    for at in (0..points).step_by(S::F64_LANES) {
        if is_alone && asks_for_line::<S>(at) {
            unroll!(COMPONENTS, |m| prefetch_far(u[m], at + AHEAD));
            unroll!(COMPONENTS, |m| prefetch_far(r[m], at + AHEAD));
        }
        let point = Flow::new(&c, state(simd, &u, at));
        point.volume.store_some(volume, at);
        point.sound().store_some(sound, at);
        let right: State<S> = tabulate!(|m| Lane::load_some(simd, r[m], at));
        let right = enter(&c, &point, right);
        unroll!(COMPONENTS, |m| right[m].store_some(r[m], at));
    }
}

/// Solves the lines in direction `D`, x (0) or y (1), of some planes, and transforms the solution into waves in the
/// next direction.
pub(crate) struct Sweep<'a, 'r, const D: usize> {
    pub(crate) mesh: &'a Mesh,
    pub(crate) planes: usize,
    pub(crate) u: Components<'a>,
    pub(crate) flow: &'a FlowPlane<'a>,
    pub(crate) r: &'a mut ComponentsMut<'r>,
    /// Scratch memory for [`scratch_vectors`] vectors, aligned to a cache line.
    pub(crate) scratch: &'a mut [f64],
}

/// Returns the number of scratch vectors that a sweep in x or y needs.
pub(crate) fn scratch_vectors(Shape { nx, ny, .. }: Shape) -> usize {
    (FIELDS * nx + stored(nx - 2)).max(stored(ny - 2))
}

impl WithSimd for Sweep<'_, '_, 0> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { mesh, planes, u, flow, r, scratch } = self;
        let Shape { nx, ny, .. } = mesh.shape;
        let weights = Weights::new(simd, mesh, 0);
        let c = Constants::new(simd);
        let (lines, length) = (ny - 2, nx - 2);
        // Rows are packed including their ends, because whole rows suit vectors better. The ends are left
        // unchanged.
        let scratch = bytemuck::cast_slice_mut::<f64, S::f64s>(scratch);
        let (points, rows) = scratch[..FIELDS * nx + stored(length)].split_at_mut(FIELDS * nx);
        prepare(simd, rows);
        let end = planes * lines;
        for begin in (0..end).step_by(S::F64_LANES) {
            let numbers = begin..end.min(begin + S::F64_LANES);
            let lines = Lines::in_planes((nx, nx, lines), nx * ny, numbers, nx);
            let fields = [flow.volume, u[1], flow.sound, r[0], r[1], r[2], r[3], r[4]];
            lines.pack(simd, fields, points, (VOLUME, FIELDS));
            let inner = &mut points[FIELDS..][..length * FIELDS];
            solve(
                simd,
                &weights,
                inner,
                rows,
                #[inline(always)]
                |solution| x_to_y(&c, solution),
            );
            lines.unpack(simd, reborrow(r), points, (RIGHT, FIELDS));
        }
    }
}

impl WithSimd for Sweep<'_, '_, 1> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { mesh, planes, u, flow, r, scratch } = self;
        let Shape { nx, ny, .. } = mesh.shape;
        let lines =
            LinesInY { length: ny - 2, nx, weights: Weights::new(simd, mesh, 1), constants: Constants::new(simd) };
        let rows = &mut bytemuck::cast_slice_mut::<f64, S::f64s>(scratch)[..stored(lines.length)];
        prepare(simd, rows);
        let points = planes * nx * ny;
        let fields = cut([&*flow.volume, u[2], &*flow.sound], points);
        let r = &mut cut_mut(reborrow(r), points);
        let columns = solved::<S>(nx);
        for bundle in bundles::<S>(planes, nx * ny, nx + columns.start..nx + columns.end) {
            with_columns!(bundle, |columns| lines.solve(simd, columns, &fields, r, rows));
        }
    }
}

/// Parameters that the lines in y of a zone share.
struct LinesInY<S: Simd> {
    /// Number of interior points in a line.
    length: usize,
    /// Distance from one point of a line to the next.
    nx: usize,
    weights: Weights<S>,
    constants: Constants<S>,
}

impl<S: Simd> LinesInY<S> {
    /// Solves a bundle of lines for the right-hand side `r`. This is done in place, because planes are small enough
    /// to stay in the cache. `flow` consists of 1/ρ, the momentum in y, and the speed of sound.
    #[inline(always)]
    fn solve(
        &self,
        simd: S,
        columns: impl Columns,
        flow: &[&[f64]; 3],
        r: &mut ComponentsMut<'_>,
        rows: &mut [S::f64s],
    ) {
        let Self { length, nx, weights, constants } = self;
        eliminate(
            simd,
            weights,
            *length,
            rows,
            #[inline(always)]
            |j| {
                let [volume, momentum, sound] = tabulate!(|f| columns.load(simd, flow[f], j * nx));
                weights.point(volume, momentum, sound)
            },
            #[inline(always)]
            |j| tabulate!(|m| columns.load(simd, r[m], j * nx)),
        );
        substitute(
            simd,
            *length,
            rows,
            #[inline(always)]
            |j, solution| {
                let solution = y_to_z(constants, solution);
                unroll!(COMPONENTS, |m| columns.store(solution[m], r[m], j * nx));
            },
        );
    }
}

/// Solves the lines of a bundle. At each point, the result of applying `transform` to the solution replaces the
/// right-hand side.
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

/// Returns five vectors of a bundle's point, starting at `field`.
#[inline(always)]
pub(super) fn vectors<S: Simd>(simd: S, point: &[S::f64s], field: usize) -> State<S> {
    tabulate!(|m| Lane::new(simd, point[field + m]))
}

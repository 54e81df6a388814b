//! Compares every kernel with the corresponding Rust function on random states, and then verifies whole runs on
//! accelerators.
//!
//! Fields are regions in the middle of larger arrays whose other numbers are NaN. So a kernel that reads beyond a
//! field spoils its result, and a kernel that writes beyond a field overwrites a NaN.

use ndarray::{Array4, ArrayView4, ArrayViewMut4, Axis, s};
use npb::mz::exchange::{Side, inner_face, outer_face};
use npb::mz::initial::exact_state;
use npb::mz::operator::{residual, scaled_residual};
use npb::mz::program::Field;
use npb::mz::{Benchmark, COMPONENTS, Class, Fuse, Mesh, Program, Settings, Shape, Verdict, bt, faces, gpu, lu, sp};
use thalweg::prelude::*;

use crate::testing::accelerated;

/// Zone shapes: the smallest one; shapes smaller and larger than a thread group in some direction, but not a
/// multiple of it; and shapes for LU's blocks.
const SHAPES: [[usize; 3]; 5] = [[6, 6, 6], [7, 9, 8], [13, 21, 16], [70, 6, 7], [36, 40, 11]];

/// A stage on cores and on an accelerator. All stages take the arguments of a step, even if they do not use all of
/// them.
struct Stage {
    name: &'static str,
    benchmark: Benchmark,
    cpu: fn(&Mesh, ArrayViewMut4<'_, f64>, &ArrayView4<'_, f64>, ArrayViewMut4<'_, f64>),
    gpu: gpu::Step,
    /// Whether the stage leaves the last argument in a defined state.
    defines_r: bool,
}

const fn stage(
    name: &'static str,
    benchmark: Benchmark,
    cpu: fn(&Mesh, ArrayViewMut4<'_, f64>, &ArrayView4<'_, f64>, ArrayViewMut4<'_, f64>),
    gpu: gpu::Step,
) -> Stage {
    Stage { name, benchmark, cpu, gpu, defines_r: true }
}

use Benchmark::{Bt, Lu, Sp};
const STAGES: [Stage; 16] = [
    stage("residual", Lu, |m, u, f, r| residual(m, &u.view(), f, r, 1), |m, k, u, f, r| gpu::residual(m, k, &*u, f, r)),
    stage(
        "scaled residual",
        Bt,
        |m, u, f, r| scaled_residual(m, &u.view(), f, r, 1),
        |m, k, u, f, r| gpu::scaled_residual(m, k, &*u, f, r),
    ),
    stage("add", Bt, |_, u, _, r| bt::add(u, &r.view(), 1), |m, k, u, _, r| gpu::add(m, k, u, &*r)),
    stage("bt x", Bt, |m, u, _, r| bt::x_sweep(m, &u.view(), r, 1), |m, k, u, _, r| gpu::bt::sweep(m, 0, k, &*u, r)),
    stage("bt y", Bt, |m, u, _, r| bt::y_sweep(m, &u.view(), r, 1), |m, k, u, _, r| gpu::bt::sweep(m, 1, k, &*u, r)),
    stage("bt z", Bt, |m, u, _, r| bt::z_sweep(m, &u.view(), r, 1), |m, k, u, _, r| gpu::bt::sweep(m, 2, k, &*u, r)),
    Stage { defines_r: false, ..stage("bt step", Bt, |m, u, f, _| bt::step(m, u, None, f, 1), gpu::bt::step) },
    stage(
        "txinvr",
        Sp,
        |m, u, _, r| sp::transform(m, &u.view(), r, 1),
        |m, k, u, _, r| gpu::sp::transform(m, k, &*u, r),
    ),
    stage("sp x", Sp, |m, u, _, r| sp::x_sweep(m, &u.view(), r, 1), |m, k, u, _, r| gpu::sp::sweep(m, 0, k, &*u, r)),
    stage("sp y", Sp, |m, u, _, r| sp::y_sweep(m, &u.view(), r, 1), |m, k, u, _, r| gpu::sp::sweep(m, 1, k, &*u, r)),
    stage("sp z", Sp, |m, u, _, r| sp::z_sweep(m, &u.view(), r, 1), |m, k, u, _, r| gpu::sp::sweep(m, 2, k, &*u, r)),
    Stage { defines_r: false, ..stage("sp step", Sp, |m, u, f, _| sp::step(m, u, None, f, 1), gpu::sp::step) },
    stage(
        "lu forward",
        Lu,
        |m, u, r, w| lu::forward(m, &u.view(), r, w, 1),
        |m, k, u, r, w| gpu::lu::forward(m, k, &*u, r, w),
    ),
    stage(
        "lu backward",
        Lu,
        |m, u, _, w| lu::backward(m, &u.view(), w, 1),
        |m, k, u, _, w| gpu::lu::backward(m, k, &*u, w),
    ),
    stage("lu add", Lu, |_, u, _, w| lu::add(&w.view(), u, 1), |m, k, u, _, w| gpu::lu::add(m, k, u, &*w)),
    stage("lu step", Lu, |m, u, f, r| lu::step(m, u, None, f, r, 1), gpu::lu::step),
];

/// Everything is in one test, so that the kernels are compiled one after the other before runs launch several of
/// them at the same time.
#[test]
fn kernels_match_host_stages() {
    let Some(rt) = accelerated("1:OPENCL:1") else { return };
    for [nx, ny, nz] in SHAPES {
        for stage in &STAGES {
            let points = [2 * nx + 3, 2 * ny + 1, nz];
            let dt = if stage.benchmark == Lu { 0.5 } else { 0.01 };
            compare(&rt, stage, &Mesh::new(stage.benchmark, Shape { nx, ny, nz }, points, [2, 2], dt));
        }
    }
    faces_are_copied(&rt);
    faces_are_sent_and_received(&rt);
    drop(rt);
    for benchmark in [Bt, Sp, Lu] {
        for fuse in [Fuse::Whole, Fuse::Batch, Fuse::Step, Fuse::Stages] {
            for units in ["1:OPENCL:1", "1:CPU:1,1:OPENCL:1"] {
                run_is_verified(benchmark, fuse, units);
            }
        }
    }
}

fn compare(rt: &Runtime, stage: &Stage, mesh: &Mesh) {
    let mut random = random();
    let mut u = exact_state(mesh).mapv(|value| value * (1.0 + 0.02 * random()));
    let mut inside = |scale: f64| {
        let mut field = Array4::zeros(mesh.shape.array());
        field.slice_mut(s![.., 1..-1, 1..-1, 1..-1]).mapv_inplace(|_: f64| scale * random());
        field
    };
    let (forcing, mut r) = (inside(1.0), inside(0.01));
    let data = [&u, &forcing, &r].map(|field| placed(rt, field));

    (stage.cpu)(mesh, u.view_mut(), &forcing.view(), r.view_mut());
    let (gpu, mesh) = (stage.gpu, *mesh);
    let [state, forcing, right] = data.each_ref().map(|data| data.block(middle(mesh.shape)));
    rt.task(stage.name, (state.inout(), forcing.input(), right.inout()))
        .gpu(move |k, (mut u, forcing, mut r)| gpu(&mesh, k, &mut u, &forcing, &mut r))
        .submit()
        .unwrap();
    let [state, _, right] = data;
    let what = format!("{} of {:?}", stage.name, mesh.shape);
    assert_same(&found(rt, state), &u, &format!("u after {what}"));
    let right = found(rt, right);
    if stage.defines_r {
        assert_same(&right, &r, &format!("r after {what}"));
    }
}

fn faces_are_copied(rt: &Runtime) {
    let shapes = [Shape { nx: 9, ny: 37, nz: 8 }, Shape { nx: 140, ny: 37, nz: 8 }, Shape { nx: 9, ny: 7, nz: 8 }];
    let mut random = random();
    let mut fields = shapes.map(|shape| Array4::from_shape_simple_fn(shape.array(), &mut random));
    let data = fields.each_ref().map(|field| placed(rt, field));
    let all = |(m, z, y, x): npb::mz::exchange::Face| (m.start + 1..m.end + 1, z, y, x);
    for (side, neighbour) in [(Side::West, 1), (Side::East, 1), (Side::South, 2), (Side::North, 2)] {
        let (from, to) = (inner_face(shapes[neighbour], side), outer_face(shapes[0], side));
        rt.task("face", (data[neighbour].block(all(from.clone())).input(), data[0].block(all(to.clone())).output()))
            .gpu(|k, (from, mut to)| gpu::copy(k, &from, &mut to))
            .submit()
            .unwrap();
        let source = fields[neighbour].clone();
        let ((m, z, y, x), (tm, tz, ty, tx)) = (from, to);
        fields[0].slice_mut(s![tm, tz, ty, tx]).assign(&source.slice(s![m, z, y, x]));
    }
    for (data, field) in data.into_iter().zip(&fields) {
        assert_eq!(found(rt, data), field);
    }
}

fn faces_are_sent_and_received(rt: &Runtime) {
    for [nx, ny, nz] in SHAPES {
        let shape = Shape { nx, ny, nz };
        let mesh = Mesh::new(Sp, shape, [2 * nx, 2 * ny, nz], [2, 2], 0.01);
        let mut random = random();
        let mut u = Array4::from_shape_simple_fn(shape.array(), &mut random);
        let data = placed(rt, &u);
        let sent: [Field; 4] = faces::shapes(shape).map(|shape| rt.zeros(shape));
        let [west, east, south, north] = sent.each_ref().map(Data::output);
        rt.task("send", (data.block(middle(shape)).input(), west, east, south, north))
            .gpu(move |k, (u, mut west, mut east, mut south, mut north)| {
                gpu::faces::send(&mesh, k, &u, [&mut west, &mut east, &mut south, &mut north])
            })
            .submit()
            .unwrap();
        // The zone receives the faces that it has sent to itself.
        let [west, east, south, north] = sent.each_ref().map(Data::input);
        rt.task("receive", (data.block(middle(shape)).inout(), west, east, south, north))
            .gpu(move |k, (mut u, west, east, south, north)| {
                gpu::faces::receive(&mesh, k, [&west, &east, &south, &north], &mut u)
            })
            .submit()
            .unwrap();
        let mut expected = faces::shapes(shape).map(Array4::zeros);
        faces::send(&u.view(), expected.each_mut().map(|face| face.view_mut()));
        assert_eq!(sent.map(|face| rt.take(face).unwrap()), expected, "sent of {shape:?}");
        faces::receive(u.view_mut(), faces::Halo::new(shape, expected.each_ref().map(|face| face.view())));
        assert_eq!(found(rt, data), u, "received by {shape:?}");
    }
}

fn run_is_verified(benchmark: Benchmark, fuse: Fuse, units: &str) {
    let Some(rt) = accelerated(units) else { return };
    let problem = benchmark.problem(Class::S);
    let settings = Settings { steps: problem.steps, fuse, periods: false, replay: false };
    let (_, norms) = Program::new(&rt, benchmark, &problem, settings).run(|| ()).unwrap();
    let verdict = Verdict::new(&problem, &norms);
    assert!(verdict.verified() && verdict.difference() < 1e-11, "{benchmark:?} {fuse:?} {units}: {verdict}");
}

/// Returns the position of a field within the array that [`placed`] makes.
fn middle(Shape { nx, ny, nz }: Shape) -> npb::mz::exchange::Face {
    (1..COMPONENTS + 1, 0..nz, 0..ny, 0..nx)
}

/// Creates an array with the field between two components of NaN, all of it on the accelerator.
fn placed(rt: &Runtime, field: &Array4<f64>) -> Field {
    let (components, nz, ny, nx) = field.dim();
    let mut array = Array4::from_elem([components + 2, nz, ny, nx], f64::NAN);
    array.slice_mut(s![1..-1, .., .., ..]).assign(field);
    let data = rt.array(array);
    rt.task("place", (data.inout(),)).gpu(|_, _| ()).submit().unwrap();
    data
}

/// Returns the field within an array that [`placed`] made.
fn found(rt: &Runtime, data: Field) -> Array4<f64> {
    let array = rt.take(data).unwrap();
    for edge in [0, array.len_of(Axis(0)) - 1] {
        assert!(array.index_axis(Axis(0), edge).iter().all(|value| value.is_nan()), "a kernel wrote beyond the field");
    }
    array.slice(s![1..-1, .., .., ..]).to_owned()
}

/// Asserts that the components agree up to rounding, relative to the largest of their numbers.
fn assert_same(found: &Array4<f64>, expected: &Array4<f64>, what: &str) {
    for (m, (found, expected)) in found.outer_iter().zip(expected.outer_iter()).enumerate() {
        let largest = expected.iter().fold(0.0, |largest, value| f64::max(largest, value.abs()));
        let close = |(found, expected): (&f64, &f64)| (found - expected).abs() <= 1e-13 * largest;
        assert!(found.iter().zip(expected).all(close), "component {m} of {what}");
    }
}

/// Returns a fixed sequence of numbers between -1 and 1: the generator xorshift64 (Marsaglia, J. Stat. Softw. 8
/// (14), 2003).
fn random() -> impl FnMut() -> f64 {
    let mut state = 88_172_645_463_325_252_u64;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

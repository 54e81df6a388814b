//! Tests SP stage by stage, as a whole, and on several threads, and compares its line solver with the matrices of
//! the systems that it solves.

use ndarray::Array4;
use npb::mz::lanes::{Lane, dispatch};
use npb::mz::operator::scaled_residual;
use npb::mz::physics::{C1C5, C34, DISSIPATION, EPS4};
use npb::mz::sp::penta::{Weights, eliminate, prepare, stored, substitute};
use npb::mz::sp::{add, transform, x_sweep, y_sweep, z_sweep};
use npb::mz::{Benchmark, Class, Fuse, Mesh, Verdict, Zones, run_serially};
use proptest::prelude::*;
use pulp::{Simd, WithSimd};

use crate::golden::Golden;

#[test]
fn stages_reproduce_reference_sums() {
    let golden = Golden::of(Benchmark::Sp);
    let known = golden.zones();
    let mut zones = Zones::new(Benchmark::Sp, &Benchmark::Sp.problem(Class::S));
    for step in 1..=2 {
        zones.in_loop().exchange();
        for (number, zone) in zones.zones.iter_mut().enumerate() {
            let mesh = zone.mesh;
            let check = |stage: &str, array: &Array4<f64>| {
                if known.contains(&number) {
                    golden.check(step, stage, number, &array.view());
                }
            };
            check("uexch", &zone.u);
            scaled_residual(&mesh, &zone.u.view(), &zone.forcing.view(), zone.r.view_mut(), 1);
            check("rhs", &zone.r);
            transform(&mesh, &zone.u.view(), zone.r.view_mut(), 1);
            check("txinvr", &zone.r);
            x_sweep(&mesh, &zone.u.view(), zone.r.view_mut(), 1);
            check("xsolve", &zone.r);
            y_sweep(&mesh, &zone.u.view(), zone.r.view_mut(), 1);
            check("ysolve", &zone.r);
            z_sweep(&mesh, &zone.u.view(), zone.r.view_mut(), 1);
            check("zsolve", &zone.r);
            add(zone.u.view_mut(), &zone.r.view(), 1);
            check("unew", &zone.u);
        }
    }
}

#[test]
fn class_s_is_verified() {
    let problem = Benchmark::Sp.problem(Class::S);
    let verdict = Verdict::new(&problem, &run_serially(Benchmark::Sp, &problem, problem.steps, 1, Fuse::Step).norms);
    assert!(verdict.verified() && verdict.difference() < 1e-11, "{verdict}");
}

#[test]
fn threads_and_fusion_do_not_change_results() {
    for (class, steps) in [(Class::S, 3), (Class::W, 1)] {
        let problem = Benchmark::Sp.problem(class);
        let one = run_serially(Benchmark::Sp, &problem, steps, 1, Fuse::Stages);
        for threads in [1, 2, 3, 5] {
            for fuse in [Fuse::Whole, Fuse::Step, Fuse::Stages] {
                let norms = run_serially(Benchmark::Sp, &problem, steps, threads, fuse).norms;
                assert_eq!(norms, one.norms, "class {class:?}, {threads} threads, {fuse:?}");
            }
        }
    }
}

/// The values at a point that a matrix's rows need: 1/ρ, momentum along the line, speed of sound.
type Along = [f64; 3];

/// Solves a line with the vector code, with the same numbers in all lanes; returns the first lane's solution.
struct Solve<'a> {
    mesh: &'a Mesh,
    d: usize,
    points: &'a [Along],
    right: &'a [[f64; 5]],
}

impl WithSimd for Solve<'_> {
    type Output = Vec<[f64; 5]>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let length = self.points.len();
        let weights = Weights::new(simd, self.mesh, self.d);
        let mut rows = vec![simd.splat_f64s(f64::NAN); stored(length)];
        prepare(simd, &mut rows);
        let splat = |value| Lane::splat(simd, value);
        let point = |l: usize| {
            let [volume, momentum, sound] = self.points[l].map(splat);
            weights.point(volume, momentum, sound)
        };
        eliminate(simd, &weights, length, &mut rows, point, |l| self.right[l].map(splat));
        let mut solution = vec![[f64::NAN; 5]; length];
        substitute(simd, length, &rows, |l, x| solution[l] = x.map(|lane| first(lane)));
        solution
    }
}

fn first<S: Simd>(lane: Lane<S>) -> f64 {
    let mut numbers = [0.0; npb::mz::lanes::MAX_LANES];
    lane.store(&mut numbers, 0);
    numbers[0]
}

/// Multiplies the matrix of the system with wave speed `speed` by `x`, based on the definition of the matrix.
fn product(mesh: &Mesh, d: usize, points: &[Along], speed: impl Fn(&Along) -> f64, x: &[f64]) -> Vec<f64> {
    let n = points.len();
    let (convection, diffusion) = (mesh.dt / (2.0 * mesh.h[d]), mesh.dt / (mesh.h[d] * mesh.h[d]));
    let spread = |l: usize| diffusion * (DISSIPATION[d] + C1C5 * C34 * points[l][0]);
    let outer = mesh.dt * EPS4;
    let x = |l: i64| if (0..n as i64).contains(&l) { x[l as usize] } else { 0.0 };
    let row = |l: usize| {
        let i = l as i64;
        let mut sum = (1.0 + 2.0 * spread(l)) * x(i);
        if l > 0 {
            sum += (-convection * speed(&points[l - 1]) - spread(l - 1)) * x(i - 1);
        }
        if l + 1 < n {
            sum += (convection * speed(&points[l + 1]) - spread(l + 1)) * x(i + 1);
        }
        let middle = if l == 0 || l + 1 == n { 5.0 } else { 6.0 };
        sum + outer * (x(i - 2) - 4.0 * x(i - 1) + middle * x(i) - 4.0 * x(i + 1) + x(i + 2))
    };
    (0..n).map(row).collect()
}

proptest! {
    #[test]
    fn line_solutions_satisfy_their_systems(
        (points, right) in (4usize..40).prop_flat_map(|n| (
            proptest::collection::vec((0.2..2.0, -1.0..1.0, 0.1..2.0).prop_map(|(a, b, c)| [a, b, c]), n),
            proptest::collection::vec(proptest::array::uniform5(-1.0..1.0f64), n),
        )),
        d in 0usize..3,
    ) {
        let mesh = Mesh { h: [0.1, 0.07, 0.15], dt: 0.01, ..Benchmark::Sp.problem(Class::S).meshes(Benchmark::Sp)[0] };
        let solution = dispatch(8, Solve { mesh: &mesh, d, points: &points, right: &right });
        for component in 0..5 {
            let sign = [0.0, 0.0, 0.0, 1.0, -1.0][component];
            let speed = |[volume, momentum, sound]: &Along| volume * momentum + sign * sound;
            let x: Vec<f64> = solution.iter().map(|x| x[component]).collect();
            for (l, value) in product(&mesh, d, &points, speed, &x).into_iter().enumerate() {
                let expected = right[l][component];
                prop_assert!((value - expected).abs() < 1e-12, "component {component}, {l}: {value} is not {expected}");
            }
        }
    }
}

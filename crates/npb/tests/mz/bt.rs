//! Tests BT stage by stage, as a whole, and on several threads, and compares its line solver with the equations
//! that it solves.

use npb::mz::bt::jacobian::{Column, Jacobians, Vector, Weights};
use npb::mz::bt::tridiagonal::{eliminate, stored, substitute};
use npb::mz::lanes::{Lane, MAX_LANES, Scratch, dispatch, tabulate};
use npb::mz::operator::scaled_residual;
use npb::mz::physics::{C1, C1C5, C2, C34, CON43, DISSIPATION};
use npb::mz::{Benchmark, Class, Fuse, Mesh, Verdict, Zones, bt, run_serially};
use proptest::prelude::*;
use pulp::{Simd, WithSimd};

use crate::golden::Golden;

#[test]
fn stages_reproduce_reference_sums() {
    let golden = Golden::of(Benchmark::Bt);
    let known = golden.zones();
    let mut zones = Zones::new(Benchmark::Bt, &Benchmark::Bt.problem(Class::S));
    for step in 1..=2 {
        zones.in_loop().exchange();
        for (number, zone) in zones.zones.iter_mut().enumerate() {
            let mesh = zone.mesh;
            let check = |stage: &str, array: &ndarray::Array4<f64>| {
                if known.contains(&number) {
                    golden.check(step, stage, number, &array.view());
                }
            };
            check("uexch", &zone.u);
            scaled_residual(&mesh, &zone.u.view(), &zone.forcing.view(), zone.r.view_mut(), 1);
            check("rhs", &zone.r);
            bt::x_sweep(&mesh, &zone.u.view(), zone.r.view_mut(), 1);
            check("xsolve", &zone.r);
            bt::y_sweep(&mesh, &zone.u.view(), zone.r.view_mut(), 1);
            check("ysolve", &zone.r);
            bt::z_sweep(&mesh, &zone.u.view(), zone.r.view_mut(), 1);
            check("zsolve", &zone.r);
            bt::add(zone.u.view_mut(), &zone.r.view(), 1);
            check("unew", &zone.u);
        }
    }
}

#[test]
fn class_s_is_verified() {
    let problem = Benchmark::Bt.problem(Class::S);
    let verdict = Verdict::new(&problem, &run_serially(Benchmark::Bt, &problem, problem.steps, 1, Fuse::Step).norms);
    assert!(verdict.verified() && verdict.difference() < 1e-11, "{verdict}");
}

#[test]
fn threads_and_fusion_do_not_change_results() {
    let problem = Benchmark::Bt.problem(Class::S);
    let one = run_serially(Benchmark::Bt, &problem, 3, 1, Fuse::Stages);
    for threads in [1, 2, 3, 5] {
        for fuse in [Fuse::Whole, Fuse::Step, Fuse::Stages] {
            let norms = run_serially(Benchmark::Bt, &problem, 3, threads, fuse).norms;
            assert_eq!(norms, one.norms, "{threads} threads, {fuse:?}");
        }
    }
}

/// Solves a line with the same numbers in all lanes, and multiplies the solver's own blocks by the solution.
/// Returns the largest deviation from the right-hand side, and the largest deviation of the blocks from their
/// definition.
struct Deviation<'a> {
    mesh: &'a Mesh,
    direction: usize,
    states: &'a [[f64; 5]],
    rights: &'a [[f64; 5]],
}

impl WithSimd for Deviation<'_> {
    type Output = [f64; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> [f64; 2] {
        let Self { mesh, direction, states, rights } = self;
        let length = states.len();
        let weights = Weights::new(simd, mesh, direction);
        let vector = |numbers: [f64; 5]| -> Vector<S> { tabulate(|m| Lane::splat(simd, numbers[m])) };
        let number = |lanes: Lane<S>| bytemuck::cast_slice::<S::f64s, f64>(&[lanes.value()])[S::F64_LANES - 1];
        let mut scratch = Scratch::default();
        let rows = scratch.vectors::<S>(stored(length));
        eliminate(simd, &weights, length, rows, |l| vector(states[l]), |l| vector(rights[l]));
        let mut x = vec![[f64::NAN; 5]; length];
        substitute(simd, rows, |l, solution| x[l] = solution.map(number));

        let dense = |column: &dyn Fn(usize) -> Column<S>| -> [[f64; 5]; 5] {
            let columns = [0, 1, 2, 3, 4].map(column);
            [0, 1, 2, 3, 4].map(|row| [0, 1, 2, 3, 4].map(|column| columns[column][row].map_or(0.0, number)))
        };
        let blocks: Vec<_> = states
            .iter()
            .map(|&state| {
                let at = Jacobians::new(&weights, vector(state));
                [
                    dense(&|column| at.next(&weights, column)),
                    dense(&|column| at.own(&weights, column)),
                    dense(&|column| at.previous(&weights, column)),
                ]
            })
            .collect();
        let (mut of_solution, mut of_blocks) = (0.0_f64, 0.0_f64);
        for l in 0..length {
            for row in 0..5 {
                let times = |block: &[[f64; 5]; 5], x: &[f64; 5]| (0..5).map(|m| block[row][m] * x[m]).sum::<f64>();
                let mut left = times(&blocks[l][1], &x[l]);
                if l > 0 {
                    left -= times(&blocks[l - 1][0], &x[l - 1]);
                }
                if l + 1 < length {
                    left += times(&blocks[l + 1][2], &x[l + 1]);
                }
                of_solution = of_solution.max((left - rights[l][row]).abs());
            }
            let defined = definition(mesh, direction, states[l]);
            for (block, defined) in blocks[l].iter().flatten().flatten().zip(defined.iter().flatten().flatten()) {
                of_blocks = of_blocks.max((block - defined).abs() / (1.0 + defined.abs()));
            }
        }
        [of_solution, of_blocks]
    }
}

/// Returns A + N, I + 2N and A − N of a point from difference quotients of the fluxes. The fluxes are functions of
/// the state; no derivatives are used.
fn definition(mesh: &Mesh, direction: usize, state: [f64; 5]) -> [[[f64; 5]; 5]; 3] {
    let flux = |u: [f64; 5]| -> [f64; 5] {
        let kinetic = 0.5 * (u[1] * u[1] + u[2] * u[2] + u[3] * u[3]) / u[0];
        let (v, pressure) = (u[3] / u[0], C2 * (u[4] - kinetic));
        [u[3], u[1] * v, u[2] * v, u[3] * v + pressure, (C1 * u[4] - C2 * kinetic) * v]
    };
    // Quantities whose second differences are the viscous terms.
    let viscous = |u: [f64; 5]| -> [f64; 5] {
        let v = [u[1], u[2], u[3]].map(|momentum| momentum / u[0]);
        let q = 0.5 * (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
        let heat = (1.0 - C1C5) * q + v[2] * v[2] / 6.0 + C1C5 * u[4] / u[0];
        [0.0, C34 * v[0], C34 * v[1], C34 * CON43 * v[2], C34 * heat]
    };
    let derivative = |f: &dyn Fn([f64; 5]) -> [f64; 5], column: usize| -> [f64; 5] {
        let step = 1e-6;
        let at = |step: f64| {
            let mut moved = state;
            moved[column] += step;
            f(moved)
        };
        let (ahead, behind) = (at(step), at(-step));
        [0, 1, 2, 3, 4].map(|m| (ahead[m] - behind[m]) / (2.0 * step))
    };
    let (inviscid, second) = (0.5 * mesh.dt / mesh.h[direction], mesh.dt / (mesh.h[direction] * mesh.h[direction]));
    let derivatives = [0, 1, 2, 3, 4].map(|column| (derivative(&flux, column), derivative(&viscous, column)));
    std::array::from_fn(|which| {
        std::array::from_fn(|row| {
            std::array::from_fn(|column| {
                let identity = f64::from(u8::from(row == column));
                let (a, n) = derivatives[column];
                let (a, n) = (inviscid * a[row], second * (n[row] + DISSIPATION[direction] * identity));
                [a + n, identity + 2.0 * n, a - n][which]
            })
        })
    })
}

/// A state such as may occur in the benchmarks.
fn state() -> impl Strategy<Value = [f64; 5]> {
    (1.0..4.0f64, prop::array::uniform3(-2.0..2.0f64), 10.0..40.0f64)
        .prop_map(|(rho, [a, b, c], energy)| [rho, rho * a, rho * b, rho * c, energy])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn solutions_satisfy_their_systems(
        direction in 0usize..3,
        points in prop::collection::vec((state(), prop::array::uniform5(-1.0..1.0f64)), 1..30),
    ) {
        let mesh = Benchmark::Bt.problem(Class::W).meshes(Benchmark::Bt)[5];
        let (states, rights): (Vec<_>, Vec<_>) = points.into_iter().unzip();
        let work = || Deviation { mesh: &mesh, direction, states: &states, rights: &rights };
        for [of_solution, of_blocks] in [dispatch(MAX_LANES, work()), work().with_simd(pulp::Scalar512b)] {
            prop_assert!(of_solution < 1e-13, "equations violated by {}", of_solution);
            prop_assert!(of_blocks < 1e-7, "blocks deviate by {}", of_blocks);
        }
    }
}

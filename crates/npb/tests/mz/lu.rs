//! Compares LU's stages with the reference sums and with one another, and LU's matrices with difference quotients.

use std::ops::Range;

use ndarray::Array4;
use npb::mz::lanes::{Lane, MAX_LANES, Scratch, dispatch};
use npb::mz::lu::jacobian::{Coefficients, Flow, OMEGA};
use npb::mz::lu::wavefront::{Rows, Strip, Turn, turn_len};
use npb::mz::lu::{add, backward, forward, relax};
use npb::mz::operator::residual;
use npb::mz::physics::{C2, C34, C1345, CON43, DISSIPATION};
use npb::mz::{Benchmark, COMPONENTS, Class, Fuse, Mesh, Verdict, Zone, Zones, run_serially};
use proptest::prelude::*;
use pulp::{Scalar, Scalar128b, Scalar256b, Scalar512b, Simd, WithSimd};

use crate::golden::Golden;

/// Returns the zones of a class with the residual that the first step begins with, faces exchanged.
fn first_step(class: Class) -> Zones {
    let mut zones = Zones::new(Benchmark::Lu, &Benchmark::Lu.problem(class));
    for zone in &mut zones.zones {
        find_residual(zone, 1);
    }
    zones.in_loop().exchange();
    zones
}

fn find_residual(zone: &mut Zone, threads: usize) {
    residual(&zone.mesh, &zone.u.view(), &zone.forcing.view(), zone.r.view_mut(), threads);
}

#[test]
fn stages_reproduce_reference_sums() {
    let golden = Golden::of(Benchmark::Lu);
    let mut zones = first_step(Class::S);
    for step in 1..=2 {
        for (number, zone) in zones.zones.iter_mut().enumerate() {
            let known = golden.zones().contains(&number);
            let check = |stage: &str, array: &Array4<f64>| {
                if known {
                    golden.check(step, stage, number, &array.view());
                }
            };
            check("uexch", &zone.u);
            check("rsd0", &zone.r);
            let mut w = Array4::from_elem(zone.u.raw_dim(), f64::NAN);
            forward(&zone.mesh, &zone.u.view(), &zone.r.view(), w.view_mut(), 1);
            check("lower", &w);
            backward(&zone.mesh, &zone.u.view(), w.view_mut(), 1);
            check("upper", &w);
            add(&w.view(), zone.u.view_mut(), 1);
            check("unew", &zone.u);
            find_residual(zone, 1);
            check("rsd1", &zone.r);
        }
        zones.in_loop().exchange();
    }
}

#[test]
fn relax_matches_stages_on_any_number_of_threads() {
    for class in [Class::S, Class::W] {
        let mut zones = first_step(class).zones;
        zones.truncate(3);
        for zone in &mut zones {
            let stages = |threads| {
                let (mut u, mut w) = (zone.u.clone(), Array4::zeros(zone.u.raw_dim()));
                forward(&zone.mesh, &u.view(), &zone.r.view(), w.view_mut(), threads);
                backward(&zone.mesh, &u.view(), w.view_mut(), threads);
                add(&w.view(), u.view_mut(), threads);
                u
            };
            let one = stages(1);
            assert_ne!(one, zone.u);
            for threads in [1, 2, 3, 7] {
                assert_eq!(stages(threads), one, "{threads} threads, class {class:?}");
                let mut u = zone.u.clone();
                relax(&zone.mesh, u.view_mut(), &zone.r.view(), threads);
                assert_eq!(u, one, "in one call, {threads} threads, class {class:?}");
            }
        }
    }
}

#[test]
fn class_s_is_verified() {
    let problem = Benchmark::Lu.problem(Class::S);
    for fuse in [Fuse::Whole, Fuse::Step, Fuse::Stages] {
        let verdict = Verdict::new(&problem, &run_serially(Benchmark::Lu, &problem, problem.steps, 1, fuse).norms);
        assert!(verdict.verified() && verdict.difference() < 1e-11, "{fuse:?}: {verdict}");
    }
}

/// Returns the flux in direction `d`.
fn flux(u: [f64; COMPONENTS], d: usize) -> [f64; COMPONENTS] {
    let pressure = C2 * (u[4] - 0.5 * (u[1] * u[1] + u[2] * u[2] + u[3] * u[3]) / u[0]);
    let v = u[d + 1] / u[0];
    let mut flux = u.map(|component| component * v);
    flux[d + 1] += pressure;
    flux[4] += pressure * v;
    flux
}

/// Returns the viscous quantities whose second differences in direction `d` enter the operator.
fn viscous(u: [f64; COMPONENTS], d: usize) -> [f64; COMPONENTS] {
    let v: [f64; 3] = std::array::from_fn(|c| u[c + 1] / u[0]);
    let kappa: [f64; 3] = std::array::from_fn(|c| if c == d { CON43 } else { 1.0 });
    let squares: f64 = (0..3).map(|c| 0.5 * (kappa[c] * C34 - C1345) * v[c] * v[c]).sum();
    let stress: [f64; 3] = std::array::from_fn(|c| kappa[c] * C34 * v[c]);
    [0.0, stress[0], stress[1], stress[2], squares + C1345 * u[4] / u[0]]
}

/// Returns the derivative of `f` at `u` in the direction of `w`.
fn derivative(f: impl Fn([f64; 5]) -> [f64; 5], u: [f64; 5], w: [f64; 5]) -> [f64; 5] {
    let h = 1e-5;
    let at = |h: f64| f(std::array::from_fn(|m| u[m] + h * w[m]));
    let (before, after) = (at(-h), at(h));
    std::array::from_fn(|m| (after[m] - before[m]) / (2.0 * h))
}

fn lanes<S: Simd>(simd: S, u: [f64; 5]) -> [Lane<S>; 5] {
    u.map(|value| Lane::splat(simd, value))
}

fn numbers(w: [Lane<Scalar>; 5]) -> [f64; 5] {
    w.map(Lane::value)
}

fn vector() -> impl Strategy<Value = [f64; 5]> {
    proptest::array::uniform5(-1.0..1.0f64)
}

/// A state with positive density and pressure.
fn state() -> impl Strategy<Value = [f64; 5]> {
    (0.5..4.0f64, vector()).prop_map(|(rho, m)| [rho, m[1] * rho, m[2] * rho, m[3] * rho, (3.0 + m[4]) * rho])
}

fn mesh() -> Mesh {
    Mesh { h: [0.1, 0.07, 0.15], dt: 0.01, ..Benchmark::Lu.problem(Class::S).meshes(Benchmark::Lu)[0] }
}

/// Packs strips of two components turn by turn, and doubles the rows from `rows.start` on, either by adding the
/// unpacked numbers or by storing twice their values.
struct Double<'a> {
    adds: bool,
    nx: usize,
    rows: Range<usize>,
    planes: Range<usize>,
    /// Planes with the rows from 0 up to one past the last of `rows`.
    from: [&'a [f64]; 2],
    /// Planes of `rows` only.
    to: &'a mut [[Vec<f64>; 2]],
}

impl WithSimd for Double<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { adds, nx, rows, planes, from, to } = self;
        let (mut scratch, mut masks) = (Scratch::default(), Scratch::default());
        // The bundle has three fields, of which the last two are used.
        let bundle = scratch.vectors::<S>(3 * turn_len::<S>(nx));
        for begin in rows.clone().step_by(S::F64_LANES) {
            let strip = Strip::new(begin..(begin + S::F64_LANES).min(rows.end), nx);
            for number in 0..=planes.len() {
                let turn = Turn::new(&planes, number);
                let bundle = &mut bundle[..3 * turn.steps::<S>(nx)];
                let plane = nx * (rows.end + 1);
                let packed = turn.map(|k| Rows { numbers: from, first: k * plane + strip.begin(0) });
                strip.pack(simd, packed, bundle, (1, 3));
                let (below, above) = to.split_at_mut(turn.begins.unwrap_or(planes.end));
                let first = strip.begin(rows.start);
                let unpacked = Turn {
                    ends: turn.ends.map(|k| Rows { numbers: below[k].each_mut().map(|to| &mut to[..]), first }),
                    begins: turn.begins.map(|_| Rows { numbers: above[0].each_mut().map(|to| &mut to[..]), first }),
                };
                let mask = &mut masks.vectors::<S>(turn_len::<S>(nx))[..turn.steps::<S>(nx)];
                strip.mask::<S>(turn.map(|_| ()), mask);
                for (step, point) in bundle.chunks_exact_mut(3).enumerate() {
                    let factor = if adds { mask[step] } else { simd.splat_f64s(2.0) };
                    point[1..].iter_mut().for_each(|field| *field = simd.mul_f64s(*field, factor));
                }
                if adds {
                    strip.add(Lane::splat(simd, 1.0), unpacked, bundle, (1, 3));
                } else {
                    strip.unpack(simd, unpacked, bundle, (1, 3));
                }
            }
        }
    }
}

proptest! {
    /// Covers arbitrary rows and slabs, and vectors of every width.
    #[test]
    fn strips_visit_every_interior_point_once(
        nx in 3usize..40,
        first in 1usize..5,
        count in 1usize..20,
        below in 0usize..3,
        planes in 1usize..4,
    ) {
        let (rows, planes) = (first..first + count, below..below + planes);
        let plane = nx * (rows.end + 1);
        let from: Vec<f64> = (0..plane * planes.end).map(|point| point as f64 + 1.0).collect();
        let block = |k: usize| from[k * plane..][first * nx..rows.end * nx].to_vec();
        let inside = |point: usize| (1..nx - 1).contains(&(point % nx));
        let doubled = |k: usize| {
            let factor = |point| if inside(point) && planes.contains(&k) { 2.0 } else { 1.0 };
            block(k).iter().enumerate().map(|(point, number)| factor(point) * number).collect::<Vec<f64>>()
        };
        let both = |one: Vec<f64>| {
            let other = one.iter().map(|number| -number).collect();
            [one, other]
        };
        let expected: Vec<_> = (0..planes.end).map(|k| both(doubled(k))).collect();
        let [one, other] = both(from.clone());
        for (width, adds) in [0, 1, 2, 3, 4, 8].into_iter().flat_map(|width| [(width, false), (width, true)]) {
            let mut to: Vec<_> = (0..planes.end).map(|k| both(block(k))).collect();
            let work = Double { adds, nx, rows: rows.clone(), planes: planes.clone(), from: [&one, &other], to: &mut to };
            match width {
                0 => dispatch(MAX_LANES, work),
                3 => dispatch(4, work), // the code for four lanes, on a machine that has eight
                1 => work.with_simd(Scalar),
                2 => work.with_simd(Scalar128b),
                4 => work.with_simd(Scalar256b),
                _ => work.with_simd(Scalar512b),
            }
            prop_assert_eq!(&to, &expected, "rows of {} points, {} lanes, added: {}", nx, width, adds);
        }
    }

    /// The contributions equal the products with the derivatives of flux and stress.
    #[test]
    fn contributions_are_products_with_jacobians(u in state(), w in vector(), up in any::<bool>()) {
        let (simd, mesh) = (Scalar, mesh());
        let c = Coefficients::new(simd, &mesh, up);
        let (flow, w_lanes) = (Flow::new(&c, lanes(simd, u)), lanes(simd, w));
        let products = flow.contributions(&c, w_lanes, &flow.change(w_lanes)).map(numbers);
        let sign = if up { -1.0 } else { 1.0 };
        for d in 0..3 {
            let a = derivative(|u| flux(u, d), u, w);
            let n = derivative(|u| viscous(u, d), u, w);
            let h = mesh.h[d];
            for m in 0..COMPONENTS {
                let expected = OMEGA * mesh.dt * (sign * a[m] / (2.0 * h) + (n[m] + DISSIPATION[d] * w[m]) / (h * h));
                prop_assert!((products[d][m] - expected).abs() < 1e-8, "d {d}, m {m}: {} {expected}", products[d][m]);
            }
        }
    }

    /// The diagonal block times the solution is the right-hand side.
    #[test]
    fn inverse_solves_diagonal_block(u in state(), b in vector()) {
        let (simd, mesh) = (Scalar, mesh());
        let c = Coefficients::new(simd, &mesh, false);
        let flow = Flow::new(&c, lanes(simd, u));
        let inverse = flow.inverse(&c, Lane::splat(simd, 1.0));
        let x = numbers(flow.vector(&flow.change(lanes(simd, b)).mul(&inverse)));
        let mut product = x;
        for (d, dissipation) in DISSIPATION.into_iter().enumerate() {
            let n = derivative(|u| viscous(u, d), u, x);
            for m in 0..COMPONENTS {
                product[m] += 2.0 * mesh.dt / (mesh.h[d] * mesh.h[d]) * (n[m] + dissipation * x[m]);
            }
        }
        for m in 0..COMPONENTS {
            prop_assert!((product[m] - b[m]).abs() < 1e-8, "component {m}: {} is not {}", product[m], b[m]);
        }
    }
}

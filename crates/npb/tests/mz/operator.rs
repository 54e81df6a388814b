//! Tests of the initial state, exchange, forcing and residual, which the three benchmarks share.

use ndarray::Array4;
use npb::mz::components::{Slab, components_mut, for_planes};
use npb::mz::faces::State;
use npb::mz::initial::exact_state;
use npb::mz::lanes::{MAX_LANES, dispatch, tabulate};
use npb::mz::operator::blocks::{POINTS, pitch};
use npb::mz::operator::stencil::{DissipationWeights, dissipation};
use npb::mz::operator::{Operator, residual, scaled_residual};
use npb::mz::physics::DISSIPATION;
use npb::mz::{Benchmark, Class, Mesh, Shape, Zones};
use pulp::{Simd, WithSimd};

use crate::golden::Golden;

/// Checks the first right-hand side. BT and SP scale it by dt and compute it after an exchange; LU does neither.
#[test]
fn first_residual_reproduces_reference_sums() {
    for (benchmark, forcing, first) in
        [(Benchmark::Bt, "forcing", "rhs"), (Benchmark::Sp, "forcing", "rhs"), (Benchmark::Lu, "frct", "rsd0")]
    {
        let golden = Golden::of(benchmark);
        let mut zones = Zones::new(benchmark, &benchmark.problem(Class::S));
        if benchmark != Benchmark::Lu {
            zones.in_loop().exchange();
        }
        for number in golden.zones() {
            let zone = &zones.zones[number];
            let operator = if benchmark == Benchmark::Lu { residual } else { scaled_residual };
            let mut r = Array4::zeros(zone.u.raw_dim());
            operator(&zone.mesh, &zone.u.view(), &zone.forcing.view(), r.view_mut(), 1);
            golden.check(1, first, number, &r.view());
            if benchmark != Benchmark::Lu {
                golden.check(1, forcing, number, &zone.forcing.view());
            } else {
                golden.check(1, forcing, number, &(-&zone.forcing).view());
            }
        }
        if benchmark == Benchmark::Lu {
            zones.in_loop().exchange();
        }
        for number in golden.zones() {
            golden.check(1, "uexch", number, &zones.zones[number].u.view());
        }
    }
}

#[test]
fn threads_do_not_change_residual() {
    for benchmark in [Benchmark::Bt, Benchmark::Lu] {
        for zone in Zones::new(benchmark, &benchmark.problem(Class::W)).zones {
            let on = |threads| {
                let mut r = Array4::zeros(zone.u.raw_dim());
                scaled_residual(&zone.mesh, &zone.u.view(), &zone.forcing.view(), r.view_mut(), threads);
                r
            };
            let one = on(1);
            for threads in [2, 3, 7] {
                assert_eq!(on(threads), one, "{threads} threads, {:?}", zone.mesh.shape);
            }
        }
    }
}

/// Computes the residual of the exact solution without forcing, with scratch memory that initially holds `rubbish`.
struct Residual<'a>(&'a Mesh, f64);

impl WithSimd for Residual<'_> {
    type Output = Array4<f64>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Array4<f64> {
        let Self(mesh, rubbish) = self;
        let Shape { nx, ny, nz } = mesh.shape;
        let (u, none) = (exact_state(mesh), Array4::zeros(mesh.shape.array()));
        let mut r = none.clone();
        let mut scratch = vec![rubbish; Operator::<S>::numbers(mesh.shape)];
        let (of_u, of_none) = (u.view(), none.view());
        let arrays = (State::from(&of_u).planes(), Slab::new(0, &of_none));
        let mut operator = Operator::new(simd, mesh, arrays, 1.0, 1..nz - 1, &mut scratch);
        for_planes(nx * ny, 0, components_mut(r.view_mut()), |k, r| {
            if (1..nz - 1).contains(&k) {
                operator.plane(k, r);
            }
        });
        r
    }
}

#[test]
fn initial_scratch_contents_do_not_change_residual() {
    for nx in 10..=20 {
        let shape = Shape { nx, ny: 7, nz: 6 };
        let mesh = Mesh::new(Benchmark::Lu, shape, [4 * nx, 28, 6], [4, 4], 0.01);
        for most in [4, MAX_LANES] {
            let [clean, soiled] = [0.0, f64::NAN].map(|rubbish| dispatch(most, Residual(&mesh, rubbish)));
            assert_eq!(clean, soiled, "rows of {nx} points, vectors of up to {most}");
            assert!(clean.iter().any(|number| number.abs() > 1e-3));
        }
    }
}

#[test]
#[should_panic(expected = "cannot take fourth differences of a zone of 8 x 7 x 5 points; try 6 or more")]
fn thin_zones_are_refused() {
    let mesh = Mesh::new(Benchmark::Lu, Shape { nx: 8, ny: 7, nz: 5 }, [32, 28, 5], [4, 4], 0.01);
    let (u, none) = (exact_state(&mesh), Array4::zeros(mesh.shape.array()));
    residual(&mesh, &u.view(), &none.view(), none.clone().view_mut(), 1);
}

#[test]
fn weights_match_dissipation_of_each_sum() {
    for n in 6..=18 {
        let mesh = Mesh::new(Benchmark::Sp, Shape { nx: n, ny: n, nz: n }, [n; 3], [1, 1], 1e-3);
        let weights = DissipationWeights::new(&mesh);
        for (d, dissipated) in DISSIPATION.into_iter().enumerate() {
            let weight = dissipated / (mesh.h[d] * mesh.h[d]);
            let part = |of: usize, sum: Option<usize>| match sum {
                Some(sum) if sum > 0 && sum < n - 1 => dissipation(weight, sum, n)[of + 2 - sum],
                _ => 0.0,
            };
            for l in 0..n {
                let (two_before, two_after) = (l.checked_sub(2), (l + 2 < n).then_some(l + 2));
                let expected = [
                    two_before.map_or(0.0, |of| part(of, Some(l))),
                    part(l, l.checked_sub(1)),
                    part(l, Some(l)),
                    part(l, Some(l + 1)),
                    two_after.map_or(0.0, |of| part(of, Some(l))),
                ];
                let found = match d {
                    0 => tabulate(|w| weights.x[l / POINTS][w][l % POINTS]),
                    1 => weights.y[l],
                    _ => weights.z[l],
                };
                assert_eq!(found, expected, "point {l} of {n} in direction {d}");
            }
        }
        let mut beyond = (n..pitch(mesh.shape) * POINTS).flat_map(|i| weights.x[i / POINTS].map(|of| of[i % POINTS]));
        assert!(beyond.all(|weight| weight == 0.0), "weights beyond the last of {n} points are not zero");
    }
}

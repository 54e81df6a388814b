//! Initial state, exchange, forcing and residual, which the three benchmarks share.

use ndarray::Array4;

use super::golden::Golden;
use crate::classes::{Benchmark, Class};
use crate::operator::residual;
use crate::serial::Zones;

/// The first right-hand side: BT and SP scale it by dt and take it after an exchange, LU does neither.
#[test]
fn the_first_residual_is_the_known_one() {
    for (benchmark, forcing, first) in
        [(Benchmark::Bt, "forcing", "rhs"), (Benchmark::Sp, "forcing", "rhs"), (Benchmark::Lu, "frct", "rsd0")]
    {
        let golden = Golden::of(benchmark);
        let mut zones = Zones::new(benchmark, &benchmark.problem(Class::S));
        if benchmark != Benchmark::Lu {
            zones.exchange();
        }
        for number in golden.zones() {
            let zone = &zones.zones[number];
            let scale = if benchmark == Benchmark::Lu { 1.0 } else { zone.mesh.dt };
            let mut r = Array4::zeros(zone.u.raw_dim());
            residual(&zone.mesh, &zone.u.view(), &zone.forcing.view(), scale, r.view_mut(), 1);
            golden.check(1, first, number, &r.view());
            if benchmark != Benchmark::Lu {
                golden.check(1, forcing, number, &zone.forcing.view());
            } else {
                golden.check(1, forcing, number, &(-&zone.forcing).view());
            }
        }
        if benchmark == Benchmark::Lu {
            zones.exchange();
        }
        for number in golden.zones() {
            golden.check(1, "uexch", number, &zones.zones[number].u.view());
        }
    }
}

#[test]
fn threads_change_nothing() {
    for benchmark in [Benchmark::Bt, Benchmark::Lu] {
        for zone in Zones::new(benchmark, &benchmark.problem(Class::W)).zones {
            let residual = |threads| {
                let mut r = Array4::zeros(zone.u.raw_dim());
                residual(&zone.mesh, &zone.u.view(), &zone.forcing.view(), zone.mesh.dt, r.view_mut(), threads);
                r
            };
            let one = residual(1);
            for threads in [2, 3, 7] {
                assert_eq!(residual(threads), one, "{threads} threads, {:?}", zone.mesh.shape);
            }
        }
    }
}

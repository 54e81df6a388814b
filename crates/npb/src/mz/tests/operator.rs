//! Initial state, exchange, forcing and residual, which the three benchmarks share.

use ndarray::Array4;

use super::golden::Golden;
use crate::mz::classes::{Benchmark, Class};
use crate::mz::operator::{residual, scaled_residual};
use crate::mz::plain::Zones;

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

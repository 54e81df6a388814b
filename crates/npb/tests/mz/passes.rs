//! Tests of the scratch memory that steps reuse.

use ndarray::{ArrayView4, ArrayViewMut4};
use npb::mz::faces::Halo;
use npb::mz::{Benchmark, Class, Mesh, Zones, bt, sp};

/// A zone's step leaves values in thread-local memory. The next step must not use these values, no matter what its
/// shape is, and even if the previous step has failed.
#[test]
fn step_is_independent_of_previous_zone() {
    type Step = fn(&Mesh, ArrayViewMut4<'_, f64>, Option<Halo<'_>>, &ArrayView4<'_, f64>, usize);
    for (benchmark, step) in [(Benchmark::Bt, bt::step as Step), (Benchmark::Sp, sp::step)] {
        let zones = Zones::new(benchmark, &benchmark.problem(Class::W)).zones;
        for zone in zones.iter().take(3) {
            let stepped = || {
                let mut u = zone.u.clone();
                step(&zone.mesh, u.view_mut(), None, &zone.forcing.view(), 1);
                u
            };
            let alone = std::thread::scope(|scope| scope.spawn(stepped).join().unwrap());
            for before in [zone, &zones[3]] {
                let mut failed = before.u.clone();
                failed.fill(f64::NAN);
                step(&before.mesh, failed.view_mut(), None, &before.forcing.view(), 1);
                assert_eq!(stepped(), alone, "{benchmark:?}, {:?} after {:?}", zone.shape(), before.shape());
            }
        }
    }
}

//! Tests results at every vector width of this processor: they may differ only by rounding, and must be the same
//! from run to run.
//!
//! There is only one test, because the width is a process-wide setting. `.ci/run` verifies whole runs at every
//! width.

use npb::mz::{Benchmark, Class, Fuse, Norms, lanes, limit_lanes, run_serially};

/// Returns the norms after a few steps of class S.
fn norms(benchmark: Benchmark) -> Norms {
    run_serially(benchmark, &benchmark.problem(Class::S), 2, 1, Fuse::Step).norms
}

fn numbers(norms: &Norms) -> Vec<f64> {
    norms.residual.into_iter().chain(norms.error).chain(norms.surface).collect()
}

#[test]
fn every_width_computes_same_up_to_rounding() {
    for benchmark in [Benchmark::Bt, Benchmark::Sp, Benchmark::Lu] {
        limit_lanes(1);
        assert_eq!(lanes(), 1);
        let portable = numbers(&norms(benchmark));
        assert!(portable.iter().all(|number| number.is_finite() && *number != 0.0), "{portable:?}");
        for most in [1, 2, 4, 8] {
            limit_lanes(most);
            assert!(lanes() <= most);
            let [once, again] = [(); 2].map(|()| numbers(&norms(benchmark)));
            assert_eq!(once, again, "{benchmark:?} with {} lanes", lanes());
            for (number, portable) in once.iter().zip(&portable) {
                let apart = (number - portable).abs() / portable.abs();
                assert!(apart < 1e-10, "{benchmark:?} with {} lanes: {number} and {portable}", lanes());
            }
        }
    }
}

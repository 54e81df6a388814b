//! Steps of zones in batches compute what steps of single zones compute.

use npb::mz::{Benchmark, Class, Fuse, Norms, Program, Settings, run_serially};
use thalweg::prelude::*;

use crate::testing::accelerated;

/// Returns the norms after some steps of batches, one for each unit.
fn norms(rt: &Runtime, benchmark: Benchmark, class: Class, steps: usize, replay: bool) -> Norms {
    let settings = Settings { steps, fuse: Fuse::Batch, periods: false, replay };
    Program::new(rt, benchmark, &benchmark.problem(class), settings).run(|| ()).unwrap().1
}

/// Asserts that norms agree with those of a plain loop, up to the order in which zones are added.
fn assert_agrees(found: &Norms, benchmark: Benchmark, class: Class, steps: usize, most: f64, what: &str) {
    let expected = run_serially(benchmark, &benchmark.problem(class), steps, 1, Fuse::Step).norms;
    let numbers =
        |norms: &Norms| norms.residual.into_iter().chain(norms.error).chain(norms.surface).collect::<Vec<_>>();
    let (found, expected) = (numbers(found), numbers(&expected));
    let agree = |(found, expected): (&f64, &f64)| ((found - expected) / expected).abs() <= most;
    assert!(found.iter().zip(&expected).all(agree), "{benchmark:?} {what}: {found:?}, not {expected:?}");
}

#[test]
fn batches_on_cores_match_plain_loop() {
    for benchmark in [Benchmark::Bt, Benchmark::Sp, Benchmark::Lu] {
        for (units, replay) in
            [("1:CPU:1", false), ("3:CPU:1", false), ("1:CPU:2", true), ("1:CPU:1,2:EMU:1", false), ("2:CPU:1", true)]
        {
            let rt = Runtime::builder().compute_units(units).scheduler("dynamic").build().unwrap();
            let found = norms(&rt, benchmark, Class::S, 5, replay);
            assert_agrees(&found, benchmark, Class::S, 5, 1e-13, &format!("{units} {replay}"));
        }
    }
}

/// BT's zones have different sizes, and in class W each zone has several thread groups.
#[test]
fn batches_on_accelerators_match_plain_loop() {
    for units in ["1:OPENCL:1", "1:CPU:1,1:OPENCL:1"] {
        let Some(rt) = accelerated(units) else { return };
        for (benchmark, replay) in [(Benchmark::Bt, true), (Benchmark::Sp, false), (Benchmark::Lu, true)] {
            let found = norms(&rt, benchmark, Class::W, 3, replay);
            assert_agrees(&found, benchmark, Class::W, 3, 1e-11, units);
        }
    }
}

#[test]
fn plain_loops_over_batches_are_refused() {
    let rt = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
    let settings = Settings { steps: 1, fuse: Fuse::Batch, periods: false, replay: false };
    let program = Program::new(&rt, Benchmark::Sp, &Benchmark::Sp.problem(Class::S), settings);
    let error = program.in_loop(1, |_| ()).unwrap_err().to_string();
    assert!(error.contains("the zones are in batches"), "{error}");
}

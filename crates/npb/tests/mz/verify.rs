//! Tests of the verdict on a run's norms.

use npb::mz::verify::EPSILON;
use npb::mz::{Benchmark, COMPONENTS, Class, Norms, Verdict};

#[test]
fn verdict_checks_every_number() {
    let problem = Benchmark::Lu.problem(Class::S);
    let right = Norms { residual: problem.residual, error: problem.error, surface: problem.surface };
    assert!(Verdict::new(&problem, &right).verified());
    for wrong in [1.0 + 2.0 * EPSILON, 0.0, f64::NAN] {
        for number in 0..2 * COMPONENTS + 1 {
            let mut norms = right;
            match number {
                0..COMPONENTS => norms.residual[number] *= wrong,
                COMPONENTS..10 => norms.error[number - COMPONENTS] *= wrong,
                _ => norms.surface = norms.surface.map(|surface| surface * wrong),
            }
            let verdict = Verdict::new(&problem, &norms);
            assert!(!verdict.verified(), "number {number} times {wrong}");
            assert!(verdict.difference().is_nan() || verdict.difference() > EPSILON);
        }
    }
}

#[test]
fn norms_are_summed_over_zones() {
    let zone = Norms { residual: [1.0; COMPONENTS], error: [2.0; COMPONENTS], surface: Some(3.0) };
    let mut sum = Norms::default();
    sum += zone;
    sum += zone;
    let twice = Norms { residual: [2.0; COMPONENTS], error: [4.0; COMPONENTS], surface: Some(6.0) };
    assert_eq!(sum, twice);
}

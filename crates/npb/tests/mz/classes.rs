//! Compares problem sizes and operation counts with the published ones.

use clap::ValueEnum;
use npb::mz::zones::{Neighbours, widths};
use npb::mz::{Benchmark, Class};

#[test]
fn zone_widths_match_published_ones() {
    for &benchmark in Benchmark::value_variants() {
        for &class in Class::value_variants() {
            let problem = benchmark.problem(class);
            let [gx, gy, _] = problem.points;
            let [columns, rows] = problem.zones;
            assert_eq!(widths(gx, columns, problem.ratio), problem.x_sizes, "{benchmark:?} {class:?}");
            assert_eq!(widths(gy, rows, problem.ratio), problem.y_sizes, "{benchmark:?} {class:?}");
            assert_eq!(problem.surface.is_some(), benchmark == Benchmark::Lu);
        }
    }
}

#[test]
fn operation_counts_match_published_ones() {
    for (benchmark, class, published) in [
        (Benchmark::Bt, Class::S, 381.834),
        (Benchmark::Bt, Class::A, 146_211.0),
        (Benchmark::Sp, Class::W, 7290.31),
        (Benchmark::Lu, Class::S, 46.4695),
        (Benchmark::Lu, Class::B, 448_922.0),
    ] {
        let problem = benchmark.problem(class);
        let ratio = problem.operations(benchmark, problem.steps) / published;
        assert!((ratio - 1.0).abs() < 1e-5, "{benchmark:?} {class:?}: {ratio} times the published count");
    }
}

#[test]
fn neighbours_are_periodic() {
    let problem = Benchmark::Bt.problem(Class::W);
    let beside = &problem.neighbours()[0];
    assert_eq!(*beside, Neighbours { west: 3, east: 1, south: 12, north: 4 });
}

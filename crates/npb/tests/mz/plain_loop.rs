//! Tests of steps in a plain loop, on its own arrays and on the arrays of a task program.

use npb::mz::plain_loop::deal;
use npb::mz::{Benchmark, Class, Exchange, Fuse, Program, Settings, Zones, run_serially};
use thalweg::prelude::*;

#[test]
fn loop_and_tasks_alternate_on_same_arrays() {
    for benchmark in [Benchmark::Bt, Benchmark::Sp, Benchmark::Lu] {
        let problem = benchmark.problem(Class::S);
        for fuse in [Fuse::Whole, Fuse::Step, Fuse::Planes, Fuse::Stages] {
            let rt = Runtime::builder().compute_units("2:CPU:1").build().unwrap();
            let settings = Settings { steps: 0, fuse, periods: false, replay: false };
            let program = Program::new(&rt, benchmark, &problem, settings);
            program.prepare().unwrap();
            for units in [1, 3] {
                program.step(Exchange::Together).unwrap();
                let looped = program.in_loop(units, |mut zones| {
                    zones.step(fuse, 1);
                    zones.step(fuse, 1);
                });
                looped.unwrap();
            }
            let expected = run_serially(benchmark, &problem, 6, 1, Fuse::Step).norms;
            assert_eq!(program.norms().unwrap(), expected, "{benchmark:?}, {fuse:?}");
        }
    }
}

#[test]
fn distributed_zones_give_same_bits() {
    for benchmark in [Benchmark::Bt, Benchmark::Sp, Benchmark::Lu] {
        let problem = benchmark.problem(Class::S);
        let one = run_serially(benchmark, &problem, 2, 1, Fuse::Step).norms;
        for units in [2, 3, 7] {
            let mut zones = Zones::dealt(benchmark, &problem, units);
            zones.begin();
            for _ in 0..2 {
                zones.in_loop().step(Fuse::Stages, 1);
            }
            assert_eq!(zones.norms(), one, "{benchmark:?}, {units} units");
        }
    }
}

#[test]
fn units_get_similar_numbers_of_points() {
    let mut zones = Zones::dealt(Benchmark::Bt, &Benchmark::Bt.problem(Class::W), 2);
    let plain = zones.in_loop();
    let points = |unit| -> usize {
        let of_unit = plain.zones.iter().zip(&plain.owners).filter(|(_, owner)| **owner == unit);
        of_unit.map(|(zone, _)| zone.shape().points()).sum()
    };
    let (one, other) = (points(0), points(1));
    assert!(one.abs_diff(other) * 50 < one + other, "{one} and {other}");
    assert_eq!(deal(&[], 3), []);
}

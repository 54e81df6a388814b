//! Steps in a plain loop on the arrays of a program of tasks.

use thalweg::prelude::*;

use crate::mz::{Benchmark, Class, Exchange, Fuse, Program, Settings, run_serially};

#[test]
fn a_loop_and_tasks_take_turns_on_the_same_arrays() {
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

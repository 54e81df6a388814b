//! Steps that are recorded and replayed, against those that are submitted.

use thalweg::Runtime;

use crate::mz::classes::{Benchmark, Class, Fuse};
use crate::mz::program::{Exchange, Program, Settings};

const STEPS: usize = 3;

/// The states of all zones after some steps.
fn states(units: &str, scheduler: &str, benchmark: Benchmark, fuse: Fuse, replay: bool) -> Vec<Vec<f64>> {
    let rt = Runtime::builder().compute_units(units).scheduler(scheduler).build().unwrap();
    let settings = Settings { steps: STEPS, fuse, periods: false, replay };
    let program = Program::new(&rt, benchmark, &benchmark.problem(Class::S), settings);
    program.prepare().unwrap();
    if replay {
        let mut step = program.record().unwrap();
        for _ in 0..STEPS {
            step.replay().unwrap();
        }
    } else {
        for _ in 0..STEPS {
            program.step(Exchange::Together).unwrap();
        }
    }
    program.zones.iter().map(|zone| rt.read(&zone.u).unwrap().into_iter().collect()).collect()
}

#[test]
fn a_step_that_is_replayed_computes_the_same_bits() {
    for benchmark in [Benchmark::Bt, Benchmark::Sp, Benchmark::Lu] {
        for fuse in [Fuse::Step, Fuse::Stages, Fuse::Planes] {
            let expected = states("1:CPU:1", "stealing", benchmark, fuse, false);
            for (units, scheduler) in [("2:CPU:1", "stealing"), ("1:CPU:2", "stealing"), ("1:CPU:1,2:EMU:1", "dynamic")]
            {
                let found = states(units, scheduler, benchmark, fuse, true);
                assert!(found == expected, "{benchmark:?}, {fuse:?}, {units}, {scheduler}");
            }
        }
    }
}

#[test]
fn nothing_waits_within_a_replay() {
    let rt = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
    let settings = Settings { steps: 1, fuse: Fuse::Step, periods: true, replay: true };
    let program = Program::new(&rt, Benchmark::Sp, &Benchmark::Sp.problem(Class::S), settings);
    let error = program.run(|| ()).unwrap_err().to_string();
    assert!(error.contains("cannot time the periods of replayed steps"), "{error}");
}

//! Compares recorded and replayed steps with submitted steps.

use npb::mz::{Benchmark, Class, Exchange, Fuse, Program, Settings, run_serially};
use thalweg::Runtime;

const STEPS: usize = 4;

/// Returns the states of all zones after some steps.
fn states(units: &str, scheduler: &str, benchmark: Benchmark, fuse: Fuse, replay: bool) -> Vec<Vec<f64>> {
    let rt = Runtime::builder().compute_units(units).scheduler(scheduler).build().unwrap();
    let settings = Settings { steps: STEPS, fuse, periods: false, replay };
    let program = Program::new(&rt, benchmark, &benchmark.problem(Class::S), settings);
    program.prepare().unwrap();
    if replay {
        let mut recorded = program.record(STEPS).unwrap();
        for _ in 0..STEPS / recorded.steps() {
            recorded.replay().unwrap();
        }
    } else {
        for _ in 0..STEPS {
            program.step(Exchange::Together).unwrap();
        }
    }
    program.zones.iter().map(|zone| rt.read(&zone.u).unwrap().into_iter().collect()).collect()
}

#[test]
fn replayed_step_computes_same_bits() {
    for benchmark in [Benchmark::Bt, Benchmark::Sp, Benchmark::Lu] {
        for fuse in [Fuse::Whole, Fuse::Step, Fuse::Stages, Fuse::Planes] {
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
fn periods_are_refused_with_replay() {
    let rt = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
    let settings = Settings { steps: 1, fuse: Fuse::Step, periods: true, replay: true };
    let program = Program::new(&rt, Benchmark::Sp, &Benchmark::Sp.problem(Class::S), settings);
    let error = program.run(|| ()).unwrap_err().to_string();
    assert!(error.contains("cannot time the periods of replayed steps"), "{error}");
}

/// Replays, single steps and a plain loop alternate, and each continues with the faces that the previous one sent.
#[test]
fn whole_steps_continue_after_replays_and_loops() {
    for benchmark in [Benchmark::Bt, Benchmark::Lu] {
        let problem = benchmark.problem(Class::S);
        let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").build().unwrap();
        let settings = Settings { steps: 0, fuse: Fuse::Whole, periods: false, replay: false };
        let program = Program::new(&rt, benchmark, &problem, settings);
        program.prepare().unwrap();
        let mut recorded = program.record(2).unwrap();
        recorded.replay().unwrap();
        program.step(Exchange::Together).unwrap();
        recorded.replay().unwrap();
        program.in_loop(1, |mut zones| zones.step(Fuse::Planes, 1)).unwrap();
        recorded.replay().unwrap();
        program.in_loop(1, |mut zones| zones.step(Fuse::Whole, 1)).unwrap();
        program.norms().unwrap();
        program.step(Exchange::Together).unwrap();
        recorded.replay().unwrap();
        let expected = run_serially(benchmark, &problem, 12, 1, Fuse::Step).norms;
        assert_eq!(program.norms().unwrap(), expected, "{benchmark:?}");
        assert_eq!(program.norms().unwrap(), expected, "{benchmark:?}, once more");
    }
}

#[test]
fn odd_number_of_steps_is_replayed() {
    let rt = Runtime::builder().compute_units("2:CPU:1").build().unwrap();
    let problem = Benchmark::Sp.problem(Class::S);
    let settings = Settings { steps: 5, fuse: Fuse::Whole, periods: false, replay: true };
    let stepped = std::cell::Cell::new(0);
    let program = Program::new(&rt, Benchmark::Sp, &problem, settings);
    let (_, norms) = program.run(|| stepped.set(stepped.get() + 1)).unwrap();
    assert_eq!(norms, run_serially(Benchmark::Sp, &problem, 5, 1, Fuse::Step).norms);
    assert_eq!(stepped.get(), 5);
}

#[test]
fn recording_has_enough_whole_steps_for_replay() {
    let rt = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
    let recorded = |benchmark: Benchmark, class, fuse, steps| {
        let settings = Settings { steps: 0, fuse, periods: false, replay: true };
        let program = Program::new(&rt, benchmark, &benchmark.problem(class), settings);
        program.record(steps).unwrap().steps()
    };
    // SP has four zones in class S, LU always has sixteen.
    for (steps, expected) in [(0, 2), (1, 2), (2, 2), (3, 2), (9, 8), (1000, 32)] {
        assert_eq!(recorded(Benchmark::Sp, Class::S, Fuse::Whole, steps), expected, "of {steps}");
    }
    assert_eq!(recorded(Benchmark::Lu, Class::W, Fuse::Whole, 1000), 8);
    assert_eq!(recorded(Benchmark::Sp, Class::S, Fuse::Step, 1000), 1);
}

#[test]
fn periods_are_refused_with_whole_steps() {
    let rt = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
    let settings = Settings { steps: 1, fuse: Fuse::Whole, periods: true, replay: false };
    let program = Program::new(&rt, Benchmark::Sp, &Benchmark::Sp.problem(Class::S), settings);
    let error = program.run(|| ()).unwrap_err().to_string();
    assert!(error.contains("cannot time the periods of whole steps"), "{error}");
    let error = program.step(Exchange::OneByOne).unwrap_err().to_string();
    assert!(error.contains("cannot exchange faces zone by zone"), "{error}");
}

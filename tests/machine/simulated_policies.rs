//! Simulations under policies: energy, shares by functional performance models, and list scheduling.

use super::simulation::{never, plain, runtime, submit};
use std::time::Duration;
use thalweg::prelude::*;

/// Returns a machine whose cores draw 30 W when busy, and whose GPU is four times as fast and draws 150 W more when
/// busy than at rest.
fn with_power() -> SimulatedMachine {
    let text = r#"
        name = "with power"
        static_w = 100
        [units.CPU]
        count = 3
        bytes_per_s = 1e9
        idle_w = 2
        busy_w = 32
        [units.GPU]
        count = 1
        bytes_per_s = 1e12
        idle_w = 10
        busy_w = 160
        [[links]]
        between = ["host", "GPU"]
        latency_ns = 0
        bytes_per_s = 1e15
        [[tasks]]
        name = "work"
        cost = 1
        time_ns = { CPU = { 1 = 4_000_000 }, GPU = { 1 = 1_000_000 } }
    "#;
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a step of 100 indices.
fn step(rt: &Runtime, space: &IterationSpace) {
    space.begin();
    for index in 0..100 {
        rt.task("work", ()).cost(1.0).cpu(never).at(space, index).submit().unwrap();
    }
    rt.wait().unwrap();
}

/// Returns the time and the dynamic energy of the last of `steps` steps of 100 indices.
fn last_step(scheduler: &str, steps: usize) -> (f64, f64, Runtime) {
    let rt = runtime(with_power(), "1:CPU:1,1:GPU:1", scheduler);
    let space = IterationSpace::new("blocks", vec![1.0; 100]);
    let now = |rt: &Runtime| {
        let joules: Option<f64> = rt.statistics().energy.iter().map(|known| known.dynamic_j).sum();
        (rt.now().as_secs_f64(), joules.unwrap())
    };
    let mut last = (0.0, 0.0);
    for _ in 0..steps {
        let before = now(&rt);
        step(&rt, &space);
        last = (now(&rt).0 - before.0, now(&rt).1 - before.1);
    }
    (last.0, last.1, rt)
}

#[test]
fn energy_follows_from_powers_and_busy_times() {
    let rt = runtime(with_power(), "1:CPU:2", "dynamic");
    submit(&rt, "work", 1, 500.0);
    rt.wait().unwrap();
    assert_eq!(rt.now(), Duration::from_secs(1), "two cores must halve the time");
    let energy = rt.statistics().energy;
    let [unit, rest] = &energy[..] else { panic!("{energy:?}") };
    assert_eq!((unit.total_j, unit.dynamic_j), (Some(64.0), Some(60.0)));
    assert_eq!(
        (rest.total_j, rest.dynamic_j),
        (Some(112.0), Some(0.0)),
        "the machine, and the core and the GPU that no unit uses"
    );
    assert!(rt.statistics().to_string().contains("energy of machine (power): 112.000 J"));
    let none = runtime(plain(false), "1:CPU:1", "dynamic");
    assert!(none.statistics().energy.is_empty());
}

#[test]
fn fpm_shares_are_optimal_for_the_chosen_objective() {
    let (time, joules, rt) = last_step("fpm", 6);
    assert_eq!(rt.statistics().shares.unwrap().sizes, [20.0, 80.0]);
    assert!((time - 0.080).abs() < 1e-9 && (joules - (0.08 * 30.0 + 0.08 * 150.0)).abs() < 1e-6, "{time} {joules}");
    let (time, joules, _) = last_step("fpm:objective=energy", 6);
    assert!((time - 0.4).abs() < 1e-9 && (joules - 12.0).abs() < 1e-6, "all indices on the core: {time} {joules}");
    let (time, joules, rt) = last_step("fpm:objective=pareto,budget=0.2", 8);
    assert_eq!(rt.statistics().shares.unwrap().sizes, [50.0, 50.0], "{joules}");
    assert!(time <= 0.2 + 1e-9);
    let (time, _, rt) = last_step("fpm:objective=pareto,budget=0.01", 8);
    let instead = rt.statistics().shares.unwrap().instead.unwrap();
    assert!(instead.starts_with("cannot complete 100 within 0.01 s: the minimum is 0.08"), "{instead}");
    assert!((time - 0.080).abs() < 1e-9, "the fastest shares instead: {time}");
}

#[test]
fn profiles_saved_by_one_run_are_used_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profiles.toml");
    let first_step = || {
        let builder = Runtime::builder().compute_units("1:CPU:1,1:GPU:1").scheduler("fpm").model_file(&path);
        let rt = builder.simulate(with_power()).build().unwrap();
        let space = IterationSpace::new("blocks", vec![1.0; 100]);
        let mut first = None;
        for _ in 0..4 {
            space.begin();
            for index in 0..100 {
                rt.task("work", ()).cost(1.0).cpu(never).at(&space, index).submit().unwrap();
            }
            rt.wait().unwrap();
            first.get_or_insert(rt.now());
        }
        first.unwrap()
    };
    assert_eq!(first_step(), Duration::from_millis(200), "without profiles, shares are equal");
    assert_eq!(first_step(), Duration::from_millis(80), "{}", std::fs::read_to_string(&path).unwrap());
    std::fs::write(&path, "[[profile]]\nunit = \"CPU:1\"\ntime_s = [[2, 1.0], [1, 1.0]]\n").unwrap();
    let error = Runtime::builder().compute_units("1:CPU:1").scheduler("fpm").model_file(&path).build().unwrap_err();
    assert!(error.to_string().contains("CPU:1 has size 1 after 2"), "{error}");
}

/// Returns a machine with twenty cores and four GPUs, on which the kernels of a factorization benefit from GPUs to
/// different degrees.
fn for_factorizations() -> SimulatedMachine {
    std::fs::read_to_string("machines/xeon-4xk40.toml").unwrap().parse().unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a Cholesky factorization of `side` × `side` tiles three times, as in the suite. The first two teach the
/// scheduler. Returns the time of the third run.
fn cholesky(rt: &Runtime, side: usize) -> Duration {
    let mut took = Duration::ZERO;
    for _ in 0..3 {
        let a: Vec<Data<f64, Ix2>> = (0..side * side).map(|_| rt.zeros([960, 960])).collect();
        let (tile, start) = (|i: usize, j: usize| &a[i * side + j], rt.now());
        for k in 0..side {
            rt.task("potrf", (tile(k, k).inout(),)).cpu(|_, _| ()).submit().unwrap();
            for i in k + 1..side {
                rt.task("trsm", (tile(k, k).input(), tile(i, k).inout())).cpu(|_, _| ()).submit().unwrap();
            }
            for i in k + 1..side {
                for j in k + 1..i {
                    let accesses = (tile(i, k).input(), tile(j, k).input(), tile(i, j).inout());
                    rt.task("gemm", accesses).cpu(|_, _| ()).submit().unwrap();
                }
                rt.task("syrk", (tile(i, k).input(), tile(i, i).inout())).cpu(|_, _| ()).submit().unwrap();
            }
        }
        rt.wait().unwrap();
        took = rt.now() - start;
    }
    took
}

#[test]
fn bottom_level_factors_a_matrix_faster_than_eft() {
    let took = |scheduler: &str, side| cholesky(&runtime(for_factorizations(), "20:CPU:1,4:GPU:1", scheduler), side);
    // For 8 tiles, the bound was 0.15 before `eft` took queues on links into account and thereby became faster.
    for (side, least) in [(8, 0.13), (12, 0.13), (16, 0.09)] {
        let (eft, level) = (took("eft", side).as_secs_f64(), took("bottom-level", side).as_secs_f64());
        assert!(level < (1.0 - least) * eft, "{side} tiles: {level} s after {eft} s");
    }
}

#[test]
fn auto_schedules_graphs_as_bottom_level_does_and_time_steps_as_eft_does() {
    let graph = |scheduler: &str| cholesky(&runtime(for_factorizations(), "20:CPU:1,4:GPU:1", scheduler), 12);
    let [auto, level, eft] = ["auto", "bottom-level", "eft"].map(graph);
    assert_eq!(auto, level);
    assert!(auto.as_secs_f64() < 1.05 * eft.as_secs_f64(), "{auto:?} of {eft:?}");
    let [auto, level, eft] = ["auto", "bottom-level", "eft"].map(|scheduler| last_step(scheduler, 6).0);
    assert_eq!(auto, eft);
    assert!(auto <= level, "{auto} of {level}");
}

#[test]
fn device_that_slows_down_gets_fewer_tasks() {
    // From 10 ms on, one of two GPUs takes four times as long. At best, a step of 100 tasks then takes 8 ms, in which
    // the fast GPU runs 80 tasks and the other 20.
    let text = r#"
        name = "two GPUs"
        [units.CPU]
        count = 2
        bytes_per_s = 1e9
        [units.GPU]
        count = 2
        bytes_per_s = 1e12
        [[links]]
        between = ["host", "GPU"]
        latency_ns = 0
        bytes_per_s = 1e15
        [[speeds]]
        at_ns = 10_000_000
        kind = "GPU"
        unit = 0
        speed = 0.25
        [[tasks]]
        name = "work"
        cost = 1
        time_ns = { CPU = { 1 = 1_000_000_000 }, GPU = { 1 = 100_000 } }
    "#;
    for scheduler in ["eft", "bottom-level", "auto"] {
        let machine: SimulatedMachine = text.parse().unwrap_or_else(|error| panic!("{error}"));
        let rt = runtime(machine, "2:GPU:1", scheduler);
        let space = IterationSpace::new("blocks", vec![1.0; 100]);
        let mut steps = Vec::new();
        for _ in 0..8 {
            let start = rt.now();
            step(&rt, &space);
            steps.push((rt.now() - start).as_secs_f64() * 1e3);
        }
        assert!((steps[1] - 5.0).abs() < 0.1, "{scheduler}: {steps:?}");
        assert!(steps[7] < 9.0, "{scheduler}: half of the tasks on the slow GPU would take 20 ms: {steps:?}");
    }
}

//! Simulated machines: comparison with closed-form results, determinism, and comparison with a real run.

use std::time::Duration;
use thalweg::prelude::*;

/// Returns a machine with four cores that share nothing and two GPUs, which have either one link each or a shared link.
pub(crate) fn plain(shared: bool) -> SimulatedMachine {
    let text = format!(
        r#"
        name = "plain"
        [units.CPU]
        count = 4
        bytes_per_s = 1e9
        [units.GPU]
        count = 2
        memory_bytes = 1_000_000
        bytes_per_s = 1e12
        [[links]]
        between = ["host", "GPU"]
        latency_ns = 1000
        bytes_per_s = 1e9
        shared = {shared}
        [[tasks]]
        name = "work"
        cost = 1
        [tasks.time_ns]
        CPU = {{ 1 = 100 }}
        GPU = {{ 1 = 10 }}
        [[tasks]]
        name = "on a GPU"
        [tasks.time_ns]
        GPU = {{ 1 = 500 }}
        [[tasks]]
        name = "crowded"
        [tasks.time_ns]
        CPU = {{ 1 = 100, 2 = 300 }}
        [tasks.speed_up]
        2 = 1.6
        "#
    );
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn runtime(machine: SimulatedMachine, units: &str, scheduler: &str) -> Runtime {
    Runtime::builder().compute_units(units).scheduler(scheduler).simulate(machine).build().unwrap()
}

pub(crate) fn never(_: &Context, (): ()) {
    panic!("bodies are not run in a simulation");
}

pub(crate) fn submit(rt: &Runtime, name: &'static str, count: usize, cost: f64) {
    for _ in 0..count {
        rt.task(name, ()).cost(cost).cpu(never).submit().unwrap();
    }
}

#[test]
fn units_change_their_speed_while_tasks_run() {
    let machine = r#"
        name = "throttled"
        units.CPU = { count = 2, bytes_per_s = 1e9 }
        speeds = [
            { at_ns = 350, kind = "CPU", speed = 1 },
            { at_ns = 50, kind = "CPU", unit = 1, speed = 0.25 },
        ]
        [[tasks]]
        name = "work"
        time_ns.CPU = { 1 = 100 }
    "#;
    let rt = runtime(machine.parse().unwrap(), "2:CPU:1", "static");
    let mut ends = Vec::new();
    for count in [2, 1, 2] {
        submit(&rt, "work", count, 1.0);
        rt.wait().unwrap();
        ends.push(rt.now().as_nanos());
    }
    // Unit 1 has half of the first task left at 50, which takes it 200 more. Unit 0 runs the task that is alone.
    assert_eq!(ends, [250, 350, 450]);
}

#[test]
fn independent_tasks_take_the_time_of_their_rounds() {
    for (units, tasks, expected) in
        [("1:CPU:1", 7, 1400), ("4:CPU:1", 12, 600), ("4:CPU:1", 13, 800), ("2:CPU:2", 5, 300)]
    {
        let rt = runtime(plain(false), units, "dynamic");
        submit(&rt, "work", tasks, 2.0);
        assert_eq!(rt.now(), Duration::ZERO, "submission must take no virtual time");
        rt.wait().unwrap();
        assert_eq!(rt.now().as_nanos(), expected, "{tasks} tasks of 200 ns on {units}");
        assert_eq!(rt.statistics().tasks.iter().map(|(_, tasks)| tasks).sum::<u64>(), tasks as u64);
    }
}

#[test]
fn tasks_that_share_a_resource_take_the_time_of_their_rounds() {
    for (total, amount, rounds) in [(1.0, 1.0, 7), (2.0, 1.0, 4), (1.0, 0.3, 3), (3.0, 2.0, 7)] {
        for scheduler in ["dynamic", "stealing", "eft"] {
            let rt = runtime(plain(false), "4:CPU:1", scheduler);
            let license = rt.resource("license", total);
            for _ in 0..7 {
                rt.task("work", ()).cost(2.0).cpu(never).uses(&license, amount).submit().unwrap();
            }
            rt.wait().unwrap();
            assert_eq!(rt.now().as_nanos(), 200 * rounds, "{amount} of {total} under {scheduler}");
        }
    }
}

#[test]
fn chain_takes_the_sum_of_its_tasks() {
    let rt = runtime(plain(false), "4:CPU:1", "stealing");
    let x = rt.scalar(1.0);
    for cost in 1..=10 {
        rt.task("work", (x.inout(),)).cost(f64::from(cost)).cpu(|_, (x,)| x[0] = 0.0).submit().unwrap();
    }
    rt.fetch(&x.all(), SpaceId::HOST).unwrap();
    assert_eq!(rt.now().as_nanos(), 5500);
    assert_eq!(rt.take(x).unwrap(), [1.0], "data must keep its registered value");
}

#[test]
fn busy_units_slow_each_other_down_while_they_are_busy() {
    let rt = runtime(plain(false), "2:CPU:1", "dynamic");
    submit(&rt, "crowded", 2, 1.0);
    rt.wait().unwrap();
    assert_eq!(rt.now().as_nanos(), 300);
    submit(&rt, "crowded", 1, 1.0);
    rt.wait().unwrap();
    assert_eq!(rt.now().as_nanos(), 400, "one task alone");
    submit(&rt, "crowded", 3, 1.0);
    rt.wait().unwrap();
    assert_eq!(rt.now().as_nanos(), 800, "two tasks together, then one alone");
    let rt = runtime(plain(false), "1:CPU:2", "dynamic");
    submit(&rt, "crowded", 1, 1.0);
    rt.wait().unwrap();
    assert_eq!(rt.now().as_nanos(), 188, "300 ns with two cores busy, 1.6 times as fast with both");
}

/// Runs `per_device` tasks per device, each on its own data of 4000 bytes, whose copy takes 5000 ns.
fn copies(shared: bool, units: &str, per_device: usize) -> Runtime {
    let rt = runtime(plain(shared), units, "dynamic");
    for _ in 0..per_device * rt.machine().num_devices() {
        let x: Data<u8> = rt.zeros(4000);
        rt.task("on a GPU", (x.input(),)).cpu(|_, _| ()).submit().unwrap();
    }
    rt.wait().unwrap();
    rt
}

#[test]
fn copies_queue_on_a_link_and_overlap_with_tasks() {
    let time = |shared, units, per_device| copies(shared, units, per_device).now().as_nanos();
    assert_eq!(time(false, "1:GPU:1", 1), 5000 + 500);
    assert_eq!(time(false, "1:GPU:1", 20), 20 * 5000 + 500, "tasks must overlap with the next copies");
    assert_eq!(time(false, "2:GPU:1", 20), 20 * 5000 + 500, "each device has its own link");
    assert_eq!(time(true, "2:GPU:1", 20), 40 * 5000 + 500, "both devices share one link");
    let links = copies(true, "2:GPU:1", 20).statistics().links;
    assert_eq!(links.iter().map(|link| link.bytes).sum::<u64>(), 40 * 4000);
}

#[test]
fn devices_without_a_direct_link_copy_through_the_host() {
    let rt = runtime(plain(false), "2:GPU:1", "dynamic");
    let x: Data<u8> = rt.zeros(4000);
    rt.task("on a GPU", (x.inout(),)).cpu(|_, _| ()).submit().unwrap();
    rt.wait().unwrap();
    assert_eq!(rt.now().as_nanos(), 5500);
    let here = x.all().valid_in();
    let there = SpaceId(3 - here[0].0);
    rt.fetch(&x.all(), there).unwrap();
    assert_eq!(rt.now().as_nanos(), 5500 + 2 * 5000);
    assert_eq!(x.all().valid_in(), [SpaceId(1), SpaceId(2)]);
}

/// Returns the time in which the GPUs `from` send 10 000 bytes each to the GPUs `to`, over a switch at 1 ns per byte.
fn over_a_switch(switch: &str, pairs: &[(usize, usize)]) -> u128 {
    let text = format!(
        r#"
        name = "switched"
        [units.CPU]
        count = 8
        bytes_per_s = 1e9
        [units.GPU]
        count = 4
        memory_bytes = 1_000_000
        bytes_per_s = 1e12
        [[links]]
        between = ["host", "GPU"]
        latency_ns = 0
        bytes_per_s = 1e18
        [[links]]
        between = ["GPU", "GPU"]
        latency_ns = 700
        bytes_per_s = 1e9
        switch = {switch}
        [[tasks]]
        name = "work"
        time_ns.GPU = {{ 1 = 1 }}
        "#
    );
    let rt = runtime(text.parse().unwrap(), "4:GPU:1", "static");
    let units = IterationSpace::new("units", vec![1.0; 4]);
    let data: Vec<Data<u8>> = pairs.iter().map(|_| rt.zeros(10_000)).collect();
    for (data, (from, _)) in data.iter().zip(pairs) {
        rt.task("work", (data.output(),)).cpu(|_, _| ()).at(&units, *from).submit().unwrap();
    }
    rt.wait().unwrap();
    let start = rt.now();
    units.begin();
    for (data, (_, to)) in data.iter().zip(pairs) {
        rt.task("work", (data.input(),)).cpu(|_, _| ()).at(&units, *to).submit().unwrap();
    }
    rt.wait().unwrap();
    (rt.now() - start).as_nanos()
}

#[test]
fn copies_over_a_switch_queue_at_ports_and_uplinks() {
    assert_eq!(over_a_switch("{}", &[(0, 1)]), 10_000 + 700 + 1);
    assert_eq!(over_a_switch("{}", &[(0, 1), (2, 3)]), 10_000 + 700 + 1, "pairs of ports do not affect each other");
    assert_eq!(over_a_switch("{}", &[(0, 1), (1, 0)]), 10_000 + 700 + 1, "a port sends and receives at the same time");
    assert_eq!(over_a_switch("{}", &[(0, 1), (0, 2)]), 2 * 10_000 + 700 + 1, "one port sends one copy at a time");
    assert_eq!(over_a_switch("{}", &[(0, 2), (1, 2)]), 2 * 10_000 + 700 + 1, "one port receives one at a time");
    let third = &[(0, 1), (0, 2), (3, 2)];
    assert_eq!(
        over_a_switch("{}", third),
        2 * 10_000 + 700 + 1,
        "a copy that waits at a port keeps no other port busy"
    );
    let leaves = "{ per_leaf = 2, uplink_bytes_per_s = 0.5e9 }";
    assert_eq!(over_a_switch(leaves, &[(0, 1), (2, 3)]), 10_000 + 700 + 1, "leaves do not affect each other");
    assert_eq!(over_a_switch(leaves, &[(0, 2)]), 2 * 10_000 + 700 + 1, "the slowest lane decides");
    assert_eq!(over_a_switch(leaves, &[(0, 2), (1, 3)]), 4 * 10_000 + 700 + 1, "two pairs share the uplinks");
}

#[test]
fn overlapping_replicas_in_one_memory_are_copied_there() {
    let rt = runtime(plain(false), "1:GPU:1", "dynamic");
    let x: Data<u8> = rt.zeros(100_000);
    rt.task("on a GPU", (x.slice(0..50_000).inout(),)).cpu(|_, _| ()).submit().unwrap();
    rt.task("on a GPU", (x.inout(),)).cpu(|_, _| ()).submit().unwrap();
    rt.wait().unwrap();
    // Half of the data is copied to the device, then the first task runs. Then the other half is copied from the host,
    // while the first half is copied from one replica to the other.
    assert_eq!(rt.now().as_nanos(), 2 * (51_000 + 500));
}

#[test]
fn simulated_device_memory_is_limited_and_evicts() {
    let rt = runtime(plain(false), "1:GPU:1", "dynamic");
    let data: Vec<Data<u8>> = (0..5).map(|_| rt.zeros(400_000)).collect();
    for x in &data {
        rt.task("on a GPU", (x.inout(),)).cpu(|_, _| ()).submit().unwrap();
    }
    rt.wait().unwrap();
    assert!(rt.statistics().evictions >= 3);
    let x: Data<u8> = rt.zeros(2_000_000);
    let error = rt.task("on a GPU", (x.inout(),)).cpu(|_, _| ()).submit().unwrap_err();
    assert!(matches!(error, SubmitError::WorkingSet { capacity_bytes: 1_000_000, .. }), "{error}");
}

#[test]
fn task_runs_on_units_with_a_time_and_a_body() {
    let rt = runtime(plain(false), "2:CPU:1,2:GPU:1", "dynamic");
    submit(&rt, "on a GPU", 10, 1.0);
    for _ in 0..10 {
        rt.task("work", ()).host(|_, ()| ()).submit().unwrap();
    }
    rt.wait().unwrap();
    let tasks: Vec<u64> = rt.statistics().tasks.iter().map(|(_, tasks)| *tasks).collect();
    assert_eq!((tasks[0] + tasks[1], tasks[2] + tasks[3]), (10, 10), "{tasks:?}");

    let rt = runtime(plain(false), "2:CPU:1", "dynamic");
    let error = rt.task("on a GPU", ()).cpu(|_, ()| ()).submit().unwrap_err();
    assert!(error.to_string().contains("only bodies for GPU"), "{error}");
}

#[test]
fn data_in_a_simulation_has_no_memory_and_reads_as_zero() {
    let rt = runtime(plain(false), "1:CPU:1,1:GPU:1", "stealing");
    let huge: Data<f64, Ix4> = rt.zeros([5, 1 << 12, 1 << 12, 1 << 12]).named("huge"); // 2.5 TiB
    rt.task("work", (huge.block((0..5, 0..1, 0..1, 0..4)).inout(),)).cpu(|_, _| ()).submit().unwrap();
    let corner = rt.read(&huge.block((0..2, 0..3, 1..2, 0..4))).unwrap();
    assert_eq!((corner.shape(), corner.sum()), (&[2, 3, 1, 4][..], 0.0));
    let total: Data<f64> = rt.zeros(1);
    for _ in 0..4 {
        rt.task("work", (total.reduction(Sum),)).cpu(|_, _| ()).submit().unwrap();
        rt.task("work", (total.accumulate(Sum),)).cpu(|_, _| ()).submit().unwrap();
    }
    assert_eq!(rt.read(&total).unwrap()[0], 0.0);
    let small: Data<f32, Ix2> = rt.zeros((3, 4));
    assert_eq!(rt.take(small).unwrap(), ndarray::Array2::<f32>::zeros((3, 4)));
    drop(huge);
    rt.wait().unwrap();
}

#[test]
fn filled_array_in_a_simulation_has_no_memory_but_takes_time() {
    let rt = runtime(plain(false), "4:CPU:1", "dynamic");
    let fill = |(i, j): (usize, usize)| -> f64 { panic!("element {i}, {j} is computed in a simulation") };
    let huge = rt.data_with([1 << 20, 1 << 20], fill).unwrap(); // 8 TiB
    rt.wait().unwrap();
    assert_eq!(rt.now(), Duration::from_nanos(1 << 41)); // each of four cores fills a quarter at 1 GB/s
    assert_eq!(rt.read(&huge.block((3..4, 0..4))).unwrap().sum(), 0.0);
}

#[test]
fn zeros_of_a_real_runtime_have_memory() {
    let rt = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
    let x: Data<f64, Ix2> = rt.zeros((30, 40));
    rt.task("add", (x.block((1..2, 0..40)).inout(),)).cpu(|_, (mut x,)| x += 1.0).submit().unwrap();
    assert_eq!(rt.take(x).unwrap().sum(), 40.0);
    assert!(!rt.machine().is_simulated() && rt.now() > Duration::ZERO);
}

/// Runs steps over a ring of blocks that read their neighbours, with noisy times. Returns everything that can be
/// observed.
fn ring(scheduler: &str, seed: u64) -> (Duration, thalweg::Statistics) {
    let rt = runtime(plain(false).with_noise(seed, 0.1), "3:CPU:1,2:GPU:1", scheduler);
    let blocks: Vec<Data<u8>> = (0..40).map(|_| rt.zeros(1000)).collect();
    for step in 0..20 {
        for i in 0..40 {
            let (left, right) = (&blocks[(i + 39) % 40], &blocks[(i + 1) % 40]);
            let accesses =
                (left.slice(900..1000).input(), right.slice(0..100).input(), blocks[i].slice(100..900).inout());
            rt.task("work", accesses).cost(1.0 + ((i * step) % 7) as f64).cpu(|_, _| ()).submit().unwrap();
        }
    }
    rt.wait().unwrap();
    (rt.now(), rt.statistics())
}

#[test]
fn same_seed_gives_the_same_run_to_the_nanosecond() {
    for scheduler in ["dynamic", "stealing"] {
        let first = ring(scheduler, 1);
        assert_eq!(ring(scheduler, 1), first);
        assert_ne!(ring(scheduler, 2).0, first.0);
    }
}

#[test]
fn several_threads_may_submit_to_a_simulation_with_a_window() {
    let rt =
        Runtime::builder().compute_units("2:CPU:1").scheduler("dynamic").max_pending_tasks(100).simulate(plain(false));
    let rt = rt.build().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                submit(&rt, "work", 2000, 1.0);
                rt.wait().unwrap();
            });
        }
    });
    rt.wait().unwrap();
    // A waiting thread advances the time even if other threads have not submitted their tasks yet, so a unit may be
    // idle in between.
    let all = 4 * 2000 * 100;
    assert!((all / 2..=all).contains(&rt.now().as_nanos()), "{:?}", rt.now());
}

/// The same program under both drivers: the number of tasks and the copied bytes must be equal, and the values must be
/// correct.
#[test]
fn simulation_and_emulated_units_run_the_same_tasks_and_copies() {
    const UNITS: &str = "1:CPU:1,1:EMU:1";
    const ROUNDS: u64 = 5;
    let real = Runtime::builder().compute_units(UNITS).scheduler("static").build().unwrap();
    let simulated = runtime(crate::emulated::machine(1, 1, "add", [1000.0; 2]), UNITS, "static");
    let run = |rt: &Runtime| {
        let data: Vec<Data<u64>> = (0..12).map(|_| rt.zeros(1000)).collect();
        let space = IterationSpace::new("parts", vec![1.0; data.len()]);
        for _ in 0..ROUNDS {
            space.begin();
            for (part, x) in data.iter().enumerate() {
                let body = |_: &Context, (x,): (&mut [u64],)| x.iter_mut().for_each(|x| *x += 1);
                rt.task("add", (x.inout(),)).cpu(body).at(&space, part).submit().unwrap();
            }
        }
        rt.wait().unwrap();
        let sums: Vec<u64> = data.iter().map(|x| rt.read(&x.all()).unwrap().iter().sum()).collect();
        let statistics = rt.statistics();
        let links: Vec<_> = statistics.links.iter().map(|link| (link.from, link.to, link.copies, link.bytes)).collect();
        (statistics.tasks, links, sums)
    };
    let ((tasks, links, sums), (simulated_tasks, simulated_links, nothing)) = (run(&real), run(&simulated));
    assert_eq!((&tasks, &links), (&simulated_tasks, &simulated_links));
    assert_eq!(tasks.iter().map(|(_, tasks)| tasks).sum::<u64>(), 12 * ROUNDS);
    assert_eq!((sums, nothing), (vec![1000 * ROUNDS; 12], vec![0; 12]));
}

#[test]
fn units_missing_from_the_simulated_machine_are_refused() {
    let build = |units| Runtime::builder().compute_units(units).simulate(plain(false)).build();
    let error = build("1:CPU:1,3:GPU:1").unwrap_err().to_string();
    assert_eq!(error, "simulate: 1:CPU:1,3:GPU:1 requests 3 GPU devices, but `plain` has 2");
    let error = build("1:CPU:1,1:EMU:1").unwrap_err().to_string();
    assert_eq!(error, "simulate: 1:CPU:1,1:EMU:1 requests 1 EMU devices, but `plain` has 0");
    let shared = build("5:CPU:1").unwrap();
    assert_eq!(shared.machine().warnings().len(), 1, "five units on four cores must give a warning");
    let all = Runtime::builder().simulate(plain(false)).build().unwrap();
    assert_eq!(all.machine().configuration(), "2:CPU:1,2:GPU:1");
}

#[test]
fn machine_files_of_the_project_simulate() {
    for entry in std::fs::read_dir("machines").unwrap() {
        let path = entry.unwrap().path();
        let model = SimulatedMachine::from_file(&path).unwrap();
        let rt = Runtime::builder().simulate(model.with_noise(0, 0.0)).build().unwrap();
        let x: Data<f64> = rt.zeros(1000);
        rt.task("bt step", (x.inout(),)).cost(201.16).cpu(|_, _| ()).submit().unwrap();
        rt.task("anything", (x.inout(),)).cpu(|_, _| ()).submit().unwrap();
        rt.wait().unwrap();
        // For a task without times in the file, the time is derived from its bytes.
        let is_listed = std::fs::read_to_string(&path).unwrap().contains("name = \"bt *\"");
        let least = if is_listed { Duration::from_millis(1) } else { Duration::ZERO };
        assert!(rt.now() > least && rt.now() < Duration::from_millis(40), "{path:?}: {:?}", rt.now());
    }
}

/// With the given number of busy units, the mean task takes the time in the machine file. For LU-MZ and GPUs that is
/// table 3 of González Tallada & Morancho 2024. `examples/schedulers` tests how the times of BT-MZ and SP-MZ in that
/// table come about.
#[test]
fn machine_of_the_publication_takes_the_times_of_its_file() {
    let model = SimulatedMachine::from_file("machines/epyc7742-2xmi50.toml").unwrap().with_noise(0, 0.0);
    let mean = |name: &'static str, units: &str, cost| {
        let rt = runtime(model.clone(), units, "dynamic");
        let tasks = rt.machine().num_units();
        submit(&rt, name, tasks, cost);
        rt.wait().unwrap();
        (rt.now().as_secs_f64() * 1e5).round() / 100.0
    };
    let cpu = [1, 16, 32, 48, 64].map(|units| mean("bt step", &format!("{units}:CPU:1"), 201.160));
    assert_eq!(cpu, [31.11, 36.36, 37.99, 44.63, 49.97]);
    let cpu = [1, 16, 32, 48, 64].map(|units| mean("sp step", &format!("{units}:CPU:1"), 50.7636));
    assert_eq!(cpu, [8.7, 9.0, 11.25, 18.48, 36.38]);
    let cpu = [1, 16, 32, 48, 64].map(|cores| mean("lu step", &format!("1:CPU:{cores}"), 7836.95));
    for (time, measured) in cpu.into_iter().zip([1653.38, 258.94, 98.13, 88.44, 83.03]) {
        assert!((time / measured - 1.0).abs() < 1e-3, "{time} {measured}");
    }
    let gpu =
        [mean("bt step", "1:GPU:1", 201.16), mean("sp step", "1:GPU:1", 50.7636), mean("lu step", "1:GPU:1", 7836.95)];
    assert_eq!(gpu, [2.97, 0.84, 38.45], "includes 10 us for the launch");
}

//! Every scheduler, selected by name, on real units: whatever the scheduler decides, the results must be those of the
//! sequential program.
//!
//! The decisions themselves are tested with tables in each scheduler's own module. Here, a mesh of zones exchanges data
//! between steps, as in NPB-MZ, so that instances overlap and distributions have to wait for each other's times.

use crate::common::watched;
use thalweg::prelude::*;
use thalweg::sched::{Model, NAMES};

const ZONES: usize = 12;
const STEPS: u64 = 10;
const ZONE_LEN: usize = 40;
const MIXES: [&str; 5] = ["1:CPU:1", "2:CPU:1", "1:CPU:1,2:EMU:1", "2:EMU:1", "1:CPU:2,1:EMU:2"];
const WITH_PARAMETERS: [&str; 10] = [
    "fpm:objective=energy",
    "fpm:objective=pareto,budget=2x,team=auto",
    "dynamic:chunk=3,memo=2",
    "dynamic:memo=0",
    "static-pcf:pcf=4",
    "static-pcf:profile",
    "pcf-static:pcf=2",
    "pcf-guided:pcf=0.5",
    "adjacency:slack=0.5",
    "eft:latency_ns=0,bytes_per_s=1e6",
];

fn exchange(own: &mut [u64], left: u64, right: u64) {
    own[0] = own[0].wrapping_mul(3).wrapping_add(left);
    own[ZONE_LEN - 1] ^= right.rotate_left(7);
}

fn relax(own: &mut [u64], zone: usize) {
    for at in 1..own.len() {
        own[at] = own[at].wrapping_mul(31).wrapping_add(own[at - 1] ^ zone as u64);
    }
}

fn initial(zone: usize) -> Vec<u64> {
    (0..ZONE_LEN as u64).map(|at| at.wrapping_mul(zone as u64 + 1)).collect()
}

/// Runs the same program sequentially.
fn sequential() -> Vec<Vec<u64>> {
    let mut zones: Vec<_> = (0..ZONES).map(initial).collect();
    for _ in 0..STEPS {
        for zone in 0..ZONES {
            let left = zones[(zone + ZONES - 1) % ZONES][ZONE_LEN / 2];
            let right = zones[(zone + 1) % ZONES][ZONE_LEN / 2 + 1];
            exchange(&mut zones[zone], left, right);
        }
        for (zone, own) in zones.iter_mut().enumerate() {
            relax(own, zone);
        }
    }
    zones
}

/// Runs the program. If the machine has CPU units, every `host_every`-th zone relaxes only on CPU units.
fn parallel(rt: &Runtime, host_every: usize) -> Vec<Vec<u64>> {
    let data: Vec<_> = (0..ZONES).map(|zone| rt.data(initial(zone))).collect();
    let neighbours = (0..ZONES).map(|zone| vec![(zone + 1) % ZONES]).collect();
    let weights = (0..ZONES).map(|zone| 1.0 + zone as f64).collect();
    let space = IterationSpace::new("zones", weights).with_neighbours(neighbours);
    let any_cpu = rt.machine().num_cpu_units() > 0;
    for _ in 0..STEPS {
        space.begin();
        for zone in 0..ZONES {
            let (left, right) = (&data[(zone + ZONES - 1) % ZONES], &data[(zone + 1) % ZONES]);
            let (middle, after) = (ZONE_LEN / 2..ZONE_LEN / 2 + 1, ZONE_LEN / 2 + 1..ZONE_LEN / 2 + 2);
            let accesses = (data[zone].inout(), left.slice(middle).input(), right.slice(after).input());
            let body = |_: &thalweg::Context, (own, left, right): (&mut [u64], &[u64], &[u64])| {
                exchange(own, left[0], right[0])
            };
            rt.task("exchange", accesses).cpu(body).at(&space, zone).submit().unwrap();
        }
        for (zone, data) in data.iter().enumerate() {
            let task = rt.task("relax", (data.inout(),)).at(&space, zone);
            if any_cpu && zone % host_every == 0 {
                task.host(move |_, (own,)| relax(own, zone)).submit().unwrap();
            } else {
                task.cpu(move |_, (own,)| relax(own, zone)).submit().unwrap();
            }
        }
    }
    data.iter().map(|data| rt.read(&data.all()).unwrap()).collect()
}

#[test]
fn scheduler_gives_the_results_of_the_sequential_program() {
    let expected = sequential();
    for scheduler in NAMES.iter().copied().chain(WITH_PARAMETERS) {
        for units in MIXES {
            for host_every in [usize::MAX, 3] {
                let expected = expected.clone();
                watched(&format!("{scheduler} {units} {host_every}"), move || {
                    let builder = Runtime::builder().compute_units(units).scheduler(scheduler);
                    let rt = builder.detect_conflicts(true).build().unwrap();
                    assert_eq!(parallel(&rt, host_every), expected, "{scheduler} {units}");
                    assert!(rt.statistics().conflicts.is_empty(), "{:?}", rt.statistics().conflicts);
                    let tasks: u64 = rt.statistics().tasks.iter().map(|(_, tasks)| tasks).sum();
                    assert!(tasks >= 2 * STEPS * ZONES as u64, "{tasks} tasks ran on units");
                });
            }
        }
    }
}

#[test]
fn static_scheduler_migrates_nothing_after_the_first_step() {
    watched("static", || {
        let rt = Runtime::builder().compute_units("1:CPU:1,2:EMU:1").scheduler("static").build().unwrap();
        parallel(&rt, usize::MAX);
        let affinity = rt.statistics().affinity.expect("a distribution counts hits and migrations");
        assert_eq!((affinity.hits, affinity.migrations, affinity.migrated_bytes), ((STEPS - 1) * ZONES as u64, 0, 0));
        assert!(rt.statistics().to_string().contains("indices: 108 stayed, 0 migrated with 0 bytes"));
        let other = Runtime::builder().compute_units("1:CPU:1,2:EMU:1").scheduler("priority").build().unwrap();
        assert_eq!(other.statistics().affinity, None);
    });
}

#[test]
fn failed_task_does_not_stall_a_distribution() {
    for scheduler in NAMES.iter().copied() {
        watched(scheduler, move || {
            let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").scheduler(scheduler).build().unwrap();
            let data: Vec<_> = (0..6).map(|_| rt.scalar(0u64)).collect();
            let space = IterationSpace::new("parts", vec![1.0; 6]);
            for step in 0..8u64 {
                space.begin();
                for (part, x) in data.iter().enumerate() {
                    let body = move |_: &thalweg::Context, (x,): (&mut [u64],)| {
                        x[0] += 1;
                        if step == 3 && part == 2 { Err("broken") } else { Ok(()) }
                    };
                    rt.task("count", (x.inout(),)).cpu(body).at(&space, part).submit().unwrap();
                }
            }
            assert!(rt.wait().is_err());
            assert_eq!(rt.read(&data[0]).unwrap()[0], 8);
            assert!(rt.read(&data[2]).is_err());
        });
    }
}

/// Checks the assignment that is reached after a while with a device that takes four times as long as a core. The
/// machine is simulated, so that times are exactly as declared. The next test checks that real times are measured and
/// passed on.
#[test]
fn faster_unit_gets_more_tasks_after_measurement() {
    for scheduler in ["static-pcf:profile", "pcf-guided:profile", "clustered-guided", "adjacency", "eft"] {
        let uneven = crate::emulated::machine(1, 1, "work", [2e6, 8e6]);
        let builder = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").scheduler(scheduler);
        let rt = builder.simulate(uneven).build().unwrap();
        let data: Vec<Data<u64>> = (0..10).map(|_| rt.zeros(1)).collect();
        let space = IterationSpace::new("parts", vec![1.0; 10]);
        let mut of_cpu = 0;
        for step in 0..40 {
            if step == 30 {
                rt.wait().unwrap();
                of_cpu = rt.statistics().tasks[0].1;
            }
            space.begin();
            for (part, x) in data.iter().enumerate() {
                rt.task("work", (x.inout(),)).cpu(|_, _| ()).at(&space, part).submit().unwrap();
            }
        }
        rt.wait().unwrap();
        // Equal shares would give the CPU 50 of 100 indices. With a device of a quarter of the speed, the balanced
        // share is 80.
        let of_cpu = rt.statistics().tasks[0].1 - of_cpu;
        assert!(of_cpu >= 70, "{scheduler}: {of_cpu} of 100");
    }
}

/// Times learned in one run determine the decisions in the next run, and each run learns.
#[test]
fn saved_model_decides_the_unit_of_the_next_run() {
    watched("model", || {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.toml");
        let run = |known: Option<[f64; 2]>| {
            let mut model = Model::default();
            for (unit, mean_ns) in [UnitKind::Cpu, UnitKind::Emulated].into_iter().zip(known.into_iter().flatten()) {
                model.learn("task", unit, 8, mean_ns);
            }
            std::fs::write(&path, model.to_text()).unwrap();
            let builder = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").scheduler("eft").model_file(&path);
            let rt = builder.build().unwrap();
            let x = rt.scalar(0u64);
            rt.task("task", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
            rt.wait().unwrap();
            let tasks: Vec<u64> = rt.statistics().tasks.iter().map(|(_, tasks)| *tasks).collect();
            drop((x, rt));
            (tasks, Model::from_text(&std::fs::read_to_string(&path).unwrap()).unwrap())
        };
        const SECOND: f64 = 1e9;
        assert_eq!(run(Some([SECOND, 1.0])).0, [0, 1], "the model says that the device is faster");
        assert_eq!(run(Some([1.0, SECOND])).0, [1, 0], "the model says that the core is faster");
        let (tasks, learned) = run(None);
        assert_eq!(tasks.iter().sum::<u64>(), 1);
        let known = [UnitKind::Cpu, UnitKind::Emulated].map(|unit| learned.estimate_ns("task", unit, 8).is_some());
        assert_eq!(
            known,
            [tasks[0] == 1, tasks[1] == 1],
            "the model must have learned about the unit that ran the task only"
        );
    });
}

//! What holds for every scheduler, whatever happens: tested against a small driver with random machines and programs.

use super::assignment::{Assignment, Distribution, Team, Times, Workload};
use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A step of a mesh: every index has `stages` tasks, each after the one before; the first also after its neighbours'
/// last of the step before.
#[derive(Debug, Clone)]
struct Program {
    indices: usize,
    instances: u64,
    stages: usize,
    /// On which units a task runs, by index and stage; never none.
    on: Vec<Vec<bool>>,
    kinds: Vec<UnitKind>,
    depth: Vec<usize>,
    ns: Vec<u64>,
    order: Vec<usize>,
    fails: Option<u64>,
}

fn programs() -> impl Strategy<Value = Program> {
    let shape = (1..9usize, 1..7u64, 1..4usize, 0..4usize, 0..3usize, prop::option::weighted(0.2, 0..40u64));
    shape.prop_filter("a unit", |shape| shape.3 + shape.4 > 0).prop_flat_map(
        |(indices, instances, stages, cpus, devices, fails)| {
            let units = cpus + devices;
            let kinds = [vec![UnitKind::Cpu; cpus], vec![UnitKind::Emulated; devices]].concat();
            let some = prop::collection::vec(prop::bool::weighted(0.8), units)
                .prop_map(|on| if on.contains(&true) { on } else { vec![true; on.len()] });
            let on = prop::collection::vec(some, indices * stages);
            let depth = prop::collection::vec(1..4usize, units);
            let numbers = (prop::collection::vec(1..10_000u64, 16), prop::collection::vec(0..50usize, 16));
            (on, depth, numbers).prop_map(move |(on, depth, (ns, order))| {
                let kinds = kinds.clone();
                Program { indices, instances, stages, on, kinds, depth, ns, order, fails }
            })
        },
    )
}

/// Runs a program as the engine would; every task must run exactly once, on a unit that has a body for it.
fn run(policy: &mut dyn Policy, program: &Program) {
    let Program { indices, instances, stages, .. } = *program;
    let per_instance = indices * stages;
    let weights: Arc<[f64]> = (0..indices).map(|index| 1.0 + index as f64).collect();
    let neighbours: Arc<[Vec<usize>]> = (0..indices).map(|index| vec![(index + 1) % indices]).collect();
    let mut units: Vec<UnitView> = (program.kinds.iter().enumerate())
        .map(|(id, kind)| UnitView { id: UnitId(id as u16), kind: *kind, spaces: vec![SpaceId(0)], in_flight: 0 })
        .collect();
    let number =
        |instance: u64, index: usize, stage: usize| instance * per_instance as u64 + (index * stages + stage) as u64;
    let place = |task: u64| {
        let index = task as usize % per_instance / stages;
        let (weights, neighbours) = (weights.clone(), Some(neighbours.clone()));
        Place { space: 0, index, instance: task / per_instance as u64, weights, neighbours }
    };
    let total = instances * per_instance as u64;
    let mut done = BTreeSet::new();
    let mut told = BTreeSet::new();
    let mut flying: BTreeMap<u64, UnitId> = BTreeMap::new();
    let mut turn = 0;
    while (done.len() as u64) < total {
        let is_ready = |task: u64, done: &BTreeSet<u64>| {
            let Place { index, instance, .. } = place(task);
            match (task as usize % stages, instance) {
                (0, 0) => true,
                (0, _) => [index + indices - 1, index, index + 1]
                    .iter()
                    .all(|other| done.contains(&number(instance - 1, other % indices, stages - 1))),
                _ => done.contains(&(task - 1)),
            }
        };
        for task in (0..total).filter(|task| !told.contains(task)).collect::<Vec<_>>() {
            if is_ready(task, &done) {
                told.insert(task);
                let ready = ReadyTask {
                    place: Some(place(task)),
                    ..ReadyTask::of(task, &program.on[task as usize % per_instance])
                };
                policy.ready(ready, &View { units: &units, missing_bytes: &|task, _| task.0 % 7 });
            }
        }
        loop {
            let before = flying.len();
            for unit in 0..units.len() {
                while units[unit].in_flight < program.depth[unit] {
                    let view = View { units: &units, missing_bytes: &|task, _| task.0 % 7 };
                    let Some(TaskId(task)) = policy.next(UnitId(unit as u16), &view) else { break };
                    assert!(program.on[task as usize % per_instance][unit], "no body there");
                    assert!(told.contains(&task) && !done.contains(&task), "task {task} was not ready");
                    assert!(flying.insert(task, UnitId(unit as u16)).is_none(), "task {task} twice");
                    units[unit].in_flight += 1;
                }
            }
            if flying.len() == before {
                break;
            }
        }
        assert!(!flying.is_empty(), "{}: {} of {total} done, and nothing moves", policy.name(), done.len());
        let nth = program.order[turn % program.order.len()] % flying.len();
        let (&task, &unit) = flying.iter().nth(nth).expect("it is not empty");
        flying.remove(&task);
        units[unit.index()].in_flight -= 1;
        let elapsed_ns = program.ns[turn % program.ns.len()];
        turn += 1;
        let sample =
            Sample { task: TaskId(task), name: "t".into(), bytes: 0, unit, elapsed_ns, place: Some(place(task)) };
        if program.fails == Some(task) {
            policy.failed(&sample)
        } else {
            policy.finished(&sample)
        }
        done.insert(task);
    }
}

fn all(units: usize) -> impl Iterator<Item = Box<dyn Policy>> {
    let with = ["dynamic:chunk=3,memo=1", "static-pcf:pcf=2.5", "pcf-static:pcf=3", "pcf-guided:pcf=0.4"];
    NAMES.iter().copied().chain(with).map(move |name| {
        let read = |_: &str| Ok(String::new());
        let setting = Setting { units, cpu_units: String::new(), model: Model::default(), read: &read };
        from_spec(name, setting).expect("a name with good parameters")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_task_runs_once_where_it_has_a_body_and_nothing_waits_for_ever(program in programs()) {
        for mut policy in all(program.kinds.len()) {
            run(&mut *policy, &program);
        }
    }

    /// Also with times that make no sense at all.
    #[test]
    fn every_index_is_assigned_to_a_unit_and_searches_end(
        weights in prop::collection::vec(0.1..9.0f64, 1..60),
        (cpus, devices) in (0..6usize, 0..4usize),
        noise in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1e6f64], 97),
    ) {
        prop_assume!(cpus + devices > 0);
        let neighbours: Vec<Vec<usize>> = (0..weights.len()).map(|index| vec![index.saturating_sub(1), index + 8]).collect();
        let workload = Workload { team: Team { cpus, devices }, weights: &weights, neighbours: Some(&neighbours) };
        let distributions: Vec<(Box<dyn Distribution>, bool)> = vec![
            (Box::new(Static), true),
            (Box::new(StaticPcf::new(Pcf::Profiled)), true),
            (Box::new(PcfStatic::new(Pcf::Given(3.0))), true),
            (Box::new(PcfGuided::new(Pcf::Profiled)), true),
            (Box::new(GuidedSizes), true),
            (Box::new(GuidedRuntime::default()), true),
            (Box::new(ClusteredGuided::default()), true),
            (Box::new(Adjacency::default()), false),
        ];
        for (mut distribution, contiguous) in distributions {
            let mut measured: Option<Times> = None;
            let mut instances = 0;
            loop {
                let assignment = distribution.assign(&workload, measured.as_ref());
                let name = distribution.name();
                prop_assert_eq!(assignment.slots().len(), weights.len(), "{}", name);
                prop_assert!(assignment.slots().iter().all(|slot| *slot < cpus + devices), "{}", name);
                prop_assert!(!contiguous || assignment.slots().is_sorted(), "{}", name);
                if distribution.is_steady() {
                    break;
                }
                instances += 1;
                prop_assert!(instances < 2000, "{} does not end", name);
                let ns = (0..weights.len()).map(|index| noise[(index * 31 + instances * 7) % noise.len()]).collect();
                measured = Some(Times::of(&assignment, cpus + devices, ns));
            }
            // Whatever it sees from now on, it goes on giving assignments.
            for instance in 0..200 {
                let ns: Vec<f64> = (0..weights.len()).map(|index| noise[(index * 17 + instance) % noise.len()]).collect();
                let assignment: Assignment = match measured.take() {
                    Some(times) if !distribution.is_steady() => distribution.assign(&workload, Some(&times)),
                    _ => Assignment::new(vec![0; weights.len()]),
                };
                let times = Times::of(&assignment, cpus + devices, ns);
                if distribution.is_steady() {
                    distribution.observe(&workload, &times);
                }
                measured = Some(times);
            }
        }
    }
}

//! Properties that every scheduler must have, tested with a small driver on random machines and programs.

use super::assignment::{Assignment, Distribution, Team, Times, Workload};
use super::check::check_program;
use super::*;
use crate::ids::{TaskId, UnitId};
use proptest::prelude::*;

fn names() -> impl Iterator<Item = &'static str> {
    let with = [
        "dynamic:chunk=3,memo=1,ahead=1",
        "static-pcf:pcf=2.5",
        "pcf-static:pcf=3",
        "pcf-guided:pcf=0.4",
        "pcf-guided:literal",
        "clustered-guided:literal",
        "certified:team=auto",
        "fpm:objective=energy",
        "fpm:objective=pareto,budget=2x",
        "static:team=2",
    ];
    NAMES.iter().copied().chain(with)
}

fn named(name: &str, units: usize) -> Box<dyn Policy> {
    let read = |_: &str| unreachable!("no scheduler here reads a file");
    let (cpu_units, unit_names) = (String::new(), vec!["CPU:1".to_owned(); units]);
    let (model, profiles) = (Model::default(), fpm::Known::default());
    let setting = Setting { units, cpu_units, unit_names, model, profiles, read: &read };
    from_spec(name, setting).expect("the name and its parameters are valid")
}

#[test]
fn every_scheduler_passes_the_check() {
    names().for_each(|name| check(|units| Named(named(name, units))).unwrap_or_else(|broken| panic!("{broken}")));
}

/// A policy that breaks the contract in one specified way, in the middle of a program.
struct Breaks(&'static str, Vec<ReadyTask>, u64);

impl Policy for Breaks {
    fn name(&self) -> &'static str {
        "breaks"
    }
    fn ready(&mut self, task: ReadyTask, _: &View<'_>) {
        self.1.push(task);
    }
    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        self.2 += 1;
        let at = match self.0 {
            "anywhere" => (!self.1.is_empty()).then_some(0),
            "last" => self.1.iter().rposition(|task| task.runs_on(unit)),
            _ => self.1.iter().position(|task| task.runs_on(unit)),
        }?;
        let task = if self.0 == "twice" { self.1[at].clone() } else { self.1.remove(at) };
        match self.0 {
            "unknown" => Some(TaskId(task.id.0 + 1000)),
            "panics" if self.2 > 3 => panic!("no idea"),
            "idle" if view.is_idle() && self.2 > 3 => None,
            _ => Some(task.id),
        }
    }
}

#[test]
fn check_finds_every_violation_of_the_contract() {
    for (way, words) in [
        ("unknown", "task 1000, which is not ready"),
        ("twice", "which it had given out before"),
        ("anywhere", "which does not run there"),
        ("panics", "it panicked: no idea"),
        ("idle", "though no unit has anything to do"),
    ] {
        let broken = check(|_| Breaks(way, Vec::new(), 0)).unwrap_err().to_string();
        assert!(
            broken.starts_with("policy `breaks` breaks its contract: ") && broken.contains(words),
            "{way}: {broken}"
        );
        assert!(broken.contains("CPU units and"), "{broken}");
    }
    let mut made = 0;
    let random = check(|_| {
        made += 1;
        Breaks(if made % 2 == 0 { "first" } else { "last" }, Vec::new(), 0)
    });
    let broken = random.unwrap_err().to_string();
    assert!(broken.contains("it got the same input twice, and gave first "), "{broken}");
}

/// A boxed policy.
struct Named(Box<dyn Policy>);

impl Policy for Named {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn ready(&mut self, task: ReadyTask, view: &View<'_>) {
        self.0.ready(task, view);
    }
    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        self.0.next(unit, view)
    }
    fn in_flight(&mut self, unit: UnitId, tasks: usize) {
        self.0.in_flight(unit, tasks);
    }
    fn finished(&mut self, sample: &Sample) {
        self.0.finished(sample);
    }
    fn failed(&mut self, sample: &Sample) {
        self.0.failed(sample);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_scheduler_keeps_the_contract(number in any::<u64>()) {
        for name in names() {
            check_program(number, &mut |units| Named(named(name, units))).map_err(|broken| TestCaseError::fail(broken.to_string()))?;
        }
    }

    /// Holds even if the times are nonsensical.
    #[test]
    fn every_index_is_assigned_to_a_unit_and_searches_end(
        weights in prop::collection::vec(0.1..9.0f64, 1..60),
        (cpus, devices) in (0..6usize, 0..4usize),
        noise in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1e6f64], 97),
    ) {
        prop_assume!(cpus + devices > 0);
        let neighbours: Vec<Vec<Neighbour>> = (0..weights.len())
            .map(|index| vec![index.saturating_sub(1).into(), Neighbour { index: index + 8, bytes: 3 }])
            .collect();
        let workload = Workload { team: Team { cpus, devices }, weights: &weights, neighbours: Some(&neighbours) };
        let distributions: Vec<(Box<dyn Distribution>, bool)> = vec![
            (Box::new(Static), true),
            (Box::new(StaticPcf::new(Pcf::Profiled)), true),
            (Box::new(PcfStatic::new(Pcf::Given(3.0))), true),
            (Box::new(PcfGuided::new(Pcf::Profiled)), true),
            (Box::new(GuidedSizes), true),
            (Box::new(GuidedRuntime::default()), true),
            (Box::new(ClusteredGuided::default()), true),
            (Box::new(ClusteredGuidedLiteral::default()), true),
            (Box::new(PcfGuided::new(Pcf::Given(2.0)).literal()), true),
            (Box::new(Adjacency::default()), false),
            (Box::new(Certified::default()), false),
            (Box::new(fpm::Fpm::new(fpm::Objective::Time)), true),
            (Box::new(fpm::Fpm::new(fpm::Objective::Energy)), true),
            (Box::new(TeamSized::new(Certified::default(), TeamSize::Auto)), false),
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
            // The distribution continues to return assignments, whatever times follow.
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

use super::*;
use crate::ids::SpaceId;
use crate::machine::UnitKind;
use crate::sched::{Near, Position, UnitView};

/// Returns two CPU units and two devices.
fn units() -> Vec<UnitView> {
    let unit = |id, kind, space| UnitView { id: UnitId(id), kind, spaces: vec![SpaceId(space)], in_flight: 0 };
    let [cpu, gpu] = [UnitKind::Cpu, UnitKind::Gpu];
    vec![unit(0, cpu, 0), unit(1, cpu, 0), unit(2, gpu, 1), unit(3, gpu, 2)]
}

/// Returns the policy for tasks that take this long on a CPU unit and on a device.
fn known(cpu_ns: f64, gpu_ns: f64) -> Auto {
    let mut model = Model::default();
    model.learn("t", UnitKind::Cpu, 0, cpu_ns);
    model.learn("t", UnitKind::Gpu, 0, gpu_ns);
    Auto::new(&model, LinkEstimate::default())
}

fn at_index(id: u64) -> ReadyTask {
    let position =
        Position { space: 0, index: id as usize, instance: 0, weights: vec![1.0; 64].into(), neighbours: None };
    ReadyTask { position: Some(position), ..ReadyTask::of(id, &[true; 4]) }
}

fn ready(policy: &mut Auto, task: ReadyTask, view: &View<'_>) {
    let (id, name, position) = (task.id, task.name.clone(), task.position.clone());
    policy.submitted(&SubmittedTask { position: position.as_ref(), ..SubmittedTask::new(id, &name) });
    policy.ready(task, view);
}

#[test]
fn tasks_go_to_the_policy_of_their_sort_and_each_runs_once() {
    let mut units = units();
    let mut policy = known(3000.0, 1000.0);
    for id in 0..60 {
        let task = match id % 3 {
            0 => at_index(id),
            1 => ReadyTask { near: Some(Near { space: 0, index: 1 }), ..ReadyTask::of(id, &[true; 4]) },
            _ => ReadyTask::of(id, &[true; 4]),
        };
        ready(&mut policy, task, &View::new(&units, &|_, _| 0));
    }
    let (mut done, mut turn) = (Vec::new(), 0);
    while done.len() < 60 {
        for unit in 0..4 {
            let view = View::new(&units, &|_, _| 0);
            let Some(task) = policy.next(UnitId(unit), &view) else { continue };
            let expected = if task.0 % 3 == 2 { "bottom-level" } else { "eft" };
            assert_eq!(policy.estimate(task, UnitId(unit)).policy, expected, "{task}");
            policy.in_flight(UnitId(unit), 1);
            units[usize::from(unit)].in_flight = 1;
            done.push(task);
            let sample = Sample::of(task, UnitId(unit), if unit < 2 { 3000 } else { 1000 });
            if turn % 7 == 3 {
                policy.failed(&sample)
            } else {
                policy.finished(&sample)
            }
            policy.in_flight(UnitId(unit), 0);
            units[usize::from(unit)].in_flight = 0;
        }
        turn += 1;
        assert!(turn < 1000, "{done:?}");
    }
    done.sort_unstable();
    done.dedup();
    assert_eq!(done.len(), 60);
    assert!(policy.bound.is_empty());
    assert!(policy.affinity().is_some_and(|counts| counts.migrations == 0), "each index has run once");
}

#[test]
fn each_policy_knows_the_load_that_the_other_has_given_to_units() {
    let units = units();
    let view = View::new(&units, &|_, _| 0);
    let mut policy = known(100_000.0, 1000.0);
    ready(&mut policy, ReadyTask::of(0, &[true; 4]), &view);
    assert_eq!(policy.next(UnitId(2), &view), Some(TaskId(0)));
    // So `eft` begins with the other device.
    (1..3).for_each(|id| ready(&mut policy, at_index(id), &view));
    let unit_of = |policy: &Auto, id| policy.spaces.load_of(TaskId(id)).map(|(unit, _)| unit);
    assert_eq!([1, 2].map(|id| unit_of(&policy, id)), [Some(UnitId(3)), Some(UnitId(2))]);
    // Unit 2 has two tasks now and unit 3 has one, so `bottom-level` prefers unit 3.
    ready(&mut policy, ReadyTask::of(3, &[true; 4]), &view);
    let next = [3, 3, 2, 2].map(|unit| policy.next(UnitId(unit), &view));
    assert_eq!(
        next,
        [Some(TaskId(1)), Some(TaskId(3)), Some(TaskId(2)), None],
        "tasks that are bound to a unit go first"
    );
    // Tasks that have ended are no load.
    for (task, unit) in [(0, 2), (1, 3), (2, 2), (3, 3)] {
        policy.finished(&Sample::of(TaskId(task), UnitId(unit), 1000));
    }
    (4..6).for_each(|id| ready(&mut policy, at_index(id), &view));
    assert_eq!([4, 5].map(|id| unit_of(&policy, id)), [Some(UnitId(2)), Some(UnitId(3))]);
}

#[test]
fn task_of_a_space_that_an_idle_unit_takes_is_load_of_that_unit() {
    let units = units();
    let view = View::new(&units, &|_, _| 0);
    let mut policy = known(1000.0, 400.0);
    (0..8).for_each(|id| ready(&mut policy, at_index(id), &view));
    let of_unit = |policy: &Auto, unit| policy.bound.values().filter(|bound| bound.unit == UnitId(unit)).count();
    assert_eq!([0, 1, 2, 3].map(|unit| of_unit(&policy, unit)), [1, 1, 3, 3]);
    let run = |policy: &mut Auto, unit, elapsed_ns| {
        let task = policy.next(UnitId(unit), &view).unwrap();
        policy.finished(&Sample::of(task, UnitId(unit), elapsed_ns));
    };
    (0..3).for_each(|_| run(&mut policy, 3, 400));
    assert_eq!(policy.next(UnitId(3), &view), None, "unit 2 is as fast as expected");
    run(&mut policy, 2, 1600);
    let stolen = policy.next(UnitId(3), &view).expect("unit 2 has slowed down");
    assert_eq!((policy.bound[&stolen].unit, of_unit(&policy, 2), of_unit(&policy, 3)), (UnitId(3), 1, 1));
    policy.finished(&Sample::of(stolen, UnitId(3), 400));
    [0, 1, 2].into_iter().for_each(|unit| run(&mut policy, unit, 1000));
    assert!(policy.bound.is_empty());
}

#[test]
fn model_has_the_times_of_all_tasks() {
    let units = units();
    let view = View::new(&units, &|_, _| 0);
    let mut policy = Auto::new(&Model::default(), LinkEstimate::default());
    for (id, name) in [(0, "zone"), (1, "task")] {
        let task = if id == 0 { at_index(id) } else { ReadyTask::of(id, &[true; 4]) };
        ready(&mut policy, ReadyTask { name: name.into(), ..task }, &view);
        let given = (0..4).find_map(|unit| Some((policy.next(UnitId(unit), &view)?, UnitId(unit))));
        let (task, unit) = given.expect("all units are idle");
        policy.finished(&Sample { name: name.into(), ..Sample::of(task, unit, 700) });
    }
    let known = |name| UnitKind::ALL.iter().find_map(|kind| policy.model()?.estimate_ns(name, *kind, 0));
    assert_eq!([known("zone"), known("task")], [Some(700.0); 2]);
}

use super::*;
use crate::ids::SpaceId;
use crate::sched::UnitView;

/// Returns two CPU units and two devices.
fn units() -> Vec<UnitView> {
    let unit = |id, kind, space| UnitView { id: UnitId(id), kind, spaces: vec![SpaceId(space)], in_flight: 0 };
    let [cpu, gpu] = [UnitKind::Cpu, UnitKind::Gpu];
    vec![unit(0, cpu, 0), unit(1, cpu, 0), unit(2, gpu, 1), unit(3, gpu, 2)]
}

fn known(times: &[(&str, f64, f64)]) -> BottomLevel {
    let mut model = Model::default();
    for (name, cpu_ns, gpu_ns) in times {
        model.learn(name, UnitKind::Cpu, 0, *cpu_ns);
        model.learn(name, UnitKind::Gpu, 0, *gpu_ns);
    }
    BottomLevel::new(model, LinkEstimate { latency_ns: 100.0, bytes_per_s: 1e9 })
}

fn submit(policy: &mut BottomLevel, id: u64, name: &'static str, after: &[u64]) {
    let after: Vec<TaskId> = after.iter().copied().map(TaskId).collect();
    policy.submitted(&SubmittedTask { after: &after, ..SubmittedTask::new(TaskId(id), &name.into()) });
}

fn ready(policy: &mut BottomLevel, ids: impl IntoIterator<Item = u64>, name: &'static str, view: &View<'_>) {
    ids.into_iter().for_each(|id| policy.ready(ReadyTask::new(TaskId(id), name, [true; 4]), view));
}

#[test]
fn tasks_with_the_longest_path_come_first() {
    let units = units();
    let view = View { units: &units, missing_bytes: &|_, _| 0 };
    let mut policy = known(&[("t", 1000.0, 1000.0), ("long", 9000.0, 9000.0)]);
    // Tasks 0 and 1 have no successors; task 2 is followed by a chain of two tasks, task 3 by one long task.
    for (id, name, after) in [(0, "t", &[][..]), (1, "t", &[]), (2, "t", &[]), (3, "t", &[])] {
        submit(&mut policy, id, name, after);
    }
    for (id, name, after) in [(4, "t", &[2][..]), (5, "t", &[4]), (6, "long", &[3]), (7, "t", &[])] {
        submit(&mut policy, id, name, after);
    }
    ready(&mut policy, [0, 1, 2, 3, 7], "t", &view);
    // The CPU units are asked first; each group has its most urgent task at its front.
    let mut levels: Vec<u64> = Vec::new();
    for _ in 0..5 {
        let next = (0..4).filter_map(|unit| policy.first(policy.group_of[unit], UnitId(unit as u16), &view));
        let first = next.min_by_key(|task| [3, 2, 0, 1, 7].iter().position(|id| *id == task.0)).unwrap();
        levels.push(first.0);
        policy.give(first, UnitId(0), &view);
    }
    assert_eq!(levels, [3, 2, 0, 1, 7]);
}

#[test]
fn urgent_task_waits_only_for_equally_urgent_work() {
    let units = units();
    let view = View { units: &units, missing_bytes: &|_, _| 0 };
    let mut policy = known(&[("small", 1000.0, 500.0), ("end", 50_000.0, 50_000.0)]);
    (0..40).for_each(|id| submit(&mut policy, id, "small", &[]));
    submit(&mut policy, 40, "small", &[]);
    submit(&mut policy, 41, "end", &[40]);
    policy.window.changed();
    ready(&mut policy, 0..40, "small", &view);
    ready(&mut policy, [40], "small", &view);
    let Some(Known { stage: Stage::Queued(urgent), .. }) = policy.window.get_mut(TaskId(40)) else { panic!("queued") };
    let group = urgent.group;
    assert_eq!(policy.groups[group].kind, UnitKind::Gpu, "no more urgent work is queued there, where it is fastest");
    let unit = policy.group_of.iter().position(|of| *of == group).unwrap();
    assert_eq!(policy.next(UnitId(unit as u16), &view), Some(TaskId(40)));
}

#[test]
fn missing_bytes_keep_tasks_where_their_data_are() {
    let units = units();
    let missing = |task: TaskId, space: SpaceId| if u64::from(space.0) == 1 + task.0 % 2 { 0 } else { 100_000 };
    let view = View { units: &units, missing_bytes: &missing };
    let mut policy = known(&[("t", 1000.0, 1000.0)]);
    ready(&mut policy, 0..20, "t", &view);
    for unit in [2u16, 3] {
        for _ in 0..10 {
            let task = policy.next(UnitId(unit), &view).unwrap();
            assert_eq!(task.0 % 2, u64::from(unit) - 2);
        }
    }
}

#[test]
fn idle_unit_steals_tasks_it_ends_before_their_owners_would() {
    let units = units();
    let view = View { units: &units, missing_bytes: &|_, _| 0 };
    let mut policy = known(&[("t", 3000.0, 1000.0)]);
    // These tasks have bodies only for the devices.
    policy.group(&view);
    let to_devices = [false, false, true, true];
    (0..20).for_each(|id| policy.ready(ReadyTask::new(TaskId(id), "t", to_devices), &view));
    assert_eq!(policy.next(UnitId(0), &view), None, "the tasks do not run there");
    ready(&mut policy, 20..60, "t", &view);
    // Each device has a queue many times as long as three tasks, so a CPU unit takes tasks from the end.
    let order: Vec<u64> = std::iter::from_fn(|| policy.next(UnitId(1), &view)).map(|task| task.0).collect();
    assert!(order.len() > 5 && order.iter().all(|id| *id >= 20), "{order:?}");
    let left = policy.groups.iter().map(|group| group.ahead.total_ns()).sum::<u64>();
    assert!(left > 0, "the devices end the other tasks earlier");
}

#[test]
fn short_memory_prefers_tasks_whose_data_it_has() {
    let units = units();
    let evicted = std::cell::Cell::new(false);
    let missing = |task: TaskId, space: SpaceId| match space.0 {
        1 if evicted.get() && task.0 < 4 => 4000,
        1 => 0,
        _ => 1_000_000,
    };
    let view = View { units: &units, missing_bytes: &missing };
    let mut policy = known(&[("t", 1e9, 1000.0)]);
    ready(&mut policy, 0..8, "t", &view);
    evicted.set(true);
    let order: Vec<u64> = (0..8).filter_map(|_| policy.next(UnitId(2), &view)).map(|task| task.0).collect();
    assert_eq!(order, [0, 4, 5, 6, 7, 1, 2, 3], "the first task reveals the shortage");
}

#[test]
fn each_kernel_is_tried_once_per_kind_of_unit() {
    let units = units();
    let view = View { units: &units, missing_bytes: &|_, _| 0 };
    let mut policy = BottomLevel::default();
    ready(&mut policy, 0..4, "t", &view);
    let given: Vec<u64> = (0..4).filter_map(|unit| policy.next(UnitId(unit), &view)).map(|task| task.0).collect();
    assert_eq!(given.len(), 4);
    for (id, unit, elapsed_ns) in [(0, 0, 40_000), (1, 2, 1000)] {
        policy.finished(&Sample::of(TaskId(id), UnitId(unit), elapsed_ns));
    }
    assert_eq!(policy.model().unwrap().estimate_ns("t", UnitKind::Cpu, 0), Some(40_000.0));
    assert_eq!(policy.model().unwrap().estimate_ns("t", UnitKind::Gpu, 0), Some(1000.0));
    policy.failed(&Sample::of(TaskId(2), UnitId(1), 0));
    policy.skipped(TaskId(99));
}

#[test]
fn device_that_slows_down_is_expected_to_need_longer_for_tasks_that_it_has() {
    let units = units();
    let view = View { units: &units, missing_bytes: &|_, _| 0 };
    let mut policy = known(&[("t", 1e9, 1000.0)]);
    let queued = |policy: &BottomLevel| [1, 2].map(|group| policy.groups[group].queued);
    ready(&mut policy, 0..120, "t", &view);
    assert_eq!(queued(&policy), [60, 60]);
    let run = |policy: &mut BottomLevel, unit, elapsed_ns| {
        let task = policy.next(UnitId(unit), &view).unwrap();
        policy.finished(&Sample::of(task, UnitId(unit), elapsed_ns));
    };
    for round in 0..48 {
        run(&mut policy, 2, if round < 32 { 1000 } else { 4000 });
        run(&mut policy, 3, 1000);
    }
    assert_eq!(queued(&policy), [12, 12]);
    let kind_ns = policy.model().unwrap().estimate_ns("t", UnitKind::Gpu, 0).unwrap();
    assert!(kind_ns < 1250.0, "the other device is as fast as before: {kind_ns}");
    // The slow device already needs longer than the other with twice as many tasks.
    ready(&mut policy, 120..130, "t", &view);
    assert_eq!(queued(&policy), [12, 22]);
}

#[test]
fn skipped_tasks_are_forgotten() {
    let mut policy = known(&[("t", 1.0, 1.0)]);
    (0..100).for_each(|id| submit(&mut policy, id, "t", &[id.saturating_sub(1)]));
    (0..100).for_each(|id| policy.skipped(TaskId(id)));
    assert!(policy.window.get_mut(TaskId(50)).is_none());
    assert!(policy.groups.iter().all(|group| group.given_ns == 0));
}

#[test]
fn units_alike_are_not_asked_in_vain() {
    let mut units = units();
    let asked = |policy: &BottomLevel| {
        let wanted = policy.wanted().expect("the wanted units are known");
        (0..4).filter(|unit| wanted.contains(UnitId(*unit))).collect::<Vec<_>>()
    };
    let mut policy = known(&[("device", 1e9, 1000.0), ("core", 1000.0, 1e9)]);
    let view = View { units: &units, missing_bytes: &|_, _| 0 };
    ready(&mut policy, 0..8, "device", &view);
    assert_eq!(asked(&policy), [0, 1, 2, 3]);
    assert_eq!(policy.next(UnitId(0), &view), None, "it would take too long");
    assert_eq!(asked(&policy), [2, 3], "the other would take too long as well");
    policy.copied(&CopySample { from: SpaceId::HOST, to: SpaceId(1), bytes: 1, elapsed_ns: 1, waited_ns: 0 });
    assert_eq!(asked(&policy), [0, 1, 2, 3], "copies may be faster now");
    ready(&mut policy, 8..12, "core", &view);
    for unit in [0, 1] {
        assert!(policy.next(UnitId(unit), &view).is_some_and(|task| task.0 >= 8));
        policy.in_flight(UnitId(unit), 1);
    }
    units[..2].iter_mut().for_each(|unit| unit.in_flight = 1);
    let view = View { units: &units, missing_bytes: &|_, _| 0 };
    assert_eq!(asked(&policy), [0, 1, 2, 3]);
    assert_eq!(policy.next(UnitId(0), &view), None, "it waits for the first free unit");
    assert_eq!(asked(&policy), [2, 3]);
    policy.in_flight(UnitId(1), 0);
    assert_eq!(asked(&policy), [1, 2, 3]);
}

#[test]
fn units_are_asked_again_when_data_move_if_copies_decided() {
    let units = units();
    let away = |_, space: SpaceId| if space.is_host() { 1_000_000 } else { 0 };
    let mut policy = known(&[("t", 1500.0, 1000.0)]);
    let view = View { units: &units, missing_bytes: &away };
    ready(&mut policy, 0..8, "t", &view);
    let asks = |policy: &BottomLevel, unit| policy.wanted().expect("the wanted units are known").contains(UnitId(unit));
    assert!([0, 1].iter().all(|unit| asks(&policy, *unit)));
    assert_eq!(policy.next(UnitId(0), &view), None, "copies would take a millisecond");
    assert!(![0, 1].iter().any(|unit| asks(&policy, *unit)), "the copies of the other unit would as well");
    policy.data_moved();
    assert!([0, 1].iter().all(|unit| asks(&policy, *unit)));
    let here = View { units: &units, missing_bytes: &|_, _| 0 };
    assert!(policy.next(UnitId(1), &here).is_some(), "its data are in host memory now");
}

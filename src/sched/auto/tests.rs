use super::*;
use crate::ids::{DataId, SpaceId};
use crate::region::Block;
use crate::sched::{Position, RegionUse, UnitView};
use std::sync::Arc;

/// Returns units of one kind, plus devices.
fn units(cpus: u16, devices: u16) -> Vec<UnitView> {
    let unit = |id: u16| {
        let (kind, space) = if id < cpus { (UnitKind::Cpu, 0) } else { (UnitKind::Gpu, id - cpus + 1) };
        UnitView { id: UnitId(id), kind, spaces: vec![SpaceId(space)], in_flight: 0 }
    };
    (0..cpus + devices).map(unit).collect()
}

/// A small driver in which each task given out runs for `ns` of a virtual clock. The policy is asked while units have
/// room.
fn drive(
    policy: &mut Auto,
    mut units: Vec<UnitView>,
    tasks: Vec<(ReadyTask, u64)>,
    ns: impl Fn(&ReadyTask, UnitKind) -> u64,
) -> Vec<TaskId> {
    let (mut waiting, mut flying, mut order) = (std::collections::VecDeque::from(tasks), Vec::new(), Vec::new());
    let mut ready: BTreeMap<TaskId, ReadyTask> = BTreeMap::new();
    let mut now_ns = 0;
    loop {
        // Batches run one after the other.
        if flying.is_empty() && ready.is_empty() {
            let Some(&(_, batch)) = waiting.front() else { return order };
            while waiting.front().is_some_and(|(_, of)| *of == batch)
                && let Some((task, _)) = waiting.pop_front()
            {
                let data = DataId(task.position.as_ref().map_or(task.id.0, |position| position.index as u64));
                let block = Block::interval(0..8);
                let regions = [RegionUse { data, block, is_whole: true, bytes: 64, reads: true, writes: true }];
                let position = task.position.as_ref();
                policy.submitted(&SubmittedTask {
                    cost: task.cost,
                    position,
                    regions: &regions,
                    ..SubmittedTask::new(task.id, &task.name)
                });
                ready.insert(task.id, task.clone());
                policy.ready(task, &View { units: &units, missing_bytes: &|_, _| 0 });
            }
        }
        for unit in 0..units.len() {
            if units[unit].in_flight == 0
                && let Some(id) = policy.next(UnitId(unit as u16), &View { units: &units, missing_bytes: &|_, _| 0 })
            {
                order.push(id);
                let task = ready.remove(&id).expect("the policy gives out only ready tasks, each once");
                let elapsed_ns = ns(&task, units[unit].kind);
                flying.push((now_ns + elapsed_ns, unit, elapsed_ns, task));
                units[unit].in_flight = 1;
                policy.in_flight(UnitId(unit as u16), 1);
            }
        }
        let first = (0..flying.len()).min_by_key(|at| (flying[*at].0, flying[*at].1)).expect("some task is running");
        let (ended_ns, unit, elapsed_ns, task) = flying.swap_remove(first);
        now_ns = ended_ns;
        policy.finished(&Sample {
            task: task.id,
            name: task.name,
            bytes: 0,
            unit: UnitId(unit as u16),
            elapsed_ns,
            ended_ns,
            energy_j: None,
            position: task.position,
        });
        units[unit].in_flight = 0;
        policy.in_flight(UnitId(unit as u16), 0);
    }
}

#[test]
fn unequal_zones_get_a_fitting_map_and_every_task_runs_once() {
    let weights: Arc<[f64]> = (0..32).map(|index| 1.0 + f64::from(index * index)).collect();
    let tasks: Vec<(ReadyTask, u64)> = (0..32 * 40)
        .map(|number: u64| {
            let (index, instance) = ((number % 32) as usize, number / 32);
            let mut task = ReadyTask::new(TaskId(number), "zone", [true; 4]);
            task.cost = Some(weights[index]);
            task.position = Some(Position { space: 0, index, instance, weights: weights.clone(), neighbours: None });
            (task, instance)
        })
        .collect();
    let mut policy = Auto::new(4, Model::default(), LinkEstimate::default());
    let speed = |kind: UnitKind| if kind == UnitKind::Cpu { 1000.0 } else { 200.0 };
    let order = drive(&mut policy, units(3, 1), tasks, |task, kind| (task.cost.unwrap_or(1.0) * speed(kind)) as u64);
    assert_eq!(order.len(), 32 * 40);
    let choice = policy.choice().expect("enough has run");
    let expected = |name| choice.expected_ns.iter().find(|(other, _)| *other == name).unwrap().1;
    assert_eq!(choice.expected_ns.len(), CANDIDATES.len(), "{choice}");
    assert!(expected("certified") > 0 && choice.measured_ns.len() > 1, "{choice}");
    let measured = |name| choice.measured_ns.iter().find(|(other, _)| *other == name).unwrap().1;
    let least = choice.measured_ns.iter().map(|(_, ns)| *ns).min().unwrap();
    assert!(measured(choice.taken) as f64 <= 1.01 * least as f64, "{choice}");
    assert!(policy.bound().is_some() || choice.taken != "certified", "{choice}");
}

#[test]
fn choice_for_a_graph_is_reported() {
    let mut policy = Auto::new(2, Model::default(), LinkEstimate::default());
    let tasks = (0..400).map(|id| (ReadyTask::new(TaskId(id), "t", [true; 2]), id / 40)).collect();
    let order = drive(&mut policy, units(2, 0), tasks, |_, _| 1000);
    assert_eq!(order.len(), 400);
    let text = policy.choice().unwrap().to_string();
    assert!(text.contains(" taken: ") && text.contains("stealing"), "{text}");
}

#[test]
fn policy_change_loses_no_ready_task() {
    let mut policy = Auto::new(1, Model::default(), LinkEstimate::default());
    let units = units(1, 0);
    let view = View { units: &units, missing_bytes: &|_, _| 0 };
    (0..10).for_each(|id| policy.ready(ReadyTask::new(TaskId(id), "t", [true]), &view));
    let (model, copies, kernels) = (Model::default(), Copies::default(), Kernels::default());
    let with = Setting { units: 1, model: &model, copies: &copies, kernels: &kernels, index_ns: None };
    for (_, candidate) in CANDIDATES {
        policy.policy = candidate(&with);
        policy.hand_over(&view);
    }
    let mut order: Vec<u64> = std::iter::from_fn(|| policy.next(UnitId(0), &view)).map(|task| task.0).collect();
    order.sort_unstable();
    assert_eq!(order, (0..10).collect::<Vec<_>>());
}

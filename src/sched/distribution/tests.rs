use super::*;
use crate::ids::{SpaceId, TaskId};
use crate::machine::UnitKind;
use crate::sched::{Assignment, ClusteredGuided, Near, Position, Static, Times, UnitView, Workload};
use std::sync::Arc;

/// Gives all indices to one slot, namely the number of measured instances modulo the number of slots.
#[derive(Clone, Debug, Default)]
struct Turns {
    measured: Vec<Vec<f64>>,
    enough: usize,
}

impl Distribution for Turns {
    fn name(&self) -> &'static str {
        "turns"
    }

    fn assign(&mut self, workload: &Workload<'_>, measured: Option<&Times>) -> Assignment {
        self.measured.extend(measured.map(|times| times.index_ns.clone()));
        Assignment::new(vec![self.measured.len() % workload.team.len(); workload.len()])
    }

    fn is_steady(&self) -> bool {
        self.measured.len() >= self.enough
    }
}

struct Bench<D> {
    policy: Distributed<D>,
    units: Vec<UnitView>,
    weights: Arc<[f64]>,
}

impl<D: Distribution + Clone> Bench<D> {
    fn new(distribution: D, kinds: &[UnitKind], indices: usize) -> Self {
        let unit = |(id, kind): (usize, &UnitKind)| UnitView {
            id: UnitId(id as u16),
            kind: *kind,
            spaces: vec![SpaceId(u16::from(kind.is_device()) * id as u16)],
            in_flight: 0,
        };
        let units = kinds.iter().enumerate().map(unit).collect();
        Self { policy: Distributed::new(distribution), units, weights: vec![1.0; indices].into() }
    }

    fn ready(&mut self, id: u64, at: Option<(usize, u64)>, on: &[bool]) {
        let position =
            |(index, instance)| Position { space: 0, index, instance, weights: self.weights.clone(), neighbours: None };
        let task = ReadyTask { position: at.map(position), ..ReadyTask::of(id, on) };
        self.policy.ready(task, &View { units: &self.units, missing_bytes: &|_, _| 8 });
    }

    fn near(&mut self, id: u64, index: usize, on: &[bool]) {
        let task = ReadyTask { near: Some(Near { space: 0, index }), ..ReadyTask::of(id, on) };
        let missing = |_, space: SpaceId| if space.is_host() { 0 } else { 8 };
        self.policy.ready(task, &View { units: &self.units, missing_bytes: &missing });
    }

    fn next(&mut self, unit: u16) -> Option<u64> {
        let next = self.policy.next(UnitId(unit), &View { units: &self.units, missing_bytes: &|_, _| 8 });
        self.units[unit as usize].in_flight += usize::from(next.is_some());
        next.map(|task| task.0)
    }

    fn finish(&mut self, unit: u16, (index, instance): (usize, u64), elapsed_ns: u64) {
        self.units[unit as usize].in_flight -= 1;
        let position = Position { space: 0, index, instance, weights: self.weights.clone(), neighbours: None };
        let sample = Sample::of(TaskId(0), UnitId(unit), elapsed_ns);
        self.policy.finished(&Sample { position: Some(position), ..sample });
    }
}

const CPU: UnitKind = UnitKind::Cpu;

#[test]
fn tasks_follow_their_index_and_others_go_to_the_least_busy_unit() {
    let mut bench = Bench::new(Static, &[CPU, CPU], 4);
    for (id, index) in [(0, 0), (1, 3), (2, 1), (3, 0)] {
        bench.ready(id, Some((index, 0)), &[true; 2]);
    }
    bench.ready(4, None, &[true; 2]);
    let of = |bench: &mut Bench<Static>, unit| std::iter::from_fn(|| bench.next(unit)).collect::<Vec<_>>();
    assert_eq!((of(&mut bench, 0), of(&mut bench, 1)), (vec![0, 2, 3], vec![1, 4]));
}

#[test]
fn tasks_near_an_index_follow_it_without_being_awaited_or_measured() {
    let mut bench = Bench::new(Turns { enough: 2, ..Turns::default() }, &[CPU, UnitKind::Emulated], 2);
    bench.units[0].in_flight = 5;
    bench.near(0, 1, &[true; 2]);
    assert_eq!((bench.next(1), bench.next(0)), (None, Some(0)), "the index has not run: the task goes to its data");
    bench.units[0].in_flight = 0;
    (0..2).for_each(|index| bench.ready(1 + index as u64, Some((index, 0)), &[true; 2]));
    assert_eq!((bench.next(0), bench.next(0)), (Some(1), Some(2)));
    bench.finish(0, (0, 0), 5);
    bench.finish(0, (1, 0), 7);
    (0..2).for_each(|index| bench.near(3 + index as u64, index, &[true; 2]));
    assert_eq!((bench.next(1), bench.next(0), bench.next(0)), (None, Some(3), Some(4)));
    bench.policy.finished(&Sample::of(TaskId(3), UnitId(0), 99));
    bench.units[0].in_flight = 0;
    (0..2).for_each(|index| bench.ready(5 + index as u64, Some((index, 1)), &[true; 2]));
    assert_eq!((bench.next(1), bench.next(1)), (Some(5), Some(6)), "the second instance is decided");
    assert_eq!(bench.policy.spaces[&0].distribution().measured, [vec![5.0, 7.0]], "without the 99");
}

#[test]
fn task_without_a_body_for_its_unit_goes_to_the_next() {
    let mut bench = Bench::new(Static, &[CPU, UnitKind::Emulated, UnitKind::Emulated], 3);
    bench.ready(0, Some((0, 0)), &[true; 3]);
    bench.ready(1, Some((1, 0)), &[true, false, true]);
    bench.ready(2, Some((2, 0)), &[true, false, false]);
    assert_eq!((bench.next(2), bench.next(0), bench.next(0)), (Some(1), Some(0), Some(2)));
    // The team consists of the units that the first task runs on.
    let mut bench = Bench::new(Static, &[CPU, UnitKind::Emulated, UnitKind::Emulated], 3);
    (0..3).for_each(|index| bench.ready(index as u64, Some((index, 0)), &[false, true, true]));
    assert_eq!((bench.next(0), bench.next(1), bench.next(1), bench.next(2)), (None, Some(0), Some(1), Some(2)));
}

#[test]
fn searching_distribution_delays_an_instance_until_the_previous_ends() {
    let mut bench = Bench::new(Turns { enough: 2, ..Turns::default() }, &[CPU, CPU], 2);
    bench.ready(0, Some((0, 0)), &[true; 2]);
    bench.ready(1, Some((1, 0)), &[true; 2]);
    assert_eq!((bench.next(0), bench.next(0), bench.next(1)), (Some(0), Some(1), None), "all to the first unit");
    bench.finish(0, (0, 0), 5);
    bench.ready(2, Some((0, 1)), &[true; 2]);
    assert_eq!((bench.next(0), bench.next(1)), (None, None), "the first instance is not complete");
    bench.ready(3, Some((0, 0)), &[true; 2]);
    assert_eq!(bench.next(0), Some(3), "a late task of a decided instance is not held back");
    bench.finish(0, (0, 0), 7);
    bench.ready(4, Some((1, 1)), &[true; 2]);
    assert_eq!(bench.next(1), None, "all indices are there, but a task is under way");
    bench.finish(0, (1, 0), 9);
    assert_eq!((bench.next(0), bench.next(1), bench.next(1)), (None, Some(2), Some(4)));
    bench.finish(1, (0, 1), 1);
    bench.finish(1, (1, 1), 2);
    bench.ready(5, Some((1, 2)), &[true; 2]);
    bench.ready(6, Some((0, 2)), &[true; 2]);
    assert_eq!((bench.next(0), bench.next(0)), (Some(5), Some(6)));
    // The distribution is steady now, so no task waits.
    bench.ready(7, Some((0, 3)), &[true; 2]);
    assert_eq!(bench.next(0), Some(7));
    let (measured, counts) = (&bench.policy.spaces[&0], bench.policy.affinity().unwrap());
    assert_eq!(measured.distribution().measured, [vec![12.0, 9.0], vec![1.0, 2.0]]);
    assert_eq!((counts.hits, counts.migrations, counts.migrated_bytes), (1, 4, 32));
}

#[test]
fn no_task_is_held_back_forever() {
    // Index 1 never has a task, so every instance is decided only because all units are idle.
    let mut bench = Bench::new(Turns { enough: 3, ..Turns::default() }, &[CPU, CPU], 2);
    for instance in 0..8 {
        bench.ready(instance, Some((0, instance)), &[true; 2]);
        let unit = (0..2).find(|unit| bench.next(*unit).is_some()).expect("some unit gets the task");
        bench.finish(unit, (0, instance), 3);
    }
    assert!(bench.policy.spaces[&0].distribution().is_steady(), "the instances have been measured all the same");
}

#[test]
fn spaces_do_not_disturb_each_other() {
    let mut bench = Bench::new(ClusteredGuided::default(), &[CPU, UnitKind::Emulated], 2);
    bench.ready(0, Some((0, 0)), &[true; 2]);
    let position = Position { space: 9, index: 0, instance: 0, weights: vec![1.0; 1].into(), neighbours: None };
    let task = ReadyTask { position: Some(position), ..ReadyTask::of(1, &[true; 2]) };
    bench.policy.ready(task, &View { units: &bench.units, missing_bytes: &|_, _| 0 });
    assert_eq!((bench.next(0), bench.next(1)), (Some(0), Some(1)));
}

//! `dynamic`: a free unit takes the next block of indices, until the map is remembered (González Tallada & Morancho
//! 2024, §4.2; González Tallada 2024 (slides), "DYNAMIC scheduler").
//!
//! Tasks without a position are taken one by one. In an iteration space, a unit takes `chunk` consecutive indices at
//! once and then runs all their tasks of that instance. "Once a block is processed, a new one is immediately assigned"
//! (§4.2): a unit that still has a task takes no further block, so no slow unit holds blocks that others could run
//! earlier. With `ahead`, a unit may still have that many tasks when it takes a block, so that copies overlap with
//! execution.
//!
//! After `memo` instances a map is kept, so that data no longer need to move. It is the map of the instance whose
//! longest unit took the least time ([`memo`]). The sources lock the map "after a few iterations" of a feedback
//! scheduler (Bull 1998) but do not say which map, so this choice is ours. A task near an index goes to the unit that
//! last ran the index.

mod memo;

use memo::Memo;

use super::queues::{Queues, insert};
use super::{Affinity, AffinityStatistics, Policy, Position, ReadyTask, Sample, UnitSet, View};
use crate::ids::{TaskId, UnitId};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// First come, first served, in priority order; see the module documentation.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::sched::{Dynamic, Policy, ReadyTask, UnitView, View};
/// let units = [0, 1].map(|id| UnitView { id: UnitId(id), kind: UnitKind::Cpu, spaces: vec![SpaceId::HOST], in_flight: 0 });
/// let view = View::new(&units, &|_, _| 0);
/// let mut policy = Dynamic::new(1, 3, 0);
/// policy.ready(ReadyTask::new(TaskId(0), "t", [true, true]), &view);
/// assert_eq!(policy.next(UnitId(1), &view), Some(TaskId(0))); // the first unit to ask
/// ```
#[derive(Debug)]
pub struct Dynamic {
    chunk: usize,
    ahead: usize,
    memo: Memo,
    common: Common,
    /// The units that may take a block; `None` until a task has been ready.
    free: Option<UnitSet>,
    /// Tasks whose indices have been assigned to a unit.
    taken: Queues,
    affinity: Affinity,
}

/// Tasks that have not been assigned to a unit.
#[derive(Debug, Default)]
struct Common {
    tasks: VecDeque<ReadyTask>,
    /// Number of tasks in each block.
    of_block: FxHashMap<Block, usize>,
    without_position: usize,
}

/// Identifies a block by its iteration space, instance and first index.
type Block = (u64, u64, usize);

impl Common {
    fn insert(&mut self, task: ReadyTask, block: Option<Block>) {
        match block {
            Some(block) => *self.of_block.entry(block).or_default() += 1,
            None => self.without_position += 1,
        }
        insert(&mut self.tasks, task);
    }

    /// Returns the first task that the unit can run. Tasks with a position count only if the unit `may_take` a block.
    fn first_for(&self, unit: UnitId, may_take: bool) -> Option<usize> {
        if !may_take && self.without_position == 0 {
            return None;
        }
        self.tasks.iter().position(|task| task.runs_on(unit) && (may_take || task.position.is_none()))
    }

    fn remove(&mut self, position: usize, block: impl FnOnce(&Position) -> Block) -> Option<ReadyTask> {
        let task = self.tasks.remove(position)?;
        match &task.position {
            Some(position) => self.one_less(block(position)),
            None => self.without_position -= 1,
        }
        Some(task)
    }

    fn one_less(&mut self, block: Block) {
        if let Some(tasks) = self.of_block.get_mut(&block) {
            *tasks -= 1;
            if *tasks == 0 {
                self.of_block.remove(&block);
            }
        }
    }
}

impl Default for Dynamic {
    fn default() -> Self {
        Self::new(Self::CHUNK, Self::MEMO, 0)
    }
}

impl Dynamic {
    /// Default number of indices in a block (González Tallada 2024 (slides)).
    pub const CHUNK: usize = 1;
    /// Default number of instances before a map is kept ("a few": González Tallada & Morancho 2024, §4.2).
    pub const MEMO: u64 = 3;

    /// Creates the policy with blocks of `chunk` indices, at least 1. A map is kept after `memo` instances, or never if
    /// `memo` is 0. A unit takes a block when it has at most `ahead` tasks.
    pub fn new(chunk: usize, memo: u64, ahead: usize) -> Self {
        let (common, taken, memo) = (Common::default(), Queues::default(), Memo::new(memo));
        Self { chunk: chunk.max(1), ahead, memo, common, free: None, taken, affinity: Affinity::new() }
    }

    fn block(&self, position: &Position) -> Block {
        (position.space, position.instance, position.index / self.chunk * self.chunk)
    }

    /// Returns the unit that owns the position's index in the position's instance, if already decided.
    fn owner(&self, position: &Position) -> Option<UnitId> {
        match self.memo.is_past(position.instance) {
            true => self
                .memo
                .unit_of(position.space, position.index)
                .or_else(|| self.affinity.unit_of(position.space, position.index)),
            false => self.affinity.unit_in(position),
        }
    }

    /// Assigns the block that contains `position`, its indices and their tasks, to `unit`.
    fn take_block(&mut self, position: &Position, unit: UnitId) {
        let first = position.index / self.chunk * self.chunk;
        for index in first..(first + self.chunk).min(position.weights.len()) {
            let position = Position { index, ..position.clone() };
            if self.owner(&position).is_none() {
                self.affinity.note(&position, unit, || 0);
            }
        }
        let block = self.block(position);
        if !self.common.of_block.contains_key(&block) {
            return;
        }
        let tasks = std::mem::take(&mut self.common.tasks);
        for task in tasks {
            let of_block = task.position.as_ref().is_some_and(|other| self.block(other) == block);
            match task.unit_from(unit) {
                Some(unit) if of_block => {
                    self.common.one_less(block);
                    self.taken.push(unit, task);
                }
                _ => self.common.tasks.push_back(task),
            }
        }
    }
}

impl Policy for Dynamic {
    fn name(&self) -> &'static str {
        "dynamic"
    }

    fn ready(&mut self, task: ReadyTask, view: &View<'_>) {
        self.free.get_or_insert_with(|| {
            let mut free = UnitSet::default();
            view.units.iter().filter(|unit| unit.in_flight <= self.ahead).for_each(|unit| free.insert(unit.id));
            free
        });
        let owner = match &task.position {
            Some(position) => {
                self.memo.arrived(position);
                self.owner(position)
            }
            None => self.affinity.unit_beside(&task),
        };
        match owner.and_then(|unit| task.unit_from(unit)) {
            Some(unit) => self.taken.push(unit, task),
            None => {
                let block = task.position.as_ref().map(|position| self.block(position));
                self.common.insert(task, block);
            }
        }
    }

    fn wanted(&self) -> Option<UnitSet> {
        let mut wanted = self.taken.filled().clone();
        if !self.common.tasks.is_empty() {
            wanted.extend(self.free.as_ref().filter(|_| self.common.without_position == 0)?);
        }
        Some(wanted)
    }

    fn in_flight(&mut self, unit: UnitId, tasks: usize) {
        match &mut self.free {
            Some(free) if tasks <= self.ahead => free.insert(unit),
            Some(free) => free.remove(unit),
            None => {}
        }
    }

    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        let task = self.taken.pop(unit).or_else(|| {
            let has_room = view.units.get(unit.index()).is_none_or(|unit| unit.in_flight <= self.ahead);
            let position = self.common.first_for(unit, has_room)?;
            let chunk = self.chunk;
            let block = |position: &Position| (position.space, position.instance, position.index / chunk * chunk);
            let task = self.common.remove(position, block)?;
            if let Some(position) = &task.position {
                self.take_block(position, unit);
            }
            Some(task)
        })?;
        if let Some(position) = &task.position
            && self.owner(position) == Some(unit)
        {
            self.memo.given(position, unit);
            self.affinity.note(position, unit, || view.missing_at(task.id, unit));
        }
        Some(task.id)
    }

    fn finished(&mut self, sample: &Sample) {
        if let Some(position) = &sample.position {
            self.memo.finished(position, sample.unit, sample.elapsed_ns as f64);
        }
    }

    fn failed(&mut self, sample: &Sample) {
        self.finished(&Sample { elapsed_ns: 0, ..sample.clone() });
    }

    fn affinity(&self) -> Option<AffinityStatistics> {
        Some(self.affinity.statistics())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SpaceId;
    use crate::machine::UnitKind;
    use crate::sched::{Near, UnitView};

    const VIEW: View<'_> = View { units: &[], missing_bytes: &|_, _| 0 };

    fn at(id: u64, index: usize, instance: u64) -> ReadyTask {
        let position = Position { space: 0, index, instance, weights: vec![1.0; 6].into(), neighbours: None };
        ReadyTask { position: Some(position), ..ReadyTask::of(id, &[true, true]) }
    }

    fn next(policy: &mut Dynamic, unit: u16) -> Option<u64> {
        policy.next(UnitId(unit), &VIEW).map(|task| task.0)
    }

    #[test]
    fn unit_takes_the_first_task_it_can_run() {
        let mut policy = Dynamic::default();
        for (id, on) in [(0, [false, true]), (1, [true, true]), (2, [true, false])] {
            policy.ready(ReadyTask::of(id, &on), &VIEW);
        }
        let order = [(0, Some(1)), (1, Some(0)), (1, None), (0, Some(2))];
        for (unit, expected) in order {
            assert_eq!(next(&mut policy, unit), expected);
        }
    }

    #[test]
    fn unit_takes_a_block_of_indices_with_all_their_tasks() {
        let mut policy = Dynamic::new(2, 0, 0);
        for (id, index) in [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)] {
            policy.ready(at(id, index, 0), &VIEW);
        }
        assert_eq!((next(&mut policy, 1), next(&mut policy, 0)), (Some(0), Some(2)));
        policy.ready(at(5, 0, 0), &VIEW); // a second task of index 0
        assert_eq!((next(&mut policy, 0), next(&mut policy, 0)), (Some(3), Some(4)));
        assert_eq!((next(&mut policy, 0), next(&mut policy, 1), next(&mut policy, 1)), (None, Some(1), Some(5)));
        policy.ready(at(6, 5, 0), &VIEW); // index 5 came with 4
        assert_eq!((next(&mut policy, 1), next(&mut policy, 0)), (None, Some(6)));
        policy.ready(at(7, 0, 1), &VIEW); // a new instance: any unit may take it
        assert_eq!(next(&mut policy, 0), Some(7));
    }

    fn units(in_flight: [usize; 2]) -> Vec<UnitView> {
        let unit = |id: u16| UnitView {
            id: UnitId(id),
            kind: UnitKind::Cpu,
            spaces: vec![SpaceId::HOST],
            in_flight: in_flight[usize::from(id)],
        };
        vec![unit(0), unit(1)]
    }

    #[test]
    fn unit_takes_another_block_once_the_last_is_processed() {
        for (ahead, in_flight, taken) in [(0, 0, Some(1)), (0, 1, None), (1, 1, Some(1)), (1, 2, None)] {
            let mut policy = Dynamic::new(1, 0, ahead);
            (0..2).for_each(|id| policy.ready(at(id, id as usize, 0), &VIEW));
            assert_eq!(next(&mut policy, 0), Some(0));
            let units = units([in_flight, 0]);
            let view = View { units: &units, missing_bytes: &|_, _| 0 };
            let next = policy.next(UnitId(0), &view).map(|task| task.0);
            assert_eq!(next, taken, "{ahead} ahead, {in_flight} in flight");
            policy.ready(ReadyTask::of(7, &[true, true]), &view);
            assert_eq!(policy.next(UnitId(0), &view), Some(TaskId(7)), "a task without a position is no block");
        }
    }

    /// Runs an instance of six indices on these units, where each index takes `ns`.
    fn instance(policy: &mut Dynamic, number: u64, units: [u16; 6], ns: u64) {
        for (index, unit) in units.into_iter().enumerate() {
            policy.ready(at(number * 6 + index as u64, index, number), &VIEW);
            let task = TaskId(next(policy, unit).expect("no other unit has taken the index"));
            let position = at(0, index, number).position;
            let unit = UnitId(unit);
            policy.finished(&Sample { position, ..Sample::of(task, unit, ns) });
        }
    }

    #[test]
    fn map_of_the_best_instance_stays() {
        let mut policy = Dynamic::new(1, 3, 0);
        instance(&mut policy, 0, [0, 0, 0, 0, 1, 1], 10);
        instance(&mut policy, 1, [0, 1, 0, 1, 0, 1], 10);
        instance(&mut policy, 2, [1, 1, 1, 1, 1, 0], 10);
        for number in 3..5 {
            (0..6).for_each(|index| policy.ready(at(number * 6 + index, index as usize, number), &VIEW));
            let of = |policy: &mut Dynamic, unit| std::iter::from_fn(|| next(policy, unit)).collect::<Vec<_>>();
            let of_both: [Vec<u64>; 2] =
                [of(&mut policy, 0), of(&mut policy, 1)].map(|ids| ids.iter().map(|id| id % 6).collect());
            assert_eq!(of_both, [vec![0, 2, 4], vec![1, 3, 5]], "30 for each; the others 40 and 50");
        }
    }

    #[test]
    fn task_near_an_index_follows_it_without_taking_it() {
        let near = |id, index| ReadyTask { near: Some(Near { space: 0, index }), ..ReadyTask::of(id, &[true, true]) };
        let mut policy = Dynamic::new(1, 0, 0);
        policy.ready(near(0, 3), &VIEW);
        assert_eq!(next(&mut policy, 0), Some(0), "the index has not run: any unit may take the task");
        policy.ready(at(1, 3, 0), &VIEW);
        assert_eq!(next(&mut policy, 1), Some(1), "any unit may still take the index");
        policy.ready(near(2, 3), &VIEW);
        assert_eq!((next(&mut policy, 0), next(&mut policy, 1)), (None, Some(2)));
        policy.ready(at(3, 3, 1), &VIEW);
        assert_eq!(next(&mut policy, 0), Some(3), "a new instance: any unit may take it, wherever the exchange ran");
    }

    #[test]
    fn every_index_stays_after_memo_instances() {
        let mut policy = Dynamic::new(1, 2, 0);
        for (instance, unit) in [(0, 0), (1, 1)] {
            policy.ready(at(instance, 3, instance), &VIEW);
            assert_eq!(next(&mut policy, unit), Some(instance));
        }
        for instance in 2..5 {
            policy.ready(at(instance, 3, instance), &VIEW);
            assert_eq!((next(&mut policy, 0), next(&mut policy, 1)), (None, Some(instance)));
        }
        let counts = policy.affinity().unwrap();
        assert_eq!((counts.hits, counts.migrations), (3, 1));
        policy.ready(at(9, 4, 5), &VIEW); // never seen before
        assert_eq!(next(&mut policy, 0), Some(9));
    }
}

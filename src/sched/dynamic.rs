//! `dynamic`: whoever is free takes the next block of indices, until the map is remembered (González Tallada & Morancho
//! 2024, §4.2; González Tallada 2024 (slides), "DYNAMIC scheduler").
//!
//! Tasks without a place are taken one by one. Of an iteration space, a unit takes `chunk` consecutive indices at once,
//! and then runs all their tasks of that instance. From instance `memo` on, every index stays where it ran last (Bull
//! 1998, as González Tallada & Morancho 2024 has it), so that its data need not move any more.

use super::queues::{Queues, insert};
use super::{Affinity, AffinityStatistics, Place, Policy, ReadyTask, View};
use crate::ids::{TaskId, UnitId};
use std::collections::VecDeque;

/// First come, first served, by priority.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::sched::{Dynamic, Policy, ReadyTask, UnitView, View};
/// let units = [0, 1].map(|id| UnitView { id: UnitId(id), kind: UnitKind::Cpu, spaces: vec![SpaceId::HOST], in_flight: 0 });
/// let view = View::new(&units, &|_, _| 0);
/// let mut policy = Dynamic::new(1, 3);
/// policy.ready(ReadyTask::new(TaskId(0), "t", [true, true]), &view);
/// assert_eq!(policy.next(UnitId(1), &view), Some(TaskId(0))); // whoever asks first
/// ```
#[derive(Debug)]
pub struct Dynamic {
    chunk: usize,
    memo: u64,
    /// Tasks that nobody has taken.
    common: VecDeque<ReadyTask>,
    /// Tasks of indices that a unit has taken.
    taken: Queues,
    affinity: Affinity,
}

impl Default for Dynamic {
    fn default() -> Self {
        Self::new(Self::CHUNK, Self::MEMO)
    }
}

impl Dynamic {
    /// The default number of indices in a block (González Tallada 2024 (slides)).
    pub const CHUNK: usize = 1;
    /// The default number of instances before the map is remembered ("a few": González Tallada & Morancho 2024, §4.2).
    pub const MEMO: u64 = 3;

    /// Blocks of `chunk` indices, at least 1; the map is remembered after `memo` instances, or never if `memo` is 0.
    pub fn new(chunk: usize, memo: u64) -> Self {
        let memo = if memo == 0 { u64::MAX } else { memo };
        let (common, taken) = (VecDeque::new(), Queues::default());
        Self { chunk: chunk.max(1), memo, common, taken, affinity: Affinity::new() }
    }

    /// The unit that has the place's index in its instance, if that is settled.
    fn owner(&self, place: &Place) -> Option<UnitId> {
        match place.instance >= self.memo {
            true => self.affinity.unit_of(place.space, place.index),
            false => self.affinity.unit_in(place),
        }
    }

    /// `unit` takes the block that `place` is in: its indices and their tasks.
    fn take_block(&mut self, place: &Place, unit: UnitId) {
        let first = place.index / self.chunk * self.chunk;
        for index in first..(first + self.chunk).min(place.weights.len()) {
            let place = Place { index, ..place.clone() };
            if self.owner(&place).is_none() {
                self.affinity.note(&place, unit, || 0);
            }
        }
        let mut left = VecDeque::with_capacity(self.common.len());
        for task in self.common.drain(..) {
            let same = |other: &Place| (other.space, other.instance) == (place.space, place.instance);
            let of_block =
                task.place.as_ref().is_some_and(|other| same(other) && other.index / self.chunk == first / self.chunk);
            match task.unit_from(unit) {
                Some(unit) if of_block => self.taken.push(unit, task),
                _ => left.push_back(task),
            }
        }
        self.common = left;
    }
}

impl Policy for Dynamic {
    fn name(&self) -> &'static str {
        "dynamic"
    }

    fn ready(&mut self, task: ReadyTask, _: &View<'_>) {
        let owner = task.place.as_ref().and_then(|place| self.owner(place));
        match owner.and_then(|unit| task.unit_from(unit)) {
            Some(unit) => self.taken.push(unit, task),
            None => insert(&mut self.common, task),
        }
    }

    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        let task = self.taken.pop(unit).or_else(|| {
            let position = self.common.iter().position(|task| task.runs_on(unit))?;
            let task = self.common.remove(position)?;
            if let Some(place) = &task.place {
                self.take_block(place, unit);
            }
            Some(task)
        })?;
        if let Some(place) = &task.place
            && self.owner(place) == Some(unit)
        {
            self.affinity.note(place, unit, || view.missing_at(task.id, unit));
        }
        Some(task.id)
    }

    fn affinity(&self) -> Option<AffinityStatistics> {
        Some(self.affinity.statistics())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEW: View<'_> = View { units: &[], missing_bytes: &|_, _| 0 };

    fn at(id: u64, index: usize, instance: u64) -> ReadyTask {
        let place = Place { space: 0, index, instance, weights: vec![1.0; 6].into(), neighbours: None };
        ReadyTask { place: Some(place), ..ReadyTask::of(id, &[true, true]) }
    }

    fn next(policy: &mut Dynamic, unit: u16) -> Option<u64> {
        policy.next(UnitId(unit), &VIEW).map(|task| task.0)
    }

    #[test]
    fn every_unit_takes_the_first_task_it_can_run() {
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
    fn a_unit_takes_a_block_of_indices_with_all_their_tasks() {
        let mut policy = Dynamic::new(2, 0);
        for (id, index) in [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)] {
            policy.ready(at(id, index, 0), &VIEW);
        }
        assert_eq!((next(&mut policy, 1), next(&mut policy, 0)), (Some(0), Some(2)));
        policy.ready(at(5, 0, 0), &VIEW); // a second task of index 0
        assert_eq!((next(&mut policy, 0), next(&mut policy, 0)), (Some(3), Some(4)));
        assert_eq!((next(&mut policy, 0), next(&mut policy, 1), next(&mut policy, 1)), (None, Some(1), Some(5)));
        policy.ready(at(6, 5, 0), &VIEW); // index 5 came with 4
        assert_eq!((next(&mut policy, 1), next(&mut policy, 0)), (None, Some(6)));
        policy.ready(at(7, 0, 1), &VIEW); // a new instance: anyone's
        assert_eq!(next(&mut policy, 0), Some(7));
    }

    #[test]
    fn after_so_many_instances_every_index_stays() {
        let mut policy = Dynamic::new(1, 2);
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

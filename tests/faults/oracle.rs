//! The oracle, which applies the steps one after the other to plain memory.

use crate::program::Act;
use crate::steps::{End, Kind, Part, Step, hash, updated};

/// What became of a task.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Fate {
    /// The task was not submitted: it was refused, or its parent was skipped.
    Absent,
    Submitted,
    Failed,
}

/// The value of every element, or `None` if the value must have been lost.
pub(crate) struct Oracle {
    pub(crate) extents: [usize; 3],
    pub(crate) memory: Vec<Vec<Option<u64>>>,
    /// For each element, whether the reported failures can have affected it.
    pub(crate) reached: Vec<Vec<bool>>,
}

impl Oracle {
    fn values(&self, part: &Part) -> Option<Vec<u64>> {
        part.elements(self.extents).into_iter().map(|e| self.memory[part.data][e]).collect()
    }

    fn any_reached(&self, part: &Part) -> bool {
        part.elements(self.extents).into_iter().any(|e| self.reached[part.data][e])
    }

    /// Applies one task after the other; children are applied at their parent's position.
    pub(crate) fn apply(&mut self, act: &Act) {
        match act {
            Act::Task(step) => self.apply_step(step),
            Act::Parent(parent) => parent.children.iter().for_each(|child| self.apply(child)),
            _ => {}
        }
    }

    fn apply_step(&mut self, step: &Step) {
        let Step { reads: [a, b], kind, target, update, .. } = step;
        // A task that joins a group runs even if another member of the group has failed.
        let target_is_there = *kind != Kind::Inout || self.values(target).is_some();
        let runs = step.end == End::Returns && target_is_there && self.values(update).is_some();
        let h = self.values(a).zip(self.values(b)).map(|(a, b)| hash(hash(step.seed, &a), &b)).filter(|_| runs);
        for (n, e) in target.elements(self.extents).into_iter().enumerate() {
            let x = &mut self.memory[target.data][e];
            *x = h.zip(if *kind == Kind::Out { Some(0) } else { *x }).map(|(h, x)| kind.value(x, h, n));
        }
        for e in update.elements(self.extents) {
            let x = &mut self.memory[update.data][e];
            *x = h.zip(*x).map(|(h, x)| updated(x, h));
        }
    }

    /// Propagates failures through the tasks of `act`. `n` is the index of the first of these tasks.
    pub(crate) fn reach(&mut self, act: &Act, n: &mut usize, fate: &impl Fn(usize) -> Fate) {
        let own = *n;
        *n += usize::from(act.tasks() > 0);
        match act {
            Act::Task(step) if fate(own) != Fate::Absent => self.reach_step(step, fate(own) == Fate::Failed),
            Act::Parent(parent) => {
                parent.children.iter().for_each(|child| self.reach(child, n, fate));
                let is_skipped = parent.reads.iter().any(|part| self.any_reached(part));
                if is_skipped || fate(own) == Fate::Failed {
                    for part in &parent.weak {
                        part.elements(self.extents).into_iter().for_each(|e| self.reached[part.data][e] = true);
                    }
                }
            }
            _ => {}
        }
    }

    fn reach_step(&mut self, step: &Step, failed: bool) {
        let Step { reads: [a, b], kind, target, update, .. } = step;
        let value_of_target = *kind != Kind::Out && self.any_reached(target);
        let hit = failed || value_of_target || [a, b, update].into_iter().any(|part| self.any_reached(part));
        for part in [target, update] {
            part.elements(self.extents).into_iter().for_each(|e| self.reached[part.data][e] = hit);
        }
    }

    /// Checks the values that were read from `part`.
    pub(crate) fn check(&self, part: &Part, got: &[u64]) {
        for (e, got) in part.elements(self.extents).into_iter().zip(got) {
            match self.memory[part.data][e] {
                Some(expected) => assert_eq!(*got, expected, "element {e} of {part:?} is wrong"),
                None => panic!("element {e} of {part:?} was lost, but can be read: {got}"),
            }
        }
    }
}

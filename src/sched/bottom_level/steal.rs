//! Selection of the units to ask for a task, and stealing between groups. Only units with queued tasks and idle units
//! that may steal are asked.
//!
//! Most events change nothing for most units. If a unit finds that queued tasks can wait for the first free unit, or
//! that there is nothing to steal, units identical to it are not asked until that may have changed.

use super::{BottomLevel, COMPARED, Group, Known, Moment};
use crate::ids::TaskId;
use crate::sched::{UnitSet, UnitView, View};
use std::cmp::Reverse;

impl BottomLevel {
    /// Returns the units that may be given a task ahead and the idle units, except units whose group has already found
    /// nothing. Returns `None` if some tasks run on only a part of a group of identical units.
    pub(super) fn who_may_get_one(&self) -> Option<UnitSet> {
        if self.is_mixed {
            return None;
        }
        let mut wanted = UnitSet::default();
        for (number, group) in self.groups.iter().enumerate() {
            match group {
                Group { queued: 1.., rests: false, members, .. } => wanted.extend(members),
                Group { queued: 0, .. } if self.is_dry(number) => {}
                Group { idle, .. } => wanted.extend(idle),
            }
        }
        Some(wanted)
    }

    /// Returns whether an idle unit of a group would find no task, because nothing has changed since another unit found
    /// none.
    pub(super) fn is_dry(&self, group: usize) -> bool {
        let still = |at: Moment| at.changes == self.changes && at.moves.is_none_or(|moves| moves == self.moves);
        !self.is_mixed && self.groups[group].dry_at.is_some_and(still)
    }

    /// Returns, for an idle unit, a task of another group that the unit would end before that group finished all its
    /// work.
    pub(super) fn steal(&mut self, unit: &UnitView, view: &View<'_>) -> Option<TaskId> {
        let (best, copies_decide) = self.best_to_steal(unit, view);
        if best.is_none() {
            let at = Moment { changes: self.changes, moves: copies_decide.then_some(self.moves) };
            self.groups[self.group_of[unit.id.index()]].dry_at = Some(at);
        }
        best
    }

    /// Returns the task to steal, and whether copies influenced the decision about any candidate.
    fn best_to_steal(&mut self, unit: &UnitView, view: &View<'_>) -> (Option<TaskId>, bool) {
        let own = self.group_of[unit.id.index()];
        let drain_ns = |group: usize| {
            let Group { given_ns, ahead, units, .. } = &self.groups[group];
            ((given_ns + ahead.total_ns()) as f64 * self.paces.factor(group)) as u64 / units
        };
        let others = (0..self.groups.len()).filter(|group| *group != own && self.groups[*group].ahead.total_ns() > 0);
        let with_tasks = others.filter(|group| self.queues(*group, unit.id).any(|queue| !queue.is_empty()));
        let drained = with_tasks.map(|group| (drain_ns(group), Reverse(group)));
        let Some((drained_ns, Reverse(victim))) = drained.max() else { return (None, false) };
        let drained_ns = drained_ns as f64;
        let Some(queue) = self.queues(victim, unit.id).max_by_key(|queue| queue.len()) else { return (None, false) };
        let last: Vec<TaskId> = queue.iter().rev().take(COMPARED).map(|rank| rank.task).collect();
        let [factor_here, factor_there] = [own, victim].map(|group| self.paces.factor(group));
        let (mut best, mut copies_decide): (Option<(f64, TaskId)>, _) = (None, false);
        for task in last {
            let Some(&mut Known { kernel, work, .. }) = self.window.get_mut(task) else { continue };
            let here = self.kernels.known_ns(kernel, unit.kind, work);
            let there = self.kernels.known_ns(kernel, self.groups[victim].kind, work);
            let there = there.unwrap_or_else(|| self.kernels.least_ns(kernel, work)).max(1.0);
            let here = here.unwrap_or(there) * factor_here;
            let there = there * factor_there;
            if here >= drained_ns {
                continue;
            }
            copies_decide = true;
            // This is a lower bound of the loss, because copies can only increase it.
            if best.is_some_and(|(least, _)| here / there >= least) {
                continue;
            }
            let (_, copy_ns) = self.copy(task, own, view);
            let loss = (here + copy_ns) / there;
            if here + copy_ns < drained_ns && best.is_none_or(|(least, _)| loss < least) {
                best = Some((loss, task));
            }
        }
        (best.map(|(_, task)| task), copies_decide)
    }
}

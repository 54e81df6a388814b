//! Replays of frozen graphs on the fast path: handling of task ends and of replay borders.

use super::fast_path::collect;
use super::{Command, Engine};
use crate::depend::{Aftermath, OwnedTask, Recorder, Replays, Round, replays_at_end, running};
use crate::error::SubmitError;
use crate::ids::TaskId;
use crate::sync::drop_quietly;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Engine {
    /// Returns whether the task graph is recorded. Replays would be missing from it.
    pub(crate) fn records_graph(&self) -> bool {
        self.recorder.as_ref().is_some_and(|recorder| recorder.graph.is_some())
    }

    /// Returns a recorder for the tasks of a recording whose first task is `first`, if there is a trace.
    pub(crate) fn recorder_of_recording(&self, first: TaskId) -> Option<Recorder> {
        self.recorder.as_ref().and_then(|recorder| recorder.of_recording(first))
    }

    /// Like [`done_anywhere`](Self::done_anywhere), but for a task that is kept for the next round.
    #[inline]
    pub(crate) fn done_again(&self, task: OwnedTask, ready: &mut impl FnMut(OwnedTask)) {
        if task.shared().queues {
            return self.done_in_turn(task, ready);
        }
        self.done_round(task, ready);
    }

    /// Releases the successors of a task in the current round.
    #[inline]
    pub(super) fn done_round(&self, task: OwnedTask, ready: &mut impl FnMut(OwnedTask)) {
        let lane = task.shared().lane.get();
        let mut joins = Vec::new();
        let end = |task: OwnedTask, joins: &mut Vec<OwnedTask>, ready: &mut dyn FnMut(OwnedTask)| {
            task.end_round(|successor| {
                successor.shared().lane.set(lane);
                match successor.shared().join {
                    true => joins.push(successor),
                    false => self.in_turn(successor).into_iter().for_each(&mut *ready),
                }
            });
        };
        end(task, &mut joins, ready);
        while let Some(join) = joins.pop() {
            match replays_at_end(&join) {
                Some(replays) => self.round_ended(replays, join, ready),
                None => end(join, &mut joins, ready),
            }
        }
    }

    /// Like [`Self::done_again`], but for a task that has turns to give up or contributions to combine.
    #[cold]
    pub(super) fn done_in_turn(&self, task: OwnedTask, ready: &mut impl FnMut(OwnedTask)) {
        collect(|out| self.finished(task, out), ready);
    }

    /// Returns whether a thread is ending or beginning a replay. In that case tasks will follow although none is
    /// running.
    pub(crate) fn is_at_borders(&self) -> bool {
        self.at_borders.load(Ordering::Relaxed) > 0
    }

    #[cold]
    fn round_ended(&self, replays: Arc<Replays>, last: OwnedTask, ready: &mut impl FnMut(OwnedTask)) {
        self.at_borders.fetch_add(1, Ordering::Relaxed);
        let mut ready_in_turn = |task| self.in_turn(task).into_iter().for_each(&mut *ready);
        let aftermath = replays.ended(last, self.failures.count(), &mut ready_in_turn);
        self.settle(aftermath, ready);
        self.at_borders.fetch_sub(1, Ordering::Relaxed);
        running::inside(self.runtime, || drop_quietly(|| drop(replays)));
    }

    /// Enters one more replay, either after the tasks that others have submitted or, with `follows`, directly after
    /// the previous replay with nothing in between. The result must be passed to [`Self::settle`].
    ///
    /// # Errors
    /// Fails if a data object was taken. In that case nothing is submitted.
    pub(crate) fn replay(
        &self,
        replays: &Arc<Replays>,
        round: Round,
        follows: bool,
        ready: &mut dyn FnMut(OwnedTask),
    ) -> Result<Aftermath, SubmitError> {
        let failures = self.failures.count();
        let ready = &mut |task| self.in_turn(task).into_iter().for_each(&mut *ready);
        if follows { Ok(replays.follow(round, failures, ready)) } else { replays.enter(round, failures, ready) }
    }

    /// Returns a join, unless the join is at the border of a replay. In that case, does the resulting work.
    #[cold]
    pub(super) fn arrived(
        &self,
        mut join: OwnedTask,
        joins: &mut Vec<OwnedTask>,
        out: &mut Vec<Command>,
    ) -> Option<OwnedTask> {
        let Some(gate) = join.owned_mut().as_mut().and_then(|side| side.gate.take()) else { return Some(join) };
        let mut run = |task| out.extend(self.in_turn(task).map(Command::Run));
        let mut aftermath = Replays::arrived(&gate, join, self.failures.count(), &mut run);
        joins.append(&mut aftermath.joins);
        running::inside(self.runtime, || drop_quietly(|| drop((aftermath, gate))));
        None
    }

    /// Does the work that a step of a replay has left to do. The caller must hold no lock.
    pub(crate) fn settle(&self, mut aftermath: Aftermath, ready: &mut impl FnMut(OwnedTask)) {
        let joins = std::mem::take(&mut aftermath.joins);
        if !joins.is_empty() {
            collect(|out| joins.into_iter().for_each(|join| self.pass(join, out)), ready);
        }
        running::inside(self.runtime, || drop_quietly(|| drop(aftermath)));
    }
}

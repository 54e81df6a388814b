//! The fast path, for machines with only host memory under a policy that leaves ready tasks to any free unit.
//!
//! The fast path has no placement and no commands. Tasks that any unit may run are handed over as soon as they are
//! found, and only the data objects that tasks declare are locked. Tasks that take a detour (turns, joins, failures)
//! are collected first.

use super::{Command, Engine, Outcome, Refused};
use crate::depend::{
    self, AccessRecord, Batch, MOST_TOGETHER, OwnedTask, Submitting, Together, register_together, running,
};
use crate::error::SubmitError;
use arrayvec::ArrayVec;

impl Engine {
    /// Like [`submitted`](Self::submitted), but without placement: passes the tasks that any unit may run now to
    /// `ready`. These are the submitted task itself, or tasks that waited for a group that it closed. Nothing else can
    /// follow.
    ///
    /// # Errors
    /// Same as for `submitted`.
    #[inline]
    pub(crate) fn submitted_anywhere(
        &self,
        task: Submitting,
        accesses: &[AccessRecord<'_>],
        mut ready: impl FnMut(OwnedTask),
    ) -> Result<(), Refused> {
        debug_assert!(self.placement.is_none(), "with placement, a task is run where it is placed");
        let (task, leftover) = self.enter(task, accesses)?;
        if let Some(leftover) = leftover {
            collect(|out| self.clear_up(*leftover, out), &mut ready);
        }
        task.and_then(|task| self.in_turn(task)).into_iter().for_each(ready);
        Ok(())
    }

    /// Like [`submitted_anywhere`](Self::submitted_anywhere), but for a batch of tasks that were submitted together.
    /// `accesses` are the accesses of one task, together with the rule that gives each task, starting with ID `first`,
    /// its regions. Hands the tasks over in order and empties the batch.
    ///
    /// # Errors
    /// Fails if one of the data objects was taken meanwhile. In that case the tasks stay in the batch.
    #[inline]
    pub(crate) fn submitted_together(
        &self,
        tasks: &mut Batch,
        first: usize,
        accesses: (&[AccessRecord<'_>], &impl Together),
        mut ready: impl FnMut(OwnedTask),
    ) -> Result<(), SubmitError> {
        debug_assert!(self.placement.is_none(), "with placement, a task is run where it is placed");
        let leftover = register_together(tasks, first, accesses, self.recorder.as_ref())?;
        if let Some(recorder) = &self.recorder {
            tasks.iter().for_each(|task| recorder.task(task, || running::task_here(self.runtime)));
        }
        let unblocked = tasks.drain(..).filter_map(Submitting::commit);
        let Some(leftover) = leftover else {
            unblocked.filter_map(|task| self.in_turn(task)).for_each(ready);
            return Ok(());
        };
        let unblocked: ArrayVec<_, MOST_TOGETHER> = unblocked.collect();
        collect(|out| self.clear_up(*leftover, out), &mut ready);
        unblocked.into_iter().filter_map(|task| self.in_turn(task)).for_each(ready);
        Ok(())
    }

    /// Like [`done`](Self::done), but without placement: passes every task that any unit may run now to `ready`,
    /// ending with the task that was submitted first. Nothing else can follow.
    #[inline(always)] // on the path of every task
    pub(crate) fn done_anywhere(&self, task: OwnedTask, mut ready: impl FnMut(OwnedTask)) {
        debug_assert!(self.placement.is_none(), "with placement, a task is run where it is placed");
        if task.shared().queues {
            return collect(|out| self.finished(task, out), &mut ready);
        }
        depend::finish(task, |successor| match successor.shared().join {
            true => collect(|out| self.pass(successor, out), &mut ready),
            false => self.in_turn(successor).into_iter().for_each(&mut ready),
        });
    }

    /// Like [`done_anywhere`](Self::done_anywhere), but for any outcome.
    pub(crate) fn ended_anywhere(&self, task: OwnedTask, outcome: Outcome, mut ready: impl FnMut(OwnedTask)) {
        if task.is_in_rounds() {
            let _ = self.note(&task, outcome);
            self.failures.tell();
            return self.done_again(task, &mut ready);
        }
        match outcome {
            Outcome::Done(_) => self.done_anywhere(task, &mut ready),
            outcome => collect(|out| self.ended(task, outcome, out), &mut ready),
        }
    }
}

/// Passes the tasks that become ready through an event to `ready`.
#[cold]
pub(super) fn collect(event: impl FnOnce(&mut Vec<Command>), ready: &mut impl FnMut(OwnedTask)) {
    let mut out = Vec::new();
    event(&mut out);
    out.into_iter().for_each(|command| match command {
        Command::Run(task) => ready(task),
        command => unreachable!("without placement every command is `Run`: {command:?}"),
    });
}

//! The fast path: machines with host memory only, under a policy that leaves ready tasks to whoever is free.
//!
//! There is no placement and no command: what any unit may run now is handed over as it is found, and nothing is locked
//! but the data that tasks declare. What comes by a detour (turns, joins, failures) is collected first.

use super::{Command, Engine, Outcome, Refused};
use crate::depend::{
    self, AccessRecord, Batch, MOST_TOGETHER, OwnedTask, Submitting, Together, register_together, running,
};
use crate::error::SubmitError;
use arrayvec::ArrayVec;

impl Engine {
    /// As [`submitted`](Self::submitted), where there is no placement: hands what any unit may run now to `ready`, the
    /// task or what waited for a group that it closed. Nothing else can follow.
    ///
    /// # Errors
    /// As there.
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

    /// As [`submitted_anywhere`](Self::submitted_anywhere), for tasks that were submitted together, from the `first` on, with these
    /// accesses, those of one of them before; hands them over in their order, and leaves none.
    ///
    /// # Errors
    /// If one of the data objects was taken meanwhile; the tasks are left.
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
            tasks.iter().for_each(|task| recorder.task(task.shared(), || running::task_here(self.runtime)));
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

    /// As [`done`](Self::done), where there is no placement: hands every task that any unit may run now to `ready`, the
    /// one submitted first last. Nothing else can follow.
    #[inline(always)] // on the way of every task
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

    /// As [`done_anywhere`](Self::done_anywhere), however the task has ended.
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

/// Hands what an event lets run anywhere to `ready`.
#[cold]
pub(super) fn collect(event: impl FnOnce(&mut Vec<Command>), ready: &mut impl FnMut(OwnedTask)) {
    let mut out = Vec::new();
    event(&mut out);
    out.into_iter().for_each(|command| match command {
        Command::Run(task) => ready(task),
        command => unreachable!("without placement all runs anywhere: {command:?}"),
    });
}

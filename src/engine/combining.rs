//! Combination of the contributions to a reduction, performed on behalf of the task that ran last.

use super::Engine;
use super::command::Command;
use crate::depend::{self, Contribution, OwnedTask, running};
use crate::error::FailureReason;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The engine's implementation of the interface through which the dependence layer combines contributions.
pub(super) struct Combining<'a> {
    pub(super) engine: &'a Engine,
    pub(super) out: &'a mut Vec<Command>,
}

impl Combining<'_> {
    /// Runs the user's operation. If it panics, the task whose contribution is being combined fails.
    fn guard(&self, contribution: &Contribution, operation: impl FnOnce(&Contribution)) {
        let operation = || catch_unwind(AssertUnwindSafe(|| operation(contribution)));
        if let Err(payload) = running::as_part_of(self.engine.runtime, &contribution.task, operation) {
            let _ = self.engine.fail(&contribution.task, FailureReason::from_panic(payload));
        }
    }
}

impl depend::Combine for Combining<'_> {
    fn width(&self) -> usize {
        self.engine.width
    }

    fn admitted(&mut self, task: OwnedTask) {
        if let Some(task) = depend::take_turns(task) {
            self.engine.place(task, true, self.out);
        }
    }

    fn combine(&mut self, contribution: &mut Contribution) {
        self.guard(contribution, |Contribution { task, access, block, .. }| task.body().combine(*access, block));
    }

    fn merge(&mut self, into: &mut Contribution, from: &mut Contribution) {
        let Some(other) = from.task.body().replica(from.access) else { return };
        self.guard(into, |Contribution { task, access, block, .. }| task.body().absorb(*access, block, other));
    }

    fn retire(&mut self, task: &mut OwnedTask, access: usize) {
        task.body().retire(access);
    }

    fn done(&mut self, task: OwnedTask) {
        self.engine.let_go(task, self.out);
    }
}

//! Detached tasks, which continue after their bodies have returned. They are parked, run again when they are woken,
//! and ended by the thread that returns the last region they exported.
//!
//! A task that runs again waits in a queue like any ready task. On the fast path this is the queue for threads that
//! host no unit, so that a future that wakes itself lets other tasks run. Otherwise it is the inbox of the unit that
//! began the task.
//!
//! A detached task occupies no unit, so its unit never counts as busy because of it.

use super::host::Host;
use super::state::Threads;
use crate::depend::{Away, Leaving, OwnedTask, Parked, Reception};
use crate::driver::Driver;
use crate::driver::shared::{BreakOnUnwind, Ran};
use crate::engine::{Event, Launch, Outcome, is_asked_by};
use crate::ids::UnitId;
use crate::sync::start;
use crate::trace::Stage;
use smallvec::SmallVec;
use std::sync::Arc;
use std::thread::Builder;

impl Threads {
    /// Determines the state of a task after a unit has run it for `elapsed_ns`. If the task has ended, returns it with
    /// its outcome.
    #[cold]
    pub(super) fn settle(
        &self,
        task: OwnedTask,
        ran: Ran,
        unit: usize,
        elapsed_ns: u64,
    ) -> Option<(OwnedTask, Outcome)> {
        match ran {
            Ran::Ended(outcome) => Some((task, outcome)),
            Ran::Away(leaving) => self.go_on(task, leaving, UnitId(unit as u16), elapsed_ns),
        }
    }

    /// Lets a task continue without its body. If nothing is left to wait for, returns the task with its outcome.
    pub(super) fn go_on(
        &self,
        mut task: OwnedTask,
        leaving: Leaving,
        unit: UnitId,
        elapsed_ns: u64,
    ) -> Option<(OwnedTask, Outcome)> {
        let Leaving { detachment, waits } = leaving;
        let id = task.shared().id;
        detachment.ran(elapsed_ns);
        if !waits && detachment.is_last() {
            if detachment.was_away() {
                self.shared.away.leave(id);
            }
            let away = detachment.away(unit);
            return Some(self.come_back(task, away));
        }
        if !detachment.was_away() {
            let Some(me) = self.this.upgrade() else { unreachable!("the thread that runs a task keeps its driver") };
            detachment.comes_back_to(me);
            self.shared.away.enter(id, &detachment);
        }
        if !self.on_fast_path() {
            self.react(|out| self.shared.engine.on(Event::Suspended(id), out));
        }
        let lane = task.shared().lane.get();
        let side = task.owned_mut().as_mut().filter(|side| side.lends);
        let told = side.and_then(|side| {
            side.counted = true;
            self.shared.progress.finish(None, lane, true);
            side.awaited_by.take()
        });
        let parked = Parked { task, unit };
        match waits {
            false => detachment.leave(parked),
            true => detachment.wait(parked).into_iter().for_each(|Parked { task, unit }| self.run_on(task, unit)),
        }
        if let Some(told) = told {
            self.shared.tell_waiters();
            told.wake(); // the region is exported
        }
        None
    }

    /// Determines the outcome of a task after all regions that it exported have been returned.
    fn come_back(&self, task: OwnedTask, away: Away) -> (OwnedTask, Outcome) {
        if let Some(detector) = &self.shared.conflicts {
            detector.leave(task.shared().id.0);
        }
        let outcome = match away.failure {
            Some(reason) => Outcome::Failed(reason),
            None => {
                task.body().keep();
                Outcome::Done(self.span(away.elapsed_ns))
            }
        };
        (task, outcome)
    }

    /// Queues a task that this unit began, so that the task runs again.
    fn run_on(&self, task: OwnedTask, unit: UnitId) {
        if self.on_fast_path() {
            return self.run_anywhere(task, None);
        }
        let (after, combines_after) = (SmallVec::new(), SmallVec::new());
        let launch = Launch { task, unit, device: None, across: None, places: Arc::default(), after, combines_after };
        self.ready.push_launch(Box::new(launch));
        self.shared.idle.wake_at(unit.index());
    }

    fn end_away(&self, task: OwnedTask, away: Away) {
        let shared = &self.shared;
        let unless_ended = BreakOnUnwind { shared, during: "the end of a detached task" };
        let (unit, id, internal) = (away.unit, task.shared().id, task.shared().internal);
        let (task, outcome) = self.come_back(task, away);
        if !internal {
            if let Some(tracer) = &shared.tracer {
                tracer.stage(id, Stage::Ended);
            }
            shared.away.ended_elsewhere(unit);
        }
        if self.on_fast_path() {
            Host::with(shared.id, |host| {
                shared.end_anywhere(task, outcome, None, |ready| self.run_anywhere(ready, host));
            });
        } else {
            self.react(|out| shared.end(task, outcome, None, out));
        }
        shared.away.leave(id); // only now, because no wait is refused while a detached task may end
        shared.tell_waiters();
        std::mem::forget(unless_ended);
    }
}

impl Reception for Threads {
    fn ended(self: Arc<Self>, task: OwnedTask, away: Away) {
        if !is_asked_by(self.shared.id) {
            return self.end_away(task, away);
        }
        // A policy has dropped a guard while placement's lock was held, so the task cannot end on this thread.
        let ending = Builder::new().name("thalweg-end".to_owned());
        if let Err(error) = start(ending, move || self.end_away(task, away)) {
            log!(error, "cannot end a task whose guard was dropped in a policy: cannot start a thread ({error})");
        }
    }

    fn woken(&self, task: OwnedTask, unit: UnitId) {
        self.run_on(task, unit);
    }
}

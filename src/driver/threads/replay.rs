//! Replays of frozen graphs on the fast path.

use super::host::Host;
use super::state::Threads;
use crate::depend::{Aftermath, Again, Domain, OwnedTask, Replays, Round, Settle, running};
use crate::driver::deadlock::key_of_children;
use crate::driver::shared::{BreakOnUnwind, Shared};
use crate::driver::waiters::own_waker;
use crate::error::SubmitError;
use crate::sync::Idle;
use std::mem::forget;
use std::sync::Arc;

/// Decides, between two iterations of a loop, whether another one follows.
pub(crate) type Decide = Box<dyn FnMut(&Idle<'_>) -> bool + Send>;

impl Threads {
    /// Submits one more round of a frozen graph or, with `decide`, a loop of rounds. The caller must not be inside a
    /// body.
    ///
    /// # Errors
    /// Fails if a data object was taken or the runtime is shutting down. In that case nothing is submitted.
    pub(crate) fn replay(
        &self,
        replays: &Arc<Replays>,
        settle: Option<Settle>,
        decide: Option<Decide>,
    ) -> Result<(), SubmitError> {
        let Shared { id, engine, progress, session, .. } = &self.shared;
        // A loop counts as one more task, so that a thread that waits for it waits for iterations to come.
        let tasks = replays.len() + usize::from(decide.is_some());
        Host::with(*id, |host| {
            let unless_entered = BreakOnUnwind { shared: &self.shared, during: "a replay" };
            let (entered, before) = session.replay(replays, progress, |follows| {
                let admission = progress.admit_replay(tasks as u64);
                let since = self.shared.trace_begin();
                let settle = self.shared.trace_round(replays.first(), admission.task, settle);
                let again = decide.map(|decide| self.again(replays, admission.lane, decide));
                let round = Round { lane: admission.lane, first: admission.task, settle, again };
                let entered = match admission.open {
                    true => self.queueing(host, |ready| engine.replay(replays, round, follows, ready)),
                    false => Err(self.shared.broken().err().unwrap_or(SubmitError::ShutDown)),
                };
                match (&entered, &self.shared.tracer) {
                    (Err(_), _) => self.shared.uncount_all(admission.lane, tasks),
                    (Ok(_), None) => {}
                    (Ok(_), Some(tracer)) => {
                        tracer.replayed(replays.first(), admission.task, follows, since.unwrap_or(0));
                    }
                }
                entered
            });
            self.clear_up(host, before);
            let entered = entered.map(|aftermath| self.clear_up(host, aftermath));
            forget(unless_entered);
            if entered.is_ok() {
                self.respect_window(host);
            }
            entered
        })
    }

    /// Returns the closure that continues a loop of rounds, which was counted under this lane.
    fn again(&self, replays: &Replays, lane: u8, mut decide: Decide) -> Again {
        let (this, first, tasks) = (self.this.clone(), replays.first(), replays.len() as u64);
        Box::new(move |idle| {
            let threads = this.upgrade()?;
            let Shared { progress, tracer, .. } = &threads.shared;
            if threads.shared.is_broken() || !idle.is_some_and(&mut decide) {
                progress.finish(None, lane, true);
                return None;
            }
            let admission = progress.admit_replay(tasks);
            tracer.iter().for_each(|tracer| tracer.replayed(first, admission.task, true, tracer.now()));
            let settle = threads.shared.trace_round(first, admission.task, None);
            Some(Round { lane: admission.lane, first: admission.task, settle, again: None })
        })
    }

    /// Ends the replay session, if there is one, because a thread submits. With `only`, ends only a session of that
    /// graph.
    #[cold]
    pub(crate) fn interrupt_replays(&self, only: Option<&Arc<Replays>>) {
        if self.shared.is_in_child() {
            return;
        }
        let aftermath = self.shared.session.interrupt(only, &self.shared.progress);
        Host::with(self.shared.id, |host| self.clear_up(host, aftermath));
    }

    fn clear_up(&self, host: Option<&Host>, aftermath: Aftermath) {
        self.queueing(host, |ready| self.shared.engine.settle(aftermath, &mut |task| ready(task)));
    }

    /// Queues the tasks that a submission makes ready, and wakes as many threads as there are tasks for.
    fn queueing<R>(&self, host: Option<&Host>, act: impl FnOnce(&mut dyn FnMut(OwnedTask)) -> R) -> R {
        let (queue, mut count) = (host.map(|host| &host.queue), 0);
        let result = act(&mut |task| {
            self.ready.push_submitted(task, queue);
            count += 1;
        });
        if count > 0 {
            self.shared.idle.wake(count);
        }
        result
    }

    /// Waits for the children of a task that is kept for the next round, after its body has succeeded or failed. The
    /// task itself has to wait, because no successor can wait for the children within a round and the next round uses
    /// the same domain.
    #[inline]
    pub(super) fn end_children(&self, task: &OwnedTask) {
        if let Some(domain) = task.shared().domain.get().filter(|_| task.is_in_rounds()) {
            self.await_children(task, domain);
        }
    }

    #[cold]
    fn await_children(&self, task: &OwnedTask, domain: &Arc<Domain>) {
        domain.seal();
        running::as_body_of(self.shared.id, true, task, || {
            while domain.children() > 0 && !self.shared.is_broken() {
                domain.set_waiter(own_waker());
                let _cycle = self.await_told(key_of_children(domain), || domain.children());
            }
        });
        running::inside(self.shared.id, || domain.begin_again());
    }
}

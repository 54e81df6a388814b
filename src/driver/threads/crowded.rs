//! Waiting threads that cannot begin tasks on separate stacks, because the system has no memory for further stacks.
//!
//! In this situation a task runs on top of a waiting body if there is room: on one of the suspended stacks, or else on
//! the thread's own stack. The body below can continue only after the task. If the task waits for that body, the wait
//! is refused like any circular wait ([`crate::driver::deadlock`]). If no stack has room either, tasks that need no
//! room continue, and waits are eventually refused.

use super::fibers::Aside;
use super::host::Host;
use super::state::Threads;
use super::waiting::Work;
use crate::depend::OwnedTask;
use crate::sync::fiber::Stack;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// If a thread can begin nothing and no task has finished for this long, its wait is refused.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long such a thread sleeps between two checks.
pub(super) const NAP: Duration = Duration::from_millis(1);
/// After the system has refused a stack, no further stack is requested for this long.
const NOT_ASKED: Duration = Duration::from_millis(1);
/// Maximum number of suspended stacks that are tried for one task.
const MOST_TRIED: usize = 64;

/// What a host knows about the shortage of stacks.
pub(super) struct Crowd {
    /// A task offered to the stack that is resumed next.
    offered: Cell<Option<Work>>,
    /// The time since which the host can begin nothing, and the number of tasks that had finished at that time.
    since: Cell<Option<(Instant, u64)>>,
    patience: Cell<Duration>,
    refused: Cell<Option<Instant>>,
}

impl Default for Crowd {
    fn default() -> Self {
        let (offered, since, refused) = (Cell::default(), Cell::default(), Cell::default());
        Self { offered, since, patience: Cell::new(PATIENCE), refused }
    }
}

impl Crowd {
    /// Returns whether the thread can begin nothing.
    pub(super) fn is_stuck(&self) -> bool {
        self.since.get().is_some()
    }

    /// Notes that the thread has begun something.
    pub(super) fn moves(&self) {
        self.since.set(None);
    }

    /// Returns a stack if the system has memory for it.
    pub(super) fn stack(&self, aside: &Aside) -> Option<Stack> {
        let is_asked = self.refused.get().is_none_or(|refused| refused.elapsed() >= NOT_ASKED);
        let stack = aside.stack(is_asked);
        match &stack {
            None if is_asked => self.refused.set(Some(Instant::now())),
            None => {}
            Some(_) => {
                self.refused.set(None);
                self.patience.set(PATIENCE);
            }
        }
        stack
    }
}

impl Threads {
    /// Runs work for which there is no separate stack on top of a suspended body. Returns the work if there is no
    /// room.
    pub(super) fn hand_over(&self, host: &Host, work: Work) -> Option<Work> {
        host.crowd.offered.set(Some(work));
        let exposed = &self.shared.running[host.slot()];
        for _ in 0..MOST_TRIED {
            if !host.aside.resume_next(host.isolation_level(), &host.own, exposed) {
                break;
            }
            match host.crowd.offered.take() {
                None => return None,
                offered => host.crowd.offered.set(offered),
            }
        }
        host.crowd.offered.take()
    }

    /// If there is room, runs the work offered by the thread that has resumed this stack. Returns whether it ran any
    /// work.
    pub(super) fn take_over(&self, host: &Host) -> bool {
        if !host.has_last_room() {
            return false;
        }
        let offered = host.crowd.offered.take();
        let any = offered.is_some();
        offered.into_iter().for_each(|work| self.run_work(host, work));
        any
    }

    /// Runs work for which there is no separate stack while a body waits further down this stack. Returns whether it
    /// ran any work.
    #[cold]
    pub(super) fn run_crowded(&self, host: &Host, work: Work) -> bool {
        let Some(work) = self.hand_over(host, work) else { return true };
        if host.has_last_room() {
            self.run_work(host, work);
            return true;
        }
        self.put_back(host, work); // memory becomes available when begun tasks end
        // The runtime's internal tasks need no room, and other tasks may be ahead of them in the queue.
        let is_own = |task: &OwnedTask| task.shared().internal;
        let own = match self.on_fast_path() {
            true => self.find_anywhere(host, is_own).map(Work::Anywhere),
            false => self.ready.find_launch(host.unit, |launch| is_own(&launch.task)).map(Work::Placed),
        };
        match own {
            Some(work) => {
                self.run_work(host, work);
                true
            }
            None => {
                if host.crowd.since.get().is_none() {
                    host.crowd.since.set(Some((Instant::now(), self.shared.progress.finished())));
                }
                false
            }
        }
    }

    /// Returns whether a wait has to be refused: the thread can begin nothing, no task has finished for a while, and
    /// no other thread is running a body.
    pub(super) fn is_hopeless(&self, host: &Host) -> bool {
        let Some((since, finished)) = host.crowd.since.get() else { return false };
        if self.shared.progress.finished() != finished {
            host.crowd.since.set(Some((Instant::now(), self.shared.progress.finished())));
            return false;
        }
        let computes = |slot: usize| {
            slot != host.slot() && self.shared.running[slot].is_shown() && !self.hosting[slot].is_asleep()
        };
        let is_over = since.elapsed() >= host.crowd.patience.get();
        if !is_over || (0..self.shared.running.len()).any(computes) {
            return false;
        }
        host.crowd.patience.set(Duration::ZERO); // also for later waits, until memory is available again
        true
    }
}

//! Bodies that hold a lock while they wait for their children ([`crate::Context::wait_isolated`]).
//!
//! If the thread ran other tasks meanwhile, one of them might need the same lock, which the thread itself holds. So
//! during such a wait the thread runs only descendants of the body and the runtime's internal tasks. Other threads may
//! be blocked on the lock while they have descendants in their queues. So this thread takes descendants out of all
//! queues, including the queues of a policy (`engine/placement/queue.rs`), and does not rely on being notified of
//! them.
//!
//! Invariants:
//! 1. Isolated waits of a thread are nested: a body in an isolated wait occupies the thread until the wait is over,
//!    even if the body is on a fiber.
//! 2. Fibers that began before the innermost isolated wait stay suspended during the wait.

use super::host::Host;
use super::state::Threads;
use super::waiting::Work;
use crate::depend::{Domain, OwnedTask, running};
use crate::driver::Driver;
use crate::driver::waiters::own_parker;
use crate::engine::Launch;
use std::sync::Arc;
use std::time::Duration;

/// Minimum time that a thread sleeps before it checks the queues of other threads again. The time grows with each
/// unsuccessful check.
const SHORTEST_NAP: Duration = Duration::from_micros(50);
const LONGEST_NAP: Duration = Duration::from_millis(5);

/// An isolated wait on a thread.
#[derive(Clone)]
pub(super) struct Isolation {
    /// The domain of the waiting body.
    domain: Arc<Domain>,
    /// Number of nested isolated waits on the thread, including this one.
    level: usize,
    nap: Duration,
}

impl Host {
    /// Returns the number of nested isolated waits that the thread is in.
    pub(super) fn isolation_level(&self) -> usize {
        self.isolation.borrow().as_ref().map_or(0, |isolation| isolation.level)
    }

    #[inline]
    pub(super) fn is_isolated(&self) -> bool {
        self.isolation.borrow().is_some()
    }

    /// Calls `wait`, during which the thread runs only descendants of this domain's task, on top of this stack.
    pub(super) fn isolated<R>(&self, domain: &Arc<Domain>, wait: impl FnOnce() -> R) -> R {
        struct Back<'a>(&'a Host, Option<Isolation>, super::fibers::Own);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.isolation.replace(self.1.take());
                self.0.own.set(self.2);
            }
        }
        let isolation = Isolation { domain: domain.clone(), level: self.isolation_level() + 1, nap: SHORTEST_NAP };
        let own = self.own.get();
        let _back = Back(self, self.isolation.replace(Some(isolation)), own);
        self.own.set(super::fibers::Own { on_fiber: false, ..own });
        wait()
    }

    /// Returns whether the thread may run a task now.
    pub(super) fn allows(&self, task: &OwnedTask) -> bool {
        match &*self.isolation.borrow() {
            None => true,
            Some(_) if task.shared().internal => true,
            Some(isolation) => running::descends_from(&isolation.domain, task),
        }
    }
}

impl Threads {
    /// Returns work from any queue, for a thread in an isolated wait.
    #[cold]
    pub(super) fn next_isolated(&self, host: &Host) -> Option<Work> {
        let found = match self.on_fast_path() {
            true => self.find_anywhere(host, |task| host.allows(task)).map(Work::Anywhere),
            false => self.find_placed(host).map(Work::Placed),
        };
        if let (Some(_), Some(isolation)) = (&found, &mut *host.isolation.borrow_mut()) {
            isolation.nap = SHORTEST_NAP;
        }
        found
    }

    /// Returns a `wanted` task that any unit may run, from any queue.
    pub(super) fn find_anywhere(&self, host: &Host, wanted: impl Fn(&OwnedTask) -> bool) -> Option<OwnedTask> {
        let mut moved = 0;
        let found = self.ready.find(&host.queue, wanted, &mut moved);
        if moved > 0 {
            self.shared.idle.wake(moved); // wakes threads that may run the moved tasks
        }
        found
    }

    fn find_placed(&self, host: &Host) -> Option<Box<Launch>> {
        let allows = |launch: &Launch| host.allows(&launch.task);
        let at_home = |launch: &Launch| launch.device.is_none() && launch.across.is_none() && allows(launch);
        let of_others = || (0..self.shared.machine.num_units()).find_map(|unit| self.ready.find_launch(unit, at_home));
        let found = self.ready.find_launch(host.unit, allows).or_else(of_others);
        found.or_else(|| {
            // Only user tasks are claimed, because the runtime's internal requests run where they were made.
            let claimed = |task: &OwnedTask| !task.shared().internal && host.allows(task);
            self.react(|out| self.shared.engine.claim(host.unit, &claimed, out));
            self.ready.find_launch(host.unit, allows)
        })
    }

    /// Sleeps until it is time to check again, or until a notification that the wait may be over.
    pub(super) fn sleep_isolated(&self, host: &Host, left: impl Fn() -> u64) {
        let nap = host.isolation.borrow_mut().as_mut().map(|isolation| {
            let nap = isolation.nap;
            isolation.nap = (nap * 2).min(LONGEST_NAP);
            nap
        });
        if left() > 0 {
            own_parker().park(nap);
        }
    }
}

//! Bodies of other runtimes that wait for something of this runtime.
//!
//! Such a body occupies a unit of its runtime. If its thread slept, bodies of two runtimes that wait for each
//! other's tasks could occupy all units of both, and neither could make progress. So the body is suspended like one
//! that waits for its own runtime ([`super::waiting`]): its thread continues as a host, and the thread that meets the
//! condition here wakes it.
//!
//! No deadlock search takes place here, since this runtime does not know what waits for a body of another one. Waits of
//! code that cannot be suspended are in [`super::kept`].
//!
//! A thread sleeps instead if the wait has a time limit, if the runtime is ending, and while the thread unwinds. If no
//! other thread runs the tasks of a unit of this runtime, the waiting thread does so itself, as a guest; but only then,
//! since it occupies its own unit meanwhile.

use super::host::Host;
use super::state::Threads;
use super::waiting::For;
use crate::depend::running;
use crate::driver::waiters::{Awaited, own_waker};
use std::panic::Location;

/// A body that waits for something of a runtime other than its own.
pub(super) struct OtherBody {
    runtime: u64,
    awaited: Awaited,
    /// The call in which it waits.
    at: &'static Location<'static>,
}

impl OtherBody {
    /// Returns the body that runs on this thread, if it may be suspended. The body belongs to another runtime.
    pub(super) fn here(awaited: &Awaited, at: &'static Location<'static>) -> Option<Self> {
        let runtime = running::waits_in()?;
        let may_be_left = matches!(awaited, Awaited::Told | Awaited::Tasks(_)) && !std::thread::panicking();
        may_be_left.then(|| Self { runtime, awaited: awaited.clone(), at })
    }
}

impl Threads {
    /// Whether other threads run this runtime's tasks.
    pub(super) fn is_run_elsewhere(&self) -> bool {
        self.goes_on_by_itself() || self.seat.get().is_some_and(|seat| seat.is_locked())
    }

    /// Lets the body's runtime continue on this thread until nothing of what the body waits for is `left`, or no other
    /// thread runs this runtime's tasks any more. Returns whether it did; it cannot if that runtime is broken.
    #[cold]
    pub(super) fn wait_in_other_body(&self, body: &OtherBody, left: impl Fn() -> u64) -> bool {
        Host::with(body.runtime, |host| {
            let Some((host, threads)) = host.and_then(|host| Some((host, host.threads.upgrade()?))) else {
                return false;
            };
            if threads.shared.is_broken() {
                return false;
            }
            let entry = self.shared.waiters.enter_future(own_waker(), body.awaited.clone());
            let left = || if self.is_run_elsewhere() { left() } else { 0 };
            let waited = threads.wait_in_body(host, body.at, For::Other, left);
            waited.expect("only keyed waits take part in deadlock detection");
            self.shared.waiters.leave(entry);
            true
        })
    }
}

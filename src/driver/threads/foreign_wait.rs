//! Bodies of other runtimes that wait for something of this runtime.
//!
//! Such a body occupies a unit of its own runtime. If its thread slept, bodies of two runtimes that wait for each
//! other's tasks could occupy all units of both runtimes, and neither could make progress. So the body is suspended
//! like a body that waits for its own runtime ([`super::waiting`]): its thread continues as a host, and the thread
//! that meets the condition in this runtime wakes the body.
//!
//! This wait is not searched for deadlocks, because this runtime does not know what waits for a body of another
//! runtime. Waits of code that cannot be suspended are handled in [`super::kept`].
//!
//! The thread sleeps instead if the wait has a time limit, if the runtime is shutting down, or while the thread
//! unwinds. If no other thread runs the tasks of a unit of this runtime, the waiting thread does so itself as a guest.
//! It does so only in that case, because its own unit stays occupied meanwhile.

use super::host::Host;
use super::state::Threads;
use super::waiting::For;
use crate::depend::running;
use crate::driver::waiters::{Awaited, own_waker};
use crate::sync::CallSite;

/// A body that waits for something in a runtime other than its own.
pub(super) struct OtherBody {
    runtime: u64,
    awaited: Awaited,
    /// Call site of the wait.
    at: CallSite,
}

impl OtherBody {
    /// Returns the body of another runtime that runs on this thread, if it may be suspended.
    pub(super) fn here(awaited: &Awaited, at: CallSite) -> Option<Self> {
        let runtime = running::waits_in()?;
        let may_be_left = matches!(awaited, Awaited::Told | Awaited::Tasks(_)) && !std::thread::panicking();
        may_be_left.then(|| Self { runtime, awaited: awaited.clone(), at })
    }
}

impl Threads {
    /// Returns whether other threads run this runtime's tasks.
    pub(super) fn is_run_elsewhere(&self) -> bool {
        self.goes_on_by_itself() || self.seat.get().is_some_and(|seat| seat.is_locked())
    }

    /// Lets the body's own runtime continue on this thread until `left` returns 0 for the body's wait, or until no
    /// other thread runs this runtime's tasks any more. Returns whether it did so; it cannot if the body's runtime is
    /// broken.
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

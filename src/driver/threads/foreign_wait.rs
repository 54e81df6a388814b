//! Bodies of other runtimes that wait for something of this one.
//!
//! Such a body holds a unit of its own runtime. If its thread slept, bodies of two runtimes that wait for each other's tasks
//! could hold all units of both, and nothing would move. So the body is left there as one that waits for its own runtime
//! ([`super::waiting`]): its thread goes on as the host that it is, and whoever brings about what the body waits for here
//! wakes it.
//!
//! What never happens here: no circle is looked for, since what waits for a body in its own runtime is not known here. Waits of
//! code that cannot be left are in [`super::kept`].
//!
//! A thread stays, and sleeps, where there is a time limit, where the runtime is ending, and while it unwinds. Where nobody else
//! runs the tasks of a unit of this runtime, it does so itself, as a guest; but only there, since its own unit is held meanwhile.

use super::host::Host;
use super::state::Threads;
use super::waiting::For;
use crate::depend::running;
use crate::driver::waiters::{Awaited, own_waker};
use std::panic::Location;

/// A body that waits for something of another runtime than its own.
pub(super) struct OtherBody {
    runtime: u64,
    awaited: Awaited,
    /// The call in which it waits.
    at: &'static Location<'static>,
}

impl OtherBody {
    /// The one that runs on this thread, if it may be left: it is not its own runtime that waits.
    pub(super) fn here(awaited: &Awaited, at: &'static Location<'static>) -> Option<Self> {
        let runtime = running::waits_in()?;
        let may_be_left = matches!(awaited, Awaited::Told | Awaited::Tasks(_)) && !std::thread::panicking();
        may_be_left.then(|| Self { runtime, awaited: awaited.clone(), at })
    }
}

impl Threads {
    /// Whether somebody else runs this runtime's tasks.
    pub(super) fn is_run_elsewhere(&self) -> bool {
        self.goes_on_by_itself() || self.seat.get().is_some_and(|seat| seat.is_locked())
    }

    /// Has the body's runtime go on here until nothing of what it waits for is `left`, or nobody else runs this runtime's tasks;
    /// whether it has. It has not if it is broken.
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
            waited.expect("what has no key is in no circle");
            self.shared.waiters.leave(entry);
            true
        })
    }
}

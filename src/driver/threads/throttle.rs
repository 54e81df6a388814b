//! Backpressure: a submitter waits while more tasks are pending than the window allows, and observes the other threads
//! meanwhile. A submitter that hosts no unit sleeps instead of executing tasks. A submission inside a body never
//! waits.

use super::host::Host;
use super::state::Threads;
use crate::device::Visit;
use crate::driver::shared::Shared;
use crate::driver::waiters::{Awaited, Waiting, own_parker};
use crate::driver::window::{Motion, NOTHING_RUNS};
use crate::driver::{Driver, inside};
use crate::sync::{Quota, Share};
use crate::trace::Between;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Threads {
    /// Waits while too many tasks are pending, if this thread may wait. A thread that hosts a unit executes tasks
    /// while it waits.
    pub(super) fn respect_window(&self, host: Option<&Host>) {
        if let (Some(host), Some(explored)) = (host, self.explored.get()) {
            return self.explore_at_submission(host, explored);
        }
        if self.shared.window.stops_submission(self.shared.progress.pending()) && !inside::in_body(self.shared.id) {
            self.wait_for_window(host, None);
        }
    }

    /// Waits until another task that allocates this many bytes fits into the window in bytes, if this thread may wait.
    /// Returns the task's share; `None` if there is no such window.
    pub(crate) fn wait_to_allocate(&self, bytes: u64) -> Option<Share> {
        let quota = self.shared.window.bytes()?;
        let waits = self.shared.window.is_kept_by_submissions() && !inside::in_body(self.shared.id);
        let share = quota.try_take(bytes).or_else(|| {
            let wait = || Host::with(self.shared.id, |host| self.wait_for_share(host, quota, bytes));
            if waits { wait() } else { None }
        });
        Some(share.unwrap_or_else(|| quota.take(bytes)))
    }

    /// Waits for a share, but not longer than is reasonable.
    #[cold]
    fn wait_for_share(&self, host: Option<&Host>, quota: &Arc<Quota>, bytes: u64) -> Option<Share> {
        let share = Cell::new(None);
        self.wait_for_bytes(host, quota, None, &|| {
            let found = share.take().or_else(|| quota.try_take(bytes));
            let is_found = found.is_some();
            share.set(found);
            is_found
        });
        share.take()
    }

    /// Waits until the pending tasks leave enough bytes, which `found` checks, but not longer than is reasonable, and
    /// at most until the time `until`. Returns whether the wait has not run out of time.
    #[cold]
    fn wait_for_bytes(
        &self,
        host: Option<&Host>,
        quota: &Arc<Quota>,
        until: Option<Duration>,
        found: &dyn Fn() -> bool,
    ) -> bool {
        let Shared { progress, window, waiters, .. } = &self.shared;
        let _visit = Visit::begin(); // tasks may run here
        if let (Some(host), Some(explored)) = (host, self.explored.get()) {
            host.begin_stack(false);
            while !found() && self.explore(host, explored, false) {}
            return true;
        }
        window.begin(progress.finished());
        let waiting = waiters.enter(own_parker(), Awaited::Told);
        let left = || {
            quota.wake(waiting.parker().clone().into()); // before the last attempt
            u64::from(!found())
        };
        self.wait_reasonably(host, &waiting, until, left, |_| quota.grant())
    }

    /// Waits like a submission, but at most until the time `until` on the driver's clock. Returns whether the wait is
    /// over.
    pub(crate) fn wait_for_room(&self, until: Duration) -> bool {
        let Shared { progress, window, id, .. } = &self.shared;
        let has_room = || progress.pending() <= window.size();
        let fits = || window.bytes().is_none_or(|quota| quota.has_room());
        if has_room() && fits() || inside::in_body(*id) {
            return true;
        }
        self.now() < until
            && Host::with(*id, |host| {
                let in_time = has_room() || self.wait_for_window(host, Some(until));
                in_time
                    && window.bytes().is_none_or(|quota| fits() || self.wait_for_bytes(host, quota, Some(until), &fits))
            })
    }

    /// Waits, and returns whether the wait has not run out of time.
    #[cold]
    fn wait_for_window(&self, host: Option<&Host>, until: Option<Duration>) -> bool {
        let Shared { progress, window, waiters, .. } = &self.shared;
        let _visit = Visit::begin(); // tasks may run here
        let (finished, pending) = (progress.finished(), progress.pending());
        let Some(target) = window.target(pending, finished) else { return true };
        let waiting = waiters.enter(own_parker(), Awaited::AtMost(target));
        let left = || progress.pending().saturating_sub(target);
        self.wait_reasonably(host, &waiting, until, left, |left| window.grant(target + left))
    }

    /// Waits until `left` returns 0, but at most until the time `until`, and not longer than is reasonable: then calls
    /// `grant` with the number that is left. A thread that hosts a unit executes tasks meanwhile. Returns whether the
    /// wait has not run out of time.
    fn wait_reasonably(
        &self,
        host: Option<&Host>,
        waiting: &Waiting<'_>,
        until: Option<Duration>,
        left: impl Fn() -> u64,
        grant: impl Fn(u64),
    ) -> bool {
        let Shared { progress, window, .. } = &self.shared;
        let _traced = self.shared.trace_state(host.map(|host| host.context.unit()), Between::Throttle);
        let (nap, is_late) = (Cell::new(NOTHING_RUNS), Cell::new(false));
        let left = || {
            let left = left();
            if left == 0 || self.shared.is_broken() {
                return 0;
            }
            let rest = until.map_or(Duration::MAX, |until| until.saturating_sub(self.now()));
            if rest.is_zero() {
                is_late.set(true);
                return 0;
            }
            match window.patience(progress.finished(), || self.motion()) {
                Some(patience) => {
                    nap.set(patience.min(rest));
                    left
                }
                None => {
                    grant(left);
                    0
                }
            }
        };
        match host {
            Some(host) => {
                self.hosts_unseated.store(true, Ordering::SeqCst);
                self.run_until(host, waiting.parker(), Some(waiting), left, || Some(nap.get()));
                self.hosts_unseated.store(false, Ordering::SeqCst);
            }
            None => {
                waiting.ask(true);
                while left() > 0 {
                    waiting.parker().park(Some(nap.get()));
                }
            }
        }
        !is_late.get()
    }

    /// Estimates whether a task may finish without any further submission.
    pub(super) fn motion(&self) -> Motion {
        let (mut shown, mut asleep) = (0, 0);
        for (slot, exposed) in self.shared.running.iter().enumerate().filter(|(_, exposed)| exposed.is_shown()) {
            (shown, asleep) = (shown + 1, asleep + usize::from(self.hosting[slot].is_asleep() && exposed.is_shown()));
        }
        // Unit 0 may be hosted by a user's thread that is currently absent. Tasks that wait for that thread make no
        // progress.
        let guest = &self.hosting[self.shared.machine.num_units()];
        let is_there = |unit: usize| self.hosting[unit].is_there() || unit == 0 && guest.is_there();
        let there = || (0..self.shared.machine.num_units()).filter(|unit| is_there(*unit));
        let has_idle_unit = shown < there().count();
        let is_ready = || has_idle_unit && there().any(|unit| self.ready.in_sight(unit));
        let stuck = if is_there(0) { 0 } else { self.ready.launches(0) };
        let in_flight = || self.shared.engine.in_flight().saturating_sub(stuck);
        // A thread between two bodies shows none, even if other programs keep it from its core for milliseconds.
        let is_awake = || self.hosting.iter().any(|thread| thread.is_there() && thread.is_awake_elsewhere());
        match () {
            () if asleep < shown || self.shared.engine.is_at_borders() || is_ready() || in_flight() > shown => {
                Motion::Working
            }
            () if is_awake() => Motion::Working,
            () if shown > 0 => Motion::Sleeping,
            () if self.hosting[0].is_awake_elsewhere() => Motion::Away,
            () => Motion::Nothing,
        }
    }
}

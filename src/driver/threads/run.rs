//! What a hosting thread does all day: it executes tasks, looks around when there are none, and sleeps.
//!
//! An idle thread looks around for a while, ever less often, and then sleeps ([`crate::sync::Sleep`]). The thread that
//! builds a runtime can host unit 0: it then executes tasks whenever it waits, and when too many are pending. While it
//! does neither, tasks in its deque are there for others to steal.
//!
//! The host of unit 0 must return from its wait, so it executes tasks on a fiber. A body that waits leaves the fiber
//! suspended. Once the thread's own wait is over, the thread leaves such fibers suspended; its next wait resumes them.
//! Only a body that computes on the thread delays the wait. A guest stays until the bodies that it has begun have
//! ended, since another thread has its place next.

use super::host::{Host, OLDEST_AFTER};
use super::state::Threads;
use crate::depend::running;
use crate::driver::waiters::{Waiting, own_parker};
use crate::sync::{Borrowed, Parker};
use crate::trace::Between;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long an idle thread looks around before it sleeps.
const LOOK_AROUND: Duration = Duration::from_micros(60);
/// While it waits for a value, which is likely to come from tasks that have been ready for long, a host runs one of those
/// after so many others.
const OLDEST_AFTER_TO_VALUE: u32 = 2;
/// Between two looks whether it is done waiting, a host runs at most so many tasks while many are left.
const MOST_WITHOUT_LOOK: u64 = 31;

/// How long an idle thread has been looking around.
#[derive(Default)]
pub(super) struct Lookout {
    since: Option<Instant>,
    pauses: u32,
    /// If there is a trace, its times of the first look and of the latest one.
    traced: Option<(u64, u64)>,
}

impl Lookout {
    /// Pauses between two looks, ever longer; whether there have been enough of them.
    pub(super) fn is_over(&mut self) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= LOOK_AROUND {
            return true;
        }
        self.pauses = (self.pauses * 2).clamp(1, 256);
        (0..self.pauses).for_each(|_| std::hint::spin_loop());
        if self.pauses == 256 {
            std::thread::yield_now();
        }
        false
    }
}

impl Threads {
    /// The life of a unit's own thread.
    pub(super) fn work(&self, host: &Host) {
        // Nothing is pending then. Not a look at the counters: what is refused late is counted for a moment.
        let left = || u64::from(!self.shutdown.load(Ordering::Acquire));
        self.run_until(host, &own_parker(), None, left, || None);
    }

    /// Executes tasks until none is `left` to wait for; sleeps while there are none, no longer than `nap` says.
    ///
    /// `left` says how many tasks have to finish first, at least. Whoever is `waiting` for something is told of it
    /// while asleep.
    pub(super) fn run_until(
        &self,
        host: &Host,
        parker: &Arc<Parker>,
        waiting: Option<&Waiting<'_>>,
        left: impl Fn() -> u64,
        nap: impl Fn() -> Option<Duration>,
    ) {
        let hosting = &self.hosting[host.slot()];
        hosting.is_this_thread();
        host.begin_stack(false);
        let is_guest = host.slot() == self.shared.machine.num_units();
        let left = || if is_guest && host.aside.has_any() { left().max(1) } else { left() };
        let returns = waiting.is_some() && !is_guest && running::is_outside();
        let turn = returns.then(Rc::<Borrowed>::default);
        let to_value = waiting.is_some_and(|waiting| waiting.to_value());
        let oldest_after = host.oldest_after.replace(if to_value { OLDEST_AFTER_TO_VALUE } else { OLDEST_AFTER });
        let mut executed = false;
        let mut lookout = Lookout::default();
        // To know what is left, a thread has to look at every unit's counter. While it runs tasks and many are left, it
        // looks less often than they can become none.
        let without_look = Cell::new(0);
        let goes_on = || match without_look.get() {
            0 => {
                let left = left();
                without_look.set(self.without_look(left));
                left > 0
            }
            more => {
                without_look.set(more - 1);
                true
            }
        };
        while goes_on() {
            let step = || match &turn {
                None => self.step(host, goes_on),
                Some(turn) => self.step_on_fiber(host, turn, &goes_on),
            };
            if host.aside.has_any() && self.resume_woken(host) || step() {
                self.trace_search(host, &lookout);
                (executed, lookout) = (true, Lookout::default());
                continue;
            }
            without_look.set(0);
            if std::mem::take(&mut executed) {
                self.shared.tell_waiters();
            }
            if host.help_fork() {
                lookout = Lookout::default();
                continue;
            }
            if let Some(tracer) = &self.shared.tracer {
                let now = tracer.now();
                lookout.traced = Some((lookout.traced.map_or(now, |(first, _)| first), now));
            }
            if lookout.is_over() {
                self.trace_search(host, &lookout);
                self.sleep(host, parker, waiting, left, nap());
                lookout = Lookout::default();
            }
        }
        host.oldest_after.set(oldest_after);
        hosting.is_nobody();
        if executed {
            self.shared.tell_waiters();
        }
        if self.ready.in_sight(host.unit) {
            self.wake_for_ready(host);
        }
    }

    /// Records for how long a thread has looked for a task in vain, if there is a trace.
    #[inline]
    fn trace_search(&self, host: &Host, lookout: &Lookout) {
        if let (Some(tracer), Some((first, latest))) = (&self.shared.tracer, lookout.traced) {
            tracer.state(Some(host.context.unit()), Between::Search, (first, latest));
        }
    }

    /// Wakes another thread for what is ready: this one may have been woken for a task that it does not stay for.
    pub(super) fn wake_for_ready(&self, host: &Host) {
        if self.on_fast_path() { self.shared.idle.wake(1) } else { self.shared.idle.wake_at(host.unit) }
    }

    /// Sleeps until woken, unless there is something to do or nothing `left` to wait for.
    pub(super) fn sleep(
        &self,
        host: &Host,
        parker: &Arc<Parker>,
        waiting: Option<&Waiting<'_>>,
        left: impl Fn() -> u64,
        nap: Option<Duration>,
    ) {
        let devices = self.devices_of(host);
        if let Some(devices) = devices {
            devices.arm(&host.devices);
        }
        let news = || devices.is_some_and(|devices| devices.have_news(&host.devices));
        let awake =
            || left() == 0 || self.ready.in_sight(host.unit) || host.aside.has_woken() || host.sees_forks() || news();
        let ask = |asks| waiting.into_iter().for_each(|waiting| waiting.ask(asks));
        ask(true);
        let traced = self.shared.trace_state(Some(host.context.unit()), Between::Sleep);
        host.asleep(|| self.shared.idle.sleep_unless(host.unit, parker, nap, awake));
        drop(traced);
        ask(false);
    }

    /// How many tasks a thread may run before it looks again whether all of those that are `left` have finished.
    pub(super) fn without_look(&self, left: u64) -> u64 {
        (left / (2 * self.shared.machine.num_units() as u64)).min(MOST_WITHOUT_LOOK)
    }
}

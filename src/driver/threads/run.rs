//! The worker loop of a hosting thread: execute tasks, search for work, sleep.
//!
//! An idle thread searches for work for a while, at increasing intervals, and then sleeps ([`crate::sync::Sleep`]).
//! The thread that builds a runtime can host unit 0. In that case it executes tasks whenever it waits and whenever too
//! many tasks are pending. At all other times, other threads can steal the tasks in its deque.
//!
//! The host of unit 0 must be able to return from its wait, so it executes tasks on a fiber. A body that waits leaves
//! the fiber suspended. Once the thread's own wait is over, the thread leaves such fibers suspended, and resumes them
//! in its next wait. Only a body that is computing on the thread delays the end of the wait. A guest stays until the
//! bodies that it has begun have ended, because another thread may take its place next.

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

/// How long an idle thread searches for work before it sleeps.
const LOOK_AROUND: Duration = Duration::from_micros(60);
/// How long it searches while something is on its way for which tasks wait.
const LOOK_OUT: Duration = Duration::from_millis(1);
/// While a host waits for a value, it runs one long-ready task each time this many other tasks have run, because such
/// a task is likely to produce the value.
const OLDEST_AFTER_TO_VALUE: u32 = 2;
/// Maximum number of tasks that a host runs between two checks whether its wait is over, while many tasks are left.
const MOST_WITHOUT_LOOK: u64 = 31;

/// State of an idle thread's search for work.
#[derive(Default)]
pub(super) struct Lookout {
    since: Option<Instant>,
    pauses: u32,
    /// Times of the first and the latest search; `None` if tracing is off.
    traced: Option<(u64, u64)>,
}

impl Lookout {
    /// Returns whether the thread has searched without success.
    #[inline]
    fn has_begun(&self) -> bool {
        self.since.is_some()
    }

    /// Pauses between two searches, for increasingly longer times. Returns whether the thread has searched long
    /// enough.
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

    /// Returns whether a thread may search at once because something is on its way. From some time on, it first lets
    /// other threads have its core.
    fn may_poll(&mut self) -> bool {
        let searched = self.since.get_or_insert_with(Instant::now).elapsed();
        if searched >= LOOK_AROUND {
            std::thread::yield_now();
        }
        searched < LOOK_OUT
    }
}

impl Threads {
    /// The main function of a unit's own thread.
    pub(super) fn work(&self, host: &Host) {
        // When this wait is over, nothing is pending. The counters are not used for the condition, because a task that
        // is refused late is counted for a moment.
        let left = || u64::from(!self.shutdown.load(Ordering::Acquire));
        self.run_until(host, &own_parker(), None, left, || None);
    }

    /// Executes tasks until `left` returns 0. While there are no tasks, sleeps for at most the time returned by `nap`.
    ///
    /// `left` returns a lower bound on the number of tasks that have to finish first. If the thread is `waiting` for
    /// something, it is notified of that event while it sleeps.
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
        if let Some(explored) = self.explored.get() {
            self.explore_until(host, explored, left);
            return hosting.is_nobody();
        }
        let is_guest = host.slot() == self.shared.machine.num_units();
        let left = || if is_guest && host.aside.has_any() { left().max(1) } else { left() };
        let returns = waiting.is_some() && !is_guest && running::is_outside();
        let turn = returns.then(Rc::<Borrowed>::default);
        let to_value = waiting.is_some_and(|waiting| waiting.to_value());
        let oldest_after = host.oldest_after.replace(if to_value { OLDEST_AFTER_TO_VALUE } else { OLDEST_AFTER });
        let mut executed = false;
        let mut lookout = Lookout::default();
        // To know how many tasks are left, a thread has to read every unit's counter. So while it runs tasks and many
        // are left, it checks only as often as their number could have dropped to zero.
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
                executed = true;
                if lookout.has_begun() {
                    self.end_lookout(host, &mut lookout);
                }
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
            if self.awaits_from_outside() && lookout.may_poll() {
                continue;
            }
            if lookout.is_over() {
                self.end_lookout(host, &mut lookout);
                self.sleep(host, parker, waiting, left, nap());
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

    /// Lets the program advance events outside of the runtime. Returns whether one is on its way.
    fn awaits_from_outside(&self) -> bool {
        let polls = self.while_idle.get().into_iter().flatten();
        polls.filter(|poll| poll()).count() > 0 // calls all of them
    }

    /// Ends a thread's search for a task. If tracing is on, records how long it was without success.
    #[cold]
    fn end_lookout(&self, host: &Host, lookout: &mut Lookout) {
        let Lookout { traced, .. } = std::mem::take(lookout);
        if let (Some(tracer), Some((first, latest))) = (&self.shared.tracer, traced) {
            tracer.state(Some(host.context.unit()), Between::Search, (first, latest));
        }
    }

    /// Wakes another thread for ready tasks, because this thread may have been woken for a task that it is not going
    /// to run.
    pub(super) fn wake_for_ready(&self, host: &Host) {
        if self.on_fast_path() { self.shared.idle.wake(1) } else { self.shared.idle.wake_at(host.unit) }
    }

    /// Sleeps until woken. Returns at once if there is something to do or if `left` returns 0.
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

    /// Returns the number of tasks that a thread may run before it checks again whether all `left` tasks have
    /// finished.
    pub(super) fn without_look(&self, left: u64) -> u64 {
        (left / (2 * self.shared.machine.num_units() as u64)).min(MOST_WITHOUT_LOOK)
    }
}

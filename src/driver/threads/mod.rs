//! The real driver: threads that execute tasks, and the devices that these threads manage.
//!
//! Each compute unit has a pinned thread that takes tasks from its queue and runs them ([`run`], [`execute`]).
//! Alternatively, the thread that built the runtime hosts unit 0. While that thread is busy elsewhere, another waiting
//! thread takes over the unit as a guest. Emulated devices run bodies on the thread that manages them, and have
//! another thread for their copies ([`devices`]). Accelerators are issued tasks and polled ([`accelerators`]). A
//! waiting thread either acts as one of these threads for a while, or sleeps until it is notified.
//!
//! Each file uses only files that precede it in this list: [`thief`], [`ready`], [`host`], [`hosting`],
//! [`device_queue`], [`devices`], [`fibers`], [`state`], [`accelerators`], [`detached`], [`execute`], [`run`],
//! [`waiting`], [`foreign_wait`], [`explored`], [`kept`], [`throttle`], [`start`], [`batch`], [`replay`], [`queues`], and
//! this file.
//! There are two exceptions: a host refers back to the state that it is a part of, and [`waiting`] consists of three
//! files that use each other. Of these, [`isolated`] and [`crowded`] contain the special waits, and a host has a field
//! for each. While a program's schedules are explored, there is only one thread: the state has a field for
//! [`explored`], and the other files call it instead of looping themselves.

mod accelerators;
mod batch;
mod crowded;
mod detached;
mod device_queue;
mod devices;
mod execute;
mod explored;
mod fibers;
mod foreign_wait;
mod forks;
mod host;
mod hosting;
mod isolated;
mod kept;
mod memory_pressure;
mod multi_device;
mod queues;
mod ready;
mod replay;
mod run;
mod start;
mod state;
#[cfg(test)]
mod tests;
mod thief;
mod throttle;
mod waiting;

pub(crate) use forks::join;
pub(crate) use replay::Decide;
pub(crate) use start::ThreadStyle;
pub(crate) use state::{Poll, Threads};
pub(crate) use waiting::OnTop;

use self::foreign_wait::OtherBody;
use self::host::Host;
use self::kept::{Kept, Outlook};
use self::state::Crew;
use self::waiting::For;
use super::Driver;
use super::deadlock::Vain;
use super::inside;
use super::shared::{BreakOnUnwind, Shared};
use super::waiters::{Awaited, own_parker};
use crate::depend::{AccessRecord, Leaving, OwnedTask, Submitting, running};
use crate::device::Visit;
use crate::engine::{CopyOrder, Event, Launch, Outcome, Refused, Release, Span};
use crate::ids::{DataId, UnitId};
use crate::memory::DataCell;
use crate::sync::CallSite;
use std::cell::Cell;
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum duration of one sleep in a wait with a time limit.
const LONGEST_NAP: Duration = Duration::from_secs(3600);

impl Threads {
    /// Returns the time span of a body that has just ended.
    fn span(&self, elapsed_ns: u64) -> Span {
        Span { elapsed_ns, ended_ns: self.now().as_nanos() as u64 }
    }

    /// Like [`Driver::advance`], but refuses a wait that `can_be_refused` if the runtimes that wait for each other
    /// have all of their units kept by such waits ([`kept`]).
    ///
    /// # Errors
    /// Fails if the wait is refused. In that case something is left to wait for.
    #[track_caller]
    pub(crate) fn advance_or_refuse(
        &self,
        awaited: Awaited,
        left: impl Fn() -> u64,
        can_be_refused: bool,
    ) -> Result<(), Vain> {
        let at = CallSite::caller();
        if left() == 0 {
            return Ok(());
        }
        let shared = &self.shared;
        let _visit = Visit::begin(); // tasks may run here
        if running::may_wait(shared.id) {
            let waited = Host::with(shared.id, |host| {
                self.wait_in_body(host.expect("a body that may wait has a host"), at, For::Own, left)
            });
            waited.expect("only keyed waits take part in deadlock detection");
            return Ok(());
        }
        let _traced = shared.trace_wait();
        let mut other_body = OtherBody::here(&awaited, at);
        let until = awaited.until();
        let waiting = shared.waiters.enter(own_parker(), awaited);
        let unless_done = BreakOnUnwind { shared, during: "the execution of tasks" };
        let left = || if shared.is_broken() { 0 } else { left() };
        let first = Cell::new(waiting.alone);
        let nap = || {
            let rest = until.map(|until| until.saturating_sub(self.now()).min(LONGEST_NAP));
            shared.watch(first.take(), self).into_iter().chain(rest).min()
        };
        let seat = self.seat.get();
        let (mut kept, mut refused) = (None, Ok(()));
        while left() > 0 {
            if let Some(body) = &other_body
                && self.is_run_elsewhere()
            {
                kept = None;
                other_body = if self.wait_in_other_body(body, left) { other_body } else { None };
                continue;
            }
            let kept = kept.get_or_insert_with(|| Kept::begin(self, waiting.parker(), until.is_some(), can_be_refused));
            let hosted = Host::with(shared.id, |host| match (host, self.take_seat(host)) {
                (Some(host), Some(_seated)) => {
                    kept.hosting(|| self.run_until(host, waiting.parker(), Some(&waiting), left, nap));
                    true
                }
                // Unit 0 has no thread of its own, and its host is absent, so this thread stands in for the host.
                (None, Some(guest)) => {
                    inside::enter(shared.id);
                    let left = || if self.is_seat_wanted() { 0 } else { left() };
                    let run = || self.run_until(&guest, waiting.parker(), Some(&waiting), left, nap);
                    kept.hosting(|| guest.as_guest(run));
                    inside::leave();
                    drop(guest);
                    if self.is_seat_wanted() {
                        shared.waiters.wake_all();
                    }
                    true
                }
                (_, None) => false,
            });
            if !hosted && other_body.is_none() {
                let nap = match kept.look(left) {
                    Outlook::Sleeps(at_most) => nap().into_iter().chain(at_most).min(),
                    Outlook::Refused(circle) => {
                        refused = Err(Vain::Circle(circle));
                        break;
                    }
                };
                waiting.ask(true);
                if left() > 0 && seat.is_none_or(|seat| seat.is_locked() || self.is_seat_wanted()) {
                    waiting.parker().park(nap);
                }
            }
        }
        std::mem::forget(unless_done);
        drop(waiting);
        if seat.is_some() {
            Host::with(shared.id, |host| host.into_iter().for_each(|_| self.want_seat(false)));
            shared.waiters.wake_all(); // the seat is free again, so another waiter may take it
        }
        shared.rest();
        refused
    }
}

impl Driver for Threads {
    #[inline]
    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn now(&self) -> Duration {
        self.built.elapsed()
    }

    #[inline(always)] // on the path of every task
    fn enter(&self, task: Submitting, accesses: &[AccessRecord<'_>]) -> Result<(), Refused> {
        let Shared { id, engine, window, .. } = &self.shared;
        Host::with(*id, |host| {
            let entered = match self.on_fast_path() {
                true => engine.submitted_anywhere(task, accesses, |ready| self.run_submitted(ready, host)),
                false => self.react(|out| engine.submitted(task, accesses, out)),
            };
            let is_time_to_look = match host {
                Some(host) => window.is_time_to_look(&host.until_look),
                None => window.is_time_to_look_outside(),
            };
            if is_time_to_look {
                self.respect_window(host);
            }
            entered
        })
    }

    #[track_caller]
    fn advance(&self, awaited: Awaited, left: impl Fn() -> u64) {
        let waited = self.advance_or_refuse(awaited, left, false);
        debug_assert!(waited.is_ok(), "only refusable waits are refused");
    }

    fn register(&self, cell: &DataCell) {
        if let Some(devices) = &self.devices {
            devices.add_home(cell);
            if devices.lets_leave(cell.datum.id) {
                self.react(|out| self.shared.engine.add_home(&cell.datum, !cell.is_reserved(), out));
            }
        }
    }

    fn unregister(&self, data: DataId) {
        self.placed().forget_home(data);
    }

    fn launch(&self, launch: Box<Launch>) {
        let unit = launch.unit.index();
        self.ready.push_launch(launch);
        self.shared.idle.wake_at(unit);
    }

    fn copy(&self, order: &CopyOrder) -> Option<Event<'static>> {
        self.placed().copy(order)
    }

    fn leave(&self, task: OwnedTask, leaving: Leaving) -> Option<(OwnedTask, Outcome)> {
        self.go_on(task, leaving, UnitId(0), 0)
    }

    fn release(&self, release: &Release) {
        self.placed().release(release);
    }

    fn stop(&self) {
        let _visit = Visit::begin();
        let Crew { units, helpers, pool, cores, entrances } = std::mem::take(&mut *self.crew.lock());
        self.shut_down();
        // A body that never returns keeps its thread, so the threads of an abandoned runtime end when they can. Those
        // that copy must stay, because a body that ends late may still need a copy.
        if !self.shared.is_abandoned() {
            let end = |thread: JoinHandle<()>| _ = thread.join(); // a panic of the thread was already reported
            units.into_iter().for_each(end);
            if let Some(devices) = &self.devices {
                devices.stop();
            }
            helpers.into_iter().for_each(end);
        }
        drop((pool, cores, entrances));
        Host::leave(self.shared.id); // if this thread was a host
    }
}

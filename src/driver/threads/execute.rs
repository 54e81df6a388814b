//! Execution of one task on a hosting thread: the task is taken from a queue, run, and ended, followed by a chain of
//! first successors.
//!
//! When a task finishes, its first ready successor is executed next without going through a queue, because the data is
//! already in the cache.
//!
//! Every task on CPU units takes this path, so the fast path is direct: it creates no commands and no events, and the
//! body itself is the only indirect call. Placed tasks arrive as [`Launch`]es.

use super::devices::Devices;
use super::host::Host;
use super::state::Threads;
use crate::depend::{Context, Env, OwnedTask};
use crate::device::{Execution, Synchronous};
use crate::driver::Driver;
use crate::driver::shared::Ran;
use crate::engine::{Event, Launch, Outcome, Span};
use crate::error::{DeviceError, FailureReason};
use crate::ids::{DeviceId, UnitId};
use crate::machine::UnitKind;
use crate::trace::Tracer;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Number of consecutive launches after which a device's hosting thread checks for completions.
const LOOK_AFTER_LAUNCHES: u32 = 8;

impl Threads {
    /// Executes one task, and then the chain of first successors for as long as `goes_on` returns true. Returns false
    /// if there was no task.
    #[inline]
    pub(super) fn step(&self, host: &Host, goes_on: impl Fn() -> bool) -> bool {
        self.die_if_doomed(host);
        if !self.on_fast_path() {
            return self.step_placed(host);
        }
        let Some(task) = self.next_task(host, host.oldest_after.get()) else { return false };
        self.execute_chain(host, task, goes_on);
        true
    }

    /// Panics if a test has requested that this thread die.
    #[inline(always)]
    pub(super) fn die_if_doomed(&self, host: &Host) {
        #[cfg(test)]
        assert!(self.doomed.load(std::sync::atomic::Ordering::Relaxed) != host.slot(), "doomed by a test");
        let _ = host;
    }

    /// Executes a task, and then the chain of first successors for as long as `goes_on` returns true.
    #[inline(always)] // on the path of every task
    pub(super) fn execute_chain(&self, host: &Host, mut task: OwnedTask, goes_on: impl Fn() -> bool) {
        loop {
            match self.execute(host, task) {
                // Run awaited tasks first. After other tasks, the waiter could end up inside the very body that it is
                // waiting for.
                Some(next) if next.shared().internal && goes_on() => task = next,
                Some(next) if goes_on() => match self.oldest(host, host.oldest_after.get()) {
                    None => task = next,
                    Some(oldest) => {
                        self.run_anywhere(next, Some(host));
                        task = oldest;
                    }
                },
                Some(next) => {
                    self.ready.push(next, Some(&host.queue)); // for other threads; this thread wakes one on leaving
                    return;
                }
                None => return,
            }
        }
    }

    /// Returns a task that any unit may run. After `oldest_after` other tasks, this is a long-ready task.
    #[inline(always)] // on the path of every task
    pub(super) fn next_task(&self, host: &Host, oldest_after: u32) -> Option<OwnedTask> {
        let tally = || self.shared.progress.tally(host.slot());
        match self.oldest(host, oldest_after) {
            None => self.ready.pop(&host.queue, tally),
            oldest => oldest,
        }
    }

    /// From time to time, returns the task that has been ready longest.
    #[inline]
    fn oldest(&self, host: &Host, oldest_after: u32) -> Option<OwnedTask> {
        let in_row = host.in_row.get() + 1;
        host.in_row.set(in_row);
        if in_row < oldest_after { None } else { self.turn_to_oldest(host) }
    }

    #[cold]
    fn turn_to_oldest(&self, host: &Host) -> Option<OwnedTask> {
        host.in_row.set(0);
        self.ready.pop_oldest(&host.queue)
    }

    /// Runs a task on the fast path. Returns the successor to run next.
    #[inline(always)] // on the path of every task
    pub(super) fn execute(&self, host: &Host, task: OwnedTask) -> Option<OwnedTask> {
        self.execute_in(host, &host.context, task)
    }

    /// Like [`Self::execute`], in another unit's context.
    #[inline(always)] // on the path of every task
    pub(super) fn execute_in(&self, host: &Host, context: &Context, task: OwnedTask) -> Option<OwnedTask> {
        match &self.shared.tracer {
            None => self.execute_or_trace(host, context, task, None),
            Some(tracer) => self.execute_traced(host, context, task, tracer),
        }
    }

    /// Runs a task on the fast path and records it. A copy of the code, so that the code of programs without a trace is
    /// the same as if there were no traces.
    #[cold]
    #[inline(never)]
    fn execute_traced(&self, host: &Host, context: &Context, task: OwnedTask, tracer: &Tracer) -> Option<OwnedTask> {
        self.execute_or_trace(host, context, task, Some(tracer))
    }

    #[inline(always)] // on the path of every task
    fn execute_or_trace(
        &self,
        host: &Host,
        context: &Context,
        mut task: OwnedTask,
        tracer: Option<&Tracer>,
    ) -> Option<OwnedTask> {
        let (env, slot) = (Env { context, sites: None }, Some(host.slot()));
        task.expect_body();
        task.expect_end();
        let since = tracer.map_or(0, Tracer::now);
        let ran = host.inside(|| self.shared.run_body(&mut task, &env, slot));
        if let Some(tracer) = tracer {
            match &ran {
                Ok(()) if !task.shared().internal => tracer.done(task.shared().id, context.unit(), since),
                Ok(()) => {}
                Err(_) => self.shared.trace_end(since, &task, (context.unit(), None), ran.as_ref().copied()),
            }
        }
        task.expect_successors();
        let mut next = None;
        let mut ready = |task| {
            if let Some(before) = next.replace(task) {
                self.run_anywhere(before, Some(host));
            }
        };
        match ran {
            Ok(()) if !task.drops_body() && !task.shared().internal => {
                let lane = task.shared().lane.get();
                self.shared.engine.done_anywhere(task, &mut ready); // passing it by value would copy it
                self.shared.progress.finish(slot, lane, false);
            }
            Ok(()) if task.is_in_rounds() => {
                self.end_children(&task);
                let (lane, counts) = (task.shared().lane.get(), !task.shared().internal);
                self.shared.engine.done_again(task, &mut ready);
                if counts {
                    self.shared.progress.finish(slot, lane, false);
                }
            }
            Ok(()) => self.shared.end_anywhere(task, Outcome::Done(Span::default()), slot, ready),
            Err(ran) => {
                self.end_children(&task);
                if let Some((task, outcome)) = self.settle(task, ran, host.unit, 0) {
                    self.shared.end_anywhere(task, outcome, slot, ready);
                }
            }
        }
        self.tell_waiters(host);
        match next {
            Some(next) if next.shared().priority != 0 || self.ready.has_urgent() => {
                self.run_anywhere(next, Some(host));
                None
            }
            next => next,
        }
    }

    /// Executes one placed task, or checks for completions on the unit's devices. Returns false if there was nothing
    /// to do.
    fn step_placed(&self, host: &Host) -> bool {
        let devices = self.devices_of(host);
        let launch = self.ready.pop_launch(host.unit);
        let look = launch.is_none() || host.unwatched.get() >= LOOK_AFTER_LAUNCHES;
        host.unwatched.set(if look { 0 } else { host.unwatched.get() + 1 });
        let polled = devices.filter(|_| look).is_some_and(|devices| self.poll(host, devices));
        let Some(launch) = launch else { return polled };
        self.run_placed(host, launch);
        true
    }

    /// Runs a placed task.
    pub(super) fn run_placed(&self, host: &Host, launch: Box<Launch>) {
        match self.devices_of(host).zip(launch.device) {
            // The device was lost before the task began.
            Some((devices, device)) if is_lost(devices, device, &launch) => {
                self.react(|out| self.shared.engine.on(Event::Returned(launch.task), out));
            }
            Some((devices, device)) => match devices.execution(device) {
                Execution::Here(here) => self.execute_on(host, devices, device, here, *launch),
                Execution::Queued(_) => match launch.across.clone() {
                    None => self.issue(host, devices, device, *launch),
                    Some(across) => self.issue_across(host, devices, *launch, &across),
                },
            },
            None => self.execute_launch(host, *launch),
        }
    }

    /// Returns the devices if the host manages any of them.
    pub(super) fn devices_of(&self, host: &Host) -> Option<&Devices> {
        self.devices.as_ref().filter(|_| !host.devices.is_empty())
    }

    /// Runs a placed task in host memory.
    fn execute_launch(&self, host: &Host, Launch { mut task, unit, .. }: Launch) {
        let context = Context { device: None, kind: UnitKind::Cpu, ..self.context_of(host, unit) };
        // The hosting thread of a device unit stands in for a CPU core.
        if self.shared.machine.unit(unit).is_device() {
            self.note_stand_in(&context, &task);
        }
        let (env, slot) = (Env { context: &context, sites: None }, Some(host.slot()));
        let (start, waited_ns) = (Instant::now(), host.own.get().waited_ns);
        let since = self.shared.trace_begin();
        let ran = host.inside(|| self.shared.run_body(&mut task, &env, slot));
        if let Some(since) = since {
            self.shared.trace_end(since, &task, (unit, None), ran.as_ref().copied());
        }
        let waited_ns = host.own.get().waited_ns.saturating_sub(waited_ns);
        let elapsed_ns = (start.elapsed().as_nanos() as u64).saturating_sub(waited_ns);
        self.end_launch(host, unit, task, ran, elapsed_ns);
    }

    /// Counts a task that the hosting core of a device unit runs in place of a CPU unit, and logs the first such task.
    fn note_stand_in(&self, context: &Context, task: &OwnedTask) {
        if self.shared.on_hosts.fetch_add(1, Ordering::Relaxed) == 0 {
            log!(
                warn,
                "task `{}` and others like it run on the core that hosts {}, in host memory: no device can run them, \
                 and there is no CPU unit; add one, such as 1:CPU:1",
                task.shared().name,
                context.unit()
            );
        }
    }

    /// Runs a placed task on its replicas in device memory, for a device that executes on this thread.
    fn execute_on(
        &self,
        host: &Host,
        devices: &Devices,
        device: DeviceId,
        here: &dyn Synchronous,
        Launch { mut task, unit, places, across, .. }: Launch,
    ) {
        let context = Context { device: Some(device), ..self.context_of(host, unit) };
        let sites = match devices.sites(&task, &places) {
            Ok(sites) => sites,
            Err(refusal) => return self.react(|out| self.shared.engine.on(Event::Refused(task, Some(refusal)), out)),
        };
        let (env, slot) = (Env { context: &context, sites: Some(&sites) }, Some(host.slot()));
        let mut ended = None;
        let (start, since) = (Instant::now(), self.shared.trace_begin());
        let others = across.as_ref().map_or(&[][..], |across| &across.devices[1..]);
        let began = run_on(devices, (device, here), others, &mut || {
            ended = Some(host.inside(|| self.shared.run_body(&mut task, &env, slot)));
        });
        // The delay that simulates the device's speed is part of the body's time.
        let elapsed_ns = start.elapsed().as_nanos() as u64;
        let ran = match began {
            Ok(()) => {
                let ran = ended.expect("a device runs the body it is given");
                // If the task continues without its thread, overruns are not checked.
                let overrun = ran.is_ok().then(|| devices.overrun(&task, &places)).flatten();
                overrun.map_or(ran, |error| Err(Ran::Ended(Outcome::Failed(FailureReason::Device(error)))))
            }
            Err((device, error)) => {
                devices.lose(Some(device), &error);
                self.shared.discard(&task);
                let lost = if error.is_loss() { &[device][..] } else { &[] };
                let reason = FailureReason::Device(error.clone());
                self.react(|out| self.shared.engine.on(Event::PartFailed(&task, lost, reason), out));
                Err(Ran::Ended(Outcome::PartFailed))
            }
        };
        if let Some(since) = since {
            self.shared.trace_end(since, &task, (unit, Some(device)), ran.as_ref().copied());
        }
        self.end_launch(host, unit, task, ran, elapsed_ns);
    }

    fn end_launch(&self, host: &Host, unit: UnitId, task: OwnedTask, ran: Result<(), Ran>, elapsed_ns: u64) {
        let ended = match ran {
            Ok(()) => Some((task, Outcome::Done(self.span(elapsed_ns)))),
            Err(ran) => self.settle(task, ran, unit.index(), elapsed_ns),
        };
        if let Some((task, outcome)) = ended {
            self.react(|out| self.shared.end(task, outcome, Some(host.slot()), out));
        }
        self.tell_waiters(host);
    }

    /// After a task, notifies the threads that wait for a number of tasks to finish, if their conditions may have
    /// changed.
    #[inline]
    pub(super) fn tell_waiters(&self, host: &Host) {
        let attention = self.shared.waiters.attention();
        if attention != 0 {
            self.look_after_waiters(host, attention);
        }
    }

    #[cold]
    fn look_after_waiters(&self, host: &Host, attention: u64) {
        if host.attention.replace(attention) == attention && host.until_told.get() > 0 {
            return host.until_told.set(host.until_told.get() - 1);
        }
        let left = self.shared.waiters.look(&self.shared.progress);
        host.until_told.set(self.without_look(left));
    }
}

/// Returns whether any device on which the task was launched was lost.
fn is_lost(devices: &Devices, device: DeviceId, launch: &Launch) -> bool {
    let others = launch.across.as_ref().map_or(&[][..], |across| &across.devices[..]);
    devices.is_lost(device) || others.iter().any(|device| devices.is_lost(*device))
}

/// Runs a body on one device and on further devices at the same time; each of them slows it down. If a device is lost,
/// the error names that device.
fn run_on(
    devices: &Devices,
    (device, here): (DeviceId, &dyn Synchronous),
    others: &[DeviceId],
    body: &mut dyn FnMut(),
) -> Result<(), (DeviceId, DeviceError)> {
    let mut of_others = Ok(());
    here.run(&mut || match others {
        [] => body(),
        [next, rest @ ..] => {
            let Execution::Here(there) = devices.execution(*next) else { unreachable!("a unit's devices are alike") };
            of_others = run_on(devices, (*next, there), rest, body);
        }
    })
    .map_err(|error| (device, error))?;
    of_others
}

//! Work that a thread does while a body on it waits.
//!
//! Usually a body waits for the task that it has submitted last, which is the newest task in its thread's own queue.
//! Such a task runs immediately, without any notification ([`Threads::run_on_top`]). Otherwise the thread continues as
//! a host. On top of the waiting body it runs the body's descendants, members of a group that the body waits for, and
//! the runtime's internal tasks, which never wait; all other tasks run on separate stacks ([`super::fibers`]). A body
//! that itself runs on a separate stack is suspended as soon as no descendant is available, so that the code that
//! resumed the body can look for other work.
//!
//! The size of a stack limits how deeply bodies nest on it: beyond [`ON_TOP_BYTES`], descendants run on separate
//! stacks as well. Therefore only the available memory limits the nesting depth of tasks.
//!
//! A body that waits for another runtime is suspended like a body that waits for its own runtime
//! ([`super::foreign_wait`]). Waiting code that keeps its unit instead is recorded in a process-wide table
//! ([`super::kept`]).

use super::crowded;
use super::host::Host;
use super::ready::ReadyQueues;
use super::run::Lookout;
use super::state::Threads;
use crate::depend::{Domain, Group, Meta, OwnedTask, running};
use crate::driver::Driver;
use crate::driver::deadlock::{Vain, key_of_children};
use crate::driver::waiters::{Awaited, own_parker, own_waker};
use crate::engine::{Event, Launch};
use crate::sync::CallSite;
use crate::sync::fiber::Stack;
use crate::sync::{Borrowed, Key, fiber};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Maximum number of bytes of a stack for tasks on top of each other. A fraction of the whole stack is a second limit.
const ON_TOP_BYTES: usize = 256 << 10;
const PART_ON_TOP: usize = 4;
/// Divisor of the stack size: tasks may use this fraction of the stack when there is no memory for more stacks.
const PART_AT_LAST: usize = 2;

/// While a body waits, one long-ready task is run each time this many other tasks have run. The number is large
/// because such a task needs a separate stack, and because the task that the body waits for is likely to be recent.
const OLDEST_AFTER_IN_BODY: u32 = 512;

/// End condition of one wait call of a body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Until the thread has nothing else to do, or its stack has to be suspended.
    Idle,
    /// Until nothing is left to wait for.
    Over,
    /// Until nothing is left to wait for, or the wait can never end.
    OverOrHopeless,
}

/// Work that a host can run.
pub(super) enum Work {
    Anywhere(OwnedTask),
    Placed(Box<Launch>),
}

impl Work {
    pub(super) fn task(&self) -> &OwnedTask {
        match self {
            Self::Anywhere(task) => task,
            Self::Placed(launch) => &launch.task,
        }
    }
}

/// Target of a body's wait.
pub(super) enum For<'a> {
    /// Something in the body's own runtime, identified by this key.
    Key(Key),
    /// The members of this group. Without a key, the wait is never refused.
    Members(&'a Group, Option<Key>),
    /// The children of the waiting body, which owns this domain. Meanwhile its thread runs nothing but the body's
    /// descendants.
    Isolated(&'a Arc<Domain>),
    /// Something else in the body's own runtime.
    Own,
    /// Something in another runtime. No task may run on top of the body, not even a descendant: on top of the body, it
    /// might wait for something that itself waits for the body, and no deadlock search could detect that.
    Other,
}

/// Tasks that may run on top of a waiting body. The body continues only after these tasks in any case.
#[derive(Clone, Copy)]
pub(crate) enum OnTop<'a> {
    Nothing,
    /// Tasks that the body has submitted as parts of itself.
    Descendants,
    /// The body's descendants, and the members of this group.
    Members(&'a Group),
}

impl OnTop<'_> {
    fn allows(self, runtime: u64, task: &OwnedTask) -> bool {
        let is_member =
            |group: &Group| task.body().group().is_some_and(|own| own.line().any(|own| std::ptr::eq(own, group)));
        match self {
            Self::Nothing => false,
            Self::Members(group) if is_member(group) => true,
            Self::Descendants | Self::Members(_) => running::is_descendant_here(runtime, task),
        }
    }
}

impl Host {
    /// Begins a stack at about the current address. From here on, tasks run on top of each other on this stack.
    pub(super) fn begin_stack(&self, on_fiber: bool) {
        let reach = ON_TOP_BYTES.min(self.aside.stack_bytes() / PART_ON_TOP);
        let floor = here().saturating_sub(reach);
        // A user's thread may have a stack of any size.
        let last_floor = if on_fiber { here().saturating_sub(self.aside.stack_bytes() / PART_AT_LAST) } else { floor };
        self.own.set(super::fibers::Own { floor, last_floor, on_fiber, waited_ns: 0 });
    }

    /// Like [`Self::has_room_on_top`], but for use while there is no memory for further stacks.
    pub(super) fn has_last_room(&self) -> bool {
        here() > self.own.get().last_floor
    }

    pub(super) fn has_room_on_top(&self) -> bool {
        here() > self.own.get().floor
    }
}

/// Returns the approximate address down to which the stack is in use. Stacks grow downwards.
#[inline(never)]
fn here() -> usize {
    let here = 0u8;
    (&raw const here).addr()
}

impl Threads {
    /// Returns whether the current code is a body that may wait for anything. A task of a frozen graph may not wait,
    /// nor may its descendants, because successors of the replay come after all of them.
    pub(crate) fn may_wait_in_body(&self) -> bool {
        self.may_wait_for_children() && running::replayed_here(self.shared.id).is_none()
    }

    /// Returns whether the current code is a body that may wait for its children.
    pub(crate) fn may_wait_for_children(&self) -> bool {
        running::may_wait(self.shared.id) && Host::with(self.shared.id, |host| host.is_some())
    }

    /// Runs the newest tasks of this thread's own queue on top of the current body, as long as they may run there and
    /// the body's wait is not `over`. `at` is the body's call site. The number of tasks is bounded so that older tasks
    /// do not wait too long.
    pub(crate) fn run_on_top(&self, on_top: OnTop<'_>, at: CallSite, over: impl Fn() -> bool) {
        if !self.on_fast_path() || !running::may_wait(self.shared.id) || self.explored.get().is_some() {
            return;
        }
        Host::with(self.shared.id, |host| {
            let Some(host) = host else { return };
            let mut executed = 0;
            while executed < OLDEST_AFTER_IN_BODY && !over() && !self.ready.has_urgent() {
                let Some(task) = ReadyQueues::pop_own(&host.queue) else { break };
                let work = Work::Anywhere(task);
                if !self.fits_on_top(host, &work, on_top) {
                    self.put_back(host, work);
                    break;
                }
                if executed == 0 {
                    self.show_wait(host, Some(at));
                }
                self.run_work(host, work);
                executed += 1;
            }
            if executed > 0 {
                self.show_wait(host, None);
            }
        });
    }

    /// Waits until `left` returns 0 for the event with this key. The thread that completes the event wakes this thread
    /// or fiber.
    ///
    /// # Errors
    /// Returns an error if the event depends on the end of the current body. In that case `left` is still greater than
    /// 0.
    #[track_caller]
    pub(crate) fn await_told(&self, key: Key, left: impl Fn() -> u64) -> Result<(), Vain> {
        let at = CallSite::caller();
        if left() > 0 && running::may_wait(self.shared.id) {
            return Host::with(self.shared.id, |host| {
                self.wait_in_body(host.expect("a body that may wait has a host"), at, For::Key(key), left)
            });
        }
        self.advance_or_refuse(Awaited::Told, left, true)
    }

    /// Waits until a group has no members left. Members may run on top of a body that waits for them. Without a key,
    /// the wait is never refused. The caller passes its call site.
    ///
    /// # Errors
    /// Same as for [`Self::await_told`].
    pub(crate) fn await_members(&self, group: &Arc<Group>, key: Option<Key>, at: CallSite) -> Result<(), Vain> {
        self.run_on_top(OnTop::Members(group), at, || group.left() == 0);
        if group.left() == 0 {
            return Ok(());
        }
        let _told = group.tell(own_waker()); // only now, because the last member run on top need not wake us
        if running::may_wait(self.shared.id) {
            return Host::with(self.shared.id, |host| {
                let host = host.expect("a body that may wait has a host");
                self.wait_in_body(host, at, For::Members(group, key), || group.left())
            });
        }
        self.advance_or_refuse(Awaited::Told, || group.left(), key.is_some())
    }

    /// Waits until the task of this domain has no children. The current body must be the body of that task, and must
    /// be allowed to wait. Meanwhile the thread runs only the task's descendants.
    ///
    /// # Errors
    /// Same as for [`Self::await_told`].
    #[track_caller]
    pub(crate) fn await_isolated(&self, domain: &Arc<Domain>) -> Result<(), Vain> {
        let at = CallSite::caller();
        Host::with(self.shared.id, |host| {
            let host = host.expect("a body that may wait has a host");
            self.wait_in_body(host, at, For::Isolated(domain), || domain.children())
        })
    }

    /// Makes the current body wait at the given call site.
    #[cold]
    pub(super) fn wait_in_body(
        &self,
        host: &Host,
        at: CallSite,
        what: For<'_>,
        left: impl Fn() -> u64,
    ) -> Result<(), Vain> {
        self.show_wait(host, Some(at));
        let (since, id) = (Instant::now(), self.shared.id);
        let on_top = match what {
            For::Other => OnTop::Nothing,
            For::Members(group, _) => OnTop::Members(group),
            For::Key(_) | For::Own | For::Isolated(_) => OnTop::Descendants,
        };
        let left = || if self.shared.is_broken() { 0 } else { left() };
        // While the unit's thread runs only descendants, the unit has no room for other tasks.
        let is_isolated = host.is_isolated() || matches!(what, For::Isolated(_));
        let placed =
            (!self.on_fast_path() && !is_isolated).then(|| running::with_task(id, |task| task.shared().id)).flatten();
        if let Some(task) = placed {
            self.react(|out| self.shared.engine.on(Event::Suspended(task), out));
        }
        let wait = |until| match (&what, host.own.get().on_fiber) {
            (For::Isolated(domain), _) => host.isolated(domain, || match self.explored.get() {
                Some(explored) => self.explore_until(host, explored, left),
                None => self.wait_below(host, &left, on_top, until),
            }),
            (_, true) => self.wait_aside(host, &left, on_top, until),
            (_, false) => self.wait_below(host, &left, on_top, until),
        };
        let key = match what {
            For::Key(key) => Some(key),
            For::Members(_, key) => key,
            For::Isolated(domain) => Some(key_of_children(domain)),
            For::Own | For::Other => None,
        };
        let waited = match key {
            None => {
                wait(Until::Over);
                Ok(())
            }
            Some(key) => {
                wait(Until::Idle);
                let wait = || wait(Until::OverOrHopeless);
                let waited = running::with_all_tasks(id, |tasks| self.shared.suspended(tasks, key, left, wait));
                let no_stack = |task: &OwnedTask| {
                    let Meta { name, location, .. } = task.shared();
                    Vain::NoStack { task: name.clone().into_owned(), submitted_at: *location }
                };
                match waited {
                    Ok(()) if left() > 0 => running::with_task(id, no_stack).map_or(Ok(()), Err),
                    waited => waited,
                }
            }
        };
        if let Some(task) = placed {
            self.react(|out| self.shared.engine.on(Event::Resumed(task), out));
        }
        self.show_wait(host, None);
        let mut own = host.own.get();
        own.waited_ns += since.elapsed().as_nanos() as u64;
        host.own.set(own);
        waited
    }

    /// Waits at the bottom of a stack that this thread cannot suspend.
    fn wait_below(&self, host: &Host, left: &impl Fn() -> u64, on_top: OnTop<'_>, until: Until) {
        let mut lookout = Lookout::default();
        while left() > 0 {
            if self.resume_woken(host) || self.step_in_body(host, on_top) || self.helps_fork(host) {
                host.crowd.moves();
                lookout = Lookout::default();
            } else if lookout.is_over() {
                self.shared.tell_waiters();
                match until {
                    Until::Idle => return,
                    Until::OverOrHopeless if self.is_hopeless(host) => return,
                    _ if host.crowd.is_stuck() => own_parker().park(Some(crowded::NAP)),
                    _ if host.is_isolated() => self.sleep_isolated(host, left),
                    _ => self.sleep(host, &own_parker(), None, left, None),
                }
                lookout = Lookout::default();
            }
        }
        if self.ready.in_sight(host.unit) {
            self.wake_for_ready(host);
        }
    }

    /// Waits on a stack that can be suspended.
    fn wait_aside(&self, host: &Host, left: &impl Fn() -> u64, on_top: OnTop<'_>, until: Until) {
        let is_explored = self.explored.get().is_some();
        while left() > 0 {
            if is_explored && until != Until::Idle {
                fiber::suspend();
            }
            if is_explored {
                if until == Until::Idle { return } else { continue }
            }
            let work = self.next_work(host, OLDEST_AFTER_IN_BODY);
            if work.as_ref().is_some_and(|work| self.fits_on_top(host, work, on_top)) {
                work.into_iter().for_each(|work| self.run_work(host, work));
                continue;
            }
            work.into_iter().for_each(|work| self.put_back(host, work));
            if until == Until::Idle {
                return;
            }
            fiber::suspend();
            while left() > 0 && self.take_over(host) {}
        }
    }

    /// Executes a call that another body offers, if there is such a call. Never picks a call that may need a lock that
    /// a body on this stack holds.
    fn helps_fork(&self, host: &Host) -> bool {
        host.has_room_on_top() && !host.is_isolated() && host.help_fork()
    }

    /// Publishes the call site at which the current body waits, or that the body runs again.
    fn show_wait(&self, host: &Host, at: Option<CallSite>) {
        running::with_task(self.shared.id, |task| self.shared.running[host.slot()].waits(task, at));
    }

    /// Resumes woken bodies on separate stacks. Returns whether there were any such bodies.
    pub(super) fn resume_woken(&self, host: &Host) -> bool {
        let all = host.aside.has_any() && self.shared.is_broken();
        (all || host.aside.has_woken()) && {
            let exposed = &self.shared.running[host.slot()];
            host.aside.resume_woken(host.isolation_level(), &host.own, exposed, all)
        }
    }

    /// Runs one piece of work while a body waits further down the stack. Returns whether there was any work.
    fn step_in_body(&self, host: &Host, on_top: OnTop<'_>) -> bool {
        let polled = self.devices_of(host).is_some_and(|devices| self.poll(host, devices));
        match self.next_work(host, OLDEST_AFTER_IN_BODY) {
            None => polled,
            Some(work) if self.fits_on_top(host, &work, on_top) => {
                self.run_work(host, work);
                true
            }
            Some(work) => match self.begin_aside(host, work, None) {
                None => true,
                Some(work) => self.run_crowded(host, work),
            },
        }
    }

    /// Like [`Self::step`], but on a fiber, so that a waiting body does not block this thread. The fiber executes
    /// tasks until one of them waits or `goes_on` returns false.
    pub(super) fn step_on_fiber(&self, host: &Host, turn: &Rc<Borrowed>, goes_on: &dyn Fn() -> bool) -> bool {
        self.die_if_doomed(host);
        let polled = self.devices_of(host).is_some_and(|devices| self.poll(host, devices));
        match self.next_work(host, host.oldest_after.get()) {
            None => polled,
            Some(work) => {
                let left = turn.lend(goes_on, || self.begin_aside(host, work, Some(turn.clone())));
                let left = left.and_then(|work| self.hand_over(host, work));
                // Without memory for a stack, the tasks run on this stack, so a body that waits does block this
                // thread.
                left.into_iter().for_each(|work| self.run_chain(host, work, goes_on));
                true
            }
        }
    }

    /// Runs work on a separate stack and, during a `turn`, further tasks after it. Returns the work if there is no
    /// memory for a stack.
    fn begin_aside(&self, host: &Host, work: Work, turn: Option<Rc<Borrowed>>) -> Option<Work> {
        let Some(stack) = self.separate_stack(host) else { return Some(work) };
        self.begin_on(stack, host, move |threads, host| {
            let Some(turn) = turn else { return threads.run_work(host, work) };
            let goes_on = || turn.holds() && !host.aside.has_woken();
            threads.run_chain(host, work, goes_on);
            while goes_on() && threads.step(host, goes_on) {}
        });
        None
    }

    /// Returns a stack, and this driver for the code that will run on it, if there is memory for a stack.
    pub(super) fn separate_stack(&self, host: &Host) -> Option<(Stack, Arc<Self>)> {
        host.crowd.stack(&host.aside).zip(self.this.upgrade())
    }

    /// Calls `run` on a separate stack, until it returns or is suspended.
    pub(super) fn begin_on(
        &self,
        (stack, threads): (Stack, Arc<Self>),
        host: &Host,
        run: impl FnOnce(&Self, &Host) + 'static,
    ) {
        Host::has_fibers();
        let exposed = &self.shared.running[host.slot()];
        host.aside.begin(stack, host.isolation_level(), &host.own, exposed, move || {
            Host::with(threads.shared.id, |host| {
                let host = host.expect("a fiber stays on its host's thread");
                host.begin_stack(true);
                run(&threads, host);
            });
        });
    }

    /// Runs work, and then the chain of tasks that directly follows it for as long as `goes_on` returns true.
    fn run_chain(&self, host: &Host, work: Work, goes_on: impl Fn() -> bool) {
        match work {
            Work::Anywhere(task) => self.execute_chain(host, task, goes_on),
            Work::Placed(launch) => self.run_placed(host, launch),
        }
    }

    /// Returns whether this work may run on top of the body that waits on this stack.
    fn fits_on_top(&self, host: &Host, work: &Work, on_top: OnTop<'_>) -> bool {
        let task = work.task();
        let fits = task.shared().internal || on_top.allows(self.shared.id, task) && host.has_room_on_top();
        fits && host.allows(task)
    }

    fn next_work(&self, host: &Host, oldest_after: u32) -> Option<Work> {
        if host.is_isolated() {
            return self.next_isolated(host);
        }
        match self.on_fast_path() {
            true => self.next_task(host, oldest_after).map(Work::Anywhere),
            false => self.ready.pop_launch(host.unit).map(Work::Placed),
        }
    }

    pub(super) fn put_back(&self, host: &Host, work: Work) {
        match work {
            Work::Anywhere(task) => self.run_anywhere(task, Some(host)),
            Work::Placed(launch) => self.ready.put_launch_back(launch),
        }
    }

    pub(super) fn run_work(&self, host: &Host, work: Work) {
        match work {
            Work::Anywhere(task) => {
                if let Some(next) = self.execute(host, task) {
                    self.run_anywhere(next, Some(host));
                }
            }
            Work::Placed(launch) => self.run_placed(host, launch),
        }
    }
}

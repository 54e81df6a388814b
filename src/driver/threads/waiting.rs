//! Bodies that wait: what their threads do meanwhile.
//!
//! What a body waits for is as a rule the task that it has submitted last, which lies at the young end of its thread's own
//! queue: then it is run there and then, and nobody has to be told ([`Threads::run_on_top`]). Else the thread goes on
//! as a host. On top of the body it runs the body's descendants and the members of a group that the body waits for, and
//! tasks of the runtime's own, which never wait; all else it runs aside ([`super::fibers`]). A body that is itself aside is
//! left as soon as no descendant is at hand, so that whoever resumed it looks for something else.
//!
//! How deep bodies lie on one stack is bounded by its size: from [`ON_TOP_BYTES`] on, descendants run aside as well. So
//! memory alone bounds how deeply tasks can be nested.

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
use crate::sync::{Borrowed, Key, fiber};
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// How much of a stack tasks use on top of each other, at most; and no more than a part of the whole.
const ON_TOP_BYTES: usize = 256 << 10;
const PART_ON_TOP: usize = 4;
/// Without memory for more stacks, tasks use this part of one.
const PART_AT_LAST: usize = 2;

/// While a body waits, one of the tasks that have been ready for long is run after so many others: it needs a stack of its
/// own, and what the body waits for is likely to be young.
const OLDEST_AFTER_IN_BODY: u32 = 512;

/// How long a body waits in one call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Until its thread has nothing else to do, or its stack is to be left.
    Idle,
    /// Until nothing is left to wait for.
    Over,
    /// The same, unless that is hopeless.
    OverOrHopeless,
}

/// Something that a host can run.
pub(super) enum Work {
    Anywhere(OwnedTask),
    Placed(Box<Launch>),
}

impl Work {
    fn task(&self) -> &OwnedTask {
        match self {
            Self::Anywhere(task) => task,
            Self::Placed(launch) => &launch.task,
        }
    }
}

/// What a body waits for.
pub(super) enum For<'a> {
    /// What has this key in its runtime.
    Key(Key),
    /// The members of this group; with its key, unless they are waited for in any case.
    Members(&'a Group, Option<Key>),
    /// The children of the body, whose domain this is, and nothing else is run meanwhile.
    Isolated(&'a Arc<Domain>),
    /// Something else of its runtime.
    Own,
    /// Something of another runtime. No task may lie on top of the body, a descendant neither: it might wait there for what
    /// waits for the body, which no search for circles sees.
    Other,
}

/// Tasks that may run on top of a waiting body, which continues only after them in any case.
#[derive(Clone, Copy)]
pub(crate) enum OnTop<'a> {
    Nothing,
    /// Tasks that the body has submitted as parts of itself.
    Descendants,
    /// Those, and the members of this group.
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
    /// From here on tasks lie on top of each other on this stack, which began about here.
    pub(super) fn begin_stack(&self, on_fiber: bool) {
        let reach = ON_TOP_BYTES.min(self.aside.stack_bytes() / PART_ON_TOP);
        let floor = here().saturating_sub(reach);
        // A thread of the user's may have a stack of another size.
        let last_floor = if on_fiber { here().saturating_sub(self.aside.stack_bytes() / PART_AT_LAST) } else { floor };
        self.own.set(super::fibers::Own { floor, last_floor, on_fiber, waited_ns: 0 });
    }

    /// As [`Self::has_room_on_top`], while there is no memory for stacks.
    pub(super) fn has_last_room(&self) -> bool {
        here() > self.own.get().last_floor
    }

    pub(super) fn has_room_on_top(&self) -> bool {
        here() > self.own.get().floor
    }
}

/// About how far the stack is used; it grows downwards.
#[inline(never)]
fn here() -> usize {
    let here = 0u8;
    (&raw const here).addr()
}

impl Threads {
    /// Whether the code that runs here is a body that may wait for anything. A task of a frozen graph may not, nor may its
    /// descendants: successors of the replay come after all of these.
    pub(crate) fn may_wait_in_body(&self) -> bool {
        self.may_wait_for_children() && running::replayed_here(self.shared.id).is_none()
    }

    /// Whether the code that runs here is a body that may wait for its children.
    pub(crate) fn may_wait_for_children(&self) -> bool {
        running::may_wait(self.shared.id) && Host::with(self.shared.id, |host| host.is_some())
    }

    /// Runs the youngest tasks of this thread's own queue on top of the body that runs here, as long as they are
    /// allowed there and its wait, in a call at this place, is not `over`; no more of them than others can wait for.
    pub(crate) fn run_on_top(&self, on_top: OnTop<'_>, at: &'static Location<'static>, over: impl Fn() -> bool) {
        if !self.on_fast_path() || !running::may_wait(self.shared.id) {
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

    /// Waits until nothing is `left` of what has this key; whoever brings that about wakes this thread, or fiber.
    ///
    /// # Errors
    /// If that waits for the end of the body that runs here: then some is left.
    #[track_caller]
    pub(crate) fn await_told(&self, key: Key, left: impl Fn() -> u64) -> Result<(), Vain> {
        let at = Location::caller();
        if left() > 0 && running::may_wait(self.shared.id) {
            return Host::with(self.shared.id, |host| {
                self.wait_in_body(host.expect("it was asked for before"), at, For::Key(key), left)
            });
        }
        self.advance_or_refuse(Awaited::Told, left, true)
    }

    /// Waits until no member of a group is left: members run on top of a body that waits for them. Without a key, the wait is
    /// never refused. The caller waits in a call at this place.
    ///
    /// # Errors
    /// As for [`Self::await_told`].
    pub(crate) fn await_members(
        &self,
        group: &Arc<Group>,
        key: Option<Key>,
        at: &'static Location<'static>,
    ) -> Result<(), Vain> {
        self.run_on_top(OnTop::Members(group), at, || group.left() == 0);
        if group.left() == 0 {
            return Ok(());
        }
        let _told = group.tell(own_waker()); // only now: the last of those on top has nobody to wake
        if running::may_wait(self.shared.id) {
            return Host::with(self.shared.id, |host| {
                let host = host.expect("it was asked for before");
                self.wait_in_body(host, at, For::Members(group, key), || group.left())
            });
        }
        self.advance_or_refuse(Awaited::Told, || group.left(), key.is_some())
    }

    /// Waits until the task of this domain, whose body runs here and which may wait, has no children; meanwhile the thread runs
    /// its descendants alone.
    ///
    /// # Errors
    /// As for [`Self::await_told`].
    #[track_caller]
    pub(crate) fn await_isolated(&self, domain: &Arc<Domain>) -> Result<(), Vain> {
        let at = Location::caller();
        Host::with(self.shared.id, |host| {
            let host = host.expect("it was asked for before");
            self.wait_in_body(host, at, For::Isolated(domain), || domain.children())
        })
    }

    /// Lets the body that runs here wait, in a call at this place.
    #[cold]
    pub(super) fn wait_in_body(
        &self,
        host: &Host,
        at: &'static Location<'static>,
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
        // A unit whose thread runs nothing else has no room for anything else.
        let is_isolated = host.is_isolated() || matches!(what, For::Isolated(_));
        let placed =
            (!self.on_fast_path() && !is_isolated).then(|| running::with_task(id, |task| task.shared().id)).flatten();
        if let Some(task) = placed {
            self.react(|out| self.shared.engine.on(Event::Suspended(task), out));
        }
        let wait = |until| match (&what, host.own.get().on_fiber) {
            (For::Isolated(domain), _) => host.isolated(domain, || self.wait_below(host, &left, on_top, until)),
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
                    Vain::NoStack { task: name.clone().into_owned(), submitted_at: location }
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

    /// Waits at the bottom of a stack that this thread cannot leave.
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

    /// Waits on a stack that can be left.
    fn wait_aside(&self, host: &Host, left: &impl Fn() -> u64, on_top: OnTop<'_>, until: Until) {
        while left() > 0 {
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

    /// Makes a call that another body offers, if there is one; not one that may want a lock which a body here holds.
    fn helps_fork(&self, host: &Host) -> bool {
        host.has_room_on_top() && !host.is_isolated() && host.help_fork()
    }

    /// Shows to others where the body that runs here waits, or that it runs again.
    fn show_wait(&self, host: &Host, at: Option<&'static Location<'static>>) {
        running::with_task(self.shared.id, |task| self.shared.running[host.slot()].waits(task, at));
    }

    /// Goes on with bodies aside that were woken; whether there were any.
    pub(super) fn resume_woken(&self, host: &Host) -> bool {
        let all = host.aside.has_any() && self.shared.is_broken();
        (all || host.aside.has_woken()) && {
            let exposed = &self.shared.running[host.slot()];
            host.aside.resume_woken(host.isolation_level(), &host.own, exposed, all)
        }
    }

    /// Runs something while a body waits below; whether there was anything.
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

    /// As [`Self::step`], on a fiber: a body that waits does not keep this thread. The fiber executes tasks until one of them
    /// waits or it no longer `goes_on`.
    pub(super) fn step_on_fiber(&self, host: &Host, turn: &Rc<Borrowed>, goes_on: &dyn Fn() -> bool) -> bool {
        self.die_if_doomed(host);
        let polled = self.devices_of(host).is_some_and(|devices| self.poll(host, devices));
        match self.next_work(host, host.oldest_after.get()) {
            None => polled,
            Some(work) => {
                let left = turn.lend(goes_on, || self.begin_aside(host, work, Some(turn.clone())));
                let left = left.and_then(|work| self.hand_over(host, work));
                // Without memory for a stack, tasks run here: then a body that waits does keep this thread.
                left.into_iter().for_each(|work| self.run_chain(host, work, goes_on));
                true
            }
        }
    }

    /// Runs something on a stack of its own, and, during a `turn`, further tasks after it; returns it if there is no memory
    /// for a stack.
    fn begin_aside(&self, host: &Host, work: Work, turn: Option<Rc<Borrowed>>) -> Option<Work> {
        let (Some(stack), Some(threads)) = (host.crowd.stack(&host.aside), self.this.upgrade()) else {
            return Some(work);
        };
        Host::has_fibers();
        let exposed = &self.shared.running[host.slot()];
        host.aside.begin(stack, host.isolation_level(), &host.own, exposed, move || {
            Host::with(threads.shared.id, |host| {
                let host = host.expect("a fiber stays on its host's thread");
                host.begin_stack(true);
                let Some(turn) = turn else { return threads.run_work(host, work) };
                let goes_on = || turn.holds() && !host.aside.has_woken();
                threads.run_chain(host, work, goes_on);
                while goes_on() && threads.step(host, goes_on) {}
            });
        });
        None
    }

    /// Runs something, and what follows it at once as long as it `goes_on`.
    fn run_chain(&self, host: &Host, work: Work, goes_on: impl Fn() -> bool) {
        match work {
            Work::Anywhere(task) => self.execute_chain(host, task, goes_on),
            Work::Placed(launch) => self.run_placed(host, launch),
        }
    }

    /// Whether this may run on top of the body that waits here.
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

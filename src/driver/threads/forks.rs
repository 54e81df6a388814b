//! Fork-join inside a body: the body makes two calls, and while its own thread runs the first call, another unit's
//! thread may run the second.
//!
//! A thread that forks pushes the second call onto its own deque, runs the first call, and usually takes the second
//! call back. Threads without a task steal the oldest call from the deques of other threads. If calls fork
//! recursively, the oldest call is the largest. So a fork costs about twenty nanoseconds while all units are busy.
//! (Blumofe & Leiserson, "Scheduling Multithreaded Computations by Work Stealing", 1999; the lazy scheme with a deque
//! is Cilk-5's.)
//!
//! A forking body is still a single task: placement, dependences and statistics see nothing of its forks. A call is a
//! part of its body wherever it runs, and must not wait for tasks. So a thread that runs another body's call always
//! returns from the call, and a thread whose call was stolen waits only for a call that is running. Meanwhile it runs
//! nothing but calls of other threads.
//!
//! Invariants:
//! 1. An offer in a thread's own deque belongs to a fork that is under way on that thread, either on the current stack
//!    or on a separate stack.
//! 2. A fork neither returns nor unwinds before its second call has ended or was taken back.
//!
//! Threads of units with several cores use their own pool, so they neither fork nor help here.

use super::host::Host;
use super::run::Lookout;
use crate::depend::{Context, running};
use crate::driver::inside::end_child;
use crate::driver::waiters::own_parker;
use crate::machine::Machine;
use crate::sync::{End, Market, Offer, Sleep, fork};
use crossbeam_deque::{Steal, Stealer, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One thread's part in the forks of all threads.
pub(super) struct Forks {
    own: Worker<Offer<Context>>,
    slot: usize,
    shared: Arc<Shared>,
}

/// State of forks that all threads share.
struct Shared {
    stealers: Vec<Stealer<Offer<Context>>>,
    /// Threads that wait for one of their stolen calls, and may run calls of other threads meanwhile.
    waiting: Sleep,
    /// For each unit, whether its threads help other threads.
    helping: Vec<bool>,
    /// Number of helping threads that are asleep in `idle`.
    helpers_asleep: AtomicUsize,
    /// Sleeping threads that may run tasks.
    idle: Arc<Sleep>,
}

impl Forks {
    /// Creates the parts for the threads of a machine: one for each unit, and one for a guest.
    pub(super) fn of_machine(machine: &Machine, idle: &Arc<Sleep>) -> Vec<Self> {
        let deques: Vec<_> = (0..machine.num_units() + 1).map(|_| Worker::new_lifo()).collect();
        let shared = Arc::new(Shared {
            stealers: deques.iter().map(Worker::stealer).collect(),
            waiting: Sleep::new(),
            helping: machine.units().iter().map(|unit| unit.is_cpu() && unit.inner_cores() == 1).collect(),
            helpers_asleep: AtomicUsize::new(0),
            idle: idle.clone(),
        });
        deques.into_iter().enumerate().map(|(slot, own)| Self { own, slot, shared: shared.clone() }).collect()
    }

    /// Returns whether any thread offers a call.
    fn in_sight(&self) -> bool {
        self.shared.stealers.iter().any(|stealer| !stealer.is_empty())
    }

    fn steal(&self) -> Option<Offer<Context>> {
        let stealers = &self.shared.stealers;
        let n = stealers.len();
        (1..n).find_map(|k| {
            loop {
                match stealers[(self.slot + k) % n].steal() {
                    Steal::Success(offer) => return Some(offer),
                    Steal::Retry => {}
                    Steal::Empty => return None,
                }
            }
        })
    }
}

impl Host {
    /// Runs a call that another thread offers, if there is such a call and this thread may run it.
    pub(super) fn help_fork(&self) -> bool {
        let offer = if self.helps_forks() { self.queue.forks.steal() } else { None };
        let found = offer.is_some();
        offer.into_iter().for_each(|offer| offer.run(&self.context));
        if found {
            self.expect_own_process();
        }
        found
    }

    /// Aborts if this process is a forked child, because no other thread makes or awaits calls there.
    fn expect_own_process(&self) {
        if self.threads.upgrade().is_some_and(|threads| threads.is_in_child()) {
            end_child("continue a call of `Context::join`");
        }
    }

    /// Returns whether [`help_fork`](Self::help_fork) would find a call.
    pub(super) fn sees_forks(&self) -> bool {
        self.helps_forks() && self.queue.forks.in_sight()
    }

    fn helps_forks(&self) -> bool {
        self.queue.forks.shared.helping[self.unit]
    }

    /// Calls `sleep`, during which this thread sleeps until there is something to do.
    pub(super) fn asleep(&self, sleep: impl FnOnce()) {
        let helper = self.helps_forks().then_some(&self.queue.forks.shared.helpers_asleep);
        helper.into_iter().for_each(|asleep| _ = asleep.fetch_add(1, Ordering::Relaxed));
        sleep();
        helper.into_iter().for_each(|asleep| _ = asleep.fetch_sub(1, Ordering::Relaxed));
    }

    /// Runs calls of other threads until another thread has reached `end`.
    #[cold]
    fn await_stolen(&self, end: &End) {
        let Shared { waiting, .. } = &*self.queue.forks.shared;
        let parker = own_parker();
        let mut lookout = Lookout::default();
        while !end.is_reached() {
            self.expect_own_process();
            let helps = self.helps_forks() && self.has_room_on_top();
            if helps && self.help_fork() {
                lookout = Lookout::default();
            } else if lookout.is_over() && end.wakes(&parker) {
                match helps {
                    true => waiting.sleep_unless(self.unit, &parker, None, || end.is_reached() || self.sees_forks()),
                    false => parker.park(None),
                }
                lookout = Lookout::default();
            }
        }
    }
}

impl Market<Context> for Host {
    /// Wakes a thread for the offer. A thread that falls asleep at the same moment may miss the offer; then this
    /// thread makes the call itself, as it would anyway.
    #[inline]
    fn offer(&self, offer: Offer<Context>) {
        let Forks { own, shared, .. } = &self.queue.forks;
        own.push(offer);
        if shared.waiting.has_any() {
            shared.waiting.wake(1);
        } else if shared.helpers_asleep.load(Ordering::Relaxed) > 0 {
            shared.idle.wake_one_at(|unit| shared.helping[unit]);
        }
    }

    #[inline]
    fn take_back(&self) -> Option<Offer<Context>> {
        self.queue.forks.own.pop()
    }

    /// Runs an offered call of a fork before its turn. The fork is on a separate stack or further down this stack.
    fn run(&self, offer: Offer<Context>) {
        offer.run(&self.context);
    }

    fn await_end(&self, end: &End) {
        self.await_stolen(end);
    }
}

/// Runs both calls; see [`Context::join`].
#[inline]
pub(crate) fn join<A: Send, B: Send>(
    context: &Context,
    first: impl FnOnce(&Context) -> A + Send,
    second: impl FnOnce(&Context) -> B + Send,
) -> (A, B) {
    let runtime = context.runtime;
    let second = |at: &Context, elsewhere: bool| match &context.group {
        Some(group) if elsewhere => second(&at.in_group(group)),
        _ => second(at),
    };
    if context.is_cpu() && context.inner_cores() > 1 {
        return running::with_part(runtime, |part| match part {
            None => rayon::join(|| first(context), || second(context, false)),
            Some(part) => rayon::join(
                || running::as_part(runtime, part, || first(context)),
                || running::as_part(runtime, part, || second(context, false)),
            ),
        });
    }
    Host::with(runtime, |host| {
        let host = host.filter(|_| context.is_cpu());
        running::with_part(runtime, |part| match host.zip(part) {
            None => (first(context), second(context, false)),
            Some((host, part)) => fork(host, context, first, |at, elsewhere| match elsewhere {
                true => running::as_part(runtime, part, || second(at, true)),
                false => second(at, false),
            }),
        })
    })
}

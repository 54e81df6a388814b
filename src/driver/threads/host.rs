//! A thread's part in a runtime: the unit that the thread hosts, its queue, and the checks that it performs
//! periodically.
//!
//! A thread may have a part in several runtimes. The work of hosts is in [`super::run`] and [`super::execute`].

use super::crowded::Crowd;
use super::fibers::{Aside, Own};
use super::isolated::Isolation;
use super::ready::OwnQueue;
use super::state::Threads;
use crate::depend::{Context, Entrance, running};
use crate::driver::Driver;
use crate::driver::waiters::Awaited;
use crate::ids::DeviceId;
use crate::machine::ComputeUnit;
use crate::sync::{Scope, start_scoped};
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::thread::Builder;

/// A host runs one long-ready task each time this many other tasks have run, so that no task has to wait for a long
/// chain of other tasks to end.
pub(super) const OLDEST_AFTER: u32 = 32;

/// One thread's part in a runtime.
pub(super) struct Host {
    runtime: u64,
    pub(super) unit: usize,
    pub(super) queue: OwnQueue,
    /// Number of tasks run since the last long-ready task.
    pub(super) in_row: Cell<u32>,
    /// Maximum value of `in_row`.
    pub(super) oldest_after: Cell<u32>,
    pub(super) context: Context,
    /// The unit's devices.
    pub(super) devices: Vec<DeviceId>,
    /// Number of launches since the last check for completions on the devices.
    pub(super) unwatched: Cell<u32>,
    /// The runtime's pool, for a unit with several cores whose host thread is not itself in the pool.
    pool: Weak<rayon::ThreadPool>,
    has_pool: bool,
    /// Bodies on separate stacks, which were begun while other bodies waited.
    pub(super) aside: Aside,
    /// State of the stack that is currently running.
    pub(super) own: Cell<Own>,
    /// What the host knows about a shortage of stacks.
    pub(super) crowd: Crowd,
    /// The innermost wait in which the thread runs only descendants of one body.
    pub(super) isolation: RefCell<Option<Isolation>>,
    /// The driver that this host belongs to. The host does not keep it alive.
    pub(super) threads: Weak<Threads>,
    /// Number of submissions until the next check of the window.
    pub(super) until_look: Cell<u32>,
    /// Number of finished tasks until the next check whether the waits of other threads are over, and the value of
    /// `Waiters::attention` that this host saw last.
    pub(super) until_told: Cell<u64>,
    pub(super) attention: Cell<u64>,
}

thread_local! {
    /// The runtimes in which this thread hosts a unit; usually only one.
    static HOSTS: RefCell<Vec<Rc<Host>>> = const { RefCell::new(Vec::new()) };
    /// The hosts for which this thread stands in as a guest.
    static GUEST_OF: Scope<Host, ()> = const { Scope::new() };
    static ENDS_BODIES: EndsBodies = const { EndsBodies };
}

/// Before the thread exits, runs the bodies that it has left suspended to completion.
struct EndsBodies;

impl Drop for EndsBodies {
    fn drop(&mut self) {
        // When the main thread exits, the process exits, so pending tasks are lost.
        if std::thread::current().name() != Some("main") {
            let hosts = HOSTS.try_with(|hosts| hosts.borrow().clone()).unwrap_or_default();
            for host in hosts.iter().filter(|host| host.aside.has_any()) {
                if let Some(threads) = host.threads.upgrade() {
                    threads.advance(Awaited::Told, || u64::from(host.aside.has_any()));
                }
            }
        }
        super::fibers::free();
    }
}

impl Host {
    /// Notes that this thread may have fibers from now on.
    pub(super) fn has_fibers() {
        let _ = ENDS_BODIES.try_with(|_| ());
    }

    /// Creates the part of a unit's host in this runtime.
    pub(super) fn new(
        threads: &Threads,
        unit: &ComputeUnit,
        queue: OwnQueue,
        pool: Option<&Arc<rayon::ThreadPool>>,
        stack_bytes: usize,
        entrance: Weak<Entrance>,
    ) -> Self {
        let runtime = threads.shared.id;
        let context = Context {
            runtime,
            entrance,
            unit: unit.id,
            kind: unit.kind,
            device: unit.devices.first().copied(),
            inner_cores: unit.inner_cores(),
            group: None,
        };
        Self {
            runtime,
            unit: unit.id.index(),
            queue,
            in_row: Cell::new(0),
            oldest_after: Cell::new(OLDEST_AFTER),
            context,
            devices: unit.devices.clone(),
            unwatched: Cell::new(0),
            pool: pool.map_or_else(Weak::new, Arc::downgrade),
            has_pool: pool.is_some(),
            aside: Aside::new(runtime, stack_bytes),
            own: Cell::default(),
            crowd: Crowd::default(),
            isolation: RefCell::default(),
            threads: threads.this.clone(),
            until_look: Cell::new(0),
            until_told: Cell::new(0),
            attention: Cell::new(0),
        }
    }

    /// Makes this thread the host. Also drops the remains of runtimes that ended on other threads.
    pub(super) fn enter(self: Rc<Self>) {
        let ended = HOSTS.with(|hosts| {
            let mut hosts = hosts.borrow_mut();
            hosts.push(self);
            hosts.extract_if(.., |host| host.threads.strong_count() == 0).collect::<Vec<_>>()
        });
        drop(ended);
    }

    /// Ends this thread's part in the given runtime.
    pub(super) fn leave(runtime: u64) {
        let _ = HOSTS.try_with(|hosts| hosts.borrow_mut().retain(|host| host.runtime != runtime));
    }

    /// Calls `f` with this thread's part in the given runtime, if it has one.
    #[inline]
    pub(super) fn with<R>(runtime: u64, f: impl FnOnce(Option<&Host>) -> R) -> R {
        let host = HOSTS.try_with(|hosts| hosts.borrow().iter().find(|host| host.runtime == runtime).cloned());
        match host.ok().flatten() {
            Some(host) => f(Some(&host)),
            None if GUEST_OF.with(Scope::is_empty) => f(None),
            None => Self::with_guest(runtime, f),
        }
    }

    #[cold]
    fn with_guest<R>(runtime: u64, f: impl FnOnce(Option<&Host>) -> R) -> R {
        let mut f = Some(f);
        let called = GUEST_OF.with(|guests| {
            guests.find(|domain, host, _| {
                let f = if domain == runtime { f.take() } else { None };
                f.map(|f| f(host))
            })
        });
        called.unwrap_or_else(|| f.take().expect("`f` is called once")(None))
    }

    /// Calls `f` as a guest that stands in for this host.
    pub(super) fn as_guest<R>(&self, f: impl FnOnce() -> R) -> R {
        Scope::enter(&GUEST_OF, (self.runtime, false), Some(self), f)
    }

    /// Returns the slot in which other threads see what this host runs, and in which it counts finished tasks.
    #[inline]
    pub(super) fn slot(&self) -> usize {
        self.queue.slot
    }

    /// Runs `body` as this unit, with the unit's cores.
    #[inline(always)] // on the path of every task
    pub(super) fn inside<R: Send>(&self, body: impl FnOnce() -> R + Send) -> R {
        if self.has_pool { self.inside_pool(body) } else { body() }
    }

    #[inline(never)]
    fn inside_pool<R: Send>(&self, body: impl FnOnce() -> R + Send) -> R {
        match self.pool.upgrade() {
            None => body(),
            Some(pool) => running::inside(self.runtime, || install(&pool, body)),
        }
    }
}

/// Runs `body` in the pool. Meanwhile this thread does nothing else, even if it is a worker of another pool.
#[cold]
fn install<R: Send>(pool: &rayon::ThreadPool, body: impl FnOnce() -> R + Send) -> R {
    if rayon::current_thread_index().is_none() {
        return pool.install(body);
    }
    // While a pool's worker waits for another pool, it runs jobs of its own pool. Such jobs may wait for the runtime
    // and thereby keep the runtime's host from returning. So a new thread, which belongs to no pool, waits instead.
    let body = Mutex::new(Some(body));
    let run = || {
        let body = body.lock().take();
        body.expect("a body runs once")()
    };
    let ran = std::thread::scope(|scope| {
        let in_pool = start_scoped(Builder::new().name("thalweg-install".to_owned()), scope, || pool.install(run));
        in_pool.map(|thread| thread.join())
    });
    match ran {
        Ok(ran) => ran.unwrap_or_else(|panic| resume_unwind(panic)),
        Err(_) => pool.install(run), // without the extra thread, this may deadlock, but need not
    }
}

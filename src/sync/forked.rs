//! Processes made by `fork`: a child has one thread, the one that called `fork`, and a copy of everything else.
//!
//! A runtime in a child has no threads. Locks that another thread held at the moment of the fork stay locked for ever. So
//! each runtime asks to be told ([`tell_in_child`]), and refuses everything from then on. Parts that cannot ask their
//! runtime compare a number of forks instead ([`Birth`]). The number changes in the child only.
//!
//! State that all runtimes of a process share must stay usable, as the child may build its own runtimes. Therefore
//! `fork` waits until no thread holds such a lock: it takes them itself, and gives them back in both processes.
//!
//! Nothing here is called by `vfork`, `posix_spawn` or a bare `clone`: what these start has to call `exec`.
//!
//! Invariants:
//! 1. At the moment of a fork the forking thread holds every lock that is shared by runtimes, or no other thread has one.
//! 2. A child learns of the fork before its `fork` returns.

use super::lock::{Lock, LockGuard};
use super::pool;
use std::any::Any;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// How many forks lie between the program's first process and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);
static MEMBERS: Lock<Members> = Lock::new(Members { handles_forks: false, all: Vec::new() });
/// Held by the thread that uses something which all runtimes of the process share.
static SHARED: Mutex<()> = Mutex::new(());

/// A runtime's part that has to know when it is in a child.
pub(crate) trait InChild: Send + Sync {
    /// This is a child of the process that had made it. Called with no other thread there, before `fork` returns.
    fn is_in_child(&self);
}

struct Members {
    /// Whether the system calls the handlers below.
    handles_forks: bool,
    all: Vec<Weak<dyn InChild>>,
}

/// The process in which something was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Birth(u64);

impl Birth {
    /// In this process.
    #[inline]
    pub(crate) fn here() -> Self {
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this is still the same process.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        self == Self::here()
    }
}

/// From now on, a child that is forked off tells this one. It is never dropped in a child.
pub(crate) fn tell_in_child(member: Weak<dyn InChild>) {
    let mut members = MEMBERS.lock();
    if !members.handles_forks {
        members.handles_forks = true;
        system::handle_forks();
    }
    members.all.retain(|member| member.strong_count() > 0);
    members.all.push(member);
}

/// Until the returned guard is dropped, no thread forks and no other thread has such a guard.
pub(crate) fn share() -> MutexGuard<'static, ()> {
    SHARED.lock().unwrap_or_else(|e| e.into_inner())
}

/// The locks that the forking thread holds meanwhile.
struct Held {
    _shared: MutexGuard<'static, ()>,
    _pool: Vec<Box<dyn Any>>,
    members: LockGuard<'static, Members>,
}

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// Before the fork. An ending thread has no place to keep guards, and takes no lock.
extern "C" fn before() {
    let _ = HELD.try_with(|held| {
        let shared = share();
        let pool = pool::hold().into_iter().map(|guard| Box::new(guard) as Box<dyn Any>).collect();
        *held.borrow_mut() = Some(Held { _shared: shared, _pool: pool, members: MEMBERS.lock() });
    });
}

/// After the fork, in the parent.
extern "C" fn in_parent() {
    drop(HELD.try_with(RefCell::take));
}

/// After the fork, in the child.
extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::SeqCst);
    let held = HELD.try_with(RefCell::take).ok().flatten();
    for member in held.iter().flat_map(|held| &held.members.all).filter_map(Weak::upgrade) {
        member.is_in_child();
        std::mem::forget::<Arc<dyn InChild>>(member); // the child never ends it
    }
}

#[cfg(unix)]
mod system {
    /// Has the system call the handlers at each fork from now on.
    pub(super) fn handle_forks() {
        // SAFETY: the handlers are functions of this library, and the system forgets them when that is unloaded. They use
        // locks and memory of ours and allocate, which is allowed: allocators are usable around handlers.
        let failed =
            unsafe { libc::pthread_atfork(Some(super::before), Some(super::in_parent), Some(super::in_child)) };
        if failed != 0 {
            log!(warn, "the system tells nobody of forks (error {failed}): a child must not use its parent's runtimes");
        }
    }
}

#[cfg(not(unix))]
mod system {
    /// There is no `fork`.
    pub(super) fn handle_forks() {}
}

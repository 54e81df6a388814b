//! Detection of `fork`: a child process has one thread, the one that called `fork`, and a copy of everything else.
//!
//! In a child process, a runtime has no threads, and locks that other threads held at the moment of the fork stay
//! locked forever. So each runtime registers to be notified of forks ([`tell_in_child`]) and rejects every operation in
//! the child. Parts without access to their runtime compare fork counts instead ([`Birth`]); the count changes only in
//! the child.
//!
//! State that all runtimes of a process share must stay usable, because the child may build its own runtimes. Therefore
//! `fork` first acquires the locks of this state, which waits until no other thread holds them, and then releases them
//! in both processes.
//!
//! `vfork`, `posix_spawn` and a bare `clone` bypass all of this, so processes started by them have to call `exec`.
//!
//! Invariants:
//! 1. At the moment of a fork, the forking thread holds every lock that runtimes share, or no other thread holds any of
//!    them.
//! 2. A child is notified of the fork before its `fork` returns.

use super::lock::{Lock, LockGuard};
use super::pool;
use std::any::Any;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// The number of forks between the program's first process and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);
static MEMBERS: Lock<Members> = Lock::new(Members { handles_forks: false, all: Vec::new() });
/// Held by a thread while it uses any state that all runtimes of the process share.
static SHARED: Mutex<()> = Mutex::new(());

/// A part of a runtime that has to know when it is in a child process.
pub(crate) trait InChild: Send + Sync {
    /// Notifies this part that it is now in a child of the process that created it. Called before `fork` returns, while
    /// the child has no other threads.
    fn is_in_child(&self);
}

struct Members {
    /// Whether the handlers below are installed.
    handles_forks: bool,
    all: Vec<Weak<dyn InChild>>,
}

/// Identifies the process in which an object was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Birth(u64);

impl Birth {
    /// Records the current process.
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

/// Registers `member` to be notified in every child that is forked from now on. `member` is never dropped in a child.
pub(crate) fn tell_in_child(member: Weak<dyn InChild>) {
    let mut members = MEMBERS.lock();
    if !members.handles_forks {
        members.handles_forks = true;
        system::handle_forks();
    }
    members.all.retain(|member| member.strong_count() > 0);
    members.all.push(member);
}

/// Prevents forks, and other calls of this function, until the returned guard is dropped.
pub(crate) fn share() -> MutexGuard<'static, ()> {
    SHARED.lock().unwrap_or_else(|e| e.into_inner())
}

/// The locks that the forking thread holds during the fork.
struct Held {
    _shared: MutexGuard<'static, ()>,
    _pool: Vec<Box<dyn Any>>,
    members: LockGuard<'static, Members>,
}

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// Runs before the fork. A thread that is ending has no storage for guards, so it takes no locks.
extern "C" fn before() {
    let _ = HELD.try_with(|held| {
        let shared = share();
        let pool = pool::hold().into_iter().map(|guard| Box::new(guard) as Box<dyn Any>).collect();
        *held.borrow_mut() = Some(Held { _shared: shared, _pool: pool, members: MEMBERS.lock() });
    });
}

/// Runs after the fork, in the parent.
extern "C" fn in_parent() {
    drop(HELD.try_with(RefCell::take));
}

/// Runs after the fork, in the child.
extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::SeqCst);
    let held = HELD.try_with(RefCell::take).ok().flatten();
    for member in held.iter().flat_map(|held| &held.members.all).filter_map(Weak::upgrade) {
        member.is_in_child();
        std::mem::forget::<Arc<dyn InChild>>(member); // the child must never drop it
    }
}

#[cfg(unix)]
mod system {
    /// Installs the handlers, which the system then calls at each fork.
    pub(super) fn handle_forks() {
        // SAFETY: the handlers are functions of this library, and the system unregisters them when the library is
        // unloaded. They use this library's locks and memory and allocate memory, which is allowed because allocators
        // are usable in these handlers.
        let failed =
            unsafe { libc::pthread_atfork(Some(super::before), Some(super::in_parent), Some(super::in_child)) };
        if failed != 0 {
            log!(warn, "the system does not report forks (error {failed}): a child must not use its parent's runtimes");
        }
    }
}

#[cfg(not(unix))]
mod system {
    /// Does nothing: this system has no `fork`.
    pub(super) fn handle_forks() {}
}

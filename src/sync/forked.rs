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
//! The standard library has such locks as well, which it holds while a thread starts or ends. So `fork` also waits
//! until none of the runtime's threads does either ([`super::start`]).
//!
//! `vfork`, `posix_spawn` and a bare `clone` bypass all of this, so processes started by them have to call `exec`.
//!
//! Invariants:
//! 1. At the moment of a fork, the forking thread holds every lock that runtimes share, if any was ever used.
//! 2. A child is notified of the fork before its `fork` returns.
//! 3. At the moment of a fork, none of the runtime's threads is starting or ending.

use super::lock::{Lock, LockGuard};
use super::pool;
use super::transitions::{Counts, Settled, Transition, Transitions};
use std::any::Any;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};

/// The number of forks between the program's first process and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);
/// Whether the handlers below are installed.
static HANDLED: AtomicBool = AtomicBool::new(false);
static MEMBERS: Lock<Members> = Lock::new(Vec::new());
/// Held by a thread while it uses any state that all runtimes of the process share.
static SHARED: Mutex<()> = Mutex::new(());
/// The starts and ends of threads. A separate lock, because [`SHARED`] may be held for long.
static TRANSITIONS: Transitions = Transitions { counts: Mutex::new(Counts::NONE), settled: Condvar::new() };

/// A part of a runtime that has to know when it is in a child process.
pub(crate) trait InChild: Send + Sync {
    /// Notifies this part that it is now in a child of the process that created it. Called before `fork` returns, while
    /// the child has no other threads.
    fn is_in_child(&self);
}

type Members = Vec<Weak<dyn InChild>>;

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

/// Installs the handlers. Called before a thread uses any state that runtimes share or starts a thread, because a child
/// that is forked earlier would find locks taken. So this function itself takes none: two threads may both install the
/// handlers, and [`before`] then ignores its second call.
pub(crate) fn handle_forks() {
    if !HANDLED.load(Ordering::Acquire) {
        system::handle_forks();
        HANDLED.store(true, Ordering::Release);
    }
}

/// Registers `member` to be notified in every child that is forked from now on. `member` is never dropped in a child.
pub(crate) fn tell_in_child(member: Weak<dyn InChild>) {
    let mut members = MEMBERS.lock();
    members.retain(|member| member.strong_count() > 0);
    members.push(member);
}

/// Prevents forks, and other calls of this function, until the returned guard is dropped.
pub(crate) fn share() -> MutexGuard<'static, ()> {
    SHARED.lock().unwrap_or_else(|e| e.into_inner())
}

/// Begins the start or the end of a thread. Waits for a fork that has begun, which has [`share`]d first, so it never
/// waits in a thread that prevents forks.
pub(super) fn transition() -> Transition<'static> {
    handle_forks();
    TRANSITIONS.begin()
}

/// The locks that the forking thread holds during the fork.
struct Held {
    shared: MutexGuard<'static, ()>,
    transitions: Settled<'static>,
    pool: Vec<Box<dyn Any>>,
    members: LockGuard<'static, Members>,
}

thread_local! {
    /// Without a destructor, so that a thread can fork in the destructors of other variables.
    static HELD: Cell<Option<ManuallyDrop<Held>>> = const { Cell::new(None) };
}

/// Runs before the fork.
extern "C" fn before() {
    if let Some(held) = HELD.take() {
        return HELD.set(Some(held));
    }
    let (shared, transitions) = (share(), TRANSITIONS.begin_fork());
    let pool = pool::hold().into_iter().map(|guard| Box::new(guard) as Box<dyn Any>).collect();
    HELD.set(Some(ManuallyDrop::new(Held { shared, transitions, pool, members: MEMBERS.lock() })));
}

/// Returns the locks that [`before`] took; `None` if the handlers were installed during this fork, or are installed
/// twice.
fn held() -> Option<Held> {
    HELD.take().map(ManuallyDrop::into_inner)
}

/// Runs after the fork, in the parent.
extern "C" fn in_parent() {
    if let Some(Held { shared, transitions, pool, members }) = held() {
        drop((pool, members));
        TRANSITIONS.end_fork(transitions);
        drop(shared);
    }
}

/// Runs after the fork, in the child.
extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::SeqCst);
    let Some(Held { shared, transitions, pool, members }) = held() else { return };
    TRANSITIONS.end_fork(transitions);
    for member in members.iter().filter_map(Weak::upgrade) {
        member.is_in_child();
        std::mem::forget::<Arc<dyn InChild>>(member); // the child must never drop it
    }
    drop((shared, pool));
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

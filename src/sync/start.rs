//! Start of threads. All threads of the library are started here, so that a `fork` happens neither while one of them
//! starts nor while it ends.
//!
//! The standard library (1.95) takes a lock for its handler of stack overflows before a thread's closure begins and
//! after it has ended. In a child of a `fork` at such a moment, this lock stays taken, and no thread that the child
//! starts reaches its closure.
//!
//! Invariants:
//! 1. A thread is in a [`Transition`] from before the system starts it until its closure begins, and from the end of
//!    its closure until the first destructor of a thread-local variable.
//! 2. That destructor belongs to [`ENDS`]: destructors run in the reverse order of the first uses of their variables,
//!    and `ENDS` is first used at the end of the closure. So no destructor of a user's variable runs in a transition.

use super::forked::transition;
use super::transitions::Transition;
use std::cell::Cell;
use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

thread_local! {
    /// The transition in which this thread ends.
    static ENDS: Cell<Option<Transition<'static>>> = const { Cell::new(None) };
}

/// Begins the transition in which the thread ends, even if the thread's body panics.
struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        ENDS.set(Some(transition()));
    }
}

/// Returns the closure of a thread that begins its start with the transition `starts`.
fn life<T>(starts: Transition<'static>, body: impl FnOnce() -> T) -> impl FnOnce() -> T {
    move || {
        drop(starts);
        let _ends = Ending;
        body()
    }
}

/// Starts a thread.
///
/// # Errors
/// Fails if the system cannot start a thread.
pub(crate) fn start<T: Send + 'static>(
    thread: Builder,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    thread.spawn(life(transition(), body))
}

/// Like [`start`], for a thread that ends before `scope` does.
///
/// # Errors
/// Fails if the system cannot start a thread.
pub(crate) fn start_scoped<'scope, T: Send + 'scope>(
    thread: Builder,
    scope: &'scope Scope<'scope, '_>,
    body: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    thread.spawn_scoped(scope, life(transition(), body))
}

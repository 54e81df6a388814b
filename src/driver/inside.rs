//! Tracks the threads on which all user code belongs to task bodies: a runtime's own threads, and guests.
//!
//! Such code must not wait for the runtime, because it would wait for itself. [`running`] knows the code that a body
//! runs on its own thread. This file covers the threads that a body's code reaches in other ways, such as the threads
//! of a thread pool, or through destructors.

use crate::depend::running;
use std::cell::RefCell;

thread_local! {
    /// The runtimes whose bodies are the only user code on this thread. The thread belongs to these runtimes or is a
    /// guest.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Notes that from now on, user code on this thread belongs to bodies of the given runtime.
pub(crate) fn enter(runtime: u64) {
    let _ = INSIDE.try_with(|inside| inside.borrow_mut().push(runtime)); // an exiting thread hosts nothing
}

/// Undoes the most recent [`enter`].
pub(crate) fn leave() {
    let _ = INSIDE.try_with(|inside| inside.borrow_mut().pop());
}

/// Returns whether user code on this thread is part of a body of this runtime, and therefore must not wait for the
/// runtime.
pub(crate) fn in_body(runtime: u64) -> bool {
    let inside = INSIDE.try_with(|inside| inside.borrow().contains(&runtime)).unwrap_or(false);
    inside || running::is_inside(runtime)
}

/// Aborts a forked child process that has no thread with which to `go_on`.
#[cold]
pub(crate) fn end_child(go_on: &str) -> ! {
    eprintln!(
        "thalweg: cannot {go_on} in a child of `fork`: the runtime's threads are in the parent process, so this one is \
         aborted; try `exec` or `_exit` in the child before that"
    );
    std::process::abort();
}

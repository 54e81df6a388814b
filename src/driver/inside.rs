//! The threads on which user code is the code of bodies alone: a runtime's own threads, and guests.
//!
//! Such code must not wait for the runtime: it would wait for itself. What a body runs on its own thread is known to
//! [`running`]; here are the threads that a body's code gets to by other ways, as a pool's or that of a destructor.

use crate::depend::running;
use std::cell::RefCell;

thread_local! {
    /// The runtimes whose bodies alone bring user code to this thread: it is theirs, or a guest.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// From now on, user code on this thread is that runtime's bodies'.
pub(crate) fn enter(runtime: u64) {
    let _ = INSIDE.try_with(|inside| inside.borrow_mut().push(runtime)); // a thread that ends hosts nothing
}

/// Takes the last [`enter`] back.
pub(crate) fn leave() {
    let _ = INSIDE.try_with(|inside| inside.borrow_mut().pop());
}

/// Whether user code on this thread is part of a body of this runtime, so that it must not wait for it.
pub(crate) fn in_body(runtime: u64) -> bool {
    let inside = INSIDE.try_with(|inside| inside.borrow().contains(&runtime)).unwrap_or(false);
    inside || running::is_inside(runtime)
}

/// Ends a child process that has no thread which could `go_on` as it was about to.
#[cold]
pub(crate) fn end_child(go_on: &str) -> ! {
    eprintln!(
        "thalweg: cannot {go_on} in a child of `fork`: the runtime's threads are in the parent process, so this one is \
         aborted; try `exec` or `_exit` in the child before that"
    );
    std::process::abort();
}

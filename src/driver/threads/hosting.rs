//! The thread that executes for a unit, observable by other threads: whether it sleeps, or is absent.

use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The thread of one unit, or a guest.
pub(super) struct Hosting {
    /// The file in which the system reports the thread's state, if there is one.
    state: Mutex<Option<Arc<Path>>>,
    is_there: AtomicBool,
}

thread_local! {
    /// The file in which the system reports this thread's state, if there is one.
    static STATE: Option<Arc<Path>> = {
        let thread = std::fs::read_link("/proc/thread-self").ok();
        thread.map(|thread| Path::new("/proc").join(thread).join("stat").into())
    };
}

impl Hosting {
    /// Creates the state in which the executing thread is present, or in which it is not yet.
    pub(super) fn new(is_there: bool) -> Self {
        Self { state: Mutex::default(), is_there: AtomicBool::new(is_there) }
    }

    /// Notes that the calling thread executes for the unit.
    pub(super) fn is_this_thread(&self) {
        let state = STATE.try_with(Clone::clone).ok().flatten();
        *self.state.lock() = state;
        self.is_there.store(true, Ordering::Relaxed);
    }

    /// Notes that no thread executes for the unit until one registers again.
    pub(super) fn is_nobody(&self) {
        self.is_there.store(false, Ordering::Relaxed);
    }

    /// Whether a thread executes for the unit, or will do so by itself.
    pub(super) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Relaxed)
    }

    /// Whether the thread sleeps, according to the system.
    pub(super) fn is_asleep(&self) -> bool {
        let state = self.state.lock().clone();
        let text = state.and_then(|state| std::fs::read_to_string(state).ok());
        // The name, which may contain anything, ends with the last parenthesis; the state comes next.
        text.is_some_and(|text| text.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S')))
    }
}

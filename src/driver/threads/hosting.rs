//! Which thread executes for a unit, so that others can see whether it sleeps, or is elsewhere.

use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The thread of one unit, or a guest.
pub(super) struct Hosting {
    /// Where the system says what the thread does, if it does.
    state: Mutex<Option<Arc<Path>>>,
    is_there: AtomicBool,
}

thread_local! {
    /// Where the system says what this thread does, if it does: `None` until asked for.
    static STATE: Option<Arc<Path>> = {
        let thread = std::fs::read_link("/proc/thread-self").ok();
        thread.map(|thread| Path::new("/proc").join(thread).join("stat").into())
    };
}

impl Hosting {
    /// The thread that is to execute is there, or it is not yet.
    pub(super) fn new(is_there: bool) -> Self {
        Self { state: Mutex::default(), is_there: AtomicBool::new(is_there) }
    }

    /// It is the calling thread.
    pub(super) fn is_this_thread(&self) {
        let state = STATE.try_with(Clone::clone).ok().flatten();
        *self.state.lock() = state;
        self.is_there.store(true, Ordering::Relaxed);
    }

    /// No thread executes for the unit until one says that it does.
    pub(super) fn is_nobody(&self) {
        self.is_there.store(false, Ordering::Relaxed);
    }

    /// Whether a thread executes for the unit, or is going to by itself.
    pub(super) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Relaxed)
    }

    /// Whether the thread sleeps, as far as the system says.
    pub(super) fn is_asleep(&self) -> bool {
        let state = self.state.lock().clone();
        let text = state.and_then(|state| std::fs::read_to_string(state).ok());
        // The name, which may hold anything, ends with the last parenthesis; the state comes next.
        text.is_some_and(|text| text.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S')))
    }
}

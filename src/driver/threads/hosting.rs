//! State of the thread that executes for a unit, as visible to other threads: whether it sleeps or is absent.

use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// State of the thread of one unit, or of a guest.
pub(super) struct Hosting {
    /// File in which the operating system reports the thread's state; `None` if there is no such file or no thread.
    state: Mutex<Option<Arc<Path>>>,
    is_there: AtomicBool,
}

thread_local! {
    /// File in which the operating system reports this thread's state, if there is one.
    static STATE: Option<Arc<Path>> = {
        let thread = std::fs::read_link("/proc/thread-self").ok();
        thread.map(|thread| Path::new("/proc").join(thread).join("stat").into())
    };
}

impl Hosting {
    /// Creates the state of an executing thread that is already present, or that is still absent.
    pub(super) fn new(is_there: bool) -> Self {
        Self { state: Mutex::default(), is_there: AtomicBool::new(is_there) }
    }

    /// Notes that the calling thread executes for the unit.
    pub(super) fn is_this_thread(&self) {
        let state = STATE.try_with(Clone::clone).ok().flatten();
        *self.state.lock() = state;
        self.is_there.store(true, Ordering::Relaxed);
    }

    /// Notes that no thread executes for the unit until a thread registers again.
    pub(super) fn is_nobody(&self) {
        self.is_there.store(false, Ordering::Relaxed);
    }

    /// Returns whether a thread executes for the unit, or will do so without further action.
    pub(super) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Relaxed)
    }

    /// Returns whether the thread sleeps according to the operating system.
    pub(super) fn is_asleep(&self) -> bool {
        let state = self.state.lock().clone();
        let text = state.and_then(|state| std::fs::read_to_string(state).ok());
        // The thread name may contain any characters and ends at the last parenthesis. The state follows it.
        text.is_some_and(|text| text.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S')))
    }
}

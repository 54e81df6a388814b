//! State of the threads that execute for a unit, as visible to other threads: whether they sleep or are absent.

use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The threads of a unit's pool, each by the file in which the operating system reports its state.
#[derive(Clone, Default)]
pub(super) struct Members(Arc<Mutex<Vec<Arc<Path>>>>);

impl Members {
    /// Adds the calling thread.
    pub(super) fn join(&self) {
        self.0.lock().extend(own_state());
    }

    fn are_asleep(&self) -> bool {
        self.0.lock().iter().all(|state| sleeps(state) != Some(false))
    }
}

/// State of the thread of one unit, or of a guest.
pub(super) struct Hosting {
    /// File in which the operating system reports the thread's state; `None` if there is no such file or no thread.
    state: Mutex<Option<Arc<Path>>>,
    is_there: AtomicBool,
    /// The unit's pool. A thread that waits for its pool sleeps while the pool computes.
    pub(super) members: Members,
}

thread_local! {
    /// File in which the operating system reports this thread's state, if there is one.
    static STATE: Option<Arc<Path>> = {
        let thread = std::fs::read_link("/proc/thread-self").ok();
        thread.map(|thread| Path::new("/proc").join(thread).join("stat").into())
    };
}

fn own_state() -> Option<Arc<Path>> {
    STATE.try_with(Clone::clone).ok().flatten()
}

/// Returns whether a thread sleeps according to the operating system, which does not know ended threads.
fn sleeps(state: &Path) -> Option<bool> {
    let text = std::fs::read_to_string(state).ok()?;
    // The thread name may contain any characters and ends at the last parenthesis. The state follows it.
    text.rsplit(')').next().map(|rest| rest.trim_start().starts_with('S'))
}

impl Hosting {
    fn new(is_there: bool, members: Members) -> Self {
        Self { state: Mutex::default(), is_there: AtomicBool::new(is_there), members }
    }

    /// Notes that the calling thread executes for the unit.
    pub(super) fn is_this_thread(&self) {
        *self.state.lock() = own_state();
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

    /// Returns whether the unit's threads sleep according to the operating system.
    pub(super) fn is_asleep(&self) -> bool {
        self.sleeps() == Some(true)
    }

    fn sleeps(&self) -> Option<bool> {
        let state = self.state.lock().clone();
        Some(sleeps(&state?)? && self.members.are_asleep())
    }

    /// Returns whether the thread is awake and is not the calling thread. If it is present, it runs a body or is about
    /// to, because an idle thread soon falls asleep. Otherwise it runs the program's own code.
    pub(super) fn is_awake_elsewhere(&self) -> bool {
        let state = self.state.lock().clone();
        state.is_some() && state != own_state() && self.sleeps() == Some(false)
    }
}

/// Creates the states for this number of units, whose threads are present, and for the guest of unit 0, which is
/// absent. The guest has the pool of that unit.
pub(super) fn hosting_of(units: usize) -> Box<[Hosting]> {
    let mut all: Vec<_> = (0..units).map(|_| Hosting::new(true, Members::default())).collect();
    let members = all.first().map(|first| first.members.clone()).unwrap_or_default();
    all.push(Hosting::new(false, members));
    all.into()
}

//! Serialisation of calls, for platforms that do not support concurrent calls.
//!
//! According to the standard, any thread may call any OpenCL function at any time, except for the function that sets
//! a kernel's argument (OpenCL 1.2, appendix A.2). Oclgrind, however, keeps enqueued work in maps without locks, and
//! computes in whichever thread waits or flushes; with two threads, its heap gets corrupted sooner or later. On such
//! a platform, each call made by this backend takes a turn. On other platforms there are no turns, and nothing is
//! locked. A body that calls OpenCL itself takes no turn, so on such a platform nothing else may use OpenCL in the
//! meantime.
//!
//! Invariants:
//! 1. A turn is taken before any lock of this backend, and a thread that has the turn never waits for a lock that is
//!    held across calls. So turns and locks cannot deadlock.
//! 2. The platform makes no callbacks within a turn: the backend waits for events instead.
//! 3. Handles are released in a turn: every handle that this backend creates is an [`InTurn`], except the handles in
//!    command buffers, which no such platform supports.

use opencl3::platform::Platform;
use parking_lot::{ReentrantMutex, ReentrantMutexGuard, const_reentrant_mutex};
use std::mem::ManuallyDrop;
use std::ops::Deref;

/// A single lock for all devices, because platforms that need turns share maps among their devices.
static TURN: ReentrantMutex<()> = const_reentrant_mutex(());

/// Whether calls to a platform take turns.
#[derive(Clone, Copy)]
pub(super) struct Turns(bool);

impl Turns {
    /// Returns whether a platform needs turns.
    pub(super) fn of(platform: &Platform) -> Self {
        Self(platform.name().is_ok_and(|name| name.trim() == "Oclgrind"))
    }

    /// Returns whether the platform supports only one call at a time.
    pub(super) fn are_taken(self) -> bool {
        self.0
    }

    /// Waits for this thread's turn, and holds the turn until the result is dropped. A thread that already has the
    /// turn does not wait.
    pub(super) fn take(self) -> Option<ReentrantMutexGuard<'static, ()>> {
        self.0.then(|| TURN.lock())
    }
}

/// A handle that is released within a turn.
pub(in crate::device) struct InTurn<T> {
    handle: ManuallyDrop<T>,
    turns: Turns,
}

impl<T> InTurn<T> {
    pub(super) fn new(handle: T, turns: Turns) -> Self {
        Self { handle: ManuallyDrop::new(handle), turns }
    }
}

impl<T> Deref for InTurn<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.handle
    }
}

impl<T> Drop for InTurn<T> {
    fn drop(&mut self) {
        let _turn = self.turns.take();
        // SAFETY: the handle is dropped only here, and not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.handle) };
    }
}

//! Serialisation of calls, for platforms that do not support concurrent ones.
//!
//! OpenCL's calls may come from any thread at any time, except for the one that sets a kernel's argument (OpenCL 1.2,
//! appendix A.2). Oclgrind keeps enqueued work in maps without locks, and computes in whichever thread waits or
//! flushes: with two threads its heap breaks sooner or later. On such a platform each call of this backend takes a
//! turn; on others there are no turns, and nothing is locked. A body that calls OpenCL itself takes no turn: on such
//! a platform nothing else may use it meanwhile.
//!
//! Invariants:
//! 1. A turn is taken before any lock of this backend, and within a turn no lock is awaited that is held across
//!    calls: so turns and locks cannot wait for each other.
//! 2. Nothing of the platform calls back within a turn: events are waited for instead.
//! 3. Handles are released in turn: each that this backend makes is an [`InTurn`], except those in command buffers,
//!    which no such platform has.

use opencl3::platform::Platform;
use parking_lot::{ReentrantMutex, ReentrantMutexGuard, const_reentrant_mutex};
use std::mem::ManuallyDrop;
use std::ops::Deref;

/// One for all devices: platforms that need it share maps among their devices.
static TURN: ReentrantMutex<()> = const_reentrant_mutex(());

/// Whether calls take turns.
#[derive(Clone, Copy)]
pub(super) struct Turns(bool);

impl Turns {
    /// Returns whether a platform needs turns.
    pub(super) fn of(platform: &Platform) -> Self {
        Self(platform.name().is_ok_and(|name| name.trim() == "Oclgrind"))
    }

    /// Returns whether only one call at a time is supported.
    pub(super) fn are_taken(self) -> bool {
        self.0
    }

    /// Waits for this thread's turn, and holds it until the result is dropped. A thread that has its turn does not
    /// wait.
    pub(super) fn take(self) -> Option<ReentrantMutexGuard<'static, ()>> {
        self.0.then(|| TURN.lock())
    }
}

/// A handle that is released in a turn.
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
        // SAFETY: dropped only here, and not used any more.
        unsafe { ManuallyDrop::drop(&mut self.handle) };
    }
}

//! What a thread is working on, for others to look at, at next to no cost to the thread.
//!
//! The thread that runs a task shows it here, and hides it before the task may go. Others look at it when something has
//! gone wrong: rarely, and then they may take their time. So the lock between the two is biased: hiding is a store and a
//! load, without a fence; looking makes every thread of the process pass a fence ([`heavy_fence`]).
//!
//! Invariant: while a look is under way, a task that was seen is not let go: its thread waits at `looking` in `hide`.
//! Proof: the thread hides (1) and then reads `looked_at` (2); who looks sets `looked_at` (3) and then reads what is shown
//! (4). With a fence between on both sides, either (4) sees (1) or (2) sees (3). Who has looked takes (3) back (5): where (2)
//! sees that, what was read has been read (`tests/loom`).

use super::atomic::{AtomicBool, AtomicPtr, Mutex, Ordering, heavy_fence, light_fence};
use super::task::{Kind, OwnedTask, Task};
use std::ptr;

/// What one thread is working on.
pub(crate) struct Exposed<K: Kind> {
    shown: AtomicPtr<Task<K>>,
    looked_at: AtomicBool,
    looking: Mutex<()>,
}

impl<K: Kind> Default for Exposed<K> {
    fn default() -> Self {
        let shown = AtomicPtr::new(ptr::null_mut());
        Self { shown, looked_at: AtomicBool::new(false), looking: Mutex::new(()) }
    }
}

impl<K: Kind> Exposed<K> {
    /// Calls `run` with the task's body; meanwhile others can see the task. To be called by one thread at a time.
    #[inline(always)] // on the way of every task
    pub(crate) fn during<R>(&self, task: &OwnedTask<K>, run: impl FnOnce(&K::Body) -> R) -> R {
        self.shown.store(ptr::from_ref::<Task<K>>(task).cast_mut(), Ordering::Release);
        let _hidden_at_last = Shown(self);
        run(task.body())
    }

    /// Shows the task again whose body goes on. To be called in [`Self::during`], by the same thread.
    pub(crate) fn show(&self, task: &OwnedTask<K>) {
        self.shown.store(ptr::from_ref::<Task<K>>(task).cast_mut(), Ordering::Release);
    }

    /// Shows nothing while the task's body is suspended. To be called in [`Self::during`], by the same thread, and
    /// followed by [`Self::show`] before the task continues.
    pub(crate) fn conceal(&self) {
        self.shown.store(ptr::null_mut(), Ordering::Release);
    }

    /// Whether there is a task to see.
    pub(crate) fn is_shown(&self) -> bool {
        !self.shown.load(Ordering::Relaxed).is_null()
    }

    /// Calls `see` with the task and its body, if one is shown; its thread may have to wait meanwhile before it can let go of
    /// it.
    ///
    /// # Safety
    /// Of the body, `see` only reads what does not change while it runs.
    pub(crate) unsafe fn look<R>(&self, see: impl FnOnce(&Task<K>, &K::Body) -> R) -> Option<R> {
        let _looking = self.looking.lock().unwrap_or_else(|e| e.into_inner());
        self.looked_at.store(true, Ordering::Relaxed);
        heavy_fence();
        // SAFETY: a task that is seen here stays until the lock is given back (the invariant), and with it its body, which its
        // thread has no more than shared references to meanwhile; the caller answers for what is read.
        let result =
            unsafe { self.shown.load(Ordering::Acquire).as_ref().map(|task| see(task, task.body_address().as_ref())) };
        self.looked_at.store(false, Ordering::Release);
        result
    }

    #[inline]
    fn hide(&self) {
        self.shown.store(ptr::null_mut(), Ordering::Release);
        light_fence();
        if self.looked_at.load(Ordering::Acquire) {
            self.wait();
        }
    }

    #[cold]
    fn wait(&self) {
        drop(self.looking.lock().unwrap_or_else(|e| e.into_inner()));
    }
}

/// Hides the task again, however its body ends.
struct Shown<'a, K: Kind>(&'a Exposed<K>);

impl<K: Kind> Drop for Shown<'_, K> {
    #[inline]
    fn drop(&mut self) {
        self.0.hide();
    }
}

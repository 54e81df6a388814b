//! Page-locking of homes, on a separate thread.
//!
//! Locking gigabytes takes long, and the driver may wait for the device meanwhile. So a thread that copies only
//! requests it; until it is done, copies go through staging memory (`device/gpu/copies.rs`).
//!
//! Invariants:
//! 1. A home is never locked after it has been forgotten: forgetting it withdraws the request, or waits for the call in
//!    progress and undoes it.
//! 2. No lock is held while the driver locks or unlocks memory.

use super::Devices;
use super::homes::Home;
use crate::device::Device;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

/// Whether a home is page-locked, or will be.
#[derive(Default)]
pub(super) struct PageLock {
    is_locked: AtomicBool,
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Default)]
enum Stage {
    /// Not requested.
    #[default]
    Unlocked,
    Requested,
    InProgress,
    Locked(#[allow(dead_code, reason = "dropping it unlocks the memory")] Box<dyn Send + Sync>),
    /// The memory cannot be locked, or must not be any more.
    Refused,
}

impl PageLock {
    pub(super) fn is_locked(&self) -> bool {
        self.is_locked.load(Ordering::Acquire)
    }

    /// Changes the stage if `from` holds for it. Returns whether it did.
    fn advance(&self, from: fn(&Stage) -> bool, to: Stage) -> bool {
        let mut stage = self.stage.lock();
        let matches = from(&stage);
        if matches {
            self.is_locked.store(matches!(to, Stage::Locked(_)), Ordering::Release);
            *stage = to; // neither value unlocks anything: a locked home changes in `undo` alone
            self.changed.notify_all();
        }
        matches
    }

    /// Waits until a request has been served. Returns whether the home is locked.
    fn wait(&self) -> bool {
        let mut stage = self.stage.lock();
        self.changed.wait_while(&mut stage, |stage| matches!(stage, Stage::Requested | Stage::InProgress));
        matches!(*stage, Stage::Locked(_))
    }

    /// Unlocks the memory if it is locked, and refuses all requests from now on.
    pub(super) fn undo(&self) {
        let before = {
            let mut stage = self.stage.lock();
            self.changed.wait_while(&mut stage, |stage| matches!(stage, Stage::InProgress));
            self.is_locked.store(false, Ordering::Release);
            std::mem::replace(&mut *stage, Stage::Refused)
        };
        self.changed.notify_all();
        drop(before);
    }
}

/// A request to page-lock a home. If it is dropped unserved, it is refused.
pub(in crate::driver::threads) struct LockJob(Arc<Home>);

impl Drop for LockJob {
    fn drop(&mut self) {
        let is_open = |stage: &Stage| matches!(stage, Stage::Requested | Stage::InProgress);
        self.0.page_lock.advance(is_open, Stage::Refused);
    }
}

impl Devices {
    /// Requests that a home be page-locked, unless that has been requested before.
    pub(super) fn request_lock(&self, home: &Arc<Home>) {
        if home.page_lock.advance(|stage| matches!(stage, Stage::Unlocked), Stage::Requested) {
            let _ = self.locks.send(Some(LockJob(home.clone()))); // fails only if the thread has ended
        }
    }

    /// Page-locks a home and waits until it is done. Returns whether it is locked.
    pub(super) fn lock_now(&self, home: &Arc<Home>) -> bool {
        self.request_lock(home);
        home.page_lock.wait()
    }

    /// Serves requests until the runtime ends.
    pub(in crate::driver::threads) fn serve_locks(&self, jobs: &Receiver<Option<LockJob>>) {
        while let Ok(Some(job)) = jobs.recv() {
            let home = &job.0;
            if home.page_lock.advance(|stage| matches!(stage, Stage::Requested), Stage::InProgress) {
                // SAFETY: the home's memory stays valid until `undo` has returned, and that waits for this call. The
                // lock is dropped by `undo`.
                let lock = |device: &dyn Device| unsafe { device.pin_memory(home.base, home.lockable_bytes) };
                let lock = self.devices.iter().find_map(|device| lock(&**device));
                let is_in_progress = |stage: &Stage| matches!(stage, Stage::InProgress);
                home.page_lock.advance(is_in_progress, lock.map_or(Stage::Refused, Stage::Locked));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    /// Counts itself when it is dropped.
    struct Counted(Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn forgetting_a_home_waits_for_the_lock_in_progress_and_undoes_it() {
        let (page_lock, undone) = (PageLock::default(), Arc::new(AtomicUsize::new(0)));
        assert!(page_lock.advance(|stage| matches!(stage, Stage::Unlocked), Stage::InProgress));
        std::thread::scope(|scope| {
            let forgotten = scope.spawn(|| page_lock.undo());
            std::thread::sleep(Duration::from_millis(5));
            assert!(!forgotten.is_finished(), "the driver still uses the memory");
            let lock = Stage::Locked(Box::new(Counted(undone.clone())));
            assert!(page_lock.advance(|stage| matches!(stage, Stage::InProgress), lock));
            forgotten.join().unwrap();
        });
        assert_eq!((undone.load(Ordering::SeqCst), page_lock.is_locked(), page_lock.wait()), (1, false, false));
        assert!(!page_lock.advance(|stage| matches!(stage, Stage::Unlocked | Stage::Requested), Stage::InProgress));
    }

    #[test]
    fn withdrawn_request_wakes_its_waiter() {
        let page_lock = PageLock::default();
        assert!(page_lock.advance(|stage| matches!(stage, Stage::Unlocked), Stage::Requested));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| page_lock.wait());
            page_lock.undo();
            assert!(!waiter.join().unwrap());
        });
    }
}

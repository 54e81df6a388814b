//! Tasks in an accelerator's queues, as tracked by the accelerator's hosting thread.

use super::multi_device::InParts;
use crate::depend::OwnedTask;
use crate::device::Waker;
use crate::engine::ReplicaRef;
use crate::ids::{TaskId, UnitId};
use crate::sync::Sleep;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The part of a task that a device has in flight.
pub(super) enum InFlight {
    /// The whole task, with the replica of each access.
    All(OwnedTask, Arc<[ReplicaRef]>),
    /// One part of a task; other devices have the other parts.
    Part(Arc<InParts>),
}

/// The tasks that were issued to one device, and whether the hosting thread has something to check.
#[derive(Default)]
pub(super) struct DeviceQueue {
    tasks: Mutex<FxHashMap<TaskId, InFlight>>,
    /// Set when work may have completed, or when another thread has enqueued work.
    news: Arc<AtomicBool>,
    /// Set when the device was lost.
    lost: AtomicBool,
    waker: OnceLock<Waker>,
}

impl DeviceQueue {
    /// Lets the device wake its hosting thread, which is the thread of `unit`.
    ///
    /// A device calls the waker on a thread of its interface, possibly while the runtime is shutting down. The waker
    /// must not own the devices, because otherwise that thread might be the one that drops them.
    pub(super) fn connect(&self, idle: Arc<Sleep>, unit: UnitId) {
        let news = self.news.clone();
        let _ = self.waker.set(Arc::new(move || {
            news.store(true, Ordering::SeqCst);
            idle.wake_at(unit.index());
        }));
    }

    /// Returns the waker of the hosting thread.
    pub(super) fn waker(&self) -> Option<&Waker> {
        self.waker.get()
    }

    /// Notifies the hosting thread that there is something to check.
    pub(super) fn announce(&self) {
        if let Some(waker) = self.waker.get() {
            waker();
        }
    }

    /// Returns whether there is something to check.
    pub(super) fn has_news(&self) -> bool {
        self.news.load(Ordering::SeqCst)
    }

    /// Notes that the hosting thread is checking now.
    pub(super) fn look(&self) {
        self.news.store(false, Ordering::SeqCst);
    }

    /// Stores a task until the device has finished it.
    pub(super) fn push(&self, task: OwnedTask, places: Arc<[ReplicaRef]>) {
        self.tasks.lock().insert(task.shared().id, InFlight::All(task, places));
    }

    /// Like [`push`](Self::push), for the device's part of a task across several devices.
    pub(super) fn push_part(&self, task: TaskId, parts: Arc<InParts>) {
        self.tasks.lock().insert(task, InFlight::Part(parts));
    }

    /// Calls `see` with each task that the device has, while the lock is held. None of these tasks can end meanwhile.
    pub(super) fn visit(&self, see: &mut dyn FnMut(&OwnedTask)) {
        for in_flight in self.tasks.lock().values() {
            match in_flight {
                InFlight::All(task, _) => see(task),
                InFlight::Part(parts) => parts.visit(see),
            }
        }
    }

    /// Returns whether the device has tasks.
    pub(super) fn has_tasks(&self) -> bool {
        !self.tasks.lock().is_empty()
    }

    /// Removes and returns a task that the device has finished.
    pub(super) fn take(&self, task: TaskId) -> InFlight {
        self.tasks.lock().remove(&task).expect("a task in flight is kept")
    }

    /// Notes that the device was lost.
    pub(super) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Returns whether the device was lost.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }
}

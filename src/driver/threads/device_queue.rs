//! What an accelerator has in its queues, as its hosting thread keeps it.

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

/// What a device has in flight of a task.
pub(super) enum InFlight {
    /// All, with the replica of each access.
    All(OwnedTask, Arc<[ReplicaRef]>),
    /// Its part; other devices have others.
    Part(Arc<InParts>),
}

/// The tasks that one device has been issued, and whether there is something to look at.
#[derive(Default)]
pub(super) struct DeviceQueue {
    tasks: Mutex<FxHashMap<TaskId, InFlight>>,
    /// Something may have ended, or was enqueued by another thread.
    news: Arc<AtomicBool>,
    /// The device is gone.
    lost: AtomicBool,
    waker: OnceLock<Waker>,
}

impl DeviceQueue {
    /// Lets the device wake its hosting thread, that of a `unit`.
    ///
    /// A device calls on a thread of its interface, maybe while the runtime ends: what it calls must not own the devices, or
    /// that thread might be the one that drops them.
    pub(super) fn connect(&self, idle: Arc<Sleep>, unit: UnitId) {
        let news = self.news.clone();
        let _ = self.waker.set(Arc::new(move || {
            news.store(true, Ordering::SeqCst);
            idle.wake_at(unit.index());
        }));
    }

    /// What wakes the hosting thread.
    pub(super) fn waker(&self) -> Option<&Waker> {
        self.waker.get()
    }

    /// Tells the hosting thread that there is something to look at.
    pub(super) fn announce(&self) {
        if let Some(waker) = self.waker.get() {
            waker();
        }
    }

    /// Whether there is something to look at.
    pub(super) fn has_news(&self) -> bool {
        self.news.load(Ordering::SeqCst)
    }

    /// The hosting thread looks now.
    pub(super) fn look(&self) {
        self.news.store(false, Ordering::SeqCst);
    }

    /// Keeps a task until the device has ended it.
    pub(super) fn push(&self, task: OwnedTask, places: Arc<[ReplicaRef]>) {
        self.tasks.lock().insert(task.shared().id, InFlight::All(task, places));
    }

    /// As [`push`](Self::push), of what the device has of a task across several.
    pub(super) fn push_part(&self, task: TaskId, parts: Arc<InParts>) {
        self.tasks.lock().insert(task, InFlight::Part(parts));
    }

    /// Whether the device has tasks.
    pub(super) fn has_tasks(&self) -> bool {
        !self.tasks.lock().is_empty()
    }

    /// A task that the device has ended.
    pub(super) fn take(&self, task: TaskId) -> InFlight {
        self.tasks.lock().remove(&task).expect("a task in flight is kept")
    }

    /// The device is gone.
    pub(super) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Whether the device is gone.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }
}

//! Waiting threads and futures, and their notification once their conditions are met.
//!
//! A future counts here as a thread that sleeps from the beginning: it registers for notification, and is woken using
//! its waker. The waker's code is the user's, so it is called while no lock is held.
//!
//! A thread that waits for one value is notified by the thread that finishes the producing task. By contrast, no
//! single task corresponds to the event that a number of tasks has finished or that fewer tasks are pending, and a
//! counter updated by all tasks would be the most expensive part of a task. So a waiting thread requests *attention*:
//! hosts that finish tasks see the request and check the counters from time to time, more often when fewer tasks are
//! left. A thread that runs out of work checks the counters too.
//!
//! A task that any unit can run wakes one idle thread; a launch wakes the thread of its unit; a value wakes the thread
//! that reads it; and the end of an epoch wakes the threads that wait for that epoch.
//!
//! Invariants:
//! 1. A thread requests attention before it checks for the last time whether it has to wait. While the thread runs
//!    tasks itself, it performs its own checks and does not request attention.
//! 2. Attention is set exactly while the list contains a thread that has requested attention and has not been
//!    notified.

use super::progress::{Progress, SoFar};
use crate::sync::Parker;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::{OnceCell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::task::Waker;
use std::time::Duration;

/// The condition that a thread waits for, as far as it can be expressed by counters.
#[derive(Debug, Clone)]
pub(crate) enum Awaited {
    /// These tasks have finished.
    Tasks(SoFar),
    /// These tasks have finished, or this time on the driver's clock has passed.
    Until(SoFar, Duration),
    /// At most this number of tasks are pending.
    AtMost(u64),
    /// An event; the thread that causes it notifies the waiting thread.
    Told,
    /// Such an event has occurred, or this time on the driver's clock has passed.
    ToldUntil(Duration),
}

impl Awaited {
    /// Returns the time limit of the wait, if it has one.
    pub(crate) fn until(&self) -> Option<Duration> {
        match self {
            Self::Until(_, until) | Self::ToldUntil(until) => Some(*until),
            Self::Tasks(_) | Self::AtMost(_) | Self::Told => None,
        }
    }

    /// Returns whether the waiting thread is notified of the event directly, rather than by a check of the counters.
    fn is_told(&self) -> bool {
        matches!(self, Self::Told | Self::ToldUntil(_))
    }

    /// Returns the minimum number of tasks that have to finish before the condition can be met.
    pub(crate) fn left(&self, progress: &Progress) -> u64 {
        match self {
            Self::Tasks(tasks) | Self::Until(tasks, _) => progress.left(tasks),
            Self::AtMost(most) => progress.pending().saturating_sub(*most),
            Self::Told | Self::ToldUntil(_) => 0,
        }
    }
}

/// The list of waiting threads.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// 0 while no thread requests attention; otherwise a number that changes with each request.
    attention: AtomicU64,
    list: Mutex<List>,
}

/// The entries by their IDs. There may be many futures, so looking up an entry must never require a linear search.
#[derive(Debug, Default)]
struct List {
    waiting: FxHashMap<u64, Entry>,
    /// IDs of the entries that request attention.
    asking: Vec<u64>,
    /// Number of requests so far.
    asked: u64,
    /// Number of entries so far.
    entered: u64,
}

#[derive(Debug)]
struct Entry {
    waker: Waker,
    awaited: Awaited,
}

impl Waiters {
    /// Adds a thread to the list until the returned value is dropped.
    pub(crate) fn enter(&self, parker: Arc<Parker>, awaited: Awaited) -> Waiting<'_> {
        let to_value = awaited.is_told();
        let (id, alone) = self.list.lock().enter(parker.clone().into(), awaited);
        Waiting { waiters: self, id, parker, alone, to_value }
    }

    /// Adds a future to the list; `waker` wakes it. The caller must remove the entry using the returned ID.
    pub(crate) fn enter_future(&self, waker: Waker, awaited: Awaited) -> u64 {
        let (id, _) = self.list.lock().enter(waker, awaited);
        self.ask_for(id, true);
        id
    }

    /// Sets whether this entry requests attention.
    pub(crate) fn ask_for(&self, id: u64, asks: bool) {
        let mut list = self.list.lock();
        list.asked += 1;
        if list.waiting.get(&id).is_some_and(|own| !own.awaited.is_told()) {
            list.asking.retain(|asking| *asking != id);
            list.asking.extend(asks.then_some(id));
        }
        self.ask(&list);
        drop(list);
        fence(Ordering::SeqCst);
    }

    /// Removes an entry from the list.
    pub(crate) fn leave(&self, id: u64) {
        let mut list = self.list.lock();
        let own = list.waiting.remove(&id);
        list.asking.retain(|asking| *asking != id);
        self.ask(&list);
        drop(list);
        drop(own);
    }

    /// Returns the number of waiting threads.
    pub(crate) fn len(&self) -> usize {
        self.list.lock().waiting.len()
    }

    /// Returns the attention value, which hosts compare with the value they saw last.
    #[inline]
    pub(crate) fn attention(&self) -> u64 {
        self.attention.load(Ordering::Relaxed)
    }

    /// Notifies the threads whose conditions are met. Returns the minimum number of tasks that have to finish before
    /// the next notification.
    #[cold]
    pub(crate) fn look(&self, progress: &Progress) -> u64 {
        let mut list = self.list.lock();
        let (mut least, mut told) = (u64::MAX, SmallVec::<[Waker; 4]>::new());
        let List { waiting, asking, .. } = &mut *list;
        asking.retain(|id| {
            let entry = &waiting[id];
            let left = entry.awaited.left(progress);
            match left {
                0 => told.push(entry.waker.clone()),
                left => least = least.min(left),
            }
            left > 0
        });
        self.ask(&list);
        drop(list);
        told.into_iter().for_each(Waker::wake);
        least
    }

    /// Makes every waiting thread check its condition again.
    pub(crate) fn wake_all(&self) {
        let all: SmallVec<[Waker; 4]> = self.list.lock().waiting.values().map(|entry| entry.waker.clone()).collect();
        all.into_iter().for_each(Waker::wake);
    }

    fn ask(&self, list: &List) {
        self.attention.store(if list.asking.is_empty() { 0 } else { list.asked }, Ordering::SeqCst);
    }
}

impl List {
    /// Adds an entry. Returns its ID, and whether no other thread is waiting.
    fn enter(&mut self, waker: Waker, awaited: Awaited) -> (u64, bool) {
        self.entered += 1;
        let (id, alone) = (self.entered, self.waiting.is_empty());
        self.waiting.insert(id, Entry { waker, awaited });
        (id, alone)
    }
}

/// A thread's entry in the list.
pub(crate) struct Waiting<'a> {
    waiters: &'a Waiters,
    id: u64,
    parker: Arc<Parker>,
    /// Whether no other thread was waiting when this thread began to wait.
    pub(crate) alone: bool,
    to_value: bool,
}

impl Waiting<'_> {
    /// Returns the parker on which the thread sleeps.
    pub(crate) fn parker(&self) -> &Arc<Parker> {
        &self.parker
    }

    /// Returns whether the thread waits for a single value.
    pub(crate) fn to_value(&self) -> bool {
        self.to_value
    }

    /// Sets whether the thread requests attention. Called before the thread sleeps and after it wakes.
    pub(crate) fn ask(&self, asks: bool) {
        self.waiters.ask_for(self.id, asks);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.waiters.leave(self.id);
    }
}

thread_local! {
    /// Waker of the fiber that runs on this thread; `None` if no fiber runs. It has no destructor, so that a thread
    /// can still wait while it exits; [`waking`] leaves nothing here.
    static FIBER: ManuallyDrop<RefCell<Option<Waker>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

/// Runs `code`. Whenever `code` waits, `waker` wakes it.
pub(super) fn waking<R>(waker: &Waker, code: impl FnOnce() -> R) -> R {
    struct Back(Option<Waker>);
    impl Drop for Back {
        fn drop(&mut self) {
            FIBER.with(|fiber| fiber.replace(self.0.take()));
        }
    }
    let _back = Back(FIBER.with(|fiber| fiber.replace(Some(waker.clone()))));
    code()
}

/// Returns the waker of the calling code: the waker of its fiber or, outside of a fiber, of its thread, which sleeps
/// on its own parker.
pub(crate) fn own_waker() -> Waker {
    let of_fiber = FIBER.with(|fiber| fiber.borrow().clone());
    of_fiber.unwrap_or_else(|| own_parker().into())
}

/// Returns the parker on which this thread sleeps, whatever it waits for. Every call returns the same parker.
pub(crate) fn own_parker() -> Arc<Parker> {
    thread_local! {
        static OWN: Arc<Parker> = Arc::new(Parker::new());
        /// Parker of a thread that waits after `OWN` has been destroyed. It has no destructor, so the thread leaks it.
        static LATE: ManuallyDrop<OnceCell<Arc<Parker>>> = const { ManuallyDrop::new(OnceCell::new()) };
    }
    OWN.try_with(Arc::clone).unwrap_or_else(|_| LATE.with(|late| late.get_or_init(Arc::default).clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_has_one_parker_even_while_it_ends() {
        struct Ends(std::sync::mpsc::Sender<bool>);
        impl Drop for Ends {
            fn drop(&mut self) {
                self.0.send(Arc::ptr_eq(&own_parker(), &own_parker())).unwrap();
            }
        }
        thread_local! {
            static ENDS: RefCell<Option<Ends>> = const { RefCell::new(None) };
        }
        let (send, is_one) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(|| {
            ENDS.set(Some(Ends(send))); // destroyed after the parker, because the parker is created next
            drop(own_parker());
        });
        thread.join().unwrap();
        assert!(is_one.recv().unwrap());
    }
}

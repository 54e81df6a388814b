//! The threads and futures that wait, and their notification when the condition is met.
//!
//! A future counts here as a thread that sleeps from the beginning: it registers for notification, and is woken by its
//! waker, whose code is the user's and is called under no lock.
//!
//! A thread that waits for one value is notified by the thread that finishes the task that produces it. The event that
//! a number of tasks has finished, or that fewer are pending, corresponds to no single task, and a counter updated by
//! all tasks would be their most expensive part. So a waiting thread requests *attention*: hosts that finish tasks see
//! the request, and check the counters from time to time, more often when fewer tasks are left. A thread that has
//! nothing more to do checks too.
//!
//! A task that any unit can run wakes one idle thread, a launch the thread of its unit, a value the thread that reads
//! it, and the end of an epoch the threads that wait for it.
//!
//! Invariants:
//! 1. A thread requests attention before its last check whether it has to wait. While it runs tasks itself it performs
//!    its own checks, and requests none.
//! 2. There is attention exactly while the list contains a thread that requests it and has not been notified.

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

/// The condition that a thread waits for, as far as counters can tell.
#[derive(Debug, Clone)]
pub(crate) enum Awaited {
    /// These tasks have finished.
    Tasks(SoFar),
    /// The same, or this moment on the driver's clock has passed.
    Until(SoFar, Duration),
    /// At most this number of tasks is pending.
    AtMost(u64),
    /// An event about which its originator notifies the thread.
    Told,
    /// The same, or this moment on the driver's clock has passed.
    ToldUntil(Duration),
}

impl Awaited {
    /// The time limit of the wait, if it has one.
    pub(crate) fn until(&self) -> Option<Duration> {
        match self {
            Self::Until(_, until) | Self::ToldUntil(until) => Some(*until),
            Self::Tasks(_) | Self::AtMost(_) | Self::Told => None,
        }
    }

    /// Whether the event is notified by its originator rather than found in a counter.
    fn is_told(&self) -> bool {
        matches!(self, Self::Told | Self::ToldUntil(_))
    }

    /// The minimum number of tasks that have to finish first.
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

/// The entries by number. There may be many futures, so an entry is never found by a linear search.
#[derive(Debug, Default)]
struct List {
    waiting: FxHashMap<u64, Entry>,
    /// The entries that request notification.
    asking: Vec<u64>,
    /// The number of requests so far.
    asked: u64,
    /// The number of entries so far.
    entered: u64,
}

#[derive(Debug)]
struct Entry {
    waker: Waker,
    awaited: Awaited,
}

impl Waiters {
    /// Puts a thread on the list until the returned value is dropped.
    pub(crate) fn enter(&self, parker: Arc<Parker>, awaited: Awaited) -> Waiting<'_> {
        let to_value = awaited.is_told();
        let (id, alone) = self.list.lock().enter(parker.clone().into(), awaited);
        Waiting { waiters: self, id, parker, alone, to_value }
    }

    /// Puts a future on the list, to be woken by `waker`, until it leaves with the returned number.
    pub(crate) fn enter_future(&self, waker: Waker, awaited: Awaited) -> u64 {
        let (id, _) = self.list.lock().enter(waker, awaited);
        self.ask_for(id, true);
        id
    }

    /// Sets whether this entry requests notification.
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

    /// Takes an entry off the list.
    pub(crate) fn leave(&self, id: u64) {
        let mut list = self.list.lock();
        let own = list.waiting.remove(&id);
        list.asking.retain(|asking| *asking != id);
        self.ask(&list);
        drop(list);
        drop(own);
    }

    /// The number of waiting threads.
    pub(crate) fn len(&self) -> usize {
        self.list.lock().waiting.len()
    }

    /// The value that hosts compare with the one they saw last.
    #[inline]
    pub(crate) fn attention(&self) -> u64 {
        self.attention.load(Ordering::Relaxed)
    }

    /// Notifies the threads whose condition is met. Returns the minimum number of tasks that have to finish before the
    /// next notification.
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

    /// Makes every waiting thread check again.
    pub(crate) fn wake_all(&self) {
        let all: SmallVec<[Waker; 4]> = self.list.lock().waiting.values().map(|entry| entry.waker.clone()).collect();
        all.into_iter().for_each(Waker::wake);
    }

    fn ask(&self, list: &List) {
        self.attention.store(if list.asking.is_empty() { 0 } else { list.asked }, Ordering::SeqCst);
    }
}

impl List {
    /// Adds an entry. Returns its number, and whether no other thread waits.
    fn enter(&mut self, waker: Waker, awaited: Awaited) -> (u64, bool) {
        self.entered += 1;
        let (id, alone) = (self.entered, self.waiting.is_empty());
        self.waiting.insert(id, Entry { waker, awaited });
        (id, alone)
    }
}

/// A thread on the list.
pub(crate) struct Waiting<'a> {
    waiters: &'a Waiters,
    id: u64,
    parker: Arc<Parker>,
    /// Whether no other thread waited when this one began to.
    pub(crate) alone: bool,
    to_value: bool,
}

impl Waiting<'_> {
    /// The parker on which the thread sleeps.
    pub(crate) fn parker(&self) -> &Arc<Parker> {
        &self.parker
    }

    /// Whether the thread waits for a single value.
    pub(crate) fn to_value(&self) -> bool {
        self.to_value
    }

    /// Sets whether the thread requests notification: called before it sleeps and after it wakes.
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
    /// Wakes the fiber that runs on this thread, if there is one. It has no destructor, so that a thread can wait while
    /// it ends; [`waking`] leaves nothing here.
    static FIBER: ManuallyDrop<RefCell<Option<Waker>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

/// Calls `code`, which `waker` wakes when it waits.
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

/// Returns the waker of the calling code: of its fiber, or of its thread, which sleeps on its own parker.
pub(crate) fn own_waker() -> Waker {
    let of_fiber = FIBER.with(|fiber| fiber.borrow().clone());
    of_fiber.unwrap_or_else(|| own_parker().into())
}

/// The parker on which this thread sleeps, for any kind of wait: the same parker in every call.
pub(crate) fn own_parker() -> Arc<Parker> {
    thread_local! {
        static OWN: Arc<Parker> = Arc::new(Parker::new());
        /// The parker of a thread that waits after `OWN` is destroyed. It has no destructor, so the thread leaks it.
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
            ENDS.set(Some(Ends(send))); // destroyed after the parker, which is made next
            drop(own_parker());
        });
        thread.join().unwrap();
        assert!(is_one.recv().unwrap());
    }
}

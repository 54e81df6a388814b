//! The threads that wait for something, and who tells them that it is there.
//!
//! A thread that waits for one value is told by whoever finishes the task that has it. For a number of tasks to finish, or
//! for fewer to be pending, there is no such moment in the life of one task, and a counter that all tasks count would be the
//! dearest thing about them. So a waiting thread asks for *attention*: hosts that finish tasks see it, and look at the
//! counters from time to time, the more often the less is left. Whoever has nothing more to do looks as well.
//!
//! Invariants:
//! 1. A thread asks for attention before it looks for the last time whether it has to wait. While it runs tasks itself it
//!    looks for itself, and asks for none.
//! 2. There is attention exactly while the list has a thread that asks and that nobody has told.

use super::progress::{Progress, SoFar};
use crate::sync::Parker;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::task::Waker;

/// What a thread waits for, as far as counters can tell.
#[derive(Debug)]
pub(crate) enum Awaited {
    /// These tasks.
    Tasks(SoFar),
    /// That no more than so many are pending.
    AtMost(u64),
    /// Something that is told by whoever brings it about.
    Told,
}

impl Awaited {
    /// How many tasks have to finish first, at least.
    pub(crate) fn left(&self, progress: &Progress) -> u64 {
        match self {
            Self::Tasks(tasks) => progress.left(tasks),
            Self::AtMost(most) => progress.pending().saturating_sub(*most),
            Self::Told => 0,
        }
    }
}

/// The list of waiting threads.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// 0 while nobody asks for attention; else a number that changes with everybody who does.
    attention: AtomicU32,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    waiting: Vec<Entry>,
    /// How often somebody has asked.
    asked: u32,
}

#[derive(Debug)]
struct Entry {
    parker: Arc<Parker>,
    awaited: Awaited,
    asks: bool,
}

impl Waiters {
    /// Puts a thread on the list until what is returned is dropped.
    pub(crate) fn enter(&self, parker: Arc<Parker>, awaited: Awaited) -> Waiting<'_> {
        let mut list = self.list.lock();
        let (alone, to_value) = (list.waiting.is_empty(), matches!(awaited, Awaited::Told));
        list.waiting.push(Entry { parker: parker.clone(), awaited, asks: false });
        Waiting { waiters: self, parker, alone, to_value }
    }

    /// How many threads wait.
    pub(crate) fn len(&self) -> usize {
        self.list.lock().waiting.len()
    }

    /// What hosts compare with what they saw last.
    #[inline]
    pub(crate) fn attention(&self) -> u32 {
        self.attention.load(Ordering::Relaxed)
    }

    /// Tells those whose goal is reached; how many tasks the next one has to wait for, at least.
    #[cold]
    pub(crate) fn look(&self, progress: &Progress) -> u64 {
        let mut list = self.list.lock();
        let mut least = u64::MAX;
        for entry in list.waiting.iter_mut().filter(|entry| entry.asks) {
            match entry.awaited.left(progress) {
                0 => {
                    entry.asks = false;
                    entry.parker.unpark();
                }
                left => least = least.min(left),
            }
        }
        self.ask(&list);
        least
    }

    /// Has everybody look again.
    pub(crate) fn wake_all(&self) {
        self.list.lock().waiting.iter().for_each(|entry| entry.parker.unpark());
    }

    fn ask(&self, list: &List) {
        let asks = list.waiting.iter().any(|entry| entry.asks);
        self.attention.store(if asks { list.asked } else { 0 }, Ordering::SeqCst);
    }
}

/// A thread on the list.
pub(crate) struct Waiting<'a> {
    waiters: &'a Waiters,
    parker: Arc<Parker>,
    /// Whether nobody else waited when it began to.
    pub(crate) alone: bool,
    to_value: bool,
}

impl Waiting<'_> {
    /// Where the thread sleeps.
    pub(crate) fn parker(&self) -> &Arc<Parker> {
        &self.parker
    }

    /// Whether it is one value that the thread waits for.
    pub(crate) fn to_value(&self) -> bool {
        self.to_value
    }

    /// The thread is about to sleep, or awake again: from now on it asks to be told, or does not.
    pub(crate) fn ask(&self, asks: bool) {
        let mut list = self.waiters.list.lock();
        list.asked = list.asked.wrapping_add(1).max(1);
        if let Some(own) = list.waiting.iter_mut().rfind(|entry| Arc::ptr_eq(&entry.parker, &self.parker)) {
            own.asks = asks && !matches!(own.awaited, Awaited::Told);
        }
        self.waiters.ask(&list);
        drop(list);
        fence(Ordering::SeqCst);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut list = self.waiters.list.lock();
        if let Some(own) = list.waiting.iter().rposition(|entry| Arc::ptr_eq(&entry.parker, &self.parker)) {
            list.waiting.swap_remove(own);
        }
        self.waiters.ask(&list);
    }
}

thread_local! {
    /// Wakes the fiber that runs here, if one does.
    static FIBER: RefCell<Option<Waker>> = const { RefCell::new(None) };
}

/// Calls `code`, which is woken by this.
pub(super) fn waking<R>(waker: &Waker, code: impl FnOnce() -> R) -> R {
    struct Back(Option<Waker>);
    impl Drop for Back {
        fn drop(&mut self) {
            FIBER.set(self.0.take());
        }
    }
    let _back = Back(FIBER.replace(Some(waker.clone())));
    code()
}

/// Wakes the code that calls this: its fiber, or its thread, which sleeps at its own parker.
pub(crate) fn own_waker() -> Waker {
    let of_fiber = FIBER.try_with(|fiber| fiber.borrow().clone()).ok().flatten();
    of_fiber.unwrap_or_else(|| own_parker().into())
}

/// Where this thread sleeps, whatever it waits for.
pub(crate) fn own_parker() -> Arc<Parker> {
    thread_local! {
        static OWN: Arc<Parker> = Arc::new(Parker::new());
    }
    // A thread that is ending has none any more.
    OWN.try_with(Arc::clone).unwrap_or_else(|_| Arc::new(Parker::new()))
}

//! The threads that wait for something, the futures that do, and who tells them that it is there.
//!
//! A future counts as a thread here that sleeps from the beginning: it asks to be told, and is woken by its waker, whose
//! code is a stranger's and called under no lock.
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
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::{OnceCell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::task::Waker;
use std::time::Duration;

/// What a thread waits for, as far as counters can tell.
#[derive(Debug, Clone)]
pub(crate) enum Awaited {
    /// These tasks.
    Tasks(SoFar),
    /// These tasks, but no longer than until this moment on the driver's clock.
    Until(SoFar, Duration),
    /// That no more than so many are pending.
    AtMost(u64),
    /// Something that is told by whoever brings it about.
    Told,
    /// The same, but no longer than until this moment on the driver's clock.
    ToldUntil(Duration),
}

impl Awaited {
    /// Until when, at the longest.
    pub(crate) fn until(&self) -> Option<Duration> {
        match self {
            Self::Until(_, until) | Self::ToldUntil(until) => Some(*until),
            Self::Tasks(_) | Self::AtMost(_) | Self::Told => None,
        }
    }

    /// Whether no counter says that it is there.
    fn is_told(&self) -> bool {
        matches!(self, Self::Told | Self::ToldUntil(_))
    }

    /// How many tasks have to finish first, at least.
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
    /// 0 while nobody asks for attention; else a number that changes with everybody who does.
    attention: AtomicU64,
    list: Mutex<List>,
}

/// Futures may be many, so nobody is looked for one by one.
#[derive(Debug, Default)]
struct List {
    waiting: FxHashMap<u64, Entry>,
    /// Those that ask to be told.
    asking: Vec<u64>,
    /// How often somebody has asked.
    asked: u64,
    /// How many have entered.
    entered: u64,
}

#[derive(Debug)]
struct Entry {
    waker: Waker,
    awaited: Awaited,
}

impl Waiters {
    /// Puts a thread on the list until what is returned is dropped.
    pub(crate) fn enter(&self, parker: Arc<Parker>, awaited: Awaited) -> Waiting<'_> {
        let to_value = awaited.is_told();
        let (id, alone) = self.list.lock().enter(parker.clone().into(), awaited);
        Waiting { waiters: self, id, parker, alone, to_value }
    }

    /// Puts a future on the list, to be told by `waker`, until it leaves by the number that is returned.
    pub(crate) fn enter_future(&self, waker: Waker, awaited: Awaited) -> u64 {
        let (id, _) = self.list.lock().enter(waker, awaited);
        self.ask_for(id, true);
        id
    }

    /// From now on this one asks to be told, or does not.
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

    /// Takes somebody off the list.
    pub(crate) fn leave(&self, id: u64) {
        let mut list = self.list.lock();
        let own = list.waiting.remove(&id);
        list.asking.retain(|asking| *asking != id);
        self.ask(&list);
        drop(list);
        drop(own);
    }

    /// How many threads wait.
    pub(crate) fn len(&self) -> usize {
        self.list.lock().waiting.len()
    }

    /// What hosts compare with what they saw last.
    #[inline]
    pub(crate) fn attention(&self) -> u64 {
        self.attention.load(Ordering::Relaxed)
    }

    /// Tells those whose goal is reached; how many tasks the next one has to wait for, at least.
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

    /// Has everybody look again.
    pub(crate) fn wake_all(&self) {
        let all: SmallVec<[Waker; 4]> = self.list.lock().waiting.values().map(|entry| entry.waker.clone()).collect();
        all.into_iter().for_each(Waker::wake);
    }

    fn ask(&self, list: &List) {
        self.attention.store(if list.asking.is_empty() { 0 } else { list.asked }, Ordering::SeqCst);
    }
}

impl List {
    /// One more; its number, and whether nobody else waits.
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
        self.waiters.ask_for(self.id, asks);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.waiters.leave(self.id);
    }
}

thread_local! {
    /// Wakes the fiber that runs here, if one does.
    /// Without a destructor, so that a thread can wait while it ends; [`waking`] leaves nothing here.
    static FIBER: ManuallyDrop<RefCell<Option<Waker>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

/// Calls `code`, which is woken by this.
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

/// Wakes the code that calls this: its fiber, or its thread, which sleeps at its own parker.
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

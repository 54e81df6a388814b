//! The threads that wait for something, and who tells them that it is there.
//!
//! A thread that waits for one value is told by whoever finishes the task that has it. For a number of tasks to finish, or
//! for fewer to be pending, there is no such moment in the life of one task, and a counter that all tasks count would be the
//! dearest thing about them. So a waiting thread asks for *attention*: hosts that finish tasks see it, and look at the
//! counters from time to time, the more often the less is left. Whoever has nothing more to do looks as well.
//!
//! Invariants:
//! 1. A thread is on the list before it looks for the last time whether it has to wait.
//! 2. Attention is asked for exactly while the list has a goal that nobody was told of.

use super::progress::{Progress, SoFar};
use crate::sync::Parker;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What a thread waits for, as far as counters can tell.
#[derive(Debug)]
pub(super) enum Awaited {
    /// These tasks.
    Tasks(SoFar),
    /// That no more than so many are pending.
    AtMost(u64),
    /// Something that whoever brings it about tells.
    Told,
}

impl Awaited {
    /// How many tasks have to finish first, at least.
    pub(super) fn left(&self, progress: &Progress) -> u64 {
        match self {
            Self::Tasks(tasks) => progress.left(tasks),
            Self::AtMost(most) => progress.pending().saturating_sub(*most),
            Self::Told => 0,
        }
    }
}

/// The list of waiting threads.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// 0 while nobody asks for attention; else a number that changes with everybody who does.
    attention: AtomicU32,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    waiting: Vec<(Arc<Parker>, Awaited)>,
    asked: u32,
}

impl Waiters {
    /// Puts a thread on the list until what is returned is dropped.
    pub(super) fn enter(&self, parker: Arc<Parker>, awaited: Awaited) -> Waiting<'_> {
        let mut list = self.list.lock();
        if !matches!(awaited, Awaited::Told) {
            list.asked = list.asked.wrapping_add(1).max(1);
        }
        list.waiting.push((parker.clone(), awaited));
        self.ask(&list);
        Waiting { waiters: self, parker }
    }

    /// What hosts compare with what they saw last.
    #[inline]
    pub(super) fn attention(&self) -> u32 {
        self.attention.load(Ordering::Relaxed)
    }

    /// Tells those whose goal is reached; how many tasks the next one has to wait for, at least.
    #[cold]
    pub(super) fn look(&self, progress: &Progress) -> u64 {
        let mut list = self.list.lock();
        let mut least = u64::MAX;
        for (parker, awaited) in &mut list.waiting {
            if matches!(awaited, Awaited::Told) {
                continue;
            }
            match awaited.left(progress) {
                0 => {
                    *awaited = Awaited::Told;
                    parker.unpark();
                }
                left => least = least.min(left),
            }
        }
        self.ask(&list);
        least
    }

    /// Has everybody look again.
    pub(super) fn wake_all(&self) {
        self.list.lock().waiting.iter().for_each(|(parker, _)| parker.unpark());
    }

    fn ask(&self, list: &List) {
        let asks = list.waiting.iter().any(|(_, awaited)| !matches!(awaited, Awaited::Told));
        self.attention.store(if asks { list.asked } else { 0 }, Ordering::SeqCst);
    }
}

/// A thread on the list.
pub(super) struct Waiting<'a> {
    waiters: &'a Waiters,
    parker: Arc<Parker>,
}

impl Waiting<'_> {
    /// Where the thread sleeps.
    pub(super) fn parker(&self) -> &Arc<Parker> {
        &self.parker
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut list = self.waiters.list.lock();
        if let Some(own) = list.waiting.iter().rposition(|(parker, _)| Arc::ptr_eq(parker, &self.parker)) {
            list.waiting.swap_remove(own);
        }
        self.waiters.ask(&list);
    }
}

/// Where this thread sleeps, whatever it waits for.
pub(super) fn own_parker() -> Arc<Parker> {
    thread_local! {
        static OWN: Arc<Parker> = Arc::new(Parker::new());
    }
    // A thread that is ending has none any more.
    OWN.try_with(Arc::clone).unwrap_or_else(|_| Arc::new(Parker::new()))
}

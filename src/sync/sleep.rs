//! Sleeping and waking of threads, without lost wake-ups and at no cost while no thread sleeps.
//!
//! Every thread has one [`Parker`], on which it sleeps regardless of where and why, so that any particular thread can
//! be woken. A wake-up is a token that ends the current sleep or the next one. A thread checks its condition again when
//! it wakes, so a superfluous token costs only one check, and no token is ever lost.
//!
//! [`Sleep`] is where threads that search for work sleep. A thread that finds no work *announces* that it will sleep,
//! searches once more, and only then parks. A thread that has made work visible checks whether any thread has
//! announced. Each side writes first, then executes a full fence, and then reads what the other side wrote. So at least
//! one of the two sees the other (Dekker's pattern), and work is never left over while all threads sleep.
//!
//! Invariants, under the lock:
//! 1. The list contains exactly the threads that have announced, have not returned yet, and have not been chosen for a
//!    wake-up since.
//! 2. A thread that takes an entry off the list wakes that entry's thread, so two wakers always choose different
//!    threads.

use super::atomic::{AtomicUsize, Condvar, Mutex, Ordering, fence};
use std::fmt;
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

/// The token and the condition variable on which one thread sleeps.
pub(crate) struct Parker {
    token: Mutex<bool>,
    condvar: Condvar,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self { token: Mutex::new(false), condvar: Condvar::new() }
    }

    /// Sleeps until there is a token, which it takes, or until the timeout expires.
    pub(crate) fn park(&self, timeout: Option<Duration>) {
        let mut token = self.token.lock().unwrap_or_else(|e| e.into_inner());
        let mut over = false;
        while !*token && !over {
            match timeout {
                None => token = self.condvar.wait(token).unwrap_or_else(|e| e.into_inner()),
                Some(timeout) => {
                    let (back, result) = self.condvar.wait_timeout(token, timeout).unwrap_or_else(|e| e.into_inner());
                    (token, over) = (back, result.timed_out());
                }
            }
        }
        *token = false;
    }

    /// Gives the thread a token.
    pub(crate) fn unpark(&self) {
        *self.token.lock().unwrap_or_else(|e| e.into_inner()) = true;
        self.condvar.notify_one();
    }
}

impl Default for Parker {
    fn default() -> Self {
        Self::new()
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.unpark();
    }
}

impl fmt::Debug for Parker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Parker")
    }
}

/// The threads that sleep because they have found no work. Each thread has a place, by which it can be woken
/// specifically.
pub(crate) struct Sleep {
    /// The length of the list, written only under the lock. Wakers read it without the lock.
    announced: AtomicUsize,
    list: Mutex<Vec<(usize, Arc<Parker>)>>,
}

impl Sleep {
    pub(crate) fn new() -> Self {
        Self { announced: AtomicUsize::new(0), list: Mutex::new(Vec::new()) }
    }

    /// Announces and then sleeps until woken or until the timeout expires, unless `work_in_sight` returns true after
    /// the announcement. May return early.
    pub(crate) fn sleep_unless(
        &self,
        place: usize,
        parker: &Arc<Parker>,
        timeout: Option<Duration>,
        work_in_sight: impl FnOnce() -> bool,
    ) {
        self.change(|list| list.push((place, parker.clone())));
        fence(Ordering::SeqCst);
        if !work_in_sight() {
            parker.park(timeout);
        }
        self.change(|list| {
            if let Some(own) = list.iter().rposition(|(_, other)| Arc::ptr_eq(other, parker)) {
                list.remove(own);
            }
        });
    }

    /// Whether any thread is asleep, as far as this thread can see. Meant for work that its creator does itself if no
    /// other thread takes it.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.announced.load(Ordering::Relaxed) > 0
    }

    /// Wakes up to `n` threads, choosing those that fell asleep last. Must be called after making work visible that any
    /// of them can do.
    #[inline]
    pub(crate) fn wake(&self, n: usize) {
        fence(Ordering::SeqCst);
        if self.announced.load(Ordering::Relaxed) > 0 {
            self.choose(n);
        }
    }

    /// Wakes the threads at one place. Must be called after making work visible that only these threads can do.
    pub(crate) fn wake_at(&self, place: usize) {
        fence(Ordering::SeqCst);
        if self.announced.load(Ordering::Relaxed) > 0 {
            let mut chosen = Vec::new();
            self.change(|list| chosen.extend(list.extract_if(.., |(at, _)| *at == place)));
            chosen.iter().for_each(|(_, parker)| parker.unpark());
        }
    }

    /// Wakes one thread whose place satisfies `sought`.
    pub(crate) fn wake_one_at(&self, sought: impl Fn(usize) -> bool) {
        let mut chosen = None;
        self.change(|list| {
            let place = list.iter().rposition(|(at, _)| sought(*at));
            chosen = place.map(|place| list.remove(place));
        });
        chosen.into_iter().for_each(|(_, parker)| parker.unpark());
    }

    /// Wakes every thread.
    pub(crate) fn wake_all(&self) {
        self.wake(usize::MAX);
    }

    #[cold]
    fn choose(&self, n: usize) {
        let mut chosen = Vec::new();
        self.change(|list| chosen = list.split_off(list.len().saturating_sub(n)));
        chosen.iter().for_each(|(_, parker)| parker.unpark());
    }

    fn change(&self, change: impl FnOnce(&mut Vec<(usize, Arc<Parker>)>)) {
        let mut list = self.list.lock().unwrap_or_else(|e| e.into_inner());
        change(&mut list);
        self.announced.store(list.len(), Ordering::SeqCst);
    }
}

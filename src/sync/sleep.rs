//! How idle threads sleep and are woken, without losing a wake-up and without a cost while nobody sleeps.
//!
//! A thread that finds no work *announces* that it will sleep, looks once more, and only then waits. A thread that made
//! work visible looks whether anybody announced. Each side does its own write before it reads the other's, with a full
//! fence between: at least one of the two sees the other (Dekker's pattern), so work is never left with all asleep.
//!
//! Invariants, under the lock: threads announced and not yet back = `announced` + `tokens`. Who wakes some turns their
//! announcements into tokens, and whoever comes first takes one: any thread will do. Who wakes all makes a *call*
//! instead, which nobody can take away from another: a thread that announced before it comes back, and takes its
//! announcement back itself.

use super::atomic::{AtomicUsize, Condvar, Mutex, Ordering, fence};

/// Where idle threads sleep.
#[derive(Debug)]
pub(crate) struct Sleep {
    announced: AtomicUsize,
    /// How many calls were made to all; changes under the lock.
    calls: AtomicUsize,
    tokens: Mutex<usize>,
    condvar: Condvar,
}

impl Sleep {
    pub(crate) fn new() -> Self {
        Self {
            announced: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            tokens: Mutex::new(0),
            condvar: Condvar::new(),
        }
    }

    /// Sleeps until woken, unless `work_in_sight` after the announcement.
    pub(crate) fn sleep_unless(&self, work_in_sight: impl FnOnce() -> bool) {
        let calls = self.calls.load(Ordering::Acquire); // before the announcement: later calls are for this thread
        self.announced.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let mut awake = work_in_sight();
        let mut tokens = self.tokens.lock().unwrap_or_else(|e| e.into_inner());
        loop {
            awake |= self.calls.load(Ordering::Relaxed) != calls;
            if awake || *tokens > 0 {
                break;
            }
            tokens = self.condvar.wait(tokens).unwrap_or_else(|e| e.into_inner());
        }
        // Who is awake anyway leaves the tokens to others, unless all announcements have become tokens.
        if awake && self.announced.load(Ordering::SeqCst) > 0 {
            self.announced.fetch_sub(1, Ordering::SeqCst);
        } else {
            *tokens -= 1;
        }
    }

    /// Wakes up to `n` sleeping threads, any; to be called after work that any can do was made visible.
    #[inline]
    pub(crate) fn wake(&self, n: usize) {
        fence(Ordering::SeqCst);
        if self.announced.load(Ordering::Relaxed) > 0 {
            self.wake_announced(n);
        }
    }

    /// Wakes every sleeping thread, so that each looks again for what only it may wait for.
    pub(crate) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        if self.announced.load(Ordering::Relaxed) > 0 {
            let tokens = self.tokens.lock().unwrap_or_else(|e| e.into_inner());
            self.calls.fetch_add(1, Ordering::Release);
            drop(tokens);
            self.condvar.notify_all();
        }
    }

    #[cold]
    fn wake_announced(&self, n: usize) {
        let mut tokens = self.tokens.lock().unwrap_or_else(|e| e.into_inner());
        // Announcements grow without the lock but shrink only under it, so this many are there to be turned.
        let turned = self.announced.load(Ordering::SeqCst).min(n);
        self.announced.fetch_sub(turned, Ordering::SeqCst);
        *tokens += turned;
        drop(tokens);
        for _ in 0..turned {
            self.condvar.notify_one();
        }
    }
}

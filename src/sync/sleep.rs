//! How idle threads sleep and are woken, without losing a wake-up and without a cost while nobody sleeps.
//!
//! A thread that finds no work *announces* that it will sleep, looks once more, and only then waits. A thread that made
//! work visible looks whether anybody announced. Each side does its own write before it reads the other's, with a full
//! fence between: at least one of the two sees the other (Dekker's pattern), so work is never left with all asleep.
//!
//! Invariants, under the lock: threads announced and not yet back = `announced` + `tokens`. A waker turns one
//! announcement into one token; a thread comes back by a token, or by taking its announcement back.

use super::atomic::{AtomicUsize, Condvar, Mutex, Ordering, fence};

/// Where idle threads sleep.
#[derive(Debug)]
pub(crate) struct Sleep {
    announced: AtomicUsize,
    tokens: Mutex<usize>,
    condvar: Condvar,
}

impl Sleep {
    pub(crate) fn new() -> Self {
        Self { announced: AtomicUsize::new(0), tokens: Mutex::new(0), condvar: Condvar::new() }
    }

    /// Sleeps until woken, unless `work_in_sight` after the announcement.
    pub(crate) fn sleep_unless(&self, work_in_sight: impl FnOnce() -> bool) {
        self.announced.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let stay_awake = work_in_sight();
        let mut tokens = self.tokens.lock().unwrap_or_else(|e| e.into_inner());
        if stay_awake {
            // Take the announcement back, or the token that it has become meanwhile.
            if *tokens > 0 {
                *tokens -= 1;
            } else {
                self.announced.fetch_sub(1, Ordering::SeqCst);
            }
            return;
        }
        while *tokens == 0 {
            tokens = self.condvar.wait(tokens).unwrap_or_else(|e| e.into_inner());
        }
        *tokens -= 1;
    }

    /// Wakes up to `n` sleeping threads; to be called after work for them was made visible.
    #[inline]
    pub(crate) fn wake(&self, n: usize) {
        fence(Ordering::SeqCst);
        if self.announced.load(Ordering::Relaxed) > 0 {
            self.wake_announced(n);
        }
    }

    /// Wakes every sleeping thread.
    pub(crate) fn wake_all(&self) {
        self.wake(usize::MAX);
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

//! How idle threads sleep and are woken, without losing a wake-up and without a cost while nobody sleeps.
//!
//! A thread that finds no work *announces* that it will sleep, looks once more, and only then waits. A thread that made
//! work visible looks whether anybody announced. Each side does its own write before it reads the other's, with a full
//! fence between: at least one of the two sees the other (Dekker's pattern), so work is never left with all asleep.
//!
//! Two ways of waking: [`Sleep::wake`] wakes some threads, whichever, for work that any of them can do;
//! [`Sleep::wake_all`] ends an *epoch* and with it the sleep of every thread that announced in it, for work that only a
//! certain one can do. Without epochs a thread that goes to sleep late could take the wake-up meant for another.
//!
//! Invariant, under the lock: of the threads that announced in this epoch and are not yet back, as many stand in
//! `announced` as were not chosen, and as many in `tokens` as were.

use super::atomic::{AtomicUsize, Condvar, Mutex, Ordering, fence};

/// Where idle threads sleep.
#[derive(Debug)]
pub(crate) struct Sleep {
    /// Changed under the lock only; read without it by wakers.
    announced: AtomicUsize,
    /// Threads that announced and are not yet back, chosen by a waker or not.
    away: AtomicUsize,
    state: Mutex<State>,
    condvar: Condvar,
}

#[derive(Debug)]
struct State {
    epoch: u64,
    tokens: usize,
}

impl Sleep {
    pub(crate) fn new() -> Self {
        let state = State { epoch: 0, tokens: 0 };
        Self {
            announced: AtomicUsize::new(0),
            away: AtomicUsize::new(0),
            state: Mutex::new(state),
            condvar: Condvar::new(),
        }
    }

    /// Sleeps until woken, unless `work_in_sight` after the announcement.
    pub(crate) fn sleep_unless(&self, work_in_sight: impl FnOnce() -> bool) {
        let epoch = {
            let state = self.state.lock().unwrap_or_else(|e| e.into_inner());
            self.away.fetch_add(1, Ordering::SeqCst);
            self.announced.fetch_add(1, Ordering::SeqCst);
            state.epoch
        };
        fence(Ordering::SeqCst);
        let stay_awake = work_in_sight();
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        while !stay_awake && state.epoch == epoch && state.tokens == 0 {
            state = self.condvar.wait(state).unwrap_or_else(|e| e.into_inner());
        }
        self.away.fetch_sub(1, Ordering::SeqCst);
        if state.epoch != epoch {
            return; // the announcement ended with its epoch
        }
        // Back by a token, or by taking the announcement back; if it was turned into a token meanwhile, by that.
        if state.tokens > 0 && !(stay_awake && self.announced.load(Ordering::SeqCst) > 0) {
            state.tokens -= 1;
        } else {
            self.announced.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Wakes up to `n` sleeping threads; to be called after work that any of them can do was made visible.
    #[inline]
    pub(crate) fn wake(&self, n: usize) {
        fence(Ordering::SeqCst);
        if self.announced.load(Ordering::Relaxed) > 0 {
            self.turn(n);
        }
    }

    /// Wakes every sleeping thread; to be called after what one of them waits for was made visible.
    #[inline]
    pub(crate) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        // Not `announced`: a thread chosen by `wake` sleeps on if a later sleeper takes its token.
        if self.away.load(Ordering::Relaxed) > 0 {
            self.end_epoch();
        }
    }

    #[cold]
    fn turn(&self, n: usize) {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        let turned = self.announced.load(Ordering::SeqCst).min(n);
        self.announced.fetch_sub(turned, Ordering::SeqCst);
        state.tokens += turned;
        drop(state);
        (0..turned).for_each(|_| self.condvar.notify_one());
    }

    #[cold]
    fn end_epoch(&self) {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        state.epoch += 1;
        state.tokens = 0;
        self.announced.store(0, Ordering::SeqCst);
        drop(state);
        self.condvar.notify_all();
    }
}

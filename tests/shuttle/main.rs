//! Random schedules of `src/sync/` with more threads and tasks than `tests/loom` can enumerate: graphs that are
//! submitted while threads run them, sleep and wake each other, and graphs in rounds that have starters and gatherers.
//! Blocks come from the free lists of `batch.rs`, so those of ended tasks are soon reused.
//!
//! The files are compiled a third time here, with shuttle's primitives. Its scheduler (Burckhardt et al. 2010) gives
//! threads random priorities and changes them at few random moments. If a defect needs `d` ordered moments, each
//! schedule of `n` threads and `k` steps shows it with a probability of at least 1 / (n k^(d - 1)). A thread that is
//! never woken is a deadlock, which shuttle reports.
//!
//! shuttle executes all accesses in one order, so it finds no wrong memory ordering; `tests/loom` does.

#![allow(unsafe_code, dead_code, unreachable_pub)] // the models use only a part of the files under test
#![allow(clippy::undocumented_unsafe_blocks)] // all threads of a schedule are one thread of the system

mod atomic {
    pub(super) use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub(super) use shuttle::sync::{Condvar, Mutex};

    pub(super) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(super) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        pub(super) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        pub(super) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }
}
include!("../common/sync.rs");

mod graphs;
mod pool;
mod queues;
mod replays;

use shuttle::scheduler::PctScheduler;
use shuttle::{Config, Runner};

/// Bytes of a thread's stack.
const STACK_BYTES: usize = 256 << 10;

/// Runs `check` under this many schedules, or as many as the environment variable `THALWEG_CASES` says, with priorities
/// that change `depth - 1` times. The environment variable `SHUTTLE_RANDOM_SEED` selects other schedules.
fn schedules(number: usize, depth: usize, check: impl Fn() + Send + Sync + 'static) {
    let number = std::env::var("THALWEG_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(number);
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.silence_warnings = true;
    let in_pool = move || {
        pool::begin();
        check();
        pool::end();
    };
    Runner::new(PctScheduler::new_from_seed(1, depth, number), config).run(in_pool);
}

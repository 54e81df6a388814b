//! Model checking of `src/sync/` under all interleavings: task blocks with their countdowns, references and poison, the
//! lock-free list of successors, graphs that run in rounds, free blocks that move between threads, tasks that a thread
//! exposes to others, fork-join calls, waiting for readers, the spin lock, starts of threads and forks, detached tasks,
//! and the sleep of idle threads.
//!
//! The files are compiled a second time here, with loom's primitives instead of those of the standard library. loom
//! tries every order of events (up to a few preemptions of one thread by another, which suffices to show such errors)
//! and every value that the memory model lets a load see. A thread that is never woken is a deadlock, which loom
//! reports.

#![allow(unsafe_code, dead_code, unreachable_pub)] // the models use only a part of the files under test
#![allow(clippy::undocumented_unsafe_blocks, clippy::arc_with_non_send_sync)] // loom reports every race on its cells

mod atomic {
    pub(super) use loom::cell::UnsafeCell;
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};

    /// Lets another thread run, as waiting eventually does.
    pub(super) struct Backoff;

    impl Backoff {
        pub(super) fn new() -> Self {
            Self
        }

        pub(super) fn snooze(&self) {
            loom::thread::yield_now();
        }
    }
}
include!("../common/sync.rs");
#[path = "../../src/sync/call_site.rs"]
mod call_site;
#[path = "../../src/sync/detached.rs"]
mod detached;
#[path = "../../src/sync/exposed.rs"]
mod exposed;
/// The models neither fork nor name call sites.
mod forked {
    pub(super) fn share() -> impl Sized {}
}
/// Memory whose allocations loom tracks, so that a block that is never freed, or freed twice, is an error.
mod pool {
    use std::alloc::Layout;
    use std::ptr::NonNull;

    pub(super) const ALIGN: usize = 64;

    pub(super) const fn class_of(_: Layout) -> usize {
        0
    }

    pub(super) fn allocate(layout: Layout, _class: usize) -> NonNull<u8> {
        NonNull::new(unsafe { loom::alloc::alloc(layout) }).expect("models allocate little memory")
    }

    pub(super) unsafe fn free(block: NonNull<u8>, _class: usize, layout: impl FnOnce() -> Layout) {
        unsafe { loom::alloc::dealloc(block.as_ptr(), layout()) };
    }
}
#[path = "../../src/sync/fork.rs"]
mod fork;
#[path = "../../src/sync/readers.rs"]
mod readers;
#[path = "../../src/sync/spin.rs"]
mod spin;
#[path = "../../src/sync/transitions.rs"]
mod transitions;

mod blocks;
mod detachments;
mod forks;
mod lists;
mod locks;
mod onlookers;
mod replayed;
mod sleepers;
mod starts;
mod takers;
mod tasks;

use loom::cell::UnsafeCell;

/// Tries all interleavings of `check` with at most `preemptions` preemptions.
fn model(preemptions: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.check(check);
}

/// A value that one thread writes and others read. Loom reports unordered accesses.
struct Traced(UnsafeCell<u32>);

// SAFETY: loom runs one thread at a time and reports every race, so sharing cannot cause undefined behaviour unnoticed.
unsafe impl Send for Traced {}
// SAFETY: loom runs one thread at a time and reports every race, so sharing cannot cause undefined behaviour unnoticed.
unsafe impl Sync for Traced {}

impl Traced {
    fn new(value: u32) -> Self {
        Self(UnsafeCell::new(value))
    }

    fn write(&self, value: u32) {
        self.0.with_mut(|at| unsafe { *at = value });
    }

    fn read(&self) -> u32 {
        self.0.with(|at| unsafe { *at })
    }
}

//! One task: a block of pooled memory with its header, its edges and its body, and a tail if it is long.
//!
//! Invariants:
//! 1. `blockers` starts at [`BIAS`]. Each finished predecessor counts it down by one; [`Submitting::commit`] subtracts
//!    the bias and adds the number of linked edges. The thread that brings it to zero owns the task; this happens
//!    exactly once.
//! 2. `refs` counts the shared references plus one for the *run reference*, which stays until the task is finished,
//!    plus those that a [`Submitting`] has paid for in advance.
//! 3. `body` points into the same block. The task's owner drops it, when the task ends or is given up. Of everything
//!    freed with the last reference, only the poison has a destructor that the user may have written. Code that keeps a
//!    reference under a lock must ensure that the poison has another owner.
//! 4. `poison` is set at most once, before the successors are closed, and lives as long as the block.
//!
//! Access rules, by thread and by pointer:
//! - All pointers to a block are copies of the one that the pool returned, or are derived from it: so each may access
//!   the whole block, edges and body included, and the last one may free it.
//! - Threads with a reference create `&Task`s at any time. So between the creation and the end of the header only
//!   atomics and the contents of cells are written, and the latter only through `UnsafeCell`s in shared references.
//!   There is no `&mut Task`.
//! - The cells and the body belong to the owner (rule 2 of [`super`]). Other threads read parts of the cell `edges`
//!   while the owner continues, so its contents are never covered by a reference (see [`super::edges`]).
//! - The body follows the header, so no `&Task` covers it. References to it are made from `body` alone, shared or
//!   unique as the owner is borrowed. The tail ([`super::tail`]) follows the body; any thread may read and add notes
//!   there.

use super::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, UnsafeCell};
use super::edges::{EdgeStore, Link};
use super::pool;
use super::ref_count::RefCount;
use super::successors::Successors;
use super::tail::Tail;
use std::alloc::Layout;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// The types that the layer above puts into a task.
pub(crate) trait Kind: Sized + 'static {
    /// Set at submission, then read by anyone with a reference.
    type Shared: Send + Sync;
    /// Used only by the task's owner.
    type Owned: Send;
    /// The body, for the owner alone. The owner also drops it, which may run arbitrary code of the values it captured.
    type Body: ?Sized + Send;
    /// The reason why a task's values must not be used.
    type Cause: Send + Sync;

    /// Whether dropping this does nothing, which is the common case; the end of every task checks this.
    fn is_bare(owned: &Self::Owned) -> bool;
}

/// The kind of an edge of the dependence graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The successor uses a value that the predecessor wrote: a failure is passed on.
    Value,
    /// The successor only has to run later (it overwrites the value, or the predecessor merely read it).
    Order,
}

#[cfg(test)]
thread_local! {
    /// The number of edges this thread has linked.
    pub(crate) static LINKED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// More than the number of edges of one task, which [`EdgeStore::slot`] limits.
pub(super) const BIAS: u32 = 1 << 31;

/// The header of a task's block, which begins at a cache line. The body follows without a gap, in the header's last
/// line.
#[repr(C)]
pub(crate) struct Task<K: Kind> {
    pub(super) successors: Successors<Link<K>>,
    pub(super) blockers: AtomicU32,
    pub(super) refs: RefCount,
    pub(super) poison: AtomicPtr<K::Cause>,
    pub(super) stamp: AtomicU64,
    pub(super) body: NonNull<K::Body>,
    pub(super) linked: UnsafeCell<u32>,
    /// Whether dropping the body does anything.
    pub(super) drops_body: bool,
    /// The logarithm to base two of the block's alignment.
    pub(super) block_align: u8,
    pub(super) block_class: u8,
    pub(super) block_bytes: usize,
    // The fields up to here fill one cache line: everything a predecessor touches, except for the edge.
    pub(super) edges: UnsafeCell<EdgeStore<K>>,
    pub(super) owned: UnsafeCell<ManuallyDrop<K::Owned>>,
    pub(super) shared: K::Shared,
}

// SAFETY: the shared parts are atomics or `Shared: Sync`; only the unique owner touches the cells.
unsafe impl<K: Kind> Sync for Task<K> {}
// SAFETY: everything that moves with it is `Send`: `Owned`, `Body`, and the shared parts.
unsafe impl<K: Kind> Send for Task<K> {}

impl<K: Kind> Task<K> {
    /// Returns the layout of a block with such a body, and the body's offset in it; `None` if it exceeds the address
    /// space.
    pub(super) const fn with_body<P>() -> Option<(Layout, usize)> {
        let Ok((layout, offset)) = Layout::new::<Self>().extend(Layout::new::<P>()) else { return None };
        let Ok(layout) = layout.align_to(pool::ALIGN) else { return None };
        match Tail::<K>::added_to(layout) {
            Some(layout) => Some((layout, offset)),
            None => None,
        }
    }

    /// Returns the address of the body.
    pub(super) fn body_address(&self) -> NonNull<K::Body> {
        self.body
    }

    /// Returns the part that anyone may read.
    #[inline]
    pub(crate) fn shared(&self) -> &K::Shared {
        &self.shared
    }

    /// Whether the task has finished, failed or been skipped.
    #[inline]
    pub(crate) fn is_finished(&self) -> bool {
        self.successors.is_closed()
    }

    /// Returns the number of unfinished tasks that this one waits for, unless it is still being submitted. A task of a
    /// graph that runs in rounds has no such number.
    pub(crate) fn blockers(&self) -> Option<u32> {
        let blockers = self.blockers.load(Ordering::Acquire);
        (blockers < BIAS / 2).then_some(blockers)
    }

    /// Returns the value of the last [`set_stamp`](Self::set_stamp), or 0. It orders nothing: a caller can only
    /// recognize its own stamp.
    #[inline]
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Relaxed)
    }

    /// Leaves a stamp in a task that the caller may meet again.
    #[inline]
    pub(crate) fn set_stamp(&self, stamp: u64) {
        self.stamp.store(stamp, Ordering::Relaxed);
    }

    /// Whether the values that this task writes must not be used.
    #[inline]
    pub(crate) fn is_poisoned(&self) -> bool {
        !self.poison.load(Ordering::Acquire).is_null()
    }

    /// Returns the reason why the values that this task writes must not be used, if there is one.
    #[inline]
    pub(crate) fn poison(&self) -> Option<Arc<K::Cause>> {
        let poison = self.poison.load(Ordering::Acquire);
        (!poison.is_null()).then(|| {
            // SAFETY: set from `Arc::into_raw` and kept until the block is freed (invariant 4).
            unsafe {
                Arc::increment_strong_count(poison);
                Arc::from_raw(poison)
            }
        })
    }

    /// Marks the values that this task writes as unusable; the first cause stays.
    pub(crate) fn set_poison(&self, cause: Arc<K::Cause>) {
        let raw = Arc::into_raw(cause).cast_mut();
        if self.poison.compare_exchange(ptr::null_mut(), raw, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: the pointer was made two lines above and is not stored.
            drop(unsafe { Arc::from_raw(raw) });
        }
    }

    /// Calls `each` with every task that currently waits for this one.
    ///
    /// # Safety
    /// This task does not end meanwhile.
    pub(super) unsafe fn successors(&self, mut each: impl FnMut(TaskRef<K>)) {
        // SAFETY: the caller guarantees that this task does not end, so the list is not walked, and the tasks in it are
        // blocked: they live by their run references, and a reference is added here.
        unsafe {
            self.successors.look(|link| {
                let successor = match self.is_in_rounds() {
                    true => link.open_place().0.as_ref().task(),
                    false => link.open().0,
                };
                successor.as_ref().refs.increase();
                each(TaskRef(successor));
            });
        }
    }

    /// Passes the failure of this task, which has finished, to `heir` if that relies on the value that this task should
    /// have left.
    #[inline]
    pub(crate) fn pass_poison(&self, flow: Flow, heir: &Self) {
        if flow == Flow::Value
            && let Some(cause) = self.poison()
        {
            heir.set_poison(cause);
        }
    }

    /// Drops the body. A panic of a destructor ends here: nothing depends on it.
    ///
    /// # Safety
    /// The caller owns the task, and the body is not used afterwards.
    #[inline]
    pub(super) unsafe fn drop_body(&self) {
        if self.drops_body {
            let body = self.body;
            // SAFETY: the body is valid until its owner drops it. The owner is the caller, and drops it now.
            drop_quietly(|| unsafe { ptr::drop_in_place(body.as_ptr()) });
        }
    }
}

/// Calls `drop`, which drops a value of the user. A panic ends here, and so does a panic from dropping the first one's
/// payload.
pub(crate) fn drop_quietly(drop: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(drop))
        && let Err(again) = catch_unwind(AssertUnwindSafe(|| std::mem::drop(payload)))
    {
        std::mem::forget(again);
    }
}

/// A shared reference to a task, to depend on it and to see whether it has finished or failed.
pub(crate) struct TaskRef<K: Kind>(pub(super) NonNull<Task<K>>);

// SAFETY: like an `Arc` of the `Send + Sync` task.
unsafe impl<K: Kind> Send for TaskRef<K> {}
// SAFETY: a shared reference gives no more than the task does, which is `Sync`.
unsafe impl<K: Kind> Sync for TaskRef<K> {}

impl<K: Kind> Deref for TaskRef<K> {
    type Target = Task<K>;

    #[inline]
    fn deref(&self) -> &Task<K> {
        // SAFETY: the block lives as long as a reference is counted.
        unsafe { self.0.as_ref() }
    }
}

impl<K: Kind> Clone for TaskRef<K> {
    #[inline]
    fn clone(&self) -> Self {
        self.refs.increase();
        Self(self.0)
    }
}

impl<K: Kind> Drop for TaskRef<K> {
    #[inline]
    fn drop(&mut self) {
        if self.refs.decrease() {
            // SAFETY: the last reference is gone, and every use happened before.
            unsafe { destroy(self.0) };
        }
    }
}

impl<K: Kind> fmt::Debug for TaskRef<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskRef({:#x})", self.address())
    }
}

impl<K: Kind> TaskRef<K> {
    /// Returns the block's address, which identifies the task while it lives.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        self.0.addr().get()
    }

    /// Returns the block's tail, if the block is long.
    #[inline]
    pub(super) fn tail(&self) -> Option<NonNull<Tail<K>>> {
        // SAFETY: the block was allocated with such a layout, and this pointer may access all of it.
        unsafe { Tail::of(self.0.cast(), self.block_bytes) }
    }

    /// Creates a reference to a task that the caller has borrowed. A borrowed header does not give access to the whole
    /// block, so the address is combined with a pointer that does.
    pub(super) fn of(task: &Task<K>) -> Self {
        task.refs.increase();
        let block = task.body.as_ptr().cast::<Task<K>>().with_addr(ptr::from_ref(task).addr());
        // SAFETY: the address is that of a reference. The pointer to the body is derived from the pointer to the block.
        Self(unsafe { NonNull::new_unchecked(block) })
    }

    /// Creates a reference to a task.
    ///
    /// # Safety
    /// Another reference keeps the task alive.
    pub(super) unsafe fn to(task: NonNull<Task<K>>) -> Self {
        // SAFETY: the caller guarantees that the task is alive.
        unsafe { task.as_ref() }.refs.increase();
        Self(task)
    }
}

/// Frees the block of a task whose body has been dropped.
///
/// # Safety
/// Nothing refers to the task any more, and its owner has dropped the body.
unsafe fn destroy<K: Kind>(task: NonNull<Task<K>>) {
    // SAFETY: the last reference calls this, once, when the owner has dropped the body; the header is valid until here.
    // The lists of the task's predecessors were walked before it ran, so no thread reads its edges any more. The
    // pointer may access, and free, the whole block.
    unsafe {
        let header = task.as_ptr();
        let (bytes, align, class) = ((*header).block_bytes, (*header).block_align, (*header).block_class);
        let poison = (*header).poison.load(Ordering::Acquire);
        if !poison.is_null() {
            let poison = Arc::from_raw(poison);
            drop_quietly(|| drop(poison));
        }
        (*header).edges.with_mut(|edges| (*edges).clear());
        (*header).owned.with_mut(|owned| {
            if !K::is_bare(&*owned) {
                ManuallyDrop::drop(&mut *owned);
            }
        });
        ptr::drop_in_place(header);
        pool::free(task.cast(), class.into(), || Layout::from_size_align_unchecked(bytes, 1 << align));
    }
}

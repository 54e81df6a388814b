//! One task: a block of pooled memory with a header, edges, a body, and a tail if the block is long.
//!
//! Invariants:
//! 1. `blockers` starts at [`BIAS`]. Each finished predecessor decrements it; [`Submitting::commit`] subtracts the bias
//!    and adds the number of linked edges. The thread that brings the count to zero owns the task; this happens exactly
//!    once.
//! 2. `refs` counts the shared references plus one for the *run reference*, which stays until the task is finished,
//!    plus those that a [`Submitting`] has counted in advance.
//! 3. `body` points into the same block. The task's owner drops the body when the task ends or is given up. Of
//!    everything that is freed with the last reference, only the poison may have a destructor written by the user.
//!    Therefore code that keeps a reference under a lock must ensure that the poison has another owner.
//! 4. `poison` is set at most once, before the successors are closed, and lives as long as the block.
//!
//! Access rules, by thread and by pointer:
//! - All pointers to a block are copies of the pointer that the pool returned, or are derived from it. So each of them
//!   may access the whole block, including edges and body, and the last one may free it.
//! - Threads with a reference may create a `&Task` at any time. So during the header's lifetime, only atomics and the
//!   contents of cells are written, and the latter only through `UnsafeCell`s in shared references. There is never a
//!   `&mut Task`.
//! - The cells and the body belong to the owner (rule 2 of [`super`]). Other threads may read parts of the cell `edges`
//!   while the owner continues, so no reference ever covers the contents of `edges` (see [`super::edges`]).
//! - The body follows the header, so no `&Task` covers it. References to the body are made only from the pointer
//!   `body`: shared or unique, depending on how the owner is borrowed. The tail ([`super::tail`]) follows the body; any
//!   thread may read and add notes there.

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
    /// Set at submission; afterwards any thread with a reference may read it.
    type Shared: Send + Sync;
    /// Used only by the task's owner.
    type Owned: Send;
    /// The body, which only the owner uses. The owner also drops it, which may run arbitrary destructors of captured
    /// values.
    type Body: ?Sized + Send;
    /// The reason why a task's values must not be used.
    type Cause: Send + Sync;

    /// Whether dropping `owned` does nothing, which is the common case. Checked at the end of every task.
    fn is_bare(owned: &Self::Owned) -> bool;
}

/// The kind of an edge of the dependence graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The successor uses a value that the predecessor wrote, so it inherits the predecessor's failure.
    Value,
    /// The successor only has to run later (it overwrites the value, or the predecessor merely read it).
    Order,
}

#[cfg(test)]
thread_local! {
    /// Number of edges that this thread has linked.
    pub(crate) static LINKED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Greater than the number of edges of any task, which [`EdgeStore::slot`] limits.
pub(super) const BIAS: u32 = 1 << 31;

/// The header of a task's block. It starts on a cache line boundary, and the body follows without a gap, starting in
/// the header's last line.
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
    // The fields up to here fill one cache line, which contains everything that a predecessor touches except the edge.
    pub(super) edges: UnsafeCell<EdgeStore<K>>,
    pub(super) owned: UnsafeCell<ManuallyDrop<K::Owned>>,
    pub(super) shared: K::Shared,
}

// SAFETY: the shared parts are atomics or `Shared: Sync`, and only the unique owner touches the cells, so shared
// references to a task cannot race.
unsafe impl<K: Kind> Sync for Task<K> {}
// SAFETY: everything that moves with a task is `Send`: `Owned`, `Body`, and the shared parts.
unsafe impl<K: Kind> Send for Task<K> {}

impl<K: Kind> Task<K> {
    /// Returns the layout of a block whose body is a `P`, and the body's offset in the block; `None` if the layout
    /// exceeds the address space.
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

    /// Returns the number of unfinished tasks that this one waits for. Returns `None` while the task is being
    /// submitted. The result has no meaning for a task of a graph that runs in rounds.
    pub(crate) fn blockers(&self) -> Option<u32> {
        let blockers = self.blockers.load(Ordering::Acquire);
        (blockers < BIAS / 2).then_some(blockers)
    }

    /// Returns the value of the last [`set_stamp`](Self::set_stamp), or 0. This establishes no memory ordering: a
    /// caller can only recognize its own stamp.
    #[inline]
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Relaxed)
    }

    /// Leaves a stamp by which the caller can recognize the task later.
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
            // SAFETY: the pointer comes from `Arc::into_raw` and stays valid until the block is freed (invariant 4).
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
            // SAFETY: the pointer was created two lines above and was not stored anywhere, so the reference can be
            // taken back.
            drop(unsafe { Arc::from_raw(raw) });
        }
    }

    /// Calls `each` with every task that currently waits for this one.
    ///
    /// # Safety
    /// This task does not end during this call.
    pub(super) unsafe fn successors(&self, mut each: impl FnMut(TaskRef<K>)) {
        // SAFETY: the caller guarantees that this task does not end, so its list is not walked, and the tasks in the
        // list stay blocked. Their run references therefore keep them alive while a reference is added here.
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

    /// Poisons `heir` with the failure of this finished task, if `heir` relies on the value that this task should have
    /// produced.
    #[inline]
    pub(crate) fn pass_poison(&self, flow: Flow, heir: &Self) {
        if flow == Flow::Value
            && let Some(cause) = self.poison()
        {
            heir.set_poison(cause);
        }
    }

    /// Drops the body. A destructor's panic is caught here, because nothing depends on it.
    ///
    /// # Safety
    /// The caller owns the task, and the body is not used afterwards.
    #[inline]
    pub(super) unsafe fn drop_body(&self) {
        if self.drops_body {
            let body = self.body;
            // SAFETY: the body is valid until its owner drops it. The caller is the owner and has not dropped it yet,
            // so it can be dropped here.
            drop_quietly(|| unsafe { ptr::drop_in_place(body.as_ptr()) });
        }
    }
}

/// Calls `drop`, which drops a user's value. Catches a panic of `drop`, and also a panic from dropping that panic's
/// payload.
pub(crate) fn drop_quietly(drop: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(drop))
        && let Err(again) = catch_unwind(AssertUnwindSafe(|| std::mem::drop(payload)))
    {
        std::mem::forget(again);
    }
}

/// A shared reference to a task, used to depend on the task and to check whether it has finished or failed.
pub(crate) struct TaskRef<K: Kind>(pub(super) NonNull<Task<K>>);

// SAFETY: a `TaskRef` works like an `Arc`, and the task is `Send + Sync`.
unsafe impl<K: Kind> Send for TaskRef<K> {}
// SAFETY: sharing a `TaskRef` gives only shared access to the task, which is `Sync`.
unsafe impl<K: Kind> Sync for TaskRef<K> {}

impl<K: Kind> Deref for TaskRef<K> {
    type Target = Task<K>;

    #[inline]
    fn deref(&self) -> &Task<K> {
        // SAFETY: the block lives as long as any reference is counted, and this is a counted reference.
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
            // SAFETY: this was the last reference, and every earlier use of the task happened before this point.
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
        // SAFETY: the block was allocated with a layout that may include a tail, and this pointer may access the whole
        // block.
        unsafe { Tail::of(self.0.cast(), self.block_bytes) }
    }

    /// Creates a reference to a task that the caller has borrowed. A borrowed header does not give access to the whole
    /// block, so its address is combined with the provenance of a pointer that does.
    pub(super) fn of(task: &Task<K>) -> Self {
        task.refs.increase();
        let block = task.body.as_ptr().cast::<Task<K>>().with_addr(ptr::from_ref(task).addr());
        // SAFETY: the address comes from a reference, so it is not null. Its provenance comes from the pointer to the
        // body, which was derived from the pointer to the whole block.
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
    // SAFETY: the last reference calls this once, after the owner has dropped the body, so the header is still valid.
    // The lists of the task's predecessors were walked before the task ran, so no thread reads its edges any more. The
    // pointer may access and free the whole block.
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

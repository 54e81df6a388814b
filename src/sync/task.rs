//! One task: a block of pooled memory with its header, its edges and its body side by side, and a tail if it is long.
//!
//! Invariants:
//! 1. `blockers` starts at [`BIAS`]. Each finished predecessor counts one down; [`Submitting::commit`] takes the bias
//!    away and puts the number of linked edges in its place. Who brings it to zero owns the task, exactly once.
//! 2. `refs` counts the shared references plus one for the *run reference*, which stays until the task is finished, plus
//!    those that a [`Submitting`] has paid for in advance.
//! 3. `body` points into the same block. It is dropped by the task's owner, when the task ends or is given up. What is
//!    freed with the last reference has no destructor of a user's but the poison's: who keeps a reference under a lock
//!    sees to it that the poison has another owner.
//! 4. `poison` is set at most once, before the successors are closed, and lives as long as the block.
//!
//! Who may touch what, and through which pointers:
//! - All pointers to a block are copies of the one that the pool gave, or are made from it: so each may reach all of the
//!   block, edges and body included, and the last one may free it.
//! - Threads with a reference make `&Task`s at any time. So nothing in the header is written between its creation and its
//!   end but atomics and the insides of cells, and the latter only through `UnsafeCell`s in shared references. There is no
//!   `&mut Task`.
//! - The cells and the body are the owner's (rule 2 of [`super`]). Of the cells, `edges` has parts that others read while
//!   the owner goes on: its insides are never covered by a reference (see [`super::edges`]).
//! - The body lies behind the header, where no `&Task` reaches; references to it are made from `body` alone, as shared or
//!   as unique ones as the owner is borrowed. Behind it lies the tail ([`super::tail`]), of which anyone may read and take notes.

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

/// What the layer above puts into a task.
pub(crate) trait Kind: Sized + 'static {
    /// Set at submission, then read by anyone with a reference.
    type Shared: Send + Sync;
    /// For the task's owner alone.
    type Owned: Send;
    /// The body, for the owner alone, who also drops it: what it captured may do anything then.
    type Body: ?Sized + Send;
    /// Why a task's values are not to be used.
    type Cause: Send + Sync;

    /// Whether dropping this does nothing, as is the rule: the end of every task asks.
    fn is_bare(owned: &Self::Owned) -> bool;
}

/// What an edge of the dependence graph carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The successor uses what the predecessor wrote: a failure passes on.
    Value,
    /// The successor only has to come later (it overwrites, or the predecessor merely read).
    Order,
}

#[cfg(test)]
thread_local! {
    /// How many edges this thread has linked.
    pub(crate) static LINKED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// More than the edges of one task, whose number [`EdgeStore::slot`] limits.
pub(super) const BIAS: u32 = 1 << 31;

/// The header of a task's block, which begins at a cache line; the body follows without a gap, in the header's last line.
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
    /// The block's alignment, as a power of two.
    pub(super) block_align: u8,
    pub(super) block_class: u8,
    pub(super) block_bytes: usize,
    // Up to here one cache line: all that a predecessor touches but the edge.
    pub(super) edges: UnsafeCell<EdgeStore<K>>,
    pub(super) owned: UnsafeCell<ManuallyDrop<K::Owned>>,
    pub(super) shared: K::Shared,
}

// SAFETY: the shared parts are atomics or `Shared: Sync`; the cells are touched only through the unique owner.
unsafe impl<K: Kind> Sync for Task<K> {}
// SAFETY: what moves with it is `Send`: `Owned`, `Body`, and the shared parts.
unsafe impl<K: Kind> Send for Task<K> {}

impl<K: Kind> Task<K> {
    /// The layout of a block with such a body, and where in it that lies; nothing if it exceeds the address space.
    pub(super) const fn with_body<P>() -> Option<(Layout, usize)> {
        let Ok((layout, offset)) = Layout::new::<Self>().extend(Layout::new::<P>()) else { return None };
        let Ok(layout) = layout.align_to(pool::ALIGN) else { return None };
        match Tail::<K>::added_to(layout) {
            Some(layout) => Some((layout, offset)),
            None => None,
        }
    }

    /// Where the body is.
    pub(super) fn body_address(&self) -> NonNull<K::Body> {
        self.body
    }

    /// What everybody may read.
    #[inline]
    pub(crate) fn shared(&self) -> &K::Shared {
        &self.shared
    }

    /// Whether the task has finished, failed or been skipped.
    #[inline]
    pub(crate) fn is_finished(&self) -> bool {
        self.successors.is_closed()
    }

    /// What the last caller of [`set_stamp`](Self::set_stamp) left; 0 at first. Orders nothing: it is for who finds its own.
    #[inline]
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Relaxed)
    }

    /// Leaves a note for oneself in a task that one may meet again.
    #[inline]
    pub(crate) fn set_stamp(&self, stamp: u64) {
        self.stamp.store(stamp, Ordering::Relaxed);
    }

    /// Whether what this task writes is not to be used.
    #[inline]
    pub(crate) fn is_poisoned(&self) -> bool {
        !self.poison.load(Ordering::Acquire).is_null()
    }

    /// Why what this task writes is not to be used, if so.
    #[inline]
    pub(crate) fn poison(&self) -> Option<Arc<K::Cause>> {
        let poison = self.poison.load(Ordering::Acquire);
        (!poison.is_null()).then(|| {
            // SAFETY: set from `Arc::into_raw` and kept until the block goes (invariant 4).
            unsafe {
                Arc::increment_strong_count(poison);
                Arc::from_raw(poison)
            }
        })
    }

    /// Marks what this task writes as not to be used; the first cause stays.
    pub(crate) fn set_poison(&self, cause: Arc<K::Cause>) {
        let raw = Arc::into_raw(cause).cast_mut();
        if self.poison.compare_exchange(ptr::null_mut(), raw, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: the pointer was made two lines above and is not stored.
            drop(unsafe { Arc::from_raw(raw) });
        }
    }

    /// Calls `each` with every task that waits for this one at the moment.
    ///
    /// # Safety
    /// This task does not end meanwhile.
    pub(super) unsafe fn successors(&self, mut each: impl FnMut(TaskRef<K>)) {
        // SAFETY: the caller's promise: nobody walks the list, and those in it are blocked, so that they live by their run
        // references, to which one is added here.
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

    /// Who relies on the value that this task, which has finished, should have left has its failure too.
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
    /// The caller owns the task, and the body is not used after.
    #[inline]
    pub(super) unsafe fn drop_body(&self) {
        if self.drops_body {
            let body = self.body;
            // SAFETY: the body is valid until its owner drops it, which is the caller, now.
            drop_quietly(|| unsafe { ptr::drop_in_place(body.as_ptr()) });
        }
    }
}

/// Calls `drop`, which drops what is the user's: a panic ends here, and that of dropping what it panics with.
pub(crate) fn drop_quietly(drop: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(drop))
        && let Err(again) = catch_unwind(AssertUnwindSafe(|| std::mem::drop(payload)))
    {
        std::mem::forget(again);
    }
}

/// A shared reference to a task: to depend on it, and to see whether it has finished or failed.
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
            // SAFETY: the last reference is gone, and every use comes before.
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
    /// The block's address, as an identity while the task lives.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        self.0.addr().get()
    }

    /// The block's tail, if it is long.
    #[inline]
    pub(super) fn tail(&self) -> Option<NonNull<Tail<K>>> {
        // SAFETY: the block was allocated with such a layout, and this pointer may reach all of it.
        unsafe { Tail::of(self.0.cast(), self.block_bytes) }
    }

    /// A reference to a task.
    ///
    /// # Safety
    /// It lives, by another reference.
    pub(super) unsafe fn to(task: NonNull<Task<K>>) -> Self {
        // SAFETY: the caller's promise.
        unsafe { task.as_ref() }.refs.increase();
        Self(task)
    }
}

/// Frees a task's block, whose body is gone.
///
/// # Safety
/// Nothing refers to the task any more, and its owner has dropped the body.
unsafe fn destroy<K: Kind>(task: NonNull<Task<K>>) {
    // SAFETY: the last reference calls this, once, when the owner has dropped the body; the header is valid until here.
    // Its predecessors' lists were walked before it ran, so nobody reads its edges any more; the pointer may reach, and
    // free, the whole block.
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

//! One task: a block of pooled memory with its header, its edges and its body side by side.
//!
//! Invariants:
//! 1. `blockers` starts at [`BIAS`]. Each finished predecessor counts one down; [`Submitting::commit`] takes the bias
//!    away and puts the number of linked edges in its place. Who brings it to zero owns the task, exactly once.
//! 2. `refs` counts the shared references plus one for the *run reference*, which stays until the task is finished, plus
//!    those that a [`Submitting`] has paid for in advance.
//! 3. `body` points into the same block, and is dropped with it.
//! 4. `poison` is set at most once, before the successors are closed, and lives as long as the block.

use super::edges::{EdgeStore, Link};
use super::pool;
use super::successors::{Closed, Edge, Successors};
use crate::error::TaskFailure;
use std::cell::UnsafeCell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// What the layer above puts into a task.
pub(crate) trait Kind: Sized + 'static {
    /// Set at submission, then read by anyone with a reference.
    type Shared: Send + Sync;
    /// For the task's owner alone.
    type Owned: Send;
    /// The body, for the owner alone.
    type Body: ?Sized + Send;
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

const BIAS: u32 = 1 << 31;

/// The header of a task's block.
#[repr(C, align(64))]
pub(crate) struct Task<K: Kind> {
    successors: Successors<Link<K>>,
    blockers: AtomicU32,
    refs: AtomicU32,
    poison: AtomicPtr<TaskFailure>,
    stamp: AtomicU64,
    body: NonNull<K::Body>,
    edges: UnsafeCell<EdgeStore<K>>,
    block_bytes: u32,
    linked: UnsafeCell<u32>,
    owned: UnsafeCell<K::Owned>,
    shared: K::Shared,
}

// SAFETY: the shared parts are atomics or `Shared: Sync`; the cells are touched only through the unique owner.
unsafe impl<K: Kind> Sync for Task<K> {}
// SAFETY: as above; `Owned` and `Body` are `Send`.
unsafe impl<K: Kind> Send for Task<K> {}

impl<K: Kind> Task<K> {
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

    /// Why what this task writes is not to be used, if so.
    #[inline]
    pub(crate) fn poison(&self) -> Option<Arc<TaskFailure>> {
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
    pub(crate) fn set_poison(&self, cause: Arc<TaskFailure>) {
        let raw = Arc::into_raw(cause).cast_mut();
        if self.poison.compare_exchange(ptr::null_mut(), raw, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: the pointer was made two lines above and is not stored.
            drop(unsafe { Arc::from_raw(raw) });
        }
    }
}

/// A shared reference to a task: to depend on it, and to see whether it has finished or failed.
pub(crate) struct TaskRef<K: Kind>(NonNull<Task<K>>);

// SAFETY: like an `Arc` of the `Send + Sync` task.
unsafe impl<K: Kind> Send for TaskRef<K> {}
// SAFETY: as above.
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
        self.refs.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl<K: Kind> Drop for TaskRef<K> {
    #[inline]
    fn drop(&mut self) {
        // Who has the only reference needs no locked instruction: nobody is left who could make another.
        if self.refs.load(Ordering::Acquire) == 1 || self.refs.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: the last reference is gone, and the fence orders every use before.
            unsafe { destroy(self.0) };
        }
    }
}

impl<K: Kind> TaskRef<K> {
    /// The block's address, as an identity while the task lives.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        self.0.addr().get()
    }
}

/// Frees a task's block.
///
/// # Safety
/// Nothing refers to the task any more.
unsafe fn destroy<K: Kind>(task: NonNull<Task<K>>) {
    // SAFETY: the caller's promise; body and header are valid until here and dropped once.
    unsafe {
        let header = task.as_ptr();
        let bytes = (*header).block_bytes as usize;
        let poison = (*header).poison.load(Ordering::Acquire);
        if !poison.is_null() {
            drop(Arc::from_raw(poison));
        }
        (*header).edges.get_mut().clear();
        ptr::drop_in_place((*header).body.as_ptr());
        ptr::drop_in_place(header);
        pool::free(task.cast(), bytes);
    }
}

/// A task whose predecessors are being found: not yet counted down by anybody but them.
pub(crate) struct Submitting<K: Kind> {
    task: ManuallyDrop<TaskRef<K>>,
    /// Shared references that are counted but not yet given out.
    prepaid: u32,
}

impl<K: Kind> Submitting<K> {
    /// A new task; `unsize` turns the body's type into the one that all tasks share. The first `shares` calls of
    /// [`Self::share`] cost nothing.
    #[inline]
    pub(crate) fn new<P>(
        shared: K::Shared,
        owned: K::Owned,
        body: P,
        shares: u32,
        unsize: impl FnOnce(*mut P) -> *mut K::Body,
    ) -> Self {
        let offset = size_of::<Task<K>>().next_multiple_of(align_of::<P>());
        assert!(align_of::<P>() <= pool::ALIGN, "a body's captured values may be aligned to 64 bytes at most");
        let bytes = offset + size_of::<P>();
        let block = pool::allocate(bytes);
        let task = block.cast::<Task<K>>();
        // SAFETY: the block is ours, large enough for header and body, and aligned for both.
        unsafe {
            let place = block.add(offset).cast::<P>();
            place.write(body);
            task.write(Task {
                successors: Successors::new(),
                blockers: AtomicU32::new(BIAS),
                refs: AtomicU32::new(1 + shares),
                poison: AtomicPtr::new(ptr::null_mut()),
                stamp: AtomicU64::new(0),
                body: NonNull::new_unchecked(unsize(place.as_ptr())),
                block_bytes: u32::try_from(bytes).expect("a body captures less than 4 GiB"),
                linked: UnsafeCell::new(0),
                edges: UnsafeCell::new(EdgeStore::new()),
                owned: UnsafeCell::new(owned),
                shared,
            });
        }
        Self { task: ManuallyDrop::new(TaskRef(task)), prepaid: shares }
    }

    /// Another reference to the task.
    #[inline]
    pub(crate) fn share(&mut self) -> TaskRef<K> {
        if self.prepaid == 0 {
            return TaskRef::clone(&self.task);
        }
        self.prepaid -= 1;
        TaskRef(self.task.0)
    }

    /// Takes back what was paid for too many shares.
    #[inline]
    fn settle(&mut self) {
        if self.prepaid > 0 {
            self.task.refs.fetch_sub(std::mem::take(&mut self.prepaid), Ordering::Release);
        }
    }

    /// The task's identity, as [`TaskRef::address`].
    #[inline]
    pub(crate) fn address(&self) -> usize {
        self.task.address()
    }

    /// The owner's part.
    pub(crate) fn owned_mut(&mut self) -> &mut K::Owned {
        // SAFETY: a task that is being submitted has no other owner (rule 2).
        unsafe { &mut *self.task.owned.get() }
    }

    /// Makes this task wait for `predecessor`, unless that has finished.
    #[inline(always)] // every edge comes by here; joins, which are rare, would make it a call
    pub(crate) fn wait_for(&mut self, predecessor: &TaskRef<K>, flow: Flow) -> Result<(), Closed> {
        if predecessor.is_finished() {
            return Err(Closed);
        }
        // SAFETY: owners alone touch the count and the edges.
        let (linked, edges) = unsafe { (&mut *self.task.linked.get(), &mut *self.task.edges.get()) };
        let edge = edges.slot(*linked as usize).write(Edge::new(Link::new(self.task.0, flow)));
        // SAFETY: the slot lies in this task's block or a chunk it owns. Both stay until the task has run, which is
        // after the predecessor's list was walked, because that walk counts this task down.
        unsafe { predecessor.successors.push(edge) }?;
        *linked += 1;
        #[cfg(test)]
        LINKED.set(LINKED.get() + 1);
        Ok(())
    }

    /// All predecessors are known: gives the task back if it waits for none of them.
    #[inline]
    pub(crate) fn commit(mut self) -> Option<OwnedTask<K>> {
        self.settle();
        let task = self.task.0;
        std::mem::forget(self);
        // SAFETY: the block is alive by the run reference; owners alone touch the count.
        let (blockers, linked) = unsafe { (&task.as_ref().blockers, *task.as_ref().linked.get()) };
        let take = BIAS - linked;
        // Without edges nobody else can count: no need to contend for the line.
        if linked == 0 {
            blockers.store(0, Ordering::Relaxed);
            return Some(OwnedTask(TaskRef(task)));
        }
        (blockers.fetch_sub(take, Ordering::AcqRel) == take).then(|| OwnedTask(TaskRef(task)))
    }
}

impl<K: Kind> Deref for Submitting<K> {
    type Target = Task<K>;

    fn deref(&self) -> &Task<K> {
        &self.task
    }
}

impl<K: Kind> Drop for Submitting<K> {
    fn drop(&mut self) {
        self.settle();
        // SAFETY: owners alone touch the count.
        if unsafe { *self.task.linked.get() } == 0 {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.task) };
        } // else: predecessors will count it down, so the block must stay (a leak beats a dangling edge)
    }
}

/// A task that is ready, running or finishing: the one owner of its body.
pub(crate) struct OwnedTask<K: Kind>(TaskRef<K>);

impl<K: Kind> Deref for OwnedTask<K> {
    type Target = Task<K>;

    #[inline]
    fn deref(&self) -> &Task<K> {
        &self.0
    }
}

impl<K: Kind> fmt::Debug for OwnedTask<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnedTask({:#x})", self.0.address())
    }
}

impl<K: Kind> OwnedTask<K> {
    /// Another reference to the task.
    #[cfg(test)]
    pub(crate) fn share(&self) -> TaskRef<K> {
        self.0.clone()
    }

    /// The task's identity, as [`TaskRef::address`].
    pub(crate) fn address(&self) -> usize {
        self.0.address()
    }

    /// The body.
    #[inline]
    pub(crate) fn body(&self) -> &K::Body {
        // SAFETY: this is the one owner (rule 2).
        unsafe { self.0.body.as_ref() }
    }

    /// The body, to run it.
    #[inline]
    pub(crate) fn body_mut(&mut self) -> &mut K::Body {
        // SAFETY: this is the one owner (rule 2), borrowed mutably.
        unsafe { &mut *self.0.body.as_ptr() }
    }

    /// The owner's part.
    #[inline]
    pub(crate) fn owned(&self) -> &K::Owned {
        // SAFETY: this is the one owner (rule 2).
        unsafe { &*self.0.owned.get() }
    }

    /// The owner's part, to change it.
    #[inline]
    pub(crate) fn owned_mut(&mut self) -> &mut K::Owned {
        // SAFETY: this is the one owner (rule 2), borrowed mutably.
        unsafe { &mut *self.0.owned.get() }
    }

    /// Lets go of those who wait: hands every successor that now waits for nobody to `ready`, the last submitted first.
    /// From here on nobody waits for this task. To be called once; [`finish`](Self::finish) does so by itself.
    ///
    /// If this task is poisoned, successors that use what it wrote are poisoned with the same cause.
    #[inline]
    pub(crate) fn release(&self, mut ready: impl FnMut(OwnedTask<K>)) {
        let poison = self.poison();
        self.successors.close(|link| {
            let (successor, flow) = link.open();
            // SAFETY: a blocked task lives by its run reference, and our count-down has not happened yet.
            let task = unsafe { successor.as_ref() };
            if flow == Flow::Value
                && let Some(cause) = &poison
            {
                task.set_poison(cause.clone());
            }
            if task.blockers.fetch_sub(1, Ordering::AcqRel) == 1 {
                ready(OwnedTask(TaskRef(successor))); // takes up the run reference
            }
        });
    }

    /// Ends the task, after [`release`](Self::release) unless that was done before.
    #[inline]
    pub(crate) fn finish(self, ready: impl FnMut(OwnedTask<K>)) {
        self.release(ready);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Plain;

    impl Kind for Plain {
        type Shared = u32;
        type Owned = ();
        type Body = dyn Send;
    }

    fn task(n: u32, body: impl Send + 'static) -> Submitting<Plain> {
        Submitting::new(n, (), body, 0, |p| p as *mut (dyn Send + 'static))
    }

    #[test]
    fn a_task_becomes_ready_when_its_last_predecessor_finishes() {
        let before: Vec<_> = (0..40).map(|n| task(n, ()).commit().unwrap()).collect();
        let mut last = task(99, [0u8; 300]);
        for predecessor in &before {
            last.wait_for(&predecessor.share(), Flow::Order).unwrap();
        }
        assert!(last.commit().is_none());
        let mut ready = vec![];
        for (n, predecessor) in before.into_iter().enumerate() {
            assert!(ready.is_empty(), "ready after {n} of 40");
            predecessor.finish(|task| ready.push(task));
        }
        assert_eq!(*ready[0].shared(), 99);
    }

    #[test]
    fn only_values_carry_poison() {
        let first = task(0, ()).commit().unwrap();
        let (mut user, mut overwriter) = (task(1, ()), task(2, ()));
        user.wait_for(&first.share(), Flow::Value).unwrap();
        overwriter.wait_for(&first.share(), Flow::Order).unwrap();
        assert!(user.commit().is_none() && overwriter.commit().is_none());
        first.set_poison(Arc::new(TaskFailure::for_tests("first")));
        let mut ready = vec![];
        first.finish(|task| ready.push(task));
        let poisoned: Vec<_> = ready.iter().map(|t| (*t.shared(), t.poison().is_some())).collect();
        assert_eq!(poisoned, [(2, false), (1, true)]);
    }

    #[test]
    fn the_body_is_dropped_once_when_the_last_reference_goes() {
        let alive = Arc::new(());
        let owner = task(0, alive.clone()).commit().unwrap();
        let reference = owner.share();
        owner.finish(|_| unreachable!());
        assert!(reference.is_finished());
        assert_eq!(Arc::strong_count(&alive), 2);
        drop(reference);
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn a_finished_task_is_not_waited_for() {
        let first = task(0, ()).commit().unwrap();
        let reference = first.share();
        first.finish(|_| ());
        let mut second = task(1, ());
        assert_eq!(second.wait_for(&reference, Flow::Value), Err(Closed));
        assert!(second.commit().is_some());
    }
}

//! A task whose predecessors are being determined. See [`super::task`] for the invariants.

use super::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, UnsafeCell};
use super::edges::{EdgeStore, Link};
use super::owned::OwnedTask;
use super::pool;
use super::ref_count::RefCount;
use super::successors::{Closed, Edge, Successors};
use super::tail::Tail;
use super::task::{BIAS, Flow, Kind, Task, TaskRef};
use std::alloc::Layout;
use std::mem::{ManuallyDrop, needs_drop};
use std::ops::Deref;
use std::ptr::{self, NonNull};

/// A task whose predecessors are being determined. Until the task is committed, only its predecessors count it down.
pub(crate) struct Submitting<K: Kind> {
    task: ManuallyDrop<TaskRef<K>>,
    /// Number of shared references that are already counted but not yet handed out.
    prepaid: u32,
}

impl<K: Kind> Submitting<K> {
    /// Creates a task; `unsize` converts a pointer to the body into the type that all tasks share. The first `shares`
    /// calls of [`Self::share`] are free. Any value of `shares` is correct, so callers may truncate it.
    ///
    /// `shared` is called only after the task's memory has been allocated, so that anything it counts belongs to an
    /// existing task.
    #[inline]
    pub(crate) fn new<P>(
        shared: impl FnOnce() -> K::Shared,
        owned: K::Owned,
        body: P,
        shares: u16,
        unsize: impl FnOnce(*mut P) -> *mut K::Body,
    ) -> Self {
        let (layout, offset, class) = const {
            match Task::<K>::with_body::<P>() {
                Some((layout, offset)) => (layout, offset, pool::class_of(layout)),
                None => panic!("a task's captured values exceed the address space"),
            }
        };
        let block = pool::allocate(layout, class);
        let shared = shared();
        // SAFETY: the block was just allocated, so nothing else uses it, and it is large enough and aligned for header
        // and body.
        unsafe {
            let place = block.add(offset).cast::<P>();
            place.write(body);
            let body = NonNull::new_unchecked(unsize(place.as_ptr()));
            Self::begin(block, (layout, class), (body, needs_drop::<P>()), shared, owned, shares)
        }
    }

    /// Writes the header of a task whose body is already in place; `drops_body` tells whether the body has to be
    /// dropped. Separate from [`Self::new`] because that function is compiled for each type of body.
    ///
    /// # Safety
    /// The block belongs to the caller exclusively, with this layout and of this class, and has room for a header in
    /// front of the body.
    #[inline]
    unsafe fn begin(
        block: NonNull<u8>,
        (layout, class): (Layout, usize),
        (body, drops_body): (NonNull<K::Body>, bool),
        shared: K::Shared,
        owned: K::Owned,
        shares: u16,
    ) -> Self {
        let task = block.cast::<Task<K>>();
        // SAFETY: the caller guarantees room for a header, and that the block is exclusively theirs.
        unsafe {
            task.write(Task {
                successors: Successors::new(),
                blockers: AtomicU32::new(BIAS),
                refs: RefCount::new(1 + u32::from(shares)),
                poison: AtomicPtr::new(ptr::null_mut()),
                stamp: AtomicU64::new(0),
                body,
                block_bytes: layout.size(),
                block_align: layout.align().trailing_zeros() as u8,
                block_class: class as u8,
                drops_body,
                linked: UnsafeCell::new(0),
                edges: UnsafeCell::new(EdgeStore::new()),
                owned: UnsafeCell::new(ManuallyDrop::new(owned)),
                shared,
            });
        }
        let task = TaskRef(task);
        if let Some(tail) = task.tail() {
            // SAFETY: the block is exclusively ours.
            unsafe { Tail::begin(tail) };
        }
        Self { task: ManuallyDrop::new(task), prepaid: shares.into() }
    }

    /// Returns another reference to the task.
    #[inline]
    pub(crate) fn share(&mut self) -> TaskRef<K> {
        if self.prepaid == 0 {
            return TaskRef::clone(&self.task);
        }
        self.prepaid -= 1;
        TaskRef(self.task.0)
    }

    /// Returns the number of linked edges.
    #[inline]
    fn linked(&self) -> u32 {
        // SAFETY: only the owner touches the count (rule 2).
        self.task.linked.with(|linked| unsafe { *linked })
    }

    /// Gives back the references that were counted in advance but not handed out.
    #[inline]
    fn settle(&mut self) {
        if self.prepaid > 0 {
            self.task.refs.give_back(std::mem::take(&mut self.prepaid));
        }
    }

    /// Returns the address that identifies the task, like [`TaskRef::address`].
    #[inline]
    pub(crate) fn address(&self) -> usize {
        self.task.address()
    }

    /// Returns the address of the task's block.
    pub(super) fn address_of(&self) -> NonNull<Task<K>> {
        self.task.0
    }

    /// Returns the owner's part.
    #[inline]
    pub(crate) fn owned(&self) -> &K::Owned {
        // SAFETY: a task that is being submitted has no other owner (rule 2).
        self.task.owned.with(|owned| unsafe { &**owned })
    }

    /// Returns a mutable reference to the owner's part.
    pub(crate) fn owned_mut(&mut self) -> &mut K::Owned {
        // SAFETY: a task that is being submitted has no other owner (rule 2).
        self.task.owned.with_mut(|owned| unsafe { &mut **owned })
    }

    /// Returns the body; see [`OwnedTask::body`].
    pub(crate) fn body(&self) -> &K::Body {
        // SAFETY: a task that is being submitted has no other owner (rule 2), and no unique reference to the body is
        // created in the meantime.
        unsafe { self.task.body.as_ref() }
    }

    /// Makes this task wait for `predecessor`.
    ///
    /// # Errors
    /// Returns an error if `predecessor` has finished, in which case there is nothing to wait for.
    #[inline(always)] // on the path of every edge; the rare second use, for joins, would otherwise make it a call
    pub(crate) fn wait_for(&mut self, predecessor: &TaskRef<K>, flow: Flow) -> Result<(), Closed> {
        if predecessor.is_finished() {
            return Err(Closed);
        }
        // SAFETY: only the owner touches the count and hands out slots (rule 2). The slot is in this task's block or in
        // a chunk that the task owns, and both stay valid until the task has run. That happens after the predecessor's
        // list has been walked, because that walk counts this task down. Edges that were linked earlier are neither
        // touched nor covered by a reference. The predecessor's tail was initialized with the predecessor, and stays
        // valid as long as the reference to the predecessor.
        unsafe {
            let linked = self.linked();
            let edge = self.task.edges.with_mut(|edges| EdgeStore::slot(edges, linked as usize, || self.task.tail()));
            edge.write(Edge::new(Link::new(self.task.0, flow)));
            predecessor.successors.push(edge)?;
            self.task.linked.with_mut(|count| *count = linked + 1);
            if let Some(tail) = predecessor.tail() {
                Tail::note(tail, predecessor.0.cast(), edge.cast(), self.task.0.as_ptr().cast());
            }
        }
        #[cfg(test)]
        super::task::LINKED.set(super::task::LINKED.get() + 1);
        Ok(())
    }

    /// Commits the task, all of whose predecessors must be known. Returns the task's owner if there is no predecessor
    /// left to wait for.
    #[inline]
    pub(crate) fn commit(mut self) -> Option<OwnedTask<K>> {
        self.settle();
        let (task, linked) = (self.task.0, self.linked());
        std::mem::forget(self);
        // SAFETY: the run reference keeps the block alive until the bias is subtracted below.
        let blockers = unsafe { &task.as_ref().blockers };
        let take = BIAS - linked;
        // Without edges, no other thread can count this task down, so no atomic read-modify-write is needed.
        if linked == 0 {
            blockers.store(0, Ordering::Relaxed);
            return Some(OwnedTask::of(task));
        }
        (blockers.fetch_sub(take, Ordering::AcqRel) == take).then(|| OwnedTask::of(task))
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
        if self.linked() == 0 {
            // SAFETY: this is the only owner (rule 2), and it is being dropped, so both the body and the reference are
            // dropped exactly once, here.
            unsafe {
                self.task.drop_body();
                ManuallyDrop::drop(&mut self.task);
            }
        } // otherwise predecessors will count it down: leaking the block is better than a dangling edge
    }
}

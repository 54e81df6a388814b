//! A task whose predecessors are being found: see [`super::task`] for the invariants.

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

/// A task whose predecessors are being found: not yet counted down by anybody but them.
pub(crate) struct Submitting<K: Kind> {
    task: ManuallyDrop<TaskRef<K>>,
    /// Shared references that are counted but not yet given out.
    prepaid: u32,
}

impl<K: Kind> Submitting<K> {
    /// A new task; `unsize` turns the body's type into the one that all tasks share. The first `shares` calls of
    /// [`Self::share`] cost nothing. Any number is right, so callers may truncate theirs.
    ///
    /// `shared` is called when there is memory for the task: what it counts is a task then.
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
        // SAFETY: the block is ours, large enough for header and body, and aligned for both.
        unsafe {
            let place = block.add(offset).cast::<P>();
            place.write(body);
            let body = NonNull::new_unchecked(unsize(place.as_ptr()));
            Self::begin(block, (layout, class), (body, needs_drop::<P>()), shared, owned, shares)
        }
    }

    /// Begins a task whose body is in its place, and says whether that has to be dropped. Not a part of [`Self::new`], which is
    /// compiled for each type of body.
    ///
    /// # Safety
    /// The block is the caller's, with this layout and of this class, which has room for a header in front of the body.
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
        // SAFETY: the caller's promise.
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
            // SAFETY: the block is ours.
            unsafe { Tail::begin(tail) };
        }
        Self { task: ManuallyDrop::new(task), prepaid: shares.into() }
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

    /// How many edges are linked.
    #[inline]
    fn linked(&self) -> u32 {
        // SAFETY: owners alone touch the count (rule 2).
        self.task.linked.with(|linked| unsafe { *linked })
    }

    /// Takes back what was paid for too many shares.
    #[inline]
    fn settle(&mut self) {
        if self.prepaid > 0 {
            self.task.refs.give_back(std::mem::take(&mut self.prepaid));
        }
    }

    /// The task's identity, as [`TaskRef::address`].
    #[inline]
    pub(crate) fn address(&self) -> usize {
        self.task.address()
    }

    /// Where the task's block is.
    pub(super) fn address_of(&self) -> NonNull<Task<K>> {
        self.task.0
    }

    /// The owner's part, to look at.
    #[inline]
    pub(crate) fn owned(&self) -> &K::Owned {
        // SAFETY: a task that is being submitted has no other owner (rule 2).
        self.task.owned.with(|owned| unsafe { &**owned })
    }

    /// The owner's part.
    pub(crate) fn owned_mut(&mut self) -> &mut K::Owned {
        // SAFETY: a task that is being submitted has no other owner (rule 2).
        self.task.owned.with_mut(|owned| unsafe { &mut **owned })
    }

    /// The body; see [`OwnedTask::body`].
    pub(crate) fn body(&self) -> &K::Body {
        // SAFETY: a task that is being submitted has no other owner (rule 2); nobody makes a unique reference
        // meanwhile.
        unsafe { self.task.body.as_ref() }
    }

    /// Makes this task wait for `predecessor`, unless that has finished.
    #[inline(always)] // every edge comes by here; joins, which are rare, would make it a call
    pub(crate) fn wait_for(&mut self, predecessor: &TaskRef<K>, flow: Flow) -> Result<(), Closed> {
        if predecessor.is_finished() {
            return Err(Closed);
        }
        // SAFETY: owners alone touch the count and hand out slots (rule 2). The slot lies in this task's block or a
        // chunk it owns. Both stay until the task has run, which is after the predecessor's list was walked, because
        // that walk counts this task down. Edges linked before are not touched, nor covered by a reference. The predecessor's
        // tail was begun with it, and stays as long as the reference to it.
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

    /// All predecessors are known: gives the task back if it waits for none of them.
    #[inline]
    pub(crate) fn commit(mut self) -> Option<OwnedTask<K>> {
        self.settle();
        let (task, linked) = (self.task.0, self.linked());
        std::mem::forget(self);
        // SAFETY: the block is alive by the run reference until the bias is taken away below.
        let blockers = unsafe { &task.as_ref().blockers };
        let take = BIAS - linked;
        // Without edges nobody else can count: no need to contend for the line.
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
            // SAFETY: this is the one owner (rule 2), and it goes; each is dropped once, here.
            unsafe {
                self.task.drop_body();
                ManuallyDrop::drop(&mut self.task);
            }
        } // else: predecessors will count it down, so the block must stay (a leak beats a dangling edge)
    }
}

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
use super::successors::{Closed, Edge, Successors};
use super::tail::Tail;
use std::alloc::Layout;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, needs_drop};
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
    stamp: AtomicU64,
    body: NonNull<K::Body>,
    pub(super) linked: UnsafeCell<u32>,
    /// Whether dropping the body does anything.
    drops_body: bool,
    /// The block's alignment, as a power of two.
    block_align: u8,
    block_class: u8,
    pub(super) block_bytes: usize,
    // Up to here one cache line: all that a predecessor touches but the edge.
    pub(super) edges: UnsafeCell<EdgeStore<K>>,
    pub(super) owned: UnsafeCell<ManuallyDrop<K::Owned>>,
    shared: K::Shared,
}

// SAFETY: the shared parts are atomics or `Shared: Sync`; the cells are touched only through the unique owner.
unsafe impl<K: Kind> Sync for Task<K> {}
// SAFETY: what moves with it is `Send`: `Owned`, `Body`, and the shared parts.
unsafe impl<K: Kind> Send for Task<K> {}

impl<K: Kind> Task<K> {
    /// The layout of a block with such a body, and where in it that lies; nothing if it exceeds the address space.
    const fn with_body<P>() -> Option<(Layout, usize)> {
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
    unsafe fn drop_body(&self) {
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
        LINKED.set(LINKED.get() + 1);
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

/// A task that is ready, running or finishing: the one owner of its body. It can be handed to another thread, but two
/// threads cannot use it at once, as bodies are only `Send`.
pub(crate) struct OwnedTask<K: Kind>(ManuallyDrop<TaskRef<K>>, PhantomData<Cell<()>>);

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

impl<K: Kind> Drop for OwnedTask<K> {
    /// Drops the body with its owner: not under a lock.
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this is the one owner (rule 2), and it goes; each is dropped once, here.
        unsafe {
            self.0.drop_body();
            ManuallyDrop::drop(&mut self.0);
        }
    }
}

impl<K: Kind> OwnedTask<K> {
    /// Where the task's block is.
    pub(super) fn address_of(&self) -> NonNull<Task<K>> {
        self.0.0
    }

    /// The block's tail, if it is long.
    #[inline]
    pub(super) fn tail(&self) -> Option<NonNull<Tail<K>>> {
        self.0.tail()
    }

    /// Takes up the ownership, and with it the run reference.
    #[inline]
    pub(super) fn of(task: NonNull<Task<K>>) -> Self {
        Self(ManuallyDrop::new(TaskRef(task)), PhantomData)
    }

    /// Whether several tasks wait for this one so far.
    pub(crate) fn forks(&self) -> bool {
        // SAFETY: the list is closed by the one owner, who is asking.
        unsafe { self.successors.has_several() }
    }

    /// Another reference to the task.
    pub(crate) fn share(&self) -> TaskRef<K> {
        TaskRef::clone(&self.0)
    }

    /// The body. What changes in it when it is run is in cells; being the owner's alone keeps two threads from it.
    #[inline]
    pub(crate) fn body(&self) -> &K::Body {
        // SAFETY: this is the one owner (rule 2), and it is not `Sync`; nobody makes a unique reference meanwhile.
        unsafe { self.0.body.as_ref() }
    }

    /// Whether dropping the body runs anybody's code.
    #[inline]
    pub(crate) fn drops_body(&self) -> bool {
        self.0.drops_body
    }

    /// The owner's part.
    #[inline]
    pub(crate) fn owned(&self) -> &K::Owned {
        // SAFETY: this is the one owner (rule 2).
        self.0.owned.with(|owned| unsafe { &**owned })
    }

    /// The owner's part, to change it.
    #[inline]
    pub(crate) fn owned_mut(&mut self) -> &mut K::Owned {
        // SAFETY: this is the one owner (rule 2), borrowed mutably.
        self.0.owned.with_mut(|owned| unsafe { &mut **owned })
    }

    /// Lets go of those who wait: hands every successor that now waits for nobody to `ready`, the last submitted first.
    /// From here on nobody waits for this task. To be called once; [`finish`](Self::finish) does so by itself.
    ///
    /// If this task is poisoned, successors that use what it wrote are poisoned with the same cause.
    #[inline(always)] // on the way of every task
    pub(crate) fn release(&self, mut ready: impl FnMut(OwnedTask<K>)) {
        let poison = self.poison();
        self.successors.close(|link| {
            let (successor, flow) = link.open();
            // SAFETY: a blocked task lives by its run reference, and our count-down has not happened yet.
            let task = unsafe { successor.as_ref() }; // not used after the count-down
            if flow == Flow::Value
                && let Some(cause) = &poison
            {
                task.set_poison(cause.clone());
            }
            if task.blockers.fetch_sub(1, Ordering::AcqRel) == 1 {
                ready(OwnedTask::of(successor));
            }
        });
    }

    /// As [`finish`](Self::finish), where others may stand in the task's place: whoever waited for it goes on to wait for
    /// what `next` says, with what it is waited for, until that is nobody. `next` gets the successor and its body, of which it
    /// reads what does not change.
    pub(crate) fn finish_into(
        self,
        mut next: impl FnMut(&Task<K>, &K::Body) -> Option<(TaskRef<K>, Flow)>,
        mut ready: impl FnMut(OwnedTask<K>),
    ) {
        let this = ManuallyDrop::new(self);
        // SAFETY: as in `finish`.
        unsafe { this.0.drop_body() };
        let poison = this.poison();
        this.successors.close_with(|edge, link| {
            let (successor, flow) = link.open();
            // SAFETY: a blocked task lives by its run reference, and our count-down has not happened yet. Nobody owns it but
            // who submits it, who makes no unique reference to its body either.
            let (task, body) = unsafe { (successor.as_ref(), successor.as_ref().body.as_ref()) };
            if flow == Flow::Value
                && let Some(cause) = &poison
            {
                task.set_poison(cause.clone());
            }
            while let Some((in_its_place, flow)) = next(task, body) {
                // SAFETY: the edge is in no list, and stays where it is until the next list that it is in was walked: that
                // counts the successor down in place of this one.
                let pushed = unsafe {
                    edge.write(Edge::new(Link::new(successor, flow)));
                    in_its_place.successors.push(edge)
                };
                if pushed.is_ok() {
                    return;
                }
                in_its_place.pass_poison(flow, task);
            }
            if task.blockers.fetch_sub(1, Ordering::AcqRel) == 1 {
                ready(OwnedTask::of(successor));
            }
        });
        drop(TaskRef(this.0.0));
    }

    /// Ends the task: drops its body, then does what [`release`](Self::release) does unless that was done before.
    ///
    /// Who sees a task finished that was not released before sees what its body captured gone.
    #[inline(always)] // on the way of every task
    pub(crate) fn finish(self, ready: impl FnMut(OwnedTask<K>)) {
        let this = ManuallyDrop::new(self);
        // SAFETY: this is the one owner (rule 2), which does not come to drop the body itself.
        unsafe { this.0.drop_body() };
        this.release(ready);
        drop(TaskRef(this.0.0));
    }
}

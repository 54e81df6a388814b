//! One task: a block of pooled memory with its header, its edges and its body side by side.
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

use super::edges::{EdgeStore, Link};
use super::pool;
use super::successors::{Closed, Edge, Successors};
use crate::error::TaskFailure;
use std::alloc::Layout;
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, needs_drop};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// What the layer above puts into a task.
pub(crate) trait Kind: Sized + 'static {
    /// Set at submission, then read by anyone with a reference.
    type Shared: Send + Sync;
    /// For the task's owner alone.
    type Owned: Send;
    /// The body, for the owner alone, who also drops it: what it captured may do anything then.
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
    block_bytes: usize,
    /// The block's alignment, as a power of two.
    block_align: u8,
    /// Whether dropping the body does anything.
    drops_body: bool,
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

/// Frees a task's block, whose body is gone.
///
/// # Safety
/// Nothing refers to the task any more, and its owner has dropped the body.
unsafe fn destroy<K: Kind>(task: NonNull<Task<K>>) {
    // SAFETY: the caller's promise; the header is valid until here and dropped once.
    unsafe {
        let header = task.as_ptr();
        let layout = Layout::from_size_align_unchecked((*header).block_bytes, 1 << (*header).block_align);
        let poison = (*header).poison.load(Ordering::Acquire);
        if !poison.is_null() {
            let poison = Arc::from_raw(poison);
            drop_quietly(|| drop(poison));
        }
        (*header).edges.get_mut().clear();
        ptr::drop_in_place(header);
        pool::free(task.cast(), layout);
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
    ///
    /// `shared` is called when there is memory for the task: what it counts is a task then.
    #[inline]
    pub(crate) fn new<P>(
        shared: impl FnOnce() -> K::Shared,
        owned: K::Owned,
        body: P,
        shares: u32,
        unsize: impl FnOnce(*mut P) -> *mut K::Body,
    ) -> Self {
        let (layout, offset) = const {
            match Layout::new::<Task<K>>().extend(Layout::new::<P>()) {
                Ok(both) => both,
                Err(_) => panic!("a task's captured values exceed the address space"),
            }
        };
        let block = pool::allocate(layout);
        let task = block.cast::<Task<K>>();
        let shared = shared();
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
                block_bytes: layout.size(),
                block_align: layout.align().trailing_zeros() as u8,
                drops_body: needs_drop::<P>(),
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
    #[inline]
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
        // SAFETY: owners alone touch the count.
        if unsafe { *self.task.linked.get() } == 0 {
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
    /// Takes up the ownership, and with it the run reference.
    #[inline]
    fn of(task: NonNull<Task<K>>) -> Self {
        Self(ManuallyDrop::new(TaskRef(task)), PhantomData)
    }

    /// Another reference to the task.
    #[cfg(test)]
    pub(crate) fn share(&self) -> TaskRef<K> {
        TaskRef::clone(&self.0)
    }

    /// The body. What changes in it when it is run is in cells; being the owner's alone keeps two threads from it.
    #[inline]
    pub(crate) fn body(&self) -> &K::Body {
        // SAFETY: this is the one owner (rule 2), and it is not `Sync`.
        unsafe { self.0.body.as_ref() }
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
                ready(OwnedTask::of(successor));
            }
        });
    }

    /// Ends the task: drops its body, then does what [`release`](Self::release) does unless that was done before.
    ///
    /// Who sees a task finished that was not released before sees what its body captured gone.
    #[inline]
    pub(crate) fn finish(self, ready: impl FnMut(OwnedTask<K>)) {
        let this = ManuallyDrop::new(self);
        // SAFETY: this is the one owner (rule 2), which does not come to drop the body itself.
        unsafe { this.0.drop_body() };
        this.release(ready);
        drop(TaskRef(this.0.0));
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
        Submitting::new(|| n, (), body, 0, |p| p as *mut (dyn Send + 'static))
    }

    /// What a body captured with a large alignment, or without any size, lies where it should, and comes back whole.
    #[test]
    fn bodies_lie_aligned() {
        #[repr(align(128))]
        struct Apart(#[allow(dead_code)] [u8; 5], #[allow(dead_code)] Arc<()>);
        #[repr(align(4096))]
        struct Page(#[allow(dead_code)] Arc<()>);
        #[repr(align(65536))]
        struct Nothing;
        fn address<P: Send + 'static>(body: P) -> usize {
            let owner = task(7, body).commit().unwrap();
            let body: *mut (dyn Send + 'static) = std::ptr::from_ref(owner.body()).cast_mut();
            assert_eq!(*owner.shared(), 7);
            body.cast::<u8>().addr()
        }
        let alive = Arc::new(());
        for _ in 0..200 {
            assert_eq!(address(Apart([1; 5], alive.clone())) % 128, 0);
            assert_eq!(address(Page(alive.clone())) % 4096, 0);
            assert_eq!(address(Nothing) % 65536, 0);
        }
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    /// Header and body together are longer than any class of the pool.
    #[test]
    fn bodies_may_be_huge() {
        const HUGE: usize = 32 << 20;
        let thread = std::thread::Builder::new().stack_size(16 * HUGE).spawn(|| {
            let owner = task(7, [3u8; HUGE]).commit().unwrap();
            let body: *mut (dyn Send + 'static) = std::ptr::from_ref(owner.body()).cast_mut();
            // SAFETY: the body is of this type, and `owner` keeps it.
            let body = unsafe { &*body.cast::<[u8; HUGE]>() };
            assert!(body.iter().all(|byte| *byte == 3));
        });
        thread.unwrap().join().unwrap();
    }

    #[test]
    fn a_panic_before_a_task_exists_drops_what_it_captured() {
        let alive = Arc::new(());
        let captured = alive.clone();
        let new = || Submitting::<Plain>::new(|| panic!("no"), (), captured, 0, |p| p as *mut (dyn Send + 'static));
        assert!(catch_unwind(AssertUnwindSafe(new)).is_err());
        assert_eq!(Arc::strong_count(&alive), 1);
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

    /// Counts its drops; one after the end of its task counts a hundred times.
    #[derive(Clone, Default)]
    struct Witness {
        task: Arc<std::sync::Mutex<Option<TaskRef<Plain>>>>,
        drops: Arc<AtomicU32>,
    }

    impl Drop for Witness {
        fn drop(&mut self) {
            let task = self.task.lock().unwrap().take();
            self.drops.fetch_add(if task.is_some_and(|task| task.is_finished()) { 100 } else { 1 }, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_body_is_dropped_once_by_the_owner_before_the_task_counts_as_finished() {
        let witness = Witness::default();
        let (known, drops) = (witness.task.clone(), witness.drops.clone());
        let mut task = task(0, witness);
        let reference = task.share();
        *known.lock().unwrap() = Some(task.share());
        task.commit().unwrap().finish(|_| unreachable!());
        assert!(reference.is_finished());
        assert_eq!(drops.load(Ordering::Relaxed), 1, "dropped, and not finished by then");
        drop(reference);
        assert_eq!(drops.load(Ordering::Relaxed), 1, "the last reference frees memory and nothing else");
    }

    #[test]
    fn the_body_of_a_task_that_is_given_up_is_dropped_with_its_owner() {
        let alive = Arc::new(());
        let mut refused = task(0, alive.clone());
        let reference = refused.share();
        drop(refused);
        assert_eq!(Arc::strong_count(&alive), 1);
        let owner = task(0, alive.clone()).commit().unwrap();
        drop((owner.share(), owner));
        assert_eq!(Arc::strong_count(&alive), 1);
        drop(reference);
    }

    #[test]
    fn destructors_may_panic() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                std::panic::panic_any(Shell);
            }
        }
        struct Shell;
        impl Drop for Shell {
            fn drop(&mut self) {
                panic!("what a destructor panics with may panic too");
            }
        }
        drop(task(0, Bomb));
        let first = task(1, Bomb).commit().unwrap();
        let mut second = task(2, ());
        second.wait_for(&first.share(), Flow::Order).unwrap();
        assert!(second.commit().is_none());
        let mut ready = vec![];
        first.finish(|task| ready.push(task));
        assert_eq!(ready.len(), 1, "what waits for the task goes on");
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

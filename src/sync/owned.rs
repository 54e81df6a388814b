//! A task that is ready, running or finishing, held by its only owner. See [`super::task`] for the invariants.

use super::atomic::Ordering;
use super::edges::Link;
use super::successors::Edge;
use super::tail::Tail;
use super::task::{Flow, Kind, Task, TaskRef};
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;

/// The only owner of the body of a task that is ready, running or finishing. It can be moved to another thread, but two
/// threads cannot use it at once, because bodies are only `Send`.
pub(crate) struct OwnedTask<K: Kind>(pub(super) ManuallyDrop<TaskRef<K>>, pub(super) PhantomData<Cell<()>>);

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
    /// Drops the body. The owner must not be dropped under a lock.
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this is the only owner (rule 2), and it is being dropped, so both the body and the reference are
        // dropped exactly once, here.
        unsafe {
            self.0.drop_body();
            ManuallyDrop::drop(&mut self.0);
        }
    }
}

impl<K: Kind> OwnedTask<K> {
    /// Returns the address of the task's block.
    pub(super) fn address_of(&self) -> NonNull<Task<K>> {
        self.0.0
    }

    /// Returns the block's tail, if the block is long.
    #[inline]
    pub(super) fn tail(&self) -> Option<NonNull<Tail<K>>> {
        self.0.tail()
    }

    /// Takes up the ownership of a task, including its run reference.
    #[inline]
    pub(super) fn of(task: NonNull<Task<K>>) -> Self {
        Self(ManuallyDrop::new(TaskRef(task)), PhantomData)
    }

    /// Whether two or more tasks currently wait for this one.
    pub(crate) fn forks(&self) -> bool {
        // SAFETY: only the owner closes the list, and the caller is the owner.
        unsafe { self.successors.has_several() }
    }

    /// Returns another reference to the task.
    pub(crate) fn share(&self) -> TaskRef<K> {
        TaskRef::clone(&self.0)
    }

    /// Returns the body. All state that changes while the body runs is in cells, and exclusive ownership prevents two
    /// threads from running it.
    #[inline]
    pub(crate) fn body(&self) -> &K::Body {
        // SAFETY: this is the only owner (rule 2), and it is not `Sync`, so no other thread uses the body. No unique
        // reference to the body is created in the meantime.
        unsafe { self.0.body.as_ref() }
    }

    /// Whether dropping the body runs any code.
    #[inline]
    pub(crate) fn drops_body(&self) -> bool {
        self.0.drops_body
    }

    /// Returns the owner's part.
    #[inline]
    pub(crate) fn owned(&self) -> &K::Owned {
        // SAFETY: this is the only owner (rule 2).
        self.0.owned.with(|owned| unsafe { &**owned })
    }

    /// Returns a mutable reference to the owner's part.
    #[inline]
    pub(crate) fn owned_mut(&mut self) -> &mut K::Owned {
        // SAFETY: this is the only owner (rule 2), and it is borrowed mutably, so the reference is unique.
        self.0.owned.with_mut(|owned| unsafe { &mut **owned })
    }

    /// Releases the successors: passes every successor that no longer waits for any task to `ready`, the last submitted
    /// first. From then on, no task waits for this one. Must be called at most once before [`finish`](Self::finish),
    /// which also releases the successors.
    ///
    /// If this task is poisoned, successors that use a value it wrote are poisoned with the same cause.
    #[inline(always)] // on the path of every task
    pub(crate) fn release(&self, mut ready: impl FnMut(OwnedTask<K>)) {
        let poison = self.poison();
        self.successors.close(|link| {
            let (successor, flow) = link.open();
            // SAFETY: a blocked task is kept alive by its run reference, and the successor is still blocked, because it
            // has not been counted down here yet.
            let task = unsafe { successor.as_ref() }; // must not be used after the countdown
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

    /// Ends the task like [`finish`](Self::finish), but a successor may have to wait for another task instead. `next`
    /// returns that task and the [`Flow`] of the new edge. If that task has finished in the meantime, its poison is
    /// passed on and `next` is called again; when `next` returns `None`, the successor is counted down. `next` gets the
    /// successor and its body, and must read only those parts of the body that do not change.
    pub(crate) fn finish_into(
        self,
        mut next: impl FnMut(&Task<K>, &K::Body) -> Option<(TaskRef<K>, Flow)>,
        mut ready: impl FnMut(OwnedTask<K>),
    ) {
        let this = ManuallyDrop::new(self);
        // SAFETY: this is the only owner (rule 2), and its destructor, which would drop the body again, does not run,
        // so the body is dropped exactly once.
        unsafe { this.0.drop_body() };
        let poison = this.poison();
        this.successors.close_with(|edge, link| {
            let (successor, flow) = link.open();
            // SAFETY: a blocked task is kept alive by its run reference, and the successor is still blocked, because it
            // has not been counted down here yet. Its only possible owner is its submitter, which does not create a
            // unique reference to the body either.
            let (task, body) = unsafe { (successor.as_ref(), successor.as_ref().body.as_ref()) };
            if flow == Flow::Value
                && let Some(cause) = &poison
            {
                task.set_poison(cause.clone());
            }
            while let Some((in_its_place, flow)) = next(task, body) {
                // SAFETY: the edge is in no list. It does not move until the next list that contains it has been
                // walked, because that walk, rather than this one, counts the successor down.
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

    /// Ends the task: drops its body, then calls [`release`](Self::release), unless that was called before.
    ///
    /// A thread that sees the task finished also sees the body's captured values dropped, unless the task was released
    /// before.
    #[inline(always)] // on the path of every task
    pub(crate) fn finish(self, ready: impl FnMut(OwnedTask<K>)) {
        let this = ManuallyDrop::new(self);
        // SAFETY: this is the only owner (rule 2), and its destructor, which would drop the body again, does not run,
        // so the body is dropped exactly once.
        unsafe { this.0.drop_body() };
        this.release(ready);
        drop(TaskRef(this.0.0));
    }
}

//! A task that is ready, running or finishing, in the hands of its one owner: see [`super::task`] for the invariants.

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

/// A task that is ready, running or finishing: the one owner of its body. It can be handed to another thread, but two
/// threads cannot use it at once, as bodies are only `Send`.
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

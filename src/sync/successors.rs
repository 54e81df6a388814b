//! The list of a task's successors: open for pushes while the task is unfinished, closed once when it finishes.
//!
//! The list is hand-written because submitting and finishing threads race on it for every graph edge. A lock at this
//! point is what makes other runtimes several times slower with two threads than with one. Here, a push is one
//! compare-exchange, and closing is one swap.
//!
//! Invariants:
//! 1. `head` is null, a chain of edges, or the address [`closed`]; once closed it stays closed.
//! 2. The close sees every push that succeeds. A push that fails happened after the close, so everything that the
//!    closing thread wrote before the close is visible to the pusher (release by the swap, acquire by the failed push).
//! 3. The memory of an edge belongs to the pusher; the list only links it.

use super::atomic::{AtomicPtr, Ordering};
use std::ptr::{self, NonNull};

/// One edge of the graph, stored in the successor's block; `T` names the successor.
#[derive(Debug)]
pub(crate) struct Edge<T> {
    next: *mut Edge<T>,
    /// Identifies the waiting task.
    pub(crate) successor: T,
}

impl<T> Edge<T> {
    /// Creates an edge that is in no list yet.
    pub(crate) fn new(successor: T) -> Self {
        Self { next: ptr::null_mut(), successor }
    }
}

/// Error returned if the list is closed: the task has finished, so there is nothing to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed;

/// The successors of one task.
#[derive(Debug)]
pub(crate) struct Successors<T> {
    head: AtomicPtr<Edge<T>>,
}

/// Returns the address that marks a closed list. No edge has this address.
fn closed<T>() -> *mut Edge<T> {
    ptr::without_provenance_mut(1)
}

impl<T> Successors<T> {
    /// Creates an open, empty list.
    pub(crate) fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Links `edge`, unless the list is closed.
    ///
    /// # Safety
    /// `edge` is valid, in no list, and is neither moved nor touched by other code until the list was closed and
    /// walked.
    #[inline]
    pub(crate) unsafe fn push(&self, edge: *mut Edge<T>) -> Result<(), Closed> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            if head == closed() {
                return Err(Closed);
            }
            // SAFETY: the caller provides the edge exclusively, and no other thread sees it until the exchange below
            // succeeds.
            unsafe { (*edge).next = head };
            match self.head.compare_exchange_weak(head, edge, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return Ok(()),
                Err(now) => head = now,
            }
        }
    }

    /// Whether the list is closed. If so, everything that the closing thread wrote before is visible.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.head.load(Ordering::Acquire) == closed()
    }

    /// Passes every successor that is currently in the list to `each`, the last pushed first.
    ///
    /// # Safety
    /// The list is not closed during this call.
    pub(crate) unsafe fn look(&self, mut each: impl FnMut(T))
    where
        T: Copy,
    {
        let mut edge = self.head.load(Ordering::Acquire);
        while !edge.is_null() && edge != closed() {
            // SAFETY: a pushed edge stays unchanged until the list has been closed and walked, and the caller
            // guarantees that the list is not closed before this returns.
            let (next, successor) = unsafe { ((*edge).next, (*edge).successor) };
            each(successor);
            edge = next;
        }
    }

    /// Returns the edge that was pushed last. It may be prefetched but must not be read, because another thread may
    /// have closed the list.
    #[inline]
    pub(super) fn latest(&self) -> *const Edge<T> {
        self.head.load(Ordering::Relaxed)
    }

    /// Replaces the list's contents with these edges, in the given order.
    ///
    /// # Safety
    /// The list is not closed, and no other thread uses it during this call. The edges are valid, in no list, and are
    /// neither moved nor touched by other code until the list is closed and walked, or replaced.
    pub(crate) unsafe fn replace(&self, edges: NonNull<[Edge<T>]>) {
        let mut head = ptr::null_mut();
        for at in (0..edges.len()).rev() {
            // SAFETY: the index is within the slice, to which the caller has exclusive access.
            unsafe {
                let edge = edges.cast::<Edge<T>>().add(at).as_ptr();
                (*edge).next = head;
                head = edge;
            }
        }
        self.head.store(head, Ordering::Release);
    }

    /// Whether the list has two or more edges so far.
    ///
    /// # Safety
    /// Only the caller closes the list, and not during this call.
    pub(crate) unsafe fn has_several(&self) -> bool {
        let head = self.head.load(Ordering::Acquire);
        // SAFETY: a pushed edge and its link stay valid until the list is closed, which the caller rules out.
        !head.is_null() && head != closed() && unsafe { !(*head).next.is_null() }
    }

    /// Closes the list and passes every successor to `each`, the last pushed first. A second close finds nothing.
    #[inline(always)] // on the path of every task
    pub(crate) fn close(&self, mut each: impl FnMut(T))
    where
        T: Copy,
    {
        self.close_with(|_, successor| each(successor));
    }

    /// Like [`Self::close`], but also passes the edge, which is in no list any more.
    #[inline(always)] // on the path of every task
    pub(crate) fn close_with(&self, mut each: impl FnMut(*mut Edge<T>, T))
    where
        T: Copy,
    {
        let mut edge = self.head.swap(closed(), Ordering::AcqRel);
        while !edge.is_null() && edge != closed() {
            // SAFETY: a pushed edge stays valid until it has been walked, and only this thread has the chain. Both
            // fields are read before `each`, which may let the successor run and free the edge.
            let (next, successor) = unsafe { ((*edge).next, (*edge).successor) };
            each(edge, successor);
            edge = next;
        }
    }
}

impl<T> Default for Successors<T> {
    fn default() -> Self {
        Self::new()
    }
}

//! Guards of values, and of the results of other tasks. Tokens have no content, so they give completions instead.
//!
//! These guards are sound for the same reasons as the guards in [`super::lent`]. Instead of a region, the guard refers
//! to the value in its box or the result in its cell, both of which stay where they are until the task has ended.

use super::lent::{Completion, Lend, Lender, ReadOnly, Writable, describe};
use super::{Commutes, Follows, OfValue, Overwrites, ReadResult, Reads, Shares, Unseen, Updates, ValueMode};
use crate::depend::Hold;
use crate::error::BoxError;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A value that a task has lent out, or the result of another task. For regions, the counterpart is
/// [`Lent`](super::Lent).
///
/// The guard is [`ReadOnly`] for an `input` access, for a result, and for a `concurrent` access, for which bodies also
/// get only `&T`.
///
/// ```
/// use thalweg::memory::ReadOnly;
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let (url, pages) = (rt.task("url", ()).returns(|_, ()| "about:blank").submit()?, rt.value(Vec::new()));
/// rt.task("fetch", (url.input(), pages.inout()))
///     .host_detached_until_event(|_, (url, mut pages): (LentValue<&str, ReadOnly>, LentValue<Vec<String>>)| {
///         std::thread::spawn(move || {
///             pages.push(format!("the page at {}", *url)); // for example, data received from the network
///             pages.finish();
///             url.finish();
///         });
///     })
///     .submit()?;
/// assert_eq!(rt.take(pages)?, ["the page at about:blank"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a guard that is dropped unfinished fails its task"]
pub struct LentValue<T, M = Writable> {
    /// A mutable pointer, which makes the type invariant in `T`.
    value: *mut T,
    hold: Hold,
    may: PhantomData<M>,
}

// SAFETY: a guard consists of a reference to a value that is `Send` and `Sync`, and a hold that any thread may give
// back.
unsafe impl<T: Send + Sync, M> Send for LentValue<T, M> {}
// SAFETY: as for `Send`; in addition, a shared guard gives only shared references.
unsafe impl<T: Send + Sync, M> Sync for LentValue<T, M> {}

impl<T, M> LentValue<T, M> {
    /// # Safety
    /// Until the hold is given back, the value exists and nothing that conflicts with `M` uses it.
    unsafe fn new(value: *mut T, lender: Lender<'_>) -> Self {
        Self { value, hold: lender.0.hold(), may: PhantomData }
    }

    /// Gives the value back because the work on it is done.
    pub fn finish(self) {
        self.hold.finish();
    }

    /// Gives the value back and fails the task, so that its output is not used.
    pub fn fail(self, error: impl Into<BoxError>) {
        self.hold.fail(error);
    }
}

impl<T, M> Deref for LentValue<T, M> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the task has not ended while the guard has its hold (`new`).
        unsafe { &*self.value }
    }
}

impl<T> DerefMut for LentValue<T, Writable> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the task has not ended while the guard has its hold (`new`); the access writes, so nothing else has
        // the value, and this is its only guard.
        unsafe { &mut *self.value }
    }
}

impl<T, M> fmt::Debug for LentValue<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe("LentValue", &self.hold, f)
    }
}

macro_rules! values {
    ($($mode:ident => $may:ident;)*) => {$(
        impl<T: Send + Sync + 'static> Lend for OfValue<T, $mode> {
            type Lent = LentValue<T, $may>;

            unsafe fn lend(&self, lender: Lender<'_>) -> Self::Lent {
                // SAFETY: the caller guarantees that the value is in host memory, and that no task that conflicts with
                // this mode uses it.
                unsafe { LentValue::new(self.address(), lender) }
            }
        }
    )*};
}

values! { Reads => ReadOnly; Overwrites => Writable; Updates => Writable; Commutes => Writable; Shares => ReadOnly; }

impl<T: Send + Sync + 'static> Lend for OfValue<T, Follows> {
    type Lent = Completion;

    unsafe fn lend(&self, lender: Lender<'_>) -> Completion {
        Completion::new(lender)
    }
}

impl<M: ValueMode> Lend for Unseen<M> {
    type Lent = Completion;

    unsafe fn lend(&self, lender: Lender<'_>) -> Completion {
        Completion::new(lender)
    }
}

impl<R: Send + Sync + 'static> Lend for ReadResult<R> {
    type Lent = LentValue<R, ReadOnly>;

    unsafe fn lend(&self, lender: Lender<'_>) -> Self::Lent {
        // SAFETY: the caller guarantees that the task that writes the result has ended. Nothing takes the result
        // while this task reads it, and a read-only guard does not write it.
        unsafe { LentValue::new(std::ptr::from_ref(self.result()).cast_mut(), lender) }
    }
}

//! Guards of lent regions: views that any thread may use while the task continues without its body.
//!
//! A guard contains the region's address and a [`Hold`]. This is sound because the task does not end before the hold is
//! given back, which is the last thing a guard does (invariant 1 of `depend::node::detached`), and because until a task
//! has ended, the rules of [`super`] hold for its views as they do while its body runs. A guard that is never given
//! back keeps the task and its memory alive forever.
//!
//! The reference inside a guard is only available with the lifetime of a borrow of the guard.

use super::access::{Commute, Follow, In, Out, Update};
use super::accumulate::Accumulate;
use super::reduce::Reduce;
use super::{AccessList, Element, List, Reducer, Shape};
use crate::depend::{Context, Detachment, Hold};
use crate::error::BoxError;
use crate::sealed::Sealed;
use ndarray::{ArrayRef, ArrayViewMut, Dimension};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// Type-level permission of a guard: its region may be read.
#[derive(Debug)]
pub enum ReadOnly {}

/// Type-level permission of a guard: its region may be read and written.
#[derive(Debug)]
pub enum Writable {}

/// A guard of a region that a task has lent out. It can be moved to any thread, where it is used like the view in the
/// body.
///
/// Bodies of [`host_detached_until_event`](crate::TaskBuilder::host_detached_until_event) and
/// [`host_async`](crate::TaskBuilder::host_async) get one guard for each access: `Lent<[f64]>` for one dimension,
/// `Lent<ArrayRef<f64, Ix2>>` for two. The guard of an `input` is [`ReadOnly`]. For values and results, bodies get a
/// [`LentValue`](super::LentValue). The task holds its regions until all guards are given back.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let ghost = rt.data(vec![0.0; 4]);
/// rt.task("receive", (ghost.output(),))
///     .host_detached_until_event(|_, (mut ghost,): (Lent<[f64]>,)| {
///         std::thread::spawn(move || {
///             ghost.copy_from_slice(&[1.0, 2.0, 3.0, 4.0]); // for example, data received from the network
///             ghost.finish();
///         });
///     })
///     .submit()?;
/// assert_eq!(rt.take(ghost)?, [1.0, 2.0, 3.0, 4.0]); // waits until the thread has finished
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a guard that is dropped unfinished fails its task"]
pub struct Lent<L: Lendable + ?Sized, M = Writable> {
    place: L::Place,
    hold: Hold,
    may: PhantomData<M>,
}

// SAFETY: a guard consists of a reference to elements that are `Send` and `Sync` (`Lendable::Item`), and a hold that
// any thread may give back.
unsafe impl<L: Lendable + ?Sized, M> Send for Lent<L, M> {}
// SAFETY: as for `Send`; in addition, a shared guard gives only shared references.
unsafe impl<L: Lendable + ?Sized, M> Sync for Lent<L, M> {}

impl<L: Lendable + ?Sized, M> Lent<L, M> {
    /// # Safety
    /// Until the hold is given back, the region is at the place as [`Access::view`](super::Access::view) requires, and
    /// `M` states what the access may do with the region.
    unsafe fn new(place: L::Place, lender: Lender<'_>) -> Self {
        Self { place, hold: lender.0.hold(), may: PhantomData }
    }

    /// Gives the region back because the work on it is done.
    pub fn finish(self) {
        self.hold.finish();
    }

    /// Gives the region back and fails the task, so that its output is not used.
    pub fn fail(self, error: impl Into<BoxError>) {
        self.hold.fail(error);
    }
}

impl<L: Lendable + ?Sized, M> Deref for Lent<L, M> {
    type Target = L;

    #[inline]
    fn deref(&self) -> &L {
        // SAFETY: the task has not ended while the guard has its hold (`new`).
        unsafe { L::get(&self.place) }
    }
}

impl<L: Lendable + ?Sized> DerefMut for Lent<L, Writable> {
    #[inline]
    fn deref_mut(&mut self) -> &mut L {
        // SAFETY: the task has not ended while the guard has its hold (`new`); the access writes, so nothing else has
        // the region, and this is its only guard.
        unsafe { L::get_mut(&mut self.place) }
    }
}

impl<L: Lendable + ?Sized, M> fmt::Debug for Lent<L, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe("Lent", &self.hold, f)
    }
}

/// A guard without a region, which keeps a task from ending. It is made by [`Lending::completion`]; bodies also get one
/// for an `after` access or a token.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let task = rt.task("timer", ()).host_detached_until_event(|cx, ()| {
///     let done = cx.completion();
///     std::thread::spawn(move || done.finish()); // as a timer would
/// });
/// let task = task.submit_handle()?;
/// task.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a completion that is dropped unfinished fails its task"]
pub struct Completion(Hold);

impl Completion {
    pub(super) fn new(lender: Lender<'_>) -> Self {
        Self(lender.0.hold())
    }

    /// Marks the work of this completion as done. The task ends when all of its guards are finished.
    pub fn finish(self) {
        self.0.finish();
    }

    /// Fails the task.
    pub fn fail(self, error: impl Into<BoxError>) {
        self.0.fail(error);
    }

    /// Creates another completion: the task ends when both are finished.
    pub fn another(&self) -> Self {
        Self(self.0.another())
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe("Completion", &self.0, f)
    }
}

/// Writes the guard and, once the body has returned, its task.
pub(super) fn describe(what: &str, hold: &Hold, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match hold.look(|task| (task.shared().id, task.shared().name.clone())) {
        Some((id, name)) => write!(f, "{what}({id} `{name}`)"),
        None => write!(f, "{what}(..)"),
    }
}

/// The argument of a detached body, which dereferences to the [`Context`] and makes further completions.
#[derive(Debug)]
pub struct Lending<'a> {
    context: &'a Context,
    lender: Lender<'a>,
}

impl<'a> Lending<'a> {
    pub(super) fn new(context: &'a Context, lender: Lender<'a>) -> Self {
        Self { context, lender }
    }

    /// Creates a completion, without which the task does not end, in addition to the guards of its accesses.
    pub fn completion(&self) -> Completion {
        Completion::new(self.lender)
    }
}

impl Deref for Lending<'_> {
    type Target = Context;

    fn deref(&self) -> &Context {
        self.context
    }
}

/// Creates guards. This type wraps the detachment so that public traits can mention it.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Lender<'a>(pub(crate) &'a Arc<Detachment>);

/// The target of a guard: a slice, or ndarray's [`ArrayRef`].
pub trait Lendable: Sealed {
    /// The element type.
    #[doc(hidden)]
    type Item: Send + Sync;
    /// The address and shape of the region.
    #[doc(hidden)]
    type Place;

    /// # Safety
    /// The region is at the place while the reference lasts, and nothing writes it.
    #[doc(hidden)]
    unsafe fn get(place: &Self::Place) -> &Self;

    /// # Safety
    /// As for `get`, and nothing else reads it either.
    #[doc(hidden)]
    unsafe fn get_mut(place: &mut Self::Place) -> &mut Self;
}

impl<T: Element> Lendable for [T] {
    type Item = T;
    type Place = NonNull<[T]>;

    #[inline]
    unsafe fn get(place: &Self::Place) -> &Self {
        // SAFETY: the caller guarantees that the region is there and that nothing writes it.
        unsafe { place.as_ref() }
    }

    #[inline]
    unsafe fn get_mut(place: &mut Self::Place) -> &mut Self {
        // SAFETY: the caller guarantees that the region is there and that nothing else accesses it.
        unsafe { place.as_mut() }
    }
}

impl<T, D> Sealed for ArrayRef<T, D> {}

impl<T: Element, D: Dimension> Lendable for ArrayRef<T, D> {
    type Item = T;
    // This is an array view only by its type: it serves as an address, not as a reference.
    type Place = ArrayViewMut<'static, T, D>;

    #[inline]
    unsafe fn get(place: &Self::Place) -> &Self {
        place
    }

    #[inline]
    unsafe fn get_mut(place: &mut Self::Place) -> &mut Self {
        place
    }
}

/// Accesses whose views can be lent out of a body. These are all accesses except `concurrent` regions and weak
/// accesses; they can be used alone, in tuples and in lists.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be lent out of a body",
    note = "`concurrent` regions can be used only while the body runs; try `commutative`, `reduction` or `accumulate`, \
            which can be lent",
    note = "weak accesses can be used only by the task's children; try a task without a guard of them"
)]
pub trait Lend: AccessList {
    /// The type that the body receives: a guard for a single access, or a tuple or vector of the guards of its parts.
    type Lent: Send + 'static;

    /// # Safety
    /// As for [`Access::view`](super::Access::view), in the host copies, until the holds are given back. The lender's
    /// task is the one that stores the accesses.
    #[doc(hidden)]
    unsafe fn lend(&self, lender: Lender<'_>) -> Self::Lent;
}

macro_rules! plain {
    ($($name:ident, $may:ident;)*) => {$(
        impl<T: Element, S: Shape> Lend for $name<T, S> {
            type Lent = Lent<S::Lent<T>, $may>;

            unsafe fn lend(&self, lender: Lender<'_>) -> Self::Lent {
                // SAFETY: the caller guarantees that the region is in the host copy, and that no conflicting task has
                // it.
                unsafe { Lent::new(S::lend(self.0.site(None), self.0.spans()), lender) }
            }
        }
    )*};
}

plain! { In, ReadOnly; Out, Writable; Update, Writable; Commute, Writable; }

impl<T: Element, S: Shape> Lend for Follow<T, S> {
    type Lent = Completion;

    unsafe fn lend(&self, lender: Lender<'_>) -> Completion {
        Completion::new(lender)
    }
}

macro_rules! private {
    ($($name:ident;)*) => {$(
        impl<T: Element, S: Shape, R: Reducer<T>> Lend for $name<T, S, R> {
            type Lent = Lent<S::Lent<T>>;

            unsafe fn lend(&self, lender: Lender<'_>) -> Self::Lent {
                // SAFETY: the caller guarantees that the private replica is the task's until the task ends.
                unsafe {
                    let (site, spans) = self.begin_site();
                    Lent::new(S::lend(site, spans), lender)
                }
            }
        }
    )*};
}

private! { Reduce; Accumulate; }

macro_rules! tuples {
    ($(($($a:ident $i:tt),*))*) => {$(
        #[allow(clippy::unused_unit, unused_variables, unused_unsafe)] // for the empty tuple
        impl<$($a: Lend),*> Lend for ($($a,)*) {
            type Lent = ($($a::Lent,)*);

            unsafe fn lend(&self, lender: Lender<'_>) -> Self::Lent {
                // SAFETY: the caller upholds the contract for each access.
                unsafe { ($(self.$i.lend(lender),)*) }
            }
        }
    )*};
}

tuples! { () }
for_tuples! { tuples }

impl<A: Lend> Lend for List<A> {
    type Lent = Vec<A::Lent>;

    unsafe fn lend(&self, lender: Lender<'_>) -> Self::Lent {
        // SAFETY: the caller upholds the contract for each access.
        self.0.iter().map(|access| unsafe { access.lend(lender) }).collect()
    }
}

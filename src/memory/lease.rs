//! Leases, which stand for the things that a scope lends to tasks: memory of the caller's frame, and bodies that borrow
//! from it.
//!
//! A task's type has no lifetime, because tasks may run on any thread at any time. The lifetime of everything that is
//! lent must therefore be erased, which happens only in this module. A [`Lease`] represents the promise that makes this
//! sound, and its lifetime `'scope` says how long the promise holds: `Runtime::scope`, the only function that makes
//! leases, neither returns nor unwinds before
//! 1. every task with a leased body has ended, and its body, with all that it captured, is dropped (invariant 1 of
//!    `depend::node::group`);
//! 2. every task that declares a region of a leased cell has ended, every copy from and to the cell's home has ended
//!    too, and no memory there is page-locked any more: the scope releases the cell with a task that comes after all of
//!    them, just as the memory of any other data object is released (invariant 4 of `depend`, invariant 6 of the
//!    architecture).
//!
//! User code cannot prevent this, because the function itself waits, rather than the destructor of a value that could
//! be forgotten. Nothing with the lifetime `'scope` can outlive the scope, because the closure must accept any such
//! lifetime ([`std::thread::scope`] has the same two lifetimes for the same reasons).

use super::access_list::AccessList;
use super::buffer::DataCell;
use super::detached::{Async, Detached};
use super::lent::{Lend, Lending};
use super::payload::{DeviceBody, Slot, With};
use super::strides::strides_of_view;
use super::{Element, IntoOutcome, Shape};
use crate::depend::Context;
use crate::error::{BoxError, SubmitError};
use crate::ids::DataId;
use crate::kernel::Launcher;
use crate::region::MAX_DIMS;
use crate::sealed::Sealed;
use ndarray::{ArrayView, ArrayViewMut};
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

/// A body whose lifetime has been erased.
pub(crate) type LeasedBody<A> =
    Box<dyn for<'c, 'v> FnOnce(&'c Context, <A as AccessList>::Views<'v>) -> Result<(), BoxError> + Send>;

/// A body that all iterations of a loop share.
pub(crate) type SharedHostBody<'b, A> =
    Arc<dyn for<'c, 'v> Fn(&'c Context, <A as AccessList>::Views<'v>) -> Result<(), BoxError> + Send + Sync + 'b>;

/// A body for accelerators that all iterations of a loop share.
pub(crate) type SharedDeviceBody<'b, A> = Arc<
    dyn for<'l, 'd, 'v> Fn(&'l mut Launcher<'d>, <A as AccessList>::DeviceViews<'v>) -> Result<(), BoxError>
        + Send
        + Sync
        + 'b,
>;

/// Like [`LeasedBody`], for a body that lends its views out.
pub(crate) type LeasedDetached<A> =
    Box<dyn for<'c> FnOnce(&'c Lending<'c>, <A as Lend>::Lent) -> Result<(), BoxError> + Send>;

/// The future of a [`LeasedAsync`].
pub(crate) type LeasedFuture<'b> = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send + 'b>>;

/// Like [`LeasedBody`], for a body that creates a future.
pub(crate) type LeasedAsync<A> = Box<dyn FnOnce(Context, <A as Lend>::Lent) -> LeasedFuture<'static> + Send>;

/// The promise that nothing lent for `'scope` is touched after `'scope`.
///
/// The type is invariant in the lifetime, which can therefore be neither lengthened nor shortened.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Lease<'scope>(PhantomData<Invariant<'scope>>);

/// Makes the lease invariant. It also makes it `Send` and `Sync`, because a loop under construction must be.
type Invariant<'scope> = fn(&'scope ()) -> &'scope ();

/// How a builder stores bodies that are called any number of times. They are kept until the last call has ended.
#[doc(hidden)]
pub trait Share<'b>: Sealed + Copy {
    #[doc(hidden)]
    fn share_host<A: AccessList>(self, body: Common<SharedHostBody<'b, A>>) -> Common<SharedHostBody<'static, A>>;

    #[doc(hidden)]
    fn share_device<A: AccessList>(self, body: Common<SharedDeviceBody<'b, A>>)
    -> Common<SharedDeviceBody<'static, A>>;
}

/// How a builder stores bodies that are called once: unboxed with their types, or boxed by a scope's lease.
#[doc(hidden)]
pub trait Keep<'b>: Share<'b> {
    #[doc(hidden)]
    type Body<A, F, R>: Slot<A>
    where
        A: AccessList,
        F: for<'c, 'v> FnOnce(&'c Context, A::Views<'v>) -> R + Send + 'b,
        R: IntoOutcome + 'b;
    #[doc(hidden)]
    type Detached<A, F, R>: Slot<A>
    where
        A: Lend,
        F: for<'c> FnOnce(&'c Lending<'c>, A::Lent) -> R + Send + 'b,
        R: IntoOutcome + 'b;
    #[doc(hidden)]
    type Async<A, F, U>: Slot<A>
    where
        A: Lend,
        F: FnOnce(Context, A::Lent) -> U + Send + 'b,
        U: Future<Output: IntoOutcome> + Send + 'b;

    /// Wraps a body for CPU units.
    #[doc(hidden)]
    fn body<A, F, R>(self, body: F) -> Self::Body<A, F, R>
    where
        A: AccessList,
        F: for<'c, 'v> FnOnce(&'c Context, A::Views<'v>) -> R + Send + 'b,
        R: IntoOutcome + 'b;

    /// Wraps a body that lends its views out. Guards may move to any thread, because the task does not end before all
    /// of them are given back.
    #[doc(hidden)]
    fn detached<A, F, R>(self, body: F) -> Self::Detached<A, F, R>
    where
        A: Lend,
        F: for<'c> FnOnce(&'c Lending<'c>, A::Lent) -> R + Send + 'b,
        R: IntoOutcome + 'b;

    /// Wraps a body that creates a future.
    #[doc(hidden)]
    fn asynchronous<A, F, U>(self, body: F) -> Self::Async<A, F, U>
    where
        A: Lend,
        F: FnOnce(Context, A::Lent) -> U + Send + 'b,
        U: Future<Output: IntoOutcome> + Send + 'b;

    /// Wraps a body for accelerators.
    #[doc(hidden)]
    fn device<A, F, R>(self, body: F) -> Common<DeviceBody<'static, A>>
    where
        A: AccessList,
        F: for<'l, 'd, 'v> FnOnce(&'l mut Launcher<'d>, A::DeviceViews<'v>) -> R + Send + 'b,
        R: IntoOutcome + 'b;
}

/// A wrapper that lets the public traits mention `B`.
#[doc(hidden)]
#[allow(missing_debug_implementations)] // a closure has nothing to show
pub struct Common<B>(pub(crate) B);

/// Bodies that borrow nothing.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Owned(());

impl Owned {
    pub(crate) const NOTHING_BORROWED: Self = Self(());
}

impl Sealed for Owned {}
impl Sealed for Lease<'_> {}

impl Share<'static> for Owned {
    fn share_host<A: AccessList>(self, body: Common<SharedHostBody<'static, A>>) -> Common<SharedHostBody<'static, A>> {
        body
    }

    fn share_device<A: AccessList>(
        self,
        body: Common<SharedDeviceBody<'static, A>>,
    ) -> Common<SharedDeviceBody<'static, A>> {
        body
    }
}

impl Keep<'static> for Owned {
    type Body<A, F, R>
        = With<F, R>
    where
        A: AccessList,
        F: for<'c, 'v> FnOnce(&'c Context, A::Views<'v>) -> R + Send + 'static,
        R: IntoOutcome + 'static;
    type Detached<A, F, R>
        = Detached<F, R>
    where
        A: Lend,
        F: for<'c> FnOnce(&'c Lending<'c>, A::Lent) -> R + Send + 'static,
        R: IntoOutcome + 'static;
    type Async<A, F, U>
        = Async<F, U>
    where
        A: Lend,
        F: FnOnce(Context, A::Lent) -> U + Send + 'static,
        U: Future<Output: IntoOutcome> + Send + 'static;

    #[inline]
    fn body<A, F, R>(self, body: F) -> With<F, R>
    where
        A: AccessList,
        F: for<'c, 'v> FnOnce(&'c Context, A::Views<'v>) -> R + Send + 'static,
        R: IntoOutcome + 'static,
    {
        With(body, PhantomData)
    }

    fn detached<A, F, R>(self, body: F) -> Detached<F, R>
    where
        A: Lend,
        F: for<'c> FnOnce(&'c Lending<'c>, A::Lent) -> R + Send + 'static,
        R: IntoOutcome + 'static,
    {
        Detached(body, PhantomData)
    }

    fn asynchronous<A, F, U>(self, body: F) -> Async<F, U>
    where
        A: Lend,
        F: FnOnce(Context, A::Lent) -> U + Send + 'static,
        U: Future<Output: IntoOutcome> + Send + 'static,
    {
        Async::new(body)
    }

    fn device<A, F, R>(self, body: F) -> Common<DeviceBody<'static, A>>
    where
        A: AccessList,
        F: for<'l, 'd, 'v> FnOnce(&'l mut Launcher<'d>, A::DeviceViews<'v>) -> R + Send + 'static,
        R: IntoOutcome + 'static,
    {
        Common(Box::new(move |launcher, views| body(launcher, views).into_outcome()))
    }
}

impl<'scope> Share<'scope> for Lease<'scope> {
    fn share_host<A: AccessList>(self, body: Common<SharedHostBody<'scope, A>>) -> Common<SharedHostBody<'static, A>> {
        // SAFETY: the two types differ only in the lifetime. The builder of a scope's loop, which cannot outlive
        // `'scope`, gives the body to tasks of the scope. These tasks call or drop the body within `'scope`, which is
        // part 1 of the lease's promise and is upheld by `Runtime::scope`. So nothing uses the body after its true
        // lifetime.
        Common(unsafe { std::mem::transmute::<SharedHostBody<'scope, A>, SharedHostBody<'static, A>>(body.0) })
    }

    fn share_device<A: AccessList>(
        self,
        body: Common<SharedDeviceBody<'scope, A>>,
    ) -> Common<SharedDeviceBody<'static, A>> {
        // SAFETY: as in `share_host`.
        Common(unsafe { std::mem::transmute::<SharedDeviceBody<'scope, A>, SharedDeviceBody<'static, A>>(body.0) })
    }
}

impl<'scope> Keep<'scope> for Lease<'scope> {
    type Body<A, F, R>
        = With<LeasedBody<A>, Result<(), BoxError>>
    where
        A: AccessList,
        F: for<'c, 'v> FnOnce(&'c Context, A::Views<'v>) -> R + Send + 'scope,
        R: IntoOutcome + 'scope;
    type Detached<A, F, R>
        = Detached<LeasedDetached<A>, Result<(), BoxError>>
    where
        A: Lend,
        F: for<'c> FnOnce(&'c Lending<'c>, A::Lent) -> R + Send + 'scope,
        R: IntoOutcome + 'scope;
    type Async<A, F, U>
        = Async<LeasedAsync<A>, LeasedFuture<'static>>
    where
        A: Lend,
        F: FnOnce(Context, A::Lent) -> U + Send + 'scope,
        U: Future<Output: IntoOutcome> + Send + 'scope;

    fn body<A, F, R>(self, body: F) -> With<LeasedBody<A>, Result<(), BoxError>>
    where
        A: AccessList,
        F: for<'c, 'v> FnOnce(&'c Context, A::Views<'v>) -> R + Send + 'scope,
        R: IntoOutcome + 'scope,
    {
        type Body<'b, A> =
            dyn for<'c, 'v> FnOnce(&'c Context, <A as AccessList>::Views<'v>) -> Result<(), BoxError> + Send + 'b;
        let body: Box<Body<'scope, A>> = Box::new(move |context, views| body(context, views).into_outcome());
        // SAFETY: the two types differ only in the lifetime. The builder of a scope's task, which cannot outlive
        // `'scope`, gives the box to a task of the scope. The box is called or dropped within `'scope`, and nothing
        // touches its captures after that. This is part 1 of the lease's promise, which `Runtime::scope` upholds.
        With(unsafe { std::mem::transmute::<Box<Body<'scope, A>>, Box<Body<'static, A>>>(body) }, PhantomData)
    }

    fn detached<A, F, R>(self, body: F) -> Detached<LeasedDetached<A>, Result<(), BoxError>>
    where
        A: Lend,
        F: for<'c> FnOnce(&'c Lending<'c>, A::Lent) -> R + Send + 'scope,
        R: IntoOutcome + 'scope,
    {
        type Body<'b, A> = dyn for<'c> FnOnce(&'c Lending<'c>, <A as Lend>::Lent) -> Result<(), BoxError> + Send + 'b;
        let body: Box<Body<'scope, A>> = Box::new(move |lending, lent| body(lending, lent).into_outcome());
        // SAFETY: as in `body`.
        Detached(unsafe { std::mem::transmute::<Box<Body<'scope, A>>, Box<Body<'static, A>>>(body) }, PhantomData)
    }

    fn asynchronous<A, F, U>(self, body: F) -> Async<LeasedAsync<A>, LeasedFuture<'static>>
    where
        A: Lend,
        F: FnOnce(Context, A::Lent) -> U + Send + 'scope,
        U: Future<Output: IntoOutcome> + Send + 'scope,
    {
        type Body<'b, A> = dyn FnOnce(Context, <A as Lend>::Lent) -> LeasedFuture<'b> + Send + 'b;
        let body: Box<Body<'scope, A>> = Box::new(move |context, lent| {
            let future = body(context, lent);
            Box::pin(async move { future.await.into_outcome() })
        });
        // SAFETY: the two types differ only in lifetimes, including that of the future. The box is called or dropped
        // within `'scope`. The future that it returns is a part of the task's body until the future is ready or
        // cancelled; it is then dropped, before the task ends. Nothing touches the captures of either after that. This
        // is part 1 of the lease's promise, which `Runtime::scope` upholds.
        Async::new(unsafe { std::mem::transmute::<Box<Body<'scope, A>>, Box<Body<'static, A>>>(body) })
    }

    fn device<A, F, R>(self, body: F) -> Common<DeviceBody<'static, A>>
    where
        A: AccessList,
        F: for<'l, 'd, 'v> FnOnce(&'l mut Launcher<'d>, A::DeviceViews<'v>) -> R + Send + 'scope,
        R: IntoOutcome + 'scope,
    {
        let body: DeviceBody<'scope, A> = Box::new(move |launcher, views| body(launcher, views).into_outcome());
        // SAFETY: as in `body`.
        Common(unsafe { std::mem::transmute::<DeviceBody<'scope, A>, DeviceBody<'static, A>>(body) })
    }
}

impl fmt::Debug for Lease<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lease")
    }
}

impl<'scope> Lease<'scope> {
    /// Makes a lease. Only `Runtime::scope` may call this, because it upholds the promise.
    pub(crate) fn of_scope() -> Self {
        Self(PhantomData)
    }

    /// Creates a data object whose home is a slice. The slice is only read, because its handle offers no write
    /// accesses.
    pub(crate) fn slice<T: Element>(&self, runtime: u64, id: DataId, slice: &'scope [T]) -> DataCell {
        DataCell::borrowed(runtime, id, &[slice.len()], slice.as_ptr().cast_mut(), [1; MAX_DIMS])
    }

    /// Creates a data object whose home is a slice.
    pub(crate) fn slice_mut<T: Element>(&self, runtime: u64, id: DataId, slice: &'scope mut [T]) -> DataCell {
        DataCell::borrowed(runtime, id, &[slice.len()], slice.as_mut_ptr(), [1; MAX_DIMS])
    }

    /// Creates a data object whose home is the array of the view. The array is only read, as in [`Self::slice`].
    ///
    /// # Errors
    /// Fails if the array is not in row-major order.
    pub(crate) fn array<T: Element, S: Shape>(
        &self,
        runtime: u64,
        id: DataId,
        view: &ArrayView<'scope, T, S>,
    ) -> Result<DataCell, SubmitError> {
        let strides = strides_of_view(view.shape(), view.strides())?;
        Ok(DataCell::borrowed(runtime, id, view.shape(), view.as_ptr().cast_mut(), strides))
    }

    /// Creates a data object whose home is the array of the view.
    ///
    /// # Errors
    /// Fails if the array is not in row-major order.
    pub(crate) fn array_mut<T: Element, S: Shape>(
        &self,
        runtime: u64,
        id: DataId,
        mut view: ArrayViewMut<'scope, T, S>,
    ) -> Result<DataCell, SubmitError> {
        let strides = strides_of_view(view.shape(), view.strides())?;
        let base = view.as_mut_ptr();
        Ok(DataCell::borrowed(runtime, id, view.shape(), base, strides))
    }
}

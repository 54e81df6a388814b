//! Recovery from failures by clearing regions, values and results, or accepting them as they are; and `discard`, which
//! declares that the content of a region is no longer needed.
//!
//! All of these calls submit internal tasks, which are ordered like any other task. Such a task does not inherit
//! failures from its predecessors, so a failure spreads no further through the dependence graph, and a region that was
//! lost in the directory is good again.

use super::door::Door;
use super::pending::Pending;
use super::runtime::Runtime;
use super::wait::internal;
use crate::depend::{AccessRecord, Mode, Side, running};
use crate::error::{Called, SubmitError};
use crate::ids::SpaceId;
use crate::memory::{self, Accepts, Declared, Element, OfValue, Out, Overwrites, Payload, Record, Shape, Unseen};
use crate::sealed::{INTERNAL, Internal, Sealed};
use crate::task::{AccessSpec, BorrowedMut, Data, IntoRegion, Region, Token, UntypedAccess, Value};

impl Runtime {
    /// Makes a region good again after a failure, by writing zeros: from here on, tasks that use it are no longer
    /// skipped. A [`Value`] is set to the default of its type, and so is a [`Pending`] if its task fails.
    ///
    /// The call submits a task like any other: it comes after the tasks submitted before it, which may still be
    /// skipped, and before those submitted after it. The call does not wait. If nothing has failed, the task only
    /// writes zeros.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let sum = rt.scalar(1u64);
    /// let add = |what: Result<u64, &'static str>| {
    ///     rt.task("add", (sum.inout(),)).cpu(move |_, (sum,)| what.map(|n| sum[0] += n)).submit()
    /// };
    /// add(Err("no number"))?;
    /// add(Ok(10))?;               // skipped
    /// rt.clear(&sum)?;
    /// add(Ok(20))?;               // runs
    /// assert!(rt.wait().is_err()); // reports the failure, once
    /// assert!(rt.wait().is_ok());
    /// assert_eq!(rt.read(&sum)?[0], 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # When a failure is no longer reported
    /// [`wait`](Self::wait) reports every failure once, whether the program has recovered from it or not. Requests for
    /// a region ([`read`](Self::read), [`fetch`](Self::fetch), [`take`](Self::take)) return the failure exactly as long
    /// as some part of the region is not good again. A part is good again after `clear`, [`accept`](Self::accept), or a
    /// task that overwrites it (`out`), if these were submitted before the request.
    ///
    /// # Errors
    /// Fails if the region is out of bounds, belongs to another runtime or was taken, or if the call is made inside a
    /// task that holds the region.
    #[track_caller]
    pub fn clear(&self, what: impl Clear) -> Result<(), SubmitError> {
        what.clear(self, INTERNAL)
    }

    /// Accepts a region as it is after a failure, without changing it: from here on, tasks that use it are no longer
    /// skipped. Otherwise it is like [`clear`](Self::clear).
    ///
    /// The accepted content is whatever the failed task has left, usually a mixture of old and new elements. If the
    /// task ran on a device, the replica on that device is accepted and copied home. If the device is lost, data that
    /// were valid nowhere else are lost with it, so the older content of the home is accepted instead.
    ///
    /// A [`Value`] is accepted as the failed task has left it, and a [`Token`] has no content to consider. A missing
    /// result cannot be accepted, because there is nothing to accept: [clear](Self::clear) the result, or read its
    /// [outcome](Pending::outcome).
    ///
    /// # Errors
    /// As for [`clear`](Self::clear).
    #[track_caller]
    pub fn accept(&self, what: impl Accept) -> Result<(), SubmitError> {
        what.accept(self, INTERNAL)
    }

    /// Declares that the content of a region is no longer needed, for example an array of intermediate results between
    /// two steps. No device will then copy the content home to make room, or copy it from another device. The content
    /// is undefined until a task overwrites it.
    ///
    /// The call submits a task like any other, which moves and writes nothing. Like a task that overwrites the
    /// region, it ends the spread of a failure.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").build()?;
    /// let (x, between) = (rt.data(vec![1.0; 100]), rt.zeros([100]));
    /// for _ in 0..3 {
    ///     rt.task("first", (x.input(), between.output()))
    ///         .cpu(|_, (x, mut y)| (0..100).for_each(|i| y[i] = x[i] + 1.0))
    ///         .submit()?;
    ///     rt.task("second", (between.input(), x.inout()))
    ///         .cpu(|_, (y, x)| (0..100).for_each(|i| x[i] *= y[i]))
    ///         .submit()?;
    ///     rt.discard(&between)?;
    /// }
    /// assert_eq!(rt.take(x)?, [42.0; 100]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`clear`](Self::clear).
    #[track_caller]
    pub fn discard<'d, T: Element, S: Shape>(&self, region: impl IntoRegion<'d, T, S>) -> Result<(), SubmitError> {
        self.door.mend_region(region.into_region(), "discard", Mode::Out, Out, |_: S::ViewMut<'_, T>| ())
    }
}

impl Door {
    /// Like [`Runtime::accept`].
    #[track_caller]
    pub(super) fn accept<T: Element, S: Shape>(&self, region: Region<'_, T, S>) -> Result<(), SubmitError> {
        let look = |_: S::View<'_, T>| ();
        self.mend_region(region, "accept", Mode::Accept, memory::Accept, look)
    }

    #[track_caller]
    fn mend_region<T: Element, S: Shape, A: memory::Access>(
        &self,
        region: Region<'_, T, S>,
        name: &'static str,
        mode: Mode,
        access: impl FnOnce(Declared<T, S>) -> A,
        body: impl for<'a> FnOnce(A::View<'a>) + Send + 'static,
    ) -> Result<(), SubmitError> {
        region.check(self.id).map_err(|refusal| refusal.of_task(name)).called_here()?;
        let access = access(Declared::new(&region.data.cell, &region.block));
        let record = AccessRecord { datum: &region.data.cell.datum, block: &region.block, mode };
        self.mend(name, record, access, body)
    }

    #[track_caller]
    fn mend_whole<A: memory::Access>(
        &self,
        spec: &impl AccessSpec,
        name: &'static str,
        access: A,
        body: impl for<'a> FnOnce(A::View<'a>) + Send + 'static,
    ) -> Result<(), SubmitError> {
        spec.check(self.id).map_err(|refusal| refusal.of_task(name)).called_here()?;
        let (UntypedAccess(record), mut mode) = (spec.record(), Mode::Accept);
        access.visit(&mut |Record(stored)| mode = stored.mode);
        self.mend(name, AccessRecord { mode, ..record }, access, body)
    }

    #[track_caller]
    fn mend<A: memory::Access>(
        &self,
        name: &'static str,
        record: AccessRecord<'_>,
        access: A,
        body: impl for<'a> FnOnce(A::View<'a>) + Send + 'static,
    ) -> Result<(), SubmitError> {
        running::ancestry(self.id).admit(name, &[record]).called_here()?;
        let side = Side { space: Some(SpaceId::HOST), ..Side::default() };
        self.driver.submit(internal(name, side), Payload::sole(access, body), &[record], |_| ()).called_here()
    }
}

/// The objects that [`Runtime::clear`] can make good: regions and arrays, values, and missing results.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let list = rt.value(vec![1, 2, 3]);
/// rt.task("fails", list.inout()).cpu(|_, _| Err("no")).submit()?;
/// rt.clear(&list)?; // the default of its type
/// rt.task("push", list.inout()).cpu(|_, list| list.push(4)).submit()?;
/// let mut count = rt.task("fails too", ()).try_returns(|_, ()| "x".parse::<u32>()).submit()?;
/// rt.clear(&mut count)?; // had the task not failed, its result would stay
/// assert_eq!(count.get()?, 0);
/// assert!(rt.wait().is_err()); // reports both failures
/// assert_eq!(rt.take(list)?, [4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Clear: Sealed {
    #[doc(hidden)]
    #[track_caller]
    fn clear(self, rt: &Runtime, right: Internal) -> Result<(), SubmitError>;
}

/// The objects that [`Runtime::accept`] can accept: regions and arrays, values, and tokens.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let list = rt.value(vec![1, 2, 3]);
/// rt.task("fails", list.inout()).cpu(|_, list| { list.pop(); Err("no") }).submit()?;
/// rt.accept(&list)?;
/// assert!(rt.wait().is_err()); // reports the failure, once
/// assert_eq!(rt.take(list)?, [1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Accept: Sealed {
    #[doc(hidden)]
    #[track_caller]
    fn accept(self, rt: &Runtime, right: Internal) -> Result<(), SubmitError>;
}

macro_rules! regions {
    ($([$($generics:tt)*] $region:ty;)*) => {$(
        impl<$($generics)* T: Element, S: Shape> Clear for $region {
            #[track_caller]
            fn clear(self, rt: &Runtime, _: Internal) -> Result<(), SubmitError> {
                let zero = |view: S::ViewMut<'_, T>| S::clear(view);
                rt.door.mend_region(self.into_region(), "clear", Mode::Out, Out, zero)
            }
        }

        impl<$($generics)* T: Element, S: Shape> Accept for $region {
            #[track_caller]
            fn accept(self, rt: &Runtime, _: Internal) -> Result<(), SubmitError> {
                rt.door.accept(self.into_region())
            }
        }
    )*};
}

regions! {
    [] Region<'_, T, S>;
    [] &Region<'_, T, S>;
    [] &Data<T, S>;
    [] &&Data<T, S>;
    [] &BorrowedMut<'_, T, S>;
}

impl<T: Default + Send + Sync + 'static> Clear for &Value<T> {
    #[track_caller]
    fn clear(self, rt: &Runtime, _: Internal) -> Result<(), SubmitError> {
        let default = |value: &mut T| *value = T::default();
        rt.door.mend_whole(&self.output(), "clear", OfValue::<T, Overwrites>::new(&self.cell), default)
    }
}

impl<R: Default + Send + Sync + 'static> Clear for &mut Pending<R> {
    #[track_caller]
    fn clear(self, rt: &Runtime, _: Internal) -> Result<(), SubmitError> {
        self.mend(rt, R::default, "clear").called_here()
    }
}

impl<T: Send + Sync + 'static> Accept for &Value<T> {
    #[track_caller]
    fn accept(self, rt: &Runtime, _: Internal) -> Result<(), SubmitError> {
        rt.door.mend_whole(&self.output(), "accept", Unseen::<Accepts>::new(&self.cell), |()| ())
    }
}

impl Accept for &Token {
    #[track_caller]
    fn accept(self, rt: &Runtime, _: Internal) -> Result<(), SubmitError> {
        rt.door.mend_whole(&self.output(), "accept", Unseen::<Accepts>::new(&self.cell), |()| ())
    }
}

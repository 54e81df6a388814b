//! Mending what failures have left: regions are made zero, or taken as they are; and saying that what is in one is not needed.
//!
//! All are tasks of the runtime's own, ordered like any other; they take over no failure, and so end its way through the
//! graph of dependences, and in the directory what is lost.

use super::wait::internal;
use super::{Door, Runtime};
use crate::depend::{AccessRecord, Mode, Side, running};
use crate::error::SubmitError;
use crate::ids::SpaceId;
use crate::memory::{Accept, Declared, Element, Out, Payload, Shape};
use crate::task::{IntoRegion, Region};

impl Runtime {
    /// Makes a region good again after a failure, with zeros: what would use it is not skipped any more from here on.
    ///
    /// A task like any other: it comes after those submitted before it, which may still be skipped, and before those
    /// submitted after it. Nothing is waited for. Where nothing has failed, it only writes zeros.
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
    /// assert!(rt.wait().is_err()); // tells of the failure, once
    /// assert!(rt.wait().is_ok());
    /// assert_eq!(rt.read_scalar(&sum)?, 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # When a failure is no longer reported
    /// [`wait`](Self::wait) reports every failure once, mended or not. Requests for a region ([`read`](Self::read),
    /// [`wait_on`](Self::wait_on), [`copy`](Self::copy), [`take`](Self::take)) fail with it as long as a part of the region
    /// is not mended, and no longer than that: by `clear`, [`accept`](Self::accept), or a task that overwrites it (`out`),
    /// submitted before the request.
    ///
    /// # Errors
    /// If the region is out of bounds, belongs to another runtime or was taken; or if this is called inside a task that
    /// holds the region.
    #[track_caller]
    pub fn clear<'d, T: Element, S: Shape>(&self, region: impl IntoRegion<'d, T, S>) -> Result<(), SubmitError> {
        let zero = |view: S::ViewMut<'_, T>| S::clear(view);
        self.door.mend(region.into_region(), "clear", Mode::Out, Out, zero)
    }

    /// Takes a region as it is for good after a failure, without changing it: what would use it is not skipped any more from
    /// here on. In all else it is as [`clear`](Self::clear).
    ///
    /// What is there is what the failed task found and left: as a rule a mixture of old and new. If it ran on a device, its
    /// replica there is meant, and is copied home. If that device is lost, what was valid nowhere else is gone with it, and
    /// the home's bytes, of some time before, are what is accepted.
    ///
    /// # Errors
    /// As for [`clear`](Self::clear).
    #[track_caller]
    pub fn accept<'d, T: Element, S: Shape>(&self, region: impl IntoRegion<'d, T, S>) -> Result<(), SubmitError> {
        self.door.accept(region.into_region())
    }

    /// Says that nobody needs what is in a region any more, as in an array of intermediate results between two steps: no
    /// device copies it home to make room, and none copies it from another. What is there after that is not defined, until a
    /// task overwrites it.
    ///
    /// A task like any other, which moves and writes nothing. As one that overwrites, it ends a failure's way.
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
        self.door.mend(region.into_region(), "discard", Mode::Out, Out, |_: S::ViewMut<'_, T>| ())
    }
}

impl Door {
    /// As [`Runtime::accept`].
    #[track_caller]
    pub(super) fn accept<T: Element, S: Shape>(&self, region: Region<'_, T, S>) -> Result<(), SubmitError> {
        let look = |_: S::View<'_, T>| ();
        self.mend(region, "accept", Mode::Accept, Accept, look)
    }

    #[track_caller]
    fn mend<T: Element, S: Shape, A: crate::memory::Access>(
        &self,
        region: Region<'_, T, S>,
        name: &'static str,
        mode: Mode,
        access: impl FnOnce(Declared<T, S>) -> A,
        body: impl for<'a> FnOnce(A::View<'a>) + Send + 'static,
    ) -> Result<(), SubmitError> {
        region.check(self.id).map_err(|refusal| refusal.of_task(name))?;
        let access = access(Declared::new(&region.data.cell, &region.block));
        let record = AccessRecord { datum: &region.data.cell.datum, block: &region.block, mode };
        running::ancestry(self.id).admit(name, &[record])?;
        let side = Side { space: Some(SpaceId::HOST), ..Side::default() };
        self.driver.submit(internal(name, side), Payload::sole(access, body), &[record], |_| ())
    }
}

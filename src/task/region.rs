//! A box in a data object.

use super::{
    Accumulating, After, Commutative, Concurrent, Data, Inout, Input, Outcome, Output, Reducing, WeakInout, WeakInput,
};
use crate::memory::{Element, Shape};
use crate::region::Block;
use crate::sealed::Sealed;
use ndarray::Ix1;
use std::fmt;
use std::ops::Range;

/// A region of a data object. It can be declared as an access of a task, or read. It borrows the data object's handle.
///
/// An access to an empty region orders the task only with the end of the data object, which is taken or released after
/// the task.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.data(vec![1, 2, 3, 4]);
/// let middle = x.slice(1..3);
/// assert_eq!((middle.len(), middle.range(0)), (2, 1..3));
/// rt.task("negate", (middle.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x = -*x)).submit()?;
/// assert_eq!(rt.read(&x)?, [1, -2, -3, 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Region<'d, T, S: Shape = Ix1> {
    pub(crate) data: &'d Data<T, S>,
    pub(crate) block: Block,
}

impl<'d, T: Element, S: Shape> Region<'d, T, S> {
    pub(super) fn new(data: &'d Data<T, S>, block: Block) -> Self {
        Self { data, block }
    }

    /// Returns the region's range along dimension `d`.
    pub fn range(&self, d: usize) -> Range<usize> {
        self.block.range(d)
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.block.volume()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    /// `in`: the task reads the region.
    pub fn input(self) -> Input<'d, T, S> {
        Input(self)
    }

    /// `out`: the task overwrites all of the region and does not read its former content.
    pub fn output(self) -> Output<'d, T, S> {
        Output(self)
    }

    /// `inout`: the task reads and writes the region.
    pub fn inout(self) -> Inout<'d, T, S> {
        Inout(self)
    }

    /// `after`: the task is ordered as if it read the region, but does not read it. It gets `()` instead of a view,
    /// nothing is copied for it, and it runs even if the task that should have written the region has failed.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let (x, log) = (rt.data(vec![0.0f64; 8]), rt.data(Vec::from(*b"busy")));
    /// rt.task("fails", (x.inout(),)).cpu(|_, _| Err("no")).submit()?;
    /// rt.task("done", (x.after(), log.output())).cpu(|_, ((), log)| log.copy_from_slice(b"done")).submit()?;
    /// assert!(rt.wait().is_err());
    /// assert_eq!(rt.take(log)?, b"done");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn after(self) -> After<'d, T, S> {
        After(self)
    }

    /// `outcome`: the task is ordered as if it read the region, and runs even if the task that should have written the
    /// region has failed. Its body gets a `Result`: either a view of the region, or the
    /// [`TaskFailure`](crate::error::TaskFailure) that would have caused an ordinary reader to be skipped. The body
    /// gets the failure even if only a part of the region is poisoned; if there are several failures, it gets one of
    /// them.
    ///
    /// Poison ends at such a task: the regions that the task writes are good, unless the task itself fails.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let (frame, written) = (rt.scalar(0u32), rt.value(Vec::new()));
    /// for text in ["1", "two", "3"] {
    ///     rt.task("parse", frame.output()).cpu(move |_, frame| text.parse().map(|n| frame[0] = n)).submit()?;
    ///     rt.task("write", (frame.outcome(), written.inout()))
    ///         .cpu(|_, (frame, written)| match frame {
    ///             Ok(frame) => written.push(Some(frame[0])),
    ///             Err(failure) => {
    ///                 assert_eq!(failure.name(), "parse");
    ///                 written.push(None);
    ///             }
    ///         })
    ///         .submit()?;
    /// }
    /// assert!(rt.wait().is_err()); // reports the failure, once
    /// assert_eq!(rt.take(written)?, [Some(1), None, Some(3)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A task with such an access has bodies only for CPU units and emulated devices, and cannot be recorded. Its
    /// children cannot access the region, as with [`after`](Self::after).
    pub fn outcome(self) -> Outcome<Input<'d, T, S>> {
        Outcome(self.input())
    }

    /// Weak `in`: the task's children may read the region ([`Context::task`](crate::Context::task)); the task itself
    /// does not wait, and gets `()` instead of a view.
    pub fn weak_input(self) -> WeakInput<'d, T, S> {
        WeakInput(self)
    }

    /// Weak `inout`: the task's children may read and write the region ([`Context::task`](crate::Context::task)); the
    /// task itself does not wait, does not hold the region, and gets `()` instead of a view.
    ///
    /// Later tasks wait only for the children that access the same elements. If no child writes the region, it keeps
    /// its value. (This access also covers OmpSs-2's `weakout`.)
    pub fn weak_inout(self) -> WeakInout<'d, T, S> {
        WeakInout(self)
    }

    /// `commutative`: like `inout`, but the task runs in any order with other commutative tasks, one at a time.
    pub fn commutative(self) -> Commutative<'d, T, S> {
        Commutative(self)
    }

    /// `concurrent`: the task updates single elements atomically, while other concurrent tasks do the same.
    ///
    /// Tasks with a `concurrent` access run on CPU units, and the region must be contiguous in memory.
    pub fn concurrent(self) -> Concurrent<'d, T, S> {
        Concurrent(self)
    }

    /// `reduction`: the body gets a private replica that starts at the operation's identity. The runtime combines the
    /// replicas with the region's value before the next access of another kind: in submission order, or in any order if
    /// the operation allows it ([`Reducer::in_any_order`](crate::memory::Reducer::in_any_order)).
    ///
    /// When replicas are combined in submission order, a task that finishes early keeps its replica until its turn.
    pub fn reduction<R>(self, reducer: R) -> Reducing<'d, T, S, R> {
        Reducing(self, reducer)
    }

    /// `accumulate`: like [`reduction`](Self::reduction), but for many tasks on large regions. The view contains what
    /// other tasks have left in a private replica, and the body *adds* to the replica, element by element, using the
    /// operation. The body must not assign.
    ///
    /// A reduction initializes and combines a replica for each task. With `accumulate`, a replica is initialized and
    /// combined once for each unit: tasks use it one after the other, and their accumulated contributions are combined
    /// when another task uses the region. Which task adds to which replica depends on timing, so the operation must
    /// yield the same result in any order or, as with a sum of floating-point numbers, nearly the same result. The
    /// replicas keep their memory until the region is used.
    ///
    /// | | `reduction` | `accumulate` |
    /// | --- | --- | --- |
    /// | the view begins with | the identity | whatever earlier tasks have added to the replica |
    /// | the body | leaves its contribution | adds its contribution |
    /// | combined | once for each task, in order if the operation requires it | once for each unit, in any order |
    /// | a task that fails | its own contribution is lost | the group's contributions are lost |
    ///
    /// In both cases, a failure poisons the value of the region.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let (points, histogram) = (rt.data((0..10_000u64).collect()), rt.data(vec![0u64; 10]));
    /// rt.for_each("count", (points.blocks(100).input(), histogram.accumulate(Sum)))
    ///     .cpu(|_, (points, bins)| points.iter().for_each(|point| bins[*point as usize % 10] += 1))
    ///     .submit()?;
    /// assert_eq!(rt.take(histogram)?, [1000; 10]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn accumulate<R>(self, reducer: R) -> Accumulating<'d, T, S, R> {
        Accumulating(self, reducer)
    }
}

impl<T, S: Shape> Clone for Region<'_, T, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, S: Shape> Copy for Region<'_, T, S> {}

impl<T, S: Shape> fmt::Debug for Region<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let datum = &self.data.cell.datum;
        write!(f, "{datum} {}", datum.describe(&self.block))
    }
}

/// Types that name the region of a request: a [`Region`], by value or by reference, or a reference to a [`Data`], which
/// means all of it.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.data(vec![1, 2, 3]);
/// assert_eq!(rt.read(&x)?, [1, 2, 3]);
/// assert_eq!(rt.read(x.slice(1..))?, [2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait IntoRegion<'d, T, S: Shape>: Sealed {
    /// Returns the region.
    fn into_region(self) -> Region<'d, T, S>;
}

impl<T, S: Shape> Sealed for Region<'_, T, S> {}
impl<T, S: Shape> Sealed for Data<T, S> {}
impl<R: Sealed + ?Sized> Sealed for &R {}

impl<'d, T, S: Shape> IntoRegion<'d, T, S> for Region<'d, T, S> {
    #[inline]
    fn into_region(self) -> Self {
        self
    }
}

impl<'d, T: Element, S: Shape> IntoRegion<'d, T, S> for &'d Data<T, S> {
    #[inline]
    fn into_region(self) -> Region<'d, T, S> {
        self.all()
    }
}

/// Covers references to regions, and references to references to data objects.
impl<'d, T, S: Shape, R: IntoRegion<'d, T, S> + Copy> IntoRegion<'d, T, S> for &R {
    #[inline]
    fn into_region(self) -> Region<'d, T, S> {
        (*self).into_region()
    }
}

/// Cuts `0..len` into ranges of length `size`; the last range may be shorter. To cut a data object into parts, see
/// [`Data::blocks`].
///
/// ```
/// use thalweg::task::blocks;
/// assert_eq!(blocks(10, 4).collect::<Vec<_>>(), [0..4, 4..8, 8..10]);
/// ```
///
/// # Panics
/// Panics if `size` is 0.
#[track_caller]
pub fn blocks(len: usize, size: usize) -> impl Iterator<Item = Range<usize>> + Clone {
    assert!(size > 0, "cannot cut 0..{len} into blocks of 0: try a size of 1 or more");
    (0..len).step_by(size).map(move |start| start..start.saturating_add(size).min(len))
}

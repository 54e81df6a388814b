//! Handles of data objects that a scope has borrowed.
//!
//! The handles and their regions last only as long as the scope, so no part of a borrowed data object outlives it. A
//! data object borrowed for reading offers no write accesses.

use super::{
    Accumulating, After, Commutative, Concurrent, Data, Each, Grown, IndexRange, Inout, Input, IntoRegion, Outcome,
    Output, Owner, Partition, Ranges, Reducing, Region, Widths,
};
use crate::memory::{DataCell, Element, Shape};
use crate::sealed::Sealed;
use ndarray::{IntoDimension, Ix1};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Arc, Weak};

/// An array borrowed from the caller that tasks of a scope read and write in place. Made by
/// [`Scope::borrow_mut`](crate::Scope::borrow_mut).
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
/// let mut grid = vec![1.0; 100];
/// rt.scope(|s| {
///     let grid = s.borrow_mut(&mut grid[10..]);
///     for part in blocks(grid.len(), 30) {
///         s.task("double", (grid.slice(part).inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2.0)).submit()?;
///     }
///     Ok::<_, SubmitError>(())
/// })??;
/// assert_eq!((grid[9], grid[10], grid[99]), (1.0, 2.0, 2.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BorrowedMut<'scope, T, S: Shape = Ix1> {
    data: Data<T, S>,
    scope: PhantomData<&'scope mut &'scope ()>,
}

/// An array borrowed from the caller that tasks of a scope read in place. Made by
/// [`Scope::borrow`](crate::Scope::borrow).
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
/// let (table, sum) = ([1, 2, 3, 4], rt.scalar(0));
/// rt.scope(|s| {
///     let table = s.borrow(&table[..]);
///     s.task("sum", (table.slice(1..).input(), sum.output())).cpu(|_, (x, sum)| sum[0] = x.iter().sum()).submit()
/// })??;
/// assert_eq!(rt.read(&sum)?[0], 9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Borrowed<'scope, T, S: Shape = Ix1> {
    data: Data<T, S>,
    scope: PhantomData<&'scope mut &'scope ()>,
}

/// A region of a data object that is borrowed for reading.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let table = vec![1.0; 10];
/// rt.scope(|s| {
///     let table = s.borrow(&table);
///     let region = table.slice(2..5);
///     assert_eq!((region.len(), region.range(0)), (3, 2..5));
///     s.task("look", (region.input(),)).cpu(|_, (x,)| assert_eq!(x, [1.0; 3])).submit()
/// })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BorrowedRegion<'d, T, S: Shape = Ix1>(Region<'d, T, S>);

macro_rules! handles {
    ($($name:ident)*) => {$(
        impl<T: Element, S: Shape> $name<'_, T, S> {
            pub(crate) fn new(cell: Arc<DataCell>, owner: Weak<dyn Owner>) -> Self {
                Self { data: Data::borrowed(cell, owner), scope: PhantomData }
            }

            /// Names the data object in error messages. The first call wins.
            #[must_use]
            pub fn named(self, name: impl Into<String>) -> Self {
                Self { data: self.data.named(name), ..self }
            }

            /// Returns the number of elements along each dimension.
            pub fn shape(&self) -> Vec<usize> {
                self.data.shape()
            }

            /// Returns the number of elements.
            pub fn len(&self) -> usize {
                self.data.len()
            }

            /// Returns whether there are no elements.
            pub fn is_empty(&self) -> bool {
                self.data.is_empty()
            }
        }

        impl<T, S: Shape> fmt::Debug for $name<'_, T, S> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.data, f)
            }
        }
    )*};
}

handles! { Borrowed BorrowedMut }

impl<T: Element, S: Shape> BorrowedMut<'_, T, S> {
    /// Returns the whole data object as a region.
    pub fn all(&self) -> Region<'_, T, S> {
        self.data.all()
    }

    /// Returns a box of the data object, given by a tuple with an index or a range per dimension; see [`Data::block`].
    pub fn block<R: Ranges<S>>(&self, ranges: R) -> Region<'_, T, S> {
        self.data.block(ranges)
    }

    /// Reads the whole data object.
    pub fn input(&self) -> Input<'_, T, S> {
        self.data.input()
    }

    /// Overwrites the whole data object.
    pub fn output(&self) -> Output<'_, T, S> {
        self.data.output()
    }

    /// Reads and writes the whole data object.
    pub fn inout(&self) -> Inout<'_, T, S> {
        self.data.inout()
    }

    /// Reads the whole data object, or gets the failure that left it without a value. See [`Region::outcome`].
    pub fn outcome(&self) -> Outcome<Input<'_, T, S>> {
        self.data.outcome()
    }

    /// Comes after the tasks that write any part of the data object, but gets no view of it.
    pub fn after(&self) -> After<'_, T, S> {
        self.data.after()
    }

    /// Updates the whole data object, in any order with other commutative tasks, one at a time.
    pub fn commutative(&self) -> Commutative<'_, T, S> {
        self.data.commutative()
    }

    /// Updates elements of the data object atomically, together with other concurrent tasks.
    pub fn concurrent(&self) -> Concurrent<'_, T, S> {
        self.data.concurrent()
    }

    /// Contributes to the whole data object, using an associative operation.
    pub fn reduction<R>(&self, reducer: R) -> Reducing<'_, T, S, R> {
        self.data.reduction(reducer)
    }

    /// Adds to the whole data object, using an associative and commutative operation. See [`Region::accumulate`].
    pub fn accumulate<R>(&self, reducer: R) -> Accumulating<'_, T, S, R> {
        self.data.accumulate(reducer)
    }
}

impl<T: Element, S: Shape> BorrowedMut<'_, T, S> {
    /// Cuts the whole data object into boxes of this size; see [`Data::tiles`].
    ///
    /// # Panics
    /// Panics if a size is 0.
    #[track_caller]
    pub fn tiles(&self, size: impl IntoDimension<Dim = S>) -> Partition<'_, T, S> {
        self.all().tiles(size)
    }

    /// Cuts the whole data object along its first dimension into blocks of this number of rows; see [`Data::rows`].
    ///
    /// # Panics
    /// Panics if `rows` is 0.
    #[track_caller]
    pub fn rows(&self, rows: usize) -> Partition<'_, T, S> {
        self.all().rows(rows)
    }
}

impl<T: Element> BorrowedMut<'_, T, Ix1> {
    /// Cuts the whole data object into blocks of this number of elements; see [`Data::blocks`].
    ///
    /// # Panics
    /// Panics if `size` is 0.
    #[track_caller]
    pub fn blocks(&self, size: usize) -> Partition<'_, T> {
        self.all().blocks(size)
    }

    /// Returns a part of a one-dimensional data object, given by an index or a range. Bounds are checked at submission.
    pub fn slice(&self, range: impl IndexRange) -> Region<'_, T, Ix1> {
        self.data.slice(range)
    }
}

impl<T, S: Shape> Sealed for BorrowedMut<'_, T, S> {}

impl<'d, T: Element, S: Shape> IntoRegion<'d, T, S> for &'d BorrowedMut<'_, T, S> {
    fn into_region(self) -> Region<'d, T, S> {
        self.all()
    }
}

impl<T: Element, S: Shape> Borrowed<'_, T, S> {
    /// Returns the whole data object as a region.
    pub fn all(&self) -> BorrowedRegion<'_, T, S> {
        BorrowedRegion(self.data.all())
    }

    /// Returns a box of the data object, given by a tuple with an index or a range per dimension; see [`Data::block`].
    pub fn block<R: Ranges<S>>(&self, ranges: R) -> BorrowedRegion<'_, T, S> {
        BorrowedRegion(self.data.block(ranges))
    }

    /// Reads the whole data object.
    pub fn input(&self) -> Input<'_, T, S> {
        self.data.input()
    }

    /// Reads the whole data object, or gets the failure that left it without a value. See [`Region::outcome`].
    pub fn outcome(&self) -> Outcome<Input<'_, T, S>> {
        self.data.outcome()
    }

    /// Orders the task as if it read the whole data object, but gives no view of it.
    pub fn after(&self) -> After<'_, T, S> {
        self.data.after()
    }
}

impl<T: Element, S: Shape> Borrowed<'_, T, S> {
    /// Cuts the whole data object into boxes of this size, for reading; see [`Data::tiles`].
    ///
    /// # Panics
    /// Panics if a size is 0.
    #[track_caller]
    pub fn tiles(&self, size: impl IntoDimension<Dim = S>) -> BorrowedParts<'_, T, S> {
        BorrowedParts(self.data.tiles(size).plain())
    }

    /// Cuts the whole data object along its first dimension into blocks of this number of rows, for reading; see
    /// [`Data::rows`].
    ///
    /// # Panics
    /// Panics if `rows` is 0.
    #[track_caller]
    pub fn rows(&self, rows: usize) -> BorrowedParts<'_, T, S> {
        BorrowedParts(self.data.rows(rows).plain())
    }
}

impl<T: Element> Borrowed<'_, T, Ix1> {
    /// Cuts the whole data object into blocks of this number of elements, for reading; see [`Data::blocks`].
    ///
    /// # Panics
    /// Panics if `size` is 0.
    #[track_caller]
    pub fn blocks(&self, size: usize) -> BorrowedParts<'_, T> {
        BorrowedParts(self.data.blocks(size).plain())
    }

    /// Returns a part of a one-dimensional data object, given by an index or a range. Bounds are checked at submission.
    pub fn slice(&self, range: impl IndexRange) -> BorrowedRegion<'_, T, Ix1> {
        BorrowedRegion(self.data.slice(range))
    }
}

/// A [`Borrowed`] array cut into parts, for reading in loops.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let (old, mut new) = ([1, 2, 3, 4], [0; 4]);
/// rt.scope(|s| {
///     let (old, new) = (s.borrow(&old), s.borrow_mut(&mut new));
///     s.for_each("sum", (old.blocks(1).grow(1).input(), new.blocks(1).output()))
///         .cpu(|_, (old, new)| new[0] = old.iter().sum())
///         .submit()
/// })??;
/// assert_eq!(new, [3, 6, 9, 7]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BorrowedParts<'d, T, S: Shape = Ix1>(Grown<'d, T, S>);

impl<T: Element, S: Shape> fmt::Debug for BorrowedParts<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<'d, T: Element, S: Shape> BorrowedParts<'d, T, S> {
    /// Returns the parts with their halos; see [`Partition::grow`].
    #[must_use]
    pub fn grow(self, widths: impl Widths<S>) -> Self {
        Self(self.0.wider(widths))
    }

    /// `in`: each iteration of a loop reads its part.
    pub fn input(self) -> Each<Input<'d, T, S>> {
        self.0.input()
    }
}

impl<'d, T: Element, S: Shape> BorrowedRegion<'d, T, S> {
    /// Returns the region's range along dimension `d`.
    pub fn range(&self, d: usize) -> Range<usize> {
        self.0.range(d)
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `in`: the task reads the region.
    pub fn input(self) -> Input<'d, T, S> {
        self.0.input()
    }

    /// `outcome`: see [`Region::outcome`].
    pub fn outcome(self) -> Outcome<Input<'d, T, S>> {
        self.0.outcome()
    }

    /// `after`: see [`Region::after`].
    pub fn after(self) -> After<'d, T, S> {
        self.0.after()
    }
}

impl<T, S: Shape> Clone for BorrowedRegion<'_, T, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, S: Shape> Copy for BorrowedRegion<'_, T, S> {}

impl<T, S: Shape> fmt::Debug for BorrowedRegion<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

//! The handle of a registered data object.

use super::{
    Accumulating, After, Commutative, Concurrent, IndexRange, Inout, Input, Outcome, Output, Ranges, Reducing, Region,
    WeakInout, WeakInput,
};
use crate::ids::{DataId, SpaceId};
use crate::memory::{DataCell, Element, Shape};
use crate::region::Block;
use ndarray::Ix1;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Weak};

/// A data object registered with a runtime: elements of type `T` in `S` dimensions. Clones are handles of the same
/// object.
///
/// Made by [`Runtime::data`](crate::Runtime::data) and its siblings, returned by
/// [`Runtime::take`](crate::Runtime::take). When the last handle is dropped, the memory is freed as soon as the tasks
/// that use it are done.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x: Data<f64, Ix2> = rt.zeros([4, 6]).named("field");
/// assert_eq!((x.shape(), x.len()), (vec![4, 6], 24));
/// rt.task("fill", (x.output(),)).cpu(|_, (mut x,)| x.fill(1.0)).submit()?;
/// let array = rt.take(x)?; // the handle is gone, the array is back
/// assert_eq!(array.sum(), 24.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Data<T, S: Shape = Ix1> {
    pub(crate) cell: Arc<DataCell>,
    /// The reference count of the user's handles. Dropping the last handle notifies the owner. The reference count of
    /// the cell cannot do this, because the runtime holds the cell too.
    handle: Arc<Handle>,
    element: PhantomData<fn() -> (T, S)>,
}

/// A data object's runtime, as far as handles need it.
pub(crate) trait Owner: Send + Sync {
    /// Frees the memory of a data object whose last handle is gone.
    fn release(&self, cell: ReleasedCell);

    /// Page-locks a data object's home if that helps, and returns whether it is locked.
    fn pin_memory(&self, cell: &DataCell) -> bool;

    /// Returns the address spaces in which a whole block of a data object is valid.
    fn valid_in(&self, cell: &DataCell, block: &Block) -> Vec<SpaceId>;
}

/// A data object whose handles are all gone.
#[derive(Debug)]
pub(crate) struct ReleasedCell(pub(crate) Arc<DataCell>);

/// The part that all handles of a data object share, whatever its kind.
pub(super) struct Handle {
    cell: Arc<DataCell>,
    owner: Weak<dyn Owner>,
    /// Whether the data object is released when this is dropped.
    is_released: bool,
}

impl Handle {
    pub(super) fn new(cell: &Arc<DataCell>, owner: Weak<dyn Owner>) -> Arc<Self> {
        Arc::new(Self { cell: cell.clone(), owner, is_released: true })
    }

    #[cfg(feature = "dynamic")]
    #[inline]
    pub(super) fn cell(&self) -> &Arc<DataCell> {
        &self.cell
    }
}

/// A share of a data object of any kind, which keeps it registered.
#[doc(hidden)]
#[derive(Clone)]
pub struct Kept {
    pub(crate) cell: Arc<DataCell>,
    pub(super) handle: Arc<Handle>,
}

impl Kept {
    pub(super) fn new(cell: &Arc<DataCell>, handle: &Arc<Handle>) -> Self {
        Self { cell: cell.clone(), handle: handle.clone() }
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({})", self.cell.datum)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.is_released
            && let Some(owner) = self.owner.upgrade()
            && !self.cell.datum.is_taken()
        {
            owner.release(ReleasedCell(self.cell.clone()));
        }
    }
}

impl<T: Element, S: Shape> Data<T, S> {
    /// Returns the number of the data object in its runtime, by which [accesses](crate::task::Accesses::visit), traces
    /// and messages name it.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let (x, y) = (rt.scalar(0.0), rt.scalar(0.0));
    /// assert_eq!(x.id(), x.clone().id());
    /// assert_ne!(x.id(), y.id());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn id(&self) -> DataId {
        self.cell.datum.id
    }

    pub(crate) fn new(cell: DataCell, owner: Weak<dyn Owner>) -> Self {
        let cell = Arc::new(cell);
        Self { handle: Handle::new(&cell, owner), cell, element: PhantomData }
    }

    /// Returns another handle of a data object, whose elements are of this type in this number of dimensions.
    #[cfg(feature = "dynamic")]
    pub(super) fn of_parts(cell: Arc<DataCell>, handle: Arc<Handle>) -> Self {
        Self { cell, handle, element: PhantomData }
    }

    /// Returns a handle of a data object that something other than its handles releases.
    pub(crate) fn borrowed(cell: Arc<DataCell>, owner: Weak<dyn Owner>) -> Self {
        Self { handle: Arc::new(Handle { cell: cell.clone(), owner, is_released: false }), cell, element: PhantomData }
    }

    /// Names the data object in error messages. The first call wins.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        self.cell.datum.set_name(name.into());
        self
    }

    /// Returns the number of elements along each dimension.
    pub fn shape(&self) -> Vec<usize> {
        self.cell.datum.shape()[..S::NDIM.unwrap_or(1)].to_vec()
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.cell.datum.whole().volume()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the whole data object as a region.
    pub fn all(&self) -> Region<'_, T, S> {
        Region::new(self, self.cell.datum.whole())
    }

    /// Returns a box of the data object, given by a tuple with an index or a range per dimension. Open-ended ranges
    /// extend to the ends of the data object; bounds are checked at submission. A dimension with a single index is
    /// kept, with an extent of 1.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x: Data<u32, Ix2> = rt.zeros([4, 6]);
    /// rt.task("columns", (x.block((.., 0..=2)).output(),)).cpu(|_, (mut x,)| x.fill(1)).submit()?;
    /// rt.task("row", (x.block((3, ..)).inout(),)).cpu(|_, (mut x,)| x.mapv_inplace(|x| x + 1)).submit()?;
    /// assert_eq!(rt.read(x.block((2.., 2..4)))?, ndarray::array![[1, 0], [2, 1]]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn block<R: Ranges<S>>(&self, ranges: R) -> Region<'_, T, S> {
        Region::new(self, ranges.block(self.cell.datum.shape()))
    }

    /// Reads the whole data object.
    pub fn input(&self) -> Input<'_, T, S> {
        self.all().input()
    }

    /// Overwrites the whole data object.
    pub fn output(&self) -> Output<'_, T, S> {
        self.all().output()
    }

    /// Reads and writes the whole data object.
    pub fn inout(&self) -> Inout<'_, T, S> {
        self.all().inout()
    }

    /// Reads the whole data object, or gets the failure that left it without a value. See [`Region::outcome`].
    pub fn outcome(&self) -> Outcome<Input<'_, T, S>> {
        self.all().outcome()
    }

    /// Comes after the tasks that write any part of the data object, but gets no view of it.
    pub fn after(&self) -> After<'_, T, S> {
        self.all().after()
    }

    /// Lets the task's children read the data object. See [`Region::weak_input`].
    pub fn weak_input(&self) -> WeakInput<'_, T, S> {
        self.all().weak_input()
    }

    /// Lets the task's children read and write the data object. See [`Region::weak_inout`].
    pub fn weak_inout(&self) -> WeakInout<'_, T, S> {
        self.all().weak_inout()
    }

    /// Updates the whole data object, in any order with other commutative tasks, one at a time.
    pub fn commutative(&self) -> Commutative<'_, T, S> {
        self.all().commutative()
    }

    /// Updates elements of the data object atomically, together with other concurrent tasks.
    pub fn concurrent(&self) -> Concurrent<'_, T, S> {
        self.all().concurrent()
    }

    /// Contributes to the whole data object, using an associative operation.
    pub fn reduction<R>(&self, reducer: R) -> Reducing<'_, T, S, R> {
        self.all().reduction(reducer)
    }

    /// Adds to the whole data object, using an associative and commutative operation. See [`Region::accumulate`].
    pub fn accumulate<R>(&self, reducer: R) -> Accumulating<'_, T, S, R> {
        self.all().accumulate(reducer)
    }
}

impl<T: Element> Data<T, Ix1> {
    /// Returns a part of a one-dimensional data object, given by an index or a range. Bounds are checked at submission.
    pub fn slice(&self, range: impl IndexRange) -> Region<'_, T, Ix1> {
        self.block((range,))
    }
}

impl<T, S: Shape> Data<T, S> {
    pub(super) fn kept(&self) -> Kept {
        Kept::new(&self.cell, &self.handle)
    }

    /// Returns the data object's runtime, unless the runtime is gone.
    pub(super) fn owner(&self) -> Option<Arc<dyn Owner>> {
        self.handle.owner.upgrade()
    }
}

impl<T, S: Shape> Clone for Data<T, S> {
    fn clone(&self) -> Self {
        Self { cell: self.cell.clone(), handle: self.handle.clone(), element: PhantomData }
    }
}

impl<T, S: Shape> fmt::Debug for Data<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.cell.datum, f)
    }
}

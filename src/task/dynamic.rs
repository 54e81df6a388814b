//! Data objects, regions and accesses whose types are values.
//!
//! An [`AnyData`] and a [`Data`] may be handles of the same data object; converting one into the other costs two
//! reference counts. All accesses are of one type, so that a program collects them in a `Vec` and submits the task with
//! `Runtime::task`, as every other task.
//!
//! Nothing is checked before submission, which checks the same as for typed accesses.

use super::access::{AccessSpec, Exported, UntypedAccess, check};
use super::handle::{Handle, Kept};
use super::{Data, Owner};
use crate::depend::{AccessRecord, Mode};
use crate::error::SubmitError;
use crate::memory::dlpack::{DlDataType, DlElement};
use crate::memory::dynamic::{Dtype, Op, Stored};
use crate::memory::{DataCell, Shape};
use crate::region::Block;
use crate::sealed::{Internal, Sealed};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Weak};

/// A data object whose element type and number of dimensions are known only at run time. Clones are handles of the same
/// object.
///
/// Made by [`AnyData::zeros`] and [`AnyData::from_dlpack`], and from a [`Data`] by `From`.
///
/// ```
/// use thalweg::dynamic::{AnyData, Dtype, Op};
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
/// // From a file or another language, for example:
/// let (dtype, shape): (Dtype, _) = ("float32".parse()?, vec![4, 6]);
/// let (x, sum) = (AnyData::zeros(&rt, dtype, &shape)?, AnyData::zeros(&rt, dtype, &[1])?);
/// for row in 0..4 {
///     let row = x.block(&[row..row + 1, 0..6]);
///     rt.task("fill", vec![row.clone().output()])
///         .cpu(|_, mut views| views[0].typed_mut::<f32, Ix2>().unwrap().fill(2.0))
///         .submit()?;
///     rt.task("sum", vec![row.input(), sum.all().reduction(Op::Sum)])
///         .cpu(|_, mut views| {
///             let row = views[0].typed::<f32, Ix2>().unwrap().sum();
///             views[1].typed_mut::<f32, Ix1>().unwrap()[0] += row;
///         })
///         .submit()?;
/// }
/// assert_eq!(sum.all().read(&rt)?, 48f32.to_ne_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct AnyData {
    /// The handle's share of the data object is the only one, so that a clone counts once.
    handle: Arc<Handle>,
    dtype: Dtype,
    ndim: u8,
}

impl AnyData {
    /// Returns the first handle of a data object. `dtype` is the type of its elements.
    pub(crate) fn new(cell: DataCell, owner: Weak<dyn Owner>, dtype: Dtype, ndim: usize) -> Self {
        Self { handle: Handle::new(&Arc::new(cell), owner), dtype, ndim: ndim as u8 }
    }

    #[inline]
    fn cell(&self) -> &Arc<DataCell> {
        self.handle.cell()
    }

    /// Names the data object in error messages. The first call wins.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        self.cell().datum.set_name(name.into());
        self
    }

    /// Returns the element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the number of dimensions.
    #[inline]
    pub fn ndim(&self) -> usize {
        self.ndim.into()
    }

    /// Returns the number of elements along each dimension.
    pub fn shape(&self) -> Vec<usize> {
        self.cell().datum.shape()[..usize::from(self.ndim)].to_vec()
    }

    /// Returns a typed handle, if the elements are of this type and the number of dimensions agrees.
    pub fn typed<T: DlElement, S: Shape>(&self) -> Option<Data<T, S>> {
        let fits = self.dtype.data_type() == Some(T::DATA_TYPE) && S::NDIM == Some(usize::from(self.ndim));
        fits.then(|| Data::of_parts(self.cell().clone(), self.handle.clone()))
    }

    /// Returns the whole data object as a region.
    #[inline]
    pub fn all(&self) -> AnyRegion {
        AnyRegion { data: self.clone(), block: self.cell().datum.whole() }
    }

    /// Returns a box of the data object, given by a range per dimension; further dimensions are whole. Bounds are
    /// checked at submission.
    ///
    /// # Panics
    /// Panics if there are more ranges than dimensions.
    #[track_caller]
    #[inline]
    pub fn block(&self, ranges: &[Range<usize>]) -> AnyRegion {
        let dimensions = usize::from(self.ndim);
        assert!(
            ranges.len() <= dimensions,
            "cannot take a region of {} ranges of {}: it has {dimensions} dimensions; try as many ranges",
            ranges.len(),
            self.cell().datum
        );
        let mut block = self.cell().datum.whole();
        for (d, range) in ranges.iter().enumerate() {
            block.set_range(d, range.clone());
        }
        AnyRegion { data: self.clone(), block }
    }
}

impl<T: DlElement, S: Shape> From<Data<T, S>> for AnyData {
    fn from(data: Data<T, S>) -> Self {
        let ndim = data.shape().len() as u8;
        Self { handle: data.kept().handle, dtype: Dtype::of::<T>(), ndim }
    }
}

impl fmt::Debug for AnyData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} {:?})", self.cell().datum, self.dtype, self.shape())
    }
}

/// A box in an [`AnyData`].
#[derive(Debug, Clone)]
pub struct AnyRegion {
    pub(crate) data: AnyData,
    pub(crate) block: Block,
}

macro_rules! modes {
    ($($(#[$doc:meta])* $name:ident $mode:ident;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(self) -> AnyAccess {
            AnyAccess { region: self, mode: Mode::$mode, op: None }
        }
    )*};
}

impl AnyRegion {
    modes! {
        /// `in`: the task reads the region.
        input In;
        /// `out`: the task overwrites all of the region and does not read its former content.
        output Out;
        /// `inout`: the task reads and writes the region.
        inout Inout;
        /// `commutative`: like `inout`, but the task runs in any order with other commutative tasks, one at a time.
        commutative Commutative;
        /// `after`: the task is ordered as if it read the region, but gets no view of it.
        after After;
        /// Weak `in`: the task's children may read the region.
        weak_input WeakIn;
        /// Weak `inout`: the task's children may read and write the region.
        weak_inout WeakInout;
    }

    /// `reduction`: the body gets a private replica, which is combined with the region's value. Elements that do not
    /// have the operation are refused at submission.
    pub fn reduction(self, op: Op) -> AnyAccess {
        // An operation that the type lacks has no mode; submission refuses the access before the mode is used.
        let mode = op.mode(self.data.dtype).unwrap_or(Mode::Inout);
        AnyAccess { region: self, mode, op: Some(op) }
    }

    /// Returns the number of elements along each dimension.
    pub fn shape(&self) -> Vec<usize> {
        self.block.extents()[..usize::from(self.data.ndim)].to_vec()
    }

    /// Returns the number of bytes of the region's elements.
    pub fn bytes(&self) -> usize {
        self.block.volume().saturating_mul(self.data.dtype.size())
    }
}

/// One access of a task, of any mode, made by methods of [`AnyRegion`]. `concurrent`, `accumulate` and `outcome` exist
/// only for typed regions.
#[derive(Debug, Clone)]
pub struct AnyAccess {
    region: AnyRegion,
    mode: Mode,
    op: Option<Op>,
}

impl Sealed for AnyAccess {}

impl Exported for AnyAccess {
    fn data_type(&self) -> Option<DlDataType> {
        self.region.data.dtype.data_type()
    }
}

impl AccessSpec for AnyAccess {
    type Stored = Stored;

    #[inline]
    fn check(&self, runtime: u64) -> Result<(), SubmitError> {
        let (cell, dtype) = (self.region.data.cell(), &self.region.data.dtype);
        check(cell, &self.region.block, self.region.data.ndim.into(), runtime)?;
        match self.op.filter(|op| op.mode(*dtype).is_none()) {
            None => Ok(()),
            Some(op) => Err(SubmitError::NoOperation {
                task: String::new().into(),
                data: cell.datum.to_string(),
                operation: format!("{op:?}").to_lowercase(),
                elements: dtype.to_string(),
            }),
        }
    }

    #[inline]
    fn record(&self) -> UntypedAccess<'_> {
        UntypedAccess(AccessRecord {
            datum: &self.region.data.cell().datum,
            block: &self.region.block,
            mode: self.mode,
        })
    }

    #[inline]
    fn store(&self, _: Internal) -> Stored {
        let AnyRegion { data, block } = &self.region;
        let combining = self.op.and_then(|op| op.store(data.cell(), block, data.dtype));
        Stored::new(data.cell(), block, self.mode, (data.dtype, data.ndim), combining)
    }

    fn kept(&self) -> Kept {
        Kept::new(self.region.data.cell(), &self.region.data.handle)
    }
}

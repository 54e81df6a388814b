//! Accesses, which are regions with a mode that a task declares.

use super::Region;
use super::handle::Kept;
use crate::depend::{AccessRecord, Mode};
use crate::error::SubmitError;
use crate::ids::DataId;
use crate::memory::dlpack::{DlDataType, DlElement};
use crate::memory::{
    Access, Accumulate, AtomicElement, Commute, Concur, DataCell, Declared, Element, Follow, In, Out, Reduce, Reducer,
    Shape, Update, WeakRead, WeakUpdate, operation,
};
use crate::region::{Block, MAX_DIMS};
use crate::sealed::{Internal, Sealed};
use ndarray::Ix1;

/// One access of a task, made by [`Region::input`] and its siblings.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::task::AccessSpec;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.scalar(1);
/// fn is_access(_: &impl AccessSpec) {}
/// let access = x.inout();
/// is_access(&access);
/// rt.task("t", (access,)).cpu(|_, (x,)| x[0] += 1).submit()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait AccessSpec: Sealed {
    /// The form that the task stores.
    type Stored: Access;
    /// Whether the body gets the failure if the value is missing.
    #[doc(hidden)]
    const IS_OUTCOME: bool = false;

    #[doc(hidden)]
    fn check(&self, runtime: u64) -> Result<(), SubmitError>;

    #[doc(hidden)]
    fn record(&self) -> UntypedAccess<'_>;

    #[doc(hidden)]
    fn store(&self, right: Internal) -> Self::Stored;

    /// Returns a share that keeps the data object registered.
    #[doc(hidden)]
    fn kept(&self) -> Kept;
}

/// An access without its types, for runtimes built on this one; see [`Accesses::visit`](super::Accesses::visit).
#[derive(Debug)]
pub struct UntypedAccess<'a>(pub(crate) AccessRecord<'a>);

impl UntypedAccess<'_> {
    /// Returns the data object's number, which no other data object of its runtime has.
    pub fn data(&self) -> DataId {
        self.0.datum.id
    }

    /// Returns the region.
    pub fn block(&self) -> Block {
        *self.0.block
    }

    /// Returns how the task accesses the region.
    pub fn mode(&self) -> Mode {
        self.0.mode
    }
}

impl<T: Element, S: Shape> Region<'_, T, S> {
    fn record(&self, mode: Mode) -> UntypedAccess<'_> {
        UntypedAccess(AccessRecord { datum: &self.data.cell.datum, block: &self.block, mode })
    }

    fn declare(&self) -> Declared<T, S> {
        Declared::new(&self.data.cell, &self.block)
    }

    /// Checks that a task of `runtime` may access this region.
    #[inline]
    pub(crate) fn check(&self, runtime: u64) -> Result<(), SubmitError> {
        check(&self.data.cell, &self.block, S::NDIM.unwrap_or(MAX_DIMS), runtime)
    }
}

/// Checks that a task of `runtime` may access a block of a data object of at most this many dimensions.
#[inline]
pub(super) fn check(cell: &DataCell, block: &Block, dimensions: usize, runtime: u64) -> Result<(), SubmitError> {
    let datum = &cell.datum;
    datum.expect_access();
    let inside = match dimensions {
        1 => block.lo()[0] <= block.hi()[0] && block.hi()[0] <= datum.shape()[0],
        _ => datum.whole().encloses(block),
    };
    if inside && cell.runtime == runtime { Ok(()) } else { refuse(cell, block, runtime) }
}

#[cold]
fn refuse(cell: &DataCell, block: &Block, runtime: u64) -> Result<(), SubmitError> {
    let task = String::new().into(); // the caller knows its name
    if cell.runtime != runtime {
        return Err(SubmitError::ForeignData { task, data: cell.datum.to_string() });
    }
    Err(SubmitError::OutOfBounds {
        task,
        data: cell.datum.to_string(),
        region: cell.datum.describe(block),
        shape: cell.datum.describe(&cell.datum.whole()),
    })
}

/// An access that [`Runtime::to_dlpack`](crate::Runtime::to_dlpack) can export: `input` or `inout` of a region.
#[doc(hidden)]
pub trait Exported: AccessSpec {
    /// Returns DLPack's description of the elements, if it has one.
    fn data_type(&self) -> Option<DlDataType>;
}

impl<T: DlElement, S: Shape> Exported for Input<'_, T, S> {
    fn data_type(&self) -> Option<DlDataType> {
        Some(T::DATA_TYPE)
    }
}

impl<T: DlElement, S: Shape> Exported for Inout<'_, T, S> {
    fn data_type(&self) -> Option<DlDataType> {
        Some(T::DATA_TYPE)
    }
}

macro_rules! specs {
    ($($(#[$doc:meta])* $name:ident => $stored:ident, $mode:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name<'d, T, S: Shape = Ix1>(pub(super) Region<'d, T, S>);

        impl<T, S: Shape> Sealed for $name<'_, T, S> {}

        impl<T: Element, S: Shape> AccessSpec for $name<'_, T, S> {
            type Stored = $stored<T, S>;

            #[inline]
            fn check(&self, runtime: u64) -> Result<(), SubmitError> {
                self.0.check(runtime)
            }

            #[inline]
            fn record(&self) -> UntypedAccess<'_> {
                self.0.record($mode)
            }

            #[inline]
            fn store(&self, _: Internal) -> Self::Stored {
                $stored(self.0.declare())
            }

            fn kept(&self) -> Kept {
                self.0.data.kept()
            }
        }
    )*};
}

specs! {
    /// A region that the task reads.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// use thalweg::task::Input;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.data(vec![1; 4]);
    /// let access: Input<'_, i32> = x.input();
    /// rt.task("t", (access,)).cpu(|_, (x,)| assert_eq!(x, [1; 4])).submit()?;
    /// assert_eq!(rt.take(x)?, [1; 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Input => In, Mode::In;
    /// A region that the task overwrites.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// use thalweg::task::Output;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.data(vec![1; 4]);
    /// let access: Output<'_, i32> = x.output();
    /// rt.task("t", (access,)).cpu(|_, (x,)| x.fill(2)).submit()?;
    /// assert_eq!(rt.take(x)?, [2; 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Output => Out, Mode::Out;
    /// A region that the task reads and writes.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// use thalweg::task::Inout;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.data(vec![1; 4]);
    /// let access: Inout<'_, i32> = x.inout();
    /// rt.task("t", (access,)).cpu(|_, (x,)| x[0] += 1).submit()?;
    /// assert_eq!(rt.take(x)?, [2, 1, 1, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Inout => Update, Mode::Inout;
    /// A region that the task updates in any order with other commutative tasks, one at a time.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// use thalweg::task::Commutative;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.data(vec![1; 4]);
    /// let access: Commutative<'_, i32> = x.commutative();
    /// rt.task("t", (access,)).cpu(|_, (x,)| x[0] += 1).submit()?;
    /// assert_eq!(rt.take(x)?, [2, 1, 1, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Commutative => Commute, Mode::Commutative;
    /// A region of which the task gets no view, but whose writers it comes after.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// use thalweg::task::After;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.data(vec![1; 4]);
    /// let access: After<'_, i32> = x.after();
    /// rt.task("t", (access,)).cpu(|_, ((),)| println!("x is written")).submit()?;
    /// assert_eq!(rt.take(x)?, [1; 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    After => Follow, Mode::After;
    /// A region that the task's children read.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// use thalweg::task::WeakInput;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.data(vec![1; 4]);
    /// let (access, child): (WeakInput<'_, i32>, _) = (x.weak_input(), x.clone());
    /// rt.task("t", (access,))
    ///     .cpu(move |cx, ((),)| cx.task("child", (child.input(),)).cpu(|_, (x,)| assert_eq!(x, [1; 4])).submit().map(drop))
    ///     .submit()?;
    /// assert_eq!(rt.take(x)?, [1; 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    WeakInput => WeakRead, Mode::WeakIn;
    /// A region that the task's children read and write.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// use thalweg::task::WeakInout;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.data(vec![1; 4]);
    /// let (access, child): (WeakInout<'_, i32>, _) = (x.weak_inout(), x.clone());
    /// rt.task("t", (access,))
    ///     .cpu(move |cx, ((),)| cx.task("child", (child.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().map(drop))
    ///     .submit()?;
    /// assert_eq!(rt.take(x)?, [2, 1, 1, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    WeakInout => WeakUpdate, Mode::WeakInout;
}

/// A region whose elements the task updates atomically, concurrently with other tasks.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
/// let hits = rt.data(vec![0u64; 3]);
/// for n in 0..30 {
///     rt.task("hit", (hits.concurrent(),)).cpu(move |_, (hits,)| hits.update(n % 3, |n| n + 1)).submit()?;
/// }
/// assert_eq!(rt.take(hits)?, [10; 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Concurrent<'d, T, S: Shape = Ix1>(pub(super) Region<'d, T, S>);

impl<T, S: Shape> Sealed for Concurrent<'_, T, S> {}

impl<T: AtomicElement, S: Shape> AccessSpec for Concurrent<'_, T, S> {
    type Stored = Concur<T, S>;

    fn check(&self, runtime: u64) -> Result<(), SubmitError> {
        self.0.check(runtime)?;
        let datum = &self.0.data.cell.datum;
        if self.0.data.cell.is_contiguous(&self.0.block) {
            return Ok(());
        }
        let (task, region) = (String::new(), datum.describe(&self.0.block));
        Err(SubmitError::NotContiguous { task: task.into(), data: datum.to_string(), region })
    }

    fn record(&self) -> UntypedAccess<'_> {
        self.0.record(Mode::Concurrent)
    }

    fn store(&self, _: Internal) -> Self::Stored {
        Concur(self.0.declare())
    }

    fn kept(&self) -> Kept {
        self.0.data.kept()
    }
}

macro_rules! combined {
    ($($(#[$doc:meta])* $name:ident => $stored:ident $(.$how:ident())?;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name<'d, T, S: Shape, R>(pub(super) Region<'d, T, S>, pub(super) R);

        impl<T, S: Shape, R> Sealed for $name<'_, T, S, R> {}

        impl<T: Element, S: Shape, R: Reducer<T>> AccessSpec for $name<'_, T, S, R> {
            type Stored = $stored<T, S, R>;

            fn check(&self, runtime: u64) -> Result<(), SubmitError> {
                self.0.check(runtime)
            }

            fn record(&self) -> UntypedAccess<'_> {
                self.0.record(Mode::Reduction(operation(&self.1)$(.$how())?))
            }

            fn store(&self, _: Internal) -> Self::Stored {
                $stored::new(self.0.declare(), self.1.clone())
            }

            fn kept(&self) -> Kept {
                self.0.data.kept()
            }
        }
    )*};
}

combined! {
    /// A region to which the task contributes, using an associative operation.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let sum = rt.scalar(0.0);
    /// for x in [1.0, 2.0, 3.0] {
    ///     rt.task("add", (sum.reduction(Sum),)).cpu(move |_, (sum,)| sum[0] += x).submit()?;
    /// }
    /// assert_eq!(rt.read(&sum)?[0], 6.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Reducing => Reduce;
    /// A region to which the task adds, using an operation. Several tasks add to the same replica, one after the other.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let histogram = rt.data(vec![0u32; 4]);
    /// for n in 0..100 {
    ///     rt.task("count", (histogram.accumulate(Sum),)).cpu(move |_, (counts,)| counts[n % 4] += 1).submit()?;
    /// }
    /// assert_eq!(rt.take(histogram)?, [25; 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    Accumulating => Accumulate.accumulated();
}

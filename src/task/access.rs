//! Regions with a mode: what a task declares.

use super::Region;
use crate::depend::{AccessRecord, Mode};
use crate::error::SubmitError;
use crate::memory::{
    Access, Accumulate, AtomicElement, Commute, Concur, Declared, Element, Follow, In, Out, Reduce, Reducer, Shape,
    Update, operation,
};
use crate::sealed::{Internal, Sealed};
use ndarray::Ix1;

/// One access of a task: what [`Region::input`] and its siblings make.
pub trait AccessSpec: Sealed {
    /// What the task keeps of it.
    type Stored: Access;

    #[doc(hidden)]
    fn check(&self, runtime: u64) -> Result<(), SubmitError>;

    #[doc(hidden)]
    fn record(&self) -> Recorded<'_>;

    #[doc(hidden)]
    fn store(&self, right: Internal) -> Self::Stored;
}

/// An access as the dependence layer sees it, wrapped so that the public trait can mention it.
#[doc(hidden)]
#[derive(Debug)]
pub struct Recorded<'a>(pub(crate) AccessRecord<'a>);

impl<T: Element, S: Shape> Region<'_, T, S> {
    fn record(&self, mode: Mode) -> Recorded<'_> {
        Recorded(AccessRecord { datum: &self.data.cell.datum, block: &self.block, mode })
    }

    fn declare(&self) -> Declared<T, S> {
        Declared::new(&self.data.cell, &self.block)
    }

    /// Whether a task of `runtime` may access this region.
    #[inline]
    pub(crate) fn check(&self, runtime: u64) -> Result<(), SubmitError> {
        let datum = &self.data.cell.datum;
        datum.expect_access();
        let inside = match S::NDIM {
            Some(1) => self.block.lo()[0] <= self.block.hi()[0] && self.block.hi()[0] <= datum.shape()[0],
            _ => datum.whole().encloses(&self.block),
        };
        if inside && self.data.cell.runtime == runtime && !datum.is_taken() { Ok(()) } else { self.refuse(runtime) }
    }

    #[cold]
    fn refuse(&self, runtime: u64) -> Result<(), SubmitError> {
        let (cell, task) = (&*self.data.cell, String::new()); // who it is, the caller knows
        if cell.runtime != runtime {
            return Err(SubmitError::ForeignData { task, data: cell.datum.to_string() });
        }
        if cell.datum.is_taken() {
            return Err(SubmitError::Taken { task, data: cell.datum.to_string() });
        }
        Err(SubmitError::OutOfBounds {
            task,
            data: cell.datum.to_string(),
            region: cell.datum.describe(&self.block),
            shape: cell.datum.describe(&cell.datum.whole()),
        })
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
            fn record(&self) -> Recorded<'_> {
                self.0.record($mode)
            }

            #[inline]
            fn store(&self, _: Internal) -> Self::Stored {
                $stored(self.0.declare())
            }
        }
    )*};
}

specs! {
    /// A region that the task reads.
    Input => In, Mode::In;
    /// A region that the task overwrites.
    Output => Out, Mode::Out;
    /// A region that the task reads and writes.
    Inout => Update, Mode::Inout;
    /// A region that the task updates in any order with others, one at a time.
    Commutative => Commute, Mode::Commutative;
    /// A region that the task comes after the writers of, without a view of it.
    After => Follow, Mode::After;
}

/// A region whose elements the task updates atomically, together with others.
#[derive(Debug, Clone)]
pub struct Concurrent<'d, T, S: Shape = Ix1>(pub(super) Region<'d, T, S>);

impl<T, S: Shape> Sealed for Concurrent<'_, T, S> {}

impl<T: AtomicElement, S: Shape> AccessSpec for Concurrent<'_, T, S> {
    type Stored = Concur<T, S>;

    fn check(&self, runtime: u64) -> Result<(), SubmitError> {
        self.0.check(runtime)?;
        let datum = &self.0.data.cell.datum;
        if self.0.block.is_contiguous_in(&datum.whole()) {
            return Ok(());
        }
        let (task, region) = (String::new(), datum.describe(&self.0.block));
        Err(SubmitError::NotContiguous { task, data: datum.to_string(), region })
    }

    fn record(&self) -> Recorded<'_> {
        self.0.record(Mode::Concurrent)
    }

    fn store(&self, _: Internal) -> Self::Stored {
        Concur(self.0.declare())
    }
}

/// A region that the task contributes to by an associative operation.
#[derive(Debug, Clone)]
pub struct Reducing<'d, T, S: Shape, R>(pub(super) Region<'d, T, S>, pub(super) R);

impl<T, S: Shape, R> Sealed for Reducing<'_, T, S, R> {}

impl<T: Element, S: Shape, R: Reducer<T>> AccessSpec for Reducing<'_, T, S, R> {
    type Stored = Reduce<T, S, R>;

    fn check(&self, runtime: u64) -> Result<(), SubmitError> {
        self.0.check(runtime)
    }

    fn record(&self) -> Recorded<'_> {
        self.0.record(Mode::Reduction(operation(&self.1)))
    }

    fn store(&self, _: Internal) -> Self::Stored {
        Reduce::new(self.0.declare(), self.1.clone())
    }
}

/// A region that the task adds to by an operation, together with others that add to the same replica one after the other.
#[derive(Debug, Clone)]
pub struct Accumulating<'d, T, S: Shape, R>(pub(super) Region<'d, T, S>, pub(super) R);

impl<T, S: Shape, R> Sealed for Accumulating<'_, T, S, R> {}

impl<T: Element, S: Shape, R: Reducer<T>> AccessSpec for Accumulating<'_, T, S, R> {
    type Stored = Accumulate<T, S, R>;

    fn check(&self, runtime: u64) -> Result<(), SubmitError> {
        self.0.check(runtime)
    }

    fn record(&self) -> Recorded<'_> {
        self.0.record(Mode::Reduction(operation(&self.1).accumulated()))
    }

    fn store(&self, _: Internal) -> Self::Stored {
        Accumulate::new(self.0.declare(), self.1.clone())
    }
}

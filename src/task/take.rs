//! What can be taken back from a runtime, and what is left of a `take` that failed.

use super::{Data, Value};
use crate::error::RunError;
use crate::memory::{DataCell, Element, Home, Shape};
use crate::sealed::{Internal, Sealed};
use std::fmt;
use std::sync::Arc;

/// What [`Runtime::take`](crate::Runtime::take) gives back: arrays, as vectors or ndarray's arrays, and values.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::task::Take;
/// fn both<A: Take, B: Take>(rt: &Runtime, a: A, b: B) -> Result<(A::Taken, B::Taken), RunError> {
///     Ok((rt.take(a)?, rt.take(b)?))
/// }
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// assert_eq!(both(&rt, rt.data(vec![1, 2]), rt.value("three"))?, (vec![1, 2], "three"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Take: Sealed + Sized {
    /// What is given back.
    type Taken;

    #[doc(hidden)]
    fn registered(&self) -> Registered<'_>;

    #[doc(hidden)]
    fn open(&self, home: GivenUp, right: Internal) -> Self::Taken;
}

/// A data object, wrapped so that the public trait can mention it.
#[doc(hidden)]
#[derive(Debug)]
pub struct Registered<'a>(pub(crate) &'a Arc<DataCell>);

/// What a data object had at home, if it was any memory, wrapped as [`Registered`] is.
#[doc(hidden)]
#[derive(Debug)]
pub struct GivenUp(pub(crate) Option<Home>);

impl<T: Element, S: Shape> Take for Data<T, S> {
    type Taken = S::Owned<T>;

    fn registered(&self) -> Registered<'_> {
        Registered(&self.cell)
    }

    fn open(&self, GivenUp(home): GivenUp, _: Internal) -> S::Owned<T> {
        let elements = home.map_or_else(|| bytemuck::zeroed_vec(self.len()), Home::into_vec);
        S::from_vec(elements, &self.shape())
    }
}

impl<T> Sealed for Value<T> {}

impl<T: Send + Sync + 'static> Take for Value<T> {
    type Taken = T;

    fn registered(&self) -> Registered<'_> {
        Registered(&self.cell)
    }

    fn open(&self, GivenUp(home): GivenUp, _: Internal) -> T {
        home.expect("a value is at home until it is taken").into_value()
    }
}

/// Why an array or a value could not be taken, and its handle: it is still registered.
///
/// With `?` it becomes a [`RunError`], which lets go of the handle.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.data(vec![1u8; 4]);
/// rt.task("fails", (x.slice(..1).inout(),)).cpu(|_, _| Err("no")).submit()?;
/// let x = match rt.take(x) {
///     Ok(whole) => whole,
///     Err(failed) => {
///         eprintln!("{failed}");
///         let x = failed.into_data();
///         rt.clear(&x.slice(..1))?;
///         rt.take(x)?
///     }
/// };
/// assert_eq!(x, [0, 1, 1, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TakeError<O>(Box<(O, RunError)>);

impl<O> TakeError<O> {
    pub(crate) fn new(data: O, error: RunError) -> Self {
        Self(Box::new((data, error)))
    }

    /// Why.
    pub fn error(&self) -> &RunError {
        &self.0.1
    }

    /// The handle.
    pub fn into_data(self) -> O {
        self.0.0
    }

    /// The handle and why.
    pub fn into_parts(self) -> (O, RunError) {
        *self.0
    }
}

impl<O> From<TakeError<O>> for RunError {
    fn from(failed: TakeError<O>) -> Self {
        failed.0.1
    }
}

impl<O: fmt::Debug> std::error::Error for TakeError<O> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.1.source()
    }
}

impl<O> fmt::Display for TakeError<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.1, f)
    }
}

impl<O: fmt::Debug> fmt::Debug for TakeError<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakeError").field("data", &self.0.0).field("error", &self.0.1).finish()
    }
}

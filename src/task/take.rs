//! What is left of a `take` that failed.

use super::Data;
use crate::error::RunError;
use crate::memory::Shape;
use std::fmt;

/// Why a data object could not be taken, and its handle: it is still registered.
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
pub struct TakeError<T, S: Shape>(Box<(Data<T, S>, RunError)>);

impl<T, S: Shape> TakeError<T, S> {
    pub(crate) fn new(data: Data<T, S>, error: RunError) -> Self {
        Self(Box::new((data, error)))
    }

    /// Why.
    pub fn error(&self) -> &RunError {
        &self.0.1
    }

    /// The data object's handle.
    pub fn into_data(self) -> Data<T, S> {
        self.0.0
    }

    /// The handle and why.
    pub fn into_parts(self) -> (Data<T, S>, RunError) {
        *self.0
    }
}

impl<T, S: Shape> From<TakeError<T, S>> for RunError {
    fn from(failed: TakeError<T, S>) -> Self {
        failed.0.1
    }
}

impl<T, S: Shape> std::error::Error for TakeError<T, S> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.1.source()
    }
}

impl<T, S: Shape> fmt::Display for TakeError<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.1, f)
    }
}

impl<T, S: Shape> fmt::Debug for TakeError<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakeError").field("data", &self.0.0).field("error", &self.0.1).finish()
    }
}

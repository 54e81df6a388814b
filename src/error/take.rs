//! The error of `take`, with the handle that it was called with.

use super::RunError;
use std::fmt;

/// The reason why an array or a value could not be taken, with its handle, because the object is still registered.
///
/// The `?` operator converts it into a [`RunError`], which drops the handle.
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

    /// Returns the reason.
    pub fn error(&self) -> &RunError {
        &self.0.1
    }

    /// Returns the handle.
    pub fn into_data(self) -> O {
        self.0.0
    }

    /// Returns the handle and the reason.
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

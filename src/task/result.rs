//! Accesses to what other tasks return.

use super::access::Recorded;
use super::accesses::{Accesses, Predecessor};
use super::handle::Kept;
use crate::error::SubmitError;
use crate::memory::{Promise, ReadResult};
use crate::sealed::{Internal, Sealed};
use std::fmt;

/// The result of an earlier task, which the task reads: what [`Pending::input`](crate::Pending::input) makes.
///
/// The body gets `&R`, bodies for accelerators too: what they pass to kernels may be results.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::task::ResultInput;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let text = rt.task("say", ()).returns(|_, ()| "hello".to_owned()).submit()?;
/// let access: ResultInput<'_, String> = text.input();
/// rt.task("print", access).cpu(|_, text| println!("{text}")).submit()?;
/// rt.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ResultInput<'p, R> {
    promise: &'p Promise<R>,
    /// Where the task was submitted that returns it.
    runtime: u64,
}

impl<'p, R> ResultInput<'p, R> {
    pub(crate) fn new(promise: &'p Promise<R>, runtime: u64) -> Self {
        Self { promise, runtime }
    }
}

impl<R> Sealed for ResultInput<'_, R> {}

impl<R: Send + Sync + 'static> Accesses for ResultInput<'_, R> {
    type Stored = ReadResult<R>;

    const COUNT: Option<usize> = Some(0);
    const HAS_RESULTS: bool = true;

    fn check(&self, runtime: u64) -> Result<(), SubmitError> {
        if self.runtime == runtime {
            return Ok(());
        }
        let producer = self.promise.task().shared().name.clone().into_owned();
        Err(SubmitError::ForeignResult { task: String::new(), producer }) // the caller knows the task's name
    }

    #[inline]
    fn visit<'a>(&'a self, _: &mut dyn FnMut(Recorded<'a>)) {}

    #[inline]
    fn predecessors<'a>(&'a self, visit: &mut dyn FnMut(Predecessor<'a>)) {
        visit(Predecessor(self.promise.task()));
    }

    #[inline]
    fn store(&self, _: Internal) -> ReadResult<R> {
        self.promise.read()
    }

    fn kept(&self, _: &mut dyn FnMut(Kept)) {}
}

impl<R> Clone for ResultInput<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for ResultInput<'_, R> {}

impl<R> fmt::Debug for ResultInput<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "result of {}", self.promise.task().shared().id)
    }
}

//! Errors of calls that wait.

use super::{Failures, SubmitError, TaskFailure};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The error of a waiting call.
///
/// Its [source](Error::source) is the failure, or the first failure if there are several. The failure's source is the
/// error that the body returned.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.scalar(1);
/// rt.task("fails", (x.inout(),)).cpu(|_, _| Err("no")).submit()?;
/// assert!(matches!(rt.read(&x), Err(RunError::Poisoned(cause)) if cause.name() == "fails"));
/// assert!(matches!(rt.wait(), Err(RunError::Failed(_))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// Tasks or the scheduler's policy failed; all other tasks have run.
    Failed(Failures),
    /// The requested region was not written because of this failure.
    Poisoned(Arc<TaskFailure>),
    /// The task that should have returned the result failed or was skipped, because of this failure.
    NoResult {
        /// The name of the task that should have returned the result.
        task: String,
        /// The failure of that task, or of an earlier task.
        failure: Arc<TaskFailure>,
    },
    /// A simulation runs no bodies, so there is no result.
    NotComputed {
        /// The name of the task that would return the result.
        task: String,
    },
    /// The request itself was refused.
    Refused(SubmitError),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(failures) => write!(f, "{}{failures}", failures.heading()),
            Self::Poisoned(failure) => write!(
                f,
                "cannot return the region's value, which was lost: {failure}; try overwriting the region, or `clear` or \
                 `accept`"
            ),
            Self::NoResult { task, failure } => write!(f, "cannot return the result of task `{task}`: {failure}"),
            Self::NotComputed { task } => {
                write!(f, "cannot return the result of task `{task}`: a simulation runs no bodies; try `Pending::wait`")
            }
            Self::Refused(refusal) => fmt::Display::fmt(refusal, f),
        }
    }
}

/// Written by hand, because a derived source would be the `Arc`, in which `downcast_ref` does not find a
/// [`TaskFailure`].
impl Error for RunError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Failed(failures) => failures.first().map(|failure| &**failure as _),
            Self::Poisoned(failure) | Self::NoResult { failure, .. } => Some(&**failure),
            Self::NotComputed { .. } => None,
            Self::Refused(refusal) => refusal.source(),
        }
    }
}

impl From<SubmitError> for RunError {
    fn from(refusal: SubmitError) -> Self {
        Self::Refused(refusal)
    }
}

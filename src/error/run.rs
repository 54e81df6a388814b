//! Errors of calls that wait.

use super::{Failures, SubmitError, TaskFailure};
use std::sync::Arc;

/// What a waiting call reports.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.scalar(1);
/// rt.task("fails", (x.inout(),)).cpu(|_, _| Err("no")).submit()?;
/// assert!(matches!(rt.read_scalar(&x), Err(RunError::Poisoned(cause)) if cause.name() == "fails"));
/// assert!(matches!(rt.wait(), Err(RunError::Failed(_))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Tasks failed, or the scheduler's policy; all others ran.
    #[error("{heading}{0}", heading = .0.heading())]
    Failed(Failures),
    /// The region asked for was not written because of this failure.
    #[error("cannot give the region's value, which was lost: {0}; try overwriting the region, or `clear` or `accept`")]
    Poisoned(Arc<TaskFailure>),
    /// The task that should have returned the result failed, or was skipped because of this failure.
    #[error("cannot give the result of task `{task}`: {failure}")]
    NoResult {
        /// The name of the task that was to return it.
        task: String,
        /// What failed: that task, or one before it.
        #[source]
        failure: Arc<TaskFailure>,
    },
    /// In a simulation no body is run, so there is no result.
    #[error("cannot give the result of task `{task}`: in a simulation no body is run; try `Pending::wait`")]
    NotComputed {
        /// The name of the task that would return it.
        task: String,
    },
    /// The request itself was refused.
    #[error(transparent)]
    Refused(#[from] SubmitError),
}

//! Errors of a cluster: failures of tasks as all ranks name them, and reasons why a cluster cannot continue.
//!
//! A failure travels as text: the error values of a body stay on the rank that made them. Two failures are the same if
//! the same task of the program failed, so each rank reports each failure once.

use crate::shared::{Shared, lock};
use std::fmt;
use std::sync::Arc;
use thalweg::error::{BuildError, FailureReason, RunError, SubmitError, TaskFailure};

/// The failure of a task of the program, as every rank reports it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failure {
    pub(crate) index: u64,
    pub(crate) rank: u32,
    pub(crate) name: String,
    pub(crate) place: String,
    pub(crate) reason: String,
}

impl Failure {
    /// The rank on which the task ran.
    pub fn rank(&self) -> usize {
        self.rank as usize
    }

    /// The task's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The place of its submission: file, line and column.
    pub fn submitted_at(&self) -> &str {
        &self.place
    }

    /// The cause, as in "panicked: index out of bounds".
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns the failure that the runtime of this rank reports.
    pub(crate) fn of(failure: &TaskFailure, rank: u32, shared: &Shared) -> Self {
        if let FailureReason::Returned(error) = failure.reason()
            && let Some(known) = error.downcast_ref::<Self>()
        {
            return known.clone();
        }
        let (index, place) = (lock(&shared.origins).of(failure.task()), failure.submitted_at().to_string());
        Self { index, rank, name: failure.name().to_owned(), place, reason: failure.reason().to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task `{}` on rank {}, submitted at {}, {}", self.name, self.rank, self.place, self.reason)
    }
}

impl std::error::Error for Failure {}

/// The failures of all ranks since the last wait, in the order of submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failures(pub(crate) Vec<Failure>);

impl std::ops::Deref for Failures {
    type Target = [Failure];

    fn deref(&self) -> &[Failure] {
        &self.0
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed", if self.0.len() == 1 { "a task" } else { "several tasks" })?;
        self.0.iter().try_for_each(|failure| write!(f, "; {failure}"))
    }
}

/// The reason why a cluster has ended before its program: no rank can continue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Broken {
    /// A rank has died, left the program early or cannot be reached.
    #[error("cannot continue: rank {rank} is lost: {reason}; try the output of that rank")]
    Lost {
        /// The rank.
        rank: usize,
        /// Details of its end.
        reason: String,
    },
    /// The ranks have submitted different programs.
    #[error("cannot continue: the ranks submit different programs: {0}; try submitting the same tasks on every rank")]
    Diverged(String),
}

/// Errors of calls of a [`Cluster`](crate::Cluster).
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// Tasks have failed since the last wait, on any rank. Every rank gets the same failures.
    #[error("{0}")]
    Failed(Failures),
    /// The value that was to be read is missing.
    #[error("cannot return the value, which was lost: {0}; try overwriting the region")]
    Poisoned(Box<Failure>),
    /// The cluster cannot continue.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// The arguments of a call are wrong. Nothing has been submitted.
    #[error("cannot submit `{task}`: {problem}")]
    Refused {
        /// The task's name, or that of the call.
        task: String,
        /// The mistake, with advice.
        problem: String,
    },
    /// The runtime of this rank has refused a task.
    #[error("{0}")]
    Submit(Arc<SubmitError>),
    /// The runtime of this rank cannot be built.
    #[error("{0}")]
    Build(Arc<BuildError>),
    /// The transport cannot be opened.
    #[error("cannot open the transport: {0}")]
    Transport(String),
}

impl From<SubmitError> for ClusterError {
    fn from(error: SubmitError) -> Self {
        Self::Submit(Arc::new(error))
    }
}

impl ClusterError {
    /// Converts the error of a local read on this rank.
    pub(crate) fn of_read(error: &RunError, rank: u32, shared: &Shared) -> Self {
        match error {
            RunError::Poisoned(failure) => Self::Poisoned(Box::new(Failure::of(failure, rank, shared))),
            other => Self::Refused { task: "read".to_owned(), problem: other.to_string() },
        }
    }
}

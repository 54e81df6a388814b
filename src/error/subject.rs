//! The subject of a refusal: a task, a loop or a request.

use super::{RunError, SubmitError};
use crate::sync::CallSite;
use std::fmt;
use std::ops::Deref;

/// A refused task, loop or request, identified by its name and the call in the program.
///
/// `Display` writes both. Two subjects are equal if their names are.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let line = line!() + 1;
/// let refused = rt.task("bare", ()).submit().unwrap_err();
/// let SubmitError::NoBody { task } = &refused else { unreachable!() };
/// assert_eq!((task.name(), task.called_at().unwrap().line()), ("bare", line));
/// assert!(refused.to_string().contains(&format!("cannot submit task `bare` at {}:{line}:", file!())));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Subject {
    name: Box<str>,
    at: Option<CallSite>,
}

impl Subject {
    /// Returns the name of the task or the request.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the call that submits the task or makes the request; `None` if the refusal has not reached that call
    /// yet.
    pub fn called_at(&self) -> Option<CallSite> {
        self.at
    }
}

impl Deref for Subject {
    type Target = str;

    fn deref(&self) -> &str {
        &self.name
    }
}

impl PartialEq for Subject {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl PartialEq<str> for Subject {
    fn eq(&self, other: &str) -> bool {
        &*self.name == other
    }
}

impl PartialEq<&str> for Subject {
    fn eq(&self, other: &&str) -> bool {
        &*self.name == *other
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.name)?;
        self.at.map_or(Ok(()), |at| write!(f, " at {at}"))
    }
}

impl fmt::Debug for Subject {
    /// Like `Display`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<N: Into<Box<str>>> From<N> for Subject {
    fn from(name: N) -> Self {
        Self { name: name.into(), at: None }
    }
}

impl SubmitError {
    /// Sets the name of the task whose accesses are refused.
    #[cold]
    pub(crate) fn of_task(mut self, name: &str) -> Self {
        if let Some(subject) = self.subject() {
            subject.name = name.into();
        }
        self
    }

    /// Returns the refused task or request, if the refusal is about one.
    fn subject(&mut self) -> Option<&mut Subject> {
        match self {
            Self::OutOfBounds { task, .. }
            | Self::Cost { task, .. }
            | Self::Resource { task, .. }
            | Self::NotContiguous { task, .. }
            | Self::NoOperation { task, .. }
            | Self::OverlappingAccesses { task, .. }
            | Self::ForeignData { task, .. }
            | Self::ForeignResult { task, .. }
            | Self::RecordedResult { task }
            | Self::RecordedOutcome { task }
            | Self::Taken { task, .. }
            | Self::NoBody { task }
            | Self::NoUnit { task, .. }
            | Self::ValueOnDevice { task, .. }
            | Self::ResultOnDevice { task }
            | Self::OutcomeOnDevice { task }
            | Self::WorkingSet { task, .. }
            | Self::ReductionAcrossDevices { task, .. }
            | Self::Device { task, .. }
            | Self::RegionTooLarge { task, .. }
            | Self::Index { task, .. }
            | Self::Lengths { task, .. }
            | Self::NoLength { task }
            | Self::Split { task, .. }
            | Self::Uncovered { task, .. }
            | Self::NoParent { task }
            | Self::Nested { task, .. }
            | Self::Cancelled { task }
            | Self::ForeignGroup { task } => Some(task),
            _ => None,
        }
    }
}

impl fmt::Debug for SubmitError {
    /// Like `Display`, so that `unwrap` shows a sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Results whose refusals record the call site in the program.
pub(crate) trait Called: Sized {
    /// Sets the call site of a refusal, unless it is already set.
    fn called_at(self, at: CallSite) -> Self;

    /// Sets the call site of a refusal to the caller of the surrounding function, which must be `#[track_caller]`.
    #[track_caller]
    #[inline]
    fn called_here(self) -> Self {
        self.called_at(CallSite::caller())
    }
}

impl Called for SubmitError {
    #[cold]
    fn called_at(mut self, at: CallSite) -> Self {
        if let Some(subject) = self.subject() {
            subject.at.get_or_insert(at);
        }
        self
    }
}

impl<T> Called for Result<T, SubmitError> {
    #[inline]
    fn called_at(self, at: CallSite) -> Self {
        self.map_err(|refusal| refusal.called_at(at))
    }
}

impl<T> Called for Result<T, RunError> {
    #[inline]
    fn called_at(self, at: CallSite) -> Self {
        self.map_err(|error| match error {
            RunError::Refused(refusal) => RunError::Refused(refusal.called_at(at)),
            other => other,
        })
    }
}

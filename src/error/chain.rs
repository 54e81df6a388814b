//! Chains of failures, which arise when a task waits for another task and returns that task's failure as its own, and
//! so on.
//!
//! A chain can be arbitrarily long. A failure therefore keeps at most [`MOST_KEPT`] of the failures before it, and the
//! very first failure; its text says how many are left out. User errors in between are kept, whatever they own.
//! Failures are dropped one after another, and the nesting of their texts is limited, so the stack need not be as deep
//! as a chain is long.

use super::{BoxError, FailureReason, Failures, RunError, TaskFailure};
use crate::sync::DeferredDrop;
use std::cell::Cell;
use std::error::Error;
use std::slice;
use std::sync::Arc;

/// The maximum number of nested failures that a failure may keep.
pub(super) const MOST_KEPT: usize = 16;
/// The maximum number of errors between a failure and the failure that it passes on.
const MOST_WRAPPED: usize = 16;

/// The failures that led to another failure.
pub(super) struct Chain {
    /// The number of failures before this failure along the longest path.
    pub(super) tasks: usize,
    /// The first failure of the chain; `None` if only its text was passed on.
    pub(super) first: Option<Arc<TaskFailure>>,
    /// The number of nested failures that are still kept.
    kept: usize,
    /// Whether all failures between this failure and the first were left out.
    pub(super) is_cut: bool,
}

impl Chain {
    /// Returns the chain that a reason continues, and the reason cut to the limit.
    pub(super) fn of(mut reason: FailureReason) -> (FailureReason, Option<Self>) {
        let FailureReason::Returned(error) = &mut reason else { return (reason, None) };
        let Some(mut chain) = passed_on(&**error) else { return (reason, None) };
        if chain.kept > MOST_KEPT
            && let Some(error) = error.downcast_mut::<RunError>()
        {
            for cause in causes_mut(error) {
                if let Some(first) = cause.chain().and_then(|chain| chain.first.clone()) {
                    *cause = first;
                }
            }
            if let RunError::Failed(Failures(failures)) = error {
                let mut known = rustc_hash::FxHashSet::default();
                failures.retain(|failure| known.insert(Arc::as_ptr(failure)));
            }
            chain.is_cut = true;
            chain.kept = causes(error).iter().map(|cause| kept(cause)).max().unwrap_or(0) + 1;
        }
        (reason, Some(chain))
    }

    /// Drops an error that may own other failures.
    pub(super) fn drop_error(error: BoxError) {
        thread_local! {
            static ERRORS: DeferredDrop<BoxError> = const { DeferredDrop::new() };
        }
        DeferredDrop::drop(&ERRORS, error);
    }
}

fn kept(failure: &TaskFailure) -> usize {
    failure.chain().map_or(0, |chain| chain.kept)
}

/// Returns the chain that leads to an error which is, or wraps, another task's failure.
fn passed_on(error: &(dyn Error + 'static)) -> Option<Chain> {
    let mut error = Some(error);
    for _ in 0..MOST_WRAPPED {
        let cause = error?;
        let causes = match cause.downcast_ref::<RunError>() {
            Some(error) => causes(error),
            None => cause.downcast_ref::<Arc<TaskFailure>>().map_or(&[][..], slice::from_ref),
        };
        let deepest = causes.iter().max_by_key(|cause| cause.chain().map_or(0, |chain| chain.tasks));
        if let Some(deepest) = deepest {
            let first = deepest.chain().map_or(Some(deepest), |chain| chain.first.as_ref());
            let tasks = deepest.chain().map_or(0, |chain| chain.tasks) + 1;
            let kept = causes.iter().map(|cause| kept(cause)).max().unwrap_or(0) + 1;
            return Some(Chain { tasks, first: first.cloned(), kept, is_cut: false });
        }
        if let Some(failure) = cause.downcast_ref::<TaskFailure>() {
            let (tasks, first) = failure.chain().map_or((0, None), |chain| (chain.tasks, chain.first.clone()));
            return Some(Chain { tasks: tasks + 1, first, kept: kept(failure) + 1, is_cut: false });
        }
        error = cause.source();
    }
    None
}

/// Returns the failures that an error of a waiting call reports.
fn causes(error: &RunError) -> &[Arc<TaskFailure>] {
    match error {
        RunError::Failed(failures) => &failures.0,
        RunError::Poisoned(failure) | RunError::NoResult { failure, .. } => slice::from_ref(failure),
        RunError::NotComputed { .. } | RunError::Refused(_) => &[],
    }
}

fn causes_mut(error: &mut RunError) -> &mut [Arc<TaskFailure>] {
    match error {
        RunError::Failed(failures) => &mut failures.0,
        RunError::Poisoned(failure) | RunError::NoResult { failure, .. } => slice::from_mut(failure),
        RunError::NotComputed { .. } | RunError::Refused(_) => &mut [],
    }
}

/// The nesting depth of failure texts on this thread. Without a limit, the text of each failure in a recursion would be
/// longer the deeper the failure is.
pub(super) struct Level(usize);

impl Level {
    /// At this depth, the text of a chain continues with its first failure.
    const MOST: usize = 8;
    /// At this depth, the text ends, whatever a user error contains.
    const LIMIT: usize = 2 * Self::MOST;

    pub(super) fn enter() -> Self {
        Self(LEVEL.replace(LEVEL.get() + 1))
    }

    pub(super) fn is_last(&self) -> bool {
        self.0 + 1 >= Self::MOST
    }

    pub(super) fn is_beyond(&self) -> bool {
        self.0 + 1 >= Self::LIMIT
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        LEVEL.set(self.0);
    }
}

thread_local! {
    static LEVEL: Cell<usize> = const { Cell::new(0) };
}

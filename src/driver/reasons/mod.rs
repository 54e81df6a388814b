//! Textual explanations of why a task has not ended.
//!
//! A task does not record what it waits for, because every task would have to pay for that. Instead, an explanation is
//! searched for on request: a [scan](scan) begins at all tasks that run or wait in a queue, and follows the edges
//! forward to the task in question. From there the chain is read backwards, up to a task that waits for no other task:
//! that task is running, or it waits for its turn, for memory, for copies, or for a unit ([`words`]). If its body in
//! turn waits for something, the search continues from there.
//!
//! Tasks pay nothing for this. While a scan inspects a task, the thread that runs the task may have to wait before it
//! can end the task; a scan therefore visits only a limited number of tasks.
//!
//! A scan is not a snapshot: tasks move while the scan goes from queue to queue. If a scan misses a task for that
//! reason, the next scan finds it.
//!
//! Each file uses only files that precede it in this list: [`scan`], [`words`], [`chain`], [`pending`], and this file.

mod chain;
mod pending;
mod scan;
mod words;

pub(crate) use chain::explain;
pub(crate) use pending::explain_all;
pub use pending::{PendingTask, PendingTasks};
pub(crate) use scan::{Queues, Spot};
#[cfg(feature = "progress")]
pub(crate) use words::{bytes, time};

use crate::depend::Task;
use crate::ids::TaskId;
use crate::sync::CallSite;
use std::fmt;

/// Number of steps of a long chain that are written from each end.
const MOST_WRITTEN: usize = 12;

/// Why a task has not ended ([`Runtime::explain`](crate::Runtime::explain)): a chain of tasks in which each task waits
/// for the next one.
///
/// `Display` writes one line per step. The text is meant for people, so its wording may change.
///
/// ```
/// use std::sync::mpsc::channel;
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.data(vec![0.0; 100]).named("x");
/// let (open, opened) = channel::<()>();
/// rt.task("load", x.output()).cpu(move |_, _| _ = opened.recv()).submit()?;
/// let sum = rt.task("sum", x.input()).cpu(|_, _| ()).submit_handle()?;
///
/// let reason = sum.explain();
/// assert_eq!(reason.steps[0].name, "sum");
/// assert!(reason.steps[0].because.starts_with("comes after task 0 `load` by its access to [0..100] (in) of data `x`"));
/// println!("{reason}");
///
/// drop(open);
/// rt.wait()?;
/// assert_eq!(sum.explain().to_string(), format!("task 1 `sum`, submitted at {}, has ended", reason.steps[0].submitted_at));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WaitReason {
    /// The task in question, then the task that it waits for, and so on.
    pub steps: Vec<WaitStep>,
}

/// A task in the chain of a [`WaitReason`], and why it has not ended.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let task = rt.task("quick", ()).cpu(|_, ()| ()).submit_handle()?;
/// rt.wait()?;
/// let step = &task.explain().steps[0];
/// assert_eq!((step.task, step.name.as_str(), step.because.as_str()), (TaskId(0), "quick", "has ended"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitStep {
    /// ID of the task.
    pub task: TaskId,
    /// Name of the task.
    pub name: String,
    /// Source location where the task was submitted.
    pub submitted_at: CallSite,
    /// The reason, as a clause whose subject is the task.
    pub because: String,
}

impl WaitReason {
    /// Creates the explanation of a task that has a single reason.
    pub(crate) fn alone(task: &Task, because: impl Into<String>) -> Self {
        Self { steps: vec![chain::step(task.shared(), because.into())] }
    }
}

impl fmt::Display for WaitStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`, submitted at {}, {}", self.task, self.name, self.submitted_at, self.because)
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left_out = self.steps.len().saturating_sub(2 * MOST_WRITTEN);
        for (n, step) in self.steps.iter().enumerate() {
            if left_out > 0 && n == MOST_WRITTEN {
                write!(f, "\n  (and so on, by {left_out} more tasks)")?;
            }
            if left_out > 0 && (MOST_WRITTEN..MOST_WRITTEN + left_out).contains(&n) {
                continue;
            }
            write!(f, "{}{step}", if n > 0 { "\n  " } else { "" })?;
        }
        Ok(())
    }
}

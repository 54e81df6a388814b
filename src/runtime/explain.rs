//! Explanations of waits, which tell a person why a task does not run; see [`crate::driver::reasons`].

use super::handle::TaskHandle;
use super::runtime::Runtime;
use crate::driver::reasons::{self, PendingTasks, WaitReason};

impl TaskHandle {
    /// Explains why the task has not run or ended yet, as human-readable text.
    ///
    /// The explanation is a chain of tasks, each of which waits for the next, with the region that makes it wait and
    /// the source location where it was submitted. The chain ends with a task that is running (on which unit, and for
    /// how long it has been seen running), a task whose body waits in a call, or a task that waits for its turn in a
    /// commutative group, for memory (and which tasks hold it), for copies (from where, to where, how many bytes), or
    /// for a unit.
    ///
    /// Tasks pay nothing for explanations, so the call has to search, which takes time in proportion to the number of
    /// pending tasks that were submitted before this one. If the search finds the chain only through ready tasks in a
    /// thread's own queue, it moves these tasks to the queue that all threads check. Threads do not read the clock when
    /// they begin a task, so a running time can be counted only from an earlier observation: by this call, by a stall
    /// report, or by a thread that samples continuously ([`Builder::explain_on_signal`](crate::Builder),
    /// [`Builder::progress`](crate::Builder)).
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.data(vec![0.0; 8]).named("x");
    /// let ((open, opened), (begin, begun)) = (channel::<()>(), channel());
    /// rt.task("load", x.output()).cpu(move |_, _| { _ = begin.send(()); _ = opened.recv() }).submit()?;
    /// rt.task("scale", x.inout()).cpu(|_, _| ()).submit()?;
    /// let sum = rt.task("sum", x.input()).cpu(|_, _| ()).submit_handle()?;
    /// begun.recv()?;
    ///
    /// let steps = sum.explain().steps;
    /// let because: Vec<_> = steps.iter().map(|step| step.because.as_str()).collect();
    /// assert_eq!(because[0], "comes after task 1 `scale` by its access to [0..8] (in) of data `x`");
    /// assert_eq!(because[1], "comes after task 0 `load` by its access to [0..8] (inout) of data `x`");
    /// assert_eq!(because[2], "runs on unit 0 (CPU)");
    /// drop(open);
    /// rt.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn explain(&self) -> WaitReason {
        match self.door() {
            Some(door) => reasons::explain(door.shared(), door.driver.queues(), self.block()),
            None => WaitReason::alone(self.block(), "was submitted to a runtime that has ended"),
        }
    }
}

impl Runtime {
    /// Explains what all pending tasks are doing or waiting for, as human-readable text. Stall reports and the answer
    /// to a signal ([`Builder::explain_on_signal`](crate::Builder)) contain the same text.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// assert_eq!(rt.explain().to_string(), "0 tasks are pending");
    /// # Ok::<(), BuildError>(())
    /// ```
    pub fn explain(&self) -> PendingTasks {
        reasons::explain_all(self.shared(), self.door.driver.queues())
    }
}

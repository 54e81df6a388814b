//! Settings of what a runtime reports: stalls, failures, graphs, traces, explanations, progress and conflicts.

use super::Builder;
use crate::driver::watch::Stall;
use std::path::PathBuf;
use std::time::Duration;

impl Builder {
    /// Sets how long no task may finish before the waiting threads report what the units are doing. Each stall is
    /// reported once; the next report requires that a task has finished since. The default is 30 seconds; `None` turns
    /// reports off. Reports go to the log, and either to standard error or to [`on_stall`](Self::on_stall).
    ///
    /// A body that blocks on something only another task can provide occupies its unit, so the program may deadlock. A
    /// body that joins a thread which is itself waiting for the runtime can deadlock in the same way. Without reports,
    /// such a program would hang silently.
    pub fn report_stalls_after(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.report_stalls_after = time.into();
        self
    }

    /// Sets a time limit for bodies: a task that runs for longer is named in a stall report
    /// ([`Stall::overdue`](crate::Stall::overdue)), once, even if other tasks finish meanwhile. The default is `None`.
    ///
    /// Waiting threads look at the running tasks four times per limit, so a report is late by up to a quarter of the
    /// limit, and no task is named while no thread waits for the runtime. A body that waits counts as running.
    /// [`Runtime::abandon`](crate::Runtime::abandon) gives up on a body that never ends.
    ///
    /// ```
    /// use std::{sync::mpsc::channel, time::Duration};
    /// use thalweg::prelude::*;
    ///
    /// let (open, opened) = channel::<()>();
    /// let open = std::sync::Mutex::new(Some(open));
    /// let builder = Runtime::builder().compute_units("1:CPU:1").report_tasks_after(Duration::from_millis(10));
    /// let rt = builder.on_stall(move |stall| {
    ///     assert_eq!(stall.overdue[0].name, "slow");
    ///     open.lock().unwrap().take(); // ends the body
    /// });
    /// let rt = rt.build()?;
    /// rt.task("slow", ()).cpu(move |_, ()| _ = opened.recv()).submit()?;
    /// rt.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn report_tasks_after(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.report_tasks_after = limit.into();
        self
    }

    /// Passes stall reports to `tell` instead of writing them to standard error. A thread that is waiting for the
    /// runtime makes the call, so `tell` must not wait for the runtime.
    ///
    /// ```
    /// use std::{sync::mpsc::channel, time::Duration};
    /// use thalweg::prelude::*;
    ///
    /// let (report, reports) = channel();
    /// let (open, opened) = channel::<()>();
    /// let builder = Runtime::builder().compute_units("1:CPU:1").report_stalls_after(Duration::from_millis(10));
    /// let rt = builder.on_stall(move |stall| report.send(stall.to_string()).unwrap()).build()?;
    /// rt.task("patient", ()).cpu(move |_, ()| opened.recv().unwrap()).submit()?;
    /// std::thread::spawn(move || {
    ///     let report = reports.recv().unwrap();
    ///     assert!(report.contains("`patient`, submitted at "), "{report}");
    ///     open.send(()).unwrap();
    /// });
    /// rt.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_stall(mut self, tell: impl Fn(&Stall) + Send + Sync + 'static) -> Self {
        self.on_stall = Some(Box::new(tell));
        self
    }

    /// Calls `tell` once for each task that itself fails, but not for tasks that are skipped because of that failure or
    /// for cancelled tasks. The thread that ends the task makes the call and holds no lock; a panic in `tell` is caught
    /// and does no harm. Waiting calls report failures as usual, but unreported failures are not written to stderr at
    /// the end.
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    /// use thalweg::prelude::*;
    /// let (failed, failures) = channel();
    /// let tell = move |failure: &thalweg::error::TaskFailure| _ = failed.send(failure.to_string());
    /// let rt = Runtime::builder().compute_units("1:CPU:1").on_failure(tell).build()?;
    /// rt.task("fails", ()).cpu(|_, ()| Err("no")).submit()?;
    /// rt.wait().unwrap_err();
    /// assert!(failures.recv()?.contains("`fails`"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_failure(mut self, tell: impl Fn(&crate::error::TaskFailure) + Send + Sync + 'static) -> Self {
        self.on_failure = Some(Box::new(tell));
        self
    }

    /// Records all tasks and dependences for [`Runtime::graph`](crate::Runtime::graph). Memory use grows with every
    /// task.
    #[cfg(feature = "graph")]
    pub fn record_graph(mut self, yes: bool) -> Self {
        self.record_graph = yes;
        self
    }

    /// Writes a trace of the run to a file. The trace contains tasks with their source locations, dependences, where
    /// and when each task ran, copies, and what units did between tasks. To view it, use `thalweg trace FILE` (crate
    /// `thalweg-cli`).
    ///
    /// The file is created when the runtime is built, and is complete once the runtime is dropped. If the program is
    /// killed, the last quarter of a second is missing. Without a call, the environment variable `THALWEG_TRACE` names
    /// the file; each further runtime in the process then writes a separate file whose name ends with the runtime's
    /// number, as in `run-2.thw`.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("run.thw");
    /// let rt = Runtime::builder().compute_units("1:CPU:1").trace(&path).build()?;
    /// let x = rt.data(vec![1.0; 100]).named("x");
    /// rt.task("double", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2.0)).submit()?;
    /// drop((x, rt));
    /// assert!(std::fs::metadata(&path)?.len() > 100);
    ///
    /// let error = Runtime::builder().compute_units("1:CPU:1").trace("no/such/folder/run.thw").build().unwrap_err();
    /// assert!(error.to_string().starts_with("trace: cannot create no/such/folder/run.thw: "));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn trace(mut self, path: impl Into<PathBuf>) -> Self {
        self.trace = Some(crate::trace::Order { path: path.into(), ..Default::default() });
        self
    }

    /// Like [`trace`](Self::trace), but keeps only the most recent records in memory, those of the last `latest` of the
    /// run, and writes them when the runtime is dropped. It is meant for programs that run for days. Each thread drops
    /// records by the 64 KiB, so somewhat older records may remain.
    pub fn trace_latest(mut self, path: impl Into<PathBuf>, latest: Duration) -> Self {
        self.trace = Some(crate::trace::Order { path: path.into(), latest: Some(latest), ..Default::default() });
        self
    }

    /// Sets whether the trace also records the regions and modes of task accesses, at 8 bytes per access. `thalweg sim`
    /// needs these records. Without a call, the environment variable `THALWEG_TRACE_ACCESSES` decides: 1 means yes.
    pub fn trace_accesses(mut self, yes: bool) -> Self {
        self.trace_accesses = Some(yes);
        self
    }

    /// Sets whether, on SIGUSR1, the runtime writes to standard error what its tasks are doing and what they are
    /// waiting for ([`Runtime::explain`](crate::Runtime::explain)). Without a call, the environment variable
    /// `THALWEG_EXPLAIN` decides: 1 means yes.
    ///
    /// A dedicated thread waits for the signal. It also samples the running tasks a few times a second, so that
    /// explanations can say how long each task has been running. Once the first such runtime is built, the signal no
    /// longer terminates the process. Handlers that the program installs with the crate `signal-hook` are called as
    /// well.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").explain_on_signal(true).build()?;
    /// // `kill -USR1` now writes, for instance: thalweg: runtime 1: 0 tasks are pending
    /// # drop(rt);
    /// # Ok::<(), BuildError>(())
    /// ```
    #[cfg(all(unix, feature = "signals"))]
    pub fn explain_on_signal(mut self, yes: bool) -> Self {
        self.explain_on_signal = Some(yes);
        self
    }

    /// Sets whether progress is displayed on standard error while the runtime exists.
    ///
    /// On a terminal, the display has a progress bar that shows how many of the tasks submitted so far have finished
    /// and how long the rest will take; a line for each unit, with its tasks and how busy it was in the last second;
    /// and a line for each pair of memories between which data are copied, with the bytes per second. The bars appear
    /// once tasks have been pending for half a second, and disappear when a wait finds that nothing is pending, so a
    /// program can print its results after [`Runtime::wait`](crate::Runtime::wait). To print while tasks are pending,
    /// use [`Runtime::without_progress`](crate::Runtime::without_progress). If standard error is not a terminal, a line
    /// with the same figures is written every few seconds.
    ///
    /// A separate thread reads counters that the runtime maintains anyway, so the display adds no cost to tasks.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").progress(true).build()?;
    /// rt.task("quick", ()).cpu(|_, ()| ()).submit()?;
    /// rt.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "progress")]
    pub fn progress(mut self, yes: bool) -> Self {
        self.progress = yes;
        self
    }

    /// Sets whether to check that bodies respect the accesses that their tasks declare. Without a call, the environment
    /// variable `THALWEG_SANITIZE` decides: 1 means yes.
    ///
    /// Each body then works on copies of its regions between guard zones. A task fails with
    /// [`AccessFaults`](crate::error::AccessFaults) if its body writes outside of a region, changes an input, leaves
    /// elements of an output unwritten, or computes a result from an output that it has not written. The checks cost
    /// memory and time in proportion to the regions, and tasks on accelerators run one after the other.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").sanitize(true).build()?;
    /// let x = rt.data(vec![0.0; 10]).named("x");
    /// rt.task("careless", x.slice(0..4).inout())
    ///     .cpu(|_, x| unsafe { x.as_mut_ptr().add(4).write(1.0) }) // an element that the task does not declare
    ///     .submit()?;
    /// let error = rt.wait().unwrap_err().to_string();
    /// assert!(error.contains("`careless`, submitted at "));
    /// assert!(error.contains("access 0 (`inout` [0..4] of data `x`): the body wrote 8 bytes outside of the region"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sanitize(mut self, yes: bool) -> Self {
        self.sanitize = Some(yes);
        self
    }

    /// Sets whether to check running tasks for conflicts
    /// ([`Statistics::conflicts`](crate::Statistics::conflicts)). This mode is meant for tests.
    pub fn detect_conflicts(mut self, yes: bool) -> Self {
        self.detect_conflicts = yes;
        self
    }
}

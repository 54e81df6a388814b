//! Shutdown of a runtime, which has these steps: wait, refuse submissions from outside (only [`Runtime::shutdown`]),
//! wait, refuse all submissions, wait, stop the driver.
//!
//! If a thread dies because of an internal error, the runtime is broken: all waits return, and all submissions are
//! refused. An abandoned runtime is broken, too. In addition, nothing waits for its threads, and nothing of it is
//! freed, because a body may use it for as long as the process lives.

use super::any_driver::AnyDriver;
use super::door::Door;
use super::runtime::Runtime;
use crate::driver::inside;
use crate::driver::waiters::Awaited;
use crate::error::{FailureReason, SubmitError};
use crate::log::tell;
use crate::sync::start;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;

impl Runtime {
    /// Gives up on bodies that never end: all waits return [`SubmitError::Abandoned`], on all threads, and so do all
    /// later calls. Dropping the runtime then waits for nothing. Tasks that have not begun never will.
    ///
    /// A body cannot be stopped from outside. Those that run go on, on their threads, until they return or the process
    /// ends, and they may use their views, so the memory of the runtime and of its data objects is never freed. If the
    /// program can tell the body to end, prefer [`TaskGroup::cancel`](crate::TaskGroup::cancel) and
    /// [`Context::is_cancelled`](crate::Context::is_cancelled).
    /// [`Builder::report_tasks_after`](crate::Builder::report_tasks_after) names a body that takes too long. If that
    /// body occupies a thread of the program ([`Builder::use_current_thread`](crate::Builder::use_current_thread)),
    /// this thread does not return.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let (open, opened) = std::sync::mpsc::channel::<()>();
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// rt.task("endless", ()).cpu(move |_, ()| _ = opened.recv()).submit()?;
    /// std::thread::scope(|threads| {
    ///     let waits = threads.spawn(|| rt.wait());
    ///     rt.abandon().unwrap();
    ///     let error = waits.join().unwrap().unwrap_err();
    ///     assert!(error.to_string().contains("it was abandoned"), "{error}");
    /// });
    /// drop(rt); // the body still runs
    /// # drop(open);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The call is refused while a scope is open, because its tasks may use memory that the program would free.
    pub fn abandon(&self) -> Result<(), SubmitError> {
        self.shared().in_own_process()?;
        self.door.scopes.close("abandon")?;
        self.shared().abandon();
        Ok(())
    }

    /// Stops the threads once nothing is pending. A second call has no effect.
    pub(super) fn end(&self) {
        end(&self.door.driver, &self.ended, self.model_file.as_deref());
        self.live.end();
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if self.shared().is_in_child() {
            return; // the threads are in another process, and what tasks have stays as it is
        }
        if !inside::in_body(self.door.id) {
            if std::thread::panicking() {
                self.shared().cancel();
            }
            self.end();
            keep_if_in_use(&self.door);
            return report(&self.door.driver);
        }
        // A body that drops the last handle of its runtime cannot wait for itself: a separate thread ends the runtime.
        // That thread keeps the door alive, so data objects whose handles are dropped in the meantime are released
        // after their tasks, as usual.
        let (door, model_file) = (self.door.clone(), self.model_file.take());
        let ended = std::mem::take(&mut self.ended);
        let end = move || {
            end(&door.driver, &ended, model_file.as_deref());
            keep_if_in_use(&door);
            report(&door.driver);
        };
        if let Err(error) = start(Builder::new().name("thalweg-end".to_owned()), end) {
            log!(error, "cannot end a runtime that was dropped in a task's body: {error}; its threads remain");
        }
    }
}

/// Never frees a runtime that has ended before its tasks: regions that were lent and never return, and bodies that
/// were abandoned, need the homes of their data objects.
fn keep_if_in_use(door: &Arc<Door>) {
    let shared = door.shared();
    if shared.is_abandoned() || shared.is_broken() && shared.progress.pending() > 0 {
        std::mem::forget(door.clone());
    }
}

fn end(driver: &AnyDriver, ended: &AtomicBool, model_file: Option<&Path>) {
    wait_for_quiescence(driver);
    driver.shared().progress.close();
    wait_for_quiescence(driver); // for tasks that another thread submitted just before
    if !ended.swap(true, Ordering::AcqRel)
        && let Some(path) = model_file
    {
        save_model(driver, path);
    }
    driver.stop();
    driver.shared().drop_kept();
    driver.shared().tracer.iter().for_each(|tracer| tracer.end());
}

/// Waits until nothing is pending, whichever threads submit tasks.
fn wait_for_quiescence(driver: &AnyDriver) {
    driver.advance(Awaited::AtMost(0), || driver.shared().progress.pending());
}

/// The maximum number of failures that are written individually.
const MOST_WRITTEN: usize = 8;

/// Writes the failures that no call has reported to stderr. Otherwise, a program that never waits would end as if
/// everything had gone well. Cancelled tasks are left out, because the program itself cancelled them.
fn report(driver: &AnyDriver) {
    let mut failures = driver.shared().engine.failures().take_unreported();
    failures.retain(|failure| !matches!(failure.reason(), FailureReason::Cancelled));
    for failure in failures.iter().take(MOST_WRITTEN) {
        tell(format_args!("{failure}, and no call waited for it"));
    }
    if let Some(others @ 1..) = failures.len().checked_sub(MOST_WRITTEN) {
        tell(format_args!(
            "{others} more tasks failed that no call waited for; try `Runtime::wait` or `Builder::on_failure`"
        ));
    }
}

/// Writes what the scheduler has learned, for the next run.
#[cfg(feature = "sim")]
fn save_model(driver: &AnyDriver, path: &Path) {
    let Some(text) = driver.shared().engine.model() else { return };
    // Replace the file atomically, so that it stays intact even if this run is killed here or another run writes it at
    // the same time.
    let part = path.with_extension(format!("{}.part", std::process::id()));
    if let Err(problem) = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, path)) {
        log!(warn, "cannot write the performance model to {}: {problem}", path.display());
    }
}

/// Does nothing, because without the feature there is no file to write to.
#[cfg(not(feature = "sim"))]
fn save_model(_: &AnyDriver, _: &Path) {}

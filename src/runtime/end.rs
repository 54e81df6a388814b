//! Shutdown of a runtime, which has these steps: wait, refuse submissions from outside (only [`Runtime::shutdown`]),
//! wait, refuse all submissions, wait, stop the driver.
//!
//! If a thread dies because of an internal error, the runtime is broken: all waits return, and all submissions are
//! refused.

use super::any_driver::AnyDriver;
use super::runtime::Runtime;
use crate::driver::inside;
use crate::driver::waiters::Awaited;
use crate::error::FailureReason;
use crate::log::tell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

impl Runtime {
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
            if self.shared().is_broken() && self.shared().progress.pending() > 0 {
                std::mem::forget(self.door.clone()); // lent regions that never return need their data objects' homes
            }
            return report(&self.door.driver);
        }
        // A body that drops the last handle of its runtime cannot wait for itself: a separate thread ends the runtime.
        // That thread keeps the door alive, so data objects whose handles are dropped in the meantime are released
        // after their tasks, as usual.
        let (door, model_file) = (self.door.clone(), self.model_file.take());
        let ended = std::mem::take(&mut self.ended);
        let end = move || {
            end(&door.driver, &ended, model_file.as_deref());
            report(&door.driver);
        };
        if let Err(error) = std::thread::Builder::new().name("thalweg-end".to_owned()).spawn(end) {
            log!(error, "cannot end a runtime that was dropped in a task's body: {error}; its threads remain");
        }
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

//! The environment variables that a builder reads. A builder call in the program always overrides the corresponding
//! variable.
//!
//! [`binding`](super::binding) reads `OMP_PLACES` and `OMP_PROC_BIND`, and [`log`](crate::log) reads `THALWEG_LOG`.

use crate::error::BuildError;
use crate::trace::{Order, VARIABLE};
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// The variable with the units of a runtime whose program names none.
pub(super) const UNITS: &str = "THALWEG_UNITS";
/// The variable with the scheduler of a runtime whose program names none.
pub(super) const SCHEDULER: &str = "THALWEG_SCHEDULER";
/// The variable that states whether a runtime answers signals, if its program does not choose.
const EXPLAIN: &str = "THALWEG_EXPLAIN";

/// Returns whether the variable requests accesses in traces.
///
/// # Errors
/// Fails if the value is neither 0 nor 1.
pub(super) fn trace_accesses() -> Result<bool, BuildError> {
    flag("THALWEG_TRACE_ACCESSES")
}

/// Returns the file to trace to, if the variable names one. Each further runtime of the process gets a separate file.
pub(super) fn trace() -> Option<Order> {
    static TRACED: AtomicU64 = AtomicU64::new(0);
    let path = PathBuf::from(text(VARIABLE)?);
    let path = match TRACED.fetch_add(1, Ordering::Relaxed) {
        0 => path,
        earlier => {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy()));
            path.with_file_name(format!("{stem}-{}{}", earlier + 1, extension.unwrap_or_default()))
        }
    };
    Some(Order { path, ..Order::default() })
}

/// Returns whether the variable requests answers to signals.
///
/// # Errors
/// Fails if the value is neither 0 nor 1.
#[cfg_attr(not(all(unix, feature = "signals")), allow(dead_code, reason = "only warned of"))]
pub(super) fn explain() -> Result<bool, BuildError> {
    flag(EXPLAIN)
}

/// Returns whether the variable requests that bodies run on guarded copies of their regions.
///
/// # Errors
/// Fails if the value is neither 0 nor 1.
pub(super) fn sanitize() -> Result<bool, BuildError> {
    flag("THALWEG_SANITIZE")
}

/// Checks the variable that requests exact allocations of device memory, which devices read when they are opened.
///
/// # Errors
/// Fails if the value is neither 0 nor 1.
pub(super) fn check_exact_memory() -> Result<(), BuildError> {
    flag("THALWEG_EXACT_MEMORY").map(drop)
}

/// Returns the value of a variable that is 1 or 0. An unset variable counts as 0.
fn flag(name: &'static str) -> Result<bool, BuildError> {
    match text(name).as_deref() {
        None | Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some(other) => Err(error(name, &format!("`{other}` is not a choice; try 1 or 0"))),
    }
}

/// Returns the text of a variable; `None` if it is unset or empty.
pub(crate) fn text(name: &str) -> Option<String> {
    let text = std::env::var_os(name)?.to_string_lossy().trim().to_owned();
    Some(text).filter(|text| !text.is_empty())
}

/// Returns the error for a variable whose value cannot be used.
pub(super) fn error(name: &'static str, problem: &dyn Display) -> BuildError {
    BuildError::Argument { argument: name, problem: problem.to_string() }
}

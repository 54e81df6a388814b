//! The variables of the environment that a builder reads. A call of the program always wins over its variable.
//!
//! `OMP_PLACES` and `OMP_PROC_BIND` are [`binding`](super::binding)'s, and `THALWEG_LOG` is [`log`](crate::log)'s.

use crate::error::BuildError;
use crate::trace::{Order, VARIABLE};
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// The units of a runtime that is not given any.
pub(super) const UNITS: &str = "THALWEG_UNITS";
/// The scheduler of a runtime that is not given any.
pub(super) const SCHEDULER: &str = "THALWEG_SCHEDULER";

/// The file to trace to, if the variable names one; for each further runtime of the process, one of its own.
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
    Some(Order { path, latest: None })
}

/// The text of a variable; none if it is not set, or empty.
pub(super) fn text(name: &str) -> Option<String> {
    let text = std::env::var_os(name)?.to_string_lossy().trim().to_owned();
    Some(text).filter(|text| !text.is_empty())
}

/// The error of a variable that cannot be used.
pub(super) fn error(name: &'static str, problem: &dyn Display) -> BuildError {
    BuildError::Argument { argument: name, problem: problem.to_string() }
}

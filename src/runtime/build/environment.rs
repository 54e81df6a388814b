//! The variables of the environment that a builder reads. A call of the program always wins over its variable.
//!
//! `OMP_PLACES` and `OMP_PROC_BIND` are [`binding`](super::binding)'s, and `THALWEG_LOG` is [`log`](crate::log)'s.

use crate::error::BuildError;
use std::fmt::Display;

/// The units of a runtime that is not given any.
pub(super) const UNITS: &str = "THALWEG_UNITS";
/// The scheduler of a runtime that is not given any.
pub(super) const SCHEDULER: &str = "THALWEG_SCHEDULER";

/// The text of a variable; none if it is not set, or empty.
pub(super) fn text(name: &str) -> Option<String> {
    let text = std::env::var_os(name)?.to_string_lossy().trim().to_owned();
    Some(text).filter(|text| !text.is_empty())
}

/// The error of a variable that cannot be used.
pub(super) fn error(name: &'static str, problem: &dyn Display) -> BuildError {
    BuildError::Argument { argument: name, problem: problem.to_string() }
}

//! The library's log: events of `tracing`, which are also written to standard error if `THALWEG_LOG` requests it.
//!
//! A program with a subscriber gets the events from the subscriber alone. Without one, `THALWEG_LOG` names the least
//! important level that is written to standard error, so a user need not change the program to see events. Nothing here
//! installs a subscriber; a subscriber that the program sets later takes over.
//!
//! Invariant: the environment is read once, at the first event or the first build.

use crate::error::BuildError;
use std::fmt::Arguments;
use std::sync::OnceLock;

/// The variable that names the least important level to write.
pub(crate) const VARIABLE: &str = "THALWEG_LOG";

/// The levels by their names, the most important first.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The number of levels that are written, or the value of the variable if it names no level.
static WRITTEN: OnceLock<Result<usize, String>> = OnceLock::new();

fn written() -> &'static Result<usize, String> {
    WRITTEN.get_or_init(|| match std::env::var_os(VARIABLE) {
        None => Ok(0),
        Some(value) => number(&value.to_string_lossy()),
    })
}

/// Returns the number of a level, or the text itself if it names none.
fn number(level: &str) -> Result<usize, String> {
    let known = LEVELS.iter().position(|known| known.eq_ignore_ascii_case(level.trim()));
    known.or(level.trim().is_empty().then_some(0)).ok_or_else(|| level.to_owned())
}

/// Checks the variable.
///
/// # Errors
/// If it names no level.
pub(crate) fn check() -> Result<(), BuildError> {
    let Err(value) = written() else { return Ok(()) };
    let problem = format!("`{value}` is not a level; try one of {}", LEVELS.join(", "));
    Err(BuildError::Argument { argument: VARIABLE, problem })
}

/// Writes an event to standard error if its level is requested and the program has no subscriber.
#[cold]
pub(crate) fn echo(level: &str, text: Arguments<'_>) {
    let Ok(written) = written() else { return };
    if number(level).is_ok_and(|level| level <= *written) && !tracing::dispatcher::has_been_set() {
        eprintln!("thalweg {level}: {text}");
    }
}

/// Logs a warning that must be seen, and writes it to standard error in any case.
#[cold]
pub(crate) fn tell(text: Arguments<'_>) {
    tracing::warn!("{text}");
    eprintln!("thalweg: {text}"); // many programs have no subscriber
}

/// Logs an event: `log!(warn, "cannot write {path}")`.
macro_rules! log {
    ($level:ident, $($text:tt)+) => {{
        tracing::$level!($($text)+);
        $crate::log::echo(stringify!($level), format_args!($($text)+));
    }};
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn level_names_are_ordered_and_others_are_refused() {
        assert_eq!(["", "off", " Error ", "warn", "TRACE"].map(number), [0, 0, 1, 2, 5].map(Ok));
        assert_eq!(number("loud"), Err("loud".to_owned()));
    }
}

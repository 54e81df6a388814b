//! The library's log: events of `tracing`, which are also written to standard error if `THALWEG_LOG` requests it.
//!
//! A program with a subscriber gets the events from the subscriber alone. Without one, `THALWEG_LOG` names the least
//! important level that is written to standard error, so a user need not change the program to see events. Nothing here
//! installs a subscriber; a subscriber that the program sets later takes over.
//!
//! A display of progress on the same terminal is taken away while a line is written ([`around_lines`]).
//!
//! Invariant: the environment is read once, at the first event or the first build.

use crate::error::BuildError;
use std::fmt::Arguments;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

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
        write(format_args!("thalweg {level}: {text}"));
    }
}

/// A function that calls its argument at a moment when a line can be written to standard error.
type Around = fn(&mut dyn FnMut());

/// What is called around each line, and the process that has set it. In a child of `fork` there is no display, and its
/// locks may stay locked.
static AROUND: OnceLock<Around> = OnceLock::new();
static SET_IN: AtomicU32 = AtomicU32::new(0);

/// Calls `around` around every line that is written from now on.
pub(crate) fn around_lines(around: Around) {
    let _ = AROUND.set(around); // it is always the same function
    SET_IN.store(std::process::id(), Ordering::Relaxed);
}

/// Writes a line to standard error.
pub(crate) fn write(line: Arguments<'_>) {
    let around = AROUND.get().filter(|_| SET_IN.load(Ordering::Relaxed) == std::process::id());
    match around {
        Some(around) => around(&mut || eprintln!("{line}")),
        None => eprintln!("{line}"),
    }
}

/// Logs a warning that must be seen, and writes it to standard error in any case.
#[cold]
pub(crate) fn tell(text: Arguments<'_>) {
    tracing::warn!("{text}");
    write(format_args!("thalweg: {text}")); // many programs have no subscriber
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

//! Errors in machine files.

use std::ops::Range;
use std::path::{Path, PathBuf};

/// The reason why a machine file was rejected. The message names the file, the line and the key.
///
/// ```
/// use thalweg::SimulatedMachine;
/// let error = "name = 3".parse::<SimulatedMachine>().unwrap_err();
/// assert!(error.to_string().contains("line 1, `name`"), "{error}");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineFileError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The error returned by the system.
        source: std::io::Error,
    },
    /// A line contains an impossible value.
    #[error("{}, line {line}, `{key}`: {problem}", path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Line number, counted from 1.
        line: usize,
        /// The key, or the header of the table.
        key: String,
        /// The problem and how to correct it.
        problem: String,
    },
    /// Something is missing in the file as a whole.
    #[error("{}: {problem}", path.display())]
    Whole {
        /// Path of the file.
        path: PathBuf,
        /// The problem and how to correct it.
        problem: String,
    },
}

/// The text of a file, used to find the position of an error.
pub(super) struct Source<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// Creates an error for the line in which `span` begins.
    pub(super) fn error(&self, span: Option<Range<usize>>, problem: impl Into<String>) -> MachineFileError {
        let (path, problem) = (self.path.to_owned(), problem.into());
        let Some(start) = span.map(|span| span.start.min(self.text.len())) else {
            return MachineFileError::Whole { path, problem };
        };
        let before = &self.text.as_bytes()[..start];
        let line = before.iter().filter(|byte| **byte == b'\n').count();
        let content = self.text.lines().nth(line).unwrap_or_default();
        let key = content.split('=').next().unwrap_or_default().trim().to_owned();
        MachineFileError::Line { path, line: line + 1, key, problem }
    }

    /// Converts an error of the TOML parser.
    pub(super) fn toml_error(&self, error: &toml::de::Error) -> MachineFileError {
        self.error(error.span(), error.message())
    }
}

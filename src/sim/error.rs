//! What can be wrong with a machine file.

use std::ops::Range;
use std::path::{Path, PathBuf};

/// Why a machine file was refused; the message names file, line and key.
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
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A line holds an impossible value.
    #[error("{}, line {line}, `{key}`: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// The key, or the table's header.
        key: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The file as a whole lacks something.
    #[error("{}: {problem}", path.display())]
    Whole {
        /// The file.
        path: PathBuf,
        /// What is wrong and what would be right.
        problem: String,
    },
}

/// A file's text, to tell where something stands in it.
pub(super) struct Source<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// An error in the line where `span` begins.
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

    /// What the TOML reader found.
    pub(super) fn toml_error(&self, error: &toml::de::Error) -> MachineFileError {
        self.error(error.span(), error.message())
    }
}

//! Errors of files that contain arrays.

use std::path::PathBuf;

/// The reason why a file cannot be used as an array.
///
/// ```
/// use thalweg::ArrayFile;
/// use thalweg::prelude::*;
/// let error = ArrayFile::<f64, Ix1>::open("/nowhere/x.npy").unwrap_err();
/// assert!(error.to_string().starts_with("cannot open /nowhere/x.npy: No such file or directory"));
/// ```
#[derive(Debug, thiserror::Error)]
#[error("cannot {act} {}: {problem}", path.display())]
pub struct FileError {
    act: &'static str,
    path: PathBuf,
    problem: String,
}

impl FileError {
    pub(crate) fn new(act: &'static str, path: PathBuf, problem: impl Into<String>) -> Self {
        Self { act, path, problem: problem.into() }
    }
}

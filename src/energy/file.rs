//! Meter that reads a file written by another program, for example a program that logs a wall power meter.

use super::{EnergyMeter, MeterError};
use std::path::{Path, PathBuf};

/// Reads the last number in a file as joules, for metering programs that append lines to a log.
///
/// ```
/// use thalweg::energy::{EnergyMeter, FileMeter};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("meter.log");
/// std::fs::write(&path, "12:00:01 1500.0\n12:00:02 1646.5\n")?;
/// assert_eq!(FileMeter::new(&path).joules()?, 1646.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct FileMeter {
    path: PathBuf,
}

impl FileMeter {
    /// Creates a meter that reads the file at `path`.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self { path: path.as_ref().to_owned() }
    }
}

impl EnergyMeter for FileMeter {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn joules(&mut self) -> Result<f64, MeterError> {
        let error = |problem: String| MeterError { meter: self.name(), problem };
        let text = std::fs::read_to_string(&self.path).map_err(|problem| error(problem.to_string()))?;
        let last = text.split_whitespace().next_back().ok_or_else(|| error("the file is empty".to_owned()))?;
        match last.parse() {
            Ok(joules) if f64::is_finite(joules) => Ok(joules),
            _ => Err(error(format!("it ends with `{last}`, which is not a number of joules"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_reading_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        for (text, words) in [("", "empty"), ("12 watts", "`watts`"), ("nan", "`nan`")] {
            std::fs::write(&path, text).unwrap();
            let message = FileMeter::new(&path).joules().unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        }
    }
}

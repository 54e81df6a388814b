//! Errors before anything runs.

/// Why a runtime could not be built.
///
/// ```
/// use thalweg::prelude::*;
/// let error = Runtime::builder().compute_units("4:CPU").build().unwrap_err();
/// assert!(matches!(error, BuildError::Units(_)));
/// println!("{error}");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The unit string or the places make no units.
    #[error("compute units: {0}")]
    Units(#[from] crate::machine::ConfigError),
    /// No scheduler has this name.
    #[error("cannot find scheduler `{name}`; try one of {}", known.join(", "))]
    UnknownScheduler {
        /// What was asked for.
        name: String,
        /// Every name that exists.
        known: Vec<&'static str>,
    },
    /// A scheduler has no such parameter, or the value is out of its range.
    #[error("scheduler `{scheduler}`: {parameter}: {problem}")]
    SchedulerParameter {
        /// The scheduler's name.
        scheduler: String,
        /// The parameter's name.
        parameter: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// A builder argument is out of its range.
    #[error("{argument}: {problem}")]
    Argument {
        /// The builder's method.
        argument: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The machine lacks the devices that the units ask for.
    #[error("compute units: {needed} {kind} device{} needed; {found}. Units that need no accelerator are EMU \
         (emulated in host memory) and, with an OpenCL for CPUs installed, OPENCL",
        if *needed == 1 { " is" } else { "s are" })]
    NoDevice {
        /// The kind of unit.
        kind: crate::machine::UnitKind,
        /// How many devices such units ask for.
        needed: usize,
        /// What was found instead, and why not more.
        found: String,
    },
    /// The operating system gave no thread.
    #[error("cannot start a thread for {what}: {source}; try fewer units")]
    Thread {
        /// What the thread was for.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
}

//! Errors of building a runtime, before any task runs.

/// The reason why a runtime could not be built.
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
    /// The unit string or the places do not describe valid units.
    #[error("compute units: {0}")]
    Units(#[from] crate::machine::ConfigError),
    /// No scheduler has this name.
    #[error("cannot find scheduler `{name}`; try one of {}", known.join(", "))]
    UnknownScheduler {
        /// The requested name.
        name: String,
        /// The names of all schedulers.
        known: Vec<&'static str>,
    },
    /// A scheduler has no such parameter, or the value is out of its range.
    #[error("scheduler `{scheduler}`: {parameter}: {problem}")]
    SchedulerParameter {
        /// The scheduler's name.
        scheduler: String,
        /// The parameter's name.
        parameter: String,
        /// The problem, and what to try.
        problem: String,
    },
    /// A builder argument is out of its range.
    #[error("{argument}: {problem}")]
    Argument {
        /// The builder's method.
        argument: &'static str,
        /// The problem, and what to try.
        problem: String,
    },
    /// The machine lacks the devices that the units need.
    #[error("compute units: {needed} {kind} device{} needed; {found}. Units that need no accelerator are EMU \
         (emulated in host memory) and, with an OpenCL for CPUs installed, OPENCL",
        if *needed == 1 { " is" } else { "s are" })]
    NoDevice {
        /// The kind of unit.
        kind: crate::machine::UnitKind,
        /// The number of devices that such units need.
        needed: usize,
        /// The devices that were found instead, and the reason why there are no others.
        found: String,
    },
    /// The operating system could not start a thread.
    #[error("cannot start a thread for {what}: {source}; try fewer units")]
    Thread {
        /// The purpose of the thread.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
}

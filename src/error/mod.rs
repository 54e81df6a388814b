//! Errors, worded for the person who can fix them.
//!
//! There are three types, depending on when the error occurs: [`BuildError`] before any task runs, [`SubmitError`] when
//! a task or a request is refused (nothing has changed), and [`RunError`] when tasks have failed while running. Bugs in
//! the runtime cause assertion failures, not errors.

mod access_fault;
mod build;
mod chain;
mod device;
mod failure;
#[cfg(unix)]
mod file;
mod run;
mod subject;
mod submit;
mod take;

pub use access_fault::{AccessFault, AccessFaults, Breach};
pub use build::BuildError;
pub use device::DeviceError;
pub(crate) use failure::Cancelled;
pub use failure::{FailureReason, Failures, TaskFailure};
#[cfg(unix)]
pub use file::FileError;
pub use run::RunError;
pub(crate) use subject::Called;
pub use subject::Subject;
pub use submit::SubmitError;
pub use take::TakeError;

/// Any error that a body may return.
///
/// ```
/// use thalweg::error::BoxError;
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.scalar(0u32);
/// let parse = |text: &str| -> Result<u32, BoxError> { Ok(text.trim().parse()?) };
/// rt.task("parse", (x.output(),)).cpu(move |_, (x,)| parse(" 42 ").map(|n| x[0] = n)).submit()?;
/// assert_eq!(rt.read(&x)?[0], 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

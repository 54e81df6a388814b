//! Building a runtime from its description: on this machine, or on a simulated one.

mod binding;
mod environment;
mod parts;
#[cfg(feature = "sim")]
mod simulated;
mod threads;

use super::{Builder, Runtime};
use crate::error::BuildError;

impl Builder {
    /// Starts the runtime.
    ///
    /// # Errors
    /// If the units or places cannot be read or do not fit each other, the scheduler does not exist, an argument or
    /// an environment variable is out of its range, a machine to simulate lacks the units, or the system cannot start
    /// a thread.
    #[cfg_attr(not(feature = "sim"), allow(unused_mut, reason = "nothing is taken out of it then"))]
    pub fn build(mut self) -> Result<Runtime, BuildError> {
        crate::log::check()?;
        if self.name.as_ref().is_some_and(|name| name.is_empty() || name.contains('\0')) {
            let problem = "a runtime's name must not be empty or contain a NUL byte; try another one".to_owned();
            return Err(BuildError::Argument { argument: "name", problem });
        }
        #[cfg(feature = "sim")]
        if let Some(model) = self.simulated.take() {
            return self.build_simulated(model);
        }
        self.build_threads()
    }
}

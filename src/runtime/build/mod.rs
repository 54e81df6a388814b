//! Construction of a runtime from its description, on this machine or on a simulated machine.

mod binding;
pub(crate) mod environment;
mod parts;
#[cfg(feature = "sim")]
mod simulated;
mod threads;

use super::builder::Builder;
use super::live::{Live, LiveOrder};
use super::runtime::Runtime;
use crate::error::BuildError;
use crate::sync::handle_forks;

impl Builder {
    /// Starts the runtime.
    ///
    /// # Errors
    /// Fails if the units or places cannot be parsed or do not match each other, the scheduler does not exist, an
    /// argument or an environment variable is out of range, the machine to simulate lacks the units, or the system
    /// cannot start a thread.
    pub fn build(self) -> Result<Runtime, BuildError> {
        handle_forks();
        let order = self.live_order()?;
        let mut runtime = self.build_silent()?;
        runtime.live = Live::start(&runtime.door, &order)?;
        Ok(runtime)
    }

    /// Returns the live displays that are requested for the runtime.
    fn live_order(&self) -> Result<LiveOrder, BuildError> {
        let from_environment = environment::explain()?;
        #[cfg(all(unix, feature = "signals"))]
        let answers = self.explain_on_signal.unwrap_or(from_environment);
        #[cfg(not(all(unix, feature = "signals")))]
        let answers = {
            if from_environment {
                log!(warn, "THALWEG_EXPLAIN has no effect without Unix and the crate's feature `signals`");
            }
            false
        };
        #[cfg(feature = "progress")]
        let progress = self.progress;
        #[cfg(not(feature = "progress"))]
        let progress = false;
        Ok(LiveOrder { answers, progress })
    }

    /// Starts a runtime without live displays.
    #[cfg_attr(not(feature = "sim"), allow(unused_mut, reason = "nothing is taken out of it then"))]
    fn build_silent(mut self) -> Result<Runtime, BuildError> {
        crate::log::check()?;
        environment::check_exact_memory()?;
        if self.name.as_ref().is_some_and(|name| name.is_empty() || name.contains('\0')) {
            let problem = "a runtime's name must not be empty or contain a NUL byte; try another one".to_owned();
            return Err(BuildError::Argument { argument: "name", problem });
        }
        #[cfg(feature = "sim")]
        if let Some(model) = self.simulated.take() {
            if self.explored.is_some() {
                let problem = "a simulation runs no bodies, so its schedules cannot be explored; try emulated devices";
                return Err(BuildError::Argument { argument: "simulate", problem: problem.to_owned() });
            }
            return self.build_simulated(model);
        }
        self.build_threads()
    }
}

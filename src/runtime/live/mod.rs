//! Live displays of a running runtime: answers to signals ([`signals`]) and the progress display ([`progress`]).
//!
//! Each display has a thread, which reads counters and requests explanations, so tasks pay nothing. Neither display
//! changes what runs, or keeps a runtime alive.
//!
//! Without the features `signals` and `progress`, this module compiles to nothing.

#[cfg(feature = "progress")]
mod bars;
#[cfg(feature = "progress")]
mod figures;
#[cfg(feature = "progress")]
pub(super) mod progress;
#[cfg(all(unix, feature = "signals"))]
pub(super) mod signals;

use super::door::Door;
use crate::error::BuildError;
use std::sync::Arc;

/// The displays requested for a runtime.
#[derive(Debug, Clone, Copy)]
pub(super) struct LiveOrder {
    /// Whether the runtime answers signals.
    pub(super) answers: bool,
    /// Whether the runtime displays progress.
    pub(super) progress: bool,
}

/// The display of one runtime.
#[derive(Default)]
pub(super) struct Live {
    #[cfg(feature = "progress")]
    pub(super) progress: Option<progress::Progress>,
}

impl Live {
    /// Starts the displays of a new runtime.
    ///
    /// # Errors
    /// Fails if the signal cannot be caught or the system cannot start a thread.
    pub(super) fn start(door: &Arc<Door>, order: &LiveOrder) -> Result<Self, BuildError> {
        let live = Self::default();
        #[cfg(all(unix, feature = "signals"))]
        if order.answers {
            let error = |problem| BuildError::Argument { argument: "explain_on_signal", problem };
            signals::answer(door).map_err(|problem| error(format!("cannot answer to SIGUSR1: {problem}")))?;
        }
        #[cfg(feature = "progress")]
        let live = if order.progress {
            let error = |problem| BuildError::Argument { argument: "progress", problem };
            let progress = progress::Progress::start(door);
            let progress = progress.map_err(|problem| error(format!("cannot start a thread: {problem}")))?;
            Self { progress: Some(progress) }
        } else {
            live
        };
        let _ = (door, order);
        Ok(live)
    }

    /// Removes the display. A second call has no effect.
    pub(super) fn end(&self) {
        #[cfg(feature = "progress")]
        self.progress.iter().for_each(progress::Progress::end);
    }
}

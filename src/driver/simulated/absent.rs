//! What a build without the feature `sim` has instead: a simulation that there never is.

use crate::coherence::CopyId;
use crate::depend::{Kinds, OwnedTask};
use crate::engine::{Command, Nanos};
use crate::ids::UnitId;
use parking_lot::MutexGuard;

/// The driver of a runtime that simulates; there is none.
pub(crate) enum Simulation {}

/// What happens next; nothing does.
pub(crate) enum Happened {
    #[allow(dead_code, reason = "the runtime is written for builds that simulate")]
    Ran(OwnedTask, UnitId, Nanos),
    #[allow(dead_code, reason = "as above")]
    Copied(CopyId),
}

impl Simulation {
    pub(crate) fn now(&self) -> Nanos {
        match *self {}
    }

    pub(crate) fn kinds(&self, _: &str, _: Kinds, _: bool) -> Kinds {
        match *self {}
    }

    pub(crate) fn carry_out(&self, _: Command) {
        match *self {}
    }

    pub(crate) fn turn(&self) -> MutexGuard<'_, Vec<Command>> {
        match *self {}
    }

    pub(crate) fn try_turn(&self) -> Option<MutexGuard<'_, Vec<Command>>> {
        match *self {}
    }

    pub(crate) fn next(&self, _: &MutexGuard<'_, Vec<Command>>) -> Option<Happened> {
        match *self {}
    }
}

//! The paths by which a task enters the runtime: through the runtime itself, or through the context of a body, whose
//! task is then the parent.

use super::door::Door;
use crate::depend::{Domain, Entrance, running};
use std::ops::Deref;
use std::sync::Arc;

/// The door through which a task will enter the runtime when it is submitted.
pub(super) enum EntranceOf<'rt> {
    Front(&'rt Door),
    /// Keeps the runtime's door for a body that may hold the last reference to it.
    Body(Arc<Entrance>),
}

impl Deref for EntranceOf<'_> {
    type Target = Door;

    #[inline]
    fn deref(&self) -> &Door {
        match self {
            Self::Front(door) => door,
            Self::Body(entrance) => door(entrance),
        }
    }
}

pub(super) fn door(entrance: &Entrance) -> &Door {
    entrance.downcast_ref().expect("a runtime's entrance is its door")
}

impl EntranceOf<'_> {
    /// Returns the same entrance, borrowed from this one.
    pub(super) fn again(&self) -> EntranceOf<'_> {
        EntranceOf::Front(self)
    }
}

/// The parent of a task.
#[derive(Clone)]
pub(super) enum Kin {
    /// The task has no parent.
    None,
    /// The task has a parent, but that parent's body does not run here.
    Missing,
    Child(Arc<Domain>),
}

impl Kin {
    /// Returns the kin of tasks submitted through the context of the body that runs on this thread.
    pub(super) fn of_children(runtime: u64) -> Self {
        running::domain_here(runtime).map_or(Self::Missing, Self::Child)
    }
}

//! Stand-in for [`visit`](super::visit) in builds without interfaces that bind devices to threads.

pub(crate) fn on_own_thread() {}

/// Nothing.
pub(crate) struct Visit;

impl Visit {
    pub(crate) fn begin() -> Self {
        Self
    }
}

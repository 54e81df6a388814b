//! Stand-in for [`visit`](super::visit) in builds without interfaces that bind devices to threads.

pub(crate) fn on_own_thread() {}

/// Nothing.
pub(crate) struct Visit;

impl Visit {
    pub(crate) fn begin() -> Self {
        Self
    }
}

/// Nothing.
#[cfg(feature = "opencl")]
#[derive(Default)]
pub(super) struct LastVisit {}

#[cfg(feature = "opencl")]
impl LastVisit {
    pub(super) fn begin(&mut self) {}
}

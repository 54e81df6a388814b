//! What the engine is told.

use crate::coherence::CopyId;
use crate::depend::OwnedTask;
use crate::error::{DeviceError, FailureReason};
use crate::ids::{DeviceId, SpaceId, TaskId};

/// Nanoseconds on the driver's clock.
pub(crate) type Nanos = u64;

/// What happened.
pub(crate) enum Event<'a> {
    /// A task that was launched behind others is about to be issued: it is poisoned if one of them has failed since. Once
    /// it is issued, the device fails it with them.
    Issuing(&'a OwnedTask),
    /// A task is in its device's queue, of which it takes so many thousandths while it runs; its driver keeps it until it has
    /// ended.
    Issued(&'a OwnedTask, u32),
    /// A task that was handed out has ended.
    Finished(OwnedTask, Outcome),
    /// A launched task's body waits for something, or has returned while the task goes on: its unit has room for others. More
    /// than once changes nothing.
    Suspended(TaskId),
    /// It goes on.
    Resumed(TaskId),
    /// A launched task comes back: its device is gone.
    Returned(OwnedTask),
    /// A launched task comes back: its device had no memory for it, or, without an error, others need what it has. It waits
    /// for memory again.
    Refused(OwnedTask, Option<(DeviceId, DeviceError)>),
    /// A task that was launched has failed, and these of its devices are gone; what others have of it in flight has yet to end.
    PartFailed(&'a OwnedTask, &'a [DeviceId], FailureReason),
    /// A copy has arrived; how long it took, if that was measured.
    Copied(CopyId, Option<CopyTime>),
    /// A copy could not be made, by this device.
    CopyFailed(CopyId, DeviceId, DeviceError),
    /// So many bytes were given back in this space.
    Released(SpaceId, u64),
}

/// When a body ran, on the driver's clock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Span {
    /// For so long.
    pub(crate) elapsed_ns: Nanos,
    /// Until then.
    pub(crate) ended_ns: Nanos,
}

/// What a copy took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopyTime {
    pub(crate) elapsed_ns: Nanos,
    /// What of that it waited for others on its link, as far as it was measured with them.
    pub(crate) waited_ns: Nanos,
}

impl CopyTime {
    /// Of a copy that was measured from its own beginning.
    pub(crate) fn alone(elapsed_ns: Nanos) -> Self {
        Self { elapsed_ns, waited_ns: 0 }
    }
}

/// How a task ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The body ran.
    Done(Span),
    /// The body ran and failed.
    Failed(FailureReason),
    /// The body ran and failed, and its device is gone.
    FailedAndLost(FailureReason),
    /// The body ran and failed, as [`Event::PartFailed`] has said.
    PartFailed,
    /// The body was not run, because of the poison that the task carries.
    Skipped,
}

//! The events that a driver reports to the engine.

use crate::coherence::CopyId;
use crate::depend::OwnedTask;
use crate::error::{DeviceError, FailureReason};
use crate::ids::{DeviceId, SpaceId, TaskId};

/// Nanoseconds on the driver's clock.
pub(crate) type Nanos = u64;

/// An event.
pub(crate) enum Event<'a> {
    /// A task that was launched after others is about to be issued: it is poisoned if one of them has failed since.
    /// Once it is issued, the device fails it with them.
    Issuing(&'a OwnedTask),
    /// A task is in its device's queue, and takes this many thousandths of the device while it runs; its driver keeps
    /// it until it has ended.
    Issued(&'a OwnedTask, u32),
    /// A task that was handed out has ended.
    Finished(OwnedTask, Outcome),
    /// A launched task's body waits for something, or has returned before the task's end: its unit has room for
    /// others. Repeated events change nothing.
    Suspended(TaskId),
    /// A suspended task continues.
    Resumed(TaskId),
    /// A launched task is returned because its device is gone.
    Returned(OwnedTask),
    /// A launched task is returned because its device had no memory for it or, without an error, because others need
    /// its memory. It waits for memory again.
    Refused(OwnedTask, Option<(DeviceId, DeviceError)>),
    /// A launched task has failed, and these of its devices are gone; its work in flight on other devices has yet to
    /// end.
    PartFailed(&'a OwnedTask, &'a [DeviceId], FailureReason),
    /// A copy has arrived; with its duration, if that was measured.
    Copied(CopyId, Option<CopyTime>),
    /// A copy could not be made, by this device.
    CopyFailed(CopyId, DeviceId, DeviceError),
    /// This many bytes were given back in this space.
    Released(SpaceId, u64),
}

/// The time span of a body, on the driver's clock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Span {
    /// Its duration.
    pub(crate) elapsed_ns: Nanos,
    /// Its end.
    pub(crate) ended_ns: Nanos,
}

/// The duration of a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopyTime {
    pub(crate) elapsed_ns: Nanos,
    /// The part of it spent waiting for others on its link, as far as `elapsed_ns` includes that.
    pub(crate) waited_ns: Nanos,
}

impl CopyTime {
    /// The time of a copy that was measured without any waiting.
    pub(crate) fn alone(elapsed_ns: Nanos) -> Self {
        Self { elapsed_ns, waited_ns: 0 }
    }
}

/// The outcome of a task.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The body ran.
    Done(Span),
    /// The body ran and failed.
    Failed(FailureReason),
    /// The body ran and failed, and its device is gone.
    FailedAndLost(FailureReason),
    /// The body ran and failed, as [`Event::PartFailed`] has reported.
    PartFailed,
    /// The body was not run, because of the poison that the task carries.
    Skipped,
}

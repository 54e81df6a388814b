//! Events that a driver reports to the engine.

use super::command::Release;
use crate::coherence::CopyId;
use crate::depend::OwnedTask;
use crate::error::{DeviceError, FailureReason};
use crate::ids::{DeviceId, TaskId};

/// Nanoseconds on the driver's clock.
pub(crate) type Nanos = u64;

/// An event.
pub(crate) enum Event<'a> {
    /// A task that was launched after other tasks is about to be issued. It is poisoned if one of those tasks has
    /// failed since the launch. After this point, the device itself fails the task together with them.
    Issuing(&'a OwnedTask),
    /// A task is in its device's queue, and will take this many thousandths of the device while it runs. The driver
    /// keeps the task until it has ended.
    Issued(&'a OwnedTask, u32),
    /// A task that was handed out for running has ended.
    Finished(OwnedTask, Outcome),
    /// The body of a launched task waits for something, or has returned before the task's end, so its unit has room
    /// for other tasks. Repeating this event has no effect.
    Suspended(TaskId),
    /// A suspended task continues.
    Resumed(TaskId),
    /// A launched task is returned because its device is lost.
    Returned(OwnedTask),
    /// A launched task is returned because its device had no memory for it or, if there is no error, because other
    /// tasks need its memory. The task waits for memory again.
    Refused(OwnedTask, Option<(DeviceId, DeviceError)>),
    /// A launched task has failed, and the listed devices are lost. Its work in flight on other devices has not ended
    /// yet.
    PartFailed(&'a OwnedTask, &'a [DeviceId], FailureReason),
    /// A copy has completed, with its duration if that was measured.
    Copied(CopyId, Option<CopyTime>),
    /// A copy has failed; the device is the one that performed it.
    CopyFailed(CopyId, DeviceId, DeviceError),
    /// A replica's memory was freed.
    Released(Release),
}

/// Time span of a body's run, on the driver's clock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Span {
    /// Duration of the run.
    pub(crate) elapsed_ns: Nanos,
    /// Time at which the run ended.
    pub(crate) ended_ns: Nanos,
}

/// Duration of a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopyTime {
    pub(crate) elapsed_ns: Nanos,
    /// The part of `elapsed_ns` that the copy spent waiting for other copies on its link.
    pub(crate) waited_ns: Nanos,
    /// When the copy was enqueued, and when the device began and ended it, if the device notes times: for the trace, on
    /// its clock.
    pub(crate) on_device: Option<[u64; 3]>,
    /// The stream of the device that made the copy, if it is known: for the trace.
    pub(crate) stream: Option<u16>,
}

impl CopyTime {
    /// Returns the time of a copy that was measured without any waiting.
    pub(crate) fn alone(elapsed_ns: Nanos) -> Self {
        Self { elapsed_ns, waited_ns: 0, on_device: None, stream: None }
    }
}

/// The outcome of a task.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The body has run successfully.
    Done(Span),
    /// The body has run and failed.
    Failed(FailureReason),
    /// The body has run and failed, and its device is lost.
    FailedAndLost(FailureReason),
    /// The body has run and failed, and [`Event::PartFailed`] has already reported the failure.
    PartFailed,
    /// The body was not run, because the task is poisoned.
    Skipped,
}

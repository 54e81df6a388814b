//! What the runtime needs of a device: of any, memory and copies; of an accelerator, queues besides.
//!
//! On an accelerator everything is asynchronous: copies and tasks are enqueued, and [`Accelerator::poll`] tells what has
//! ended since. Order among tasks is asked for explicitly (`after`); a copy is made only when nothing in flight touches
//! its bytes.

use super::Buffer;
use crate::coherence::CopyId;
use crate::error::{BoxError, DeviceError};
use crate::ids::TaskId;
use crate::kernel::{DeviceSite, Enqueue};
use crate::region::MAX_DIMS;
use std::sync::Arc;

/// What was enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Task(TaskId),
    Copy(CopyId),
}

/// Something that was enqueued has ended.
#[derive(Debug)]
pub(crate) struct Completion {
    pub(crate) mark: Mark,
    /// How long it had the stream, or why it failed.
    pub(crate) result: Result<u64, DeviceError>,
}

/// Called from any thread when something may have ended.
pub(crate) type Waker = Arc<dyn Fn() + Send + Sync>;

/// One end of a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// Memory that the host can reach: the first element, and how far apart elements are.
    Host { first: *mut u8, strides: [usize; MAX_DIMS] },
    /// Memory of a device of the same domain.
    Device(DeviceSite),
}

/// A box to copy, with a device at one end at least.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceCopy {
    pub(crate) from: End,
    pub(crate) to: End,
    pub(crate) extents: [usize; MAX_DIMS],
    pub(crate) element_bytes: usize,
}

impl DeviceCopy {
    /// How many bytes it moves.
    pub(crate) fn bytes(&self) -> u64 {
        (self.extents.iter().product::<usize>() * self.element_bytes) as u64
    }
}

/// What a task enqueues.
pub(crate) trait Work {
    /// Where the host has each new private replica, and how many bytes it has.
    fn privates(&mut self) -> Vec<(*mut u8, usize)>;

    /// Runs the task's body. `privates` are the handles of its private replicas on the device, in order.
    fn enqueue(&mut self, device: &mut dyn Enqueue, privates: &[usize]) -> Result<(), BoxError>;
}

/// What becomes of a copy that a device is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copying {
    /// It has arrived.
    Arrived,
    /// It is in the device's queue; [`Accelerator::poll`] will tell.
    Enqueued,
    /// It takes a while on the thread that makes it: one of the device's own should, by [`Device::copy_now`].
    Apart,
}

/// How tasks run on a device.
pub(crate) enum Execution<'a> {
    /// On the thread that leads it.
    Here(&'a dyn Synchronous),
    /// In its own queues.
    Queued(&'a dyn Accelerator),
}

/// A device with memory of its own.
pub(crate) trait Device: Send + Sync {
    /// How tasks run on it.
    fn execution(&self) -> Execution<'_>;

    /// Devices of one domain copy among each other.
    fn domain(&self) -> (&'static str, usize);

    /// How many bytes of replicas it can hold.
    fn capacity_bytes(&self) -> u64;

    /// Memory for a replica, whose elements are aligned to `align`; its content is not defined.
    fn allocate(&self, bytes: u64, align: usize) -> Result<Buffer, DeviceError>;

    /// A region in memory of this device, as copies and bodies find it.
    fn end(&self, site: DeviceSite) -> End;

    /// Page-locks host memory for copies, if that helps; what it returns undoes that when dropped.
    ///
    /// # Safety
    /// The memory is valid until then.
    unsafe fn page_lock(&self, first: *mut u8, bytes: usize) -> Option<Box<dyn Send + Sync>> {
        let _ = (first, bytes);
        None
    }

    /// Makes a copy from or to its memory, or has it made.
    ///
    /// # Safety
    /// Both boxes are valid until the copy has ended; until then nobody writes the one or touches the other.
    unsafe fn copy(&self, copy: &DeviceCopy, id: CopyId) -> Result<Copying, DeviceError>;

    /// Makes a copy and waits for it.
    ///
    /// # Safety
    /// As for [`Self::copy`].
    unsafe fn copy_now(&self, copy: &DeviceCopy) -> Result<(), DeviceError>;
}

/// A device that does what it is told before the call returns.
pub(crate) trait Synchronous: Device {
    /// Runs a body, at the device's speed.
    ///
    /// # Errors
    /// If the device is lost; then the body was not run.
    fn run(&self, body: &mut dyn FnMut()) -> Result<(), DeviceError>;
}

/// A device with queues of its own.
pub(crate) trait Accelerator: Device {
    /// Enqueues a task behind those in `after` that are still in flight.
    ///
    /// # Errors
    /// What the body returned or the device refused; then nothing of the task is in flight any more.
    fn issue(&self, task: TaskId, after: &[TaskId], work: &mut dyn Work) -> Result<(), BoxError>;

    /// Appends what has ended since the last call.
    fn poll(&self, ended: &mut Vec<Completion>);

    /// Has `waker` called when the next thing in flight ends; false if nothing is in flight.
    fn arm(&self, waker: &Waker) -> bool;
}

//! What the runtime needs of a device: of any, memory and copies; of an accelerator, queues besides.
//!
//! On an accelerator everything is asynchronous: copies and tasks are enqueued, and [`Accelerator::poll`] tells what has
//! ended since. Order among tasks is asked for explicitly (`after`); a copy is made only when nothing in flight touches
//! its bytes.

use super::Buffer;
use crate::coherence::CopyId;
use crate::error::DeviceError;
use crate::ids::TaskId;
use crate::kernel::{DeviceSite, Enqueue};
use crate::machine::UnitKind;
use crate::memory::dlpack::DlDevice;
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
    /// Memory that the host can reach: the first element, how far apart elements are, and whether it is page-locked.
    Host { first: *mut u8, strides: [usize; MAX_DIMS], locked: bool },
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

/// A task that is being enqueued, one kernel behind the other. If it is dropped before it is closed, it waits until all
/// that was enqueued has stopped: nothing of the task is in flight then.
pub(crate) trait TaskSession: Enqueue {
    /// Copies a new private replica of the task to the device, and back when the session closes; its handle there. The
    /// host's memory is the task's until it has ended.
    fn add_private(&mut self, first: *mut u8, bytes: usize) -> Result<usize, DeviceError>;

    /// The task is complete, and in flight from now on; how much of the device it takes while it runs, in thousandths. If it
    /// `forks`, several tasks are to come behind it.
    fn close(self: Box<Self>, forks: bool) -> Result<u32, DeviceError>;

    /// The task has failed: waits until all that was enqueued has stopped, and says whether the device is as before.
    fn abandon(self: Box<Self>) -> Result<(), DeviceError>;
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

    /// Whether copies may take a while on the thread that makes them ([`Copying::Apart`]), so that it needs one of its own.
    fn copies_apart(&self) -> bool;

    /// How many bytes of replicas it can hold.
    fn capacity_bytes(&self) -> u64;

    /// How many bytes one replica can have.
    fn largest_buffer_bytes(&self) -> u64 {
        self.capacity_bytes()
    }

    /// What DLPack calls its memory, where others can use that by address.
    fn dlpack(&self) -> Option<DlDevice> {
        None
    }

    /// Whether these bytes, which others have made, are in its memory.
    fn owns(&self, first: usize, bytes: usize) -> Result<bool, DeviceError> {
        let _ = (first, bytes);
        Ok(false)
    }

    /// Waits for what others have enqueued on the interface's default stream.
    fn settle(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Memory for a replica, whose elements are aligned to `align`; its content is not defined.
    fn allocate(&self, bytes: u64, align: usize) -> Result<Buffer, DeviceError>;

    /// Whether it uses unified memory at the host's addresses, also while the host does.
    fn reaches_unified(&self) -> bool {
        false
    }

    /// Unified memory, from a device that reaches it; its content is not defined.
    fn allocate_unified(&self, bytes: usize) -> Result<Buffer, DeviceError> {
        unreachable!("a device without unified memory is not asked for {bytes} bytes of it")
    }

    /// Has pages of unified memory moved to the device, or to the host: a hint, which is waited for like a copy.
    ///
    /// # Safety
    /// The memory is there until this has ended.
    unsafe fn prefetch(&self, first: usize, bytes: usize, to_host: bool, id: CopyId) -> Result<Copying, DeviceError> {
        let _ = (first, bytes, to_host, id);
        Ok(Copying::Arrived)
    }

    /// A region in memory of this device, as copies and bodies find it.
    fn end(&self, site: DeviceSite) -> End;

    /// Page-locks host memory for copies, if that helps; what it returns undoes that when dropped.
    ///
    /// # Safety
    /// The memory is valid until then.
    unsafe fn pin_memory(&self, first: *mut u8, bytes: usize) -> Option<Box<dyn Send + Sync>> {
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
    /// The kind of units whose interface it has, which a unit of kind `GPU` does not tell.
    fn interface(&self) -> UnitKind;

    /// Begins to enqueue a task, behind those in `after` that are still in flight.
    fn open<'a>(&'a self, task: TaskId, after: &[TaskId]) -> Result<Box<dyn TaskSession + 'a>, DeviceError>;

    /// Appends what has ended since the last call.
    fn poll(&self, ended: &mut Vec<Completion>);

    /// Has `waker` called when the next thing in flight ends; false if nothing is in flight.
    fn arm(&self, waker: &Waker) -> bool;
}

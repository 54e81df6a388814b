//! The interface between the runtime and devices. Every device has memory and makes copies; an accelerator also has
//! queues.
//!
//! On an accelerator everything is asynchronous: copies and tasks are enqueued, and [`Accelerator::poll`] reports
//! which of them have ended. The order of tasks is requested explicitly (`after`). Copies need no such order, because
//! a copy is requested only when nothing in flight touches its bytes.

use super::Buffer;
use crate::coherence::CopyId;
use crate::error::DeviceError;
use crate::ids::TaskId;
use crate::kernel::{DeviceSite, Enqueue};
use crate::machine::UnitKind;
use crate::memory::dlpack::DlDevice;
use crate::region::MAX_DIMS;
use std::sync::Arc;

/// Identifies an enqueued task or copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Task(TaskId),
    Copy(CopyId),
}

/// Reports that an enqueued task or copy has ended.
#[derive(Debug)]
pub(crate) struct Completion {
    pub(crate) mark: Mark,
    /// How long the task or copy took, or why it failed.
    pub(crate) result: Result<Took, DeviceError>,
}

/// How long a task or copy took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    /// How long it occupied the stream as the host sees it, in nanoseconds.
    pub(crate) elapsed_ns: u64,
    /// When it was on the device, if the device notes times.
    pub(crate) on_device: Option<OnDevice>,
    /// The stream that it occupied; `None` if it occupied several.
    pub(crate) stream: Option<u16>,
}

/// Times of a task or copy by the device's clock, converted to the host's ([`HostClock`](crate::trace::HostClock)).
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnDevice {
    /// When the host began to enqueue it.
    pub(crate) enqueued: u64,
    /// When the device began it.
    pub(crate) begun: u64,
    /// When the device ended it.
    pub(crate) ended: u64,
}

impl OnDevice {
    /// Returns the times of a task that is on several devices.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            enqueued: self.enqueued.min(other.enqueued),
            begun: self.begun.min(other.begun),
            ended: self.ended.max(other.ended),
        }
    }
}

/// A callback for when a task or copy may have ended. It may be called from any thread.
pub(crate) type Waker = Arc<dyn Fn() + Send + Sync>;

/// The source or destination of a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// Memory that the host can access: the address of the first element, the strides in elements, and whether the
    /// memory is page-locked.
    Host { first: *mut u8, strides: [usize; MAX_DIMS], locked: bool },
    /// Memory of a device in the same domain.
    Device(DeviceSite),
}

/// A copy of a box, with a device on at least one end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceCopy {
    pub(crate) from: End,
    pub(crate) to: End,
    pub(crate) extents: [usize; MAX_DIMS],
    pub(crate) element_bytes: usize,
}

impl DeviceCopy {
    /// Returns the number of bytes that are copied.
    pub(crate) fn bytes(&self) -> u64 {
        (self.extents.iter().product::<usize>() * self.element_bytes) as u64
    }
}

/// A task that is being enqueued, one kernel after the other. Dropping a session before it is closed waits until
/// everything that was enqueued has stopped, so that nothing of the task remains in flight.
pub(crate) trait TaskSession: Enqueue {
    /// Creates a private replica for the task: copies it to the device now, and back to the host when the session
    /// closes. Returns the replica's handle on the device. The host memory belongs to the task until the task has
    /// ended.
    fn add_private(&mut self, first: *mut u8, bytes: usize) -> Result<usize, DeviceError>;

    /// Makes everything that the task enqueues from here on wait for these tasks, as far as they are still in flight.
    fn follow(&mut self, after: &[TaskId]) -> Result<(), DeviceError>;

    /// Completes the enqueueing of the task, which is in flight from then on. Returns the share of the device that
    /// the task occupies while it runs, in thousandths. `forks` means that several tasks will follow this one.
    fn close(self: Box<Self>, forks: bool) -> Result<u32, DeviceError>;

    /// Abandons a failed task: waits until everything that was enqueued has stopped. An error means that the device
    /// is no longer in its previous state.
    fn abandon(self: Box<Self>) -> Result<(), DeviceError>;
}

/// The state of a copy that was requested from a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copying {
    /// The copy has ended.
    Arrived,
    /// The copy is in the device's queue, and [`Accelerator::poll`] will report its end.
    Enqueued,
    /// The copy was not made, because it would occupy the calling thread for a while. A separate thread should make
    /// it with [`Device::copy_now`].
    Apart,
}

/// The way in which a device runs tasks.
pub(crate) enum Execution<'a> {
    /// On the thread that leads the device.
    Here(&'a dyn Synchronous),
    /// In the device's own queues.
    Queued(&'a dyn Accelerator),
}

/// A device with its own memory.
pub(crate) trait Device: Send + Sync {
    /// Returns how tasks run on the device.
    fn execution(&self) -> Execution<'_>;

    /// Returns the device's domain. Devices in the same domain can copy to each other.
    fn domain(&self) -> (&'static str, usize);

    /// Returns whether copies may occupy their thread for a while ([`Copying::Apart`]), in which case the device
    /// needs a separate thread for copies.
    fn copies_apart(&self) -> bool;

    /// Returns the total size of the replicas that the device can hold, in bytes.
    fn capacity_bytes(&self) -> u64;

    /// Returns the maximum size of one replica, in bytes.
    fn largest_buffer_bytes(&self) -> u64 {
        self.capacity_bytes()
    }

    /// Returns the DLPack description of the device's memory, or `None` if other libraries cannot use the memory by
    /// address.
    fn dlpack(&self) -> Option<DlDevice> {
        None
    }

    /// Returns whether these bytes, allocated by another library, are in the device's memory.
    fn owns(&self, first: usize, bytes: usize) -> Result<bool, DeviceError> {
        let _ = (first, bytes);
        Ok(false)
    }

    /// Waits for the work that other libraries have enqueued on the interface's default stream.
    fn settle(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Allocates memory for a replica whose elements are aligned to `align`. The contents are undefined.
    fn allocate(&self, bytes: u64, align: usize) -> Result<Buffer, DeviceError>;

    /// Returns whether the device can access unified memory at the host's addresses, even while the host accesses it.
    fn reaches_unified(&self) -> bool {
        false
    }

    /// Allocates unified memory with undefined contents. Requires [`Self::reaches_unified`].
    fn allocate_unified(&self, bytes: usize) -> Result<Buffer, DeviceError> {
        unreachable!("a device without unified memory cannot allocate {bytes} bytes of it")
    }

    /// Requests that pages of unified memory move to the device, or to the host. The request is only a hint, but
    /// callers wait for its end as for the end of a copy.
    ///
    /// # Safety
    /// The memory must exist until the prefetch has ended.
    unsafe fn prefetch(&self, first: usize, bytes: usize, to_host: bool, id: CopyId) -> Result<Copying, DeviceError> {
        let _ = (first, bytes, to_host, id);
        Ok(Copying::Arrived)
    }

    /// Converts a region in this device's memory to an end of a copy.
    fn end(&self, site: DeviceSite) -> End;

    /// Returns whether the device can page-lock existing host memory.
    fn locks_pages(&self) -> bool {
        false
    }

    /// Page-locks host memory to speed up copies, if that helps on this device. Dropping the returned lock unlocks
    /// the memory.
    ///
    /// # Safety
    /// The memory must be valid until the returned lock is dropped.
    unsafe fn pin_memory(&self, first: *mut u8, bytes: usize) -> Option<Box<dyn Send + Sync>> {
        let _ = (first, bytes);
        None
    }

    /// Makes or enqueues a copy to or from the device's memory.
    ///
    /// # Safety
    /// Both boxes must be valid until the copy has ended. Until then, nothing may write to the source or touch the
    /// destination.
    unsafe fn copy(&self, copy: &DeviceCopy, id: CopyId) -> Result<Copying, DeviceError>;

    /// Makes a copy and waits until it has ended.
    ///
    /// # Safety
    /// As for [`Self::copy`].
    unsafe fn copy_now(&self, copy: &DeviceCopy) -> Result<(), DeviceError>;
}

/// A device that completes each call before it returns.
pub(crate) trait Synchronous: Device {
    /// Runs a task body at the device's speed.
    ///
    /// # Errors
    /// Returns an error if the device is lost; in that case, the body did not run.
    fn run(&self, body: &mut dyn FnMut()) -> Result<(), DeviceError>;
}

/// A device with its own queues.
pub(crate) trait Accelerator: Device {
    /// Returns the kind of units of the device's interface. The unit's own kind does not determine it, because a unit
    /// of kind `GPU` may use any interface.
    fn interface(&self) -> UnitKind;

    /// Returns whether the device can repeat the launches of a task by itself.
    fn has_loops(&self) -> bool {
        false
    }

    /// Begins to enqueue a task that runs after the tasks in `after`, as far as they are still in flight. The task will
    /// [follow](TaskSession::follow) the tasks in `later`.
    fn open<'a>(
        &'a self,
        task: TaskId,
        after: &[TaskId],
        later: &[TaskId],
    ) -> Result<Box<dyn TaskSession + 'a>, DeviceError>;

    /// Appends the completions of everything that has ended since the last call.
    fn poll(&self, ended: &mut Vec<Completion>);

    /// Registers `waker` to be called when the next task or copy in flight ends; returns false if nothing is in
    /// flight.
    fn arm(&self, waker: &Waker) -> bool;
}

//! The interfaces between runtime and devices: every device has memory and copies; an accelerator also has queues.
//!
//! On an accelerator everything is asynchronous: copies and tasks are enqueued, and [`Accelerator::poll`] reports
//! which have ended. Order among tasks is requested explicitly (`after`); a copy is made only when nothing in flight
//! touches its bytes.

use super::Buffer;
use crate::coherence::CopyId;
use crate::error::DeviceError;
use crate::ids::TaskId;
use crate::kernel::{DeviceSite, Enqueue};
use crate::machine::UnitKind;
use crate::memory::dlpack::DlDevice;
use crate::region::MAX_DIMS;
use std::sync::Arc;

/// The identity of an enqueued task or copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Task(TaskId),
    Copy(CopyId),
}

/// The end of an enqueued task or copy.
#[derive(Debug)]
pub(crate) struct Completion {
    pub(crate) mark: Mark,
    /// How long it occupied the stream, or why it failed.
    pub(crate) result: Result<u64, DeviceError>,
}

/// Called from any thread when something may have ended.
pub(crate) type Waker = Arc<dyn Fn() + Send + Sync>;

/// One end of a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// Memory that the host can access: the first element, the strides in elements, and whether it is page-locked.
    Host { first: *mut u8, strides: [usize; MAX_DIMS], locked: bool },
    /// Memory of a device of the same domain.
    Device(DeviceSite),
}

/// A box to copy, with a device on at least one end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceCopy {
    pub(crate) from: End,
    pub(crate) to: End,
    pub(crate) extents: [usize; MAX_DIMS],
    pub(crate) element_bytes: usize,
}

impl DeviceCopy {
    /// Returns how many bytes the copy moves.
    pub(crate) fn bytes(&self) -> u64 {
        (self.extents.iter().product::<usize>() * self.element_bytes) as u64
    }
}

/// A task that is being enqueued, one kernel after the other. A session that is dropped before it is closed waits
/// until everything that was enqueued has stopped; then nothing of the task is in flight.
pub(crate) trait TaskSession: Enqueue {
    /// Copies a new private replica of the task to the device, and back when the session closes; returns its handle
    /// on the device. The host memory belongs to the task until it has ended.
    fn add_private(&mut self, first: *mut u8, bytes: usize) -> Result<usize, DeviceError>;

    /// Completes the task, which is in flight from then on. Returns how much of the device it occupies while it runs,
    /// in thousandths. `forks` says that several tasks will follow it.
    fn close(self: Box<Self>, forks: bool) -> Result<u32, DeviceError>;

    /// Abandons the failed task: waits until everything that was enqueued has stopped. An error means that the device
    /// is not as before.
    fn abandon(self: Box<Self>) -> Result<(), DeviceError>;
}

/// The state of a copy that was requested from a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copying {
    /// The copy has ended.
    Arrived,
    /// The copy is in the device's queue; [`Accelerator::poll`] will report its end.
    Enqueued,
    /// The copy occupies its thread for a while: a separate thread should make it, by [`Device::copy_now`].
    Apart,
}

/// How a device runs tasks.
pub(crate) enum Execution<'a> {
    /// On the thread that leads the device.
    Here(&'a dyn Synchronous),
    /// In the device's own queues.
    Queued(&'a dyn Accelerator),
}

/// A device with separate memory.
pub(crate) trait Device: Send + Sync {
    /// Returns how tasks run on the device.
    fn execution(&self) -> Execution<'_>;

    /// Returns the device's domain. Devices of one domain copy between each other.
    fn domain(&self) -> (&'static str, usize);

    /// Returns whether copies may occupy their thread for a while ([`Copying::Apart`]), so that the device needs a
    /// thread for them.
    fn copies_apart(&self) -> bool;

    /// Returns how many bytes of replicas the device can hold.
    fn capacity_bytes(&self) -> u64;

    /// Returns how many bytes one replica can have.
    fn largest_buffer_bytes(&self) -> u64 {
        self.capacity_bytes()
    }

    /// Returns DLPack's description of the device's memory, if other libraries can use it by address.
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

    /// Allocates memory for a replica, whose elements are aligned to `align`; its content is undefined.
    fn allocate(&self, bytes: u64, align: usize) -> Result<Buffer, DeviceError>;

    /// Returns whether the device accesses unified memory at the host's addresses, even while the host does.
    fn reaches_unified(&self) -> bool {
        false
    }

    /// Allocates unified memory; its content is undefined. The device must reach unified memory.
    fn allocate_unified(&self, bytes: usize) -> Result<Buffer, DeviceError> {
        unreachable!("a device without unified memory cannot allocate {bytes} bytes of it")
    }

    /// Requests that pages of unified memory move to the device, or to the host. It is a hint, whose end is waited
    /// for like a copy's.
    ///
    /// # Safety
    /// The memory exists until this has ended.
    unsafe fn prefetch(&self, first: usize, bytes: usize, to_host: bool, id: CopyId) -> Result<Copying, DeviceError> {
        let _ = (first, bytes, to_host, id);
        Ok(Copying::Arrived)
    }

    /// Returns a region in the memory of this device as an end of copies.
    fn end(&self, site: DeviceSite) -> End;

    /// Page-locks host memory for copies, if that helps; dropping the returned lock undoes it.
    ///
    /// # Safety
    /// The memory is valid until then.
    unsafe fn pin_memory(&self, first: *mut u8, bytes: usize) -> Option<Box<dyn Send + Sync>> {
        let _ = (first, bytes);
        None
    }

    /// Makes or enqueues a copy from or to the device's memory.
    ///
    /// # Safety
    /// Both boxes are valid until the copy has ended; until then nothing writes the source or touches the
    /// destination.
    unsafe fn copy(&self, copy: &DeviceCopy, id: CopyId) -> Result<Copying, DeviceError>;

    /// Makes a copy and waits for it.
    ///
    /// # Safety
    /// As for [`Self::copy`].
    unsafe fn copy_now(&self, copy: &DeviceCopy) -> Result<(), DeviceError>;
}

/// A device that completes each call before it returns.
pub(crate) trait Synchronous: Device {
    /// Runs a body, at the device's speed.
    ///
    /// # Errors
    /// If the device is lost; in that case the body was not run.
    fn run(&self, body: &mut dyn FnMut()) -> Result<(), DeviceError>;
}

/// A device with its own queues.
pub(crate) trait Accelerator: Device {
    /// Returns the kind of units of the device's interface, which a unit of kind `GPU` does not determine.
    fn interface(&self) -> UnitKind;

    /// Begins to enqueue a task, after those in `after` that are still in flight.
    fn open<'a>(&'a self, task: TaskId, after: &[TaskId]) -> Result<Box<dyn TaskSession + 'a>, DeviceError>;

    /// Appends everything that has ended since the last call.
    fn poll(&self, ended: &mut Vec<Completion>);

    /// Registers `waker` to be called when the next task or copy in flight ends; returns false if nothing is in
    /// flight.
    fn arm(&self, waker: &Waker) -> bool;
}

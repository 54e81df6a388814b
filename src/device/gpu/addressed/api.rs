//! The functions of an interface whose device memory has addresses (CUDA or HIP), one method per function.

use super::error::ApiError;
use super::platform::Platform;
use super::transfer::Transfer;
use crate::kernel::Groups;
use std::ffi::{CStr, c_int, c_uint, c_void};

/// An object of the interface: a stream, event, module, function, graph or node.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(in crate::device) struct Handle(pub(in crate::device) *mut c_void);

impl Handle {
    /// Wraps an object of the type that the interface's bindings declare.
    pub(in crate::device) fn of<T>(raw: *mut T) -> Self {
        Self(raw.cast())
    }

    /// Returns the object as that type.
    pub(in crate::device) fn as_raw<T>(self) -> *mut T {
        self.0.cast()
    }
}

// SAFETY: a handle is an address that only the interface dereferences, and the interface's objects may be used from
// any thread.
unsafe impl Send for Handle {}
// SAFETY: a shared reference to a handle does not dereference the address either.
unsafe impl Sync for Handle {}

/// `CUmemAccessDesc` and `hipMemAccessDesc`: the access of a device to a pool's memory.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(in crate::device) struct PoolAccess {
    location: c_uint,
    device: c_int,
    flags: c_uint,
}

impl PoolAccess {
    /// Lets a device read and write.
    pub(in crate::device) fn of_device(device: c_int) -> Self {
        const DEVICE: c_uint = 1; // `..._MEM_LOCATION_TYPE_DEVICE`
        const READ_AND_WRITE: c_uint = 3; // `..._ACCESS_FLAGS_PROT_READWRITE`
        Self { location: DEVICE, device, flags: READ_AND_WRITE }
    }
}

/// A kernel with its launch parameters.
pub(in crate::device) struct KernelCall<'a> {
    pub(in crate::device) function: Handle,
    pub(in crate::device) groups: Groups,
    /// Threads per group.
    pub(in crate::device) group: [u32; 3],
    /// Pointers to the argument values. The interface reads the values during the call.
    pub(in crate::device) arguments: &'a mut [*mut c_void],
}

/// An open device of the interface.
///
/// Before any call that may fail, the caller must bind the device to the calling thread with [`Self::bind`].
///
/// # Safety
/// For all unsafe calls: handles and addresses must come from the same device and must not have been destroyed; each
/// must be destroyed only once, when nothing uses it any more; the memory used by a copy or a launch must be valid
/// until the copy or launch has ended.
pub(in crate::device) trait Api: Platform {
    /// The maximum number of groups per dimension, regardless of the group size.
    const MOST_GROUPS: [u32; 3];
    /// The maximum total number of threads in all groups, per dimension.
    const MOST_THREADS: u64;

    /// The DLPack device type.
    const DLPACK: i32;

    /// Opens the device with this index, which must have been discovered before.
    fn open(number: c_int) -> Result<Self, ApiError>;
    /// Returns the domain of the device. Devices in the same domain can copy to each other.
    fn domain(&self) -> usize;
    /// Makes the device current on the calling thread.
    fn bind(&self) -> Result<(), ApiError>;
    /// Returns the context or device that is current on the calling thread.
    fn current() -> Result<usize, ApiError>;
    /// Makes current what [`Self::current`] has returned.
    unsafe fn restore(context: usize) -> Result<(), ApiError>;
    /// Returns the device's index.
    fn number(&self) -> c_int;
    /// Returns the device's context; 0 if the interface has no contexts.
    fn context(&self) -> usize;
    /// Returns the amount of free device memory, in bytes.
    fn free_bytes(&self) -> Result<u64, ApiError>;

    fn allocate(&self, bytes: usize) -> Result<usize, ApiError>;
    unsafe fn free(&self, base: usize) -> Result<(), ApiError>;
    /// Makes the driver's pool of device memory keep all memory, and lets other devices reach it. Returns a stream in
    /// whose order memory is allocated and freed, or `None` if the driver or the device has no pools.
    fn open_pool(&self, others: &[PoolAccess]) -> Result<Option<Handle>, ApiError>;
    /// Allocates memory from the pool, which any stream may use from now on.
    unsafe fn allocate_pooled(&self, stream: Handle, bytes: usize) -> Result<usize, ApiError>;
    unsafe fn free_pooled(&self, stream: Handle, base: usize) -> Result<(), ApiError>;
    /// Allocates page-locked host memory that all devices can use for copies.
    fn allocate_host(&self, bytes: usize) -> Result<usize, ApiError>;
    unsafe fn free_host(&self, base: usize) -> Result<(), ApiError>;
    /// Returns whether the host and the device may use unified memory at the same time, with pages migrating to where
    /// they are used.
    fn reaches_unified(&self) -> Result<bool, ApiError>;
    /// Allocates unified memory, which is freed with [`Self::free`].
    fn allocate_unified(&self, bytes: usize) -> Result<usize, ApiError>;
    /// Enqueues a move of unified memory pages to this device, or to the host.
    unsafe fn prefetch(&self, stream: Handle, first: usize, bytes: usize, to_host: bool) -> Result<(), ApiError>;
    unsafe fn pin_memory(&self, first: *mut u8, bytes: usize) -> Result<(), ApiError>;
    /// Returns the first address and the size of the page-locked range that contains this address.
    fn locked_range(&self, address: usize) -> Result<(usize, usize), ApiError>;
    unsafe fn page_unlock(&self, first: *mut u8) -> Result<(), ApiError>;

    /// Creates a stream that does not synchronise with the default stream.
    fn create_stream(&self) -> Result<Handle, ApiError>;
    unsafe fn destroy_stream(&self, stream: Handle) -> Result<(), ApiError>;
    /// Creates an event, which has a time only if it `is_timed`. Threads that wait for the event sleep rather than
    /// spin.
    fn create_event(&self, is_timed: bool) -> Result<Handle, ApiError>;
    unsafe fn destroy_event(&self, event: Handle) -> Result<(), ApiError>;
    unsafe fn record(&self, stream: Handle, event: Handle) -> Result<(), ApiError>;
    unsafe fn wait(&self, stream: Handle, event: Handle) -> Result<(), ApiError>;
    /// Returns the error [`NOT_READY`] if the event has not occurred yet.
    unsafe fn query(&self, event: Handle) -> Result<(), ApiError>;
    unsafe fn synchronize(&self, event: Handle) -> Result<(), ApiError>;
    /// Returns the time from one event to a later one in milliseconds, or the error [`NOT_READY`] if one of them has
    /// not occurred yet. Both events must be timed.
    unsafe fn elapsed_ms(&self, from: Handle, to: Handle) -> Result<f32, ApiError>;

    /// Returns the value that [`Self::owner`] returns for this device's own memory.
    fn id(&self) -> usize;
    /// Returns the identity of the device on which the memory was allocated.
    unsafe fn owner(&self, address: usize) -> Result<usize, ApiError>;
    /// Returns the index of the device that contains the memory, no matter which library allocated it.
    unsafe fn device_of(&self, address: usize) -> Result<c_int, ApiError>;
    /// Waits for the work on the default stream, which other libraries may use.
    fn synchronize_default(&self) -> Result<(), ApiError>;
    /// Gives this device direct access to the memory of the device `peer`, which [`Self::owner`] returned.
    unsafe fn enable_peer(&self, peer: usize) -> Result<(), ApiError>;
    /// Enqueues a copy. For a copy across devices, `owner` is the device that owns the source memory.
    unsafe fn copy(&self, stream: Handle, transfer: &Transfer, owner: usize) -> Result<(), ApiError>;

    fn load_module(&self, image: &[u8]) -> Result<Handle, ApiError>;
    unsafe fn unload_module(&self, module: Handle) -> Result<(), ApiError>;
    unsafe fn function(&self, module: Handle, name: &CStr) -> Result<Handle, ApiError>;
    /// Returns why the device cannot launch kernels with these groups, if it cannot. Does not compare the size of
    /// shared memory with a limit.
    fn lacks(&self, groups: &Groups) -> Result<Option<&'static str>, ApiError>;
    /// Returns the most shared memory that a group may have, in bytes.
    fn most_shared_bytes(&self) -> Result<c_int, ApiError>;
    /// Lets the function be launched with this much dynamic shared memory, if it needs permission for that.
    unsafe fn allow_shared(&self, function: Handle, bytes: u32) -> Result<(), ApiError>;
    unsafe fn launch(&self, stream: Handle, kernel: KernelCall<'_>) -> Result<(), ApiError>;

    /// Returns whether the library supports graphs. The graph functions below may be called only if it does.
    fn has_graphs(&self) -> bool;
    fn create_graph(&self) -> Result<Handle, ApiError>;
    /// Adds a kernel that runs after the nodes in `before`. The argument values are read before this function
    /// returns.
    unsafe fn add_kernel(&self, graph: Handle, before: &[Handle], kernel: KernelCall<'_>) -> Result<Handle, ApiError>;
    unsafe fn instantiate(&self, graph: Handle) -> Result<Handle, ApiError>;
    /// Sets new argument values for a node of the instantiated graph. They apply to future launches.
    unsafe fn set_kernel(&self, instance: Handle, node: Handle, kernel: KernelCall<'_>) -> Result<(), ApiError>;
    unsafe fn launch_graph(&self, instance: Handle, stream: Handle) -> Result<(), ApiError>;
    /// Returns whether the library supports loops in graphs.
    fn has_loops(&self) -> bool {
        false
    }
    /// Adds a loop to a graph. Returns the handle of its condition, which holds at first, and the graph of an
    /// iteration, which belongs to the loop.
    unsafe fn add_loop(&self, _graph: Handle) -> Result<(u64, Handle), ApiError> {
        unreachable!("the library has no loops")
    }
    unsafe fn destroy_instance(&self, instance: Handle) -> Result<(), ApiError>;
    unsafe fn destroy_graph(&self, graph: Handle) -> Result<(), ApiError>;
}

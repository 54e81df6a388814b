//! The calls of an interface whose device memory has addresses (CUDA or HIP), one method each.

use super::error::ApiError;
use super::platform::Platform;
use super::transfer::Transfer;
use std::ffi::{CStr, c_int, c_void};

/// An object of the interface: a stream, an event, a module, a function, a graph, a node.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(in crate::device) struct Handle(pub(in crate::device) *mut c_void);

// SAFETY: an address that only the interface dereferences, whose objects may be used from any thread.
unsafe impl Send for Handle {}
// SAFETY: a shared reference does not dereference the address either.
unsafe impl Sync for Handle {}

/// A kernel with its launch parameters.
pub(in crate::device) struct KernelCall<'a> {
    pub(in crate::device) function: Handle,
    pub(in crate::device) groups: [u32; 3],
    /// Threads per group.
    pub(in crate::device) group: [u32; 3],
    /// Pointers to the values, which are read during the call.
    pub(in crate::device) arguments: &'a mut [*mut c_void],
}

/// A device of the interface.
///
/// Before calls that may fail, the device is bound to the calling thread by [`Self::bind`].
///
/// # Safety
/// For all unsafe calls: handles and addresses come from the same device and are valid until they are destroyed,
/// which happens once, when nothing uses them any more; the memory of a copy or a launch is valid until its end.
pub(in crate::device) trait Api: Platform {
    /// The largest number of groups per dimension, regardless of their size.
    const MOST_GROUPS: [u32; 3];
    /// The largest number of threads of all groups together, per dimension.
    const MOST_THREADS: u64;

    /// DLPack's device type.
    const DLPACK: i32;

    /// Opens the device with this number, which was found before.
    fn open(number: c_int) -> Result<Self, ApiError>;
    /// Returns the domain of the device: devices of one domain can copy between each other.
    fn domain(&self) -> usize;
    /// Makes it the current device of the calling thread.
    fn bind(&self) -> Result<(), ApiError>;
    /// Returns its number.
    fn number(&self) -> c_int;
    /// Returns its context; 0 if the interface has none.
    fn context(&self) -> usize;
    /// Returns the number of unallocated bytes.
    fn free_bytes(&self) -> Result<u64, ApiError>;

    fn allocate(&self, bytes: usize) -> Result<usize, ApiError>;
    unsafe fn free(&self, base: usize) -> Result<(), ApiError>;
    /// Allocates page-locked host memory, for copies of every device.
    fn allocate_host(&self, bytes: usize) -> Result<usize, ApiError>;
    unsafe fn free_host(&self, base: usize) -> Result<(), ApiError>;
    /// Returns whether host and device may use unified memory at the same time, with pages moving to where they are
    /// used.
    fn reaches_unified(&self) -> Result<bool, ApiError>;
    /// Allocates unified memory, which [`Self::free`] frees.
    fn allocate_unified(&self, bytes: usize) -> Result<usize, ApiError>;
    /// Moves pages of unified memory to this device, or to the host.
    unsafe fn prefetch(&self, stream: Handle, first: usize, bytes: usize, to_host: bool) -> Result<(), ApiError>;
    unsafe fn pin_memory(&self, first: *mut u8, bytes: usize) -> Result<(), ApiError>;
    unsafe fn page_unlock(&self, first: *mut u8) -> Result<(), ApiError>;

    /// Creates a stream that does not synchronise with the default stream.
    fn create_stream(&self) -> Result<Handle, ApiError>;
    unsafe fn destroy_stream(&self, stream: Handle) -> Result<(), ApiError>;
    /// Creates an event without timing, on which threads sleep rather than spin.
    fn create_event(&self) -> Result<Handle, ApiError>;
    unsafe fn destroy_event(&self, event: Handle) -> Result<(), ApiError>;
    unsafe fn record(&self, stream: Handle, event: Handle) -> Result<(), ApiError>;
    unsafe fn wait(&self, stream: Handle, event: Handle) -> Result<(), ApiError>;
    /// Fails with [`NOT_READY`] if the event has not occurred.
    unsafe fn query(&self, event: Handle) -> Result<(), ApiError>;
    unsafe fn synchronize(&self, event: Handle) -> Result<(), ApiError>;

    /// Returns the value of [`Self::owner`] for this device's own memory.
    fn id(&self) -> usize;
    /// Returns the device on which memory was allocated.
    unsafe fn owner(&self, address: usize) -> Result<usize, ApiError>;
    /// Returns the number of the device that contains the memory, whichever library has allocated it.
    unsafe fn device_of(&self, address: usize) -> Result<c_int, ApiError>;
    /// Waits for the work on the default stream, which other libraries may use.
    fn synchronize_default(&self) -> Result<(), ApiError>;
    /// Gives this device direct access to the memory of the device that [`Self::owner`] returned.
    unsafe fn enable_peer(&self, peer: usize) -> Result<(), ApiError>;
    /// Enqueues a copy. If it is across devices, the source is memory of `owner`.
    unsafe fn copy(&self, stream: Handle, transfer: &Transfer, owner: usize) -> Result<(), ApiError>;

    fn load_module(&self, image: &[u8]) -> Result<Handle, ApiError>;
    unsafe fn unload_module(&self, module: Handle) -> Result<(), ApiError>;
    unsafe fn function(&self, module: Handle, name: &CStr) -> Result<Handle, ApiError>;
    unsafe fn launch(&self, stream: Handle, kernel: KernelCall<'_>) -> Result<(), ApiError>;

    /// Returns whether the library supports graphs; the calls below are made only then.
    fn has_graphs(&self) -> bool;
    fn create_graph(&self) -> Result<Handle, ApiError>;
    /// Adds a kernel that runs after these nodes. The values are read before this returns.
    unsafe fn add_kernel(&self, graph: Handle, before: &[Handle], kernel: KernelCall<'_>) -> Result<Handle, ApiError>;
    unsafe fn instantiate(&self, graph: Handle) -> Result<Handle, ApiError>;
    /// Gives a node of the instantiated graph new values, for future launches.
    unsafe fn set_kernel(&self, instance: Handle, node: Handle, kernel: KernelCall<'_>) -> Result<(), ApiError>;
    unsafe fn launch_graph(&self, instance: Handle, stream: Handle) -> Result<(), ApiError>;
    unsafe fn destroy_instance(&self, instance: Handle) -> Result<(), ApiError>;
    unsafe fn destroy_graph(&self, graph: Handle) -> Result<(), ApiError>;
}

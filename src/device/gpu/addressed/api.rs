//! One call each of an interface whose device memory has addresses: CUDA or HIP.

use super::error::ApiError;
use super::platform::Platform;
use super::transfer::Transfer;
use std::ffi::{CStr, c_int, c_void};

/// An object of the interface: a stream, an event, a module, a function, a graph, a node.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(in crate::device) struct Handle(pub(in crate::device) *mut c_void);

// SAFETY: an address that nobody dereferences but the interface, whose objects may be used from any thread.
unsafe impl Send for Handle {}
// SAFETY: it is an address, which a shared reference does not follow either.
unsafe impl Sync for Handle {}

/// A kernel, with what it is launched with.
pub(in crate::device) struct KernelCall<'a> {
    pub(in crate::device) function: Handle,
    pub(in crate::device) groups: [u32; 3],
    /// Threads of a group.
    pub(in crate::device) group: [u32; 3],
    /// Where the values are, which are read during the call.
    pub(in crate::device) arguments: &'a mut [*mut c_void],
}

/// A device of the interface.
///
/// Before calls that may be refused the device is bound to the calling thread, by [`Self::bind`].
///
/// # Safety
/// Of all unsafe calls: handles and addresses come from the same device and are valid until they are destroyed, which
/// happens once, when nothing uses them any more; the memory of a copy or a launch is valid until its end.
pub(in crate::device) trait Api: Platform {
    /// Groups per dimension, as far as their number is limited by itself.
    const MOST_GROUPS: [u32; 3];
    /// Threads per dimension.
    const MOST_THREADS: u64;

    /// DLPack's type of its devices.
    const DLPACK: i32;

    /// Opens the device of this number, which was found.
    fn open(number: c_int) -> Result<Self, ApiError>;
    /// Tells apart the groups of devices that can copy among each other.
    fn domain(&self) -> usize;
    /// Makes it the device of the calling thread.
    fn bind(&self) -> Result<(), ApiError>;
    /// Its number.
    fn number(&self) -> c_int;
    /// Its context; 0 where the interface has none.
    fn context(&self) -> usize;
    /// Bytes that nobody has allocated.
    fn free_bytes(&self) -> Result<u64, ApiError>;

    fn allocate(&self, bytes: usize) -> Result<usize, ApiError>;
    unsafe fn free(&self, base: usize) -> Result<(), ApiError>;
    /// Page-locked host memory, for copies of every device.
    fn allocate_host(&self, bytes: usize) -> Result<usize, ApiError>;
    unsafe fn free_host(&self, base: usize) -> Result<(), ApiError>;
    /// Whether host and device may use unified memory at the same time, and pages go where they are used.
    fn reaches_unified(&self) -> Result<bool, ApiError>;
    /// Unified memory, which [`Self::free`] frees.
    fn allocate_unified(&self, bytes: usize) -> Result<usize, ApiError>;
    /// Moves pages of unified memory to this device, or to the host.
    unsafe fn prefetch(&self, stream: Handle, first: usize, bytes: usize, to_host: bool) -> Result<(), ApiError>;
    unsafe fn pin_memory(&self, first: *mut u8, bytes: usize) -> Result<(), ApiError>;
    unsafe fn page_unlock(&self, first: *mut u8) -> Result<(), ApiError>;

    /// A stream that knows nothing of the default one.
    fn create_stream(&self) -> Result<Handle, ApiError>;
    unsafe fn destroy_stream(&self, stream: Handle) -> Result<(), ApiError>;
    /// An event that measures no time, and for which threads sleep.
    fn create_event(&self) -> Result<Handle, ApiError>;
    unsafe fn destroy_event(&self, event: Handle) -> Result<(), ApiError>;
    unsafe fn record(&self, stream: Handle, event: Handle) -> Result<(), ApiError>;
    unsafe fn wait(&self, stream: Handle, event: Handle) -> Result<(), ApiError>;
    /// Refuses with [`NOT_READY`] if it has not come.
    unsafe fn query(&self, event: Handle) -> Result<(), ApiError>;
    unsafe fn synchronize(&self, event: Handle) -> Result<(), ApiError>;

    /// What [`Self::owner`] says of this device's own memory.
    fn id(&self) -> usize;
    /// The device that memory was allocated on.
    unsafe fn owner(&self, address: usize) -> Result<usize, ApiError>;
    /// The number of the device that memory is on, whoever has made it.
    unsafe fn device_of(&self, address: usize) -> Result<c_int, ApiError>;
    /// Waits for what was enqueued on the stream that others use who name none.
    fn synchronize_default(&self) -> Result<(), ApiError>;
    /// Has this device reach the memory of the one that [`Self::owner`] named.
    unsafe fn enable_peer(&self, peer: usize) -> Result<(), ApiError>;
    /// Copies; across, from memory of `owner`.
    unsafe fn copy(&self, stream: Handle, transfer: &Transfer, owner: usize) -> Result<(), ApiError>;

    fn load_module(&self, image: &[u8]) -> Result<Handle, ApiError>;
    unsafe fn unload_module(&self, module: Handle) -> Result<(), ApiError>;
    unsafe fn function(&self, module: Handle, name: &CStr) -> Result<Handle, ApiError>;
    unsafe fn launch(&self, stream: Handle, kernel: KernelCall<'_>) -> Result<(), ApiError>;

    /// Whether the library has graphs; the calls below are made only then.
    fn has_graphs(&self) -> bool;
    fn create_graph(&self) -> Result<Handle, ApiError>;
    /// Adds a kernel that comes behind these nodes. The values are read before this returns.
    unsafe fn add_kernel(&self, graph: Handle, before: &[Handle], kernel: KernelCall<'_>) -> Result<Handle, ApiError>;
    unsafe fn instantiate(&self, graph: Handle) -> Result<Handle, ApiError>;
    /// Gives a node of the graph that was instantiated other values, for launches to come.
    unsafe fn set_kernel(&self, instance: Handle, node: Handle, kernel: KernelCall<'_>) -> Result<(), ApiError>;
    unsafe fn launch_graph(&self, instance: Handle, stream: Handle) -> Result<(), ApiError>;
    unsafe fn destroy_instance(&self, instance: Handle) -> Result<(), ApiError>;
    unsafe fn destroy_graph(&self, graph: Handle) -> Result<(), ApiError>;
}

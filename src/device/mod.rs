//! Devices, each with its own memory and the processors that compute on that memory.
//!
//! Every [`Device`] has memory and makes copies. There are two families of devices. An [`EmulatedDevice`] keeps its
//! memory in host memory, and runs CPU bodies on the device's hosting thread. An [`Accelerator`] has memory that the
//! host cannot reach, and streams, which execute work asynchronously; it reports when work has ended. `gpu/` contains
//! everything that accelerators share; `opencl/`, `cuda/` and `hip/` implement the individual calls of each
//! interface.
//!
//! A device knows nothing about dependences or coherence. The engine decides which bytes to copy, where and when, and
//! the runtime calls this layer accordingly.

#![allow(unsafe_code)] // raw memory is handed out and copied here; every use has a SAFETY comment

#[cfg(any(feature = "cuda", feature = "hip"))]
mod compile;
#[cfg(feature = "cuda")]
mod cuda;
#[allow(clippy::module_inception)] // contains the device interface that the rest of the runtime uses
mod device;
mod discover;
mod discovered;
#[cfg(unix)]
mod disk;
#[cfg(not(unix))]
#[path = "disk/absent.rs"]
mod disk;
mod emulated;
#[cfg(any(feature = "cuda", feature = "hip"))]
mod functions;
#[cfg(any(feature = "cuda", feature = "hip", feature = "opencl"))]
mod gpu;
mod guarded;
#[cfg(feature = "hip")]
mod hip;
mod interfaces;
#[cfg(any(feature = "cuda", feature = "hip", feature = "opencl"))]
mod measure;
#[cfg(feature = "opencl")]
mod opencl;
#[cfg(any(feature = "cuda", feature = "hip"))]
mod ranges;
mod reduction;
mod survey;
#[cfg(any(feature = "cuda", feature = "hip"))]
mod visit;
#[cfg(not(any(feature = "cuda", feature = "hip")))]
#[path = "visit_absent.rs"]
mod visit;

#[cfg(any(feature = "cuda", feature = "hip"))]
pub use compile::compile_for;
#[cfg(feature = "cuda")]
pub use cuda::Cudarc;
pub(crate) use device::{
    Accelerator, Completion, Copying, Device, DeviceCopy, End, Execution, Mark, OnDevice, Synchronous, TaskSession,
    Took, Waker,
};
pub(crate) use discover::{MeterOf, Opened, open};
pub(crate) use disk::Disk;
#[cfg(unix)]
pub(crate) use disk::UserFile;
use emulated::Emulated;
pub use emulated::EmulatedDevice;
pub(crate) use guarded::Overrun;
pub use interfaces::interfaces;
#[cfg(any(feature = "cuda", feature = "hip", feature = "opencl"))]
pub use measure::{Measurement, measurement};
#[cfg(any(feature = "cuda", feature = "hip"))]
pub(crate) use ranges::Range;
pub(crate) use reduction::Contribution;
pub use survey::{DeviceFacts, Interface};
#[cfg(any(feature = "cuda", feature = "hip", feature = "opencl"))]
use visit::LastVisit;
pub(crate) use visit::{Visit, on_own_thread};

use std::fmt;
use std::ptr::NonNull;

/// Memory in a device's address space. It is freed when the buffer is dropped.
pub(crate) struct Buffer {
    /// The memory's address, or the handle that the interface uses for it.
    base: usize,
    /// Zones around the memory that no body may write to.
    guards: Option<guarded::Guards>,
    _owner: Box<dyn Send + Sync>,
}

// SAFETY: whoever creates a buffer hands over memory that only the buffer's owner frees, so the memory stays
// allocated; and devices that allocate unified memory expose its address.
unsafe impl crate::memory::Allocated for Buffer {
    fn base(&self) -> usize {
        self.base
    }
}

impl Buffer {
    /// Creates a buffer of memory that `owner` frees when it is dropped.
    pub(crate) fn new(base: usize, owner: impl Send + Sync + 'static) -> Self {
        Self { base, guards: None, _owner: Box::new(owner) }
    }

    /// Allocates zeroed host memory, aligned to 64 bytes, or to `align` if that is more.
    fn in_host_memory(bytes: usize, align: usize) -> Self {
        let layout = std::alloc::Layout::from_size_align(bytes.max(1), align.max(64));
        let layout = layout.expect("a replica fits the address space");
        // SAFETY: the layout's size is not zero.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        let base = NonNull::new(base).unwrap_or_else(|| std::alloc::handle_alloc_error(layout));
        Self::new(base.as_ptr().expose_provenance(), HostMemory { base, layout })
    }

    /// Sets the guard zones around the memory.
    #[cfg(any(feature = "cuda", feature = "hip", feature = "opencl"))]
    fn between(self, guards: Option<guarded::Guards>) -> Self {
        Self { guards, ..self }
    }

    /// Wraps the owner of the memory in another owner.
    fn owned_by<T: Send + Sync + 'static>(self, owner: impl FnOnce(Self) -> T) -> Self {
        let (base, guards) = (self.base, self.guards);
        Self { guards, ..Self::new(base, owner(self)) }
    }

    /// Returns the handle.
    pub(crate) fn base(&self) -> usize {
        self.base
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({:#x})", self.base)
    }
}

struct HostMemory {
    base: NonNull<u8>,
    layout: std::alloc::Layout,
}

// SAFETY: the value owns its bytes, and the engine decides which thread may touch them at any time.
unsafe impl Send for HostMemory {}
// SAFETY: a shared reference gives no access to the bytes.
unsafe impl Sync for HostMemory {}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated with this layout, and is freed only here.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), self.layout) }
    }
}

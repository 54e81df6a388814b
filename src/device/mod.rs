//! Devices: separate memories, and the processors that compute on them.
//!
//! Every [`Device`] has memory and makes copies. There are two families. An [`EmulatedDevice`] is in host memory and
//! runs CPU bodies on the thread that leads it. An [`Accelerator`] has memory that the host cannot reach, and
//! streams: it executes work asynchronously and reports its end. `gpu/` contains everything that accelerators share;
//! `opencl/`, `cuda/` and `hip/` implement the single calls of their interface.
//!
//! A device knows nothing of dependences or coherence: the engine decides which bytes go where and when, and the
//! runtime calls this layer.

#![allow(unsafe_code)] // raw memory is handed out and copied here; every use states its reason

#[cfg(any(feature = "cuda", feature = "hip"))]
mod compile;
#[cfg(feature = "cuda")]
mod cuda;
#[allow(clippy::module_inception)] // the interface of devices to the rest of the runtime
mod device;
mod discover;
mod discovered;
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
mod survey;

#[cfg(any(feature = "cuda", feature = "hip"))]
pub use compile::compile_for;
pub(crate) use device::{
    Accelerator, Completion, Copying, Device, DeviceCopy, End, Execution, Mark, Synchronous, TaskSession, Waker,
};
pub(crate) use discover::{MeterOf, Opened, open};
use emulated::Emulated;
pub use emulated::EmulatedDevice;
pub(crate) use guarded::Overrun;
pub use interfaces::interfaces;
#[cfg(any(feature = "cuda", feature = "hip", feature = "opencl"))]
pub use measure::{Measurement, measurement};
pub use survey::{DeviceFacts, Interface};

use std::fmt;
use std::ptr::NonNull;

/// Memory in a device's address space; freed when dropped.
pub(crate) struct Buffer {
    /// Its address, or the interface's handle.
    base: usize,
    /// Zones around it that no body may write.
    guards: Option<guarded::Guards>,
    _owner: Box<dyn Send + Sync>,
}

// SAFETY: the creator of a buffer hands over memory that only the owner frees, and devices that allocate unified
// memory expose its address.
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

    /// Sets the zones between which the memory is.
    #[cfg(any(feature = "cuda", feature = "hip", feature = "opencl"))]
    fn between(self, guards: Option<guarded::Guards>) -> Self {
        Self { guards, ..self }
    }

    /// Wraps the owner of the memory in another one.
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

// SAFETY: the value owns its bytes; the engine decides which thread may touch them when.
unsafe impl Send for HostMemory {}
// SAFETY: a shared reference gives no access to the bytes.
unsafe impl Sync for HostMemory {}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, freed once.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), self.layout) }
    }
}

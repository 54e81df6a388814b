//! The thin layer that differs between CUDA, HIP and OpenCL, with one method per call.

use super::graph::GraphNode;
use super::slabs::Slab;
use crate::device::guarded::Guards;
use crate::error::DeviceError;
use crate::kernel::{ArgumentValue, KernelText, Limits, Module, Program, RawHandles};
use crate::machine::UnitKind;
use crate::memory::dlpack::DlDevice;

/// Returns the error of a module that has no code for an interface.
pub(crate) fn no_code<B: Backend>(backend: &B, module: &Module) -> DeviceError {
    DeviceError::NoCompiler {
        program: module.name().to_owned(),
        device: backend.name().to_owned(),
        why: format!("the module has no code for {0}; try `Module::{1}`", B::API, B::API.to_lowercase()),
    }
}

/// A device of one interface.
///
/// A stream executes its work in order; different streams are ordered only by events. All methods may be called from
/// any thread; calls with the same stream come one at a time.
pub(crate) trait Backend: Send + Sync + 'static {
    /// The name of the interface in errors.
    const API: &'static str;
    /// The kind of units that its devices make up.
    const KIND: UnitKind;

    /// Owns device memory; dropped, and so freed, when nothing uses it any more.
    type Memory: Send + Sync;
    /// Owns page-locked host memory; reused when dropped.
    type HostMemory: Send + Sync;
    type Stream: Send + Sync;
    /// A moment in a stream.
    type Event: Send + Sync + Clone;
    /// A compiled program.
    type Module: Send + Sync;
    /// A kernel of a module.
    type Function: Send + Sync;
    /// Kernels that are launched together; destroyed when dropped.
    type Graph: Send + Sync;

    /// Whether a graph's nodes can be given new values.
    const NODES_CHANGE: bool = false;

    /// Returns the device's name.
    fn name(&self) -> &str;

    /// Returns the domain of the device: devices of one domain can copy between each other.
    fn domain(&self) -> usize;

    /// Returns whether kernels reach memory of another device of its domain, by its handle.
    fn reach(&self, _base: usize) -> bool {
        true
    }

    /// Returns approximately how many threads run at once; 0 if unknown.
    fn threads_at_once(&self) -> u64 {
        0
    }

    /// Returns the limits of a group.
    #[cfg_attr(not(feature = "macros"), allow(dead_code, reason = "generated code alone asks for them"))]
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// Returns the number of bytes that the runtime may use.
    fn free_bytes(&self) -> u64;

    /// Returns how many bytes one allocation can have, if the interface says so.
    fn largest_buffer_bytes(&self) -> u64 {
        u64::MAX
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

    /// Allocates device memory, and returns it with its handle.
    fn allocate(&self, bytes: usize) -> Result<(Self::Memory, usize), DeviceError>;

    /// Returns the guard zones around memory, if it has any that the host can read.
    fn guards(&self, _memory: &Self::Memory) -> Option<Guards> {
        None
    }

    /// Returns whether host and device may use unified memory at the same time.
    fn reaches_unified(&self) -> bool {
        false
    }

    /// Allocates unified memory, and returns its owner and its address. The device must reach unified memory.
    fn allocate_unified(&self, bytes: usize) -> Result<(Box<dyn Send + Sync>, usize), DeviceError> {
        unreachable!("{} has no unified memory for {bytes} bytes", self.name())
    }

    /// Enqueues a move of pages of unified memory to the device, or to the host.
    ///
    /// # Safety
    /// The memory exists until this has ended.
    unsafe fn prefetch(
        &self,
        stream: &Self::Stream,
        first: usize,
        bytes: usize,
        to_host: bool,
    ) -> Result<(), DeviceError> {
        let _ = (stream, first, bytes, to_host);
        Ok(())
    }

    /// Allocates page-locked host memory, and returns it with its address. Returns `None` if copies from and to other
    /// memory do not block the caller, or if the interface has none left.
    fn host_memory(&self, bytes: usize) -> Result<Option<(Self::HostMemory, *mut u8)>, DeviceError> {
        let _ = bytes;
        Ok(None)
    }

    /// Returns whether existing host memory can't be page-locked. In that case large copies go through
    /// [`Self::host_memory`] as well, piece by piece.
    fn packs_large_copies(&self) -> bool {
        false
    }

    fn stream(&self) -> Result<Self::Stream, DeviceError>;

    /// Page-locks host memory for copies, if that helps; dropping the returned lock undoes it.
    ///
    /// # Safety
    /// The memory is valid until then.
    unsafe fn pin_memory(&self, first: *mut u8, bytes: usize) -> Option<Box<dyn Send + Sync>> {
        let _ = (first, bytes);
        None
    }

    /// Enqueues a copy from host memory to device memory.
    ///
    /// # Safety
    /// Both ends are valid until the copy has ended; until then nothing writes the source or touches the destination.
    unsafe fn copy_in(&self, stream: &Self::Stream, from: *const u8, to: usize, slab: &Slab)
    -> Result<(), DeviceError>;

    /// Enqueues a copy from device memory to host memory.
    ///
    /// # Safety
    /// As for [`Self::copy_in`].
    unsafe fn copy_out(&self, stream: &Self::Stream, from: usize, to: *mut u8, slab: &Slab) -> Result<(), DeviceError>;

    /// Enqueues a copy between memories of this device, or from another device of its domain to this one.
    ///
    /// # Safety
    /// As for [`Self::copy_in`].
    unsafe fn copy_across(&self, stream: &Self::Stream, from: usize, to: usize, slab: &Slab)
    -> Result<(), DeviceError>;

    /// Compiles a program, or takes its code from the cache.
    fn module(&self, program: &Program) -> Result<Self::Module, DeviceError>;

    /// Compiles or loads a module written for this interface.
    fn own_module(&self, module: &Module) -> Result<Self::Module, DeviceError>;

    /// Returns a kernel of a module.
    fn function(&self, module: &Self::Module, kernel: &KernelText) -> Result<Self::Function, DeviceError>;

    /// Refuses a launch that the interface cannot make.
    fn check(&self, kernel: &KernelText, groups: [u32; 3]) -> Result<(), DeviceError> {
        let _ = (kernel, groups);
        Ok(())
    }

    /// Enqueues a kernel, with a group size and a number of groups that [`Self::check`] has accepted.
    ///
    /// # Safety
    /// The arguments are the kernel's, and memory among them is valid until it has ended.
    unsafe fn launch(
        &self,
        stream: &Self::Stream,
        function: &Self::Function,
        group: [u32; 3],
        groups: [u32; 3],
        arguments: &[ArgumentValue],
    ) -> Result<(), DeviceError>;

    /// Returns whether there are graphs, and launching one is faster than its launches one by one.
    fn has_graphs(&self) -> bool {
        false
    }

    /// Makes a graph of these kernels, each of which runs after those of lower numbers that its edges name. The graph
    /// may be launched while it is in flight, and then runs once more after that. Requires [`Self::has_graphs`].
    ///
    /// # Safety
    /// The arguments are the kernels'.
    unsafe fn graph(&self, nodes: &[GraphNode<'_, Self>], edges: &[Vec<u32>]) -> Result<Self::Graph, DeviceError>
    where
        Self: Sized;

    /// Returns whether all memory that a graph uses still exists, by the same handles.
    fn is_usable(&self, graph: &Self::Graph) -> bool {
        let _ = graph;
        true
    }

    /// Gives a node new values. Requires [`Self::NODES_CHANGE`].
    ///
    /// # Safety
    /// As for [`Self::graph`]; the graph is not in flight, and the kernel is the same.
    unsafe fn set_node(
        &self,
        graph: &mut Self::Graph,
        number: usize,
        node: &GraphNode<'_, Self>,
    ) -> Result<(), DeviceError>
    where
        Self: Sized,
    {
        let _ = (graph, number, node);
        unreachable!("nodes keep their values")
    }

    /// Enqueues a graph, which must be usable.
    ///
    /// # Safety
    /// Memory among its arguments, and the graph, are valid until it has ended.
    unsafe fn launch_graph(&self, stream: &Self::Stream, graph: &Self::Graph) -> Result<(), DeviceError>;

    /// Makes the device current on the calling thread, and returns the handles for calling the interface with this
    /// stream.
    fn raw(&self, stream: &Self::Stream) -> Result<RawHandles, DeviceError>;

    /// Called after user code may have enqueued work on the stream, and may have bound the calling thread to
    /// something else.
    fn after_raw(&self, stream: &Self::Stream);

    /// Ensures that the device starts the enqueued work.
    fn flush(&self, stream: &Self::Stream) -> Result<(), DeviceError> {
        let _ = stream;
        Ok(())
    }

    /// Records an event that occurs when everything enqueued so far has ended. Ensures that the device starts the
    /// work.
    fn record(&self, stream: &Self::Stream) -> Result<Self::Event, DeviceError>;

    /// Makes work enqueued from here on wait for an event of another stream.
    fn wait(&self, stream: &Self::Stream, event: &Self::Event) -> Result<(), DeviceError>;

    /// Returns whether the event has occurred.
    fn is_complete(&self, event: &Self::Event) -> Result<bool, DeviceError>;

    /// Registers `then` to be called when the event has occurred, from any thread.
    fn notify(&self, event: &Self::Event, then: Box<dyn FnOnce() + Send>) -> Result<(), DeviceError>;

    /// Waits until the event has occurred.
    fn synchronize(&self, event: &Self::Event) -> Result<(), DeviceError>;
}

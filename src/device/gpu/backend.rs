//! The thin part that differs between CUDA, HIP and OpenCL: one call each.

use super::graph::GraphNode;
use super::slabs::Slab;
use crate::device::guarded::Guards;
use crate::error::DeviceError;
use crate::kernel::{ArgumentValue, KernelText, Limits, Module, Program, RawHandles};
use crate::machine::UnitKind;
use crate::memory::dlpack::DlDevice;

/// A module that has no code for an interface.
pub(crate) fn no_code<B: Backend>(backend: &B, module: &Module) -> DeviceError {
    DeviceError::NoCompiler {
        program: module.name().to_owned(),
        device: backend.name().to_owned(),
        why: format!("the module has no code for {0}; try `Module::{1}`", B::API, B::API.to_lowercase()),
    }
}

/// A device of one interface.
///
/// Streams do what they are given in order; different streams know nothing of each other but by events. All calls may come
/// from any thread; calls with the same stream come one at a time.
pub(crate) trait Backend: Send + Sync + 'static {
    /// What errors call the interface.
    const API: &'static str;
    /// The kind of units that its devices make up.
    const KIND: UnitKind;

    /// Owns device memory; freed when dropped, when nothing uses it any more.
    type Memory: Send + Sync;
    /// Owns page-locked host memory; for others when dropped.
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

    /// A graph's nodes can be given other values.
    const NODES_CHANGE: bool = false;

    /// The device's name.
    fn name(&self) -> &str;

    /// Tells apart the groups of devices that can copy among each other.
    fn domain(&self) -> usize;

    /// Whether kernels reach memory of another device of its domain, by its handle.
    fn reach(&self, _base: usize) -> bool {
        true
    }

    /// About how many threads run at once; 0 if that is not known.
    fn threads_at_once(&self) -> u64 {
        0
    }

    /// What a group can have.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// The bytes that are free for the runtime.
    fn free_bytes(&self) -> u64;

    /// How many bytes can be allocated at once, if the interface says so.
    fn largest_buffer_bytes(&self) -> u64 {
        u64::MAX
    }

    /// What DLPack calls the device's memory, where others can use that by address.
    fn dlpack(&self) -> Option<DlDevice> {
        None
    }

    /// Whether these bytes, which others have made, are in the device's memory.
    fn owns(&self, first: usize, bytes: usize) -> Result<bool, DeviceError> {
        let _ = (first, bytes);
        Ok(false)
    }

    /// Waits for what others have enqueued on the interface's default stream.
    fn settle(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Device memory and its handle.
    fn allocate(&self, bytes: usize) -> Result<(Self::Memory, usize), DeviceError>;

    /// The guard zones around memory, if it has any that the host can look at.
    fn guards(&self, _memory: &Self::Memory) -> Option<Guards> {
        None
    }

    /// Whether host and device may use unified memory at the same time.
    fn reaches_unified(&self) -> bool {
        false
    }

    /// Unified memory, which its owner frees, and its address; only where it is reached.
    fn allocate_unified(&self, bytes: usize) -> Result<(Box<dyn Send + Sync>, usize), DeviceError> {
        unreachable!("{} has no unified memory for {bytes} bytes", self.name())
    }

    /// Enqueues that pages of unified memory go to the device, or to the host.
    ///
    /// # Safety
    /// The memory is there until this has ended.
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

    /// Page-locked host memory and its address; none where copies from and to other memory hold nobody up, or where the
    /// interface has none left.
    fn host_memory(&self, bytes: usize) -> Result<Option<(Self::HostMemory, *mut u8)>, DeviceError> {
        let _ = bytes;
        Ok(None)
    }

    /// Whether host memory that is given can't be page-locked: then large copies go by way of [`Self::host_memory`] as well,
    /// piece by piece.
    fn packs_large_copies(&self) -> bool {
        false
    }

    fn stream(&self) -> Result<Self::Stream, DeviceError>;

    /// Page-locks host memory for copies, where that helps; what it returns undoes that when dropped.
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
    /// Both ends are valid until the copy has ended; until then nobody writes the one or touches the other.
    unsafe fn copy_in(&self, stream: &Self::Stream, from: *const u8, to: usize, slab: &Slab)
    -> Result<(), DeviceError>;

    /// Enqueues a copy from device memory to host memory.
    ///
    /// # Safety
    /// As for [`Self::copy_in`].
    unsafe fn copy_out(&self, stream: &Self::Stream, from: usize, to: *mut u8, slab: &Slab) -> Result<(), DeviceError>;

    /// Enqueues a copy between memories of this device, or from another one of its domain to it.
    ///
    /// # Safety
    /// As for [`Self::copy_in`].
    unsafe fn copy_across(&self, stream: &Self::Stream, from: usize, to: usize, slab: &Slab)
    -> Result<(), DeviceError>;

    /// Compiles a program, or takes it from where compiled ones are kept.
    fn module(&self, program: &Program) -> Result<Self::Module, DeviceError>;

    /// Compiles or loads what is written for this interface.
    fn own_module(&self, module: &Module) -> Result<Self::Module, DeviceError>;

    /// A kernel of a module.
    fn function(&self, module: &Self::Module, kernel: &KernelText) -> Result<Self::Function, DeviceError>;

    /// Refuses a launch that the interface can not make.
    fn check(&self, kernel: &KernelText, groups: [u32; 3]) -> Result<(), DeviceError> {
        let _ = (kernel, groups);
        Ok(())
    }

    /// Enqueues a kernel with as many threads in a group, and as many groups, as [`Self::check`] has passed.
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

    /// Whether there are graphs, and it is faster to launch one than what is in it.
    fn has_graphs(&self) -> bool {
        false
    }

    /// A graph of these kernels, each of which comes behind those of lower numbers that its edges name. It may be launched while
    /// it is in flight, to run once more behind that. There are graphs.
    ///
    /// # Safety
    /// The arguments are the kernels'.
    unsafe fn graph(&self, nodes: &[GraphNode<'_, Self>], edges: &[Vec<u32>]) -> Result<Self::Graph, DeviceError>
    where
        Self: Sized;

    /// Whether all memory that a graph uses is still there, by the same handles.
    fn is_usable(&self, graph: &Self::Graph) -> bool {
        let _ = graph;
        true
    }

    /// Gives a node other values, where these can be given.
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

    /// Enqueues a graph, which is usable.
    ///
    /// # Safety
    /// Memory among its arguments, and the graph, are valid until it has ended.
    unsafe fn launch_graph(&self, stream: &Self::Stream, graph: &Self::Graph) -> Result<(), DeviceError>;

    /// Makes the device the calling thread's; what it takes to call the interface with this stream.
    fn raw(&self, stream: &Self::Stream) -> Result<RawHandles, DeviceError>;

    /// Others may have enqueued something on the stream, and have bound the calling thread to something else.
    fn after_raw(&self, stream: &Self::Stream);

    /// Sees to it that the device begins with what was enqueued.
    fn flush(&self, stream: &Self::Stream) -> Result<(), DeviceError> {
        let _ = stream;
        Ok(())
    }

    /// The moment when all that was enqueued so far has ended. Sees to it that the device begins.
    fn record(&self, stream: &Self::Stream) -> Result<Self::Event, DeviceError>;

    /// What is enqueued from here on waits for an event of another stream.
    fn wait(&self, stream: &Self::Stream, event: &Self::Event) -> Result<(), DeviceError>;

    /// Whether it has come.
    fn is_complete(&self, event: &Self::Event) -> Result<bool, DeviceError>;

    /// Has `then` called when it has come, from any thread.
    fn notify(&self, event: &Self::Event, then: Box<dyn FnOnce() + Send>) -> Result<(), DeviceError>;

    /// Waits until it has come.
    fn synchronize(&self, event: &Self::Event) -> Result<(), DeviceError>;
}

//! The thin layer that differs between CUDA, HIP and OpenCL, with one method per operation.

use super::graph::GraphNode;
use super::slabs::Slab;
use crate::device::guarded::Guards;
use crate::error::DeviceError;
use crate::kernel::{ArgumentValue, Groups, KernelText, Limits, Module, Program, RawHandles};
use crate::machine::UnitKind;
use crate::memory::dlpack::DlDevice;

/// Returns the error for a module that has no code for the backend's interface.
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
/// any thread, but calls that use the same stream are made one at a time. Implementations call
/// [`may_block`](crate::sync::may_block) before calls that may wait for the device or the system.
pub(crate) trait Backend: Send + Sync + 'static {
    /// The name of the interface in error messages.
    const API: &'static str;
    /// The kind of units that the interface's devices make up.
    const KIND: UnitKind;

    /// Owns device memory. It is dropped, which frees the memory, when nothing uses the memory any more.
    type Memory: Send + Sync;
    /// Owns page-locked host memory, which becomes available for reuse when the owner is dropped.
    type HostMemory: Send + Sync;
    type Stream: Send + Sync;
    /// A point in a stream's work, which occurs when all earlier work has ended.
    type Event: Send + Sync + Clone;
    /// A point in a stream's work, of which the device notes the time.
    type Stamp: Send + Sync;
    /// The begin of a piece of work on a stream.
    type Begun: Send + Sync;
    /// A compiled program.
    type Module: Send + Sync;
    /// A kernel in a compiled module.
    type Function: Send + Sync;
    /// Kernels that are launched together. The graph is destroyed when this is dropped.
    type Graph: Send + Sync;

    /// Whether the argument values of a graph's nodes can be changed.
    const NODES_CHANGE: bool = false;

    /// Returns the device's name.
    fn name(&self) -> &str;

    /// Returns the domain of the device. Devices in the same domain can copy to each other.
    fn domain(&self) -> usize;

    /// Returns whether kernels on this device can access memory of another device in the domain, given the memory's
    /// handle. The first call for a device requests the access.
    fn reach(&self, _base: usize) -> bool {
        true
    }

    /// Returns the approximate number of threads that can run at the same time; 0 if unknown.
    fn threads_at_once(&self) -> u64 {
        0
    }

    /// Returns the device's limits on thread groups.
    #[cfg_attr(not(feature = "macros"), allow(dead_code, reason = "generated code alone asks for them"))]
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// Returns the amount of device memory that the runtime may use, in bytes.
    fn free_bytes(&self) -> u64;

    /// Returns the maximum size of one allocation in bytes, if the interface limits it.
    fn largest_buffer_bytes(&self) -> u64 {
        u64::MAX
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

    /// Allocates device memory, and returns its owner and its handle.
    fn allocate(&self, bytes: usize) -> Result<(Self::Memory, usize), DeviceError>;

    /// Returns whether memory may be used for another purpose after its first.
    fn reuses_memory(&self) -> bool {
        true
    }

    /// Returns the guard zones around the memory, if there are any that the host can read.
    fn guards(&self, _memory: &Self::Memory) -> Option<Guards> {
        None
    }

    /// Returns whether the host and the device may use unified memory at the same time.
    fn reaches_unified(&self) -> bool {
        false
    }

    /// Allocates unified memory, and returns its owner and its address. Requires [`Self::reaches_unified`].
    fn allocate_unified(&self, bytes: usize) -> Result<(Box<dyn Send + Sync>, usize), DeviceError> {
        unreachable!("{} has no unified memory for {bytes} bytes", self.name())
    }

    /// Enqueues a move of unified memory pages to the device, or to the host.
    ///
    /// # Safety
    /// The memory must exist until the move has ended.
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

    /// Returns whether calls that copy from or to host memory that is not page-locked may block their thread.
    fn copies_block(&self) -> bool {
        false
    }

    /// Allocates page-locked host memory, and returns its owner and its address. Returns `None` if the interface has no
    /// page-locked memory left. Requires [`Self::copies_block`].
    fn host_memory(&self, bytes: usize) -> Result<Option<(Self::HostMemory, *mut u8)>, DeviceError> {
        let _ = bytes;
        Ok(None)
    }

    /// Returns the number of streams that the device executes independently of each other.
    fn queues(&self) -> usize {
        19
    }

    fn stream(&self) -> Result<Self::Stream, DeviceError>;

    /// Returns whether [`Self::pin_memory`] can lock memory.
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

    /// Enqueues a copy from host memory to device memory.
    ///
    /// # Safety
    /// Both ends must be valid until the copy has ended. Until then, nothing may write to the source or touch the
    /// destination.
    unsafe fn copy_in(&self, stream: &Self::Stream, from: *const u8, to: usize, slab: &Slab)
    -> Result<(), DeviceError>;

    /// Enqueues a copy from device memory to host memory.
    ///
    /// # Safety
    /// The same requirements as for [`Self::copy_in`].
    unsafe fn copy_out(&self, stream: &Self::Stream, from: usize, to: *mut u8, slab: &Slab) -> Result<(), DeviceError>;

    /// Returns the device that owns this memory, as [`Self::copy_across`] takes it, and requests access to it if it is
    /// another one in the domain. Without access, copies go through the host.
    fn source(&self, _base: usize) -> Result<usize, DeviceError> {
        Ok(0)
    }

    /// Enqueues a copy within the memory of this device, or from another device in the domain to this device. `source`
    /// is the result of [`Self::source`] for the first of the two handles.
    ///
    /// # Safety
    /// The same requirements as for [`Self::copy_in`].
    unsafe fn copy_across(
        &self,
        stream: &Self::Stream,
        source: usize,
        between: [usize; 2],
        slab: &Slab,
    ) -> Result<(), DeviceError>;

    /// Compiles a program, or loads its code from the cache.
    fn module(&self, program: &Program) -> Result<Self::Module, DeviceError>;

    /// Compiles or loads the code of a user's [`Module`] for this interface.
    fn own_module(&self, module: &Module) -> Result<Self::Module, DeviceError>;

    /// Returns a kernel of a module.
    fn function(&self, module: &Self::Module, kernel: &KernelText) -> Result<Self::Function, DeviceError>;

    /// Returns an error for a launch that the device does not support, and prepares the function for it.
    fn check(&self, function: &Self::Function, kernel: &KernelText, groups: Groups) -> Result<(), DeviceError> {
        let _ = (function, kernel, groups);
        Ok(())
    }

    /// Enqueues a kernel, with a group size and a number of groups that [`Self::check`] has accepted.
    ///
    /// # Safety
    /// The arguments must match the kernel's parameters, and the memory that they refer to must be valid until the
    /// kernel has ended.
    unsafe fn launch(
        &self,
        stream: &Self::Stream,
        function: &Self::Function,
        group: [u32; 3],
        groups: Groups,
        arguments: &[ArgumentValue],
    ) -> Result<(), DeviceError>;

    /// Returns whether graphs are supported and launching a graph is faster than launching its kernels one by one.
    fn has_graphs(&self) -> bool {
        false
    }

    /// Creates a graph of the kernels in `nodes`. Each kernel runs after the kernels in its list in `edges`, which
    /// have lower indices. The graph may be launched while it is in flight; the new launch then runs after the
    /// previous one. Requires [`Self::has_graphs`].
    ///
    /// # Safety
    /// The arguments must match the kernels' parameters.
    unsafe fn graph(&self, nodes: &[GraphNode<'_, Self>], edges: &[Vec<u32>]) -> Result<Self::Graph, DeviceError>
    where
        Self: Sized;

    /// Returns whether the device can repeat a graph by itself.
    fn has_loops(&self) -> bool {
        false
    }

    /// Like [`Self::graph`], but the device repeats the graph: after all other nodes, `last` decides whether another
    /// iteration follows. Its last argument is replaced by the handle of the condition. Requires [`Self::has_loops`].
    ///
    /// # Safety
    /// The arguments must match the kernels' parameters.
    unsafe fn loop_graph(
        &self,
        nodes: &[GraphNode<'_, Self>],
        edges: &[Vec<u32>],
        last: &GraphNode<'_, Self>,
    ) -> Result<Self::Graph, DeviceError>
    where
        Self: Sized,
    {
        let _ = (nodes, edges, last);
        unreachable!("the host repeats")
    }

    /// Returns whether all memory that a graph uses still exists under the same handles.
    fn is_usable(&self, graph: &Self::Graph) -> bool {
        let _ = graph;
        true
    }

    /// Sets new argument values for a node. Requires [`Self::NODES_CHANGE`].
    ///
    /// # Safety
    /// The same requirements as for [`Self::graph`]. In addition, the graph must not be in flight, and the node's
    /// kernel must stay the same.
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

    /// Enqueues a graph, which must be usable ([`Self::is_usable`]).
    ///
    /// # Safety
    /// The graph, and the memory that its arguments refer to, must be valid until the graph has ended.
    unsafe fn launch_graph(&self, stream: &Self::Stream, graph: &Self::Graph) -> Result<(), DeviceError>;

    /// Makes the device current on the calling thread, and returns the handles with which a task body can call the
    /// interface on this stream.
    fn raw(&self, stream: &Self::Stream) -> Result<RawHandles, DeviceError>;

    /// Called when user code may have enqueued work on the stream, and may have bound the calling thread to another
    /// device.
    fn after_raw(&self, stream: &Self::Stream);

    /// Ensures that the device starts the work that has been enqueued.
    fn flush(&self, stream: &Self::Stream) -> Result<(), DeviceError> {
        let _ = stream;
        Ok(())
    }

    /// Records an event that occurs when all work enqueued so far has ended. Also ensures that the device starts this
    /// work.
    fn record(&self, stream: &Self::Stream) -> Result<Self::Event, DeviceError>;

    /// Makes all work that is enqueued from here on wait for an event of another stream.
    fn wait(&self, stream: &Self::Stream, event: &Self::Event) -> Result<(), DeviceError>;

    /// Returns whether the event has occurred.
    fn is_complete(&self, event: &Self::Event) -> Result<bool, DeviceError>;

    /// Registers `then` to be called, on any thread, when the event has occurred.
    fn notify(&self, event: &Self::Event, then: Box<dyn FnOnce() + Send>) -> Result<(), DeviceError>;

    /// Waits until the event has occurred.
    fn synchronize(&self, event: &Self::Event) -> Result<(), DeviceError>;

    /// Notes that a piece of work begins on a stream. The work is everything that is enqueued until
    /// [`Self::end_work`].
    fn begin_work(&self, stream: &Self::Stream) -> Result<Self::Begun, DeviceError>;

    /// Returns the points at which a piece of work begins and ends.
    fn end_work(&self, stream: &Self::Stream, begun: Self::Begun) -> Result<[Self::Stamp; 2], DeviceError>;

    /// Returns the time of a point on the device's clock, in nanoseconds, or `None` if the device has not reached it.
    fn time_of(&self, stamp: &Self::Stamp) -> Result<Option<i64>, DeviceError>;

    /// Lets the device measure the times of later points from this one, which it has reached.
    fn anchor(&self, stamp: Self::Stamp) -> Result<(), DeviceError> {
        drop(stamp);
        Ok(())
    }

    /// Reads the device's clock, in nanoseconds, if the interface lets the host read it.
    fn clock_ns(&self) -> Option<i64> {
        None
    }
}

//! The [`Backend`] for OpenCL devices.

use super::commands::{CommandBuffer, Commands, Node, Refusal};
use super::launches::{buffers, geometry, mem};
use super::library::Found;
use super::locked::{Locked, LockedMemory};
use super::objects::{Function, Memory, Stream};
use super::programs::PREFIX;
use super::times::{Begun, Stamp, queue_properties};
use super::turns::{InTurn, Turns};
use super::{copies, fenced};
use crate::device::Accelerator;
use crate::device::discovered::Discovered;
use crate::device::gpu::{Backend, Gpu, GraphNode, Slab};
use crate::device::guarded::Guards;
use crate::error::DeviceError;
use crate::kernel::{ArgumentValue, Groups, KernelText, Limits, Module, Program, RawHandles, Source};
use crate::machine::UnitKind;
use crate::sync::may_block;
use opencl3::command_queue::{
    CommandQueue, enqueue_barrier_with_wait_list, enqueue_marker_with_wait_list, enqueue_nd_range_kernel,
};
use opencl3::context::Context;
use opencl3::device::{Device, cl_device_id};
use opencl3::error_codes::{ClError, error_text};
use opencl3::event::{Event, set_event_callback};
use opencl3::kernel::{Kernel, create_kernel};
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE, CL_MEM_SIZE, ClMem, get_mem_object_info};
use opencl3::types::{cl_event, cl_int};
use parking_lot::Mutex;
use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::Arc;

const COMPLETE: cl_int = 0;
const DEVICE_NOT_AVAILABLE: cl_int = -2;
const MEM_OBJECT_ALLOCATION_FAILURE: cl_int = -4;
const OUT_OF_RESOURCES: cl_int = -5;
const OUT_OF_HOST_MEMORY: cl_int = -6;
const INVALID_CONTEXT: cl_int = -34;
const INVALID_COMMAND_QUEUE: cl_int = -36;
const INVALID_BUFFER_SIZE: cl_int = -61;

impl Discovered for Found {
    fn name(&self) -> String {
        self.description()
    }

    fn serves(&self, kind: UnitKind) -> bool {
        self.suits(kind)
    }

    fn open(&self, is_timed: bool) -> Result<Box<dyn Accelerator>, DeviceError> {
        OpenCl::open(self, is_timed)
    }
}

/// An OpenCL device.
pub(in crate::device) struct OpenCl {
    pub(super) id: cl_device_id,
    pub(super) context: Arc<Context>,
    platform: usize,
    pub(super) name: String,
    memory_bytes: u64,
    /// The maximum size of one buffer, in bytes.
    largest_buffer_bytes: u64,
    limits: Limits,
    /// Page-locked staging memory; `None` if copies from and to pageable memory do not block either, as on CPUs.
    locked: Option<Arc<LockedMemory>>,
    /// `None` if the device does not support command buffers, or if launching single kernels is faster.
    commands: Option<Arc<Commands>>,
    /// Whether buffers get guard zones, which is the case on CPUs because their kernels can write anywhere in this
    /// process.
    fences: bool,
    /// Whether events have times.
    is_timed: bool,
    /// Whether the host can read the clock of these times.
    pub(super) has_clock: bool,
    pub(super) turns: Turns,
}

// SAFETY: OpenCL objects may be used from any thread. The only exception is setting a kernel's arguments, which a
// lock guards.
unsafe impl Send for OpenCl {}
// SAFETY: OpenCL objects may be used by several threads at once. The only exception is setting a kernel's arguments,
// which a lock guards.
unsafe impl Sync for OpenCl {}

impl OpenCl {
    /// Opens a discovered device.
    ///
    /// # Errors
    /// Returns an error if the device cannot create a stream.
    pub(in crate::device) fn open(found: &Found, is_timed: bool) -> Result<Box<dyn Accelerator>, DeviceError> {
        Ok(Box::new(Gpu::new(Self::new(found, is_timed)?, is_timed)?))
    }

    fn new(found: &Found, is_timed: bool) -> Result<Self, DeviceError> {
        let Found { id, context, platform, name, turns, .. } = found;
        let _turn = turns.take();
        let mut device = Self {
            id: *id,
            context: context.clone(),
            platform: *platform,
            name: name.clone(),
            memory_bytes: 0,
            largest_buffer_bytes: 0,
            limits: Limits::default(),
            locked: None,
            commands: Commands::of(context, *id, is_timed).map(Arc::new),
            fences: cfg!(debug_assertions) && found.is_cpu() && !turns.are_taken(),
            is_timed,
            has_clock: is_timed && Self::has_readable_clock(&Device::new(*id)),
            turns: *turns,
        };
        if found.suits(UnitKind::Gpu) {
            let locked = LockedMemory::new(context.clone(), *id, *turns);
            device.locked = Some(Arc::new(locked.map_err(|error| device.failed("clCreateCommandQueue", error))?));
        }
        let asked = Device::new(*id);
        let limits = asked.max_work_group_size().and_then(|threads| Ok((threads, asked.local_mem_size()?)));
        let (threads, local_bytes) = limits.map_err(|error| device.failed("clGetDeviceInfo", error))?;
        device.limits = Limits { threads_per_group: threads as u64, local_bytes };
        let total = asked.global_mem_size();
        // A quarter of the memory is left for scratch memory and for other users of the device.
        device.memory_bytes = total.map_err(|error| device.failed("clGetDeviceInfo", error))? / 4 * 3;
        let largest = asked.max_mem_alloc_size();
        device.largest_buffer_bytes = largest.map_err(|error| device.failed("clGetDeviceInfo", error))?;
        Ok(device)
    }

    pub(super) fn failed(&self, call: &'static str, error: impl Into<ClError>) -> DeviceError {
        let ClError(code) = error.into();
        match code {
            // A valid handle becomes invalid only if the device is lost, or if the interface has given the device up.
            DEVICE_NOT_AVAILABLE | INVALID_CONTEXT | INVALID_COMMAND_QUEUE => {
                DeviceError::Lost { device: self.name.clone(), what: format!("{call}: OpenCL error {code}") }
            }
            _ => DeviceError::Call {
                device: self.name.clone(),
                call,
                api: Self::API,
                code,
                what: error_text(code).to_owned(),
            },
        }
    }

    /// Stores the event of newly enqueued work that uses these buffers, or converts the error of the call.
    ///
    /// Some drivers allocate a buffer's memory when the buffer is first used. They report failures here, before
    /// anything was enqueued. The second of the two codes may also mean that a kernel needs more registers than the
    /// device has; in that case, a retry fails as well.
    fn enqueued(
        &self,
        stream: &Stream,
        call: &'static str,
        event: Result<cl_event, cl_int>,
        buffers: &[usize],
    ) -> Result<(), DeviceError> {
        let event = event.map_err(|code| match code {
            MEM_OBJECT_ALLOCATION_FAILURE | OUT_OF_RESOURCES if !buffers.is_empty() => {
                let bytes = |buffer: &usize| match get_mem_object_info(mem(*buffer), CL_MEM_SIZE) {
                    Ok(bytes) => usize::from(bytes) as u64,
                    Err(_) => 0,
                };
                self.out_of_memory(buffers.iter().map(bytes).sum(), code)
            }
            code => self.failed(call, ClError(code)),
        })?;
        let event = Arc::new(InTurn::new(Event::new(event), self.turns));
        if self.is_timed {
            stream.first.lock().get_or_insert_with(|| event.clone());
        }
        *stream.last.lock() = Some(event);
        Ok(())
    }

    /// Returns the event of the most recently enqueued work. If the work is unknown, enqueues a marker.
    pub(super) fn last(&self, stream: &Stream) -> Result<Arc<InTurn<Event>>, DeviceError> {
        if stream.last.lock().is_none() {
            // SAFETY: the queue is alive, and the list of events to wait for is empty.
            let marker = unsafe { enqueue_marker_with_wait_list(stream.queue.get(), 0, ptr::null()) };
            self.enqueued(stream, "clEnqueueMarkerWithWaitList", marker, &[])?;
        }
        Ok(stream.last.lock().clone().expect("something was enqueued"))
    }

    fn out_of_memory(&self, needed_bytes: u64, code: cl_int) -> DeviceError {
        DeviceError::OutOfMemory { device: self.name.clone(), needed_bytes, in_use_bytes: 0, api: Self::API, code }
    }
}

impl Backend for OpenCl {
    const API: &'static str = "OpenCL";
    const KIND: UnitKind = UnitKind::OpenCl;

    type Memory = Memory;
    type HostMemory = Locked;
    type Stream = Stream;
    type Event = Arc<InTurn<Event>>;
    type Stamp = Stamp;
    type Begun = Begun;
    type Module = InTurn<opencl3::program::Program>;
    type Function = Function;
    type Graph = Arc<CommandBuffer>;

    fn name(&self) -> &str {
        &self.name
    }

    fn domain(&self) -> usize {
        self.platform
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn free_bytes(&self) -> u64 {
        self.memory_bytes
    }

    fn largest_buffer_bytes(&self) -> u64 {
        self.largest_buffer_bytes
    }

    fn allocate(&self, bytes: usize) -> Result<(Memory, usize), DeviceError> {
        may_block();
        let _turn = self.turns.take();
        let made = if self.fences && bytes as u64 <= self.largest_buffer_bytes {
            fenced::create(&self.context, bytes)
        } else {
            // SAFETY: no host memory is passed.
            let buffer = unsafe { Buffer::<u8>::create(&self.context, CL_MEM_READ_WRITE, bytes, ptr::null_mut()) };
            buffer.map(|buffer| (buffer, None))
        };
        let (buffer, guards) = made.map_err(|error| match error.0 {
            code @ (MEM_OBJECT_ALLOCATION_FAILURE | OUT_OF_RESOURCES | OUT_OF_HOST_MEMORY | INVALID_BUFFER_SIZE) => {
                self.out_of_memory(bytes as u64, code)
            }
            _ => self.failed("clCreateBuffer", error),
        })?;
        let handle = buffer.get().expose_provenance();
        Ok((Memory { buffer: InTurn::new(buffer, self.turns), guards, commands: self.commands.clone() }, handle))
    }

    fn guards(&self, memory: &Memory) -> Option<Guards> {
        memory.guards
    }

    fn host_memory(&self, bytes: usize) -> Result<Option<(Locked, *mut u8)>, DeviceError> {
        may_block();
        let _turn = self.turns.take();
        Ok(self.locked.as_ref().and_then(|memory| memory.take(bytes)))
    }

    fn copies_block(&self) -> bool {
        self.locked.is_some()
    }

    fn stream(&self) -> Result<Stream, DeviceError> {
        may_block();
        let _turn = self.turns.take();
        #[allow(deprecated)] // its replacement does not exist in OpenCL 1.2
        // SAFETY: the device belongs to the context.
        let queue = unsafe { CommandQueue::create(&self.context, self.id, queue_properties(self.is_timed)) };
        let queue = queue.map_err(|error| self.failed("clCreateCommandQueue", error))?;
        Ok(Stream { queue: InTurn::new(queue, self.turns), last: Mutex::default(), first: Mutex::default() })
    }

    unsafe fn copy_in(&self, stream: &Stream, from: *const u8, to: usize, slab: &Slab) -> Result<(), DeviceError> {
        let _turn = self.turns.take();
        // SAFETY: the caller keeps both ends valid until the copy has ended (the engine pins their replicas).
        let event = unsafe { copies::write(&stream.queue, from, mem(to), slab) };
        self.enqueued(stream, "clEnqueueWriteBuffer", event, &[to])
    }

    unsafe fn copy_out(&self, stream: &Stream, from: usize, to: *mut u8, slab: &Slab) -> Result<(), DeviceError> {
        let _turn = self.turns.take();
        // SAFETY: the caller keeps both ends valid until the copy has ended (the engine pins their replicas).
        let event = unsafe { copies::read(&stream.queue, mem(from), to, slab) };
        self.enqueued(stream, "clEnqueueReadBuffer", event, &[from])
    }

    unsafe fn copy_across(
        &self,
        stream: &Stream,
        _: usize,
        [from, to]: [usize; 2],
        slab: &Slab,
    ) -> Result<(), DeviceError> {
        let _turn = self.turns.take();
        // SAFETY: the caller keeps both ends valid until the copy has ended (the engine pins their replicas).
        let event = unsafe { copies::copy(&stream.queue, mem(from), mem(to), slab) };
        self.enqueued(stream, "clEnqueueCopyBuffer", event, &[from, to])
    }

    fn module(&self, program: &Program) -> Result<Self::Module, DeviceError> {
        self.compiled(program)
    }

    fn own_module(&self, module: &Module) -> Result<Self::Module, DeviceError> {
        self.loaded(module)
    }

    fn function(&self, module: &Self::Module, kernel: &KernelText) -> Result<Function, DeviceError> {
        let _turn = self.turns.take();
        let name = match kernel.source {
            Source::Program(_) => format!("{PREFIX}{}", kernel.name),
            Source::Module(_) => kernel.name.to_owned(),
        };
        let created = Kernel::create(module, &name);
        let created = created.map_err(|error| self.failed("clCreateKernel", error))?;
        Ok(Function(
            Mutex::new(InTurn::new(created, self.turns)),
            CString::new(name).expect("a kernel's name is an identifier"),
        ))
    }

    fn check(&self, _: &Function, kernel: &KernelText, groups: Groups) -> Result<(), DeviceError> {
        let why = match groups {
            Groups { shared_bytes: 1.., .. } => {
                "OpenCL has no dynamic shared memory; try a `__local` array in the text"
            }
            Groups { is_cooperative: true, .. } => "OpenCL has no cooperative launches; try several launches",
            _ if groups.has_clusters() => "OpenCL has no clusters; try larger groups",
            _ => return Ok(()),
        };
        Err(DeviceError::Unsupported {
            kernel: kernel.name.to_owned(),
            device: self.name().to_owned(),
            why: why.to_owned(),
        })
    }

    unsafe fn launch(
        &self,
        stream: &Stream,
        function: &Function,
        group: [u32; 3],
        groups: Groups,
        arguments: &[ArgumentValue],
    ) -> Result<(), DeviceError> {
        let _turn = self.turns.take();
        let object = function.0.lock();
        self.set_arguments(object.get(), arguments)?;
        let (threads, group) = geometry(group, groups);
        // SAFETY: the caller passes arguments that match the kernel's parameters, and keeps their memory valid until
        // the kernel has ended. The arguments were set above, and the lock keeps other threads from changing them.
        let event = unsafe {
            enqueue_nd_range_kernel(
                stream.queue.get(),
                object.get(),
                3,
                ptr::null(),
                threads.as_ptr(),
                group.as_ptr(),
                0,
                ptr::null(),
            )
        };
        match event {
            Ok(_) => self.enqueued(stream, "clEnqueueNDRangeKernel", event, &[]),
            Err(_) => self.enqueued(stream, "clEnqueueNDRangeKernel", event, &buffers(arguments)),
        }
    }

    fn has_graphs(&self) -> bool {
        self.commands.is_some()
    }

    unsafe fn graph(&self, nodes: &[GraphNode<'_, Self>], _: &[Vec<u32>]) -> Result<Arc<CommandBuffer>, DeviceError> {
        let commands = self.commands.as_ref().expect("graphs are made only if the device has command buffers");
        let mut made = Vec::with_capacity(nodes.len());
        for GraphNode { function: Function(object, name), group, groups, arguments } in nodes {
            let program = object.lock().program().map_err(|error| self.failed("clGetKernelInfo", error))?;
            let kernel = create_kernel(program, name).map_err(|code| self.failed("clCreateKernel", ClError(code)))?;
            let kernel = Kernel::new(kernel);
            self.set_arguments(kernel.get(), arguments)?;
            let (threads, group) = geometry(*group, *groups);
            made.push(Node { kernel, threads, group });
        }
        let memories = buffers(nodes.iter().flat_map(|node| node.arguments));
        // SAFETY: the arguments match the kernels' parameters, as the caller promises, and have been set above.
        let buffer = unsafe { commands.buffer(made, memories) };
        buffer.map_err(|Refusal(call, code)| self.failed(call, ClError(code)))
    }

    fn is_usable(&self, graph: &Arc<CommandBuffer>) -> bool {
        graph.is_whole()
    }

    unsafe fn launch_graph(&self, stream: &Stream, graph: &Arc<CommandBuffer>) -> Result<(), DeviceError> {
        // SAFETY: the caller keeps the graph and its memory valid until the graph has ended.
        let event = unsafe { graph.enqueue(&stream.queue) };
        self.enqueued(stream, "clEnqueueCommandBufferKHR", event, &graph.memories)
    }

    fn raw(&self, stream: &Stream) -> Result<RawHandles, DeviceError> {
        if self.is_timed && stream.first.lock().is_none() {
            let _turn = self.turns.take();
            *stream.last.lock() = None; // so that a marker comes before the body's own commands
            self.last(stream)?;
        }
        Ok(RawHandles {
            stream: stream.queue.get().expose_provenance(),
            context: self.context.get().expose_provenance(),
            device: self.id.expose_provenance(),
        })
    }

    fn after_raw(&self, stream: &Stream) {
        let _turn = self.turns.take();
        *stream.last.lock() = None; // the body may have enqueued more work, so this event is no longer the last
    }

    fn flush(&self, stream: &Stream) -> Result<(), DeviceError> {
        let _turn = self.turns.take();
        stream.queue.flush().map_err(|error| self.failed("clFlush", error))
    }

    fn record(&self, stream: &Stream) -> Result<Arc<InTurn<Event>>, DeviceError> {
        let _turn = self.turns.take();
        let last = self.last(stream)?;
        self.flush(stream)?;
        Ok(last)
    }

    fn wait(&self, stream: &Stream, event: &Arc<InTurn<Event>>) -> Result<(), DeviceError> {
        let _turn = self.turns.take();
        let events = [event.get()];
        // SAFETY: the queue and the event are alive.
        let barrier = unsafe { enqueue_barrier_with_wait_list(stream.queue.get(), 1, events.as_ptr()) };
        self.enqueued(stream, "clEnqueueBarrierWithWaitList", barrier, &[])
    }

    fn is_complete(&self, event: &Arc<InTurn<Event>>) -> Result<bool, DeviceError> {
        let _turn = self.turns.take();
        let status = event.command_execution_status().map_err(|error| self.failed("clGetEventInfo", error))?;
        match status.0 {
            COMPLETE => Ok(true),
            // Neither the manual nor GPU drivers make any promise about work that follows an abnormally terminated
            // command, so the device counts as lost. A buffer whose memory could not be allocated is not such a case.
            code if code < 0 && code != MEM_OBJECT_ALLOCATION_FAILURE => Err(DeviceError::Lost {
                device: self.name.clone(),
                what: format!("a command: OpenCL error {code}: {}", error_text(code)),
            }),
            code if code < 0 => Err(self.failed("a command", ClError(code))),
            _ => Ok(false),
        }
    }

    fn notify(&self, event: &Arc<InTurn<Event>>, then: Box<dyn FnOnce() + Send>) -> Result<(), DeviceError> {
        extern "C" fn called(_: cl_event, _: cl_int, then: *mut c_void) {
            // SAFETY: the pointer comes from `Box::into_raw` below, and an event calls back only once, so the box is
            // taken back only once.
            let then = unsafe { Box::from_raw(then.cast::<Box<dyn FnOnce() + Send>>()) };
            then();
        }
        if self.turns.are_taken() {
            self.synchronize(event)?;
            then();
            return Ok(());
        }
        let then = Box::into_raw(Box::new(then));
        set_event_callback(event.get(), COMPLETE, called, then.cast()).map_err(|code| {
            // SAFETY: OpenCL refused the callback, so nothing else holds the pointer.
            drop(unsafe { Box::from_raw(then) });
            self.failed("clSetEventCallback", ClError(code))
        })
    }

    fn synchronize(&self, event: &Arc<InTurn<Event>>) -> Result<(), DeviceError> {
        if !self.turns.are_taken() {
            may_block(); // with turns, work is done by the thread that waits for it
        }
        let _turn = self.turns.take();
        event.wait().map_err(|error| self.failed("clWaitForEvents", error))
    }

    fn begin_work(&self, stream: &Stream) -> Result<Begun, DeviceError> {
        Ok(Self::begin(stream))
    }

    fn end_work(&self, stream: &Stream, begun: Begun) -> Result<[Stamp; 2], DeviceError> {
        let _turn = self.turns.take();
        self.end(stream, begun)
    }

    fn time_of(&self, stamp: &Stamp) -> Result<Option<i64>, DeviceError> {
        let _turn = self.turns.take();
        self.time(stamp)
    }

    fn clock_ns(&self) -> Option<i64> {
        let _turn = self.turns.take();
        self.read_clock()
    }
}

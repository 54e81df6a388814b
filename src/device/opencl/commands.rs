//! Command buffers, from the extension `cl_khr_command_buffer`: several kernels that are enqueued with one call.
//!
//! Only features that exist in all revisions of the extension are used: command buffers for a single in-order queue,
//! kernel commands, and simultaneous use. Changing a node's argument values would require another extension, so a
//! graph with different values is built from scratch.
//!
//! Invariants:
//! 1. Each node has its own kernel object, whose arguments are set only once. According to the manual, a command
//!    buffer captures the arguments when it is created, but PoCL 3.1 uses the arguments that the kernel objects have
//!    when the command buffer is enqueued.
//! 2. A command buffer is released as soon as any memory that it uses is freed. Otherwise, the lifetime of that
//!    memory would depend on the platform: PoCL keeps memory alive as long as the commands that use it, but Intel's
//!    platform does not.

use super::times::queue_properties;
use cl3::device::get_device_info;
use cl3::ext::{CL_COMMAND_BUFFER_FLAGS_KHR, CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR, cl_command_buffer_khr};
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_CPU, Device, cl_device_id};
use opencl3::kernel::Kernel;
use opencl3::platform::Platform;
use opencl3::types::{cl_command_queue, cl_event, cl_int, cl_kernel};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::{Arc, Weak};

const NAME: &str = "cl_khr_command_buffer";
const INVALID_COMMAND_BUFFER: cl_int = -1138;
/// The flag that allows a command buffer to be in flight several times, and the device capability that it requires.
const SIMULTANEOUS_USE: u64 = 1 << 0;
const HAS_SIMULTANEOUS_USE: u64 = 1 << 2;

/// A device's support for command buffers, and the command buffers that currently exist.
pub(super) struct Commands {
    functions: Functions,
    /// The queue for which command buffers are created. They are enqueued on other queues with the same properties.
    queue: CommandQueue,
    /// For each memory object, the command buffers that use it.
    users: Mutex<FxHashMap<usize, Vec<Weak<CommandBuffer>>>>,
}

// SAFETY: OpenCL objects may be used from any thread.
unsafe impl Send for Commands {}
// SAFETY: OpenCL objects may be used from any thread, and the table is protected by a lock.
unsafe impl Sync for Commands {}

struct Functions {
    create: Create,
    finalize: OfBuffer,
    release: OfBuffer,
    enqueue: Enqueue,
    kernel: AddKernel,
}

type Create = unsafe extern "C" fn(u32, *const cl_command_queue, *const u64, *mut cl_int) -> cl_command_buffer_khr;
type OfBuffer = unsafe extern "C" fn(cl_command_buffer_khr) -> cl_int;
type Enqueue = unsafe extern "C" fn(
    u32,
    *mut cl_command_queue,
    cl_command_buffer_khr,
    u32,
    *const cl_event,
    *mut cl_event,
) -> cl_int;
type AddKernel = unsafe extern "C" fn(
    cl_command_buffer_khr,
    cl_command_queue,
    *const u64,
    cl_kernel,
    u32,
    *const usize,
    *const usize,
    *const usize,
    u32,
    *const u32,
    *mut u32,
    *mut *mut c_void,
) -> cl_int;

/// A failed call of one of the extension's functions, with its error code.
pub(super) struct Refusal(pub(super) &'static str, pub(super) cl_int);

/// Kernels that are enqueued together.
pub(in crate::device) struct CommandBuffer {
    commands: Arc<Commands>,
    /// The raw command buffer; `None` once any memory that it uses has been freed.
    raw: Mutex<Option<Raw>>,
    /// The memory objects that the command buffer uses.
    pub(super) memories: Vec<usize>,
}

/// A node to be added to a command buffer: a kernel whose arguments are already set.
pub(super) struct Node {
    pub(super) kernel: Kernel,
    pub(super) threads: [usize; 3],
    pub(super) group: [usize; 3],
}

/// Owns a raw command buffer and its nodes.
struct Raw(cl_command_buffer_khr, Vec<Node>);

// SAFETY: OpenCL objects may be used from any thread.
unsafe impl Send for Raw {}

impl Commands {
    /// Returns the device's support for command buffers, or `None` if the device lacks a feature used here or
    /// launching single kernels is faster.
    pub(super) fn of(context: &Context, id: cl_device_id, is_timed: bool) -> Option<Self> {
        let device = Device::new(id);
        if !device.extensions().ok()?.split(' ').any(|name| name == NAME) {
            return None;
        }
        let capabilities = u64::from(get_device_info(id, CL_DEVICE_COMMAND_BUFFER_CAPABILITIES_KHR).ok()?);
        if capabilities & HAS_SIMULTANEOUS_USE == 0 {
            return None;
        }
        let platform = Platform::new(device.platform().ok()?);
        let library = cl3::load_library().as_ref().ok()?;
        let address = |name: &CStr| {
            let found = library.clGetExtensionFunctionAddressForPlatform(platform.id(), name.as_ptr());
            found.filter(|address| !address.is_null())
        };
        // SAFETY: the types match the extension's manual, in all of its revisions.
        let functions = unsafe {
            Functions {
                create: transmute::<*mut c_void, Create>(address(c"clCreateCommandBufferKHR")?),
                finalize: transmute::<*mut c_void, OfBuffer>(address(c"clFinalizeCommandBufferKHR")?),
                release: transmute::<*mut c_void, OfBuffer>(address(c"clReleaseCommandBufferKHR")?),
                enqueue: transmute::<*mut c_void, Enqueue>(address(c"clEnqueueCommandBufferKHR")?),
                kernel: transmute::<*mut c_void, AddKernel>(address(c"clCommandNDRangeKernelKHR")?),
            }
        };
        // PoCL's threads take single kernels from a list. PoCL adds the kernels of a command buffer to that list one
        // by one, which is slower than enqueueing them directly.
        let is_pocl = platform.name().is_ok_and(|name| name == "Portable Computing Language");
        if is_pocl && device.dev_type().is_ok_and(|kind| kind & CL_DEVICE_TYPE_CPU != 0) {
            return None;
        }
        #[allow(deprecated)] // its successor is not in OpenCL 1.2
        // SAFETY: the device belongs to the context.
        let queue = unsafe { CommandQueue::create(context, id, queue_properties(is_timed)) }.ok()?;
        Some(Self { functions, queue, users: Mutex::default() })
    }

    /// Combines kernels into one command buffer, in the given order. `memories` are the memory objects that the
    /// kernels use.
    ///
    /// # Safety
    /// The arguments of each kernel must have been set, and must match that kernel's parameters.
    pub(super) unsafe fn buffer(
        self: &Arc<Self>,
        nodes: Vec<Node>,
        memories: Vec<usize>,
    ) -> Result<Arc<CommandBuffer>, Refusal> {
        let checked = |call, code: cl_int| if code == 0 { Ok(()) } else { Err(Refusal(call, code)) };
        let (mut code, queue) = (0, self.queue.get());
        let properties = [CL_COMMAND_BUFFER_FLAGS_KHR, SIMULTANEOUS_USE, 0];
        // SAFETY: the queue is alive, and the list of properties is terminated by a zero.
        let raw = unsafe { (self.functions.create)(1, &queue, properties.as_ptr(), &mut code) };
        checked("clCreateCommandBufferKHR", code)?;
        // From here on, dropping the value releases the buffer.
        let mut buffer = CommandBuffer { commands: self.clone(), raw: Mutex::new(Some(Raw(raw, nodes))), memories };
        for Node { kernel, threads, group } in buffer.raw.get_mut().iter().flat_map(|Raw(_, nodes)| nodes) {
            // SAFETY: the buffer and the kernel are alive, and the kernel's arguments are set. A null queue stands
            // for the command buffer's own queue, which executes in order.
            let code = unsafe {
                (self.functions.kernel)(
                    raw,
                    ptr::null_mut(),
                    ptr::null(),
                    kernel.get(),
                    3,
                    ptr::null(),
                    threads.as_ptr(),
                    group.as_ptr(),
                    0,
                    ptr::null(),
                    ptr::null_mut(),
                    ptr::null_mut(),
                )
            };
            checked("clCommandNDRangeKernelKHR", code)?;
        }
        // SAFETY: the buffer is alive.
        checked("clFinalizeCommandBufferKHR", unsafe { (self.functions.finalize)(raw) })?;
        let buffer = Arc::new(buffer);
        let mut users = self.users.lock();
        for memory in &buffer.memories {
            let users = users.entry(*memory).or_default();
            users.retain(|user| user.strong_count() > 0);
            users.push(Arc::downgrade(&buffer));
        }
        Ok(buffer)
    }

    /// Releases the command buffers that use a memory object. The memory is about to be freed, and nothing in flight
    /// uses it.
    pub(super) fn forget(&self, memory: usize) {
        let users = self.users.lock().remove(&memory);
        for user in users.into_iter().flatten().filter_map(|user| user.upgrade()) {
            user.release();
        }
    }
}

impl CommandBuffer {
    /// Returns whether all memory that the command buffer uses still exists.
    pub(super) fn is_whole(&self) -> bool {
        self.raw.lock().is_some()
    }

    /// Enqueues the command buffer.
    ///
    /// # Safety
    /// The command buffer, and the memory that it uses, must exist until the command buffer has ended.
    pub(super) unsafe fn enqueue(&self, queue: &CommandQueue) -> Result<cl_event, cl_int> {
        let raw = self.raw.lock();
        let Some(Raw(raw, _)) = &*raw else { return Err(INVALID_COMMAND_BUFFER) };
        let (mut queue, mut event) = (queue.get(), ptr::null_mut());
        // SAFETY: the buffer and the queue are alive, and the queue has the same properties as the queue for which
        // the buffer was created.
        let code = unsafe { (self.commands.functions.enqueue)(1, &mut queue, *raw, 0, ptr::null(), &mut event) };
        if code == 0 { Ok(event) } else { Err(code) }
    }

    fn release(&self) {
        // The nodes are dropped after the command buffer.
        if let Some(Raw(raw, _nodes)) = self.raw.lock().take() {
            // SAFETY: `Raw` is the only owner of the command buffer, and nothing uses the command buffer any more.
            unsafe { (self.commands.functions.release)(raw) };
        }
    }
}

impl Drop for CommandBuffer {
    fn drop(&mut self) {
        self.release();
    }
}

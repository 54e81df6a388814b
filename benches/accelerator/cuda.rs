//! A CUDA device that is called directly, without the runtime: the baseline for the runtime's figures, and the source
//! of the driver's own.
//!
//! Invariant: streams, modules and the context are never destroyed, and the device's memory outlives them all. Buffers
//! and graphs are freed by their destructors, which first wait for the device. So every handle that this module passes
//! to the driver is valid, and so is all memory that enqueued work uses.

#![allow(unsafe_code)] // the interface's calls are unsafe; the invariant above covers them

use super::Result;
use super::launches::PROGRAM;
use cudarc::driver::{result, sys};
use std::ffi::{CStr, c_void};
use std::ptr::{self, null_mut};
use std::time::Instant;
use thalweg::devices::compile_for;
use thalweg::kernel::Program;

const TEXT: &str = "
    KERNEL(64, 1, 1) busy(INOUT(double, x, 1), int rounds)
    {
        REGION(x);
        double v = x[0];
        for (int r = 0; r < rounds; r++) v = v * 0.999 + 0.5;
        if (GLOBAL_ID(0) == 0) x[0] = v;
    }
";
// SAFETY: the kernel touches only the first element of x.
pub(crate) const BUSY: Program = unsafe { Program::new("busy.cl", TEXT) };

/// Most streams that a figure uses.
pub(crate) const STREAMS: usize = 64;

/// A kernel of a single group.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    /// A kernel that does almost nothing.
    Touch,
    /// A kernel that computes for a number of rounds ([`Cuda::rounds`]).
    Busy(i32),
    /// The busy kernel of a module that was loaded later, for one round.
    Loaded(sys::CUfunction),
}

/// The device, with streams and two kernels.
pub(crate) struct Cuda {
    context: sys::CUcontext,
    image: Vec<u8>,
    touch: sys::CUfunction,
    busy: sys::CUfunction,
    streams: Vec<sys::CUstream>,
    /// One number for each stream.
    memory: sys::CUdeviceptr,
}

/// An event without times.
pub(crate) struct Event(sys::CUevent);

/// Device memory.
pub(crate) struct Buffer<'c> {
    cuda: &'c Cuda,
    address: sys::CUdeviceptr,
    bytes: usize,
}

/// Page-locked memory from the driver.
pub(crate) struct Locked<'c> {
    cuda: &'c Cuda,
    first: *mut u8,
    bytes: usize,
}

/// An instantiated graph of kernels, and the time in microseconds that each step of creating it took.
pub(crate) struct Graph<'c> {
    cuda: &'c Cuda,
    graph: sys::CUgraph,
    instance: sys::CUgraphExec,
    nodes: Vec<sys::CUgraphNode>,
    pub(crate) adding: f64,
    pub(crate) instantiating: f64,
}

/// Calls a function that writes a handle to its first argument.
fn made<T: Copy>(call: impl FnOnce(*mut T) -> sys::CUresult) -> Result<T> {
    let mut value = std::mem::MaybeUninit::zeroed();
    call(value.as_mut_ptr()).result()?;
    // SAFETY: the driver has written the value, because the call has succeeded.
    Ok(unsafe { value.assume_init() })
}

/// Returns the time that a call takes, in microseconds.
pub(crate) fn time<T>(call: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let start = Instant::now();
    let value = call()?;
    Ok((value, start.elapsed().as_secs_f64() * 1e6))
}

impl Cuda {
    /// Opens the first device and makes its context current on this thread.
    pub(crate) fn open() -> Result<Self> {
        use sys::CUdevice_attribute as Attribute;
        result::init()?; // cannot fail to find the library: the runtime has already loaded it
        let device = result::device::get(0)?;
        // SAFETY: the device exists.
        let context = unsafe { result::primary_ctx::retain(device)? };
        // SAFETY: the context is never released.
        unsafe { result::ctx::set_current(context)? };
        // SAFETY: the device exists.
        let capability = |attribute| unsafe { result::device::get_attribute(device, attribute) };
        let major = capability(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = capability(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let target = format!("sm_{major}{minor}");
        let (touching, image) = (compile_for(&PROGRAM, &target)?, compile_for(&BUSY, &target)?);
        let (touch, busy) = (load(&touching, c"touch")?, load(&image, c"busy")?);
        // SAFETY: the arguments are those that the manual asks for.
        let memory = made(|address| unsafe { sys::cuMemAlloc_v2(address, STREAMS * size_of::<f64>()) })?;
        // SAFETY: the flag says that the stream does not wait for the default stream.
        let stream = || made(|stream| unsafe { sys::cuStreamCreate(stream, 1) });
        let streams = (0..STREAMS).map(|_| stream()).collect::<Result<_>>()?;
        Ok(Self { context, image, touch, busy, streams, memory })
    }

    /// Makes the context current once more.
    pub(crate) fn bind(&self) -> Result<()> {
        // SAFETY: the context is never released.
        Ok(unsafe { result::ctx::set_current(self.context) }?)
    }

    /// Loads the module of the busy kernel once more.
    pub(crate) fn load_again(&self) -> Result<Work> {
        load(&self.image, c"busy").map(Work::Loaded)
    }

    /// Launches a kernel on a stream.
    pub(crate) fn launch(&self, work: Work, stream: usize) -> Result<()> {
        let (function, mut rounds) = self.function(work);
        let mut address = self.address(stream);
        let mut arguments = [ptr::from_mut(&mut address).cast(), ptr::from_mut(&mut rounds).cast::<c_void>()];
        let (stream, arguments) = (self.streams[stream], arguments.as_mut_ptr());
        // SAFETY: the kernels take an address of one number and, at most, a number of rounds. The driver has read the
        // arguments when the call returns.
        let launched = unsafe { sys::cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, stream, arguments, null_mut()) };
        Ok(launched.result()?)
    }

    fn function(&self, work: Work) -> (sys::CUfunction, i32) {
        match work {
            Work::Touch => (self.touch, 0),
            Work::Busy(rounds) => (self.busy, rounds),
            Work::Loaded(function) => (function, 1),
        }
    }

    fn address(&self, stream: usize) -> sys::CUdeviceptr {
        self.memory + (stream % STREAMS * size_of::<f64>()) as sys::CUdeviceptr
    }

    /// Returns how many rounds keep a kernel busy for about this many microseconds.
    pub(crate) fn rounds(&self, microseconds: f64) -> Result<i32> {
        let probe = 20_000;
        let mut fastest = f64::INFINITY;
        for _ in 0..3 {
            let run = || self.launch(Work::Busy(probe), 0).and_then(|()| self.synchronize(0));
            fastest = fastest.min(time(run)?.1);
        }
        Ok((f64::from(probe) * microseconds / fastest).clamp(1.0, 1e9) as i32)
    }

    /// Waits until a stream is empty.
    pub(crate) fn synchronize(&self, stream: usize) -> Result<()> {
        // SAFETY: streams are never destroyed.
        Ok(unsafe { sys::cuStreamSynchronize(self.streams[stream]) }.result()?)
    }

    /// Waits until all streams are empty.
    pub(crate) fn synchronize_all(&self) -> Result<()> {
        (0..STREAMS).try_for_each(|stream| self.synchronize(stream))
    }

    /// Creates an event.
    pub(crate) fn event(&self) -> Result<Event> {
        // SAFETY: the flag says that the event has no time.
        made(|event| unsafe { sys::cuEventCreate(event, 2) }).map(Event)
    }

    /// Records an event on a stream.
    pub(crate) fn record(&self, event: &Event, stream: usize) -> Result<()> {
        // SAFETY: neither events nor streams are destroyed.
        Ok(unsafe { sys::cuEventRecord(event.0, self.streams[stream]) }.result()?)
    }

    /// Returns whether all work before an event has ended.
    pub(crate) fn is_over(&self, event: &Event) -> Result<bool> {
        // SAFETY: events are not destroyed.
        match unsafe { sys::cuEventQuery(event.0) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            code => Ok(code.result().map(|()| true)?),
        }
    }

    /// Lets a stream wait for an event.
    pub(crate) fn wait(&self, stream: usize, event: &Event) -> Result<()> {
        // SAFETY: neither events nor streams are destroyed.
        Ok(unsafe { sys::cuStreamWaitEvent(self.streams[stream], event.0, 0) }.result()?)
    }

    /// Allocates device memory.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<Buffer<'_>> {
        // SAFETY: the arguments are those that the manual asks for.
        let address = made(|address| unsafe { sys::cuMemAlloc_v2(address, bytes) })?;
        Ok(Buffer { cuda: self, address, bytes })
    }

    /// Frees device memory.
    pub(crate) fn free(&self, buffer: Buffer<'_>) -> Result<()> {
        let address = buffer.address;
        std::mem::forget(buffer);
        // SAFETY: the memory belonged to the buffer. The caller has synchronized with all work that uses it.
        Ok(unsafe { sys::cuMemFree_v2(address) }.result()?)
    }

    /// Allocates memory from the driver's pool, which keeps it, in the order of a stream, and frees it in the same
    /// order. Returns the times of both calls in microseconds, or `None` if the driver has no pools.
    pub(crate) fn pooled(&self, bytes: usize, stream: usize) -> Result<Option<[f64; 2]>> {
        // SAFETY: the library is already open, so none of its initializers run.
        let library = unsafe { libloading::Library::new("libcuda.so.1")? };
        // SAFETY: the symbol is only looked up; the bindings below declare its type.
        if unsafe { library.get::<*const c_void>(b"cuMemAllocAsync\0") }.is_err() {
            return Ok(None);
        }
        let device = result::device::get(0)?;
        // SAFETY: the device exists.
        let pool = made(|pool| unsafe { sys::cuDeviceGetDefaultMemPool(pool, device) })?;
        let (attribute, mut keeps) = (sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, u64::MAX);
        // SAFETY: the value of this attribute is a number of 64 bits.
        unsafe { sys::cuMemPoolSetAttribute(pool, attribute, ptr::from_mut(&mut keeps).cast()) }.result()?;
        let stream = self.streams[stream];
        // SAFETY: the memory is freed in the order of the stream that it was allocated in, and nothing uses it.
        let (address, allocating) = time(|| made(|address| unsafe { sys::cuMemAllocAsync(address, bytes, stream) }))?;
        // SAFETY: the stream is the one in whose order the memory was allocated.
        let ((), freeing) = time(|| Ok(unsafe { sys::cuMemFreeAsync(address, stream) }.result()?))?;
        Ok(Some([allocating, freeing]))
    }

    /// Asks for the context of a buffer's memory.
    pub(crate) fn owner(&self, buffer: &Buffer<'_>) -> Result<()> {
        let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT;
        // SAFETY: this attribute is written as a context.
        let _ = made(|context: *mut sys::CUcontext| unsafe {
            sys::cuPointerGetAttribute(context.cast(), attribute, buffer.address)
        })?;
        Ok(())
    }

    /// Allocates page-locked memory, filled with zeros.
    pub(crate) fn locked(&self, bytes: usize) -> Result<Locked<'_>> {
        // SAFETY: the flag says that the memory is page-locked for all contexts.
        let first: *mut c_void = made(|first| unsafe { sys::cuMemHostAlloc(first, bytes, 1) })?;
        // SAFETY: the driver has just allocated these bytes.
        unsafe { first.cast::<u8>().write_bytes(0, bytes) };
        Ok(Locked { cuda: self, first: first.cast(), bytes })
    }

    /// Page-locks memory and unlocks it. Returns the times of both calls in microseconds.
    pub(crate) fn lock(&self, memory: &mut [u8]) -> Result<[f64; 2]> {
        let first: *mut c_void = memory.as_mut_ptr().cast();
        // SAFETY: the memory is borrowed until it has been unlocked.
        let ((), locking) = time(|| Ok(unsafe { sys::cuMemHostRegister_v2(first, memory.len(), 1) }.result()?))?;
        // SAFETY: the memory has just been page-locked, and no copy uses it.
        let ((), unlocking) = time(|| Ok(unsafe { sys::cuMemHostUnregister(first) }.result()?))?;
        Ok([locking, unlocking])
    }

    /// Copies bytes from the host to the device. The caller keeps the memory until the stream is empty.
    pub(crate) fn copy_in(&self, to: &Buffer<'_>, from: &[u8], stream: usize) -> Result<()> {
        assert!(from.len() <= to.bytes, "the buffer has room for the bytes");
        let (from, bytes) = (from.as_ptr().cast(), from.len());
        // SAFETY: both memories have this many bytes; the caller synchronizes before it frees either.
        Ok(unsafe { sys::cuMemcpyHtoDAsync_v2(to.address, from, bytes, self.streams[stream]) }.result()?)
    }

    /// Copies bytes from the device to the host. The caller keeps the memory until the stream is empty.
    pub(crate) fn copy_out(&self, to: &mut [u8], from: &Buffer<'_>, stream: usize) -> Result<()> {
        assert!(to.len() <= from.bytes, "the buffer has the bytes");
        let (to, bytes) = (to.as_mut_ptr().cast(), to.len());
        // SAFETY: both memories have this many bytes; the caller synchronizes before it uses or frees either.
        Ok(unsafe { sys::cuMemcpyDtoHAsync_v2(to, from.address, bytes, self.streams[stream]) }.result()?)
    }

    /// Creates a graph of `nodes` equal kernels in `chains` chains.
    pub(crate) fn graph(&self, work: Work, nodes: usize, chains: usize) -> Result<Graph<'_>> {
        // SAFETY: the arguments are those that the manual asks for.
        let graph = made(|graph| unsafe { sys::cuGraphCreate(graph, 0) })?;
        let (all, adding) = time(|| {
            let mut all: Vec<sys::CUgraphNode> = Vec::with_capacity(nodes);
            for n in 0..nodes {
                let before: &[_] = if n < chains { &[] } else { &all[n - chains..][..1] };
                let node = self.with_parameters(work, n % chains, |parameters| {
                    // SAFETY: the previous node belongs to the same graph, and the driver copies the parameters.
                    made(|node| unsafe {
                        sys::cuGraphAddKernelNode_v2(node, graph, before.as_ptr(), before.len(), parameters)
                    })
                })?;
                all.push(node);
            }
            Ok(all)
        })?;
        // SAFETY: the graph has just been created.
        let (instance, instantiating) =
            time(|| made(|instance| unsafe { sys::cuGraphInstantiateWithFlags(instance, graph, 0) }))?;
        Ok(Graph { cuda: self, graph, instance, nodes: all, adding, instantiating })
    }

    /// Launches a graph on a stream.
    pub(crate) fn launch_graph(&self, graph: &Graph<'_>, stream: usize) -> Result<()> {
        // SAFETY: the instance lives until its destructor runs, which waits for the device.
        Ok(unsafe { sys::cuGraphLaunch(graph.instance, self.streams[stream]) }.result()?)
    }

    /// Sets the parameters of all kernels of a graph.
    pub(crate) fn set(&self, graph: &Graph<'_>, work: Work) -> Result<()> {
        for (n, node) in graph.nodes.iter().enumerate() {
            self.with_parameters(work, n, |parameters| {
                // SAFETY: the node belongs to the graph of this instance, and the driver copies the parameters.
                let set = unsafe { sys::cuGraphExecKernelNodeSetParams_v2(graph.instance, *node, parameters) };
                Ok(set.result()?)
            })?;
        }
        Ok(())
    }

    fn with_parameters<T>(
        &self,
        work: Work,
        chain: usize,
        call: impl FnOnce(*const sys::CUDA_KERNEL_NODE_PARAMS) -> Result<T>,
    ) -> Result<T> {
        let (func, mut rounds) = self.function(work);
        let mut address = self.address(chain);
        let mut arguments = [ptr::from_mut(&mut address).cast(), ptr::from_mut(&mut rounds).cast::<c_void>()];
        call(&sys::CUDA_KERNEL_NODE_PARAMS {
            func,
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 64,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            kernelParams: arguments.as_mut_ptr(),
            extra: null_mut(),
            kern: null_mut(),
            ctx: null_mut(),
        })
    }
}

fn load(image: &[u8], name: &CStr) -> Result<sys::CUfunction> {
    // SAFETY: the image comes from the compiler, so it is valid; modules are never unloaded.
    let module = made(|module| unsafe { sys::cuModuleLoadData(module, image.as_ptr().cast()) })?;
    // SAFETY: the module is loaded, and the name ends with a zero.
    made(|function| unsafe { sys::cuModuleGetFunction(function, module, name.as_ptr()) })
}

impl std::ops::Deref for Locked<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the driver has allocated these bytes, and `Cuda::locked` has initialized them.
        unsafe { std::slice::from_raw_parts(self.first, self.bytes) }
    }
}

impl std::ops::DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and the memory has one owner.
        unsafe { std::slice::from_raw_parts_mut(self.first, self.bytes) }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let _ = self.cuda.synchronize_all();
        // SAFETY: the memory belongs to this value, and all copies have ended.
        let _ = unsafe { sys::cuMemFreeHost(self.first.cast()) };
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        let _ = self.cuda.synchronize_all();
        // SAFETY: the memory belongs to this value, and all work has ended.
        let _ = unsafe { sys::cuMemFree_v2(self.address) };
    }
}

impl Drop for Graph<'_> {
    fn drop(&mut self) {
        let _ = self.cuda.synchronize_all();
        // SAFETY: both belong to this value, and no launch is in flight.
        unsafe {
            let _ = sys::cuGraphExecDestroy(self.instance);
            let _ = sys::cuGraphDestroy(self.graph);
        }
    }
}

//! One CUDA device: the implementation of [`Api`].

use super::driver_types::{CLUSTER_LAUNCH, KernelNode, LaunchAttribute, LaunchConfig};
use super::library::{self, GraphFunctions, UnifiedFunctions, call, functions};
use super::pool;
use crate::device::gpu::{Api, ApiError, Handle, KernelCall, PoolAccess, Transfer};
use crate::kernel::Groups;
use arrayvec::ArrayVec;
use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdevice_attribute as Attribute, CUdeviceptr, CUevent_flags,
    CUpointer_attribute as Pointer,
};
use std::ffi::{CStr, c_int, c_uint};
use std::ptr;

const NON_BLOCKING: c_uint = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint;
const BLOCKING_SYNC: c_uint = CUevent_flags::CU_EVENT_BLOCKING_SYNC as c_uint;
const WITHOUT_TIMING: c_uint = CUevent_flags::CU_EVENT_DISABLE_TIMING as c_uint;
const ATTACH_GLOBAL: c_uint = sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL as c_uint;
/// `CU_DEVICE_CPU`, a macro that the bindings lack.
const CPU: CUdevice = -1;

/// A CUDA device, accessed through its primary context.
pub(in crate::device) struct Cuda {
    device: CUdevice,
    context: Handle,
}

fn graphs() -> &'static GraphFunctions {
    library::graph_functions().expect("graphs are used only if the driver has them")
}

fn unified() -> &'static UnifiedFunctions {
    library::unified_functions().expect("unified memory is used only if the driver has it")
}

impl Cuda {
    fn has(&self, attribute: c_uint) -> Result<bool, ApiError> {
        Ok(library::attribute_of(self.device, attribute)? != 0)
    }

    pub(super) fn raw_context(&self) -> CUcontext {
        self.context.as_raw()
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        // SAFETY: the context was retained exactly once, when the device was opened, and everything that was created
        // in the context is gone.
        let released =
            call("cuDevicePrimaryCtxRelease", unsafe { (functions().cuDevicePrimaryCtxRelease_v2)(self.device) });
        if let Err(ApiError { code, .. }) = released {
            log!(debug, "cuDevicePrimaryCtxRelease: {}", library::describe(code));
        }
    }
}

impl Api for Cuda {
    const MOST_GROUPS: [u32; 3] = [i32::MAX as u32, 65535, 65535];
    const MOST_THREADS: u64 = u64::MAX;
    const DLPACK: i32 = 2;

    fn open(number: c_int) -> Result<Self, ApiError> {
        let device = library::device(number)?;
        let mut context = ptr::null_mut();
        // SAFETY: the device exists; the result pointer is valid.
        call("cuDevicePrimaryCtxRetain", unsafe { (functions().cuDevicePrimaryCtxRetain)(&mut context, device) })?;
        Ok(Self { device, context: Handle::of(context) })
    }

    fn domain(&self) -> usize {
        0 // any two devices can copy to each other, through the host if there is no direct path
    }

    fn bind(&self) -> Result<(), ApiError> {
        // SAFETY: the context is retained.
        call("cuCtxSetCurrent", unsafe { (functions().cuCtxSetCurrent)(self.raw_context()) })
    }

    fn current() -> Result<usize, ApiError> {
        let mut context: CUcontext = ptr::null_mut();
        // SAFETY: the result pointer is valid.
        call("cuCtxGetCurrent", unsafe { (functions().cuCtxGetCurrent)(&mut context) })?;
        Ok(context.expose_provenance())
    }

    unsafe fn restore(context: usize) -> Result<(), ApiError> {
        // SAFETY: the caller passes a context that was current, or null if there was none.
        call("cuCtxSetCurrent", unsafe { (functions().cuCtxSetCurrent)(ptr::with_exposed_provenance_mut(context)) })
    }

    fn number(&self) -> c_int {
        self.device
    }

    fn context(&self) -> usize {
        self.context.0.expose_provenance()
    }

    fn free_bytes(&self) -> Result<u64, ApiError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the result pointers are valid.
        call("cuMemGetInfo", unsafe { (functions().cuMemGetInfo_v2)(&mut free, &mut total) })?;
        Ok(free as u64)
    }

    fn allocate(&self, bytes: usize) -> Result<usize, ApiError> {
        let mut address = 0;
        // SAFETY: the result pointer is valid.
        call("cuMemAlloc", unsafe { (functions().cuMemAlloc_v2)(&mut address, bytes) })?;
        Ok(address as usize)
    }

    unsafe fn free(&self, base: usize) -> Result<(), ApiError> {
        // SAFETY: the address comes from `allocate`. The recycler holds only unused blocks, and frees each of them
        // once.
        call("cuMemFree", unsafe { (functions().cuMemFree_v2)(base as CUdeviceptr) })
    }

    fn open_pool(&self, others: &[PoolAccess]) -> Result<Option<Handle>, ApiError> {
        let has_pools = self.has(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED as c_uint)?;
        let is_open = has_pools && pool::open(self.device, others)?;
        is_open.then(|| self.create_stream()).transpose()
    }

    unsafe fn allocate_pooled(&self, stream: Handle, bytes: usize) -> Result<usize, ApiError> {
        // SAFETY: the caller's promise.
        unsafe { pool::allocate(stream.as_raw(), bytes) }
    }

    unsafe fn free_pooled(&self, stream: Handle, base: usize) -> Result<(), ApiError> {
        // SAFETY: the caller's promise.
        unsafe { pool::free(stream.as_raw(), base) }
    }

    fn allocate_host(&self, bytes: usize) -> Result<usize, ApiError> {
        let mut address = ptr::null_mut();
        // SAFETY: the result pointer is valid.
        call("cuMemHostAlloc", unsafe {
            (functions().cuMemHostAlloc)(&mut address, bytes, sys::CU_MEMHOSTALLOC_PORTABLE)
        })?;
        Ok(address.expose_provenance())
    }

    unsafe fn free_host(&self, base: usize) -> Result<(), ApiError> {
        // SAFETY: the address comes from `allocate_host`. The recycler holds only unused blocks, and frees each of
        // them once.
        call("cuMemFreeHost", unsafe { (functions().cuMemFreeHost)(ptr::with_exposed_provenance_mut(base)) })
    }

    fn reaches_unified(&self) -> Result<bool, ApiError> {
        let has = |attribute| self.has(attribute as c_uint);
        Ok(library::unified_functions().is_some()
            && has(Attribute::CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY)?
            && has(Attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)?)
    }

    fn allocate_unified(&self, bytes: usize) -> Result<usize, ApiError> {
        let mut address = 0;
        // SAFETY: the result pointer is valid.
        call("cuMemAllocManaged", unsafe { (unified().cuMemAllocManaged)(&mut address, bytes, ATTACH_GLOBAL) })?;
        Ok(address as usize)
    }

    unsafe fn prefetch(&self, stream: Handle, first: usize, bytes: usize, to_host: bool) -> Result<(), ApiError> {
        let to = if to_host { CPU } else { self.device };
        // SAFETY: the caller keeps the memory from `allocate_unified` alive until the prefetch has ended, and the
        // `Stream` keeps the raw stream alive.
        call("cuMemPrefetchAsync", unsafe {
            (unified().cuMemPrefetchAsync)(first as CUdeviceptr, bytes, to, stream.as_raw())
        })
    }

    unsafe fn pin_memory(&self, first: *mut u8, bytes: usize) -> Result<(), ApiError> {
        // SAFETY: the memory stays valid until its `PageLock` is dropped, because the runtime drops the lock before
        // the array.
        call("cuMemHostRegister", unsafe {
            (functions().cuMemHostRegister_v2)(first.cast(), bytes, sys::CU_MEMHOSTREGISTER_PORTABLE)
        })
    }

    fn locked_range(&self, address: usize) -> Result<(usize, usize), ApiError> {
        let (mut start, mut bytes): (CUdeviceptr, usize) = (0, 0);
        let address = address as CUdeviceptr;
        // SAFETY: the value of the first attribute is an address, that of the second a size, and the result pointers
        // are valid for those. The driver returns an error for addresses that it does not know.
        unsafe {
            let ask = functions().cuPointerGetAttribute;
            let start = ptr::from_mut(&mut start).cast();
            call("cuPointerGetAttribute", ask(start, Pointer::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address))?;
            let bytes = ptr::from_mut(&mut bytes).cast();
            call("cuPointerGetAttribute", ask(bytes, Pointer::CU_POINTER_ATTRIBUTE_RANGE_SIZE, address))?;
        }
        Ok((start as usize, bytes))
    }

    unsafe fn page_unlock(&self, first: *mut u8) -> Result<(), ApiError> {
        // SAFETY: `pin_memory` locked the memory, and its `PageLock` unlocks it exactly once.
        call("cuMemHostUnregister", unsafe { (functions().cuMemHostUnregister)(first.cast()) })
    }

    fn create_stream(&self) -> Result<Handle, ApiError> {
        let mut stream = ptr::null_mut();
        // SAFETY: the result pointer is valid.
        call("cuStreamCreate", unsafe { (functions().cuStreamCreate)(&mut stream, NON_BLOCKING) })?;
        Ok(Handle::of(stream))
    }

    unsafe fn destroy_stream(&self, stream: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Stream` is the only owner of the raw stream, so the stream is destroyed exactly once.
        call("cuStreamDestroy", unsafe { (functions().cuStreamDestroy_v2)(stream.as_raw()) })
    }

    fn create_event(&self, is_timed: bool) -> Result<Handle, ApiError> {
        let (mut event, timing) = (ptr::null_mut(), if is_timed { 0 } else { WITHOUT_TIMING });
        // SAFETY: the result pointer is valid.
        call("cuEventCreate", unsafe { (functions().cuEventCreate)(&mut event, BLOCKING_SYNC | timing) })?;
        Ok(Handle::of(event))
    }

    unsafe fn destroy_event(&self, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the device destroys each event exactly once, when no `Event` refers to it any more.
        call("cuEventDestroy", unsafe { (functions().cuEventDestroy_v2)(event.as_raw()) })
    }

    unsafe fn record(&self, stream: Handle, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Stream` and the `Event` keep the raw stream and the raw event alive.
        call("cuEventRecord", unsafe { (functions().cuEventRecord)(event.as_raw(), stream.as_raw()) })
    }

    unsafe fn wait(&self, stream: Handle, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Stream` and the `Event` keep the raw stream and the raw event alive.
        call("cuStreamWaitEvent", unsafe { (functions().cuStreamWaitEvent)(stream.as_raw(), event.as_raw(), 0) })
    }

    unsafe fn query(&self, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Event` keeps the raw event alive.
        call("cuEventQuery", unsafe { (functions().cuEventQuery)(event.as_raw()) })
    }

    unsafe fn synchronize(&self, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Event` keeps the raw event alive.
        call("cuEventSynchronize", unsafe { (functions().cuEventSynchronize)(event.as_raw()) })
    }

    unsafe fn elapsed_ms(&self, from: Handle, to: Handle) -> Result<f32, ApiError> {
        let (mut ms, from, to) = (0.0, from.as_raw(), to.as_raw());
        // SAFETY: the result pointer is valid, and the two stamps keep their raw events alive.
        call("cuEventElapsedTime", unsafe { (functions().cuEventElapsedTime)(&mut ms, from, to) })?;
        Ok(ms)
    }

    fn id(&self) -> usize {
        self.context.0.addr()
    }

    unsafe fn owner(&self, address: usize) -> Result<usize, ApiError> {
        let mut context: CUcontext = ptr::null_mut();
        // SAFETY: the value of this attribute is a context, and the result pointer is valid for a context.
        let asked = call("cuPointerGetAttribute", unsafe {
            (functions().cuPointerGetAttribute)(
                ptr::from_mut(&mut context).cast(),
                Pointer::CU_POINTER_ATTRIBUTE_CONTEXT,
                address as CUdeviceptr,
            )
        });
        match asked {
            Ok(()) if !context.is_null() => Ok(context.expose_provenance()),
            // Memory from other libraries' pools or mappings belongs to no context, but plain copies can access it.
            // SAFETY: `device_of` has the same requirements as this function.
            _ => unsafe { self.device_of(address) }.map(|_| self.id()),
        }
    }

    unsafe fn device_of(&self, address: usize) -> Result<c_int, ApiError> {
        let mut device: c_int = 0;
        // SAFETY: the value of this attribute is a device index, and the result pointer is valid for a device index.
        call("cuPointerGetAttribute", unsafe {
            (functions().cuPointerGetAttribute)(
                ptr::from_mut(&mut device).cast(),
                Pointer::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                address as CUdeviceptr,
            )
        })?;
        Ok(device)
    }

    fn synchronize_default(&self) -> Result<(), ApiError> {
        // SAFETY: a null stream stands for the default stream.
        call("cuStreamSynchronize", unsafe { (functions().cuStreamSynchronize)(ptr::null_mut()) })
    }

    unsafe fn enable_peer(&self, peer: usize) -> Result<(), ApiError> {
        let peer = ptr::with_exposed_provenance_mut(peer);
        // SAFETY: the context owns memory that is being copied, so the context is alive. The call returns an error if
        // the hardware does not support peer access.
        call("cuCtxEnablePeerAccess", unsafe { (functions().cuCtxEnablePeerAccess)(peer, 0) })
    }

    unsafe fn copy(&self, stream: Handle, transfer: &Transfer, owner: usize) -> Result<(), ApiError> {
        let owner = ptr::with_exposed_provenance_mut(owner);
        // SAFETY: the engine pins both replicas until the copy has ended, and nothing writes to them in the meantime.
        unsafe {
            if transfer.is_flat() {
                self.copy_flat(stream.as_raw(), transfer, owner)
            } else {
                self.copy_box(stream.as_raw(), transfer, owner)
            }
        }
    }

    fn load_module(&self, image: &[u8]) -> Result<Handle, ApiError> {
        let mut module = ptr::null_mut();
        // SAFETY: the image is either code that contains its own length or null-terminated text, and the result
        // pointer is valid.
        call("cuModuleLoadData", unsafe { (functions().cuModuleLoadData)(&mut module, image.as_ptr().cast()) })?;
        Ok(Handle::of(module))
    }

    unsafe fn unload_module(&self, module: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Module` is the only owner of the raw module, and unloads it exactly once, when none of its
        // kernels is in flight.
        call("cuModuleUnload", unsafe { (functions().cuModuleUnload)(module.as_raw()) })
    }

    unsafe fn function(&self, module: Handle, name: &CStr) -> Result<Handle, ApiError> {
        let mut function = ptr::null_mut();
        // SAFETY: the `Module` keeps the raw module loaded, the name is null-terminated, and the result pointer is
        // valid.
        call("cuModuleGetFunction", unsafe {
            (functions().cuModuleGetFunction)(&mut function, module.as_raw(), name.as_ptr())
        })?;
        Ok(Handle::of(function))
    }

    fn lacks(&self, groups: &Groups) -> Result<Option<&'static str>, ApiError> {
        if library::launch_functions().is_none() {
            return Ok(Some("the driver has no launches with attributes; try a driver for CUDA 11.8 or newer"));
        }
        if groups.has_clusters() && !self.has(CLUSTER_LAUNCH)? {
            return Ok(Some("the device has no clusters, which begin with compute capability 9.0; try larger groups"));
        }
        let is_cooperative = groups.is_cooperative;
        if is_cooperative && !self.has(Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH as c_uint)? {
            return Ok(Some("the device has no cooperative launches; try several launches"));
        }
        Ok(None)
    }

    fn most_shared_bytes(&self) -> Result<c_int, ApiError> {
        let attribute = Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        library::attribute_of(self.device, attribute as c_uint)
    }

    unsafe fn allow_shared(&self, function: Handle, bytes: u32) -> Result<(), ApiError> {
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        // SAFETY: the caller keeps the function's module loaded.
        call("cuFuncSetAttribute", unsafe { (functions().cuFuncSetAttribute)(function.as_raw(), attribute, bytes) })
    }

    unsafe fn launch(&self, stream: Handle, kernel: KernelCall<'_>) -> Result<(), ApiError> {
        let KernelCall { function, groups, group, arguments } = kernel;
        let (function, stream) = (function.as_raw(), stream.as_raw());
        let (values, others) = (arguments.as_mut_ptr(), ptr::null_mut());
        let Groups { count: [x, y, z], shared_bytes, cluster, is_cooperative } = groups;
        if groups.has_attributes() {
            let launches = library::launch_functions().expect("`lacks` has said that the driver has it");
            let cluster = groups.has_clusters().then(|| LaunchAttribute::cluster(cluster));
            let cooperative = is_cooperative.then_some(LaunchAttribute::COOPERATIVE);
            let mut attributes: ArrayVec<_, 2> = cluster.into_iter().chain(cooperative).collect();
            let (attribute_count, attributes) = (attributes.len() as c_uint, attributes.as_mut_ptr());
            let groups = [x, y, z];
            let config = LaunchConfig { groups, group, shared_bytes, stream, attributes, attribute_count };
            // SAFETY: as for `cuLaunchKernel` below. The driver reads the attributes before the call returns.
            return call("cuLaunchKernelEx", unsafe { (launches.cuLaunchKernelEx)(&config, function, values, others) });
        }
        let [in_x, in_y, in_z] = group;
        // SAFETY: the function's `Module` is kept together with the function, so the module is loaded. The arguments
        // match the kernel's parameters, because `Kernel` compares their types with the text, and the engine pins the
        // replicas among the arguments until the task has ended.
        call("cuLaunchKernel", unsafe {
            (functions().cuLaunchKernel)(function, x, y, z, in_x, in_y, in_z, shared_bytes, stream, values, others)
        })
    }

    fn has_graphs(&self) -> bool {
        library::graph_functions().is_some()
    }

    fn has_loops(&self) -> bool {
        library::loop_functions().is_some()
    }

    unsafe fn add_loop(&self, graph: Handle) -> Result<(u64, Handle), ApiError> {
        // SAFETY: the caller keeps the graph alive.
        unsafe { super::graphs::add_loop(self.raw_context(), graph) }
    }

    fn create_graph(&self) -> Result<Handle, ApiError> {
        let mut graph = ptr::null_mut();
        // SAFETY: the result pointer is valid; 0 is the only defined flag.
        call("cuGraphCreate", unsafe { (graphs().cuGraphCreate)(&mut graph, 0) })?;
        Ok(Handle::of(graph))
    }

    unsafe fn add_kernel(&self, graph: Handle, before: &[Handle], kernel: KernelCall<'_>) -> Result<Handle, ApiError> {
        let (mut node, kernel) = (ptr::null_mut(), KernelNode::new(kernel));
        // A `Handle` is a transparent wrapper of an object's address, so both have the same layout.
        let (first, count) = (before.as_ptr().cast(), before.len());
        // SAFETY: the caller keeps the graph and its nodes alive, the driver copies the values, which match the
        // kernel's parameters, and the result pointer is valid.
        call("cuGraphAddKernelNode", unsafe {
            (graphs().cuGraphAddKernelNode_v2)(&mut node, graph.as_raw(), first, count, &kernel)
        })?;
        Ok(Handle::of(node))
    }

    unsafe fn instantiate(&self, graph: Handle) -> Result<Handle, ApiError> {
        let mut instance = ptr::null_mut();
        // SAFETY: the caller keeps the graph alive; the result pointer is valid.
        call("cuGraphInstantiateWithFlags", unsafe {
            (graphs().cuGraphInstantiateWithFlags)(&mut instance, graph.as_raw(), 0)
        })?;
        Ok(Handle::of(instance))
    }

    unsafe fn set_kernel(&self, instance: Handle, node: Handle, kernel: KernelCall<'_>) -> Result<(), ApiError> {
        let kernel = KernelNode::new(kernel);
        // SAFETY: the caller keeps the graph alive, and the driver copies the values, which match the kernel's
        // parameters.
        call("cuGraphExecKernelNodeSetParams", unsafe {
            (graphs().cuGraphExecKernelNodeSetParams_v2)(instance.as_raw(), node.as_raw(), &kernel)
        })
    }

    unsafe fn launch_graph(&self, instance: Handle, stream: Handle) -> Result<(), ApiError> {
        // SAFETY: until the graph has ended, the caller keeps the graph, the stream, and the memory that the nodes'
        // values refer to alive.
        call("cuGraphLaunch", unsafe { (graphs().cuGraphLaunch)(instance.as_raw(), stream.as_raw()) })
    }

    unsafe fn destroy_instance(&self, instance: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Graph` is the only owner of the instance, and destroys it exactly once, when it is not in
        // flight.
        call("cuGraphExecDestroy", unsafe { (graphs().cuGraphExecDestroy)(instance.as_raw()) })
    }

    unsafe fn destroy_graph(&self, graph: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Graph` is the only owner of the raw graph, and destroys it exactly once.
        call("cuGraphDestroy", unsafe { (graphs().cuGraphDestroy)(graph.as_raw()) })
    }
}

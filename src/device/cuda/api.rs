//! One CUDA device: the implementation of [`Api`].

use super::library::{self, GraphFunctions, UnifiedFunctions, call, functions};
use super::types::{
    ATTACH_GLOBAL, BLOCKING_SYNC_WITHOUT_TIMING, CONCURRENT_MANAGED_ACCESS, CPU, Copy3d, CopyEnd, DEVICE, DeviceNumber,
    DevicePointer, HOST, KernelNode, MANAGED_MEMORY, NON_BLOCKING, Object, POINTER_CONTEXT, POINTER_DEVICE, PORTABLE,
};
use crate::device::gpu::{Api, ApiError, Direction, Handle, KernelCall, Pitched, Transfer};
use std::ffi::{CStr, c_int};
use std::ptr;

/// A CUDA device, accessed through its primary context.
pub(in crate::device) struct Cuda {
    device: DeviceNumber,
    context: Handle,
}

fn graphs() -> &'static GraphFunctions {
    library::graph_functions().expect("graphs are used only if the driver has them")
}

fn unified() -> &'static UnifiedFunctions {
    library::unified_functions().expect("unified memory is used only if the driver has it")
}

fn kernel_node(KernelCall { function: Handle(function), groups, group, arguments }: KernelCall<'_>) -> KernelNode {
    let (values, others) = (arguments.as_mut_ptr(), ptr::null_mut());
    let (kernel, context) = (ptr::null_mut(), ptr::null_mut());
    KernelNode { function, groups, group, shared_bytes: 0, values, others, kernel, context }
}

impl Cuda {
    fn raw_context(&self) -> Object {
        self.context.0
    }

    /// # Safety
    /// As for [`Api::copy`].
    unsafe fn copy_flat(&self, stream: Object, transfer: &Transfer, owner: Object) -> Result<(), ApiError> {
        let Transfer {
            direction,
            width_bytes,
            from: Pitched { address: from, .. },
            to: Pitched { address: to, .. },
            ..
        } = *transfer;
        let (source, target) = (from as DevicePointer, to as DevicePointer);
        // SAFETY: the caller of `copy` keeps both ends valid until the copy has ended.
        unsafe {
            match direction {
                Direction::In => call(
                    "cuMemcpyHtoDAsync",
                    (functions().cuMemcpyHtoDAsync_v2)(target, ptr::with_exposed_provenance(from), width_bytes, stream),
                ),
                Direction::Out => call(
                    "cuMemcpyDtoHAsync",
                    (functions().cuMemcpyDtoHAsync_v2)(
                        ptr::with_exposed_provenance_mut(to),
                        source,
                        width_bytes,
                        stream,
                    ),
                ),
                Direction::Across if owner == self.raw_context() => {
                    call("cuMemcpyDtoDAsync", (functions().cuMemcpyDtoDAsync_v2)(target, source, width_bytes, stream))
                }
                Direction::Across => call(
                    "cuMemcpyPeerAsync",
                    (functions().cuMemcpyPeerAsync)(target, self.raw_context(), source, owner, width_bytes, stream),
                ),
            }
        }
    }

    /// # Safety
    /// As for [`Api::copy`].
    unsafe fn copy_box(&self, stream: Object, transfer: &Transfer, owner: Object) -> Result<(), ApiError> {
        let Transfer { direction, width_bytes, rows, slices, from, to } = *transfer;
        let is_across = direction == Direction::Across && owner != self.raw_context();
        let end = |end: &Pitched, is_host: bool, context: Object| CopyEnd {
            x_bytes: 0,
            y: 0,
            z: 0,
            level: 0,
            memory: if is_host { HOST } else { DEVICE },
            host: if is_host { ptr::with_exposed_provenance_mut(end.address) } else { ptr::null_mut() },
            device: if is_host { 0 } else { end.address as DevicePointer },
            array: ptr::null_mut(),
            context: if is_across { context } else { ptr::null_mut() },
            pitch: end.pitch_bytes,
            height: end.height,
        };
        let copy = Copy3d {
            from: end(&from, direction == Direction::In, owner),
            to: end(&to, direction == Direction::Out, self.raw_context()),
            width_bytes,
            height: rows,
            depth: slices,
        };
        // SAFETY: the caller of `copy` keeps both ends valid until the copy has ended; the driver reads the copy
        // description before the call returns.
        unsafe {
            if is_across {
                return call("cuMemcpy3DPeerAsync", (functions().cuMemcpy3DPeerAsync)(&copy, stream));
            }
            call("cuMemcpy3DAsync", (functions().cuMemcpy3DAsync_v2)(&copy, stream))
        }
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
        Ok(Self { device, context: Handle(context) })
    }

    fn domain(&self) -> usize {
        0 // any two devices can copy to each other, through the host if there is no direct path
    }

    fn bind(&self) -> Result<(), ApiError> {
        // SAFETY: the context is retained.
        call("cuCtxSetCurrent", unsafe { (functions().cuCtxSetCurrent)(self.raw_context()) })
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
        call("cuMemFree", unsafe { (functions().cuMemFree_v2)(base as DevicePointer) })
    }

    fn allocate_host(&self, bytes: usize) -> Result<usize, ApiError> {
        let mut address = ptr::null_mut();
        // SAFETY: the result pointer is valid.
        call("cuMemHostAlloc", unsafe { (functions().cuMemHostAlloc)(&mut address, bytes, PORTABLE) })?;
        Ok(address.expose_provenance())
    }

    unsafe fn free_host(&self, base: usize) -> Result<(), ApiError> {
        // SAFETY: the address comes from `allocate_host`. The recycler holds only unused blocks, and frees each of
        // them once.
        call("cuMemFreeHost", unsafe { (functions().cuMemFreeHost)(ptr::with_exposed_provenance_mut(base)) })
    }

    fn reaches_unified(&self) -> Result<bool, ApiError> {
        let has = |attribute| Ok(library::attribute_of(self.device, attribute)? != 0);
        Ok(library::unified_functions().is_some() && has(MANAGED_MEMORY)? && has(CONCURRENT_MANAGED_ACCESS)?)
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
            (unified().cuMemPrefetchAsync)(first as DevicePointer, bytes, to, stream.0)
        })
    }

    unsafe fn pin_memory(&self, first: *mut u8, bytes: usize) -> Result<(), ApiError> {
        // SAFETY: the memory stays valid until its `PageLock` is dropped, because the runtime drops the lock before
        // the array.
        call("cuMemHostRegister", unsafe { (functions().cuMemHostRegister_v2)(first.cast(), bytes, PORTABLE) })
    }

    unsafe fn page_unlock(&self, first: *mut u8) -> Result<(), ApiError> {
        // SAFETY: `pin_memory` locked the memory, and its `PageLock` unlocks it exactly once.
        call("cuMemHostUnregister", unsafe { (functions().cuMemHostUnregister)(first.cast()) })
    }

    fn create_stream(&self) -> Result<Handle, ApiError> {
        let mut stream = ptr::null_mut();
        // SAFETY: the result pointer is valid.
        call("cuStreamCreate", unsafe { (functions().cuStreamCreate)(&mut stream, NON_BLOCKING) })?;
        Ok(Handle(stream))
    }

    unsafe fn destroy_stream(&self, stream: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Stream` is the only owner of the raw stream, so the stream is destroyed exactly once.
        call("cuStreamDestroy", unsafe { (functions().cuStreamDestroy_v2)(stream.0) })
    }

    fn create_event(&self) -> Result<Handle, ApiError> {
        let mut event = ptr::null_mut();
        // SAFETY: the result pointer is valid.
        call("cuEventCreate", unsafe { (functions().cuEventCreate)(&mut event, BLOCKING_SYNC_WITHOUT_TIMING) })?;
        Ok(Handle(event))
    }

    unsafe fn destroy_event(&self, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the device destroys each event exactly once, when no `Event` refers to it any more.
        call("cuEventDestroy", unsafe { (functions().cuEventDestroy_v2)(event.0) })
    }

    unsafe fn record(&self, stream: Handle, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Stream` and the `Event` keep the raw stream and the raw event alive.
        call("cuEventRecord", unsafe { (functions().cuEventRecord)(event.0, stream.0) })
    }

    unsafe fn wait(&self, stream: Handle, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Stream` and the `Event` keep the raw stream and the raw event alive.
        call("cuStreamWaitEvent", unsafe { (functions().cuStreamWaitEvent)(stream.0, event.0, 0) })
    }

    unsafe fn query(&self, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Event` keeps the raw event alive.
        call("cuEventQuery", unsafe { (functions().cuEventQuery)(event.0) })
    }

    unsafe fn synchronize(&self, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Event` keeps the raw event alive.
        call("cuEventSynchronize", unsafe { (functions().cuEventSynchronize)(event.0) })
    }

    fn id(&self) -> usize {
        self.context.0.addr()
    }

    unsafe fn owner(&self, address: usize) -> Result<usize, ApiError> {
        let mut context: Object = ptr::null_mut();
        // SAFETY: the value of this attribute is a context, and the result pointer is valid for a context.
        let asked = call("cuPointerGetAttribute", unsafe {
            (functions().cuPointerGetAttribute)(
                ptr::from_mut(&mut context).cast(),
                POINTER_CONTEXT,
                address as DevicePointer,
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
                POINTER_DEVICE,
                address as DevicePointer,
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
                self.copy_flat(stream.0, transfer, owner)
            } else {
                self.copy_box(stream.0, transfer, owner)
            }
        }
    }

    fn load_module(&self, image: &[u8]) -> Result<Handle, ApiError> {
        let mut module = ptr::null_mut();
        // SAFETY: the image is either code that contains its own length or null-terminated text, and the result
        // pointer is valid.
        call("cuModuleLoadData", unsafe { (functions().cuModuleLoadData)(&mut module, image.as_ptr().cast()) })?;
        Ok(Handle(module))
    }

    unsafe fn unload_module(&self, module: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Module` is the only owner of the raw module, and unloads it exactly once, when none of its
        // kernels is in flight.
        call("cuModuleUnload", unsafe { (functions().cuModuleUnload)(module.0) })
    }

    unsafe fn function(&self, module: Handle, name: &CStr) -> Result<Handle, ApiError> {
        let mut function = ptr::null_mut();
        // SAFETY: the `Module` keeps the raw module loaded, the name is null-terminated, and the result pointer is
        // valid.
        call("cuModuleGetFunction", unsafe {
            (functions().cuModuleGetFunction)(&mut function, module.0, name.as_ptr())
        })?;
        Ok(Handle(function))
    }

    unsafe fn launch(&self, stream: Handle, kernel: KernelCall<'_>) -> Result<(), ApiError> {
        let KernelCall { function, groups: [x, y, z], group: [in_x, in_y, in_z], arguments } = kernel;
        let (values, others) = (arguments.as_mut_ptr(), ptr::null_mut());
        // SAFETY: the function's `Module` is kept together with the function, so the module is loaded. The arguments
        // match the kernel's parameters, because `Kernel` compares their types with the text, and the engine pins the
        // replicas among the arguments until the task has ended.
        call("cuLaunchKernel", unsafe {
            (functions().cuLaunchKernel)(function.0, x, y, z, in_x, in_y, in_z, 0, stream.0, values, others)
        })
    }

    fn has_graphs(&self) -> bool {
        library::graph_functions().is_some()
    }

    fn create_graph(&self) -> Result<Handle, ApiError> {
        let mut graph = ptr::null_mut();
        // SAFETY: the result pointer is valid; 0 is the only defined flag.
        call("cuGraphCreate", unsafe { (graphs().cuGraphCreate)(&mut graph, 0) })?;
        Ok(Handle(graph))
    }

    unsafe fn add_kernel(&self, graph: Handle, before: &[Handle], kernel: KernelCall<'_>) -> Result<Handle, ApiError> {
        let (mut node, kernel) = (ptr::null_mut(), kernel_node(kernel));
        // A `Handle` is a transparent wrapper of an object's address, so both have the same layout.
        let (first, count) = (before.as_ptr().cast(), before.len());
        // SAFETY: the caller keeps the graph and its nodes alive, the driver copies the values, which match the
        // kernel's parameters, and the result pointer is valid.
        call("cuGraphAddKernelNode", unsafe {
            (graphs().cuGraphAddKernelNode_v2)(&mut node, graph.0, first, count, &kernel)
        })?;
        Ok(Handle(node))
    }

    unsafe fn instantiate(&self, graph: Handle) -> Result<Handle, ApiError> {
        let mut instance = ptr::null_mut();
        // SAFETY: the caller keeps the graph alive; the result pointer is valid.
        call("cuGraphInstantiateWithFlags", unsafe {
            (graphs().cuGraphInstantiateWithFlags)(&mut instance, graph.0, 0)
        })?;
        Ok(Handle(instance))
    }

    unsafe fn set_kernel(&self, instance: Handle, node: Handle, kernel: KernelCall<'_>) -> Result<(), ApiError> {
        let kernel = kernel_node(kernel);
        // SAFETY: the caller keeps the graph alive, and the driver copies the values, which match the kernel's
        // parameters.
        call("cuGraphExecKernelNodeSetParams", unsafe {
            (graphs().cuGraphExecKernelNodeSetParams_v2)(instance.0, node.0, &kernel)
        })
    }

    unsafe fn launch_graph(&self, instance: Handle, stream: Handle) -> Result<(), ApiError> {
        // SAFETY: until the graph has ended, the caller keeps the graph, the stream, and the memory that the nodes'
        // values refer to alive.
        call("cuGraphLaunch", unsafe { (graphs().cuGraphLaunch)(instance.0, stream.0) })
    }

    unsafe fn destroy_instance(&self, instance: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Graph` is the only owner of the instance, and destroys it exactly once, when it is not in
        // flight.
        call("cuGraphExecDestroy", unsafe { (graphs().cuGraphExecDestroy)(instance.0) })
    }

    unsafe fn destroy_graph(&self, graph: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Graph` is the only owner of the raw graph, and destroys it exactly once.
        call("cuGraphDestroy", unsafe { (graphs().cuGraphDestroy)(graph.0) })
    }
}

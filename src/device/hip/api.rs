//! One HIP device: the implementation of [`Api`].

use super::library::{self, Functions, GraphFunctions, UnifiedFunctions, call};
use super::types::{
    ATTACH_GLOBAL, CONCURRENT_MANAGED_ACCESS, COOPERATIVE_LAUNCH, CPU, Copy3d, CopyKind, DEVICE_ORDINAL,
    DEVICE_TO_DEVICE, DEVICE_TO_HOST, DeviceAttribute, EVENT_BLOCKING_SYNC, EVENT_DISABLE_TIMING, Extent,
    HOST_MALLOC_PORTABLE, HOST_REGISTER_PORTABLE, HOST_TO_DEVICE, KernelNode, MANAGED_MEMORY, MOST_SHARED_BYTES,
    PitchedPointer, Position, RANGE_BYTES, RANGE_START, STREAM_NON_BLOCKING,
};
use crate::device::gpu::{Api, ApiError, Direction, Handle, KernelCall, Pitched, PoolAccess, Transfer, all_are_peers};
use crate::kernel::Groups;
use std::ffi::{CStr, c_int, c_void};
use std::ptr;

/// A HIP device.
pub(in crate::device) struct Hip {
    pub(super) library: &'static library::Library,
    pub(super) number: c_int,
    domain: usize,
}

impl Hip {
    pub(super) fn functions(&self) -> &Functions {
        &self.library.functions
    }

    pub(super) fn attribute(&self, attribute: DeviceAttribute) -> Result<c_int, ApiError> {
        let mut value = 0;
        // SAFETY: the device exists; the result pointer is valid.
        call("hipDeviceGetAttribute", unsafe {
            (self.functions().hipDeviceGetAttribute)(&mut value, attribute, self.number)
        })?;
        Ok(value)
    }

    fn unified(&self) -> &UnifiedFunctions {
        self.library.unified.as_ref().expect("unified memory is used only if the runtime has it")
    }

    fn graphs(&self) -> &GraphFunctions {
        self.library.graphs.as_ref().expect("graphs are used only if the runtime has them")
    }
}

fn kernel_node(KernelCall { function: Handle(function), groups, group, arguments }: KernelCall<'_>) -> KernelNode {
    let Groups { count: groups, shared_bytes, .. } = groups;
    let (values, others) = (arguments.as_mut_ptr(), ptr::null_mut());
    KernelNode { group, others, function, groups, values, shared_bytes }
}

fn kind(direction: Direction) -> CopyKind {
    match direction {
        Direction::In => HOST_TO_DEVICE,
        Direction::Out => DEVICE_TO_HOST,
        Direction::Across => DEVICE_TO_DEVICE,
    }
}

impl Api for Hip {
    const MOST_GROUPS: [u32; 3] = [i32::MAX as u32, 65535, 65535];
    const MOST_THREADS: u64 = u32::MAX as u64;
    const DLPACK: i32 = 10;

    fn open(number: c_int) -> Result<Self, ApiError> {
        // If some devices cannot reach the memory of others, every device gets its own domain, so that all copies
        // between devices go through the host.
        let domain = if all_are_peers::<Self>() { 0 } else { 1 + number as usize };
        Ok(Self { library: library::loaded(), number, domain })
    }

    fn domain(&self) -> usize {
        self.domain
    }

    fn bind(&self) -> Result<(), ApiError> {
        // SAFETY: the device exists.
        call("hipSetDevice", unsafe { (self.functions().hipSetDevice)(self.number) })
    }

    fn current() -> Result<usize, ApiError> {
        let mut number = 0;
        // SAFETY: the result pointer is valid.
        call("hipGetDevice", unsafe { (library::loaded().functions.hipGetDevice)(&mut number) })?;
        Ok(number as usize)
    }

    unsafe fn restore(number: usize) -> Result<(), ApiError> {
        // SAFETY: the caller passes a device that was current.
        call("hipSetDevice", unsafe { (library::loaded().functions.hipSetDevice)(number as c_int) })
    }

    fn number(&self) -> c_int {
        self.number
    }

    fn context(&self) -> usize {
        0
    }

    fn free_bytes(&self) -> Result<u64, ApiError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the result pointers are valid.
        call("hipMemGetInfo", unsafe { (self.functions().hipMemGetInfo)(&mut free, &mut total) })?;
        Ok(free as u64)
    }

    fn allocate(&self, bytes: usize) -> Result<usize, ApiError> {
        let mut address = ptr::null_mut();
        // SAFETY: the result pointer is valid.
        call("hipMalloc", unsafe { (self.functions().hipMalloc)(&mut address, bytes) })?;
        Ok(address.expose_provenance())
    }

    unsafe fn free(&self, base: usize) -> Result<(), ApiError> {
        // SAFETY: the address comes from `allocate`. The recycler holds only unused blocks, and frees each of them
        // once.
        call("hipFree", unsafe { (self.functions().hipFree)(ptr::with_exposed_provenance_mut(base)) })
    }

    fn open_pool(&self, others: &[PoolAccess]) -> Result<Option<Handle>, ApiError> {
        self.keep_pool(others)?.then(|| self.create_stream()).transpose()
    }

    unsafe fn allocate_pooled(&self, stream: Handle, bytes: usize) -> Result<usize, ApiError> {
        // SAFETY: the caller's promise.
        unsafe { self.allocate_from_pool(stream.0, bytes) }
    }

    unsafe fn free_pooled(&self, stream: Handle, base: usize) -> Result<(), ApiError> {
        // SAFETY: the caller's promise.
        unsafe { self.free_to_pool(stream.0, base) }
    }

    fn allocate_host(&self, bytes: usize) -> Result<usize, ApiError> {
        let mut address = ptr::null_mut();
        // SAFETY: the result pointer is valid.
        call("hipHostMalloc", unsafe { (self.functions().hipHostMalloc)(&mut address, bytes, HOST_MALLOC_PORTABLE) })?;
        Ok(address.expose_provenance())
    }

    unsafe fn free_host(&self, base: usize) -> Result<(), ApiError> {
        // SAFETY: the address comes from `allocate_host`. The recycler holds only unused blocks, and frees each of
        // them once.
        call("hipHostFree", unsafe { (self.functions().hipHostFree)(ptr::with_exposed_provenance_mut(base)) })
    }

    fn reaches_unified(&self) -> Result<bool, ApiError> {
        let has = |attribute| Ok(self.attribute(attribute)? != 0);
        Ok(self.library.unified.is_some() && has(MANAGED_MEMORY)? && has(CONCURRENT_MANAGED_ACCESS)?)
    }

    fn allocate_unified(&self, bytes: usize) -> Result<usize, ApiError> {
        let mut address = ptr::null_mut();
        // SAFETY: the result pointer is valid.
        call("hipMallocManaged", unsafe { (self.unified().hipMallocManaged)(&mut address, bytes, ATTACH_GLOBAL) })?;
        Ok(address.expose_provenance())
    }

    unsafe fn prefetch(&self, stream: Handle, first: usize, bytes: usize, to_host: bool) -> Result<(), ApiError> {
        let (first, to) = (ptr::with_exposed_provenance(first), if to_host { CPU } else { self.number });
        // SAFETY: the caller keeps the memory from `allocate_unified` alive until the prefetch has ended, and the
        // `Stream` keeps the raw stream alive.
        call("hipMemPrefetchAsync", unsafe { (self.unified().hipMemPrefetchAsync)(first, bytes, to, stream.0) })
    }

    unsafe fn pin_memory(&self, first: *mut u8, bytes: usize) -> Result<(), ApiError> {
        // SAFETY: the memory stays valid until its `PageLock` is dropped, because the runtime drops the lock before
        // the array.
        call("hipHostRegister", unsafe {
            (self.functions().hipHostRegister)(first.cast(), bytes, HOST_REGISTER_PORTABLE)
        })
    }

    fn locked_range(&self, address: usize) -> Result<(usize, usize), ApiError> {
        let (mut start, mut bytes): (usize, usize) = (0, 0);
        let address = ptr::with_exposed_provenance_mut(address);
        // SAFETY: the value of the first attribute is an address, that of the second a size, and the result pointers
        // are valid for those. The runtime returns an error for addresses that it does not know.
        unsafe {
            let ask = self.functions().hipPointerGetAttribute;
            call("hipPointerGetAttribute", ask(ptr::from_mut(&mut start).cast(), RANGE_START, address))?;
            call("hipPointerGetAttribute", ask(ptr::from_mut(&mut bytes).cast(), RANGE_BYTES, address))?;
        }
        Ok((start, bytes))
    }

    unsafe fn page_unlock(&self, first: *mut u8) -> Result<(), ApiError> {
        // SAFETY: `pin_memory` locked the memory, and its `PageLock` unlocks it exactly once.
        call("hipHostUnregister", unsafe { (self.functions().hipHostUnregister)(first.cast()) })
    }

    fn create_stream(&self) -> Result<Handle, ApiError> {
        let mut stream = ptr::null_mut();
        // SAFETY: the result pointer is valid.
        call("hipStreamCreateWithFlags", unsafe {
            (self.functions().hipStreamCreateWithFlags)(&mut stream, STREAM_NON_BLOCKING)
        })?;
        Ok(Handle(stream))
    }

    unsafe fn destroy_stream(&self, stream: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Stream` is the only owner of the raw stream, so the stream is destroyed exactly once.
        call("hipStreamDestroy", unsafe { (self.functions().hipStreamDestroy)(stream.0) })
    }

    fn create_event(&self, is_timed: bool) -> Result<Handle, ApiError> {
        let (mut event, timing) = (ptr::null_mut(), if is_timed { 0 } else { EVENT_DISABLE_TIMING });
        // SAFETY: the result pointer is valid.
        call("hipEventCreateWithFlags", unsafe {
            (self.functions().hipEventCreateWithFlags)(&mut event, EVENT_BLOCKING_SYNC | timing)
        })?;
        Ok(Handle(event))
    }

    unsafe fn destroy_event(&self, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the device destroys each event exactly once, when no `Event` refers to it any more.
        call("hipEventDestroy", unsafe { (self.functions().hipEventDestroy)(event.0) })
    }

    unsafe fn record(&self, stream: Handle, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Stream` and the `Event` keep the raw stream and the raw event alive.
        call("hipEventRecord", unsafe { (self.functions().hipEventRecord)(event.0, stream.0) })
    }

    unsafe fn wait(&self, stream: Handle, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Stream` and the `Event` keep the raw stream and the raw event alive.
        call("hipStreamWaitEvent", unsafe { (self.functions().hipStreamWaitEvent)(stream.0, event.0, 0) })
    }

    unsafe fn query(&self, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Event` keeps the raw event alive.
        call("hipEventQuery", unsafe { (self.functions().hipEventQuery)(event.0) })
    }

    unsafe fn synchronize(&self, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Event` keeps the raw event alive.
        call("hipEventSynchronize", unsafe { (self.functions().hipEventSynchronize)(event.0) })
    }

    unsafe fn elapsed_ms(&self, from: Handle, to: Handle) -> Result<f32, ApiError> {
        let mut elapsed = 0.0;
        // SAFETY: the result pointer is valid, and the two stamps keep their raw events alive.
        call("hipEventElapsedTime", unsafe { (self.functions().hipEventElapsedTime)(&mut elapsed, from.0, to.0) })?;
        Ok(elapsed)
    }

    fn id(&self) -> usize {
        self.number as usize
    }

    unsafe fn owner(&self, address: usize) -> Result<usize, ApiError> {
        // SAFETY: `device_of` has the same requirements as this function.
        unsafe { self.device_of(address) }.map(|number| number as usize)
    }

    unsafe fn device_of(&self, address: usize) -> Result<c_int, ApiError> {
        let mut owner: c_int = 0;
        // SAFETY: the value of this attribute is a device index, and the result pointer is valid for a device index.
        call("hipPointerGetAttribute", unsafe {
            (self.functions().hipPointerGetAttribute)(
                ptr::from_mut(&mut owner).cast(),
                DEVICE_ORDINAL,
                ptr::with_exposed_provenance_mut(address),
            )
        })?;
        Ok(owner)
    }

    fn synchronize_default(&self) -> Result<(), ApiError> {
        // SAFETY: a null stream stands for the default stream.
        call("hipStreamSynchronize", unsafe { (self.functions().hipStreamSynchronize)(ptr::null_mut()) })
    }

    unsafe fn enable_peer(&self, peer: usize) -> Result<(), ApiError> {
        // SAFETY: the device has memory that is being copied, so the device exists. The call returns an error if the
        // hardware does not support peer access.
        call("hipDeviceEnablePeerAccess", unsafe { (self.functions().hipDeviceEnablePeerAccess)(peer as c_int, 0) })
    }

    unsafe fn copy(&self, stream: Handle, transfer: &Transfer, owner: usize) -> Result<(), ApiError> {
        let Transfer { direction, width_bytes, rows, slices, from, to } = *transfer;
        let (stream, owner) = (stream.0, owner as c_int);
        // SAFETY: the engine pins both replicas until the copy has ended, and nothing writes to them in the meantime.
        // The library reads copy descriptions before the calls return.
        unsafe {
            if transfer.is_flat() {
                let source: *const c_void = ptr::with_exposed_provenance(from.address);
                let target: *mut c_void = ptr::with_exposed_provenance_mut(to.address);
                if owner == self.number {
                    let copied =
                        (self.functions().hipMemcpyAsync)(target, source, width_bytes, kind(direction), stream);
                    return call("hipMemcpyAsync", copied);
                }
                let copied =
                    (self.functions().hipMemcpyPeerAsync)(target, self.number, source, owner, width_bytes, stream);
                return call("hipMemcpyPeerAsync", copied);
            }
            let pitched = |end: &Pitched| PitchedPointer {
                ptr: ptr::with_exposed_provenance_mut(end.address),
                pitch: end.pitch_bytes,
                xsize: width_bytes,
                ysize: end.height,
            };
            let copy = Copy3d {
                src_array: ptr::null_mut(),
                src_pos: Position::default(),
                src_ptr: pitched(&from),
                dst_array: ptr::null_mut(),
                dst_pos: Position::default(),
                dst_ptr: pitched(&to),
                extent: Extent { width: width_bytes, height: rows, depth: slices },
                kind: kind(direction),
            };
            call("hipMemcpy3DAsync", (self.functions().hipMemcpy3DAsync)(&copy, stream))
        }
    }

    fn load_module(&self, image: &[u8]) -> Result<Handle, ApiError> {
        let mut module = ptr::null_mut();
        // SAFETY: the image is code that contains its own length, and the result pointer is valid.
        call("hipModuleLoadData", unsafe { (self.functions().hipModuleLoadData)(&mut module, image.as_ptr().cast()) })?;
        Ok(Handle(module))
    }

    unsafe fn unload_module(&self, module: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Module` is the only owner of the raw module, and unloads it exactly once, when none of its
        // kernels is in flight.
        call("hipModuleUnload", unsafe { (self.functions().hipModuleUnload)(module.0) })
    }

    unsafe fn function(&self, module: Handle, name: &CStr) -> Result<Handle, ApiError> {
        let mut function = ptr::null_mut();
        // SAFETY: the `Module` keeps the raw module loaded, the name is null-terminated, and the result pointer is
        // valid.
        call("hipModuleGetFunction", unsafe {
            (self.functions().hipModuleGetFunction)(&mut function, module.0, name.as_ptr())
        })?;
        Ok(Handle(function))
    }

    fn lacks(&self, groups: &Groups) -> Result<Option<&'static str>, ApiError> {
        if groups.has_clusters() {
            return Ok(Some("HIP has no clusters; try larger groups"));
        }
        if self.library.launches.is_none() || self.attribute(COOPERATIVE_LAUNCH)? == 0 {
            return Ok(Some("the device or its runtime has no cooperative launches; try several launches"));
        }
        Ok(None)
    }

    fn most_shared_bytes(&self) -> Result<c_int, ApiError> {
        self.attribute(MOST_SHARED_BYTES)
    }

    unsafe fn allow_shared(&self, _: Handle, _: u32) -> Result<(), ApiError> {
        Ok(()) // functions of modules need no permission
    }

    unsafe fn launch(&self, stream: Handle, kernel: KernelCall<'_>) -> Result<(), ApiError> {
        let KernelCall { function, groups, group: [in_x, in_y, in_z], arguments } = kernel;
        let (stream, values, others) = (stream.0, arguments.as_mut_ptr(), ptr::null_mut());
        let Groups { count: [x, y, z], shared_bytes, is_cooperative, .. } = groups;
        if is_cooperative {
            let launches = self.library.launches.as_ref().expect("`lacks` has said that the runtime has it");
            let launch = launches.hipModuleLaunchCooperativeKernel;
            // SAFETY: as for `hipModuleLaunchKernel` below.
            return call("hipModuleLaunchCooperativeKernel", unsafe {
                launch(function.0, x, y, z, in_x, in_y, in_z, shared_bytes, stream, values)
            });
        }
        // SAFETY: the function's `Module` is kept together with the function, so the module is loaded. The arguments
        // match the kernel's parameters, because `Kernel` compares their types with the text, and the engine pins the
        // replicas among the arguments until the task has ended.
        call("hipModuleLaunchKernel", unsafe {
            (self.functions().hipModuleLaunchKernel)(
                function.0,
                x,
                y,
                z,
                in_x,
                in_y,
                in_z,
                shared_bytes,
                stream,
                values,
                others,
            )
        })
    }

    fn has_graphs(&self) -> bool {
        self.library.graphs.is_some()
    }

    fn create_graph(&self) -> Result<Handle, ApiError> {
        let mut graph = ptr::null_mut();
        // SAFETY: the result pointer is valid; 0 is the only defined flag.
        call("hipGraphCreate", unsafe { (self.graphs().hipGraphCreate)(&mut graph, 0) })?;
        Ok(Handle(graph))
    }

    unsafe fn add_kernel(&self, graph: Handle, before: &[Handle], kernel: KernelCall<'_>) -> Result<Handle, ApiError> {
        let (mut node, kernel) = (ptr::null_mut(), kernel_node(kernel));
        // A `Handle` is a transparent wrapper of an object's address, so both have the same layout.
        let (first, count) = (before.as_ptr().cast(), before.len());
        // SAFETY: the caller keeps the graph and its nodes alive, the library copies the values, which match the
        // kernel's parameters, and the result pointer is valid.
        call("hipGraphAddKernelNode", unsafe {
            (self.graphs().hipGraphAddKernelNode)(&mut node, graph.0, first, count, &kernel)
        })?;
        Ok(Handle(node))
    }

    unsafe fn instantiate(&self, graph: Handle) -> Result<Handle, ApiError> {
        let mut instance = ptr::null_mut();
        // SAFETY: the caller keeps the graph alive; the result pointer is valid.
        call("hipGraphInstantiateWithFlags", unsafe {
            (self.graphs().hipGraphInstantiateWithFlags)(&mut instance, graph.0, 0)
        })?;
        Ok(Handle(instance))
    }

    unsafe fn set_kernel(&self, instance: Handle, node: Handle, kernel: KernelCall<'_>) -> Result<(), ApiError> {
        let kernel = kernel_node(kernel);
        // SAFETY: the caller keeps the graph alive, and the library copies the values, which match the kernel's
        // parameters.
        call("hipGraphExecKernelNodeSetParams", unsafe {
            (self.graphs().hipGraphExecKernelNodeSetParams)(instance.0, node.0, &kernel)
        })
    }

    unsafe fn launch_graph(&self, instance: Handle, stream: Handle) -> Result<(), ApiError> {
        // SAFETY: until the graph has ended, the caller keeps the graph, the stream, and the memory that the nodes'
        // values refer to alive.
        call("hipGraphLaunch", unsafe { (self.graphs().hipGraphLaunch)(instance.0, stream.0) })
    }

    unsafe fn destroy_instance(&self, instance: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Graph` is the only owner of the instance, and destroys it exactly once, when it is not in
        // flight.
        call("hipGraphExecDestroy", unsafe { (self.graphs().hipGraphExecDestroy)(instance.0) })
    }

    unsafe fn destroy_graph(&self, graph: Handle) -> Result<(), ApiError> {
        // SAFETY: the `Graph` is the only owner of the raw graph, and destroys it exactly once.
        call("hipGraphDestroy", unsafe { (self.graphs().hipGraphDestroy)(graph.0) })
    }
}

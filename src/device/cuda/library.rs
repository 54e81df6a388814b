//! The CUDA driver library and its function table.
//!
//! Library and types are cudarc's; the functions are looked up here. cudarc's own functions return codes as a Rust
//! enumeration, for which a code of a newer driver is undefined behaviour, and they panic if the driver lacks a symbol.

use super::driver_types::{ConditionalNode, KernelNode, LaunchConfig};
use crate::device::functions::functions;
use crate::device::gpu::{ApiError, PoolAccess};
use cudarc::driver::sys::{
    self, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction,
    CUfunction_attribute, CUgraph, CUgraphExec, CUgraphNode, CUmemPool_attribute, CUmemoryPool, CUmodule,
    CUpointer_attribute, CUresult, CUstream,
};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

functions! { Functions {
    cuCtxEnablePeerAccess(CUcontext, c_uint);
    cuCtxGetCurrent(*mut CUcontext);
    cuCtxSetCurrent(CUcontext);
    cuDeviceCanAccessPeer(*mut c_int, CUdevice, CUdevice);
    cuDeviceGet(*mut CUdevice, c_int);
    cuDeviceGetAttribute(*mut c_int, c_uint, CUdevice);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGetName(*mut c_char, c_int, CUdevice);
    cuDeviceGetPCIBusId(*mut c_char, c_int, CUdevice);
    cuDevicePrimaryCtxRelease_v2(CUdevice);
    cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
    cuDeviceTotalMem_v2(*mut usize, CUdevice);
    cuDriverGetVersion(*mut c_int);
    cuEventCreate(*mut CUevent, c_uint);
    cuEventDestroy_v2(CUevent);
    cuEventElapsedTime(*mut f32, CUevent, CUevent);
    cuEventQuery(CUevent);
    cuEventRecord(CUevent, CUstream);
    cuEventSynchronize(CUevent);
    cuFuncSetAttribute(CUfunction, CUfunction_attribute, c_int);
    cuGetErrorString(c_int, *mut *const c_char);
    cuInit(c_uint);
    cuLaunchKernel(CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void,
        *mut *mut c_void);
    cuMemAlloc_v2(*mut CUdeviceptr, usize);
    cuMemFreeHost(*mut c_void);
    cuMemFree_v2(CUdeviceptr);
    cuMemGetInfo_v2(*mut usize, *mut usize);
    cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    cuMemHostRegister_v2(*mut c_void, usize, c_uint);
    cuMemHostUnregister(*mut c_void);
    cuMemcpy3DAsync_v2(*const CUDA_MEMCPY3D, CUstream);
    cuMemcpy3DPeerAsync(*const CUDA_MEMCPY3D_PEER, CUstream);
    cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, usize, CUstream);
    cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
    cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
    cuMemcpyPeerAsync(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, usize, CUstream);
    cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
    cuModuleLoadData(*mut CUmodule, *const c_void);
    cuModuleUnload(CUmodule);
    cuPointerGetAttribute(*mut c_void, CUpointer_attribute, CUdeviceptr);
    cuStreamCreate(*mut CUstream, c_uint);
    cuStreamDestroy_v2(CUstream);
    cuStreamSynchronize(CUstream);
    cuStreamWaitEvent(CUstream, CUevent, c_uint);
} }

// Functions that only drivers for CUDA 12 and newer have.
functions! { GraphFunctions {
    cuGraphAddKernelNode_v2(*mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const KernelNode);
    cuGraphCreate(*mut CUgraph, c_uint);
    cuGraphDestroy(CUgraph);
    cuGraphExecDestroy(CUgraphExec);
    cuGraphExecKernelNodeSetParams_v2(CUgraphExec, CUgraphNode, *const KernelNode);
    cuGraphInstantiateWithFlags(*mut CUgraphExec, CUgraph, c_ulonglong);
    cuGraphLaunch(CUgraphExec, CUstream);
} }

// Functions that only drivers for CUDA 12.4 and newer have; the second one is older, but without such nodes.
functions! { LoopFunctions {
    cuGraphConditionalHandleCreate(*mut u64, CUgraph, CUcontext, c_uint, c_uint);
    cuGraphAddNode(*mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *mut ConditionalNode);
} }

/// The first driver that repeats graphs.
const LOOPS_SINCE: c_int = 12040;

// A function that only drivers for CUDA 11.8 and newer have.
functions! { LaunchFunctions {
    cuLaunchKernelEx(*const LaunchConfig, CUfunction, *mut *mut c_void, *mut *mut c_void);
} }

// Functions that only drivers for CUDA 11.2 and newer have.
functions! { PoolFunctions {
    cuDeviceGetDefaultMemPool(*mut CUmemoryPool, CUdevice);
    cuMemAllocAsync(*mut CUdeviceptr, usize, CUstream);
    cuMemFreeAsync(CUdeviceptr, CUstream);
    cuMemPoolSetAccess(CUmemoryPool, *const PoolAccess, usize);
    cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, *mut c_void);
} }

// Functions that only some devices support.
functions! { UnifiedFunctions {
    cuMemAllocManaged(*mut CUdeviceptr, usize, c_uint);
    cuMemPrefetchAsync(CUdeviceptr, usize, CUdevice, CUstream);
} }

/// The function tables of the loaded library.
struct Library {
    functions: Functions,
    unified: Option<UnifiedFunctions>,
    graphs: Option<GraphFunctions>,
    launches: Option<LaunchFunctions>,
    pools: Option<PoolFunctions>,
    loops: Option<LoopFunctions>,
}

fn library() -> Result<&'static Library, &'static str> {
    static LOADED: OnceLock<Result<Library, String>> = OnceLock::new();
    LOADED.get_or_init(start).as_ref().map_err(String::as_str)
}

/// Opens and initialises the library on the first call.
///
/// # Errors
/// Returns the reason why the library cannot be used.
pub(super) fn load() -> Result<(), &'static str> {
    library().map(|_| ())
}

/// Returns the functions of the library, which must have been loaded.
pub(super) fn functions() -> &'static Functions {
    &library().expect("functions are called only after the library is loaded").functions
}

/// Returns the functions for graphs, if the driver has them.
pub(super) fn graph_functions() -> Option<&'static GraphFunctions> {
    library().ok()?.graphs.as_ref()
}

/// Returns the functions for loops in graphs, if the driver has them.
pub(super) fn loop_functions() -> Option<&'static LoopFunctions> {
    library().ok()?.loops.as_ref()
}

/// Returns the function for launches with attributes, if the driver has it.
pub(super) fn launch_functions() -> Option<&'static LaunchFunctions> {
    library().ok()?.launches.as_ref()
}

/// Returns the functions for pools of memory, if the driver has them.
pub(super) fn pool_functions() -> Option<&'static PoolFunctions> {
    library().ok()?.pools.as_ref()
}

/// Returns the functions for unified memory, if the driver has them.
pub(super) fn unified_functions() -> Option<&'static UnifiedFunctions> {
    library().ok()?.unified.as_ref()
}

fn start() -> Result<Library, String> {
    // SAFETY: opening the library runs its initialisation code, whose soundness is NVIDIA's responsibility.
    if !unsafe { sys::is_culib_present() } {
        return Err("the driver's library (libcuda.so.1) is not installed".to_owned());
    }
    // SAFETY: the same argument as above. The library was just found, so that this does not panic.
    let raw = unsafe { sys::culib() };
    // SAFETY: the types are those of the driver's headers, and stay valid in later releases because a function whose
    // type changes gets a new name. cudarc keeps the library open for the lifetime of the process.
    let functions = unsafe { Functions::of(raw) };
    let functions = functions.map_err(|symbol| format!("the driver is too old: its library has no {symbol}"))?;
    // SAFETY: the same argument as for `Functions`.
    let graphs = unsafe { GraphFunctions::of(raw) }.ok();
    // SAFETY: the same argument as for `Functions`.
    let unified = unsafe { UnifiedFunctions::of(raw) }.ok();
    // SAFETY: the same argument as for `Functions`.
    let launches = unsafe { LaunchFunctions::of(raw) }.ok();
    // SAFETY: the same argument as for `Functions`.
    let pools = unsafe { PoolFunctions::of(raw) }.ok();
    let mut version = 0;
    // SAFETY: the result pointer is valid, and the call needs no initialisation.
    let has_version = unsafe { (functions.cuDriverGetVersion)(&mut version) } == 0;
    // SAFETY: the same argument as for `Functions`.
    let loops = if has_version && version >= LOOPS_SINCE { unsafe { LoopFunctions::of(raw) }.ok() } else { None };
    // SAFETY: 0 is the only defined flag.
    let code = unsafe { (functions.cuInit)(0) };
    const NO_DEVICE: c_uint = CUresult::CUDA_ERROR_NO_DEVICE as c_uint;
    const STUB_LIBRARY: c_uint = CUresult::CUDA_ERROR_STUB_LIBRARY as c_uint;
    match code {
        0 => Ok(Library { functions, unified, graphs, launches, pools, loops }),
        NO_DEVICE => Err("the driver is installed but finds no device".to_owned()),
        STUB_LIBRARY => {
            Err("the library found is the toolkit's stub, not the driver's; try another LD_LIBRARY_PATH".to_owned())
        }
        code => Err(format!("the driver does not start: {}", words(&functions, code as i32))),
    }
}

pub(super) fn call(name: &'static str, code: c_uint) -> Result<(), ApiError> {
    ApiError::unless_success(name, code as i32)
}

/// Returns the device with this index.
pub(super) fn device(number: c_int) -> Result<CUdevice, ApiError> {
    let mut device = 0;
    // SAFETY: the result pointer is valid.
    call("cuDeviceGet", unsafe { (functions().cuDeviceGet)(&mut device, number) })?;
    Ok(device)
}

/// Returns an attribute of the device with this index.
pub(super) fn attribute(number: c_int, attribute: CUdevice_attribute) -> Result<c_int, ApiError> {
    attribute_of(device(number)?, attribute as c_uint)
}

/// Returns an attribute of a device.
pub(super) fn attribute_of(device: CUdevice, attribute: c_uint) -> Result<c_int, ApiError> {
    let mut value = 0;
    // SAFETY: the device handle comes from the driver, and the result pointer is valid.
    call("cuDeviceGetAttribute", unsafe { (functions().cuDeviceGetAttribute)(&mut value, attribute, device) })?;
    Ok(value)
}

/// Returns the driver's description of an error code.
pub(super) fn describe(code: i32) -> String {
    library().map_or_else(|_| format!("error {code}"), |library| words(&library.functions, code))
}

fn words(functions: &Functions, code: i32) -> String {
    let mut text = std::ptr::null();
    // SAFETY: the result pointer is valid, and the driver returns an error for codes that it does not know.
    let known = unsafe { (functions.cuGetErrorString)(code, &mut text) } == 0;
    if !known || text.is_null() {
        return format!("error {code}");
    }
    // SAFETY: the text is a null-terminated constant in the driver.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

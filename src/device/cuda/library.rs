//! The CUDA driver library and its function table.

use super::types::{Attribute, Copy3d, DeviceNumber, DevicePointer, KernelNode, NO_DEVICE, Object, STUB_LIBRARY};
use crate::device::functions::{functions, open_first};
use crate::device::gpu::ApiError;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

functions! { Functions {
    cuCtxEnablePeerAccess(Object, c_uint);
    cuCtxSetCurrent(Object);
    cuDeviceCanAccessPeer(*mut c_int, DeviceNumber, DeviceNumber);
    cuDeviceGet(*mut DeviceNumber, c_int);
    cuDeviceGetAttribute(*mut c_int, Attribute, DeviceNumber);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGetName(*mut c_char, c_int, DeviceNumber);
    cuDeviceGetPCIBusId(*mut c_char, c_int, DeviceNumber);
    cuDevicePrimaryCtxRelease_v2(DeviceNumber);
    cuDevicePrimaryCtxRetain(*mut Object, DeviceNumber);
    cuDeviceTotalMem_v2(*mut usize, DeviceNumber);
    cuDriverGetVersion(*mut c_int);
    cuEventCreate(*mut Object, c_uint);
    cuEventDestroy_v2(Object);
    cuEventQuery(Object);
    cuEventRecord(Object, Object);
    cuEventSynchronize(Object);
    cuGetErrorString(c_int, *mut *const c_char);
    cuInit(c_uint);
    cuLaunchKernel(Object, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Object, *mut *mut c_void,
        *mut *mut c_void);
    cuMemAlloc_v2(*mut DevicePointer, usize);
    cuMemFreeHost(*mut c_void);
    cuMemFree_v2(DevicePointer);
    cuMemGetInfo_v2(*mut usize, *mut usize);
    cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    cuMemHostRegister_v2(*mut c_void, usize, c_uint);
    cuMemHostUnregister(*mut c_void);
    cuMemcpy3DAsync_v2(*const Copy3d, Object);
    cuMemcpy3DPeerAsync(*const Copy3d, Object);
    cuMemcpyDtoDAsync_v2(DevicePointer, DevicePointer, usize, Object);
    cuMemcpyDtoHAsync_v2(*mut c_void, DevicePointer, usize, Object);
    cuMemcpyHtoDAsync_v2(DevicePointer, *const c_void, usize, Object);
    cuMemcpyPeerAsync(DevicePointer, Object, DevicePointer, Object, usize, Object);
    cuModuleGetFunction(*mut Object, Object, *const c_char);
    cuModuleLoadData(*mut Object, *const c_void);
    cuModuleUnload(Object);
    cuPointerGetAttribute(*mut c_void, c_uint, DevicePointer);
    cuStreamCreate(*mut Object, c_uint);
    cuStreamDestroy_v2(Object);
    cuStreamSynchronize(Object);
    cuStreamWaitEvent(Object, Object, c_uint);
} }

// Functions that only drivers for CUDA 12 and newer have.
functions! { GraphFunctions {
    cuGraphAddKernelNode_v2(*mut Object, Object, *const Object, usize, *const KernelNode);
    cuGraphCreate(*mut Object, c_uint);
    cuGraphDestroy(Object);
    cuGraphExecDestroy(Object);
    cuGraphExecKernelNodeSetParams_v2(Object, Object, *const KernelNode);
    cuGraphInstantiateWithFlags(*mut Object, Object, c_ulonglong);
    cuGraphLaunch(Object, Object);
} }

// Functions that only some devices support.
functions! { UnifiedFunctions {
    cuMemAllocManaged(*mut DevicePointer, usize, c_uint);
    cuMemPrefetchAsync(DevicePointer, usize, DeviceNumber, Object);
} }

/// The loaded library and its function tables.
struct Library {
    functions: Functions,
    unified: Option<UnifiedFunctions>,
    graphs: Option<GraphFunctions>,
    /// Keeps the functions loaded; never closed.
    _raw: libloading::Library,
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

/// Returns the functions for unified memory, if the driver has them.
pub(super) fn unified_functions() -> Option<&'static UnifiedFunctions> {
    library().ok()?.unified.as_ref()
}

fn start() -> Result<Library, String> {
    let raw = open_first(&["libcuda.so.1", "libcuda.so", "nvcuda.dll"])
        .ok_or("the driver's library (libcuda.so.1) is not installed")?;
    // SAFETY: the types match the driver's manual, and stay valid in later releases because a function whose type
    // changes gets a new name. The library stays open for the lifetime of the process.
    let functions = unsafe { Functions::of(&raw) };
    let functions = functions.map_err(|symbol| format!("the driver is too old: its library has no {symbol}"))?;
    // SAFETY: the same argument as for `Functions`.
    let graphs = unsafe { GraphFunctions::of(&raw) }.ok();
    // SAFETY: the same argument as for `Functions`.
    let unified = unsafe { UnifiedFunctions::of(&raw) }.ok();
    // SAFETY: 0 is the only defined flag.
    let code = unsafe { (functions.cuInit)(0) };
    match code {
        0 => Ok(Library { functions, unified, graphs, _raw: raw }),
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
pub(super) fn device(number: c_int) -> Result<DeviceNumber, ApiError> {
    let mut device = 0;
    // SAFETY: the result pointer is valid.
    call("cuDeviceGet", unsafe { (functions().cuDeviceGet)(&mut device, number) })?;
    Ok(device)
}

/// Returns an attribute of the device with this index.
pub(super) fn attribute(number: c_int, attribute: Attribute) -> Result<c_int, ApiError> {
    attribute_of(device(number)?, attribute)
}

/// Returns an attribute of a device.
pub(super) fn attribute_of(device: DeviceNumber, attribute: Attribute) -> Result<c_int, ApiError> {
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

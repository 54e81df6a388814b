//! The HIP runtime library and its function table.

use super::types::{
    Copy3d, CopyKind, DeviceAttribute, DevicePointer, GetProperties, KernelNode, Object, PointerAttribute,
    architecture_at,
};
use crate::device::functions::{functions, open_first};
use crate::device::gpu::{ApiError, PoolAccess};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

functions! { Functions {
    hipDeviceCanAccessPeer(*mut c_int, c_int, c_int);
    hipDeviceEnablePeerAccess(c_int, c_uint);
    hipDeviceGetAttribute(*mut c_int, DeviceAttribute, c_int);
    hipDeviceGetName(*mut c_char, c_int, c_int);
    hipDeviceGetPCIBusId(*mut c_char, c_int, c_int);
    hipDeviceTotalMem(*mut usize, c_int);
    hipEventCreateWithFlags(*mut Object, c_uint);
    hipEventDestroy(Object);
    hipEventElapsedTime(*mut f32, Object, Object);
    hipEventQuery(Object);
    hipEventRecord(Object, Object);
    hipEventSynchronize(Object);
    hipFree(*mut c_void);
    hipGetDevice(*mut c_int);
    hipGetDeviceCount(*mut c_int);
    hipHostFree(*mut c_void);
    hipHostMalloc(*mut *mut c_void, usize, c_uint);
    hipHostRegister(*mut c_void, usize, c_uint);
    hipHostUnregister(*mut c_void);
    hipInit(c_uint);
    hipMalloc(*mut *mut c_void, usize);
    hipMemGetInfo(*mut usize, *mut usize);
    hipMemcpy3DAsync(*const Copy3d, Object);
    hipMemcpyAsync(*mut c_void, *const c_void, usize, CopyKind, Object);
    hipMemcpyPeerAsync(*mut c_void, c_int, *const c_void, c_int, usize, Object);
    hipModuleGetFunction(*mut Object, Object, *const c_char);
    hipModuleLaunchKernel(Object, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Object,
        *mut *mut c_void, *mut *mut c_void);
    hipModuleLoadData(*mut Object, *const c_void);
    hipModuleUnload(Object);
    hipPointerGetAttribute(*mut c_void, PointerAttribute, DevicePointer);
    hipRuntimeGetVersion(*mut c_int);
    hipSetDevice(c_int);
    hipStreamCreateWithFlags(*mut Object, c_uint);
    hipStreamDestroy(Object);
    hipStreamSynchronize(Object);
    hipStreamWaitEvent(Object, Object, c_uint);
} }

// Functions that only some releases have.
functions! { GraphFunctions {
    hipGraphAddKernelNode(*mut Object, Object, *const Object, usize, *const KernelNode);
    hipGraphCreate(*mut Object, c_uint);
    hipGraphDestroy(Object);
    hipGraphExecDestroy(Object);
    hipGraphExecKernelNodeSetParams(Object, Object, *const KernelNode);
    hipGraphInstantiateWithFlags(*mut Object, Object, c_ulonglong);
    hipGraphLaunch(Object, Object);
} }

// A function that only some releases have.
functions! { LaunchFunctions {
    hipModuleLaunchCooperativeKernel(Object, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Object,
        *mut *mut c_void);
} }

// Functions that only some releases have.
functions! { PoolFunctions {
    hipDeviceGetDefaultMemPool(*mut Object, c_int);
    hipFreeAsync(*mut c_void, Object);
    hipMallocAsync(*mut *mut c_void, usize, Object);
    hipMemPoolSetAccess(Object, *const PoolAccess, usize);
    hipMemPoolSetAttribute(Object, c_uint, *mut c_void);
} }

// Functions that only some devices support.
functions! { UnifiedFunctions {
    hipMallocManaged(*mut *mut c_void, usize, c_uint);
    hipMemPrefetchAsync(*const c_void, usize, c_int, Object);
} }

/// Range of major releases whose library names are tried.
const OLDEST: c_int = 5;
const NEWEST: c_int = 15;

/// The loaded library and its function tables.
pub(super) struct Library {
    pub(super) raw: libloading::Library,
    pub(super) functions: Functions,
    pub(super) graphs: Option<GraphFunctions>,
    pub(super) launches: Option<LaunchFunctions>,
    pub(super) unified: Option<UnifiedFunctions>,
    pub(super) pools: Option<PoolFunctions>,
    describe: unsafe extern "C" fn(c_uint) -> *const c_char,
    pub(super) properties: GetProperties,
    /// Byte offset of the architecture's name in the structure that `properties` fills.
    pub(super) architecture_at: usize,
    /// Major, minor and patch version.
    pub(super) version: [c_int; 3],
}

impl Library {
    /// Returns the library's description of an error code.
    pub(super) fn describe(&self, code: i32) -> String {
        // SAFETY: for any code, the function returns a constant text or null.
        let text = unsafe { (self.describe)(code as c_uint) };
        if text.is_null() {
            return format!("error {code}");
        }
        // SAFETY: the text is a null-terminated constant in the library, and the library is never closed.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

/// Opens the library on the first call.
///
/// # Errors
/// Returns the reason why the library cannot be used.
pub(super) fn load() -> Result<&'static Library, &'static str> {
    static LOADED: OnceLock<Result<Library, String>> = OnceLock::new();
    LOADED.get_or_init(open).as_ref().map_err(String::as_str)
}

/// Returns the library, which must have been loaded.
pub(super) fn loaded() -> &'static Library {
    load().expect("functions are called only after the library is loaded")
}

fn open() -> Result<Library, String> {
    // Future releases are included, because functions that a release lacks are detected below.
    let releases = (OLDEST..=NEWEST).rev().map(|release| format!("libamdhip64.so.{release}"));
    let names: Vec<_> = releases.chain(["libamdhip64.so".to_owned()]).collect();
    let raw = open_first(&names.iter().map(String::as_str).collect::<Vec<_>>())
        .ok_or("the runtime's library (libamdhip64.so of ROCm 5 or newer) is not installed")?;
    let lacks = |symbol| format!("the runtime's library has no {symbol}");
    // SAFETY: the types match ROCm 5, and older releases are refused below. In newer releases, a function whose type
    // changes gets a new name, as happened to the functions for device properties. The library stays open for the
    // lifetime of the process.
    let functions = unsafe { Functions::of(&raw) }.map_err(lacks)?;
    // SAFETY: the same argument as for `Functions`.
    let graphs = unsafe { GraphFunctions::of(&raw) }.ok();
    // SAFETY: the same argument as for `Functions`.
    let launches = unsafe { LaunchFunctions::of(&raw) }.ok();
    // SAFETY: the same argument as for `Functions`.
    let unified = unsafe { UnifiedFunctions::of(&raw) }.ok();
    // SAFETY: the same argument as for `Functions`.
    let pools = unsafe { PoolFunctions::of(&raw) }.ok();
    // SAFETY: the function's type is the same in every release, and the library stays open for the lifetime of the
    // process.
    let describe = *unsafe { raw.get("hipGetErrorString") }.map_err(|_| lacks("hipGetErrorString"))?;
    // ROCm 6 introduced a new properties structure with a new function name, and keeps the old function for programs
    // that were built with ROCm 5. SAFETY: each function name is paired with the architecture's offset in the
    // structure that this function fills, and the library stays open.
    let properties = unsafe {
        let of = |name: &str| raw.get::<GetProperties>(name).map(|function| *function);
        let newer = of("hipGetDevicePropertiesR0600").map(|function| (function, true));
        newer.or_else(|_| of("hipGetDeviceProperties").map(|function| (function, false)))
    };
    let (properties, is_r0600) = properties.map_err(|_| lacks("hipGetDeviceProperties"))?;
    let mut number = 0;
    // SAFETY: the result pointer is valid, and the call needs no device.
    let code = unsafe { (functions.hipRuntimeGetVersion)(&mut number) };
    if code != 0 {
        return Err(format!("the runtime does not start (error {code})"));
    }
    // The manual: HIP_VERSION_MAJOR * 10000000 + HIP_VERSION_MINOR * 100000 + HIP_VERSION_PATCH
    let version @ [major, minor, _] = [number / 10_000_000, number / 100_000 % 100, number % 100_000];
    if major < OLDEST {
        return Err(format!("the runtime is HIP {major}.{minor}, which is too old; try ROCm 5 or newer"));
    }
    let architecture_at = architecture_at(is_r0600);
    Ok(Library { raw, functions, graphs, launches, unified, pools, describe, properties, architecture_at, version })
}

pub(super) fn call(name: &'static str, code: c_uint) -> Result<(), ApiError> {
    ApiError::unless_success(name, code as i32)
}

//! HIP's functions, from the library that is there, and which devices it finds.

use super::compiler;
use super::types::{
    ARCHITECTURE_BYTES, Copy3d, CopyKind, DeviceAttribute, DevicePointer, GetProperties, MULTIPROCESSOR_COUNT, Object,
    PointerAttribute, Properties, architecture_at,
};
use crate::device::Accelerator;
use crate::device::interfaces::Discovered;
use crate::device::survey::{DeviceFacts, Interface};
use crate::error::DeviceError;
use crate::machine::UnitKind;
use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// Declares a table of functions that a library has, all returning a code. Codes are numbers, so that one that is newer
/// than this program is one too.
macro_rules! functions {
    ($table:ident { $($name:ident($($type:ty),*);)* }) => {
        #[allow(non_snake_case)] // the library's names
        pub(super) struct $table { $(pub(super) $name: unsafe extern "C" fn($($type),*) -> c_uint,)* }

        impl $table {
            /// The functions of a library, or the name of one that it does not have.
            ///
            /// # Safety
            /// The library's functions have these types, and it is never closed.
            pub(super) unsafe fn of(library: &Library) -> Result<Self, &'static str> {
                // SAFETY: the caller's promise.
                unsafe { Ok(Self { $($name: *library.get(stringify!($name)).map_err(|_| stringify!($name))?,)* }) }
            }
        }
    };
}
pub(super) use functions;

functions! { Functions {
    hipDeviceCanAccessPeer(*mut c_int, c_int, c_int);
    hipDeviceEnablePeerAccess(c_int, c_uint);
    hipDeviceGetAttribute(*mut c_int, DeviceAttribute, c_int);
    hipDeviceGetName(*mut c_char, c_int, c_int);
    hipDeviceGetPCIBusId(*mut c_char, c_int, c_int);
    hipDeviceTotalMem(*mut usize, c_int);
    hipEventCreateWithFlags(*mut Object, c_uint);
    hipEventDestroy(Object);
    hipEventQuery(Object);
    hipEventRecord(Object, Object);
    hipEventSynchronize(Object);
    hipFree(*mut c_void);
    hipGetDeviceCount(*mut c_int);
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
    hipStreamWaitEvent(Object, Object, c_uint);
} }

/// The library, with its functions.
pub(super) struct Hip {
    pub(super) library: Library,
    pub(super) functions: Functions,
    describe: unsafe extern "C" fn(c_uint) -> *const c_char,
    properties: GetProperties,
    /// Where the architecture is in what that fills.
    architecture_at: usize,
    /// Major, minor, patch.
    pub(super) version: [c_int; 3],
}

impl Hip {
    /// A code, in words.
    pub(super) fn describe(&self, code: i32) -> String {
        // SAFETY: any code gives a constant text, or null.
        let text = unsafe { (self.describe)(code as c_uint) };
        if text.is_null() {
            return format!("error {code}");
        }
        // SAFETY: as above.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

/// A device that is there, not yet opened.
#[derive(Debug)]
pub(in crate::device) struct Found {
    pub(super) number: c_int,
    /// Its architecture is as hipRTC calls it: `gfx90a:sramecc+:xnack-`.
    pub(super) facts: DeviceFacts,
}

impl Discovered for Found {
    fn name(&self) -> String {
        self.facts.name.clone()
    }

    fn open(&self) -> Result<Box<dyn Accelerator>, DeviceError> {
        super::Hip::open(self)
    }
}

/// All devices. They are looked for once in a process.
///
/// # Errors
/// Why there is none.
pub(in crate::device) fn find() -> Result<&'static [Found], &'static str> {
    static FOUND: OnceLock<Result<Vec<Found>, String>> = OnceLock::new();
    FOUND.get_or_init(look).as_deref().map_err(String::as_str)
}

/// What there is of HIP.
pub(in crate::device) fn survey() -> Interface {
    let found = find();
    let version = load().ok().map(|hip| {
        let compiler = compiler::version().map_or_else(str::to_owned, ToString::to_string);
        let [major, minor, patch] = hip.version;
        format!("HIP {major}.{minor}.{patch}, {compiler}")
    });
    Interface {
        name: "HIP",
        devices: found.unwrap_or_default().iter().map(|found| found.facts.clone()).collect(),
        absent: found.err().map(str::to_owned),
        version,
    }
}

/// Opens the library, once.
///
/// # Errors
/// Why it can't be used.
pub(super) fn load() -> Result<&'static Hip, &'static str> {
    static LOADED: OnceLock<Result<Hip, String>> = OnceLock::new();
    LOADED.get_or_init(open).as_ref().map_err(String::as_str)
}

/// The first of these libraries that is installed.
pub(super) fn open_first(names: &[&str]) -> Option<Library> {
    // SAFETY: the library's own initialization is AMD's matter.
    names.iter().find_map(|name| unsafe { Library::new(*name) }.ok())
}

fn open() -> Result<Hip, String> {
    let names = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];
    let library =
        open_first(&names).ok_or("the runtime's library (libamdhip64.so of ROCm 5 or newer) is not installed")?;
    let lacks = |symbol| format!("the runtime's library has no {symbol}");
    // SAFETY: the types are those of ROCm 5 (an older one is refused below), and functions whose types change get another
    // name, as those for properties did; the library stays open as long as the process runs.
    let functions = unsafe { Functions::of(&library) }.map_err(lacks)?;
    // SAFETY: as above.
    let describe = *unsafe { library.get("hipGetErrorString") }.map_err(|_| lacks("hipGetErrorString"))?;
    // ROCm 6 put another structure under a new name, and keeps the old name for programs that were built with ROCm 5.
    // SAFETY: as above; each name goes with the place of the architecture in its structure.
    let properties = unsafe {
        let of = |name: &str| library.get::<GetProperties>(name).map(|function| *function);
        let newer = of("hipGetDevicePropertiesR0600").map(|function| (function, true));
        newer.or_else(|_| of("hipGetDeviceProperties").map(|function| (function, false)))
    };
    let (properties, is_r0600) = properties.map_err(|_| lacks("hipGetDeviceProperties"))?;
    let mut number = 0;
    // SAFETY: the result has a place. This needs no device.
    let code = unsafe { (functions.hipRuntimeGetVersion)(&mut number) };
    if code != 0 {
        return Err(format!("the runtime does not start (error {code})"));
    }
    // The manual: HIP_VERSION_MAJOR * 10000000 + HIP_VERSION_MINOR * 100000 + HIP_VERSION_PATCH
    let version @ [major, minor, _] = [number / 10_000_000, number / 100_000 % 100, number % 100_000];
    if major < 5 {
        return Err(format!("the runtime is HIP {major}.{minor}, which is too old; try ROCm 5 or newer"));
    }
    Ok(Hip { library, functions, describe, properties, architecture_at: architecture_at(is_r0600), version })
}

fn look() -> Result<Vec<Found>, String> {
    let hip = load()?;
    let none = || "the runtime is installed and finds no device".to_owned();
    let check = |code: c_uint| match code {
        0 => Ok(()),
        100 | 101 => Err(none()), // hipErrorNoDevice, hipErrorInvalidDevice: which one depends on the version
        code => Err(format!("the runtime answers: {}", hip.describe(code as i32))),
    };
    let mut count = 0;
    // SAFETY: the result has a place.
    unsafe {
        check((hip.functions.hipInit)(0))?;
        check((hip.functions.hipGetDeviceCount)(&mut count))?;
    }
    let found = (0..count).map(|number| look_at(hip, number, count)).collect::<Result<Vec<_>, _>>()?;
    if found.is_empty() { Err(none()) } else { Ok(found) }
}

fn look_at(hip: &Hip, number: c_int, count: c_int) -> Result<Found, String> {
    let check = |code: c_uint| match code {
        0 => Ok(()),
        code => Err(format!("the runtime answers: {}", hip.describe(code as i32))),
    };
    let (mut name, mut memory_bytes, mut processors) = ([0; 256], 0, 0);
    let mut properties = Properties::ZERO;
    // SAFETY: numbers below the count are devices; the results have places, the name of the size that is given.
    unsafe {
        check((hip.functions.hipDeviceGetName)(name.as_mut_ptr(), name.len() as c_int, number))?;
        check((hip.functions.hipDeviceTotalMem)(&mut memory_bytes, number))?;
        check((hip.functions.hipDeviceGetAttribute)(&mut processors, MULTIPROCESSOR_COUNT, number))?;
        check((hip.properties)(&mut properties, number))?;
    }
    let architecture = text(&properties.0[hip.architecture_at..][..ARCHITECTURE_BYTES]);
    if !architecture.starts_with("gfx") {
        return Err(format!("device {number} says that its architecture is `{architecture}`, which is none of AMD's"));
    }
    let reaches = |peer: c_int| {
        let mut reaches = 0;
        // SAFETY: numbers below the count are devices; the result has a place.
        let code = unsafe { (hip.functions.hipDeviceCanAccessPeer)(&mut reaches, number, peer) };
        peer == number || (code == 0 && reaches != 0)
    };
    let mut pci = [0; 32];
    // SAFETY: the device exists; the text has a place of the size that is given.
    let code = unsafe { (hip.functions.hipDeviceGetPCIBusId)(pci.as_mut_ptr(), pci.len() as c_int, number) };
    let [major, minor, patch] = hip.version;
    let facts = DeviceFacts {
        name: text(&name.map(|c: c_char| c as u8)),
        units: vec![UnitKind::Hip, UnitKind::Gpu],
        memory_bytes: memory_bytes as u64,
        driver: format!("HIP {major}.{minor}.{patch}"),
        architecture,
        processors: processors as u32,
        pci: (code == 0).then(|| text(&pci.map(|c: c_char| c as u8)).to_lowercase()),
        peers: (0..count).map(reaches).collect(),
    };
    Ok(Found { number, facts })
}

/// A text that ends with its first zero.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

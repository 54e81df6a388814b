//! The program's side of NVTX 3: tables of function pointers, which the profiler's library fills in.
//!
//! NVTX defines the tables and the functions' indices in its public headers. All tables have room for more functions
//! than any of NVTX's modules has, so a profiler can install all of its functions; only two of them are called.

use super::Functions;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::transmute;
use std::ptr::{self, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The variable that names the profiler's library.
const PATH: &str = "NVTX_INJECTION64_PATH";

/// The version of NVTX whose tables these are.
const VERSION: u32 = 3;
/// The number of modules, counting an invalid one that comes first.
const MODULES: usize = 7;
/// The number of functions in each table.
const MOST_FUNCTIONS: usize = 32;
/// The module with the functions for ranges, and the indices of two of its functions.
const CORE: usize = 1;
const RANGE_PUSH: usize = 9;
const RANGE_POP: usize = 11;
/// The IDs of the two tables that a profiler may request.
const CALLBACKS_TABLE: u32 = 1;
const VERSION_TABLE: u32 = 3;

/// A function that a profiler has installed, or null.
type Slot = AtomicPtr<c_void>;

static SLOTS: [[Slot; MOST_FUNCTIONS]; MODULES] =
    [const { [const { AtomicPtr::new(null_mut()) }; MOST_FUNCTIONS] }; MODULES];

#[repr(C)]
struct Callbacks {
    bytes: usize,
    function_table: unsafe extern "C" fn(c_int, *mut *const &'static Slot, *mut c_uint) -> c_int,
}

static CALLBACKS: Callbacks = Callbacks { bytes: size_of::<Callbacks>(), function_table };

#[repr(C)]
struct Version {
    bytes: usize,
    version: u32,
    reserved: u32,
    set_profiler_version: extern "C" fn(u32),
}

static VERSION_INFO: Version =
    Version { bytes: size_of::<Version>(), version: VERSION, reserved: 0, set_profiler_version };

extern "C" fn set_profiler_version(_: u32) {}

extern "C" fn export_table(id: u32) -> *const c_void {
    match id {
        CALLBACKS_TABLE => ptr::from_ref(&CALLBACKS).cast(),
        VERSION_TABLE => ptr::from_ref(&VERSION_INFO).cast(),
        _ => ptr::null(),
    }
}

/// Stores the address and the length of a module's table. Returns 0 if there is no such module.
///
/// # Safety
/// Each pointer is null or valid for a write.
unsafe extern "C" fn function_table(module: c_int, table: *mut *const &'static Slot, len: *mut c_uint) -> c_int {
    static TABLES: OnceLock<[[&Slot; MOST_FUNCTIONS]; MODULES]> = OnceLock::new();
    let tables = TABLES.get_or_init(|| SLOTS.each_ref().map(|slots| slots.each_ref()));
    let known = usize::try_from(module).ok().filter(|module| *module > 0).and_then(|module| tables.get(module));
    let Some(known) = known else { return 0 };
    // SAFETY: the caller promises that the pointers are null or valid.
    unsafe {
        if !table.is_null() {
            table.write(known.as_ptr());
        }
        if !len.is_null() {
            len.write(MOST_FUNCTIONS as c_uint);
        }
    }
    1
}

/// Loads the profiler's library, if the environment names one, and returns the functions that it has installed.
pub(super) fn functions() -> Option<Functions> {
    type Initialize = unsafe extern "C" fn(extern "C" fn(u32) -> *const c_void) -> c_int;
    let path = std::env::var_os(PATH).filter(|path| !path.is_empty())?;
    // SAFETY: opening a library runs its initialisation code. The user has named it as a profiler.
    let library = unsafe { libloading::Library::new(&path) };
    let library =
        library.inspect_err(|error| log!(warn, "cannot open the profiler that {PATH} names: {error}")).ok()?;
    // SAFETY: NVTX declares the function with this type.
    let initialize: Initialize = unsafe { *library.get("InitializeInjectionNvtx2").ok()? };
    std::mem::forget(library); // never closed, because its functions stay installed
    // SAFETY: the function is called once, before any function of the tables, as NVTX requires.
    if unsafe { initialize(export_table) } == 0 {
        return None;
    }
    let installed = |function: usize| Some(SLOTS[CORE][function].load(Ordering::Acquire)).filter(|f| !f.is_null());
    let (push, pop) = (installed(RANGE_PUSH)?, installed(RANGE_POP)?);
    // SAFETY: the profiler has installed functions of the types that NVTX declares for these two indices.
    unsafe {
        Some(Functions {
            push: transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> c_int>(push),
            pop: transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(pop),
        })
    }
}

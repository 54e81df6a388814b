//! hipRTC, the compiler of HIP.
//!
//! hipRTC terminates the process if it is given an architecture that it does not know. So it is only given
//! architectures that its version is known to support, or that a device in this machine has.
//!
//! hipRTC does not lock LLVM's global state, so it terminates the process if two threads compile at once (seen with
//! HIP 5.2: "Option 'h' registered more than once", or a segmentation fault). Therefore only one program is compiled
//! at a time.

use super::library;
use crate::device::functions::{functions, open_first};
use crate::device::gpu::{Compiler, RawUnit, Recipe};
use libloading::Library;
use parking_lot::{Mutex, MutexGuard};
use std::ffi::{c_char, c_int, c_void};
use std::fmt;
use std::path::PathBuf;
use std::ptr;
use std::sync::OnceLock;

functions! { Functions {
    hiprtcCompileProgram(*mut c_void, c_int, *const *const c_char);
    hiprtcCreateProgram(*mut *mut c_void, *const c_char, *const c_char, c_int, *const *const c_char,
        *const *const c_char);
    hiprtcDestroyProgram(*mut *mut c_void);
    hiprtcGetCode(*mut c_void, *mut c_char);
    hiprtcGetCodeSize(*mut c_void, *mut usize);
    hiprtcGetProgramLog(*mut c_void, *mut c_char);
    hiprtcGetProgramLogSize(*mut c_void, *mut usize);
    hiprtcVersion(*mut c_int, *mut c_int);
} }

/// Architectures, each with the first ROCm version whose hipRTC supports it.
const KNOWN: [(&str, [c_int; 2]); 10] = [
    ("gfx900", [5, 0]),
    ("gfx906", [5, 0]),
    ("gfx908", [5, 0]),
    ("gfx90a", [5, 0]),
    ("gfx1030", [5, 0]),
    ("gfx1100", [5, 5]),
    ("gfx1101", [5, 5]),
    ("gfx942", [6, 0]),
    ("gfx1200", [6, 4]),
    ("gfx1201", [6, 4]),
];

/// The loaded hipRTC library.
pub(in crate::device) struct HipRtc {
    functions: Functions,
    /// The version of HIP. It is used instead of hipRTC's own version because that does not change with every
    /// release.
    version: [c_int; 3],
    headers: Vec<PathBuf>,
    /// Held by the thread that is compiling.
    alone: Mutex<()>,
    /// Keeps the functions loaded; `None` if they are in HIP's own library.
    _library: Option<Library>,
}

impl fmt::Display for HipRtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.version;
        write!(f, "{} of HIP {major}.{minor}.{patch}", Self::NAME)
    }
}

/// Loads hipRTC from HIP's library, or from its separate library in newer releases.
fn look() -> Result<HipRtc, String> {
    let hip = library::load()?;
    // SAFETY: the types match ROCm 5 to 7, and the libraries stay open for the lifetime of the process.
    let (functions, library) = match unsafe { Functions::of(&hip.raw) } {
        Ok(functions) => (functions, None),
        Err(_) => {
            let names = [format!("libhiprtc.so.{}", hip.version[0]), "libhiprtc.so".to_owned()];
            let library = open_first(&names.each_ref().map(String::as_str));
            let library = library.ok_or("its compiler hipRTC (libhiprtc.so) is not installed")?;
            // SAFETY: the types match ROCm 5 to 7, and the library stays open for the lifetime of the process.
            let functions = unsafe { Functions::of(&library) };
            (functions.map_err(|symbol| format!("its compiler hipRTC has no {symbol}"))?, Some(library))
        }
    };
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the result pointers are valid.
    match unsafe { (functions.hiprtcVersion)(&mut major, &mut minor) } {
        0 => Ok(HipRtc {
            functions,
            version: hip.version,
            headers: headers(),
            alone: Mutex::default(),
            _library: library,
        }),
        code => Err(format!("its compiler hipRTC does not start (error {code})")),
    }
}

/// Returns the folders with HIP's headers, in addition to those that hipRTC contains.
fn headers() -> Vec<PathBuf> {
    let named = ["ROCM_PATH", "HIP_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let folders = named.chain([PathBuf::from("/opt/rocm")]).map(|folder| folder.join("include"));
    folders.filter(|folder| folder.join("hip").is_dir()).collect()
}

/// Returns whether this version of hipRTC supports an architecture.
fn knows(architecture: &str, [major, minor, _]: [c_int; 3]) -> bool {
    KNOWN.iter().any(|(name, since)| *name == architecture && *since <= [major, minor])
}

impl Compiler for HipRtc {
    const NAME: &'static str = "hipRTC";

    fn load() -> Result<&'static Self, &'static str> {
        static LOADED: OnceLock<Result<HipRtc, String>> = OnceLock::new();
        LOADED.get_or_init(look).as_ref().map_err(String::as_str)
    }

    fn options(&self, architecture: &str, is_there: bool) -> Result<Vec<Vec<String>>, String> {
        if !is_there && !knows(architecture, self.version) {
            return Err(format!("{self} is not known to compile for it"));
        }
        // For profilers: lines change no instructions.
        let lines = "-gline-tables-only".to_owned();
        Ok(vec![vec![format!("--gpu-architecture={architecture}"), "-O3".to_owned(), lines]])
    }

    fn headers(&self) -> &[PathBuf] {
        &self.headers
    }

    fn alone(&self) -> Option<MutexGuard<'_, ()>> {
        Some(self.alone.lock())
    }

    unsafe fn create(&self, unit: &mut RawUnit, source: *const c_char, name: *const c_char) -> c_int {
        // SAFETY: the caller passes null-terminated texts and a valid pointer for the unit, and no headers are
        // passed.
        unsafe { (self.functions.hiprtcCreateProgram)(unit, source, name, 0, ptr::null(), ptr::null()) as c_int }
    }

    unsafe fn destroy(&self, unit: &mut RawUnit) -> c_int {
        // SAFETY: the unit was created, and its owner destroys it only once.
        unsafe { (self.functions.hiprtcDestroyProgram)(unit) as c_int }
    }

    unsafe fn compile(&self, unit: RawUnit, count: c_int, options: *const *const c_char) -> c_int {
        // SAFETY: the unit was created, and the caller passes `count` null-terminated options.
        unsafe { (self.functions.hiprtcCompileProgram)(unit, count, options) as c_int }
    }

    unsafe fn log_bytes(&self, unit: RawUnit, bytes: &mut usize) -> c_int {
        // SAFETY: the unit was created, and the result pointer is valid.
        unsafe { (self.functions.hiprtcGetProgramLogSize)(unit, bytes) as c_int }
    }

    unsafe fn log(&self, unit: RawUnit, place: *mut c_char) -> c_int {
        // SAFETY: the unit was created, and the caller's buffer has the size returned by `log_bytes`.
        unsafe { (self.functions.hiprtcGetProgramLog)(unit, place) as c_int }
    }

    unsafe fn code_bytes(&self, unit: RawUnit, _: &Recipe, bytes: &mut usize) -> c_int {
        // SAFETY: the unit was compiled, and the result pointer is valid.
        unsafe { (self.functions.hiprtcGetCodeSize)(unit, bytes) as c_int }
    }

    unsafe fn code(&self, unit: RawUnit, _: &Recipe, place: *mut c_char) -> c_int {
        // SAFETY: the unit was compiled, and the caller's buffer has the size returned by `code_bytes`.
        unsafe { (self.functions.hiprtcGetCode)(unit, place) as c_int }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_known_by_version() {
        assert!(knows("gfx90a", [5, 2, 21153]) && knows("gfx942", [6, 2, 0]) && knows("gfx906", [6, 0, 0]));
        assert!(!knows("gfx942", [5, 7, 0]) && !knows("gfx1100", [5, 2, 0]) && !knows("gfx90", [6, 0, 0]));
    }
}

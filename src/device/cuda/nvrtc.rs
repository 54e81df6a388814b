//! NVRTC, CUDA's run-time compiler. It generates machine code for an architecture, or PTX, which the driver compiles.
//!
//! The driver accepts code from any NVRTC of its major release, but PTX only from an NVRTC that is not newer than
//! itself. So PTX is used only for architectures newer than any that NVRTC knows, and for drivers that refuse the
//! machine code.
//!
//! The library is the one that the loader finds, or else one of an [installation](Installed). cudarc's own functions
//! for NVRTC are not used: they look for bare file names only, and their codes are a Rust enumeration.

use super::installed::Installed;
use crate::device::functions::{functions, open_first};
use crate::device::gpu::{Compiler, RawUnit, Recipe};
use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;

functions! { Functions {
    nvrtcCompileProgram(RawUnit, c_int, *const *const c_char);
    nvrtcCreateProgram(*mut RawUnit, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char);
    nvrtcDestroyProgram(*mut RawUnit);
    nvrtcGetCUBIN(RawUnit, *mut c_char);
    nvrtcGetCUBINSize(RawUnit, *mut usize);
    nvrtcGetNumSupportedArchs(*mut c_int);
    nvrtcGetPTX(RawUnit, *mut c_char);
    nvrtcGetPTXSize(RawUnit, *mut usize);
    nvrtcGetProgramLog(RawUnit, *mut c_char);
    nvrtcGetProgramLogSize(RawUnit, *mut usize);
    nvrtcGetSupportedArchs(*mut c_int);
    nvrtcVersion(*mut c_int, *mut c_int);
} }

/// Library names of the releases whose functions have these types.
const NAMES: [&str; 5] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "nvrtc64_130_0.dll", "nvrtc64_120_0.dll"];

/// The loaded library, with its version, the architectures that it supports, and the folders with CUDA's headers.
pub(in crate::device) struct Nvrtc {
    functions: Functions,
    major: c_int,
    minor: c_int,
    architectures: Vec<u32>,
    headers: Vec<PathBuf>,
    /// Keeps the functions loaded; never closed.
    _library: libloading::Library,
}

impl fmt::Display for Nvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}.{}", Self::NAME, self.major, self.minor)
    }
}

/// Opens the library that the loader finds, or else one of an installation.
fn open(installed: &Installed) -> Result<libloading::Library, String> {
    if let Some(library) = open_first(&NAMES) {
        return Ok(library);
    }
    let Some(path) = installed.library(&NAMES) else {
        return Err(format!(
            "its compiler NVRTC (libnvrtc.so of CUDA 12 or 13) is not found by the loader, nor in {}; try another \
             LD_LIBRARY_PATH or CUDA_HOME, or Python's package nvidia-cuda-nvrtc",
            installed.looked_in()
        ));
    };
    let opened = open_with_builtins(&path);
    opened.map_err(|error| format!("its compiler NVRTC ({}) cannot be opened: {error}", path.display()))
}

/// Opens the library at this path. It opens its builtins by their name alone, and does not know its own folder if it is
/// from a Python package. So the builtins are opened first: the loader then finds them by that name.
fn open_with_builtins(path: &Path) -> Result<libloading::Library, libloading::Error> {
    let beside = path.parent().and_then(|folder| folder.read_dir().ok()).into_iter().flatten().flatten();
    let is_builtins = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libnvrtc-builtins.so."))
    };
    for builtins in beside.map(|file| file.path()).filter(is_builtins) {
        // SAFETY: opening a library runs its initialisation code, whose soundness is NVIDIA's responsibility.
        match unsafe { libloading::Library::new(&builtins) } {
            Ok(builtins) => std::mem::forget(builtins), // stays open, as NVRTC does
            Err(error) => log!(debug, "{} cannot be opened: {error}", builtins.display()),
        }
    }
    // SAFETY: the same argument as above.
    unsafe { libloading::Library::new(path) }
}

/// Returns the path from which the library with this function was loaded.
#[cfg(unix)]
fn path_of(functions: &Functions) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let mut found = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: the result pointer is valid, and any address may be passed.
    let is_known = unsafe { libc::dladdr(functions.nvrtcVersion as *const _, &mut found) } != 0;
    if !is_known || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader returned a null-terminated text that lives as long as the library.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    std::fs::canonicalize(std::ffi::OsStr::from_bytes(name.to_bytes())).ok()
}

#[cfg(not(unix))]
fn path_of(_: &Functions) -> Option<PathBuf> {
    None
}

fn look() -> Result<Nvrtc, String> {
    let installed = Installed::find();
    let library = open(&installed)?;
    // SAFETY: the types match CUDA 12 and 13, and the library stays open for the lifetime of the process.
    let functions = unsafe { Functions::of(&library) };
    let functions =
        functions.map_err(|symbol| format!("its compiler NVRTC is too old: the library has no {symbol}"))?;
    let started =
        |code| if code == 0 { Ok(()) } else { Err(format!("its compiler NVRTC does not start (error {code})")) };
    let (mut major, mut minor, mut count) = (0, 0, 0);
    // SAFETY: the result pointers are valid.
    started(unsafe { (functions.nvrtcVersion)(&mut major, &mut minor) })?;
    // SAFETY: the result pointer is valid.
    started(unsafe { (functions.nvrtcGetNumSupportedArchs)(&mut count) })?;
    let mut architectures = vec![0; count as usize];
    // SAFETY: the vector has room for all architectures, whose number was returned by the previous call.
    started(unsafe { (functions.nvrtcGetSupportedArchs)(architectures.as_mut_ptr()) })?;
    let architectures = architectures.into_iter().map(|number| number as u32).collect();
    let headers = installed.headers(path_of(&functions).as_deref());
    Ok(Nvrtc { functions, major, minor, architectures, headers, _library: library })
}

/// The kind of output requested from NVRTC.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    /// Machine code for this architecture.
    Code(u32),
    /// PTX for this architecture, which the driver compiles for a newer one.
    Ptx(u32),
}

/// Returns the targets whose output runs on an architecture, the best first: machine code for the architecture itself
/// or for an older one of the same generation, then PTX.
fn targets(architecture: u32, known: &[u32]) -> Vec<Target> {
    let newest = known.iter().copied().filter(|known| *known <= architecture).max();
    let code = newest.filter(|newest| newest / 10 == architecture / 10).map(Target::Code);
    code.into_iter().chain(newest.map(Target::Ptx)).collect()
}

fn makes_ptx(recipe: &Recipe) -> bool {
    recipe.options.iter().any(|option| option.contains("=compute_"))
}

impl Compiler for Nvrtc {
    const NAME: &'static str = "NVRTC";

    fn load() -> Result<&'static Self, &'static str> {
        static LOADED: OnceLock<Result<Nvrtc, String>> = OnceLock::new();
        LOADED.get_or_init(look).as_ref().map_err(String::as_str)
    }

    fn options(&self, architecture: &str, _: bool) -> Result<Vec<Vec<String>>, String> {
        let number = architecture.strip_prefix("sm_").and_then(|number| number.parse().ok());
        let number = number.ok_or("CUDA's architectures are sm_75, sm_90 and the like")?;
        let targets = targets(number, &self.architectures);
        if targets.is_empty() {
            let oldest = self.architectures.iter().min().copied().unwrap_or_default();
            return Err(format!("{self} compiles for sm_{oldest} and newer; try an older NVRTC for sm_{number}"));
        }
        let option = |target| match target {
            Target::Code(number) => format!("--gpu-architecture=sm_{number}"),
            Target::Ptx(number) => format!("--gpu-architecture=compute_{number}"),
        };
        // For profilers and compute-sanitizer: lines change neither the instructions nor the registers.
        let lines = || "--generate-line-info".to_owned();
        Ok(targets.into_iter().map(|target| vec![option(target), lines()]).collect())
    }

    fn headers(&self) -> &[PathBuf] {
        &self.headers
    }

    unsafe fn create(&self, unit: &mut RawUnit, source: *const c_char, name: *const c_char) -> c_int {
        let none = ptr::null();
        // SAFETY: the caller passes null-terminated texts and a valid pointer for the unit, and no headers are
        // passed.
        unsafe { (self.functions.nvrtcCreateProgram)(unit, source, name, 0, none, none) as c_int }
    }

    unsafe fn destroy(&self, unit: &mut RawUnit) -> c_int {
        // SAFETY: the unit was created, and its owner destroys it only once.
        unsafe { (self.functions.nvrtcDestroyProgram)(unit) as c_int }
    }

    unsafe fn compile(&self, unit: RawUnit, count: c_int, options: *const *const c_char) -> c_int {
        // SAFETY: the unit was created, and the caller passes `count` null-terminated options.
        unsafe { (self.functions.nvrtcCompileProgram)(unit, count, options) as c_int }
    }

    unsafe fn log_bytes(&self, unit: RawUnit, bytes: &mut usize) -> c_int {
        // SAFETY: the unit was created, and the result pointer is valid.
        unsafe { (self.functions.nvrtcGetProgramLogSize)(unit, bytes) as c_int }
    }

    unsafe fn log(&self, unit: RawUnit, place: *mut c_char) -> c_int {
        // SAFETY: the unit was created, and the caller's buffer has the size returned by `log_bytes`.
        unsafe { (self.functions.nvrtcGetProgramLog)(unit, place) as c_int }
    }

    unsafe fn code_bytes(&self, unit: RawUnit, recipe: &Recipe, bytes: &mut usize) -> c_int {
        // SAFETY: the unit was compiled according to the recipe, and the result pointer is valid.
        unsafe {
            match makes_ptx(recipe) {
                true => (self.functions.nvrtcGetPTXSize)(unit, bytes) as c_int,
                false => (self.functions.nvrtcGetCUBINSize)(unit, bytes) as c_int,
            }
        }
    }

    unsafe fn code(&self, unit: RawUnit, recipe: &Recipe, place: *mut c_char) -> c_int {
        // SAFETY: the unit was compiled according to the recipe, and the caller's buffer has the size returned by
        // `code_bytes`.
        unsafe {
            match makes_ptx(recipe) {
                true => (self.functions.nvrtcGetPTX)(unit, place) as c_int,
                false => (self.functions.nvrtcGetCUBIN)(unit, place) as c_int,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_run_on_the_architecture() {
        let known = [75, 80, 86, 90, 100, 120];
        assert_eq!(targets(90, &known), [Target::Code(90), Target::Ptx(90)]);
        assert_eq!(targets(89, &known), [Target::Code(86), Target::Ptx(86)]);
        assert_eq!(targets(130, &known), [Target::Ptx(120)]);
        assert_eq!(targets(70, &known), []);
        assert_eq!(targets(90, &[]), []);
    }
}

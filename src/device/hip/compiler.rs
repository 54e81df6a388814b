//! Compiles programs by hipRTC.
//!
//! It ends the process when it is asked for an architecture that it does not know. So it is only asked for those that its
//! version is known to know, or that a device of this machine has.

use super::library::{self, functions};
use crate::device::gpu::Recipe;
use crate::error::DeviceError;
use crate::kernel::Program;
use libloading::Library;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::fmt;
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

/// Architectures, and the version of ROCm from which on hipRTC knows them.
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

/// hipRTC, with its version.
pub(super) struct Compiler {
    functions: Functions,
    /// HIP's, which changes with every release; hipRTC's own does not.
    version: [c_int; 3],
    /// Where the functions come from, if not from HIP's own library.
    _library: Option<Library>,
}

impl fmt::Display for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.version;
        write!(f, "hipRTC of HIP {major}.{minor}.{patch}")
    }
}

/// The compiler, opened once.
///
/// # Errors
/// Why it can't be used.
pub(super) fn version() -> Result<&'static Compiler, &'static str> {
    static COMPILER: OnceLock<Result<Compiler, String>> = OnceLock::new();
    COMPILER.get_or_init(look).as_ref().map_err(String::as_str)
}

/// It is in HIP's library; newer releases have one of its own besides.
fn look() -> Result<Compiler, String> {
    let hip = library::load()?;
    // SAFETY: the types are those of ROCm 5 to 7; the libraries stay open as long as the process runs.
    let (functions, library) = match unsafe { Functions::of(&hip.library) } {
        Ok(functions) => (functions, None),
        Err(_) => {
            let names = [format!("libhiprtc.so.{}", hip.version[0]), "libhiprtc.so".to_owned()];
            let library = library::open_first(&names.each_ref().map(String::as_str));
            let library = library.ok_or("its compiler hipRTC (libhiprtc.so) is not installed")?;
            // SAFETY: as above.
            let functions = unsafe { Functions::of(&library) };
            (functions.map_err(|symbol| format!("its compiler hipRTC has no {symbol}"))?, Some(library))
        }
    };
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the results have places.
    match unsafe { (functions.hiprtcVersion)(&mut major, &mut minor) } {
        0 => Ok(Compiler { functions, version: hip.version, _library: library }),
        code => Err(format!("its compiler hipRTC does not start (error {code})")),
    }
}

/// Whether hipRTC of this version knows an architecture.
fn knows(architecture: &str, [major, minor, _]: [c_int; 3]) -> bool {
    KNOWN.iter().any(|(name, since)| *name == architecture && *since <= [major, minor])
}

/// How programs are compiled for an architecture that hipRTC knows. Errors call what can't be compiled `program`, and the
/// target `device`.
pub(super) fn recipe(architecture: &str, program: &str, device: &str) -> Result<Recipe, DeviceError> {
    let compiler = version().map_err(|why| DeviceError::NoCompiler {
        program: program.to_owned(),
        device: device.to_owned(),
        why: why.to_owned(),
    })?;
    let options = [format!("--gpu-architecture={architecture}"), "-DTHALWEG_FMA".to_owned(), "-O3".to_owned()];
    Ok(Recipe { compiler: compiler.to_string(), options: options.into() })
}

/// Compiles a program for an architecture such as `gfx90a`. No device is needed.
pub(in crate::device) fn compile_for(program: &Program, architecture: &str) -> Result<Vec<u8>, DeviceError> {
    let recipe = recipe(architecture, program.name(), architecture)?;
    match version() {
        Ok(compiler) if !knows(architecture, compiler.version) => Err(DeviceError::NoCompiler {
            program: program.name().to_owned(),
            device: architecture.to_owned(),
            why: format!("{compiler} is not known to compile for it"),
        }),
        _ => compile(program, &recipe, architecture),
    }
}

/// Compiles a program; `device` is what errors call the target.
pub(super) fn compile(program: &Program, recipe: &Recipe, device: &str) -> Result<Vec<u8>, DeviceError> {
    let failed =
        |log: String| DeviceError::Compilation { program: program.name().to_owned(), device: device.to_owned(), log };
    let functions = &version().map_err(|why| failed(why.to_owned()))?.functions;
    let text = |text: &str| CString::new(text).map_err(|_| failed("the text has a zero byte".to_owned()));
    let (source, name) = (text(&program.source())?, text(program.name())?);
    let options = recipe.options.iter().map(|option| text(option)).collect::<Result<Vec<_>, _>>()?;
    let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    let mut unit = Unit { functions, raw: ptr::null_mut() };
    // SAFETY: texts end with zero, the result has a place, and there are no headers.
    let created = unsafe {
        let (source, name) = (source.as_ptr(), name.as_ptr());
        (functions.hiprtcCreateProgram)(&mut unit.raw, source, name, 0, ptr::null(), ptr::null())
    };
    check(created).map_err(failed)?;
    // SAFETY: the unit was created; options are alive.
    let compiled = unsafe { (functions.hiprtcCompileProgram)(unit.raw, options.len() as c_int, options.as_ptr()) };
    check(compiled).map_err(|error| failed(unit.log().unwrap_or(error)))?;
    unit.code().map_err(failed)
}

fn check(code: c_uint) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("hipRTC error {code}")) }
}

/// A program in hipRTC.
struct Unit<'a> {
    functions: &'a Functions,
    raw: *mut c_void,
}

impl Unit<'_> {
    /// What the compiler said, if it said anything.
    fn log(&self) -> Option<String> {
        let mut len = 0;
        // SAFETY: the unit was created; results have places, the log of the length that was given.
        let log = unsafe {
            check((self.functions.hiprtcGetProgramLogSize)(self.raw, &mut len)).ok()?;
            let mut log = vec![0u8; len];
            check((self.functions.hiprtcGetProgramLog)(self.raw, log.as_mut_ptr().cast())).ok()?;
            log
        };
        let log = String::from_utf8_lossy(&log).trim_matches(|c: char| c == '\0' || c.is_whitespace()).to_owned();
        (!log.is_empty()).then_some(log)
    }

    fn code(&self) -> Result<Vec<u8>, String> {
        let mut len = 0;
        // SAFETY: the unit is compiled; results have places, the code of the length that was given.
        unsafe {
            check((self.functions.hiprtcGetCodeSize)(self.raw, &mut len))?;
            let mut code = vec![0u8; len];
            check((self.functions.hiprtcGetCode)(self.raw, code.as_mut_ptr().cast()))?;
            Ok(code)
        }
    }
}

impl Drop for Unit<'_> {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: created, and destroyed once.
            if let Err(error) = check(unsafe { (self.functions.hiprtcDestroyProgram)(&mut self.raw) }) {
                tracing::debug!("hiprtcDestroyProgram: {error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_architectures_are_not_asked_for() {
        assert!(knows("gfx90a", [5, 2, 21153]) && knows("gfx942", [6, 2, 0]) && knows("gfx906", [6, 0, 0]));
        assert!(!knows("gfx942", [5, 7, 0]) && !knows("gfx1100", [5, 2, 0]) && !knows("gfx90", [6, 0, 0]));
    }
}

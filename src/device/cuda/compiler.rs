//! Compiles programs by NVRTC: to the code of an architecture that it knows, else to PTX for the newest one below.

use crate::device::gpu::Recipe;
use crate::error::DeviceError;
use crate::kernel::Program;
use cudarc::nvrtc::result::{self, NvrtcError};
use cudarc::nvrtc::sys;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::sync::OnceLock;

/// All that is called of the library. `cudarc` panics if one is missing, so they are looked for first.
const SYMBOLS: &[&str] = &[
    "nvrtcCompileProgram",
    "nvrtcCreateProgram",
    "nvrtcDestroyProgram",
    "nvrtcGetCUBIN",
    "nvrtcGetCUBINSize",
    "nvrtcGetNumSupportedArchs",
    "nvrtcGetPTX",
    "nvrtcGetPTXSize",
    "nvrtcGetProgramLog",
    "nvrtcGetProgramLogSize",
    "nvrtcGetSupportedArchs",
    "nvrtcVersion",
];

/// NVRTC's version, and the architectures that it compiles for.
#[derive(Debug)]
pub(super) struct Version {
    major: c_int,
    minor: c_int,
    architectures: Vec<u32>,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NVRTC {}.{}", self.major, self.minor)
    }
}

/// What NVRTC is to make.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    /// Code of this architecture.
    Code(u32),
    /// PTX of this one, which the driver compiles for a newer one.
    Ptx(u32),
}

/// The library, opened once.
///
/// # Errors
/// Why it can't be used.
pub(super) fn version() -> Result<&'static Version, &'static str> {
    static VERSION: OnceLock<Result<Version, String>> = OnceLock::new();
    VERSION.get_or_init(look).as_ref().map_err(String::as_str)
}

fn look() -> Result<Version, String> {
    // SAFETY: the library's own initialization is NVIDIA's matter.
    if !unsafe { sys::is_culib_present() } {
        return Err(
            "its compiler NVRTC (libnvrtc.so of CUDA 12 or 13) is not found: look at LD_LIBRARY_PATH".to_owned()
        );
    }
    // SAFETY: the library is there; the symbols are looked at, not called.
    let missing = |symbol: &&&str| unsafe { sys::culib().get::<*const c_void>(symbol.as_bytes()).is_err() };
    if let Some(symbol) = SYMBOLS.iter().find(missing) {
        return Err(format!("its compiler NVRTC is too old: the library has no {symbol}"));
    }
    let (mut major, mut minor, mut count) = (0, 0, 0);
    // SAFETY: the results have places, the architectures as many as were asked for.
    let architectures = unsafe {
        let counted =
            sys::nvrtcVersion(&mut major, &mut minor).result().and(sys::nvrtcGetNumSupportedArchs(&mut count).result());
        counted.and_then(|()| {
            let mut architectures = vec![0; count as usize];
            sys::nvrtcGetSupportedArchs(architectures.as_mut_ptr()).result().map(|()| architectures)
        })
    };
    let architectures = architectures.map_err(|error| format!("its compiler NVRTC does not start: {error}"))?;
    Ok(Version { major, minor, architectures: architectures.into_iter().map(|number| number as u32).collect() })
}

/// What to make for an architecture, if there is anything that runs there.
fn target(architecture: u32, known: &[u32]) -> Option<Target> {
    if known.contains(&architecture) {
        return Some(Target::Code(architecture));
    }
    known.iter().copied().filter(|known| *known < architecture).max().map(Target::Ptx)
}

/// How programs are compiled for an architecture. Errors call what can't be compiled `program`, and the target `device`.
pub(super) fn recipe(architecture: u32, program: &str, device: &str) -> Result<Recipe, DeviceError> {
    let no_compiler =
        |why: String| DeviceError::NoCompiler { program: program.to_owned(), device: device.to_owned(), why };
    let version = version().map_err(|why| no_compiler(why.to_owned()))?;
    let target = target(architecture, &version.architectures).ok_or_else(|| {
        let oldest = version.architectures.iter().min().copied().unwrap_or_default();
        no_compiler(format!("{version} compiles for sm_{oldest} and newer; an older NVRTC may for sm_{architecture}"))
    })?;
    let option = match target {
        Target::Code(number) => format!("--gpu-architecture=sm_{number}"),
        Target::Ptx(number) => format!("--gpu-architecture=compute_{number}"),
    };
    Ok(Recipe { compiler: version.to_string(), options: vec![option, "-DTHALWEG_FMA".to_owned()] })
}

/// Compiles a program for an architecture such as `sm_90`. No device is needed.
pub(in crate::device) fn compile_for(program: &Program, architecture: &str) -> Result<Vec<u8>, DeviceError> {
    let number = architecture.strip_prefix("sm_").and_then(|number| number.parse().ok());
    let number = number.ok_or_else(|| DeviceError::NoCompiler {
        program: program.name().to_owned(),
        device: architecture.to_owned(),
        why: "CUDA's architectures are sm_75, sm_90 and the like".to_owned(),
    })?;
    compile(program, &recipe(number, program.name(), architecture)?, architecture)
}

/// Compiles a program; `device` is what errors call the target.
pub(super) fn compile(program: &Program, recipe: &Recipe, device: &str) -> Result<Vec<u8>, DeviceError> {
    let failed =
        |log: String| DeviceError::Compilation { program: program.name().to_owned(), device: device.to_owned(), log };
    let text = |text: &str| CString::new(text).map_err(|_| failed("the text has a zero byte".to_owned()));
    let (source, name) = (text(&program.source())?, text(program.name())?);
    let options = recipe.options.iter().map(|option| text(option)).collect::<Result<Vec<_>, _>>()?;
    let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    let is_ptx = recipe.options.iter().any(|option| option.contains("=compute_"));
    let unit = Unit(result::create_program(&source, Some(&name)).map_err(|error| failed(error.to_string()))?);
    // SAFETY: the unit is alive, and so are source, name and options.
    let compiled = unsafe { sys::nvrtcCompileProgram(unit.0, options.len() as c_int, options.as_ptr()) }.result();
    compiled.map_err(|error| failed(unit.log().unwrap_or_else(|| error.to_string())))?;
    unit.image(is_ptx).map_err(|error| failed(error.to_string()))
}

/// A program in NVRTC.
struct Unit(sys::nvrtcProgram);

impl Unit {
    /// What the compiler said, if it said anything.
    fn log(&self) -> Option<String> {
        // SAFETY: the unit is alive.
        let log = unsafe { result::get_program_log(self.0) }.ok()?;
        let bytes: Vec<u8> = log.into_iter().map(|c| c as u8).collect();
        let log = CStr::from_bytes_until_nul(&bytes).ok()?.to_string_lossy().trim().to_owned();
        (!log.is_empty()).then_some(log)
    }

    /// Code, or PTX with its zero at the end.
    fn image(&self, is_ptx: bool) -> Result<Vec<u8>, NvrtcError> {
        let mut len = 0;
        // SAFETY: the unit is compiled; results have places, the image of the length that was given.
        unsafe {
            if is_ptx {
                sys::nvrtcGetPTXSize(self.0, &mut len).result()?;
                let mut image = vec![0u8; len];
                sys::nvrtcGetPTX(self.0, image.as_mut_ptr().cast()).result()?;
                Ok(image)
            } else {
                sys::nvrtcGetCUBINSize(self.0, &mut len).result()?;
                let mut image = vec![0u8; len];
                sys::nvrtcGetCUBIN(self.0, image.as_mut_ptr().cast()).result()?;
                Ok(image)
            }
        }
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        // SAFETY: destroyed once.
        if let Err(error) = unsafe { result::destroy_program(self.0) } {
            tracing::debug!("nvrtcDestroyProgram: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_runs_on_the_device() {
        let known = [75, 80, 86, 90, 100, 120];
        assert_eq!(target(90, &known), Some(Target::Code(90)));
        assert_eq!(target(89, &known), Some(Target::Ptx(86)));
        assert_eq!(target(130, &known), Some(Target::Ptx(120)));
        assert_eq!(target(70, &known), None);
        assert_eq!(target(90, &[]), None);
    }
}

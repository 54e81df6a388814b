//! NVRTC: makes code that an architecture runs, or PTX, which the driver compiles.
//!
//! The driver takes code of any NVRTC of its major release, and PTX only of one that is not newer than itself. So PTX is for
//! architectures newer than all that NVRTC knows, and for drivers that refuse the code.

use crate::device::gpu::{Compiler, RawUnit, Recipe};
use cudarc::nvrtc::sys;
use std::ffi::{c_char, c_int, c_void};
use std::fmt;
use std::ptr;
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

/// The library, with its version and the architectures that it compiles for.
#[derive(Debug)]
pub(in crate::device) struct Nvrtc {
    major: c_int,
    minor: c_int,
    architectures: Vec<u32>,
}

impl fmt::Display for Nvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}.{}", Self::NAME, self.major, self.minor)
    }
}

fn look() -> Result<Nvrtc, String> {
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
    Ok(Nvrtc { major, minor, architectures: architectures.into_iter().map(|number| number as u32).collect() })
}

/// What NVRTC is to make.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    /// Code of this architecture.
    Code(u32),
    /// PTX of this one, which the driver compiles for a newer one.
    Ptx(u32),
}

/// What runs on an architecture, the best first: its own code; or that of an older one of the same generation; or PTX.
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
            return Err(format!("{self} compiles for sm_{oldest} and newer; an older NVRTC may for sm_{number}"));
        }
        let option = |target| match target {
            Target::Code(number) => format!("--gpu-architecture=sm_{number}"),
            Target::Ptx(number) => format!("--gpu-architecture=compute_{number}"),
        };
        Ok(targets.into_iter().map(|target| vec![option(target)]).collect())
    }

    unsafe fn create(&self, unit: &mut RawUnit, source: *const c_char, name: *const c_char) -> c_int {
        let none = ptr::null();
        // SAFETY: the caller has texts that end with a zero, and a place for the unit; there are no headers.
        unsafe { sys::nvrtcCreateProgram(ptr::from_mut(unit).cast(), source, name, 0, none, none) as c_int }
    }

    unsafe fn destroy(&self, unit: &mut RawUnit) -> c_int {
        // SAFETY: the unit was created, and its owner calls this once.
        unsafe { sys::nvrtcDestroyProgram(ptr::from_mut(unit).cast()) as c_int }
    }

    unsafe fn compile(&self, unit: RawUnit, count: c_int, options: *const *const c_char) -> c_int {
        // SAFETY: the unit was created; the caller has that many options, each ending with a zero.
        unsafe { sys::nvrtcCompileProgram(unit.cast(), count, options) as c_int }
    }

    unsafe fn log_bytes(&self, unit: RawUnit, bytes: &mut usize) -> c_int {
        // SAFETY: the unit was created; the result has a place.
        unsafe { sys::nvrtcGetProgramLogSize(unit.cast(), bytes) as c_int }
    }

    unsafe fn log(&self, unit: RawUnit, place: *mut c_char) -> c_int {
        // SAFETY: the unit was created; the caller's place has the size that `log_bytes` gave.
        unsafe { sys::nvrtcGetProgramLog(unit.cast(), place) as c_int }
    }

    unsafe fn code_bytes(&self, unit: RawUnit, recipe: &Recipe, bytes: &mut usize) -> c_int {
        // SAFETY: the unit was compiled to what the recipe says; the result has a place.
        unsafe {
            match makes_ptx(recipe) {
                true => sys::nvrtcGetPTXSize(unit.cast(), bytes) as c_int,
                false => sys::nvrtcGetCUBINSize(unit.cast(), bytes) as c_int,
            }
        }
    }

    unsafe fn code(&self, unit: RawUnit, recipe: &Recipe, place: *mut c_char) -> c_int {
        // SAFETY: the unit was compiled to what the recipe says; the caller's place has the size that `code_bytes`
        // gave.
        unsafe {
            match makes_ptx(recipe) {
                true => sys::nvrtcGetPTX(unit.cast(), place) as c_int,
                false => sys::nvrtcGetCUBIN(unit.cast(), place) as c_int,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_runs_on_the_device() {
        let known = [75, 80, 86, 90, 100, 120];
        assert_eq!(targets(90, &known), [Target::Code(90), Target::Ptx(90)]);
        assert_eq!(targets(89, &known), [Target::Code(86), Target::Ptx(86)]);
        assert_eq!(targets(130, &known), [Target::Ptx(120)]);
        assert_eq!(targets(70, &known), []);
        assert_eq!(targets(90, &[]), []);
    }
}

//! Compilation of program text to device code, with the compiler that comes with the interface.
//!
//! Invariant: a compiler's program object ([`Unit`]) is destroyed exactly once, by its owner.

use super::compiler::{Compiler, RawUnit};
use super::extra::Extra;
use super::platform::Platform;
use crate::device::gpu::Recipe;
use crate::error::DeviceError;
use crate::kernel::{Code, Source};
use std::ffi::{CString, c_char, c_int};
use std::ptr;

/// Returns the recipes for compiling programs for an architecture, the best recipe first. Error messages refer to the
/// text that cannot be compiled as `program`, and to the target as `device`.
pub(super) fn recipes<A: Platform>(
    architecture: &str,
    is_there: bool,
    program: &str,
    device: &str,
) -> Result<Vec<Recipe>, DeviceError> {
    let recipes = || {
        let compiler = A::Compiler::load()?;
        let recipe = |mut options: Vec<String>| {
            options.push("-DTHALWEG_FMA".to_owned());
            Recipe { target: architecture.to_owned(), compiler: compiler.to_string(), options }
        };
        Ok(compiler.options(architecture, is_there)?.into_iter().map(recipe).collect())
    };
    recipes().map_err(|why: String| DeviceError::NoCompiler {
        program: program.to_owned(),
        device: device.to_owned(),
        why,
    })
}

/// Compiles a program, or a module's text, for an architecture such as `sm_90` or `gfx90a`. No device is needed.
pub(in crate::device) fn compile_for<A: Platform>(source: &Source, architecture: &str) -> Result<Vec<u8>, DeviceError> {
    let (name, text, extra) = match source {
        Source::Program(program) => (program.name(), program.source(), Extra::default()),
        Source::Module(module) => match module.code(A::KIND) {
            Some(Code::Text(text)) => (module.name(), text.to_owned(), Extra::of::<A>(module, text)),
            _ => {
                let (program, device) = (module.name().to_owned(), architecture.to_owned());
                let why = format!("the module has no text for {}", A::NAME);
                return Err(DeviceError::NoCompiler { program, device, why });
            }
        },
    };
    let recipes = recipes::<A>(architecture, false, name, architecture)?;
    let recipe = extra.add_to(recipes.first().expect("there is at least one recipe"));
    compile::<A>(name, &text, &recipe, architecture)
}

/// Compiles a text. Error messages refer to the text as `name`, and to the target as `device`.
pub(super) fn compile<A: Platform>(
    name: &str,
    source: &str,
    recipe: &Recipe,
    device: &str,
) -> Result<Vec<u8>, DeviceError> {
    compile_with::<A::Compiler>(name, source, recipe).map_err(|log| DeviceError::Compilation {
        program: name.to_owned(),
        device: device.to_owned(),
        log,
    })
}

fn compile_with<C: Compiler>(name: &str, source: &str, recipe: &Recipe) -> Result<Vec<u8>, String> {
    let compiler = C::load()?;
    let text = |text: &str| CString::new(text).map_err(|_| "the text has a zero byte".to_owned());
    let (source, name) = (text(source)?, text(name)?);
    let options = recipe.options.iter().map(|option| text(option)).collect::<Result<Vec<_>, _>>()?;
    let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    let _alone = compiler.alone();
    let unit = Unit::new(compiler, &source, &name)?;
    // SAFETY: the unit was created, and the null-terminated options live until the call returns.
    let compiled = unsafe { compiler.compile(unit.raw, options.len() as c_int, options.as_ptr()) };
    check(compiler, compiled).map_err(|error| unit.log().unwrap_or(error))?;
    // SAFETY: the unit was compiled, and the buffer for the code has the size that `code_bytes` returned.
    unit.read(
        |bytes| unsafe { compiler.code_bytes(unit.raw, recipe, bytes) },
        |place| unsafe { compiler.code(unit.raw, recipe, place) },
    )
}

fn check<C: Compiler>(compiler: &C, code: c_int) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(compiler.describe(code)) }
}

/// A compiler's program object.
struct Unit<C: Compiler> {
    compiler: &'static C,
    raw: RawUnit,
}

impl<C: Compiler> Unit<C> {
    fn new(compiler: &'static C, source: &CString, name: &CString) -> Result<Self, String> {
        let mut raw = ptr::null_mut();
        // SAFETY: both texts are null-terminated.
        check(compiler, unsafe { compiler.create(&mut raw, source.as_ptr(), name.as_ptr()) })?;
        Ok(Self { compiler, raw })
    }

    /// Returns the compiler's log, or `None` if the log is empty.
    fn log(&self) -> Option<String> {
        let Self { compiler, raw } = self;
        // SAFETY: the unit was created, and the buffer for the log has the size that `log_bytes` returned.
        let log =
            self.read(|bytes| unsafe { compiler.log_bytes(*raw, bytes) }, |place| unsafe { compiler.log(*raw, place) });
        let log = log.ok()?;
        let log = String::from_utf8_lossy(&log).trim_matches(|c: char| c == '\0' || c.is_whitespace()).to_owned();
        (!log.is_empty()).then_some(log)
    }

    /// Reads one of the compiler's outputs: first its size, then its contents.
    fn read(
        &self,
        size: impl FnOnce(&mut usize) -> c_int,
        content: impl FnOnce(*mut c_char) -> c_int,
    ) -> Result<Vec<u8>, String> {
        let mut bytes = 0;
        check(self.compiler, size(&mut bytes))?;
        let mut place = vec![0u8; bytes];
        check(self.compiler, content(place.as_mut_ptr().cast()))?;
        Ok(place)
    }
}

impl<C: Compiler> Drop for Unit<C> {
    fn drop(&mut self) {
        // SAFETY: the unit was created by `new`, and is destroyed only here.
        if let Err(error) = check(self.compiler, unsafe { self.compiler.destroy(&mut self.raw) }) {
            log!(debug, "cannot destroy a compiled program: {error}");
        }
    }
}

//! Ahead-of-time compilation without a device. Selects the interface whose compiler supports the architecture.

#[cfg(feature = "cuda")]
use super::cuda::Cuda;
#[cfg(feature = "hip")]
use super::hip::Hip;
#[cfg(not(all(feature = "cuda", feature = "hip")))]
use super::interfaces::InterfaceId;
use crate::error::DeviceError;
use crate::kernel::{Compiled, Source};

/// Compiles a program, or a module's text, for an architecture, with the options that the runtime uses for devices of
/// that architecture. No device is needed, only the architecture's compiler: NVRTC (with the feature `cuda`) for
/// `sm_90` and the like, hipRTC (`hip`) for `gfx90a` and the like.
///
/// The function is meant for checks. It returns the compiler's output, an object file or PTX, which the runtime
/// itself does not use.
///
/// # Errors
/// [`DeviceError::Compilation`] with the compiler's messages if the program does not compile,
/// [`DeviceError::NoCompiler`] if there is no compiler for the architecture, or no text for its interface.
///
/// ```
/// use thalweg::devices::compile_for;
/// use thalweg::kernel::Program;
/// use thalweg::prelude::DeviceError;
/// const TEXT: &str = "KERNEL(64, 1, 1) zero(OUT(double, y, n), int n)
///                     { REGION(y); int i = GLOBAL_ID(0); if (i < n) y[i] = 0.0; }";
/// // SAFETY: only the first n elements of y are touched.
/// const PROGRAM: Program = unsafe { Program::new("zero.cl", TEXT) };
/// match compile_for(&PROGRAM, "sm_90") {
///     Ok(code) => println!("{} bytes", code.len()),
///     Err(DeviceError::NoCompiler { why, .. }) => println!("skipped: {why}"),
///     Err(error) => panic!("{error}"),
/// }
/// assert!(matches!(compile_for(&PROGRAM, "z80"), Err(DeviceError::NoCompiler { .. })));
/// ```
pub fn compile_for(program: &impl Compiled, architecture: &str) -> Result<Vec<u8>, DeviceError> {
    let source = program.source();
    let why = if architecture.starts_with("sm_") {
        #[cfg(feature = "cuda")]
        return super::gpu::compile_for::<Cuda>(&source, architecture);
        #[cfg(not(feature = "cuda"))]
        InterfaceId::Cuda.lacking()
    } else if architecture.starts_with("gfx") {
        #[cfg(feature = "hip")]
        return super::gpu::compile_for::<Hip>(&source, architecture);
        #[cfg(not(feature = "hip"))]
        InterfaceId::Hip.lacking()
    } else {
        "architectures are sm_75, sm_90 and the like, or gfx906, gfx90a and the like".to_owned()
    };
    let name = match source {
        Source::Program(program) => program.name(),
        Source::Module(module) => module.name(),
    };
    Err(DeviceError::NoCompiler { program: name.to_owned(), device: architecture.to_owned(), why })
}

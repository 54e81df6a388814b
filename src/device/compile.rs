//! Which interface's compiler makes code for an architecture.

#[cfg(feature = "cuda")]
use super::cuda::Cuda;
#[cfg(feature = "hip")]
use super::hip::Hip;
#[cfg(not(all(feature = "cuda", feature = "hip")))]
use super::interfaces::InterfaceId;
use crate::error::DeviceError;
use crate::kernel::Program;

/// Compiles a program for an architecture, by its name. No device is needed.
pub(crate) fn compile_for(program: &Program, architecture: &str) -> Result<Vec<u8>, DeviceError> {
    let why = if architecture.starts_with("sm_") {
        #[cfg(feature = "cuda")]
        return super::gpu::compile_for::<Cuda>(program, architecture);
        #[cfg(not(feature = "cuda"))]
        InterfaceId::Cuda.lacking()
    } else if architecture.starts_with("gfx") {
        #[cfg(feature = "hip")]
        return super::gpu::compile_for::<Hip>(program, architecture);
        #[cfg(not(feature = "hip"))]
        InterfaceId::Hip.lacking()
    } else {
        "architectures are sm_75, sm_90 and the like, or gfx906, gfx90a and the like".to_owned()
    };
    Err(DeviceError::NoCompiler { program: program.name().to_owned(), device: architecture.to_owned(), why })
}

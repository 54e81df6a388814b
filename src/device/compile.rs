//! Which interface's compiler makes code for an architecture.

use super::{cuda, hip};
use crate::error::DeviceError;
use crate::kernel::Program;

/// Compiles a program for an architecture, by its name. No device is needed.
pub(crate) fn compile_for(program: &Program, architecture: &str) -> Result<Vec<u8>, DeviceError> {
    if architecture.starts_with("sm_") {
        cuda::compile_for(program, architecture)
    } else if architecture.starts_with("gfx") {
        hip::compile_for(program, architecture)
    } else {
        Err(DeviceError::NoCompiler {
            program: program.name().to_owned(),
            device: architecture.to_owned(),
            why: "architectures are sm_75, sm_90 and the like, or gfx906, gfx90a and the like".to_owned(),
        })
    }
}

//! Compilation of programs and of users' modules by OpenCL.

use super::backend::OpenCl;
use super::turns::InTurn;
use crate::device::gpu::{Backend, no_code};
use crate::error::DeviceError;
use crate::kernel::{Code, Module, Program};
use crate::sync::may_block;
use opencl3::error_codes::{ClError, error_text};
use opencl3::program::Program as Object;

/// The prefix for kernel names, which could otherwise collide with built-in functions of OpenCL C.
pub(super) const PREFIX: &str = "thalweg_";

impl OpenCl {
    /// Compiles a program in the dialect.
    pub(super) fn compiled(&self, program: &Program) -> Result<InTurn<Object>, DeviceError> {
        let _turn = self.turns.take();
        let object = Object::create_from_source(&self.context, &program.source_with(PREFIX))
            .map_err(|error| self.failed("clCreateProgramWithSource", error))?;
        self.built(object, program.name(), "-cl-std=CL1.2 -DTHALWEG_FMA")
    }

    /// Compiles or loads the code that a module has for OpenCL.
    pub(super) fn loaded(&self, module: &Module) -> Result<InTurn<Object>, DeviceError> {
        let _turn = self.turns.take();
        let object = match module.code(Self::KIND) {
            Some(Code::Text(text)) => Object::create_from_source(&self.context, text)
                .map_err(|error| self.failed("clCreateProgramWithSource", error))?,
            Some(Code::SpirV(code)) => Object::create_from_il(&self.context, code).map_err(|error| {
                let ClError(code) = error;
                DeviceError::NoCompiler {
                    program: module.name().to_owned(),
                    device: self.name.clone(),
                    why: format!(
                        "the device does not support this SPIR-V: {} (OpenCL error {code}); try `Module::opencl`",
                        error_text(code)
                    ),
                }
            })?,
            Some(Code::Ptx(_) | Code::Image(_)) | None => return Err(no_code(self, module)),
        };
        self.built(object, module.name(), "")
    }

    /// Compiles a program object.
    fn built(&self, mut object: Object, name: &str, options: &str) -> Result<InTurn<Object>, DeviceError> {
        may_block();
        object.build(&[self.id], options).map_err(|error| DeviceError::Compilation {
            program: name.to_owned(),
            device: self.name.clone(),
            log: match object.get_build_log(self.id) {
                Ok(log) if !log.trim().is_empty() => log.trim().to_owned(),
                _ => error_text(error.0).to_owned(),
            },
        })?;
        Ok(InTurn::new(object, self.turns))
    }
}

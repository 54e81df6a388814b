//! What a build without the feature `hip` has instead: the reason.

use crate::device::Accelerator;
use crate::device::survey::Interface;
use crate::error::DeviceError;
use crate::kernel::Program;

const WHY: &str = "this build has no HIP; it was compiled without the feature `hip`";

/// A device, of which there is none.
#[derive(Debug, Clone, Copy)]
pub(in crate::device) enum Found {}

impl Found {
    pub(in crate::device) fn name(&self) -> &str {
        match *self {}
    }
}

/// An open device, of which there is none.
pub(in crate::device) enum Hip {}

impl Hip {
    pub(in crate::device) fn open(found: &Found) -> Result<Box<dyn Accelerator>, DeviceError> {
        match *found {}
    }
}

pub(in crate::device) fn find() -> Result<&'static [Found], &'static str> {
    Err(WHY)
}

pub(in crate::device) fn survey() -> Interface {
    Interface { name: "HIP", version: None, absent: Some(WHY.to_owned()), devices: Vec::new() }
}

pub(in crate::device) fn compile_for(program: &Program, architecture: &str) -> Result<Vec<u8>, DeviceError> {
    Err(DeviceError::NoCompiler {
        program: program.name().to_owned(),
        device: architecture.to_owned(),
        why: WHY.to_owned(),
    })
}

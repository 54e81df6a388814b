//! Stands in for the disk on systems without the calls that it needs.

use super::Buffer;
use super::device::{Copying, Device, DeviceCopy, End, Execution};
use crate::coherence::CopyId;
use crate::error::DeviceError;
use crate::kernel::DeviceSite;
use std::io;
use std::path::Path;

/// A disk that cannot exist.
#[derive(Debug, Clone)]
pub(crate) enum Disk {}

impl Disk {
    pub(crate) fn create(_: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Device for Disk {
    fn execution(&self) -> Execution<'_> {
        match *self {}
    }

    fn domain(&self) -> (&'static str, usize) {
        match *self {}
    }

    fn copies_apart(&self) -> bool {
        match *self {}
    }

    fn capacity_bytes(&self) -> u64 {
        match *self {}
    }

    fn allocate(&self, _: u64, _: usize) -> Result<Buffer, DeviceError> {
        match *self {}
    }

    fn end(&self, _: DeviceSite) -> End {
        match *self {}
    }

    unsafe fn copy(&self, _: &DeviceCopy, _: CopyId) -> Result<Copying, DeviceError> {
        match *self {}
    }

    unsafe fn copy_now(&self, _: &DeviceCopy) -> Result<(), DeviceError> {
        match *self {}
    }
}

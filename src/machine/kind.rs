//! The kinds of unit, and the limits on the units in a configuration.

use std::fmt;

/// The maximum number of units in a configuration.
pub(crate) const MAX_UNITS: usize = 1024;
/// The maximum total number of devices in all units of a configuration.
pub(crate) const MAX_DEVICES: usize = 1024;
/// The maximum number of cores (CPU unit) or devices (device unit) in one unit.
pub(crate) const MAX_UNIT_SIZE: usize = 1024;

/// The kind of resource that executes a unit's tasks.
///
/// ```
/// use thalweg::machine::UnitKind;
/// assert_eq!(UnitKind::from_keyword("opencl"), Some(UnitKind::OpenCl));
/// assert_eq!(UnitKind::Emulated.to_string(), "EMU");
/// assert!(UnitKind::Gpu.is_device() && !UnitKind::Cpu.is_device());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnitKind {
    /// `CPU`: cores of the host.
    Cpu,
    /// `EMU`: an emulated device, which runs CPU bodies in a separate address space within host memory.
    Emulated,
    /// `CUDA`: an NVIDIA GPU.
    Cuda,
    /// `HIP`: an AMD GPU.
    Hip,
    /// `OPENCL`: an OpenCL device.
    OpenCl,
    /// `FPGA`: a reconfigurable device.
    Fpga,
    /// `GPU`: any GPU that is found.
    Gpu,
}

impl UnitKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [Self::Cpu, Self::Emulated, Self::Cuda, Self::Hip, Self::OpenCl, Self::Fpga, Self::Gpu];

    /// Returns the keyword for this kind in configurations.
    pub const fn keyword(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Emulated => "EMU",
            Self::Cuda => "CUDA",
            Self::Hip => "HIP",
            Self::OpenCl => "OPENCL",
            Self::Fpga => "FPGA",
            Self::Gpu => "GPU",
        }
    }

    /// Returns the kind with this keyword, ignoring case.
    pub fn from_keyword(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.keyword().eq_ignore_ascii_case(word))
    }

    /// Returns whether units of this kind consist of devices with separate address spaces.
    pub const fn is_device(self) -> bool {
        !matches!(self, Self::Cpu)
    }
}

impl fmt::Display for UnitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.keyword())
    }
}

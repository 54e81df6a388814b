//! The kinds of unit, and how many units a configuration can have at most.

use std::fmt;

/// Most units that a configuration can have.
///
/// ```
/// use thalweg::machine::{MAX_UNITS, UnitConfig};
/// assert!(format!("{}:CPU:1", MAX_UNITS + 1).parse::<UnitConfig>().is_err());
/// ```
pub const MAX_UNITS: usize = 1024;
/// Most devices that all units of a configuration can have together.
///
/// ```
/// use thalweg::machine::{MAX_DEVICES, UnitConfig};
/// assert!(format!("1:EMU:{}", MAX_DEVICES + 1).parse::<UnitConfig>().is_err());
/// ```
pub const MAX_DEVICES: usize = 1024;
/// Most cores (CPU unit) or devices (device unit) that one unit can have.
///
/// ```
/// use thalweg::machine::{MAX_UNIT_SIZE, UnitConfig};
/// assert!(format!("1:CPU:{}", MAX_UNIT_SIZE + 1).parse::<UnitConfig>().is_err());
/// ```
pub const MAX_UNIT_SIZE: usize = 1024;

/// What executes a unit's tasks.
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
    /// `EMU`: a device in host memory that runs CPU bodies on its own address space.
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

    /// The kind as configurations write it.
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

    /// The kind of this keyword, in upper or lower case.
    pub fn from_keyword(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.keyword().eq_ignore_ascii_case(word))
    }

    /// Whether units of this kind have devices with address spaces of their own.
    pub const fn is_device(self) -> bool {
        !matches!(self, Self::Cpu)
    }
}

impl fmt::Display for UnitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.keyword())
    }
}

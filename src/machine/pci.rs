//! Accelerators on the PCI bus, and the cores nearest to them.
//!
//! Accelerators are recognized by their PCI identification, so no driver is needed. `device/` determines whether a
//! device actually works.

use super::UnitKind;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The kind of an accelerator, as far as its PCI vendor and class reveal it.
///
/// ```
/// use thalweg::machine::{AcceleratorKind, UnitKind};
/// assert!(AcceleratorKind::CudaGpu.serves(UnitKind::Gpu) && !AcceleratorKind::CudaGpu.serves(UnitKind::Hip));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AcceleratorKind {
    /// An NVIDIA GPU.
    CudaGpu,
    /// An AMD GPU.
    AmdGpu,
    /// A reconfigurable device.
    Fpga,
    /// Anything else.
    Other,
}

impl AcceleratorKind {
    /// Returns whether units of this kind can use the accelerator.
    pub fn serves(self, kind: UnitKind) -> bool {
        match kind {
            UnitKind::Cuda => self == Self::CudaGpu,
            UnitKind::Hip => self == Self::AmdGpu,
            UnitKind::Gpu => matches!(self, Self::CudaGpu | Self::AmdGpu),
            UnitKind::Fpga => self == Self::Fpga,
            UnitKind::OpenCl => true,
            UnitKind::Cpu | UnitKind::Emulated => false,
        }
    }
}

/// An accelerator on the PCI bus.
///
/// ```
/// for accelerator in thalweg::machine::Topology::detect().accelerators() {
///     println!("{}: {:?}, nearest cores {:?}", accelerator.address, accelerator.kind, accelerator.nearest);
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PciAccelerator {
    /// The accelerator's address on the bus, such as `0000:3b:00.0`.
    pub address: String,
    /// The kind of accelerator.
    pub kind: AcceleratorKind,
    /// The accelerator's NUMA node; `None` if it has none or the system does not report it.
    pub numa_node: Option<usize>,
    /// Of the cores that this process may use, those nearest to the accelerator. If the system does not report the
    /// nearest cores, all cores that this process may use.
    pub nearest: Vec<usize>,
}

impl PciAccelerator {
    /// Reads all accelerators from a copy of Linux's `/sys`, sorted by address.
    pub(super) fn all(sys: &Path, allowed: &BTreeSet<usize>) -> Vec<Self> {
        let entries = fs::read_dir(sys.join("bus/pci/devices")).into_iter().flatten().flatten();
        let mut all: Vec<Self> = entries.filter_map(|entry| Self::read(&entry.path(), allowed)).collect();
        all.sort_by(|one, other| one.address.cmp(&other.address));
        all
    }

    fn read(device: &Path, allowed: &BTreeSet<usize>) -> Option<Self> {
        let read = |file: &str| Some(fs::read_to_string(device.join(file)).ok()?.trim().to_owned());
        let hexadecimal = |file: &str| u32::from_str_radix(read(file)?.strip_prefix("0x")?, 16).ok();
        // The last byte of the class is the programming interface, which does not matter here.
        let kind = match (hexadecimal("vendor")?, hexadecimal("class")? >> 8) {
            (0x10de, 0x0300 | 0x0302) => AcceleratorKind::CudaGpu,
            (0x1002, 0x0300 | 0x0302 | 0x0380 | 0x1200) => AcceleratorKind::AmdGpu,
            (0x10ee | 0x1172, 0x1200) => AcceleratorKind::Fpga,
            // Processing accelerators, and coprocessors such as Intel's Xeon Phi.
            (_, 0x1200 | 0x0b40) => AcceleratorKind::Other,
            _ => return None,
        };
        let near: Vec<usize> = read("local_cpulist").map(|list| cores_of_list(&list)).unwrap_or_default();
        let mut nearest: Vec<usize> = near.into_iter().filter(|core| allowed.contains(core)).collect();
        if nearest.is_empty() {
            nearest = allowed.iter().copied().collect();
        }
        let numa_node = read("numa_node").and_then(|node| node.parse().ok()); // -1 if there is no node
        Some(Self { address: device.file_name()?.to_str()?.to_owned(), kind, numa_node, nearest })
    }
}

/// Parses a list of cores in Linux's format, `0-3,8`. Malformed parts are skipped.
fn cores_of_list(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok().filter(|last| *last < super::MAX_CORES)?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_lists_parse_and_malformed_parts_are_skipped() {
        assert_eq!(cores_of_list("0-3,8"), [0, 1, 2, 3, 8]);
        assert_eq!(cores_of_list("12-13,36\n"), [12, 13, 36]);
        assert!(cores_of_list("").is_empty() && cores_of_list("?,5-,7-999999999999").is_empty());
    }
}

//! `thalweg topo`: shows cores with their order and nodes, accelerators with their nearest cores, and the cores of
//! units.

use clap::Args;
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use thalweg::machine::{AcceleratorKind, ComputeUnit, Machine, MappingScheme, Topology, UnitConfig};

#[derive(Debug, Args)]
pub(super) struct Options {
    /// Also show the cores of these units, such as 1:CPU:62,2:CUDA:1
    #[arg(long, value_name = "LIST")]
    units: Option<UnitConfig>,
    /// Read a copy of another machine's /sys instead; all of its cores count as usable
    #[arg(long, value_name = "FOLDER")]
    sys: Option<PathBuf>,
}

pub(super) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let topology = match &options.sys {
        None => Topology::detect(),
        Some(sys) => Topology::from_sysfs(sys, all_cores(sys)?),
    };
    let out = &mut std::io::stdout().lock();
    print(&topology, out)?;
    options.units.as_ref().map_or(Ok(()), |units| print_units(&topology, units, out))
}

/// Returns the logical cores in a copy of `/sys`.
fn all_cores(sys: &std::path::Path) -> Result<Vec<usize>, Box<dyn Error>> {
    let folder = sys.join("devices/system/cpu");
    let entries = std::fs::read_dir(&folder).map_err(|problem| format!("{}: {problem}", folder.display()))?;
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok();
    Ok(entries.flatten().filter_map(number).collect())
}

fn print(topology: &Topology, out: &mut impl Write) -> std::io::Result<()> {
    let (physical, logical) = (topology.num_physical_cores(), topology.cores().len());
    let quota = topology.cpu_quota().map_or(String::new(), |quota| format!(", with a quota of {quota}"));
    writeln!(out, "cores           {logical} logical on {physical} physical{quota}")?;
    let order = match topology.mapping_scheme() {
        _ if !topology.is_smt() => "one thread per core",
        MappingScheme::RoundRobin => "round-robin: the first threads of all cores, then the second",
        MappingScheme::Linear => "linear: socket by socket",
        _ => "other",
    };
    writeln!(out, "order           {order}")?;
    for (node, cores) in topology.numa_nodes() {
        writeln!(out, "NUMA node {node:<5} {}", list(&cores))?;
    }
    let hosting = topology.hosting_cores();
    if hosting.is_empty() {
        writeln!(out, "accelerators    none on the PCI bus")?;
    }
    for (accelerator, core) in topology.accelerators().iter().zip(&hosting) {
        let kind = match accelerator.kind {
            AcceleratorKind::CudaGpu => "NVIDIA GPU",
            AcceleratorKind::AmdGpu => "AMD GPU",
            AcceleratorKind::Fpga => "FPGA",
            _ => "accelerator",
        };
        let physical = topology.physical_of(*core).unwrap_or(*core);
        writeln!(out, "{kind:<15} {}, nearest cores {}", accelerator.address, list(&accelerator.nearest))?;
        writeln!(out, "                hosting thread on core {core} (physical {physical})")?;
    }
    writeln!(out, "free cores      {}", list(&topology.free_cores(&hosting)))?;
    if topology.is_smt() {
        writeln!(out, "one thread each {}", list(&topology.free_physical_cores(&hosting)))?;
    }
    Ok(())
}

/// Prints the cores that units get by default, and the equivalent `OMP_PLACES` for other programs.
fn print_units(topology: &Topology, units: &UnitConfig, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let machine = Machine::plan(units, None, topology)?;
    writeln!(out, "{units}")?;
    for unit in machine.units() {
        writeln!(out, "  {:<6} {:<7} cores {}", unit.id.to_string(), unit.kind.to_string(), list(&unit.cores))?;
    }
    for warning in machine.warnings() {
        writeln!(out, "  warning: {warning}")?;
    }
    let braces = |unit: &ComputeUnit| {
        let cores: Vec<String> = unit.cores.iter().map(usize::to_string).collect();
        format!("{{{}}}", cores.join(","))
    };
    let places: Vec<String> = machine.units().iter().map(braces).collect();
    writeln!(out, "  OMP_PLACES={}", places.join(","))?;
    Ok(())
}

/// Formats cores as Linux does: `0-3,8`.
fn list(cores: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for core in cores {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *core => *last = *core,
            _ => ranges.push((*core, *core)),
        }
    }
    let range =
        |(first, last): (usize, usize)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.into_iter().map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_written_as_ranges() {
        assert_eq!(list(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!(list(&[]), "");
    }

    #[test]
    fn topo_shows_this_machine_and_requested_units() {
        let (topology, mut text) = (Topology::detect(), Vec::new());
        print(&topology, &mut text).unwrap();
        print_units(&topology, &"1:CPU:1,1:EMU:1".parse().unwrap(), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let cores = format!("{} logical on {} physical", topology.cores().len(), topology.num_physical_cores());
        for words in [&cores, "free cores", "1:CPU:1,1:EMU:1", "OMP_PLACES={"] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}

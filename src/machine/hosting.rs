//! Selection of cores for the threads that host accelerators, and of the remaining cores for CPU units (Farrelly et
//! al. 2024, §IV-B and §V).
//!
//! Each accelerator gets a core near it. No two hosting cores are threads of the same physical core as long as other
//! physical cores are free. All remaining cores are available to CPU units, including the second threads of the
//! physical cores that host accelerators.

use super::assign::{Cores, UnitRequest};
use super::plan::units_in_order;
use super::{ConfigError, Places, Topology, UnitConfig};
use std::collections::BTreeSet;

impl Topology {
    /// Returns a core for each accelerator's hosting thread. The core is near the accelerator, and each hosting
    /// thread is on a different physical core as long as there are enough physical cores.
    ///
    /// ```
    /// use thalweg::machine::Topology;
    /// let here = Topology::detect();
    /// assert_eq!(here.hosting_cores().len(), here.accelerators().len());
    /// ```
    pub fn hosting_cores(&self) -> Vec<usize> {
        let mut taken = BTreeSet::new();
        self.accelerators().iter().map(|accelerator| self.take_core(&accelerator.nearest, &mut taken)).collect()
    }

    /// Returns the cores that are not among the given hosting cores, and so are available to CPU units.
    ///
    /// ```
    /// use thalweg::machine::Topology;
    /// assert_eq!(Topology::with_cores(4).free_cores(&[0, 2]), [1, 3]);
    /// ```
    pub fn free_cores(&self, hosting: &[usize]) -> Vec<usize> {
        self.core_ids().filter(|core| !hosting.contains(core)).collect()
    }

    /// Returns one logical core, the lowest, of each physical core that no hosting core is a thread of. CPU units on
    /// these cores do not share a physical core, for programs that two threads on one core make slower.
    ///
    /// ```
    /// use thalweg::machine::Topology;
    /// assert_eq!(Topology::with_cores(4).free_physical_cores(&[0, 2]), [1, 3]); // one thread per core
    /// ```
    pub fn free_physical_cores(&self, hosting: &[usize]) -> Vec<usize> {
        let mut taken: BTreeSet<_> = hosting.iter().map(|core| self.physical_of(*core)).collect();
        self.core_ids().filter(|core| taken.insert(self.physical_of(*core))).collect()
    }

    /// Returns places ([`Builder::places`](crate::Builder::places)) that put the hosting thread of each device unit
    /// near its accelerator, and the CPU units on the remaining cores. These places are the default for
    /// configurations with units that have an accelerator on the PCI bus, if there are enough cores.
    ///
    /// Units of the same kind get accelerators in the order of the accelerators' PCI addresses, which is also the
    /// order in which the interfaces number them. Units without an accelerator on the bus, such as emulated devices,
    /// get any core.
    ///
    /// # Errors
    /// Returns [`ConfigError::NoCores`] if the topology is empty.
    ///
    /// ```
    /// use thalweg::machine::Topology;
    /// let places = Topology::with_cores(4).places_near(&"1:CPU:2,2:EMU:1".parse()?)?;
    /// assert_eq!(places.to_string(), "{2,3},{0},{1}");
    /// # Ok::<(), thalweg::machine::ConfigError>(())
    /// ```
    pub fn places_near(&self, config: &UnitConfig) -> Result<Places, ConfigError> {
        if self.cores().is_empty() {
            return Err(ConfigError::NoCores);
        }
        Ok(Places { places: self.cores_near(&units_in_order(config)) })
    }

    /// Returns whether the PCI bus has an accelerator for any of these units.
    pub(super) fn serves_any(&self, requests: &[UnitRequest]) -> bool {
        let is_served = |request: &UnitRequest| self.accelerators().iter().any(|one| one.kind.serves(request.kind));
        requests.iter().any(is_served)
    }

    /// Returns the cores of each unit: see [`places_near`](Self::places_near). There must be at least one core.
    pub(super) fn cores_near(&self, requests: &[UnitRequest]) -> Cores {
        let all: Vec<usize> = self.core_ids().collect();
        let (mut accelerators, mut taken) = (self.accelerators().iter().collect::<Vec<_>>(), BTreeSet::new());
        let mut hosting = Vec::new();
        for request in requests.iter().filter(|request| request.kind.is_device()) {
            // The unit's first device determines the core. The unit's other devices are consumed as well, so that no
            // other unit gets them.
            let mut nearest = &all;
            for device in 0..request.size {
                let Some(at) = accelerators.iter().position(|one| one.kind.serves(request.kind)) else { break };
                let own = accelerators.remove(at);
                nearest = if device == 0 { &own.nearest } else { nearest };
            }
            hosting.push(self.take_core(nearest, &mut taken));
        }
        let free = Some(self.free_cores(&hosting)).filter(|free| !free.is_empty()).unwrap_or(all);
        let mut free = free.into_iter().cycle();
        let of_cpu = requests.iter().filter(|request| !request.kind.is_device());
        let mut cores: Cores = of_cpu.map(|request| free.by_ref().take(request.size).collect()).collect();
        cores.extend(hosting.into_iter().map(|core| vec![core]));
        cores
    }

    /// Takes the first core in `nearest` whose physical core is not taken; otherwise, the first core of the whole
    /// topology whose physical core is not taken; and if all physical cores are taken, the first core in `nearest`.
    fn take_core(&self, nearest: &[usize], taken: &mut BTreeSet<Option<usize>>) -> usize {
        let is_free = |core: &usize| !taken.contains(&self.physical_of(*core));
        let near = nearest.iter().copied().find(is_free);
        let core = near.or_else(|| self.core_ids().find(is_free)).or(nearest.first().copied()).unwrap_or(0);
        taken.insert(self.physical_of(core));
        core
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{AcceleratorKind, Machine, MappingScheme};
    use std::fs;
    use std::path::Path;

    fn write(sys: &Path, path: &str, text: &str) {
        let path = sys.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Writes the description of a machine in the format of Linux's sysfs, with physical cores numbered by socket and
    /// one NUMA node per socket.
    fn machine(sys: &Path, sockets: usize, cores: usize, threads: usize, scheme: MappingScheme) {
        for physical in 0..sockets * cores {
            for logical in scheme.logical_of(physical, sockets, cores, threads).unwrap() {
                let (socket, core) = (physical / cores, physical % cores);
                let cpu = format!("devices/system/cpu/cpu{logical}");
                write(sys, &format!("{cpu}/topology/core_id"), &format!("{core}\n"));
                write(sys, &format!("{cpu}/topology/physical_package_id"), &format!("{socket}\n"));
                fs::create_dir_all(sys.join(format!("{cpu}/node{socket}"))).unwrap();
            }
        }
        write(sys, "devices/system/cpu/cpufreq/boost", "1\n");
    }

    fn accelerator(sys: &Path, address: &str, vendor: &str, class: &str, near: &str) {
        for (file, text) in [("vendor", vendor), ("class", class), ("local_cpulist", near), ("numa_node", "-1")] {
            write(sys, &format!("bus/pci/devices/{address}/{file}"), &format!("{text}\n"));
        }
    }

    /// Farrelly et al. 2024, figure 2: two sockets, 48 logical cores, a Xeon Phi near node 0 and a K40c near node 1.
    #[test]
    fn server_with_48_cores_hosts_accelerators_on_their_nodes() {
        let sys = tempfile::tempdir().unwrap();
        machine(sys.path(), 2, 12, 2, MappingScheme::RoundRobin);
        accelerator(sys.path(), "0000:02:00.0", "0x8086", "0x0b4000", "0-11,24-35");
        accelerator(sys.path(), "0000:82:00.0", "0x10de", "0x030200", "12-23,36-47");
        accelerator(sys.path(), "0000:09:00.0", "0x102b", "0x030000", "0-47"); // the board's display controller
        let topology = Topology::from_sysfs(sys.path(), 0..48);
        assert_eq!((topology.num_physical_cores(), topology.cores().len(), topology.is_smt()), (24, 48, true));
        assert_eq!(topology.mapping_scheme(), MappingScheme::RoundRobin);
        assert_eq!((topology.physical_of(36), topology.logical_of(12)), (Some(12), vec![12, 36]));
        let nodes = topology.numa_nodes();
        assert_eq!(nodes[&1], (12..24).chain(36..48).collect::<Vec<_>>());
        let kinds: Vec<_> = topology.accelerators().iter().map(|one| one.kind).collect();
        assert_eq!(kinds, [AcceleratorKind::Other, AcceleratorKind::CudaGpu]);
        let hosting = topology.hosting_cores();
        assert_eq!(hosting, [0, 12]);
        assert_eq!(topology.free_cores(&hosting), (1..12).chain(13..48).collect::<Vec<_>>());
        assert_eq!(topology.free_physical_cores(&hosting), (1..12).chain(13..24).collect::<Vec<_>>());
        assert_eq!(topology.free_physical_cores(&[]), (0..24).collect::<Vec<_>>());
        let places = topology.places_near(&"1:CPU:46,1:CUDA:1".parse().unwrap()).unwrap();
        assert_eq!(places.as_slice()[1], [12], "the core near the GPU, which is not the first accelerator");
    }

    /// Farrelly et al. 2024, §VI-A: 64 logical cores, two GPUs near all of them.
    #[test]
    fn server_with_64_cores_hosts_gpus_on_different_physical_cores() {
        let sys = tempfile::tempdir().unwrap();
        machine(sys.path(), 1, 32, 2, MappingScheme::RoundRobin);
        for address in ["0000:17:00.0", "0000:ca:00.0"] {
            accelerator(sys.path(), address, "0x10de", "0x030200", "0-63");
        }
        let topology = Topology::from_sysfs(sys.path(), 0..64);
        let hosting = topology.hosting_cores();
        assert_eq!(hosting, [0, 1]);
        assert_eq!(topology.free_cores(&hosting), (2..64).collect::<Vec<_>>());
        let places = topology.places_near(&"1:CPU:62,2:CUDA:1".parse().unwrap()).unwrap();
        assert_eq!(places.as_slice(), [(2..64).collect(), vec![0], vec![1]]);
        let cores = |units: &str| -> Vec<Vec<usize>> {
            let machine = Machine::plan(&units.parse().unwrap(), None, &topology).unwrap();
            machine.units().iter().map(|unit| unit.cores.clone()).collect()
        };
        assert_eq!(cores("1:CPU:62,2:CUDA:1"), [(2..64).collect(), vec![0], vec![1]], "by default");
        assert_eq!(cores("1:CPU:2,1:EMU:1"), [vec![0, 1], vec![2]], "an emulated unit needs no accelerator");
        assert_eq!(
            cores("1:CPU:64,1:CUDA:1"),
            [(0..64).collect(), vec![0]],
            "too few cores to leave the hosting core free"
        );
    }

    #[test]
    fn hosting_cores_are_physically_distinct_in_both_orders() {
        for scheme in [MappingScheme::RoundRobin, MappingScheme::Linear] {
            let sys = tempfile::tempdir().unwrap();
            machine(sys.path(), 2, 8, 2, scheme);
            // There is one more accelerator than a socket has cores.
            (0..9).for_each(|n| accelerator(sys.path(), &format!("0000:0{n}:00.0"), "0x10de", "0x030200", "0-31"));
            let topology = Topology::from_sysfs(sys.path(), 0..32);
            assert_eq!((topology.mapping_scheme(), topology.num_physical_cores()), (scheme, 16));
            let expected = if scheme == MappingScheme::Linear { [8, 9] } else { [0, 1] };
            assert_eq!([16, 17].map(|core| topology.physical_of(core).unwrap()), expected);
            let hosting = topology.hosting_cores();
            let physical: BTreeSet<_> = hosting.iter().map(|core| topology.physical_of(*core)).collect();
            assert_eq!(physical.len(), 9, "{scheme:?}: {hosting:?}");
        }
    }

    #[test]
    fn container_with_fewer_cores_than_accelerators_shares_them() {
        let sys = tempfile::tempdir().unwrap();
        machine(sys.path(), 2, 8, 2, MappingScheme::Linear);
        for (address, near) in [("0000:01:00.0", "0-15"), ("0000:81:00.0", "16-31"), ("0000:82:00.0", "16-31")] {
            accelerator(sys.path(), address, "0x1002", "0x038000", near);
        }
        let topology = Topology::from_sysfs(sys.path(), [3, 11]).with_cpu_quota(1);
        assert_eq!((topology.num_physical_cores(), topology.is_smt(), topology.cpu_quota()), (1, true, Some(1)));
        assert_eq!(topology.mapping_scheme(), MappingScheme::Linear, "the whole machine's scheme");
        assert_eq!((topology.physical_of(11), topology.physical_of(12)), (Some(3), None));
        assert_eq!(topology.accelerators()[1].nearest, [3, 11], "none of the near cores is allowed");
        assert_eq!(topology.hosting_cores(), [3, 3, 3]);
        let places = topology.places_near(&"1:CPU:2,1:HIP:1".parse().unwrap()).unwrap();
        assert_eq!(places.to_string(), "{11,11},{3}");
    }

    #[test]
    fn adjacent_threads_give_other_scheme_and_unknown_cores_count_as_physical() {
        let sys = tempfile::tempdir().unwrap();
        for logical in 0..4 {
            let cpu = format!("devices/system/cpu/cpu{logical}/topology");
            write(sys.path(), &format!("{cpu}/core_id"), &format!("{}", logical / 2));
            write(sys.path(), &format!("{cpu}/physical_package_id"), "0");
        }
        let topology = Topology::from_sysfs(sys.path(), 0..4);
        assert_eq!((topology.mapping_scheme(), topology.logical_of(1)), (MappingScheme::Other, vec![2, 3]));
        let unknown = Topology::from_sysfs(&sys.path().join("none"), [4, 9]);
        assert_eq!((unknown.num_physical_cores(), unknown.physical_of(9), unknown.is_smt()), (2, Some(9), false));
        assert!(unknown.numa_nodes().is_empty() && unknown.hosting_cores().is_empty());
        assert!(Topology::from_cores(vec![]).places_near(&"1:CPU:1".parse().unwrap()).is_err());
    }
}

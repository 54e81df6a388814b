//! The topology of the machine: the cores that this process may use, how these cores share caches and memory, and the
//! process's CPU quota.
//!
//! Everything except the list of cores is best effort: if the system does not provide a piece of information, it is
//! `None`; detection never fails. This module only reads, and never pins threads. A pinned thread sees only the cores
//! it is pinned to, so the topology must be detected before the detecting thread is pinned.
//!
//! Physical cores are numbered from 0, ordered by socket and then by the system's number within the socket. Cores
//! that this process may not use are included, so the numbers refer to the whole machine, even in a container
//! (Farrelly et al. 2024, §IV-B).
//!
//! Invariants: cores are in ascending order without duplicates; accelerators are in ascending order of their
//! addresses without duplicates.

use super::{MappingScheme, PciAccelerator};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::thread::available_parallelism;

/// A logical core.
///
/// ```
/// use thalweg::machine::Topology;
/// for core in Topology::detect().cores() {
///     println!("core {} of NUMA node {:?}", core.id, core.numa_node);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Core {
    /// The core's number in the system.
    pub id: usize,
    /// The physical core that this logical core is a thread of, numbered as documented for [`Topology`]; `None` if
    /// unknown.
    pub physical: Option<usize>,
    /// The socket of the core's processor; `None` if unknown.
    pub socket: Option<usize>,
    /// The core's NUMA node; `None` if unknown.
    pub numa_node: Option<usize>,
    /// The group of cores that share the core's L3 cache, identified by the lowest core number in the group; `None`
    /// if unknown.
    pub l3_group: Option<usize>,
}

impl Core {
    /// Creates a core with unknown properties.
    const fn bare(id: usize) -> Self {
        Self { id, physical: None, socket: None, numa_node: None, l3_group: None }
    }
}

/// The cores that this process may use, with their known properties. Physical cores are numbered from 0, ordered by
/// socket and then by the system's number within the socket, including the cores that this process may not use.
///
/// ```
/// use thalweg::machine::Topology;
/// let here = Topology::detect();
/// assert!(!here.cores().is_empty());
/// assert!((1..=here.cores().len()).contains(&here.parallelism()));
///
/// let made_up = Topology::from_cores(vec![6, 4]);
/// assert_eq!(made_up.core_ids().collect::<Vec<_>>(), [4, 6]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    cores: Vec<Core>,
    cpu_quota: Option<usize>,
    scheme: MappingScheme,
    accelerators: Vec<PciAccelerator>,
}

impl Topology {
    /// Detects the topology as seen by the calling thread. Call this function before pinning that thread.
    ///
    /// The cores come from the thread's affinity mask, and NUMA nodes and L3 groups from Linux's sysfs. The CPU quota
    /// comes from the control groups (v2 `cpu.max`, v1 `cpu.cfs_quota_us`), read through
    /// [`std::thread::available_parallelism`].
    pub fn detect() -> Self {
        let parallelism = available_parallelism().map_or(1, usize::from);
        let mut cores: BTreeSet<usize> =
            core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect();
        if cores.is_empty() {
            cores = (0..parallelism).collect();
        }
        Self::from_sysfs(Path::new("/sys"), cores).with_cpu_quota(parallelism)
    }

    /// Reads a topology from a copy of Linux's `/sys`, for a process that may use the cores `allowed`.
    pub fn from_sysfs(sys: &Path, allowed: impl IntoIterator<Item = usize>) -> Self {
        let cpus = sys.join("devices/system/cpu");
        let allowed: BTreeSet<usize> = allowed.into_iter().collect();
        let all = physical_cores(&cpus);
        let core = |id: usize| {
            let (physical, socket) = all.get(&id).map_or((None, None), |(core, socket)| (Some(*core), Some(*socket)));
            Core { physical, socket, ..read_core(&cpus, id) }
        };
        Self {
            scheme: MappingScheme::of(&all),
            accelerators: PciAccelerator::all(sys, &allowed),
            ..Self::of(allowed.iter().copied().map(core))
        }
    }

    /// Creates a topology of cores `0..n` with unknown properties.
    pub fn with_cores(n: usize) -> Self {
        Self::of((0..n).map(Core::bare))
    }

    /// Creates a topology of the given cores with unknown properties. Order and duplicates do not matter.
    pub fn from_cores(cores: Vec<usize>) -> Self {
        let cores: BTreeSet<usize> = cores.into_iter().collect();
        Self::of(cores.into_iter().map(Core::bare))
    }

    /// Limits the process to the CPU time of `cpus` CPUs. A quota of at least the number of cores is not a limit.
    #[must_use]
    pub fn with_cpu_quota(mut self, cpus: usize) -> Self {
        self.cpu_quota = (cpus < self.cores.len()).then_some(cpus);
        self
    }

    /// Returns the topology of a process that may use only those of its cores that are in `cores`.
    pub(super) fn only(mut self, cores: &BTreeSet<usize>) -> Self {
        self.cores.retain(|core| cores.contains(&core.id));
        self.accelerators.iter_mut().for_each(|one| one.nearest.retain(|core| cores.contains(core)));
        self.cpu_quota = self.cpu_quota.filter(|quota| *quota < self.cores.len());
        self
    }

    /// Adds an accelerator near these cores.
    #[cfg(test)]
    pub(super) fn with_accelerator(mut self, kind: super::AcceleratorKind, nearest: Vec<usize>) -> Self {
        self.accelerators.push(PciAccelerator { address: "0000:01:00.0".to_owned(), kind, numa_node: None, nearest });
        self
    }

    fn of(cores: impl Iterator<Item = Core>) -> Self {
        Self { cores: cores.collect(), cpu_quota: None, scheme: MappingScheme::RoundRobin, accelerators: Vec::new() }
    }

    /// Returns the cores that this process may use, in ascending order.
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// Returns the numbers of the cores that this process may use, in ascending order.
    pub fn core_ids(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.cores.iter().map(|core| core.id)
    }

    /// Returns whether this process may use the core.
    pub fn contains(&self, core: usize) -> bool {
        self.cores.binary_search_by_key(&core, |c| c.id).is_ok()
    }

    /// Returns the number of physical cores to which the logical cores belong. A core with unknown properties counts
    /// as a separate physical core.
    pub fn num_physical_cores(&self) -> usize {
        self.cores.iter().map(|core| self.physical_of(core.id)).collect::<BTreeSet<_>>().len()
    }

    /// Returns whether any two logical cores are threads of the same physical core.
    pub fn is_smt(&self) -> bool {
        self.num_physical_cores() < self.cores.len()
    }

    /// Returns the scheme by which the system assigns logical core numbers to physical cores.
    pub fn mapping_scheme(&self) -> MappingScheme {
        self.scheme
    }

    /// Returns the physical core that a logical core is a thread of; `None` if this process may not use the logical
    /// core.
    pub fn physical_of(&self, core: usize) -> Option<usize> {
        let at = self.cores.binary_search_by_key(&core, |c| c.id).ok()?;
        Some(self.cores[at].physical.unwrap_or(core))
    }

    /// Returns the logical cores that are threads of a physical core and that this process may use.
    ///
    /// ```
    /// use thalweg::machine::Topology;
    /// let here = Topology::detect();
    /// for core in here.core_ids() {
    ///     assert!(here.logical_of(here.physical_of(core).unwrap()).contains(&core));
    /// }
    /// ```
    pub fn logical_of(&self, physical: usize) -> Vec<usize> {
        self.core_ids().filter(|core| self.physical_of(*core) == Some(physical)).collect()
    }

    /// Returns the NUMA nodes with their cores, as far as they are known.
    pub fn numa_nodes(&self) -> BTreeMap<usize, Vec<usize>> {
        let mut nodes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for core in &self.cores {
            core.numa_node.into_iter().for_each(|node| nodes.entry(node).or_default().push(core.id));
        }
        nodes
    }

    /// Returns the accelerators on the PCI bus, whether or not an interface to them is installed.
    pub fn accelerators(&self) -> &[PciAccelerator] {
        &self.accelerators
    }

    /// Returns the CPU time that the process may use, in whole CPUs (rounded down, at least 1); `None` if its cores
    /// are the only limit.
    pub fn cpu_quota(&self) -> Option<usize> {
        self.cpu_quota
    }

    /// Returns the number of threads that can make progress at the same time: the number of cores, or the CPU quota
    /// if that is less.
    pub fn parallelism(&self) -> usize {
        self.cpu_quota.unwrap_or(self.cores.len())
    }
}

/// Returns the physical core and the socket of every logical core in the machine, by logical core number.
fn physical_cores(cpus: &Path) -> BTreeMap<usize, (usize, usize)> {
    let read = |id: usize, file: &str| -> Option<usize> {
        fs::read_to_string(cpus.join(format!("cpu{id}/topology/{file}"))).ok()?.trim().parse().ok()
    };
    let ids = fs::read_dir(cpus).into_iter().flatten().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok());
    let known: BTreeMap<usize, (usize, usize)> =
        ids.filter_map(|id| Some((id, (read(id, "physical_package_id")?, read(id, "core_id")?)))).collect();
    let order: BTreeSet<(usize, usize)> = known.values().copied().collect();
    let number: BTreeMap<(usize, usize), usize> = order.into_iter().zip(0..).collect();
    known.into_iter().map(|(id, place)| (id, (number[&place], place.0))).collect()
}

/// Reads the properties of one core from sysfs.
fn read_core(sysfs: &Path, id: usize) -> Core {
    let core = sysfs.join(format!("cpu{id}"));
    Core { numa_node: numa_node(&core), l3_group: l3_group(&core), ..Core::bare(id) }
}

/// Returns a core's NUMA node, which is the `N` of the entry `nodeN` in the core's directory.
fn numa_node(core: &Path) -> Option<usize> {
    fs::read_dir(core)
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("node")?.parse().ok())
        .min()
}

/// Returns the lowest core that shares a core's level 3 cache. The cache's directory `cache/indexN` lists all of
/// these cores in the form "0-3,8".
fn l3_group(core: &Path) -> Option<usize> {
    let read = |dir: &Path, file| fs::read_to_string(dir.join(file)).ok();
    let mut caches = fs::read_dir(core.join("cache")).ok()?.flatten().map(|entry| entry.path());
    let l3 = caches.find(|cache| read(cache, "level").is_some_and(|level| level.trim() == "3"))?;
    let shared = read(&l3, "shared_cpu_list")?;
    shared.split(['-', ',']).next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn detected_topology_has_cores_and_plausible_quota() {
        let here = Topology::detect();
        assert!(!here.cores().is_empty());
        assert!(here.cores().windows(2).all(|pair| pair[0].id < pair[1].id));
        assert_eq!(here.parallelism(), available_parallelism().unwrap().get());
        assert!(here.cpu_quota().is_none_or(|quota| quota < here.cores().len()));
    }

    #[test]
    fn pinned_thread_sees_one_core() {
        let last = Topology::detect().core_ids().last().unwrap();
        let pinned = std::thread::spawn(move || {
            core_affinity::set_for_current(core_affinity::CoreId { id: last })
                .then(|| Topology::detect().core_ids().collect::<Vec<_>>())
        });
        // If the system does not allow the thread to be pinned, there is nothing to check.
        if let Some(cores) = pinned.join().unwrap() {
            assert_eq!(cores, [last]);
        }
    }

    #[test]
    fn made_up_topologies_sort_and_deduplicate_cores() {
        assert_eq!(Topology::with_cores(3).core_ids().collect::<Vec<_>>(), [0, 1, 2]);
        let some = Topology::from_cores(vec![9, 2, 9, 5]);
        assert_eq!(some.core_ids().collect::<Vec<_>>(), [2, 5, 9]);
        assert!(some.contains(5) && !some.contains(3));
        assert_eq!(some.parallelism(), 3);
    }

    #[test]
    fn quota_counts_only_below_the_number_of_cores() {
        let machine = Topology::with_cores(4);
        assert_eq!(machine.clone().with_cpu_quota(4).cpu_quota(), None);
        let throttled = machine.with_cpu_quota(2);
        assert_eq!((throttled.cpu_quota(), throttled.parallelism()), (Some(2), 2));
    }

    #[test]
    fn sysfs_gives_node_and_l3_group() {
        let sysfs = tempfile::tempdir().unwrap();
        let cpu = sysfs.path().join("cpu5");
        fs::create_dir_all(cpu.join("node1")).unwrap();
        write(&cpu.join("cache/index0/level"), "1\n");
        write(&cpu.join("cache/index0/shared_cpu_list"), "5\n");
        write(&cpu.join("cache/index3/level"), "3\n");
        write(&cpu.join("cache/index3/shared_cpu_list"), "4-7,12-15\n");
        let expected = Core { numa_node: Some(1), l3_group: Some(4), ..Core::bare(5) };
        assert_eq!(read_core(sysfs.path(), 5), expected);
    }

    #[test]
    fn properties_missing_in_sysfs_are_none() {
        let sysfs = tempfile::tempdir().unwrap();
        assert_eq!(read_core(sysfs.path(), 0), Core::bare(0));
        let cpu = sysfs.path().join("cpu1");
        fs::create_dir_all(cpu.join("node_backup")).unwrap();
        write(&cpu.join("cache/index2/level"), "2\n");
        write(&cpu.join("cache/index3/level"), "3\n");
        write(&cpu.join("cache/index3/shared_cpu_list"), "?\n");
        assert_eq!(read_core(sysfs.path(), 1), Core::bare(1));
    }
}

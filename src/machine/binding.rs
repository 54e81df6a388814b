//! Abstract names in `OMP_PLACES`, which specify how far each unit's threads may move away from the unit's cores.
//!
//! In OpenMP, an abstract name divides the machine into places of one sort (OpenMP API specification 5.2, section
//! 21.1.6). Here, units already have cores, so an abstract name instead widens the set of cores that a unit's threads
//! are bound to. A number of places in parentheses limits the machine to the cores of its first places of that sort.
//! This module itself binds no threads.
//!
//! Invariant: the cores that a unit's threads are bound to include all cores of the unit, and exclude cores that the
//! process may not use, unless a place lists them.

use super::{Core, Machine, Topology};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::str::FromStr;

/// The sort of place that a thread is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Granule {
    /// `threads`: the logical cores of the unit.
    Threads,
    /// `cores`: all logical cores of the unit's physical cores.
    Cores,
    /// `ll_caches`: all cores that share an L3 cache with the unit's cores.
    LastLevelCaches,
    /// `numa_domains`: all cores of the unit's NUMA nodes.
    NumaDomains,
    /// `sockets`: all cores of the unit's sockets.
    Sockets,
}

impl Granule {
    /// Returns the number of the core's group; `None` if the core is alone in its group.
    fn group(self, core: &Core) -> Option<usize> {
        match self {
            Self::Threads => None,
            Self::Cores => core.physical,
            Self::LastLevelCaches => core.l3_group,
            Self::NumaDomains => core.numa_node,
            Self::Sockets => core.socket,
        }
    }
}

/// An abstract name, with the number of places if there is one: `cores`, `sockets(1)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AbstractPlaces {
    pub(crate) granule: Granule,
    pub(crate) count: Option<NonZeroUsize>,
}

impl FromStr for AbstractPlaces {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let Some((name, count)) = text.trim().split_once('(') else {
            return Ok(Self { granule: text.parse()?, count: None });
        };
        let count = count.strip_suffix(')').ok_or(())?.trim();
        let count = count.bytes().all(|digit| digit.is_ascii_digit()).then(|| count.parse().ok()).flatten().ok_or(())?;
        Ok(Self { granule: name.parse()?, count: Some(count) })
    }
}

impl AbstractPlaces {
    /// Returns the cores of the first places, as many as the name is followed by; all cores without a number, or if
    /// there are fewer places.
    pub(crate) fn limit(self, topology: Topology) -> Topology {
        let Some(count) = self.count else { return topology };
        let place = |core: &Core| self.granule.group(core).map_or((1, core.id), |group| (0, group));
        let mut kept = BTreeSet::new();
        let of_kept = topology.cores().iter().filter(|core| {
            let place = place(core);
            kept.contains(&place) || (kept.len() < count.get() && kept.insert(place))
        });
        let cores: BTreeSet<usize> = of_kept.map(|core| core.id).collect();
        topology.only(&cores)
    }
}

impl FromStr for Granule {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match &*text.trim().to_ascii_lowercase() {
            "threads" => Self::Threads,
            "cores" => Self::Cores,
            "ll_caches" => Self::LastLevelCaches,
            "numa_domains" => Self::NumaDomains,
            "sockets" => Self::Sockets,
            _ => return Err(()),
        })
    }
}

impl Machine {
    /// Returns the cores that each unit's threads are bound to, starting with the unit's own cores. A core whose
    /// neighbours are unknown forms a group of its own.
    pub(crate) fn bindings(&self, granule: Granule, topology: &Topology) -> Vec<Vec<usize>> {
        let group = |core: &Core| granule.group(core);
        let of_unit = |own: &Vec<usize>| {
            let is_own = |core: &&Core| own.contains(&core.id);
            let groups: Vec<usize> = topology.cores().iter().filter(is_own).filter_map(group).collect();
            let is_near = |core: &&Core| group(core).is_some_and(|group| groups.contains(&group));
            let near = topology.cores().iter().filter(is_near).map(|core| core.id);
            let mut cores = own.clone();
            cores.extend(near.filter(|core| !own.contains(core)));
            cores
        };
        self.units.iter().map(|unit| of_unit(&unit.cores)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn abstract_places_widen_to_all_cores_of_their_kind() {
        let sys = tempfile::tempdir().unwrap();
        // Two sockets of two physical cores with two threads each. The second threads are numbered after all first
        // threads.
        for core in 0..8 {
            let cpu = sys.path().join(format!("devices/system/cpu/cpu{core}"));
            let (physical, node) = (core % 4, core % 4 / 2);
            fs::create_dir_all(cpu.join("topology")).unwrap();
            fs::create_dir_all(cpu.join(format!("node{node}"))).unwrap();
            fs::create_dir_all(cpu.join("cache/index3")).unwrap();
            for (file, text) in [
                ("topology/core_id", (physical % 2).to_string()),
                ("topology/physical_package_id", node.to_string()),
                ("cache/index3/level", "3".to_owned()),
                ("cache/index3/shared_cpu_list", format!("{physical},{}", physical + 4)),
            ] {
                fs::write(cpu.join(file), text).unwrap();
            }
        }
        let topology = Topology::from_sysfs(sys.path(), 0..7); // all except the last core
        let machine = Machine::plan(&"1:CPU:1,1:CPU:2".parse().unwrap(), None, &topology).unwrap();
        for (name, first, second) in [
            (" Threads", vec![0], vec![1, 2]),
            ("cores", vec![0, 4], vec![1, 2, 5, 6]),
            ("ll_caches", vec![0, 4], vec![1, 2, 5, 6]),
            ("numa_domains", vec![0, 1, 4, 5], vec![1, 2, 0, 3, 4, 5, 6]),
            ("sockets", vec![0, 1, 4, 5], vec![1, 2, 0, 3, 4, 5, 6]),
        ] {
            assert_eq!(machine.bindings(name.parse().unwrap(), &topology), [first, second], "{name}");
        }
        let unknown = Topology::with_cores(3);
        assert_eq!(machine.bindings(Granule::Sockets, &unknown), [vec![0], vec![1, 2]]);
        let limited = |text: &str, topology: &Topology| {
            let places: AbstractPlaces = text.parse().unwrap();
            places.limit(topology.clone()).core_ids().collect::<Vec<_>>()
        };
        for (text, cores) in [
            ("sockets", vec![0, 1, 2, 3, 4, 5, 6]),
            ("sockets(1)", vec![0, 1, 4, 5]),
            ("numa_domains( 1 )", vec![0, 1, 4, 5]),
            ("cores(3)", vec![0, 1, 2, 4, 5, 6]),
            ("Threads(3)", vec![0, 1, 2]),
            ("cores(99)", vec![0, 1, 2, 3, 4, 5, 6]),
        ] {
            assert_eq!(limited(text, &topology), cores, "{text}");
        }
        assert_eq!(limited("sockets(2)", &unknown), [0, 1], "each core of an unknown socket is a separate place");
        let gpu = topology.clone().with_accelerator(crate::machine::AcceleratorKind::CudaGpu, vec![6, 2]);
        let one: AbstractPlaces = "threads(3)".parse().unwrap();
        assert_eq!(one.limit(gpu).hosting_cores(), [2], "a hosting core is among the cores that are left");
        for text in ["cores(0)", "cores()", "cores(2", "cores(+2)", "cores(-1)", "cores 2)", "(2)", "cores(2)x", ""] {
            assert_eq!(text.parse::<AbstractPlaces>(), Err(()), "{text}");
        }
    }
}

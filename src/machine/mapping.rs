//! Schemes by which systems assign logical core numbers to physical cores (Farrelly et al. 2024, §IV-B).

use std::collections::BTreeMap;

/// The order in which a machine's logical cores are numbered.
///
/// ```
/// use thalweg::machine::MappingScheme;
/// // Two sockets of 8 cores with 2 threads each.
/// let physical = |scheme: MappingScheme, core| scheme.physical_of(core, 2, 8, 2);
/// assert_eq!([16, 17].map(|core| physical(MappingScheme::RoundRobin, core)), [Some(0), Some(1)]);
/// assert_eq!([16, 17].map(|core| physical(MappingScheme::Linear, core)), [Some(8), Some(9)]);
/// assert_eq!(MappingScheme::Linear.logical_of(8, 2, 8, 2), Some(vec![16, 24]));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MappingScheme {
    /// The first threads of all physical cores are numbered first, then the second threads of all physical cores, as
    /// on most machines. Machines with one thread per core also count as round robin.
    RoundRobin,
    /// Cores are numbered socket by socket, and round robin within each socket.
    Linear,
    /// Any other order. There is no formula for the physical core; use [`Topology::physical_of`].
    ///
    /// [`Topology::physical_of`]: super::Topology::physical_of
    Other,
}

impl MappingScheme {
    /// Returns the physical core of a logical core, on a machine with this many sockets, physical cores per socket,
    /// and threads per physical core. Returns `None` for [`Self::Other`], or if there is no such core.
    pub fn physical_of(self, logical: usize, sockets: usize, cores: usize, threads: usize) -> Option<usize> {
        if logical >= sockets * cores * threads {
            return None;
        }
        match self {
            Self::RoundRobin => Some(logical % (sockets * cores)),
            Self::Linear => Some(logical / (cores * threads) * cores + logical % cores),
            Self::Other => None,
        }
    }

    /// Returns the logical cores that are threads of a physical core, in ascending order. Returns `None` for
    /// [`Self::Other`], or if there is no such core.
    pub fn logical_of(self, physical: usize, sockets: usize, cores: usize, threads: usize) -> Option<Vec<usize>> {
        if physical >= sockets * cores {
            return None;
        }
        match self {
            Self::RoundRobin => Some((0..threads).map(|thread| thread * sockets * cores + physical).collect()),
            Self::Linear => {
                let (socket, core) = (physical / cores, physical % cores);
                Some((0..threads).map(|thread| (socket * threads + thread) * cores + core).collect())
            }
            Self::Other => None,
        }
    }

    /// Determines the scheme from the physical core and the socket of each logical core.
    pub(super) fn of(cores: &BTreeMap<usize, (usize, usize)>) -> Self {
        let count = |of: fn(&(usize, usize)) -> usize| {
            let all: std::collections::BTreeSet<usize> = cores.values().map(of).collect();
            all.len()
        };
        let (physical, sockets) = (count(|core| core.0).max(1), count(|core| core.1).max(1));
        let (per_socket, threads) = (physical / sockets, cores.len() / physical);
        let fits = |scheme: &Self| {
            let formula = |logical| scheme.physical_of(logical, sockets, per_socket, threads);
            cores.iter().all(|(logical, (physical, _))| formula(*logical) == Some(*physical))
        };
        [Self::RoundRobin, Self::Linear].into_iter().find(fits).unwrap_or(Self::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(scheme: MappingScheme) -> Vec<usize> {
        (0..32).map(|core| scheme.physical_of(core, 2, 8, 2).unwrap()).collect()
    }

    #[test]
    fn orders_of_two_sockets_match_the_paper() {
        let round: Vec<usize> = (0..16).chain(0..16).collect();
        let linear: Vec<usize> = (0..8).chain(0..8).chain(8..16).chain(8..16).collect();
        assert_eq!((all(MappingScheme::RoundRobin), all(MappingScheme::Linear)), (round, linear));
        assert_eq!(MappingScheme::RoundRobin.physical_of(32, 2, 8, 2), None);
        assert_eq!(MappingScheme::Other.logical_of(0, 2, 8, 2), None);
    }

    proptest! {
        #[test]
        fn mapping_functions_are_inverse_and_order_is_recognised(
            sockets in 1usize..5,
            cores in 1usize..9,
            threads in 1usize..5,
            linear: bool,
        ) {
            let scheme = if linear { MappingScheme::Linear } else { MappingScheme::RoundRobin };
            let mut known = BTreeMap::new();
            for physical in 0..sockets * cores {
                let logical = scheme.logical_of(physical, sockets, cores, threads).unwrap();
                prop_assert!(logical.len() == threads && logical.is_sorted());
                for core in logical {
                    prop_assert_eq!(scheme.physical_of(core, sockets, cores, threads), Some(physical));
                    prop_assert!(known.insert(core, (physical, physical / cores)).is_none());
                }
            }
            prop_assert_eq!(known.len(), sockets * cores * threads);
            let found = MappingScheme::of(&known);
            // With one socket, or with one thread per core, the two orders are the same.
            prop_assert_eq!(found, if sockets == 1 || threads == 1 { MappingScheme::RoundRobin } else { scheme });
        }
    }
}

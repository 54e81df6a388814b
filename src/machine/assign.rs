//! Assignment of cores to units: either consecutive cores, or the cores listed in `OMP_PLACES`. The module `hosting`
//! assigns cores near accelerators.
//!
//! Consecutive cores follow Figure 5 and Table 2 of Gonzalez Tallada and Morancho, "Evaluation of work distribution
//! schedulers" (2024). As in OpenMP, places are taken literally: a place that overlaps another place, or that
//! contains cores that this process may not use, only causes a warning.
//!
//! Nothing here pins a thread. Invariant: every unit gets at least one core.

use std::collections::{BTreeMap, BTreeSet};

use super::{ConfigError, Places, Topology, UnitKind, Warning};
use crate::ids::UnitId;

/// A request for one unit: the unit's kind, and its number of cores (CPU unit) or devices (device unit).
#[derive(Clone, Copy)]
pub(super) struct UnitRequest {
    pub(super) kind: UnitKind,
    pub(super) size: usize,
}

impl UnitRequest {
    /// Returns the number of cores that the unit needs: all of its cores for a CPU unit, or one hosting core for a
    /// device unit.
    fn num_cores(self) -> usize {
        if self.kind.is_device() { 1 } else { self.size }
    }
}

/// Returns the total number of cores that the units need if they share none.
pub(super) fn num_cores(requests: &[UnitRequest]) -> usize {
    requests.iter().map(|request| request.num_cores()).sum()
}

/// The cores of each unit.
pub(super) type Cores = Vec<Vec<usize>>;

/// Assigns cores in ascending order, to CPU units first. When the cores run out, assignment starts over from the
/// first core.
pub(super) fn consecutive_cores(
    requests: &[UnitRequest],
    topology: &Topology,
) -> Result<(Cores, Vec<Warning>), ConfigError> {
    let available = topology.cores().len();
    if available == 0 {
        return Err(ConfigError::NoCores);
    }
    let mut next = topology.cores().iter().map(|core| core.id).cycle();
    let cores = requests.iter().map(|request| next.by_ref().take(request.num_cores()).collect());
    let cores = cores.collect();
    let asked = num_cores(requests);
    let shared = (asked > available).then_some(Warning::SharedCores { asked, available });
    Ok((cores, shared.into_iter().collect()))
}

/// Assigns each place to its unit unchanged, after checking that the place fits the unit.
pub(super) fn placed_cores(
    requests: &[UnitRequest],
    places: &Places,
    topology: &Topology,
) -> Result<(Cores, Vec<Warning>), ConfigError> {
    if topology.cores().is_empty() {
        return Err(ConfigError::NoCores);
    }
    let places = places.as_slice();
    if places.len() < requests.len() {
        return Err(ConfigError::TooFewPlaces { places: places.len(), units: requests.len() });
    }
    let (mut overlapping, mut not_allowed) = (Vec::new(), Vec::new());
    let mut users: BTreeMap<usize, UnitId> = BTreeMap::new();
    for ((unit, request), place) in ids().zip(requests).zip(places) {
        if !request.kind.is_device() && place.len() != request.size {
            return Err(ConfigError::PlaceSize { unit, place_size: place.len(), unit_size: request.size });
        }
        let mut sorted = place.clone();
        sorted.sort_unstable();
        for same in sorted.chunk_by(|a, b| a == b) {
            let core = same[0];
            let repeated = (same.len() > 1).then_some(unit);
            if let Some(first) = users.insert(core, unit).or(repeated) {
                let second = unit;
                overlapping.push(Warning::OverlappingPlaces { core, first, second });
            }
            if !topology.contains(core) {
                not_allowed.push(Warning::CoreNotAllowed { core, unit });
            }
        }
    }
    overlapping.extend(not_allowed);
    Ok((places[..requests.len()].to_vec(), overlapping))
}

/// Returns a warning if the CPU quota is less than the number of cores in use.
pub(super) fn over_quota(cores: &Cores, topology: &Topology) -> Option<Warning> {
    let quota = topology.cpu_quota()?;
    let used: BTreeSet<usize> = cores.iter().flatten().copied().collect();
    let cores = used.len();
    (cores > quota).then_some(Warning::OverQuota { cores, quota })
}

/// Returns unit IDs, starting from 0. A configuration has at most `MAX_UNITS` units, so the IDs cannot run out.
pub(super) fn ids() -> impl Iterator<Item = UnitId> {
    (0..=u16::MAX).map(UnitId)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    fn plan(config: &str, places: Option<&str>, topology: &Topology) -> Result<Machine, ConfigError> {
        let places: Option<Places> = places.map(|text| text.parse().unwrap());
        Machine::plan(&config.parse().unwrap(), places.as_ref(), topology)
    }

    /// Plans a machine on cores `0..n`, and returns the cores of each unit and the warnings.
    fn cores(config: &str, places: Option<&str>, n: usize) -> (Cores, Vec<Warning>) {
        let machine = plan(config, places, &Topology::with_cores(n)).unwrap();
        (machine.units().iter().map(|unit| unit.cores.clone()).collect(), machine.warnings().to_vec())
    }

    /// Without places, units get the cores listed in "Evaluation of work distribution schedulers", Table 2.
    #[test]
    fn consecutive_cores_match_table_2() {
        for (config, places) in [
            ("1:CPU:2,4:EMU:1", "{0:2}:1:1, {2}:4:1"),
            ("4:CPU:2,1:EMU:1", "{0:2}:4:2, {8}:1:1"),
            ("7:CPU:2,2:EMU:1", "{0:2}:7:2, {14}:2:1"),
            ("3:CPU:4,4:EMU:1", "{0:4}:3:4, {12}:4:1"),
        ] {
            let placed = cores(config, Some(places), 16);
            assert_eq!(placed.1, []);
            assert_eq!(cores(config, None, 16), placed, "{config}");
        }
    }

    /// The table's line for 1x4+1 has a place with only three cores; see the test that parses this line.
    #[test]
    fn place_of_other_size_than_its_unit_is_refused() {
        let topology = Topology::with_cores(16);
        let e = plan("1:CPU:4,1:EMU:1", Some("{0:3}:1:1, {4}:1:1"), &topology).unwrap_err();
        assert_eq!(e, ConfigError::PlaceSize { unit: UnitId(0), place_size: 3, unit_size: 4 });
        assert_eq!(
            e.to_string(),
            "place 0 of OMP_PLACES has 3 cores, but CPU unit 0 is configured with 4; make both the same"
        );
    }

    #[test]
    fn only_allowed_cores_are_used() {
        let topology = Topology::from_cores(vec![3, 5, 11]);
        let machine = plan("1:CPU:2,1:EMU:1", None, &topology).unwrap();
        assert_eq!(machine.unit(UnitId(0)).cores, [3, 5]);
        assert_eq!(machine.unit(UnitId(1)).cores, [11]);
        assert_eq!(machine.warnings(), []);
    }

    #[test]
    fn too_few_cores_go_round_robin() {
        let (cores, warnings) = cores("2:CPU:2,1:EMU:3", None, 3);
        assert_eq!(cores, [vec![0, 1], vec![2, 0], vec![1]]);
        assert_eq!(warnings, [Warning::SharedCores { asked: 5, available: 3 }]);
    }

    #[test]
    fn topology_without_cores_is_refused() {
        let topology = Topology::from_cores(vec![]);
        assert_eq!(plan("1:CPU:1", None, &topology), Err(ConfigError::NoCores));
        assert_eq!(plan("1:CPU:1", Some("{0}"), &topology), Err(ConfigError::NoCores));
    }

    #[test]
    fn fewer_places_than_units_are_refused() {
        let topology = Topology::with_cores(8);
        let e = plan("4:CPU:1,1:EMU:1", Some("{0}:4"), &topology).unwrap_err();
        assert_eq!(e, ConfigError::TooFewPlaces { places: 4, units: 5 });
        assert!(e.to_string().ends_with("list at least 5, one per unit"), "{e}");
        // Spare places are neither used nor checked.
        let spare = cores("1:CPU:1", Some("{1},{1},{99}"), 8);
        assert_eq!(spare, (vec![vec![1]], vec![]));
    }

    #[test]
    fn device_unit_gets_all_cores_of_its_place() {
        let machine = plan("1:EMU:1", Some("{2,3}"), &Topology::with_cores(4)).unwrap();
        let unit = machine.unit(UnitId(0));
        assert_eq!((unit.hosting_core(), unit.inner_cores()), (2, 2));
    }

    #[test]
    fn unusual_places_are_kept_with_warnings() {
        let (placed, warnings) = cores("3:CPU:2", Some("{0,1},{1,2},{9,9}"), 4);
        assert_eq!(placed, [[0, 1], [1, 2], [9, 9]]);
        let [one, two, three] = [UnitId(0), UnitId(1), UnitId(2)];
        assert_eq!(
            warnings,
            [
                Warning::OverlappingPlaces { core: 1, first: one, second: two },
                Warning::OverlappingPlaces { core: 9, first: three, second: three },
                Warning::CoreNotAllowed { core: 9, unit: three },
            ]
        );
        assert_eq!(
            warnings[0].to_string(),
            "OMP_PLACES lists core 1 more than once, for unit 0 and unit 1: they share it"
        );
        assert!(warnings[2].to_string().contains("gives core 9 to unit 2"));
    }

    #[test]
    fn quota_below_cores_in_use_gives_warning() {
        let topology = Topology::with_cores(8).with_cpu_quota(2);
        assert_eq!(plan("2:CPU:1", None, &topology).unwrap().warnings(), []);
        let machine = plan("1:CPU:2,1:EMU:1", None, &topology).unwrap();
        let warnings = machine.warnings();
        assert_eq!(warnings, [Warning::OverQuota { cores: 3, quota: 2 }]);
        assert!(warnings[0].to_string().contains("use 3 cores, but the CPU quota of this process is 2"));
    }
}

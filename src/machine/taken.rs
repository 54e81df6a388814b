//! Which cores the runtimes of this process have taken, so that two runtimes do not pin their threads to the same ones.
//!
//! Other processes, and threads that are not a runtime's, are not seen.

use super::{ConfigError, Machine, Places, Topology, UnitConfig, Warning};
use crate::sync::share;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// How many runtimes have each core.
static TAKEN: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// A runtime's hold on its cores, until dropped.
#[derive(Debug)]
pub(crate) struct CoresTaken(BTreeSet<usize>);

impl CoresTaken {
    /// Plans a machine ([`Machine::plan`]) and takes its cores. Without places, those come first that nobody has taken;
    /// a core that somebody has is a [`Warning::CoresTaken`].
    pub(crate) fn plan(
        config: &UnitConfig,
        places: Option<&Places>,
        topology: &Topology,
    ) -> Result<(Machine, Vec<Warning>, Self), ConfigError> {
        let (_unforked, mut taken) = (share(), TAKEN.lock());
        let (mut machine, mut warnings) = Machine::plan(config, places, topology)?;
        if places.is_none() {
            machine.reorder_cores(topology, |core| taken.contains_key(&core));
        }
        let own: BTreeSet<usize> = machine.units.iter().flat_map(|unit| unit.cores.iter().copied()).collect();
        let shared: Vec<usize> = own.iter().copied().filter(|core| taken.contains_key(core)).collect();
        if !shared.is_empty() {
            warnings.push(Warning::CoresTaken { cores: shared });
        }
        own.iter().for_each(|core| *taken.entry(*core).or_default() += 1);
        Ok((machine, warnings, Self(own)))
    }
}

impl Drop for CoresTaken {
    fn drop(&mut self) {
        let (_unforked, mut taken) = (share(), TAKEN.lock());
        for core in &self.0 {
            if let Some(runtimes) = taken.get_mut(core) {
                *runtimes -= 1;
                if *runtimes == 0 {
                    taken.remove(core);
                }
            }
        }
    }
}

impl Machine {
    /// Puts the cores that are `late` behind the others, and gives units what stands where their cores stood.
    fn reorder_cores(&mut self, topology: &Topology, late: impl Fn(usize) -> bool) {
        let (last, mut order): (Vec<usize>, Vec<usize>) = topology.core_ids().partition(|core| late(*core));
        order.extend(last);
        let instead: BTreeMap<usize, usize> = topology.core_ids().zip(order).collect();
        for core in self.units.iter_mut().flat_map(|unit| &mut unit.cores) {
            *core = instead[core];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(
        config: &str,
        places: Option<&str>,
        cores: std::ops::Range<usize>,
    ) -> (Vec<usize>, Vec<Warning>, CoresTaken) {
        let places: Option<Places> = places.map(|places| places.parse().unwrap());
        let topology = Topology::from_cores(cores.collect());
        let (machine, warnings, taken) =
            CoresTaken::plan(&config.parse().unwrap(), places.as_ref(), &topology).unwrap();
        (machine.units().iter().flat_map(|unit| unit.cores.clone()).collect(), warnings, taken)
    }

    #[test]
    fn the_next_runtime_gets_free_cores_first() {
        // Cores that no runtime of another test is likely to have: this is the whole process's matter.
        let here = 900..904;
        let (first, warnings, held) = plan("1:CPU:2,1:EMU:1", None, here.clone());
        assert_eq!((first, warnings), (vec![900, 901, 902], vec![]));
        let (second, warnings, too) = plan("2:CPU:1", None, here.clone());
        assert_eq!(second, [903, 900]);
        assert_eq!(warnings, [Warning::CoresTaken { cores: vec![900] }]);
        drop(held);
        let (third, warnings, _held) = plan("2:CPU:1", None, here.clone());
        assert_eq!(
            (third, warnings),
            (vec![901, 902], vec![]),
            "what the first had is free, but for what the second has"
        );
        let (placed, warnings, _) = plan("1:CPU:1", Some("{903}"), here.clone());
        assert_eq!((placed, warnings.len()), (vec![903], 1), "places are taken at their word");
        drop(too);
        let (placed, warnings, _) = plan("1:CPU:1", Some("{903}"), here);
        assert_eq!((placed, warnings), (vec![903], vec![]));
    }
}

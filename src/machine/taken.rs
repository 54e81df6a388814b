//! The cores that runtimes have bound their threads to. A table records the cores within this process, and a claim on
//! each core informs other processes.
//!
//! This module binds no threads itself. Threads that do not belong to a runtime are not detected.
//!
//! Invariant: each core in the table is held by at least one runtime in this process. The table also holds the claim
//! on the core, unless another process held the claim when the core was taken.

use super::claim::Claim;
use super::{ConfigError, Machine, Places, Topology, UnitConfig, Warning};
use crate::sync::share;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// The table for this process.
static TAKEN: Taken = Taken { name: "thalweg-core", cores: Mutex::new(BTreeMap::new()) };

/// The cores that are held by the runtimes in one process.
pub(crate) struct Taken {
    /// The name prefix of the claims, which are visible to other processes.
    name: &'static str,
    cores: Mutex<BTreeMap<usize, Holders>>,
}

/// The holders of one core.
struct Holders {
    runtimes: usize,
    /// The claim on the core; `None` if another process holds it.
    _claim: Option<Claim>,
}

/// A runtime's hold on its cores, which lasts until it is dropped.
pub(crate) struct CoresTaken {
    taken: &'static Taken,
    cores: BTreeSet<usize>,
}

impl std::fmt::Debug for CoresTaken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CoresTaken").field(&self.cores).finish()
    }
}

impl CoresTaken {
    /// Plans a machine ([`Machine::plan`]), and takes its cores if the runtime's threads are to be bound. Threads are
    /// always bound if `asked`; otherwise, they are bound only if the units fill all cores that the process may use
    /// and no other runtime has any of these cores.
    ///
    /// If no places are given, cores that another runtime has taken are replaced by free cores. Cores that remain
    /// shared cause a [`Warning::CoresTaken`].
    pub(crate) fn plan(
        config: &UnitConfig,
        places: Option<&Places>,
        topology: &Topology,
        asked: bool,
    ) -> Result<(Machine, Option<Self>), ConfigError> {
        TAKEN.plan(config, places, topology, asked)
    }
}

impl Taken {
    fn plan(
        &'static self,
        config: &UnitConfig,
        places: Option<&Places>,
        topology: &Topology,
        asked: bool,
    ) -> Result<(Machine, Option<CoresTaken>), ConfigError> {
        let _unforked = share();
        let mut machine = Machine::plan(config, places, topology)?;
        if !asked && !machine.fills(topology) {
            return Ok((machine, None));
        }
        let planned = machine.cores();
        let mut table = self.cores.lock();
        let mut claims = BTreeMap::new();
        let mut is_free = |core: usize| {
            let claim = if table.contains_key(&core) { None } else { Claim::new(self.name, core) };
            claim.map(|claim| claims.insert(core, claim)).is_some()
        };
        let mut others = planned.iter().copied().filter(|core| !is_free(*core)).collect::<Vec<_>>();
        if places.is_none() {
            let mut spare = topology.core_ids().filter(|core| !planned.contains(core));
            others.retain(|core| match spare.find(|spare| is_free(*spare)) {
                Some(spare) => {
                    machine.replace_core(*core, spare);
                    false
                }
                None => true,
            });
        }
        let bound = asked || others.is_empty();
        if !others.is_empty() {
            machine.warn(Warning::CoresTaken { cores: others, bound });
        }
        if !bound {
            return Ok((machine, None));
        }
        let cores = machine.cores();
        for core in &cores {
            let holders = || Holders { runtimes: 0, _claim: claims.remove(core) };
            table.entry(*core).or_insert_with(holders).runtimes += 1;
        }
        Ok((machine, Some(CoresTaken { taken: self, cores })))
    }
}

impl Drop for CoresTaken {
    fn drop(&mut self) {
        let (_unforked, mut table) = (share(), self.taken.cores.lock());
        for core in &self.cores {
            if let Some(holders) = table.get_mut(core) {
                holders.runtimes -= 1;
                if holders.runtimes == 0 {
                    table.remove(core);
                }
            }
        }
    }
}

impl Machine {
    /// Returns the cores of all units.
    fn cores(&self) -> BTreeSet<usize> {
        self.units.iter().flat_map(|unit| unit.cores.iter().copied()).collect()
    }

    /// Returns whether the units use every core that the process may use exactly once.
    fn fills(&self, topology: &Topology) -> bool {
        let uses: usize = self.units.iter().map(|unit| unit.cores.len()).sum();
        uses == topology.cores().len() && topology.core_ids().eq(self.cores())
    }

    fn replace_core(&mut self, planned: usize, instead: usize) {
        let all = self.units.iter_mut().flat_map(|unit| &mut unit.cores);
        all.filter(|core| **core == planned).for_each(|core| *core = instead);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Planned = (Vec<usize>, Vec<Warning>, Option<CoresTaken>);

    /// Creates the table of a simulated separate process. Processes with the same name see each other's claims.
    fn process(name: &str) -> &'static Taken {
        // The process ID keeps test processes that run at the same time from seeing each other's claims.
        let name = format!("thalweg-test-{}-{name}", std::process::id());
        Box::leak(Box::new(Taken { name: name.leak(), cores: Mutex::default() }))
    }

    fn plan(of: &'static Taken, config: &str, places: Option<&str>, cores: usize, asked: bool) -> Planned {
        let places: Option<Places> = places.map(|places| places.parse().unwrap());
        let topology = Topology::with_cores(cores);
        let (machine, taken) = of.plan(&config.parse().unwrap(), places.as_ref(), &topology, asked).unwrap();
        let cores = machine.units().iter().flat_map(|unit| unit.cores.clone()).collect();
        (cores, machine.warnings().to_vec(), taken)
    }

    fn shared(cores: &[usize], bound: bool) -> Vec<Warning> {
        vec![Warning::CoresTaken { cores: cores.to_vec(), bound }]
    }

    #[test]
    fn next_runtime_gets_free_cores_first() {
        // The other runtime is first in the same process, and then in another process, which sees only the claims of
        // the first process.
        for others in [
            |first: &'static Taken| first,
            |first: &'static Taken| {
                let cores = Mutex::default();
                &*Box::leak(Box::new(Taken { name: first.name, cores }))
            },
        ] {
            let here = process("next");
            let (first, warnings, held) = plan(here, "1:CPU:2,1:EMU:1", None, 4, true);
            assert_eq!((first, warnings), (vec![0, 1, 2], vec![]));
            let there = others(here);
            let (second, warnings, too) = plan(there, "2:CPU:1", None, 4, true);
            assert_eq!((second, warnings), (vec![3, 1], shared(&[1], true)));
            drop(held);
            let (third, warnings, third_held) = plan(here, "2:CPU:1", None, 4, true);
            let expected = if std::ptr::eq(here, there) { vec![0, 2] } else { vec![0, 1] };
            assert_eq!((third, warnings), (expected, vec![]), "cores of a runtime that ended are free");
            let (placed, warnings, _) = plan(here, "1:CPU:1", Some("{3}"), 4, true);
            assert_eq!((placed, warnings), (vec![3], shared(&[3], true)), "places are taken literally");
            drop((too, third_held));
            let (placed, warnings, _) = plan(here, "1:CPU:1", Some("{3}"), 4, true);
            assert_eq!((placed, warnings), (vec![3], vec![]));
        }
    }

    #[test]
    fn cores_are_taken_unasked_only_if_units_fill_them() {
        let here = process("fill");
        assert!(plan(here, "1:CPU:3", None, 4, false).2.is_none(), "a core is left to others");
        assert!(plan(here, "5:CPU:1", None, 4, false).2.is_none(), "two units share a core");
        let (_, warnings, held) = plan(here, "1:CPU:3,1:EMU:1", None, 4, false);
        assert!(warnings.is_empty() && held.is_some());
        let (cores, warnings, second) = plan(here, "4:CPU:1", None, 4, false);
        assert!(second.is_none(), "another runtime has them");
        assert_eq!((cores, warnings), (vec![0, 1, 2, 3], shared(&[0, 1, 2, 3], false)));
        drop(held);
        assert!(plan(here, "4:CPU:1", None, 4, false).2.is_some());
    }
}

//! Owners of items such as zones, by the work distributions that one machine uses for its units.
//!
//! A distribution is a function from weights or measured times to an assignment, so it serves ranks as well as units.
//! All ranks pass it the same times and get the same owners.

use crate::cluster::Cluster;
use crate::data::ClusterData;
use crate::error::ClusterError;
use crate::owners::block;
use std::fmt;
use thalweg::sched::{Assignment, Distribution, Neighbour, Team, Times, Workload};

/// Owners of items, which may change between time steps by measured times.
///
/// ```
/// # use thalweg::Runtime;
/// # use thalweg_mpi::{ClusterData, Network, Options};
/// use thalweg_mpi::Balance;
/// use thalweg_mpi::owners::LargestFirst;
/// # let end = Network::new(1).endpoints().remove(0);
/// # let cluster = Options::new().over(end, Runtime::builder().compute_units("1:CPU:1"))?;
/// let mut balance = Balance::new(&cluster, Box::new(LargestFirst), vec![3.0, 1.0, 1.0, 1.0], None);
/// let zones: Vec<_> = (0..4).map(|zone| cluster.data(balance.owner(zone), vec![0.0; 100])).collect();
/// // After a time step, with the times of this rank's zones in nanoseconds:
/// for zone in balance.next(&cluster, &[3e3, 1e3, 1e3, 1e3])? {
///     cluster.migrate(zones[zone].all(), balance.owner(zone))?;
/// }
/// assert!(balance.is_steady());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Balance {
    distribution: Box<dyn Distribution>,
    weights: Vec<f64>,
    neighbours: Option<Vec<Vec<Neighbour>>>,
    team: Team,
    owners: Assignment,
}

impl fmt::Debug for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Balance(`{}`, {} items on {} ranks)", self.distribution.name(), self.weights.len(), self.team.len())
    }
}

impl Balance {
    /// Distributes items with these weights and, if the distribution considers them, neighbours to all ranks.
    pub fn new(
        cluster: &Cluster,
        distribution: Box<dyn Distribution>,
        weights: Vec<f64>,
        neighbours: Option<Vec<Vec<Neighbour>>>,
    ) -> Self {
        // Each rank has its own memory, as a device has.
        let team = Team { cpus: 0, devices: cluster.ranks() };
        let mut balance = Self { distribution, weights, neighbours, team, owners: Assignment::default() };
        balance.owners = balance.assign(None);
        balance
    }

    fn assign(&mut self, times: Option<&Times>) -> Assignment {
        let Self { distribution, weights, neighbours, team, .. } = self;
        distribution.assign(&Workload { team: *team, weights, neighbours: neighbours.as_deref() }, times)
    }

    /// Returns the rank that owns an item.
    ///
    /// # Panics
    /// Panics if there is no such item.
    pub fn owner(&self, item: usize) -> usize {
        self.owners.slots()[item]
    }

    /// Returns whether the owners are final: further times would not change them.
    pub fn is_steady(&self) -> bool {
        self.distribution.is_steady()
    }

    /// Decides the owners of the next time step by the times of the last one, and returns the items that change their
    /// owner; the caller [migrates](Cluster::migrate) their data. Every rank must make this call, and pass the
    /// nanoseconds that each of its items took; it need not know those of others. Waits for all ranks, unless the
    /// owners are final.
    ///
    /// # Errors
    /// The cluster cannot continue.
    ///
    /// # Panics
    /// Panics if there is not one time for each item.
    pub fn next(&mut self, cluster: &Cluster, times_ns: &[f64]) -> Result<Vec<usize>, ClusterError> {
        let items = self.weights.len();
        assert_eq!(times_ns.len(), items, "one time for each item");
        if self.is_steady() {
            return Ok(Vec::new());
        }
        let ranks = self.team.len();
        let all: ClusterData<f64> = cluster.distributed(ranks * items, items, block);
        for tile in all.tiles() {
            let times = times_ns.to_vec();
            cluster.task("times", tile.output()).cpu(move |_, tile| tile.copy_from_slice(&times)).submit()?;
        }
        let all = all.tiles().map(|tile| cluster.read(tile)).collect::<Result<Vec<_>, _>>()?;
        let times = (0..items).map(|item| all[self.owner(item)][item]).collect();
        let times = Times::of(&self.owners, ranks, times);
        let next = self.assign(Some(&times));
        let before = std::mem::replace(&mut self.owners, next);
        let moves = |item: &usize| before.slots()[*item] != self.owners.slots()[*item];
        Ok((0..items).filter(moves).collect())
    }
}

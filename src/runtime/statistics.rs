//! Statistics of a runtime: which unit ran which tasks, and how much was copied.

use crate::driver::shared::Shared;
use crate::energy::{Account, EnergyStatistics};
use crate::engine::{Counts, Traffic};
use crate::ids::{SpaceId, UnitId};
use crate::sched::fpm::SharesInUse;
use crate::sched::{AffinityStatistics, LowerBound};
use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A snapshot of a runtime's counters.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").build()?;
/// let x = rt.data(vec![1.0; 1000]);
/// rt.task("device", (x.inout(),)).emulated(|_, (x,)| x.fill(2.0)).submit()?;
/// rt.wait()?;
/// let statistics = rt.statistics();
/// assert_eq!(statistics.tasks, [(UnitId(0), 0), (UnitId(1), 1)]);
/// println!("{statistics}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Statistics {
    /// The number of tasks that each unit has finished.
    pub tasks: Vec<(UnitId, u64)>,
    /// The number of tasks that ran in host memory on the hosting cores of device units, because no device could run
    /// them and there is no CPU unit. [`tasks`](Self::tasks) also counts them for their units.
    pub tasks_on_hosts: u64,
    /// How long each unit has been running tasks; empty if this is not measured (on the fast path of CPU units).
    pub busy: Vec<(UnitId, Duration)>,
    /// The copies between address spaces.
    pub links: Vec<LinkStatistics>,
    /// The number of replicas that were evicted to make room.
    pub evictions: u64,
    /// The memory traffic that fused loops have saved, which is the number of bytes that the second loop would have
    /// read again. Counted when tasks with such functions are described.
    pub spared_bytes: u64,
    /// How well the scheduler kept the indices of iteration spaces where their data are; `None` if the scheduler does
    /// not count this.
    pub affinity: Option<AffinityStatistics>,
    /// How close to the optimum the scheduler's map of an iteration space is; `None` if the scheduler does not know
    /// (only `certified` does).
    pub bound: Option<LowerBound>,
    /// The shares of an iteration space by functional performance models, if the scheduler uses them (`fpm`).
    pub shares: Option<SharesInUse>,
    /// The energy used, if meters or the power of units are known.
    pub energy: Vec<EnergyStatistics>,
    /// Conflicts between running tasks, if [`Builder::detect_conflicts`](crate::Builder::detect_conflicts) was set.
    /// There are none unless the runtime has an error.
    pub conflicts: Vec<String>,
}

/// The copies from one address space to another.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:EMU:1").build()?;
/// let x = rt.data(vec![1.0; 1000]);
/// rt.task("device", (x.input(),)).emulated(|_, _| ()).submit()?;
/// rt.wait()?;
/// let link = rt.statistics().links[0];
/// assert_eq!((link.from, link.to, link.copies, link.bytes), (SpaceId::HOST, SpaceId(1), 1, 8000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkStatistics {
    /// The source.
    pub from: SpaceId,
    /// The destination.
    pub to: SpaceId,
    /// The number of copies.
    pub copies: u64,
    /// The total number of bytes copied.
    pub bytes: u64,
}

impl Statistics {
    pub(super) fn of(shared: &Shared, account: &Account, elapsed: Duration) -> Self {
        let Counts { traffic, busy_ns, evictions, affinity, bound, shares } = shared.engine.counts();
        let units = || shared.machine.units().iter().map(|unit| unit.id);
        let link = |((from, to), moved): ((SpaceId, SpaceId), Traffic)| LinkStatistics {
            from,
            to,
            copies: moved.copies,
            bytes: moved.bytes,
        };
        let detector = shared.conflicts.as_ref().filter(|_| !shared.is_in_child());
        let busy: Vec<_> = units().zip(busy_ns.into_iter().map(Duration::from_nanos)).collect();
        Self {
            tasks: units().zip(shared.finished_by_unit()).collect(),
            tasks_on_hosts: shared.on_hosts.load(Ordering::Relaxed),
            energy: if shared.is_in_child() { Vec::new() } else { account.statistics(elapsed, &busy) },
            busy,
            links: traffic.into_iter().map(link).collect(),
            evictions,
            spared_bytes: shared.spared.load(Ordering::Relaxed),
            affinity,
            bound,
            shares,
            conflicts: detector.map_or_else(Vec::new, |detector| detector.found()),
        }
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (unit, tasks)) in self.tasks.iter().enumerate() {
            write!(f, "{unit:<10} {tasks:>10} tasks")?;
            match self.busy.get(n) {
                Some((_, busy)) => writeln!(f, " {:>12.3} s", busy.as_secs_f64())?,
                None => writeln!(f)?,
            }
        }
        if self.tasks_on_hosts > 0 {
            writeln!(f, "{} of them on hosting cores, in host memory", self.tasks_on_hosts)?;
        }
        for link in &self.links {
            writeln!(f, "{} -> {}: {} copies, {} bytes", link.from, link.to, link.copies, link.bytes)?;
        }
        if self.evictions > 0 {
            writeln!(f, "{} replicas evicted", self.evictions)?;
        }
        if self.spared_bytes > 0 {
            writeln!(f, "{} bytes not read again by fused loops", self.spared_bytes)?;
        }
        if let Some(AffinityStatistics { hits, migrations, migrated_bytes }) = self.affinity {
            writeln!(f, "indices: {hits} stayed, {migrations} migrated with {migrated_bytes} bytes")?;
        }
        if let Some(bound) = self.bound {
            writeln!(f, "map: {bound}")?;
        }
        if let Some(shares) = &self.shares {
            writeln!(f, "shares: {shares}")?;
        }
        for EnergyStatistics { source, units, total_j, dynamic_j } in &self.energy {
            let units: Vec<String> = units.iter().map(ToString::to_string).collect();
            let whose = if units.is_empty() { "machine".to_owned() } else { units.join(", ") };
            let known = |joules: &Option<f64>| joules.map_or_else(|| "unknown".to_owned(), |j| format!("{j:.3} J"));
            writeln!(f, "energy of {whose} ({source}): {}, dynamic {}", known(total_j), known(dynamic_j))?;
        }
        for conflict in &self.conflicts {
            writeln!(f, "conflict: {conflict}")?;
        }
        Ok(())
    }
}

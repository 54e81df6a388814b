//! Assignments of an iteration space's indices: the plain values that work distributions compute with.
//!
//! Nothing here knows of tasks, queues or ids of units: units are *slots* of a [`Team`], counted from 0, CPU units
//! first, as the sources number them (González-Tallada & Morancho 2023, §3.1.1; González Tallada 2024 (slides)). So
//! every distribution is a function from values to values, and its tests are tables.
//!
//! Invariants: an [`Assignment`] names a slot for every index; `Chunks` cover `0..len` in order without gaps, one
//! chunk per slot, some of them possibly empty.

use super::fpm::{Known, SharesInUse};
use super::{LowerBound, State};
use std::ops::Range;

/// The units that share an iteration space: `cpus` CPU units in the slots `0..cpus`, then `devices` device units.
///
/// ```
/// use thalweg::sched::Team;
/// let team = Team { cpus: 16, devices: 2 };
/// assert_eq!((team.len(), team.is_device(15), team.is_device(16)), (18, false, true));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Team {
    /// Number of CPU units (N_cpu).
    pub cpus: usize,
    /// Number of device units (N_gpu).
    pub devices: usize,
}

impl Team {
    /// Returns the number of units.
    pub const fn len(self) -> usize {
        self.cpus + self.devices
    }

    /// Returns whether there is no unit.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns the memory that the unit in this slot works in: 0 for all CPU units, which share one; each device unit
    /// has its own.
    pub const fn memory(self, slot: usize) -> usize {
        if self.is_device(slot) { slot - self.cpus + 1 } else { 0 }
    }

    /// Returns whether the unit in this slot is a device unit.
    pub const fn is_device(self, slot: usize) -> bool {
        slot >= self.cpus
    }
}

/// One chunk of consecutive indices per slot.
pub(crate) type Chunks = Vec<Range<usize>>;

/// The slot of every index.
///
/// ```
/// use thalweg::sched::{Assignment, static_chunks};
/// let assignment = Assignment::from(static_chunks(5, 2));
/// assert_eq!(assignment.slots(), [0, 0, 0, 1, 1]);
/// assert_eq!(assignment.loads(2, &[1.0, 1.0, 1.0, 4.0, 1.0]), [3.0, 5.0]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Assignment(Vec<usize>);

impl Assignment {
    /// Creates an assignment from the slot of each index.
    pub fn new(slots: Vec<usize>) -> Self {
        Self(slots)
    }

    /// Returns the slot of every index.
    pub fn slots(&self) -> &[usize] {
        &self.0
    }

    /// Returns the sum of `work` over each slot's indices.
    pub fn loads(&self, slots: usize, work: &[f64]) -> Vec<f64> {
        let mut loads = vec![0.0; slots];
        self.0.iter().zip(work).for_each(|(slot, work)| loads[*slot] += work);
        loads
    }
}

impl From<Chunks> for Assignment {
    fn from(chunks: Chunks) -> Self {
        Self(chunks.into_iter().enumerate().flat_map(|(slot, chunk)| chunk.map(move |_| slot)).collect())
    }
}

/// Times of one instance of an iteration space, in nanoseconds of bodies; copies are not counted (González Tallada &
/// Morancho 2024, §4.4).
///
/// ```
/// use thalweg::sched::{Team, Times, static_chunks};
/// let times = Times::of(&static_chunks(4, 2).into(), 2, vec![30.0, 30.0, 15.0, 15.0]);
/// assert_eq!(times.slot_ns, [60.0, 30.0]);
/// assert_eq!(times.longest(Team { cpus: 1, devices: 1 }), [60.0, 30.0]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    /// Time of every index.
    pub index_ns: Vec<f64>,
    /// The slot that every index ran in.
    pub slot: Vec<usize>,
    /// Time of every slot: the sum over its indices.
    pub slot_ns: Vec<f64>,
    /// Dynamic energy of every slot's indices in joules, if known.
    pub slot_j: Option<Vec<f64>>,
}

impl Times {
    /// Returns the times of an instance run under `assignment`, whose indices took `index_ns`.
    pub fn of(assignment: &Assignment, slots: usize, index_ns: Vec<f64>) -> Self {
        Self { slot_ns: assignment.loads(slots, &index_ns), slot: assignment.0.clone(), index_ns, slot_j: None }
    }

    /// Adds the energy of every slot.
    #[must_use]
    pub fn with_energy(self, slot_j: Option<Vec<f64>>) -> Self {
        Self { slot_j, ..self }
    }

    /// Returns the longest time of the CPU units and of the device units (T_cpu and T_gpu of González Tallada 2024
    /// (slides)); 0 for a kind without units.
    pub fn longest(&self, team: Team) -> [f64; 2] {
        let (cpus, devices) = self.slot_ns.split_at(team.cpus.min(self.slot_ns.len()));
        [cpus, devices].map(|cluster| cluster.iter().copied().fold(0.0, f64::max))
    }

    /// Returns the longest time of all units.
    pub(super) fn longest_ns(&self) -> f64 {
        self.slot_ns.iter().copied().fold(0.0, f64::max)
    }
}

/// An index that another one exchanges data with.
///
/// ```
/// use thalweg::sched::Neighbour;
/// // A face of 20 × 30 points with five numbers each.
/// let east = Neighbour { index: 7, bytes: 20 * 30 * 5 * 8 };
/// assert_eq!(Neighbour::from(7).index, east.index);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Neighbour {
    /// The other index.
    pub index: usize,
    /// Bytes that cross between the two in an instance, in the direction with more; with 0 they are not neighbours.
    pub bytes: u64,
}

impl From<usize> for Neighbour {
    /// Creates a neighbour with one byte, for lists in which all pairs exchange the same amount.
    fn from(index: usize) -> Self {
        Self { index, bytes: 1 }
    }
}

/// The indices to share out, and the units that share them.
///
/// ```
/// use thalweg::sched::{Team, Workload};
/// let workload = Workload { team: Team { cpus: 2, devices: 1 }, weights: &[1.0, 2.0], neighbours: None };
/// assert_eq!(workload.len(), 2);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Workload<'a> {
    /// The units.
    pub team: Team,
    /// The work at every index, as the user estimates it.
    pub weights: &'a [f64],
    /// The indices that every index exchanges data with, if the user has declared them.
    pub neighbours: Option<&'a [Vec<Neighbour>]>,
}

impl Workload<'_> {
    /// Returns the number of indices.
    pub fn len(&self) -> usize {
        self.weights.len()
    }

    /// Returns whether there is nothing to share out.
    pub fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }
}

/// Shares out the indices of an iteration space, instance by instance.
///
/// A state machine without clock or I/O: [`Distributed`](super::Distributed) asks it for the assignment of each
/// instance until it is steady, and passes it the times of the last one.
///
/// ```
/// use thalweg::sched::{Assignment, Distribution, Team, Times, Workload};
///
/// /// Gives every index to the unit with the least work so far.
/// #[derive(Clone)]
/// struct Greedy;
///
/// impl Distribution for Greedy {
///     fn name(&self) -> &'static str {
///         "greedy"
///     }
///     fn assign(&mut self, workload: &Workload<'_>, _: Option<&Times>) -> Assignment {
///         let mut loads = vec![0.0f64; workload.team.len()];
///         let mut least = |weight: &f64| {
///             let slot = (0..loads.len()).min_by(|a, b| loads[*a].total_cmp(&loads[*b])).unwrap_or(0);
///             loads[slot] += weight;
///             slot
///         };
///         Assignment::new(workload.weights.iter().map(&mut least).collect())
///     }
///     fn is_steady(&self) -> bool {
///         true
///     }
/// }
///
/// let team = Team { cpus: 2, devices: 0 };
/// let workload = Workload { team, weights: &[3.0, 1.0, 1.0, 1.0, 2.0], neighbours: None };
/// assert_eq!(Greedy.assign(&workload, None).slots(), [0, 1, 1, 1, 0]);
/// ```
pub trait Distribution: Send {
    /// Returns the distribution's name, for reports.
    fn name(&self) -> &'static str;

    /// Returns the assignment for the next instance, given the times of the last one; there are none before the
    /// first.
    ///
    /// The team and the number of indices are the same in all calls, and a team has at least one unit.
    fn assign(&mut self, workload: &Workload<'_>, measured: Option<&Times>) -> Assignment;

    /// Returns whether the last assignment holds for all future instances, whatever they take.
    fn is_steady(&self) -> bool;

    /// Returns the state of its search for an assignment.
    #[doc(hidden)]
    fn search_state(&self) -> State {
        if self.is_steady() { State::Steady } else { State::Init }
    }

    /// Returns how close to the optimum its map is, if known.
    fn bound(&self) -> Option<LowerBound> {
        None
    }

    /// Returns the profiles that it has learned, by unit name, if it learns any.
    fn profiles(&self) -> Option<Known> {
        None
    }

    /// Returns how it shares out, if it uses profiles.
    fn shares(&self) -> Option<&SharesInUse> {
        None
    }

    /// Notes the times of an instance while the distribution is steady. May end the steadiness.
    fn observe(&mut self, _workload: &Workload<'_>, _measured: &Times) {}
}

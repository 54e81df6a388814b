//! Admission of a task: the checks, and the parts of submission that have no type parameters.
//!
//! Nothing in this module knows the types of a task's accesses and bodies. A program has hundreds of such types, and
//! otherwise this code would be compiled for each of them.

use super::device_checks;
use super::door::Door;
use super::entrance::Kin;
use super::hints::Hints;
use crate::depend::{AccessRecord, Child, Domain, Group, Kinds, Residence, Side, overlap, running};
use crate::engine::Needs;
use crate::error::SubmitError;
use crate::ids::SpaceId;
use crate::machine::UnitKind;
use crate::sched::Near;
use crate::sync::Pooled;
use crate::task::Predecessor;
use std::sync::Arc;

/// A visitor of the tasks whose results a task uses.
pub(super) type Results<'a> = &'a dyn Fn(&mut dyn FnMut(Predecessor<'_>));

/// A task to be admitted.
pub(super) struct Admission<'a> {
    pub(super) door: &'a Door,
    pub(super) name: &'a str,
    pub(super) records: &'a [AccessRecord<'a>],
    pub(super) hints: &'a Hints,
    /// The kinds of unit that the task has bodies for.
    pub(super) bodies: Kinds,
    pub(super) has_host_body: bool,
    /// Whether the body for CPU units is for CPU units only.
    pub(super) host_only: bool,
    pub(super) has_outcomes: bool,
    /// Whether the program waits for this particular task.
    pub(super) awaited: bool,
}

/// The parts of an admitted task.
pub(super) struct Admitted {
    /// The kinds of unit that the task may run on.
    pub(super) kinds: Kinds,
    pub(super) side: Option<Pooled<Side>>,
    pub(super) child: Option<Child>,
}

impl Admission<'_> {
    /// Refuses a task because of its own properties, independently of other tasks.
    pub(super) fn check(&self) -> Result<(), SubmitError> {
        self.kinds()?;
        self.side().map(drop)
    }

    /// Admits the task with the relation to a parent that `kin` states. `results` visits the tasks whose results it
    /// uses, if its type has any.
    pub(super) fn admit(&self, kin: Kin, results: Option<Results<'_>>) -> Result<Admitted, SubmitError> {
        let Self { door, name, records, .. } = *self;
        let kinds = self.kinds()?;
        if let Some(group) = &self.hints.group {
            check_group(name, group, door.id)?;
        }
        let ancestry = running::ancestry(door.id);
        let mut side = self.side()?;
        let child = match kin {
            Kin::None => None,
            Kin::Missing => return Err(self.no_parent()),
            Kin::Child(parent) => Some(self.child_of(parent, results)?),
        };
        if !ancestry.is_empty() {
            if child.is_none() {
                ancestry.admit(name, records)?;
            }
            if let Some(side) = &side {
                ancestry.admit_resources(name, &side.turns)?;
            }
            side.get_or_insert_default().ancestry = ancestry;
        }
        if door.driver.simulated().is_some() {
            side.get_or_insert_default().kinds = Some(kinds);
        }
        if let Some(results) = results {
            let predecessors = &mut side.get_or_insert_default().predecessors;
            results(&mut |Predecessor(task, flow)| predecessors.push((task.clone(), flow)));
        }
        if self.has_outcomes {
            side.get_or_insert_default().has_outcomes = true;
        }
        if let Some(demands) = &self.hints.demands
            && demands.allocates > 0
            && let Some(share) = door.driver.wait_to_allocate(demands.allocates)
        {
            side.get_or_insert_default().allocation = Some(share);
        }
        if self.awaited && !door.on_fast_path {
            side.get_or_insert_default().awaited = true;
        }
        Ok(Admitted { kinds, side, child })
    }

    #[cold]
    fn no_parent(&self) -> SubmitError {
        SubmitError::NoParent { task: self.name.into() }
    }

    fn child_of(&self, parent: Arc<Domain>, results: Option<Results<'_>>) -> Result<Child, SubmitError> {
        parent.admit(self.name, self.records)?;
        if let Some(results) = results {
            self.door.admit_results(&parent, results)?;
        }
        Child::of(parent).ok_or_else(|| self.no_parent())
    }

    /// Returns the kinds of unit that the task may run on, if its accesses do not overlap and some unit has a body and
    /// enough memory.
    #[inline(always)] // as `side` and `facts`: three calls would be a tenth of an empty task's instructions
    fn kinds(&self) -> Result<Kinds, SubmitError> {
        let Self { door, name, records, .. } = *self;
        if let Some((first, second)) = overlap(records) {
            return Err(overlapping(name, first, second));
        }
        if self.has_outcomes && self.bodies.meets(Kinds::ACCELERATED) {
            return Err(SubmitError::OutcomeOnDevice { task: name.into() });
        }
        let mut kinds = self.bodies;
        if let Some(simulation) = door.driver.simulated() {
            kinds = simulation.kinds(name, kinds, self.has_host_body && !self.host_only);
        }
        if !self.has_host_body || !door.on_fast_path {
            self.check_units(kinds)?;
        }
        if let Some(device) = self.hints.device {
            device_checks::check(door, name, device, kinds, records)?;
        }
        Ok(kinds)
    }

    /// Returns the state that few tasks need, as far as the hints determine it.
    #[inline(always)]
    fn side(&self) -> Result<Option<Pooled<Side>>, SubmitError> {
        let mut side = self.facts()?;
        if let Some(demands) = self.hints.demands.as_ref().filter(|demands| !demands.uses.is_empty()) {
            let turns = &mut side.get_or_insert_default().turns;
            demands.check_resources(self.name, self.door.id)?;
            demands.add_resources(self.name, turns)?;
        }
        Ok(side)
    }

    /// Returns the facts that policies may query; `None` on the fast path, which has no policy.
    #[inline(always)]
    fn facts(&self) -> Result<Option<Pooled<Side>>, SubmitError> {
        if let Some(cost) = self.hints.cost.filter(|cost| !cost.is_finite() || *cost < 0.0) {
            return Err(SubmitError::Cost { task: self.name.into(), cost });
        }
        let position = match &self.hints.at {
            Some((space, index, _)) if *index >= space.len() => {
                return Err(SubmitError::Index {
                    task: self.name.into(),
                    space: space.name().to_owned(),
                    index: *index,
                    len: space.len(),
                });
            }
            _ if self.door.on_fast_path => return Ok(None),
            Some((space, index, false)) => Some(space.place(*index)),
            _ => None,
        };
        let near = self.hints.at.as_ref().filter(|(.., near)| *near);
        let near = near.map(|(space, index, _)| Near { space: space.id(), index: *index });
        let (cost, device, across) = (self.hints.cost, self.hints.device, self.hints.across.clone());
        let has_side = cost.is_some() || position.is_some() || near.is_some() || device.is_some() || across.is_some();
        Ok(has_side.then(|| Pooled::new(Side { cost, position, near, device, across, ..Side::default() })))
    }

    /// Checks that some unit has a body and enough memory.
    fn check_units(&self, kinds: Kinds) -> Result<(), SubmitError> {
        if self.bodies == Kinds::NONE {
            return Err(SubmitError::NoBody { task: self.name.into() });
        }
        let (Door { driver, capacities, .. }, records) = (self.door, self.records);
        let machine = &driver.shared().machine;
        let needs = Needs::of(records);
        let value = || records.iter().find(|access| access.is_at_home()).map(|access| access.datum);
        if !kinds.has(UnitKind::Cpu)
            && let Some(data) = value().filter(|data| data.residence == Residence::Home)
        {
            let (task, data) = (self.name.into(), data.to_string());
            return Err(SubmitError::ValueOnDevice { task, data });
        }
        // Without CPU units, the threads that host devices execute such tasks.
        let has_cores = machine.num_cpu_units() > 0;
        let at_home = driver.runs_on_devices() && !has_cores && kinds.has(UnitKind::Cpu);
        let usable = |kind| kinds.has(kind) && (kind == UnitKind::Cpu || !needs.home_only);
        let largest = |kind: UnitKind| capacities.largest(kind);
        let Some(capacity_bytes) = UnitKind::ALL.into_iter().filter(|kind| usable(*kind)).filter_map(largest).max()
        else {
            if at_home {
                return Ok(());
            }
            return Err(SubmitError::NoUnit {
                task: self.name.into(),
                bodies: match value() {
                    Some(data) if data.residence == Residence::Home => format!("CPU (it accesses {data})"),
                    Some(_) => "CPU (it has a concurrent access)".to_owned(),
                    None => kinds.describe(),
                },
                units: machine.configuration().to_owned(),
            });
        };
        // Adopted memory needs no room in the space that contains it.
        let fits_there = || {
            let bytes_in = |space| records.iter().map(|access| access.bytes_in(space)).sum::<u64>();
            let units = machine.units().iter().filter(|unit| usable(unit.kind));
            units
                .flat_map(|unit| machine.spaces_of(unit.id))
                .any(|space| bytes_in(space) <= machine.capacity_bytes(space))
        };
        if let Some(needed_bytes) = self.beyond_host_memory() {
            let (task, capacity_bytes) = (self.name.into(), machine.capacity_bytes(SpaceId::HOST));
            return Err(SubmitError::WorkingSet { task, needed_bytes, capacity_bytes });
        }
        if let Some(ends) = &self.hints.across {
            device_checks::check_parts(self.door, self.name, ends, usable, records, at_home)?;
        } else if needs.bytes > capacity_bytes && !at_home && !fits_there() {
            let task = self.name.into();
            return Err(SubmitError::WorkingSet { task, needed_bytes: needs.bytes, capacity_bytes });
        }
        let buffer = |kind| largest(kind).map(|_| capacities.largest_buffer(kind));
        let largest_bytes = UnitKind::ALL.into_iter().filter(|kind| usable(*kind)).filter_map(buffer).max();
        let too_large = |access: &&AccessRecord<'_>| access.needs_buffer() && Some(access.bytes()) > largest_bytes;
        if let Some(access) = records.iter().find(too_large).filter(|_| !at_home) {
            return Err(SubmitError::RegionTooLarge {
                task: self.name.into(),
                region: access.datum.describe(access.block),
                needed_bytes: access.bytes(),
                largest_bytes: largest_bytes.unwrap_or(0),
            });
        }
        Ok(())
    }
}

impl Admission<'_> {
    /// Returns the size of the task's arrays to which a limit of host memory applies, if they exceed it together.
    fn beyond_host_memory(&self) -> Option<u64> {
        let (Door { driver, .. }, records) = (self.door, self.records);
        if !driver.lets_homes_leave() {
            return None;
        }
        let is_new = |at: usize| !records[..at].iter().any(|other| std::ptr::eq(other.datum, records[at].datum));
        let counts = |record: &AccessRecord<'_>| {
            let is_limited = record.datum.residence == Residence::Anywhere && !record.datum.is_beside(SpaceId::HOST);
            is_limited && !record.mode.sees_nothing() && !record.block.is_empty()
        };
        let arrays = records.iter().enumerate().filter(|(at, record)| is_new(*at) && counts(record));
        let needed: u64 = arrays.map(|(_, record)| record.datum.bytes()).sum();
        (needed > driver.shared().machine.capacity_bytes(SpaceId::HOST)).then_some(needed)
    }
}

#[cold]
pub(super) fn overlapping(task: &str, first: &AccessRecord<'_>, second: &AccessRecord<'_>) -> SubmitError {
    let words = |record: &AccessRecord<'_>| format!("{} ({})", record.datum.describe(record.block), record.mode);
    SubmitError::OverlappingAccesses {
        task: task.into(),
        data: first.datum.to_string(),
        first: words(first),
        second: words(second),
    }
}

/// Refuses a task that cannot be a member of its group.
#[cold]
fn check_group(task: &str, (of, group): &(u64, Arc<Group>), runtime: u64) -> Result<(), SubmitError> {
    match () {
        () if *of != runtime => Err(SubmitError::ForeignGroup { task: task.into() }),
        () if group.is_cancelled() => Err(SubmitError::Cancelled { task: task.into() }),
        () => Ok(()),
    }
}

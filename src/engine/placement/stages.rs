//! The stages of a task between ready and finished, and of a copy.

use super::multi_device::Across;
use crate::coherence::Transfer;
use crate::depend::OwnedTask;
use crate::engine::command::{CopyOrder, ReplicaRef};
use crate::ids::{DataId, SpaceId, TaskId, UnitId};
use crate::region::Entry;
use smallvec::SmallVec;
use std::sync::Arc;

/// A task with a unit and a space, and no memory yet.
pub(super) struct Assigned {
    pub(super) task: OwnedTask,
    pub(super) unit: Option<UnitId>,
    /// Its memory; if there are several, the first.
    pub(super) space: SpaceId,
    /// The locations of its parts, if it works in several memories.
    pub(super) across: Option<Arc<Across>>,
}

impl Assigned {
    /// Returns the memories that it works in.
    pub(super) fn spaces(&self) -> Spaces {
        spaces(self.space, self.across.as_deref())
    }
}

/// The memories of a task.
pub(super) type Spaces = SmallVec<[SpaceId; 4]>;

fn spaces(one: SpaceId, across: Option<&Across>) -> Spaces {
    across.map_or_else(|| SmallVec::from_slice(&[one]), |across| across.spaces().collect())
}

/// A task's reservations in memories.
pub(super) struct Reserved {
    /// The replica of each access, in order.
    pub(super) replicas: Arc<[ReplicaRef]>,
    /// The bytes of its reductions' private buffers.
    pub(super) private_bytes: u64,
    /// Whether the device had no memory for some of it.
    pub(super) refused: bool,
}

/// A task with its memory.
pub(super) struct Placed {
    pub(super) assigned: Assigned,
    pub(super) reserved: Reserved,
}

/// The state of a launched task.
pub(super) struct Launched {
    pub(super) unit: Option<UnitId>,
    pub(super) space: SpaceId,
    pub(super) across: Option<Arc<Across>>,
    pub(super) reserved: Reserved,
    /// Whether it was launched after another: then it does not count as given ahead once it is issued.
    pub(super) behind: bool,
    /// Whether its body waits.
    pub(super) suspended: bool,
    /// Whether its device has it in its queue.
    pub(super) issued: bool,
    /// If so, the fraction of the device that it takes, in thousandths.
    pub(super) share: u32,
    /// Tasks that wait for its end to plan copies.
    pub(super) waiters: Vec<TaskId>,
}

impl Launched {
    /// Turns a task with its memory into a launched one.
    pub(super) fn of(placed: Placed, behind: bool) -> (OwnedTask, Self) {
        let Placed { assigned: Assigned { task, unit, space, across }, reserved } = placed;
        let (suspended, issued, share, waiters) = (false, false, 0, Vec::new());
        (task, Self { unit, space, across, reserved, behind, suspended, issued, share, waiters })
    }

    /// Returns the memories that it works in.
    pub(super) fn spaces(&self) -> Spaces {
        spaces(self.space, self.across.as_deref())
    }

    /// Returns the unit that it counts for.
    pub(super) fn counted_for(&self) -> Option<UnitId> {
        self.unit.filter(|_| !(self.suspended || self.issued && self.behind))
    }
}

/// A copy under way.
pub(super) struct UnderWay {
    pub(super) data: DataId,
    pub(super) transfer: Transfer,
    /// The source and destination memories.
    pub(super) between: (SpaceId, SpaceId),
    pub(super) bytes: u64,
    /// Its entry among the write-backs of the data object, if it is one.
    pub(super) write_back: Option<Entry>,
    pub(super) waiters: Vec<TaskId>,
}

impl UnderWay {
    /// Creates the state of a copy that is ordered now.
    pub(super) fn of(order: &CopyOrder, write_back: Option<Entry>) -> Self {
        let CopyOrder { copy, from, to, block, element_bytes, .. } = *order;
        let transfer = Transfer { copy, from: from.replica, to: to.replica, block };
        let (between, bytes) = ((from.space, to.space), (block.volume() * element_bytes) as u64);
        Self { data: from.data, transfer, between, bytes, write_back, waiters: Vec::new() }
    }
}

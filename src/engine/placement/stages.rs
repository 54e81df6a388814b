//! Stages of a task between ready and finished, and the state of a copy.

use super::multi_device::Across;
use crate::coherence::Transfer;
use crate::depend::OwnedTask;
use crate::engine::command::{CopyOrder, ReplicaRef};
use crate::ids::{DataId, SpaceId, TaskId, UnitId};
use crate::region::Entry;
use smallvec::SmallVec;
use std::sync::Arc;

/// A task that has a unit and a space, but no memory yet.
pub(super) struct Assigned {
    pub(super) task: OwnedTask,
    pub(super) unit: Option<UnitId>,
    /// Memory of the task; if it has several memories, the first.
    pub(super) space: SpaceId,
    /// Locations of the task's parts, if it works in several memories.
    pub(super) across: Option<Arc<Across>>,
}

impl Assigned {
    /// Returns the memories in which the task works.
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
    /// Replica of each access, in order.
    pub(super) replicas: Arc<[ReplicaRef]>,
    /// Data objects whose homes are pinned, because they could leave otherwise.
    pub(super) homes: SmallVec<[DataId; 4]>,
    /// Total size in bytes of the private buffers of the task's reductions.
    pub(super) private_bytes: u64,
    /// Whether the device has refused memory for some of the reservations.
    pub(super) refused: bool,
}

/// A task whose memory is reserved.
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
    /// Whether the task was launched after another task, in which case it does not count as given ahead once it is
    /// in its device's queue.
    pub(super) behind: bool,
    /// Whether the task's body waits.
    pub(super) suspended: bool,
    /// Whether the task is in its device's queue and has released its successors.
    pub(super) issued: bool,
    /// If the task is in its device's queue, the fraction of the device that it takes, in thousandths.
    pub(super) share: Option<u32>,
    /// Tasks that wait for this task's end before their copies can be planned.
    pub(super) waiters: Vec<TaskId>,
}

impl Launched {
    /// Turns a task with reserved memory into a launched task.
    pub(super) fn of(placed: Placed, behind: bool) -> (OwnedTask, Self) {
        let Placed { assigned: Assigned { task, unit, space, across }, reserved } = placed;
        let (suspended, issued, share, waiters) = (false, false, None, Vec::new());
        (task, Self { unit, space, across, reserved, behind, suspended, issued, share, waiters })
    }

    /// Returns the memories in which the task works.
    pub(super) fn spaces(&self) -> Spaces {
        spaces(self.space, self.across.as_deref())
    }

    /// Returns the unit whose number of tasks includes this task, if any.
    pub(super) fn counted_for(&self) -> Option<UnitId> {
        self.unit.filter(|_| !(self.suspended || self.share.is_some() && self.behind))
    }
}

/// A copy under way.
pub(super) struct UnderWay {
    pub(super) data: DataId,
    pub(super) transfer: Transfer,
    /// Source and destination memory.
    pub(super) between: (SpaceId, SpaceId),
    pub(super) bytes: u64,
    /// For a write-back, its entry among the write-backs of the data object.
    pub(super) write_back: Option<Entry>,
    pub(super) waiters: Vec<TaskId>,
}

impl UnderWay {
    /// Creates the state of a copy that is being ordered now.
    pub(super) fn of(order: &CopyOrder, write_back: Option<Entry>) -> Self {
        let CopyOrder { copy, from, to, block, element_bytes, .. } = *order;
        let transfer = Transfer { copy, from: from.replica, to: to.replica, block };
        let (between, bytes) = ((from.space, to.space), (block.volume() * element_bytes) as u64);
        Self { data: from.data, transfer, between, bytes, write_back, waiters: Vec::new() }
    }
}

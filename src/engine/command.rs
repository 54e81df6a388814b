//! What the engine asks of a driver.

use super::placement::Across;
use crate::coherence::{CopyId, ReplicaId};
use crate::depend::OwnedTask;
use crate::ids::{DataId, DeviceId, SpaceId, TaskId, UnitId};
use crate::region::Block;
use smallvec::SmallVec;
use std::sync::Arc;

/// What the driver has to do, in this order.
#[derive(Debug)]
pub(crate) enum Command {
    /// Run the task, one of the runtime's own, at home and at once. Inside the engine also what any CPU unit may run.
    Run(OwnedTask),
    /// Run the task on its unit, on the replicas given.
    Launch(Box<Launch>),
    /// Do not run the task; report it as skipped.
    Skip(OwnedTask),
    /// Copy a box from one replica to another, then report it as arrived.
    Copy(Box<CopyOrder>),
    /// Give a replica's memory back, then report its bytes as released: until then nobody else gets them.
    Release(Box<Release>),
    /// The task behind this frees the data's home: undo what was done to it for devices' sake.
    Unregister { data: DataId },
}

/// A replica whose memory is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Release {
    pub(crate) replica: ReplicaId,
    pub(crate) space: SpaceId,
    pub(crate) bytes: u64,
}

/// A task for a unit.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) task: OwnedTask,
    pub(crate) unit: UnitId,
    /// Of several, the first.
    pub(crate) device: Option<DeviceId>,
    /// Where its parts go, if it is for several.
    pub(crate) across: Option<Arc<Across>>,
    /// The replica of each access, in order; of a reduction, the home (its body works on a private buffer).
    pub(crate) places: Arc<[ReplicaRef]>,
    /// Tasks in flight on the device that it has to come behind.
    pub(crate) after: SmallVec<[TaskId; 2]>,
}

/// A replica, and what a driver needs to find a region in it.
///
/// There is no command to get a replica's memory: commands of two events may be carried out by two threads, so whoever
/// comes to a replica first makes it. That it fits was settled by the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplicaRef {
    pub(crate) data: DataId,
    pub(crate) replica: ReplicaId,
    pub(crate) space: SpaceId,
    /// The box that the replica holds, row by row.
    pub(crate) holds: Block,
}

/// One copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CopyOrder {
    pub(crate) copy: CopyId,
    pub(crate) from: ReplicaRef,
    pub(crate) to: ReplicaRef,
    pub(crate) block: Block,
    pub(crate) element_bytes: usize,
    /// Both ends are the same bytes, so that there is nothing to copy.
    pub(crate) unified: bool,
}

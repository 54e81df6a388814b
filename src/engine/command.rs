//! The engine's commands to a driver.

use super::placement::Across;
use crate::coherence::{CopyId, ReplicaId};
use crate::depend::OwnedTask;
use crate::ids::{DataId, DeviceId, SpaceId, TaskId, UnitId};
use crate::region::Block;
use smallvec::SmallVec;
use std::sync::Arc;

/// A command; the driver carries commands out in this order.
#[derive(Debug)]
pub(crate) enum Command {
    /// Run the task, an internal one, at home and at once. Inside the engine, this also stands for tasks that any CPU
    /// unit may run.
    Run(OwnedTask),
    /// Run the task on its unit, on the replicas given.
    Launch(Box<Launch>),
    /// Do not run the task; report it as skipped.
    Skip(OwnedTask),
    /// Copy a box from one replica to another, then report it as arrived.
    Copy(Box<CopyOrder>),
    /// Give a replica's memory back, then report its bytes as released: until then nothing else gets them.
    Release(Box<Release>),
    /// The next task frees the data's home: undo any preparation of it for devices.
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
    /// The device; if there are several, the first.
    pub(crate) device: Option<DeviceId>,
    /// The places of its parts, if the task spans several devices.
    pub(crate) across: Option<Arc<Across>>,
    /// The replica of each access, in order; for a reduction, the home (its body works on a private buffer).
    pub(crate) places: Arc<[ReplicaRef]>,
    /// Tasks in flight on the device that must come before it.
    pub(crate) after: SmallVec<[TaskId; 2]>,
}

/// A replica, with the information that a driver needs to find a region in it.
///
/// There is no command to allocate a replica's memory: two threads may carry out the commands of two events, so the
/// first thread that needs a replica allocates it. The engine has already ensured that it fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplicaRef {
    pub(crate) data: DataId,
    pub(crate) replica: ReplicaId,
    pub(crate) space: SpaceId,
    /// The box that the replica holds, row by row.
    pub(crate) holds: Block,
}

/// A single copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CopyOrder {
    pub(crate) copy: CopyId,
    pub(crate) from: ReplicaRef,
    pub(crate) to: ReplicaRef,
    pub(crate) block: Block,
    pub(crate) element_bytes: usize,
    /// Whether both ends are the same bytes, so that there is nothing to copy.
    pub(crate) unified: bool,
}

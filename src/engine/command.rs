//! Commands from the engine to a driver.

use super::placement::Across;
use crate::coherence::{CopyId, ReplicaId};
use crate::depend::OwnedTask;
use crate::ids::{DataId, DeviceId, SpaceId, TaskId, UnitId};
use crate::region::Block;
use smallvec::SmallVec;
use std::sync::Arc;

/// A command. The driver carries out commands in the order in which the engine returns them.
#[derive(Debug)]
pub(crate) enum Command {
    /// Run this internal task immediately in host memory. Inside the engine, this variant also represents tasks that
    /// any CPU unit may run.
    Run(OwnedTask),
    /// Run the task on its unit, using the given replicas.
    Launch(Box<Launch>),
    /// Do not run the task; report it as skipped.
    Skip(OwnedTask),
    /// Copy a box from one replica to another, then report the copy as completed.
    Copy(Box<CopyOrder>),
    /// Free a replica's memory, then report its bytes as released. Until then, nothing else gets these bytes.
    Release(Box<Release>),
    /// The next task frees the data object's home, so undo any preparation of the home for devices.
    Unregister { data: DataId },
}

/// A replica whose memory is to be freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Release {
    pub(crate) data: DataId,
    pub(crate) replica: ReplicaId,
    pub(crate) space: SpaceId,
    pub(crate) bytes: u64,
}

/// A task to be run by a unit.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) task: OwnedTask,
    pub(crate) unit: UnitId,
    /// The task's device; if it has several devices, the first.
    pub(crate) device: Option<DeviceId>,
    /// Devices and memories of the task's parts, if the task spans several devices.
    pub(crate) across: Option<Arc<Across>>,
    /// Replica of each access, in order. For a reduction that the host combines, this is the home.
    pub(crate) places: Arc<[ReplicaRef]>,
    /// Tasks in flight on the device that must precede this task.
    pub(crate) after: SmallVec<[TaskId; 2]>,
    /// Tasks in flight on the device that must precede the combination of this task's contributions.
    pub(crate) combines_after: SmallVec<[TaskId; 2]>,
}

/// A replica, with the information that a driver needs to locate a region in it.
///
/// There is no command to allocate a replica's memory. Two threads may carry out the commands of two events
/// concurrently, so the first thread that needs a replica allocates it. The engine has already ensured that the
/// replica fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplicaRef {
    pub(crate) data: DataId,
    pub(crate) replica: ReplicaId,
    pub(crate) space: SpaceId,
    /// The box that the replica holds, in row-major order.
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
    /// Whether source and target share the same bytes, so that there is nothing to copy.
    pub(crate) unified: bool,
}

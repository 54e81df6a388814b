//! A task's stages between ready and finished, and a copy's.

use super::command::ReplicaRef;
use crate::coherence::Transfer;
use crate::depend::OwnedTask;
use crate::ids::{DataId, SpaceId, TaskId, UnitId};
use smallvec::SmallVec;
use std::sync::Arc;

/// Where tasks of a kind can run.
#[derive(Clone)]
pub(super) struct Suited {
    /// On which units.
    pub(super) units: Arc<[bool]>,
    /// In host memory alone, on whichever of the hosting threads.
    pub(super) at_home: bool,
}

/// A task with a unit and a space, and no memory yet.
pub(super) struct Assigned {
    pub(super) task: OwnedTask,
    pub(super) unit: Option<UnitId>,
    pub(super) space: SpaceId,
}

/// A task with its memory.
pub(super) struct Placed {
    pub(super) assigned: Assigned,
    pub(super) replicas: SmallVec<[ReplicaRef; 4]>,
    pub(super) private_bytes: u64,
}

/// A task that was launched.
pub(super) struct Running {
    pub(super) unit: Option<UnitId>,
    pub(super) space: SpaceId,
    pub(super) replicas: SmallVec<[ReplicaRef; 4]>,
    pub(super) private_bytes: u64,
    /// Launched behind another: not counted as given ahead once it is issued.
    pub(super) behind: bool,
    /// Its device has it in its queue.
    pub(super) issued: bool,
    /// Who waits for its end to plan copies.
    pub(super) waiters: Vec<TaskId>,
}

impl Running {
    /// A task with its memory, launched.
    pub(super) fn of(placed: Placed, behind: bool) -> (OwnedTask, Self) {
        let Placed { assigned: Assigned { task, unit, space }, replicas, private_bytes } = placed;
        (task, Self { unit, space, replicas, private_bytes, behind, issued: false, waiters: Vec::new() })
    }
}

/// A copy under way.
pub(super) struct UnderWay {
    pub(super) data: DataId,
    pub(super) transfer: Transfer,
    pub(super) write_back: bool,
    pub(super) waiters: Vec<TaskId>,
}

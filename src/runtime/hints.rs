//! Properties of a task that schedulers may use.

use crate::depend::Group;
use crate::ids::{DeviceId, Iteration};
use crate::sync::CallSite;
use crate::task::{IterationSpace, Resource};
use std::sync::Arc;

/// A task's index in an iteration space, and whether the task merely follows that index to its unit without influencing
/// the distribution of the indices.
pub(super) type Index = (IterationSpace, usize, bool);

/// The amounts that a task takes from limits of the whole runtime.
#[derive(Debug, Clone, Default)]
pub(super) struct Demands {
    /// Number of bytes that the task will allocate, as declared by the program.
    pub(super) allocates: u64,
    /// The resources that the task uses, each with its amount.
    pub(super) uses: Vec<(Resource, f64)>,
}

/// The properties of a task, apart from its accesses, that schedulers may use.
#[derive(Debug, Clone, Default)]
pub(super) struct Hints {
    pub(super) priority: i32,
    pub(super) cost: Option<f64>,
    /// The device that the task must run on; `None` lets the scheduler choose.
    pub(super) device: Option<DeviceId>,
    /// For a task across all devices of its unit, the end of each part's accesses.
    pub(super) across: Option<Arc<[usize]>>,
    pub(super) at: Option<Index>,
    /// The place of submission that the program has set.
    pub(super) call_site: Option<CallSite>,
    /// The loop iteration that the task executes.
    pub(super) iteration: Iteration,
    /// Boxed, because few tasks have any.
    pub(super) demands: Option<Box<Demands>>,
    /// The group that the task is a member of, with the ID of that group's runtime.
    pub(super) group: Option<(u64, Arc<Group>)>,
}

impl Hints {
    /// Returns the resources that the task uses, each with its amount.
    pub(super) fn uses(&self) -> &[(Resource, f64)] {
        self.demands.as_ref().map_or(&[], |demands| &demands.uses)
    }
}

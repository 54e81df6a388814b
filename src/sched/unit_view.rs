//! Units as policies see them, and the bytes that their memories lack.

use crate::ids::{SpaceId, TaskId, UnitId};
use crate::machine::UnitKind;

/// A unit, as seen by a policy.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::sched::UnitView;
/// let gpu = UnitView { id: UnitId(1), kind: UnitKind::Gpu, spaces: vec![SpaceId(1)], in_flight: 0 };
/// assert!(gpu.kind.is_device());
/// ```
#[derive(Debug, Clone)]
pub struct UnitView {
    /// The unit.
    pub id: UnitId,
    /// Its kind.
    pub kind: UnitKind,
    /// The memories its tasks can work in.
    pub spaces: Vec<SpaceId>,
    /// Tasks given to it that have not finished.
    pub in_flight: usize,
}

/// Everything a policy may look at: the units, and where a ready task's data are.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::sched::{UnitView, View};
/// let unit = |id, kind| UnitView { id: UnitId(id), kind, spaces: vec![SpaceId(id)], in_flight: 0 };
/// let units = [unit(0, UnitKind::Cpu), unit(1, UnitKind::Gpu)];
/// let view = View::new(&units, &|_, space| if space.is_host() { 0 } else { 4096 });
/// assert!(view.is_idle());
/// assert_eq!(view.missing_bytes(TaskId(7), SpaceId(1)), 4096);
/// assert_eq!(view.missing_at(TaskId(7), UnitId(0)), 0);
/// ```
pub struct View<'a> {
    /// All units, by id.
    pub units: &'a [UnitView],
    pub(crate) missing_bytes: &'a dyn Fn(TaskId, SpaceId) -> u64,
}

impl<'a> View<'a> {
    /// Creates a view to test a policy with, from the units by id and a function that returns the bytes of a task's
    /// data that a space lacks.
    pub fn new(units: &'a [UnitView], missing_bytes: &'a dyn Fn(TaskId, SpaceId) -> u64) -> Self {
        Self { units, missing_bytes }
    }

    /// Returns the bytes of a ready task's data that would have to be copied to `space`.
    pub fn missing_bytes(&self, task: TaskId, space: SpaceId) -> u64 {
        (self.missing_bytes)(task, space)
    }

    /// Returns [`missing_bytes`](Self::missing_bytes) for whichever of the unit's memories lacks least.
    pub fn missing_at(&self, task: TaskId, unit: UnitId) -> u64 {
        let spaces = self.units.get(unit.index()).map(|unit| unit.spaces.as_slice()).unwrap_or_default();
        spaces.iter().map(|space| self.missing_bytes(task, *space)).min().unwrap_or(0)
    }

    /// Returns whether no unit has anything to do.
    pub fn is_idle(&self) -> bool {
        self.units.iter().all(|unit| unit.in_flight == 0)
    }
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("units", &self.units).finish_non_exhaustive()
    }
}

//! Queries to the engine. Each query is answered while the engine's lock is held, and callers never hold that lock.

use super::placement::{Placement, Traffic, Whereabouts};
use super::{Engine, FailureLog, Nanos, ReplicaRef};
use crate::depend::OwnedTask;
#[cfg(feature = "graph")]
use crate::depend::{Recorder, TaskGraph};
use crate::ids::{DataId, SpaceId, TaskId};
use crate::region::Block;
use crate::sched::fpm::SharesInUse;
use crate::sched::{AffinityStatistics, LowerBound};
#[cfg(feature = "sim")]
use crate::sched::{Model, Policy};
use std::sync::Arc;

/// Statistics of placement so far; empty without placement.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// The traffic between each pair of spaces.
    pub(crate) traffic: Vec<((SpaceId, SpaceId), Traffic)>,
    /// Per unit, the total time spent running tasks.
    pub(crate) busy_ns: Vec<Nanos>,
    /// Number of replicas evicted to make room.
    pub(crate) evictions: u64,
    /// How well the policy kept indices close to their data; `None` if the policy does not count that.
    pub(crate) affinity: Option<AffinityStatistics>,
    /// How close the policy's mapping is to the optimum, if known.
    pub(crate) bound: Option<LowerBound>,
    /// The policy's work shares; `None` if the policy does not divide work by profiles.
    pub(crate) shares: Option<SharesInUse>,
}

impl Engine {
    /// Returns the failure log.
    pub(crate) fn failures(&self) -> &FailureLog {
        &self.failures
    }

    /// Returns the graph recorded so far, if recording is on.
    #[cfg(feature = "graph")]
    pub(crate) fn graph(&self) -> Option<TaskGraph> {
        self.recorder.as_ref().and_then(Recorder::graph)
    }

    /// Returns the spaces that hold valid data for the whole region.
    pub(crate) fn valid_in(&self, data: DataId, block: &Block) -> Vec<SpaceId> {
        self.ask(|placement| placement.valid_in(data, block)).unwrap_or_else(|| vec![SpaceId::HOST])
    }

    /// Returns the replicas of a task that was launched and has not ended yet; `None` without placement.
    pub(crate) fn places_of(&self, task: TaskId) -> Option<Arc<[ReplicaRef]>> {
        self.ask(|placement| placement.places_of(task)).flatten()
    }

    /// Returns the number of launched tasks plus the number of copies under way.
    pub(crate) fn in_flight(&self) -> usize {
        self.ask(Placement::in_flight).unwrap_or(0)
    }

    /// Returns the statistics so far.
    pub(crate) fn counts(&self) -> Counts {
        let counts = |placement: &Placement| Counts {
            traffic: placement.traffic(),
            busy_ns: placement.busy_ns().to_vec(),
            evictions: placement.evictions(),
            affinity: placement.scheduler().look(|policy| policy.affinity()),
            bound: placement.scheduler().look(|policy| policy.bound()),
            shares: placement.scheduler().look(|policy| policy.shares().cloned()),
        };
        self.ask(counts).unwrap_or_default()
    }

    /// Returns the traffic between each pair of spaces, and for each unit the total time spent running tasks. Both are
    /// empty without placement.
    pub(crate) fn usage(&self) -> (Vec<((SpaceId, SpaceId), Traffic)>, Vec<Nanos>) {
        self.ask(|placement| (placement.traffic(), placement.busy_ns().to_vec())).unwrap_or_default()
    }

    /// Returns the times of tasks or units that the policy has learned, as text; `None` if it has learned none.
    #[cfg(feature = "sim")]
    pub(crate) fn model(&self) -> Option<String> {
        let text = |policy: &dyn Policy| {
            let model = policy.model().filter(|model| !model.is_empty()).map(Model::to_text);
            model.or_else(|| Some(policy.profiles()?.to_text()))
        };
        self.ask(|placement| placement.scheduler().look(text)).flatten()
    }

    /// Describes in words where every placed task is, to diagnose a stall.
    pub(crate) fn stall(&self) -> Option<String> {
        self.ask(Placement::stall)
    }

    /// Calls `see` with each placed task that is not with a driver yet, while the lock is held.
    pub(crate) fn visit_placed(&self, see: &mut dyn FnMut(&OwnedTask)) {
        self.ask(|placement| placement.visit(see));
    }

    /// Returns where a placed task is, and what it waits for; `None` if it is not placed.
    pub(crate) fn whereabouts(&self, task: TaskId) -> Option<Whereabouts> {
        self.placement.as_ref()?.look().and_then(|mut placement| placement.whereabouts(task))
    }

    /// Returns the number of tasks that can run concurrently.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    fn ask<R>(&self, question: impl FnOnce(&Placement) -> R) -> Option<R> {
        self.placement.as_ref()?.look().map(|placement| question(&placement))
    }
}

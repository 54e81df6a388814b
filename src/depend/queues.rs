//! The dependence layer's queues of ready tasks, as seen by a caller that explains why a task waits: the lines of
//! commutative tasks and of resources, the lanes of reductions, and the gates at the borders of replays.
//!
//! A queue can be found through any task that has a place in it. So a task that waits for its turn is found through the
//! task that has the turn, and a gate is found through the last task of the round that the gate waits for.
//!
//! Nothing here moves a task. Tasks are visited under their queue's lock, so they cannot end during a visit.

use super::node::Own;
use super::reduction::{Lane, Stage};
use super::replay::Replays;
use super::turns::{Line, Place, Shortfall};
use super::{AccessRecord, Body, Mode, OwnedTask};
use std::sync::Arc;

/// A queue of ready tasks.
#[derive(Clone)]
pub(crate) enum TaskQueue {
    /// Tasks wait for their turn at a part, or for a resource.
    Line(Arc<Line>),
    /// Reductions wait to be let in, or to be combined.
    Lane(Arc<Lane>),
    /// Gates wait for the end of replays.
    Replays(Arc<Replays>),
}

/// Why a ready task waits in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadyStage {
    /// Another task has its turn.
    Turn,
    /// Other tasks use the resource that the task needs.
    Resource(Shortfall),
    /// Too many members of the task's reduction precede it; this many must be combined first.
    Early { before: u64 },
    /// The task has run; this many contributions must be combined before its own.
    Combining { before: u64 },
    /// The task is the gate of a replay that has not ended.
    Replay,
}

impl TaskQueue {
    /// Calls `see` with each queue in which the task that owns `own` has a place, and with whether the task has its
    /// turn there.
    pub(crate) fn of(own: &Own, see: &mut dyn FnMut(Self, bool)) {
        let Some(side) = &own.side else { return };
        side.turns.lines().for_each(|(line, has_turn)| see(Self::Line(line.clone()), has_turn));
        side.tickets.iter().for_each(|ticket| see(Self::Lane(ticket.lane().clone()), false));
    }

    /// Returns the queue of gates that wait for the end of a round, given the owner's part of the round's last task.
    pub(crate) fn at_end(own: &Own) -> Option<Self> {
        own.side.as_ref()?.gate.as_ref()?.ends().map(Self::Replays)
    }

    /// Returns the address of the queue, which identifies it.
    pub(crate) fn address(&self) -> usize {
        match self {
            Self::Line(line) => Arc::as_ptr(line).addr(),
            Self::Lane(lane) => Arc::as_ptr(lane).addr(),
            Self::Replays(replays) => Arc::as_ptr(replays).addr(),
        }
    }

    /// Calls `see` with each task that waits in this queue. `width` is the number of tasks that run at once.
    pub(crate) fn visit(&self, width: usize, see: &mut dyn FnMut(&OwnedTask, ReadyStage)) {
        match self {
            Self::Line(line) => line.visit(&mut |task, shortfall| match line.place() {
                Place::Part(..) => see(task, ReadyStage::Turn),
                Place::Resource(_) => see(task, ReadyStage::Resource(shortfall)),
            }),
            Self::Lane(lane) => lane.visit(width, &mut |task, stage| {
                let stage = match stage {
                    Stage::Early { before } => ReadyStage::Early { before },
                    Stage::Combining { before } => ReadyStage::Combining { before },
                };
                see(task, stage);
            }),
            Self::Replays(replays) => replays.visit(&mut |task| see(task, ReadyStage::Replay)),
        }
    }

    /// Describes the region, or the resource, for which a waiting task with this body waits.
    pub(crate) fn describe(&self, body: &(dyn Body + 'static)) -> String {
        if let Self::Line(line) = self
            && let Place::Resource(name) = line.place()
        {
            return format!("resource `{name}`");
        }
        let mut found = None;
        body.accesses(&mut |AccessRecord { datum, block, mode }| {
            let region = match self {
                Self::Line(line) => match line.place() {
                    Place::Part(data, part) if *data == datum.id && mode == Mode::Commutative => {
                        block.intersection(part)
                    }
                    _ => None,
                },
                Self::Lane(_) => matches!(mode, Mode::Reduction(_)).then_some(*block),
                Self::Replays(_) => Some(*block),
            };
            if let Some(region) = region.filter(|_| found.is_none()) {
                found = Some(format!("{} of {datum}", datum.describe(&region)));
            }
        });
        found.unwrap_or_else(|| "a region".to_owned())
    }
}

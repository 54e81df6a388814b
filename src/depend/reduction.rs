//! Combining the private replicas of reductions in the order of submission.
//!
//! Each reduction runs on its own replica; who finishes early waits here for its turn, so a sum of floating-point numbers
//! comes out the same whatever ran where. A task counts as finished only when its replica has been combined, therefore
//! whoever comes after the group finds the full value without a further task.
//!
//! A *lane* is the queue of one group at one part of a data. When a part is split, both halves go on with the same lane:
//! that orders a little more than necessary and is always right. Waiting always is for an earlier submission, so there
//! is no cycle.

use super::OwnedTask;
use crate::region::Block;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The queue of one group of reductions.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    issued: u32,
    turn: u32,
    early: BTreeMap<u32, (OwnedTask, usize, Block)>,
}

/// The right, and duty, to combine one part of one access at a certain turn.
#[derive(Debug)]
pub(crate) struct Ticket {
    lane: Arc<Lane>,
    number: u32,
    access: usize,
    block: Block,
}

impl Ticket {
    pub(super) fn new(lane: Arc<Lane>, access: usize, block: Block) -> Self {
        let number = {
            let mut queue = lane.queue.lock();
            queue.issued += 1;
            queue.issued - 1
        };
        Self { lane, number, access, block }
    }
}

/// Hands in a task that has run; `done` gets it, and others that waited for it, once all their replicas are combined.
///
/// `combine` does it for one access and block; it is not called for poisoned tasks, whose turn passes without effect.
pub(crate) fn combine_in_turn(
    task: OwnedTask,
    mut combine: impl FnMut(&mut OwnedTask, usize, &Block),
    mut done: impl FnMut(OwnedTask),
) {
    let mut moving = vec![task];
    while let Some(mut task) = moving.pop() {
        let Some(ticket) = task.owned_mut().as_mut().and_then(|side| side.tickets.pop()) else {
            done(task);
            continue;
        };
        let mut queue = ticket.lane.queue.lock();
        queue.early.insert(ticket.number, (task, ticket.access, ticket.block));
        loop {
            let turn = queue.turn;
            let Some((mut task, access, block)) = queue.early.remove(&turn) else { break };
            if task.poison().is_none() {
                combine(&mut task, access, &block);
            }
            queue.turn += 1;
            moving.push(task);
        }
    }
}

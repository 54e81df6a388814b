//! What the dependence layer remembers of one part of a data, and the rules by which an access changes it.
//!
//! The history of a part is a sequence of *groups*: one writer, or several tasks whose accesses join each other
//! (concurrent, commutative, or reductions with the same operation). Between groups there are readers. Only the last
//! group and the readers since matter to a newcomer:
//!
//! | newcomer | waits for | then |
//! | --- | --- | --- |
//! | `in` | the group (value) | is one of the readers |
//! | `out` | the readers, or else the group (order) | is the new group; no readers |
//! | `inout` | the readers (order) and the group (value) | is the new group; no readers |
//! | joins the group, no readers yet | what the group's first member waited for | is one of the group |
//! | `concurrent` … otherwise | as `inout` | opens a new group; no readers |
//!
//! The group under readers is waited for as well by what uses its value: a reader that ran says nothing of whether the
//! value it was given is good.

use super::reduction::{Lane, Ticket};
use super::register::Newcomer;
use super::{Mode, TaskRef};
use crate::region::Block;
use crate::sync::Flow;
use smallvec::SmallVec;
use std::sync::Arc;

/// Lists of at least this length are rid of finished tasks before they grow.
const PRUNE_AT: usize = 16;

/// The last group and its readers. Splitting a part clones its fragment.
#[derive(Clone, Default)]
pub(crate) struct Fragment {
    group: SmallVec<[TaskRef; 1]>,
    readers: SmallVec<[TaskRef; 2]>,
    /// Only of a group that others may join.
    open: Option<Box<OpenGroup>>,
}

/// What a newcomer needs to join a group.
#[derive(Clone)]
struct OpenGroup {
    mode: Mode,
    before: Vec<(TaskRef, Flow)>,
    lane: Option<Arc<Lane>>,
}

impl Fragment {
    /// Enters `task`'s access into the history; a reduction gets a ticket for its turn to combine.
    #[inline]
    pub(super) fn enter(
        &mut self,
        access: usize,
        block: Block,
        mode: Mode,
        newcomer: &mut Newcomer<'_>,
    ) -> Option<Ticket> {
        match mode {
            Mode::In => {
                for writer in &self.group {
                    newcomer.wait_for(writer, Flow::Value);
                }
                make_room(&mut self.readers, newcomer, |task| !task.is_finished());
                self.readers.push(newcomer.share());
                None
            }
            Mode::Out if self.readers.is_empty() => {
                for writer in &self.group {
                    newcomer.wait_for(writer, Flow::Order);
                }
                self.replace(newcomer);
                None
            }
            Mode::Out => {
                for reader in &self.readers {
                    newcomer.wait_for(reader, Flow::Order);
                }
                self.replace(newcomer);
                None
            }
            Mode::InOut => {
                self.wait_for_all(newcomer);
                self.replace(newcomer);
                None
            }
            Mode::Concurrent | Mode::Commutative | Mode::Reduction(_) => self.join(access, block, mode, newcomer),
        }
    }

    fn wait_for_all(&self, newcomer: &mut Newcomer<'_>) {
        for writer in &self.group {
            newcomer.wait_for(writer, Flow::Value);
        }
        for reader in &self.readers {
            newcomer.wait_for(reader, Flow::Order);
        }
    }

    #[inline]
    fn replace(&mut self, newcomer: &Newcomer<'_>) {
        self.readers.clear();
        self.open = None;
        self.group.clear();
        self.group.push(newcomer.share());
    }

    fn join(&mut self, access: usize, block: Block, mode: Mode, newcomer: &mut Newcomer<'_>) -> Option<Ticket> {
        if !(self.readers.is_empty() && self.open.as_ref().is_some_and(|open| open.mode.joins(mode))) {
            self.wait_for_all(newcomer);
            let before = (self.group.iter().map(|task| (task.clone(), Flow::Value)))
                .chain(self.readers.iter().map(|task| (task.clone(), Flow::Order)))
                .collect();
            let lane = matches!(mode, Mode::Reduction(_)).then(Arc::default);
            self.replace(newcomer);
            self.open = Some(Box::new(OpenGroup { mode, before, lane }));
        } else if let Some(open) = &mut self.open {
            for (predecessor, flow) in &open.before {
                newcomer.wait_for(predecessor, *flow);
            }
            if !newcomer.keeps_finished() {
                open.before.retain(|(task, _)| !task.is_finished() || task.poison().is_some());
            }
            make_room(&mut self.group, newcomer, |task| !task.is_finished() || task.poison().is_some());
            self.group.push(newcomer.share());
        }
        let lane = self.open.as_ref()?.lane.clone()?;
        Some(Ticket::new(lane, access, block))
    }
}

/// Forgets tasks that nobody needs to wait for, if the list is long and about to grow.
fn make_room<A: smallvec::Array<Item = TaskRef>>(
    list: &mut SmallVec<A>,
    newcomer: &Newcomer<'_>,
    keep: impl Fn(&TaskRef) -> bool,
) {
    if list.len() >= PRUNE_AT && list.len() == list.capacity() && !newcomer.keeps_finished() {
        list.retain(|task| keep(task));
    }
}

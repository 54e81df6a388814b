//! What the dependence layer remembers of one part of a data, and the rules by which an access changes it.
//!
//! The history of a part is a sequence of *groups*: one writer, or several tasks whose accesses join each other
//! (concurrent, commutative, or reductions with the same operation). Between groups there are readers. Only the last
//! group and the readers since matter to a newcomer:
//!
//! | newcomer | waits for | then |
//! | --- | --- | --- |
//! | `in` | the group (value) | is one of the readers |
//! | `after` | the group (order) | is one of the readers |
//! | `out` | the readers, or else the group (order) | is the new group; no readers |
//! | `inout` | the readers (order) and the group (value) | is the new group; no readers |
//! | `accept` | the readers and the group (order) | is the new group; no readers |
//! | joins the group, no readers yet | what the group's first member waited for | is one of the group |
//! | `concurrent` … otherwise | as `inout` | opens a new group; no readers |
//!
//! The group under readers is waited for as well by what uses its value: a reader that ran says nothing of whether the
//! value it was given is good.

use super::reduction::{Lane, Ticket};
use super::register::Newcomer;
use super::{Mode, TaskRef};
use crate::region::Part;
use crate::sync::Flow;
use smallvec::SmallVec;
use std::sync::Arc;

/// Lists of at least this length are rid of finished tasks before they grow.
const PRUNE_AT: usize = 16;

pub(super) type Tasks = SmallVec<[TaskRef; 2]>;

/// The last group and its readers. Splitting a part clones its fragment.
#[derive(Clone, Default)]
pub(crate) struct Fragment {
    /// The group's first member; most groups have no other.
    first: Option<TaskRef>,
    readers: Tasks,
    /// Only of a group that others may join.
    open: Option<Box<OpenGroup>>,
}

/// What a newcomer needs to join a group.
#[derive(Clone)]
struct OpenGroup {
    mode: Mode,
    others: Tasks,
    before: Vec<(TaskRef, Flow)>,
    lane: Option<Arc<Lane>>,
}

impl Fragment {
    /// Enters an access of `newcomer` into the history of `part`; a reduction gets a ticket for its turn to combine.
    #[inline]
    pub(super) fn enter(&mut self, access: usize, part: &Part<'_>, mode: Mode, newcomer: &mut Newcomer<'_>) {
        match mode {
            Mode::In | Mode::After => {
                self.wait_for_group(newcomer, flow(mode));
                make_room(&mut self.readers, newcomer, |task| !task.is_finished());
                self.readers.push(newcomer.share());
            }
            Mode::Out => {
                if self.readers.is_empty() {
                    self.wait_for_group(newcomer, Flow::Order);
                } else {
                    self.wait_for_readers(newcomer);
                }
                self.replace(newcomer);
            }
            Mode::InOut | Mode::Accept => {
                self.wait_for_group(newcomer, flow(mode));
                self.wait_for_readers(newcomer);
                self.replace(newcomer);
            }
            Mode::Concurrent | Mode::Commutative | Mode::Reduction(_) => self.join(access, part, mode, newcomer),
        }
    }

    /// Enters tasks that have been entered before, in another form of the history.
    pub(super) fn repeat(&mut self, writes: bool, tasks: &[TaskRef]) {
        if writes {
            self.readers.clear();
            self.first = tasks.first().cloned();
        } else {
            self.readers.extend(tasks.iter().cloned());
        }
    }

    #[inline]
    fn wait_for_group(&self, newcomer: &mut Newcomer<'_>, flow: Flow) {
        if let Some(first) = &self.first {
            newcomer.wait_for(first, flow);
        }
        if let Some(open) = &self.open {
            open.others.iter().for_each(|other| newcomer.wait_for(other, flow));
        }
    }

    #[inline]
    fn wait_for_readers(&self, newcomer: &mut Newcomer<'_>) {
        for reader in &self.readers {
            newcomer.wait_for(reader, Flow::Order);
        }
    }

    #[inline]
    fn replace(&mut self, newcomer: &mut Newcomer<'_>) {
        self.readers.clear();
        if self.open.is_some() {
            self.open = None;
        }
        self.first = Some(newcomer.share());
    }

    fn join(&mut self, access: usize, part: &Part<'_>, mode: Mode, newcomer: &mut Newcomer<'_>) {
        match &mut self.open {
            Some(open) if self.readers.is_empty() && open.mode.joins(mode) => {
                for (predecessor, flow) in &open.before {
                    newcomer.wait_for(predecessor, *flow);
                }
                if !newcomer.keeps_finished() {
                    open.before.retain(|(task, _)| !task.is_finished() || task.poison().is_some());
                }
                make_room(&mut open.others, newcomer, |task| !task.is_finished() || task.poison().is_some());
                open.others.push(newcomer.share());
            }
            _ => self.open_group(mode, newcomer),
        }
        if let Some(lane) = self.open.as_ref().and_then(|open| open.lane.clone()) {
            newcomer.keep(Ticket::new(lane, access, part.block()));
        }
    }

    /// Begins a group that others may join.
    fn open_group(&mut self, mode: Mode, newcomer: &mut Newcomer<'_>) {
        self.wait_for_group(newcomer, Flow::Value);
        self.wait_for_readers(newcomer);
        let others = self.open.take().map(|open| open.others).unwrap_or_default();
        let group = self.first.take().into_iter().chain(others).map(|task| (task, Flow::Value));
        let before = group.chain(self.readers.drain(..).map(|task| (task, Flow::Order))).collect();
        let lane = matches!(mode, Mode::Reduction(_)).then(Arc::default);
        self.replace(newcomer);
        self.open = Some(Box::new(OpenGroup { mode, others: Tasks::new(), before, lane }));
    }
}

/// What an access with this mode takes over from the last group.
#[inline]
pub(super) fn flow(mode: Mode) -> Flow {
    if mode.relies_on_value() { Flow::Value } else { Flow::Order }
}

/// Forgets tasks that nobody needs to wait for, if the list is long and about to grow.
#[inline]
pub(super) fn make_room(list: &mut Tasks, newcomer: &Newcomer<'_>, keep: impl Fn(&TaskRef) -> bool) {
    if list.len() >= PRUNE_AT && list.len() == list.capacity() && !newcomer.keeps_finished() {
        list.retain(|task| keep(task));
    }
}

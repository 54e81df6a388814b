//! From recorded tasks to a graph that stays: edges, and a border.

use super::border::Part;
use super::{Fringe, Gate, Poison};
use crate::depend::commutative::Turns;
use crate::depend::join::{bodiless, starter};
use crate::depend::node::{Node, Own, OwnedTask, Side, Submitting, Task, TaskRef};
use crate::depend::reduction::{Tickets, issue_again};
use crate::depend::register::register;
use crate::depend::{AccessRecord, Datum, Mode};
use crate::region::Block;
use crate::sync::{Helper, Pooled, Rounds};
use std::sync::Arc;

/// What keeps a data object registered.
pub(crate) trait Keeps: Send + Sync {
    fn datum(&self) -> &Datum;
}

/// A graph to which tasks are added.
pub(crate) struct Freezer {
    fringe: Fringe,
    data: Vec<FrozenData>,
    tasks: Vec<TaskRef>,
    ready: Vec<OwnedTask>,
    queued: Vec<Queued>,
}

/// What a task needs each time beside its edges.
struct Queued {
    task: usize,
    turns: Turns,
    tickets: Tickets,
}

/// A data object of a recording.
struct FrozenData {
    keeps: Arc<dyn Keeps>,
    /// With a history of its own.
    apart: Box<Datum>,
    /// An empty region of it that a task declares.
    nothing: Option<Block>,
}

/// A graph that runs any number of times.
pub(crate) struct Frozen {
    pub(super) rounds: Rounds<Node>,
    data: Vec<Arc<dyn Keeps>>,
    pub(super) border: Vec<Part>,
    queued: Vec<Queued>,
}

impl Freezer {
    /// A graph of the tasks that have been entered here.
    pub(crate) fn new(fringe: Fringe) -> Self {
        Self { fringe, data: Vec::new(), tasks: Vec::new(), ready: Vec::new(), queued: Vec::new() }
    }

    /// How many tasks were added.
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Adds the next task, with its regions. None of them is weak, or accumulates.
    pub(crate) fn add<K: Keeps + 'static>(&mut self, mut task: Submitting, regions: Vec<(K, Block, Mode)>) {
        let mut places = Vec::new();
        for (keeps, block, mode) in regions {
            let at = self.fringe.number_of(keeps.datum().id);
            if at == self.data.len() {
                let apart = Box::new(keeps.datum().alike());
                self.data.push(FrozenData { keeps: Arc::new(keeps), apart, nothing: None });
            }
            places.push((at, block, mode));
        }
        for (at, block, _) in &places {
            let data = &mut self.data[*at];
            data.nothing = data.nothing.or_else(|| block.is_empty().then_some(*block));
        }
        let records: Vec<_> = places
            .iter()
            .map(|(at, block, mode)| AccessRecord { datum: &self.data[*at].apart, block, mode: *mode })
            .collect();
        let left = register(&mut task, &records, None, None).expect("nobody takes what nobody else knows");
        debug_assert!(left.is_none(), "what accumulates is not frozen");
        if let Some(side) = &mut **task.owned_mut() {
            let (turns, tickets) = (std::mem::take(&mut side.turns), std::mem::take(&mut side.tickets));
            self.queued.push(Queued { task: self.tasks.len(), turns, tickets });
        }
        self.tasks.push(task.share());
        self.ready.extend(task.commit());
    }

    /// The graph, with this in its last task.
    pub(super) fn close(self, last: Gate) -> Frozen {
        let Self { fringe, data, tasks, ready, queued } = self;
        let (mut border, mut kept) = (Vec::new(), Vec::new());
        for (at, FrozenData { keeps, apart, nothing }) in data.into_iter().enumerate() {
            drop(apart);
            fringe.peek(at, |block, cell| border.extend(cell.part(at, block)));
            border.extend(nothing.map(|block| Part::looked_on(at, block)));
            kept.push(keeps);
        }
        let mut last = Some(last);
        let rounds = Rounds::new(tasks, ready, |helper| {
            let gate = if helper == Helper::Last { last.take() } else { None };
            let side = gate.map(|gate| Pooled::new(Side { gate: Some(gate), ..Side::default() }));
            let own = Own { side, child: None };
            if helper == Helper::Starter { starter(own) } else { bodiless(own, |_| ()) }
        });
        Frozen { rounds, data: kept, border, queued }
    }
}

impl Frozen {
    /// How many parts the border has.
    pub(super) fn parts(&self) -> usize {
        self.border.len()
    }

    /// The data object with this number.
    pub(super) fn datum(&self, number: usize) -> &Datum {
        self.data[number].datum()
    }

    /// The handle that keeps this data object registered.
    pub(super) fn kept(&self, number: usize) -> Arc<dyn Keeps> {
        self.data[number].clone()
    }

    /// How many data objects there are.
    pub(super) fn data(&self) -> usize {
        self.data.len()
    }

    /// The tasks that use what others have left in a part of the border.
    pub(super) fn readers(&self, part: usize) -> impl Iterator<Item = &Task> {
        self.border[part].readers.iter().map(|task| self.rounds.task(*task as usize))
    }

    /// Before a round: tasks that wait for turns get new ones, behind those of the round before.
    pub(super) fn queue_again(&mut self) {
        for Queued { task, turns, tickets } in &mut self.queued {
            if let Some(side) = self.rounds.owned_mut(*task).and_then(|own| own.side.as_mut()) {
                let issued = issue_again(tickets);
                (side.turns, side.tickets) = (turns.again(), issued);
            }
        }
    }

    /// After a round: why parts are not good, as they were before.
    pub(super) fn outcome(&self, poison: &mut Poison) {
        poison.resize(self.parts(), None);
        for (part, cause) in self.border.iter().zip(poison) {
            if let Some(writers) = &part.writers {
                *cause = writers.iter().find_map(|task| self.rounds.task(*task as usize).poison());
            }
        }
    }
}

//! Freezing of recorded tasks: their edges and their border become a reusable graph.

use super::border::Part;
use super::{Fringe, Gate, Poison};
use crate::depend::join::{bodiless, starter};
use crate::depend::node::{Node, Own, OwnedTask, Side, Submitting, Task, TaskRef};
use crate::depend::recorder::Recorder;
use crate::depend::reduction::{Tickets, issue_again};
use crate::depend::register::register;
use crate::depend::turns::Turns;
use crate::depend::{AccessRecord, Datum, Mode};
use crate::error::TaskFailure;
use crate::ids::TaskId;
use crate::region::Block;
use crate::sync::{Helper, Pooled, Rounds};
use crate::trace::Tracer;
use std::sync::Arc;

/// A handle that keeps a data object registered.
pub(crate) trait Keeps: Send + Sync {
    fn datum(&self) -> &Datum;
}

/// A graph under construction, to which tasks are added.
pub(crate) struct Freezer {
    fringe: Fringe,
    data: Vec<FrozenData>,
    tasks: Vec<TaskRef>,
    ready: Vec<OwnedTask>,
    queued: Vec<Queued>,
    recorder: Option<Recorder>,
}

/// State that a task needs again in each round, in addition to its edges.
struct Queued {
    task: usize,
    turns: Turns,
    tickets: Tickets,
}

/// A data object of a recording.
struct FrozenData {
    keeps: Arc<dyn Keeps>,
    /// A stand-in for the data object, with a separate history.
    apart: Box<Datum>,
    /// An empty region of the data object that some task declares, if any.
    nothing: Option<Block>,
}

/// A graph that can run any number of times.
pub(crate) struct Frozen {
    pub(super) rounds: Rounds<Node>,
    data: Vec<Arc<dyn Keeps>>,
    pub(super) border: Vec<Part>,
    queued: Vec<Queued>,
}

impl Freezer {
    /// Begins a graph of the tasks that have been entered into `fringe`. Tasks and edges are recorded in `recorder`.
    pub(crate) fn new(fringe: Fringe, recorder: Option<Recorder>) -> Self {
        Self { fringe, data: Vec::new(), tasks: Vec::new(), ready: Vec::new(), queued: Vec::new(), recorder }
    }

    /// Returns the trace in which the graph is recorded.
    pub(super) fn tracer(&self) -> Option<Arc<Tracer>> {
        self.recorder.as_ref().and_then(|recorder| recorder.tracer.clone())
    }

    /// Returns the ID of the first task.
    pub(super) fn first(&self) -> TaskId {
        self.tasks.first().map_or(TaskId(0), |task| task.shared().id)
    }

    /// Returns the number of tasks added so far.
    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Adds the next task, with its regions. None of the accesses may be weak or accumulating.
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
        let recorder = self.recorder.as_ref();
        let left = register(&mut task, &records, recorder, None).expect("a private data object is never taken");
        recorder.into_iter().for_each(|recorder| recorder.task(&task, || None));
        debug_assert!(left.is_none(), "accumulating tasks are not frozen");
        if let Some(side) = &mut **task.owned_mut() {
            let (turns, tickets) = (std::mem::take(&mut side.turns), std::mem::take(&mut side.tickets));
            self.queued.push(Queued { task: self.tasks.len(), turns, tickets });
        }
        self.tasks.push(task.share());
        self.ready.extend(task.commit());
    }

    /// Completes the graph; its last task gets the gate `last`.
    pub(super) fn close(self, last: Gate) -> Frozen {
        let Self { fringe, data, tasks, ready, queued, recorder } = self;
        let (mut border, mut kept) = (Vec::new(), Vec::<Arc<dyn Keeps>>::new());
        for (at, FrozenData { keeps, apart, nothing }) in data.into_iter().enumerate() {
            drop(apart);
            fringe.peek(at, |block, cell| border.extend(cell.part(at, block)));
            border.extend(nothing.map(|block| Part::looked_on(at, block)));
            kept.push(keeps);
        }
        if let Some(recorder) = recorder {
            recorder.border(border.iter().map(|part: &Part| (part.traced(), kept[part.data].datum())));
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
    /// The number of parts of the border.
    pub(super) fn parts(&self) -> usize {
        self.border.len()
    }

    /// Returns the ID of the first task.
    pub(super) fn first(&self) -> TaskId {
        self.rounds.task(0).shared().id
    }

    /// Returns the data object with this index.
    pub(super) fn datum(&self, number: usize) -> &Datum {
        self.data[number].datum()
    }

    /// Returns the handle that keeps this data object registered.
    pub(super) fn kept(&self, number: usize) -> Arc<dyn Keeps> {
        self.data[number].clone()
    }

    /// The number of data objects.
    pub(super) fn data(&self) -> usize {
        self.data.len()
    }

    /// Visits the tasks that use the earlier contents of a part of the border.
    pub(super) fn readers(&self, part: usize) -> impl Iterator<Item = &Task> {
        self.border[part].readers.iter().map(|task| self.rounds.task(*task as usize))
    }

    /// Called before a round. Gives tasks that take turns new turns, which come after those of the previous round.
    pub(super) fn queue_again(&mut self) {
        for Queued { task, turns, tickets } in &mut self.queued {
            if let Some(side) = self.rounds.owned_mut(*task).and_then(|own| own.side.as_mut()) {
                let issued = issue_again(tickets);
                (side.turns, side.tickets) = (turns.again(), issued);
            }
        }
    }

    /// Returns the reason why one of the first `tasks` tasks failed or was skipped in the last round, if one did.
    pub(super) fn failure(&self, tasks: usize) -> Option<Arc<TaskFailure>> {
        (0..tasks).find_map(|task| self.rounds.task(task).poison())
    }

    /// Marks all parts that the graph writes as bad, for this reason.
    pub(super) fn spoil(&self, poison: &mut Poison, cause: &Arc<TaskFailure>) {
        let written = self.border.iter().zip(poison).filter(|(part, _)| part.writers.is_some());
        written.for_each(|(_, left)| *left = Some(cause.clone()));
    }

    /// Called after a round. Writes to `poison` why parts are bad; parts that the graph does not write keep their
    /// entries.
    pub(super) fn outcome(&self, poison: &mut Poison) {
        poison.resize(self.parts(), None);
        for (part, cause) in self.border.iter().zip(poison) {
            if let Some(writers) = &part.writers {
                *cause = writers.iter().find_map(|task| self.rounds.task(*task as usize).poison());
            }
        }
    }
}

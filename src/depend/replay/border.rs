//! The border of a frozen graph, where it meets earlier and later tasks: parts of data, with their first and last
//! users.

use super::{Frozen, Gate, Keeps, Poison, Replays};
use crate::depend::join::bodiless;
use crate::depend::node::{Own, OwnedTask, Side, Submitting};
use crate::depend::recorder::Recorder;
use crate::depend::register::{Newcomer, taken};
use crate::depend::{AccessRecord, Mode};
use crate::error::SubmitError;
use crate::ids::TaskId;
use crate::region::Block;
use crate::sync::Pooled;
use crate::trace::{BorderPart, GateRole, Tracer};
use smallvec::SmallVec;
use std::sync::Arc;

/// Indices of a graph's tasks.
type Numbers = SmallVec<[u32; 2]>;

/// How a graph uses one part of a data object, collected while the graph is built.
#[derive(Clone, Default)]
pub(super) struct Cell {
    is_used: bool,
    /// Tasks that use contents from before the graph.
    readers: Numbers,
    /// Tasks of the last writing group.
    writers: Numbers,
    /// Tasks of the first writing group.
    first_writers: Numbers,
    /// Tasks that use the part after the last writing group without writing it.
    last_readers: Numbers,
    /// The mode of that group, if no other task has come after it.
    open: Option<Mode>,
    /// Whether that group is the first to write the part, so that its members find the contents from before the graph.
    is_first: bool,
}

/// A part of a data object that a graph uses uniformly.
pub(super) struct Part {
    /// Index of the data object in the graph.
    pub(super) data: usize,
    block: Block,
    /// Tasks that use contents from before the graph.
    pub(super) readers: Numbers,
    /// Tasks of the last writing group; `None` if no task writes the part.
    pub(super) writers: Option<Numbers>,
    /// Tasks of the first writing group.
    first_writers: Numbers,
    /// Tasks that use the part after the last writing group without writing it.
    last_readers: Numbers,
}

/// Result of entering a border.
pub(super) struct Entered {
    /// Total number of entries and gates.
    pub(super) tasks: usize,
    pub(super) ready: Vec<OwnedTask>,
    pub(super) joins: Vec<OwnedTask>,
}

impl Cell {
    /// Enters an access of the next task, which has this index.
    pub(super) fn enter(&mut self, task: u32, mode: Mode) {
        let joins = self.open.is_some_and(|open| mode.writes() && open.shares_group(mode));
        let is_given = self.writers.is_empty() || joins && self.is_first;
        if is_given && mode.relies_on_value() {
            self.readers.push(task);
        }
        if !mode.writes() {
            self.open = None;
            self.last_readers.push(task);
        } else if joins {
            self.writers.push(task);
        } else {
            self.is_first = self.writers.is_empty();
            self.writers.clear();
            self.writers.push(task);
            self.last_readers.clear();
            self.open = Some(mode);
        }
        if mode.writes() && self.is_first {
            self.first_writers.clone_from(&self.writers);
        }
        self.is_used = true;
    }

    /// Whether any task uses the part.
    pub(super) fn is_used(&self) -> bool {
        self.is_used
    }

    /// Returns the last task and its mode, if other tasks may join it.
    pub(super) fn open_group(&self) -> Option<(u32, Mode)> {
        self.writers.last().copied().zip(self.open.filter(|open| open.shares_group(*open)))
    }

    /// Returns the part of the data object with this index, if it is used.
    pub(super) fn part(&self, data: usize, block: Block) -> Option<Part> {
        self.is_used.then(|| Part {
            data,
            block,
            readers: self.readers.clone(),
            writers: (!self.writers.is_empty()).then(|| self.writers.clone()),
            first_writers: self.first_writers.clone(),
            last_readers: self.last_readers.clone(),
        })
    }
}

impl Part {
    /// Makes a part for an empty region of a data object, which must not be given up before the graph has ended.
    pub(super) fn looked_on(data: usize, block: Block) -> Self {
        let [readers, first_writers, last_readers] = Default::default();
        Self { data, block, readers, writers: None, first_writers, last_readers }
    }

    /// Returns how the graph uses the part, for a trace.
    pub(super) fn traced(&self) -> BorderPart {
        BorderPart {
            readers: self.readers.to_vec(),
            first_writers: self.first_writers.to_vec(),
            writers: self.writers.iter().flatten().copied().collect(),
            last_readers: self.last_readers.to_vec(),
            ..BorderPart::default()
        }
    }
}

/// Makes a bodiless task with the access by which it is entered. The access matters if the task waits for a reader that
/// leaves children: the task then also waits for the children that read the part.
fn gate_at(own: Own, kept: Arc<dyn Keeps>, block: Block, mode: Mode) -> Submitting {
    bodiless(own, move |visit| visit(AccessRecord { datum: kept.datum(), block: &block, mode }))
}

/// Enters the border of a batch into the histories of all its data objects at once. Parts that are known to be bad
/// become bad for all later tasks. If entries are requested, the batch learns whether the contents that it reads are
/// good. If no batch is given, no part is held.
///
/// `log` is a trace, and the first task of one of the batch's replays. The trace shows which later tasks wait for the
/// graph's last readers of a part rather than for its last writers. For this, the last readers get a separate gate,
/// which waits for nothing.
///
/// # Errors
/// Returns an error if a data object was taken; in that case nothing was entered.
pub(super) fn enter(
    frozen: &Frozen,
    replays: &Arc<Replays>,
    batch: Option<u64>,
    poison: &Poison,
    entries: bool,
    log: Option<(&Arc<Tracer>, TaskId)>,
) -> Result<Entered, SubmitError> {
    let mut order: Vec<usize> = (0..frozen.data()).collect();
    order.sort_by_key(|data| std::ptr::from_ref(frozen.datum(*data)).addr());
    let mut histories: Vec<_> = (0..frozen.data()).map(|_| None).collect();
    for data in order {
        let datum = frozen.datum(data);
        let history = datum.history.lock();
        if datum.is_taken() {
            return Err(taken(&bodiless(Own::default(), |_| ()), datum));
        }
        histories[data] = Some(history);
    }
    let mut entered = Entered { tasks: 0, ready: Vec::new(), joins: Vec::new() };
    let mut eldest = None;
    let log = log.filter(|_| batch.is_some());
    let recorders = log.map(|(tracer, _)| [false, true].map(|is_free| Recorder::of_gates(tracer, is_free)));
    for (number, part) in frozen.border.iter().enumerate() {
        let history = histories[part.data].as_mut().expect("all of them are locked");
        let mut enter = |mode, gate: Option<Gate>, role: GateRole| {
            let side = gate.map(|gate| Pooled::new(Side { gate: Some(gate), ..Side::default() }));
            let mut task = gate_at(Own { side, child: None }, frozen.kept(part.data), part.block, mode);
            let records = [AccessRecord { datum: frozen.datum(part.data), block: &part.block, mode }];
            if let Some(Some(cause)) = poison.get(number) {
                task.set_poison(cause.clone());
            }
            let eldest = *eldest.get_or_insert(task.shared().id);
            task.owned_mut().iter_mut().for_each(|side| side.eldest = Some(eldest));
            if let Some((tracer, replay)) = log {
                tracer.gate(task.shared().id, (frozen.first(), replay), number, role);
            }
            let recorder = recorders.as_ref().map(|all| &all[usize::from(role == GateRole::LastReaders)]);
            let mut newcomer = Newcomer::new(&mut task, &records, recorder);
            history.enter(0, &records[0], &mut newcomer);
            let left = newcomer.settle();
            entered.joins.extend(left.into_iter().flat_map(|left| left.joins));
            entered.ready.extend(task.commit());
            entered.tasks += 1;
        };
        let border = || batch.map(|batch| Gate::Border(replays.clone(), batch, number));
        match (&part.writers, part.readers.is_empty()) {
            (None, true) => enter(Mode::After, border(), GateRole::Border),
            (None, false) => enter(Mode::In, border(), GateRole::Border),
            (Some(_), false) if entries => {
                let entry = batch.map(|batch| Gate::Entry(replays.clone(), batch, number));
                enter(Mode::In, entry, GateRole::Entry);
                enter(Mode::Out, border(), GateRole::Border);
            }
            (Some(_), _) => enter(Mode::Out, border(), GateRole::Border),
        }
        if part.writers.is_some() && !part.last_readers.is_empty() && log.is_some() {
            enter(Mode::In, border(), GateRole::LastReaders);
        }
    }
    Ok(entered)
}

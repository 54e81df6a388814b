//! How a graph uses each part of its data, and a check that the graph is self-contained: groups of tasks that access a
//! part together (`concurrent`, `commutative`, reductions) might extend beyond the graph.
//!
//! A group that is open when a replay begins would admit the replay's tasks, and a group that is still open when the
//! replay ends would admit later tasks, including tasks of the next replay. Group members are not ordered among
//! themselves and do not pass on each other's failures. But a frozen graph is a single unit to all other tasks, each of
//! which comes before or after the whole graph. Therefore a graph cannot be frozen if a group extends into it or out of
//! it.

use super::border::Cell;
use crate::depend::{AccessRecord, Mode};
use crate::ids::DataId;
use crate::region::{Block, RegionMap};
use rustc_hash::FxHashMap;

/// The parts of a graph's data, while tasks are added in order.
#[derive(Default)]
pub(crate) struct Fringe {
    known: FxHashMap<DataId, usize>,
    data: Vec<(Block, RegionMap<Cell>)>,
    /// Task index and mode of the earliest access that belongs to a group and is the first access to its part.
    first: Option<(u32, Mode)>,
}

impl Fringe {
    /// Enters an access of the next task, which has this index.
    pub(crate) fn enter(&mut self, task: u32, access: &AccessRecord<'_>) {
        let AccessRecord { datum, block, mode } = *access;
        let Self { known, data, first } = self;
        let at = *known.entry(datum.id).or_insert_with(|| {
            data.push((datum.whole(), RegionMap::new(datum.whole(), datum.ndim(), Cell::default())));
            data.len() - 1
        });
        let group = (mode.writes() && mode.shares_group(mode)).then_some((task, mode));
        data[at].1.visit(block, |_, cell| {
            if !cell.is_used() && first.is_none() {
                *first = group;
            }
            cell.enter(task, mode);
        });
    }

    /// Returns the index of a data object. Data objects are indexed in the order of their first use.
    pub(super) fn number_of(&self, data: DataId) -> usize {
        self.known[&data]
    }

    /// Visits each part of the data object with this index, and how the graph uses the part.
    pub(super) fn peek(&self, data: usize, visit: impl FnMut(Block, &Cell)) {
        let (whole, cells) = &self.data[data];
        cells.peek(whole, visit);
    }

    /// Returns a task that may share a group with tasks outside the graph, and its access mode.
    pub(crate) fn group_outside(&self) -> Option<(u32, Mode)> {
        let mut found = self.first;
        let mut look = |open: (u32, Mode)| found = Some(found.filter(|found| found.0 <= open.0).unwrap_or(open));
        for data in 0..self.data.len() {
            self.peek(data, |_, cell| cell.open_group().into_iter().for_each(&mut look));
        }
        found
    }
}

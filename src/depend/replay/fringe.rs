//! The use that a graph makes of each part of its data, and whether the graph is self-contained: groups of tasks that
//! access a part together (`concurrent`, `commutative`, reductions) may extend beyond it.
//!
//! A group that is open where a replay begins takes in the replay's tasks, and a group that is open at its end takes
//! in later tasks, including those of the next replay. Members need no order among themselves, and do not pass each
//! other's failures on. To the tasks around it, a frozen graph is a unit: they come before or after all of it. So a
//! graph is not frozen if such a group extends into it or out of it.

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
    /// The task and mode of the earliest access that belongs to a group and is the first to a part.
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
        let group = (mode.writes() && mode.joins(mode)).then_some((task, mode));
        data[at].1.visit(block, |_, cell| {
            if !cell.is_used() && first.is_none() {
                *first = group;
            }
            cell.enter(task, mode);
        });
    }

    /// Returns the index of a data object; they are numbered in the order in which they were met.
    pub(super) fn number_of(&self, data: DataId) -> usize {
        self.known[&data]
    }

    /// Visits the use that the graph makes of each part of the data object with this index.
    pub(super) fn peek(&self, data: usize, visit: impl FnMut(Block, &Cell)) {
        let (whole, cells) = &self.data[data];
        cells.peek(whole, visit);
    }

    /// Returns a task that may belong to a group with tasks around the graph, and its access mode.
    pub(crate) fn group_outside(&self) -> Option<(u32, Mode)> {
        let mut found = self.first;
        let mut look = |open: (u32, Mode)| found = Some(found.filter(|found| found.0 <= open.0).unwrap_or(open));
        for data in 0..self.data.len() {
            self.peek(data, |_, cell| cell.open_group().into_iter().for_each(&mut look));
        }
        found
    }
}

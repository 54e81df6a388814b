//! How a graph uses each part of its data, and whether it stands by itself: groups of tasks that access a part together
//! (`concurrent`, `commutative`, reductions) may go on beyond it.
//!
//! A group that is open where a replay begins takes in the replay's tasks, and one that is open at its end those that come
//! behind, the next replay's too. Members need no order among themselves, and do not hand on each other's failures. A graph
//! that stays is one to those around it: they come before or behind all of it. So one that such a group reaches into, or out
//! of, is not frozen.

use super::border::Cell;
use crate::depend::{AccessRecord, Mode};
use crate::ids::DataId;
use crate::region::{Block, RegionMap};
use rustc_hash::FxHashMap;

/// The parts of a graph's data, while tasks are added in their order.
#[derive(Default)]
pub(crate) struct Fringe {
    known: FxHashMap<DataId, usize>,
    data: Vec<(Block, RegionMap<Cell>)>,
    /// The first access to a part that belongs to a group, and whose it is.
    first: Option<(u32, Mode)>,
}

impl Fringe {
    /// The task with this number, which comes next, accesses this.
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

    /// The number of a data object, in the order in which they were met.
    pub(super) fn number_of(&self, data: DataId) -> usize {
        self.known[&data]
    }

    /// Visits how the graph uses each part of the data object with this number.
    pub(super) fn peek(&self, data: usize, visit: impl FnMut(Block, &Cell)) {
        let (whole, cells) = &self.data[data];
        cells.peek(whole, visit);
    }

    /// A task that may belong to a group with others around the graph, and how it accesses the part.
    pub(crate) fn group_outside(&self) -> Option<(u32, Mode)> {
        let mut found = self.first;
        let mut look = |open: (u32, Mode)| found = Some(found.filter(|found| found.0 <= open.0).unwrap_or(open));
        for data in 0..self.data.len() {
            self.peek(data, |_, cell| cell.open_group().into_iter().for_each(&mut look));
        }
        found
    }
}

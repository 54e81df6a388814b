//! Whether a graph stands by itself: groups of tasks that access a part together (`concurrent`, `commutative`, reductions)
//! may go on beyond it.
//!
//! A group that is open where a replay begins takes in the replay's tasks, and one that is open at its end those that come
//! behind, the next replay's too. Members need no order among themselves, and do not hand on each other's failures. A graph
//! that stays is one to those around it: they come before or behind all of it. So one that such a group reaches into, or out
//! of, is not frozen.

use crate::depend::{AccessRecord, Mode};
use crate::ids::DataId;
use crate::region::{Block, RegionMap};
use rustc_hash::FxHashMap;

/// Tasks of a graph in their order, as far as they begin and end groups.
#[derive(Default)]
pub(crate) struct Fringe {
    data: FxHashMap<DataId, (Block, RegionMap<Cell>)>,
    /// The first access to a part that belongs to a group, and whose it is.
    first: Option<(usize, Mode)>,
}

/// What is known of one part.
#[derive(Clone, Default)]
struct Cell {
    is_used: bool,
    /// The last access, if it belongs to a group.
    open: Option<(usize, Mode)>,
}

impl Fringe {
    /// The task with this number, which comes next, accesses this.
    pub(crate) fn enter(&mut self, task: usize, access: &AccessRecord<'_>) {
        let AccessRecord { datum, block, mode } = *access;
        let cells = || (datum.whole(), RegionMap::new(datum.whole(), datum.ndim(), Cell::default()));
        let (_, cells) = self.data.entry(datum.id).or_insert_with(cells);
        let group = (mode.writes() && mode.joins(mode)).then_some((task, mode));
        let first = &mut self.first;
        cells.visit(block, |_, cell| {
            if !cell.is_used && first.is_none() {
                *first = group;
            }
            (cell.is_used, cell.open) = (true, group);
        });
    }

    /// A task that may belong to a group with others around the graph, and how it accesses the part.
    pub(crate) fn group_outside(&self) -> Option<(usize, Mode)> {
        let mut found = self.first;
        for (whole, cells) in self.data.values() {
            let mut look = |open: (usize, Mode)| found = Some(found.filter(|found| found.0 <= open.0).unwrap_or(open));
            cells.peek(whole, |_, cell| cell.open.into_iter().for_each(&mut look));
        }
        found
    }
}
